"""The study of segments: a fair order, exact text, resumption after a kill, and its intervals."""

import gzip
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import answers, answers_table, answers_text, workers
from benchmarks.answers_cuts import Also, TokenStride
from benchmarks.answers_plan import ARMS, CUTS, NATURAL, RIVALS, STUDIES
from benchmarks.answers_table import ALL, rival_of
from segmenters import LaTeXProofs, Newline
from tests.processes import Popen
from train.data import TrainBPE
from train.disk.files import read_lines
from train.evals.rows import half_width

ROOT = Path(__file__).parents[1]
LIMIT_S = 900
LATEX = """Let $f$ be a map. Then
$$
f(x) = x.
$$
\\begin{align}
a &= b \\\\
c &= d.
\\end{align}
Thus it holds.

\\begin{proof} Clear. \\end{proof}
"""


@pytest.mark.parametrize("study", STUDIES)
def test_a_rival_is_planned_beside_every_arm_and_seeds_come_in_turn(study):
    runs = STUDIES[study]
    assert len({run.name for run in runs}) == len(runs)
    assert {run.arm for run in runs} == ARMS[study].keys()
    planned = {(run.arm, run.seed, run.tokens) for run in runs}
    for run in runs:
        assert (rival_of(study, run.arm), run.seed, run.tokens) in planned
        assert math.isclose(sum(run.shares.values()), 1)
    for arm in ARMS[study]:
        seeds = [run.seed for run in runs if run.arm == arm]
        assert seeds == list(range(len(seeds)))


def test_four_arms_of_a_seed_come_before_the_next_seed():
    four = {"natural", "newline", "shuffled", "flat"}
    for first in (0, 4):
        runs = STUDIES["A"][first : first + 4]
        assert {run.arm for run in runs} == four and len({run.seed for run in runs}) == 1
    core = [run for run in STUDIES["A"] if run.arm in four]
    assert len(core) == 16 and all(a.seed <= b.seed for a, b in pairwise(core))
    assert sum(run.arm.startswith("alibi_") for run in STUDIES["A"]) == 9


def test_strides_count_tokens_and_more_ends_keep_the_others(tmp_path):
    tokenizer = TrainBPE(vocab_size=300).build(lambda most: [LATEX])
    text = LATEX * 3
    ((ids, anchors),) = tokenizer.encode_documents([text])
    file = tmp_path / "tokenizer.json"
    file.write_text(tokenizer.json)
    cuts = TokenStride(length=4, tokenizer=str(file)).cut(text)
    places = np.searchsorted(anchors, cuts[:-1])
    assert (np.diff(places) == 4).all() and len(ids) - places[-1] <= 4
    natural = {*LaTeXProofs().cut(text).tolist()}
    lines = {*Newline().cut(text).tolist()}
    assert {*Also(of=LaTeXProofs(), ends="\n").cut(text).tolist()} == natural | lines
    pattern = CUTS["latex_displays"].segmenters["latex"]["ends"]
    finer = Also(of=LaTeXProofs(), ends=pattern).cut(LATEX).tolist()
    ends = {LATEX.index("$$"), LATEX.index("\\begin{align}"), LATEX.index("c &=")}
    assert ends | {LATEX.index("Thus")} <= {*finer} and LATEX.index("f(x)") in finer


def test_every_way_to_cut_changes_a_source():
    text = {name: {"test": [], "validation": []} for name in NATURAL}
    corpora = {
        name: json.dumps(answers.corpus_of(cuts, text, Path("text"), {"path": "tokenizer.json"}))
        for name, cuts in CUTS.items()
    }
    assert len({*corpora.values()}) == len(corpora)


def test_documents_are_joined_and_cut_but_no_text_is_lost():
    drawn = random.Random(0)
    files = [
        (
            f"f{n}",
            "".join(f"{'word ' * drawn.randint(1, 9)}\n\n" for _ in range(drawn.randint(1, 80))),
        )
        for n in range(60)
    ]
    documents = list(answers_text.joined(files, size=500))
    whole, read = "".join(text for _, text in files), "".join(text for _, text in documents)
    assert len({id for id, _ in documents}) == len(documents)
    assert all(len(text) >= 500 for _, text in documents)
    words = read.split()
    assert whole.split()[: len(words)] == words and len(whole.split()) - len(words) < 200
    long = "".join(f"{n}\n\n" for n in range(2000))
    pieces = list(answers_text.cut(long, 500))
    assert "".join(pieces) == long and all(piece.endswith("\n\n") for piece in pieces)
    assert answers_text.drawn("s", documents) == answers_text.drawn("s", documents[::-1])


def test_held_out_text_is_in_every_part_and_the_rest_is_shared_out(tmp_path, monkeypatch):
    monkeypatch.setattr(answers_text, "SIZE", 100)
    origin = answers_text.Origin(share=1.0, segmenter="Sentences", unwrapped=True)
    monkeypatch.setattr(answers_text, "SOURCES", {"prose": origin})
    with gzip.open(tmp_path / "prose.jsonl.gz", "wt") as file:
        for number in range(200):
            text = f"Number {number} is\nwrapped here. " * 5
            file.write(json.dumps({"text": f"{text}\n\nTwo.\n"}) + "\n")
    made = answers_text.build(tmp_path / "out", tmp_path, characters=8000)
    again = answers_text.build(tmp_path / "more", tmp_path, characters=8000)
    assert made == again
    lines = {part: read_lines(tmp_path / "out" / part / "prose.jsonl") for part in (".", "quarter")}
    held = {*made["prose"]["test"], *made["prose"]["validation"]}
    assert len(held) == answers_text.HELD + answers_text.VALIDATION
    for part, rows in lines.items():
        assert held <= {row["id"] for row in rows}
        assert all("is wrapped" in row["text"] and "\n\nTwo." in row["text"] for row in rows)
        size = sum(len(row["text"]) for row in rows if row["id"] not in held)
        limit = {".": 8000, "quarter": 2000}[part]
        assert limit <= size < limit + max(len(row["text"]) for row in rows)
    assert {row["id"] for row in lines["quarter"]} <= {row["id"] for row in lines["."]}


def _row(arm, seed, nats, tokens):
    cells = {"prose": {"512": nats}}
    return {
        "arm": arm, "seed": seed, "tokens": 100,
        "perplexity": {"prose": {"512": math.exp(sum(nats) / sum(tokens))}},
        "document_nats": cells, "document_tokens": {"prose": {"512": [*tokens]}},
        "tokens_per_segment": {"prose": 20.0}, "curve": {"prose": [4.0 + seed + len(arm)] * 8},
    }  # fmt: skip


def _toy_rows(seeds=3, documents=30):
    drawn = np.random.default_rng(1)
    tokens = drawn.integers(50, 500, documents).tolist()
    return tokens, [
        _row(arm, seed, [n * (4 + shift + drawn.normal(0, 0.05)) for n in tokens], tokens)
        for seed in range(seeds)
        for arm, shift in (("natural", 0.0), ("newline", 0.04))
    ]


def test_ratios_and_intervals_equal_those_computed_one_by_one():
    tokens, rows = _toy_rows()
    found = answers_table.ratios("A", rows)
    assert [(each.arm, each.source, each.length) for each in found] == [("newline", "prose", 512)]
    (ratio,) = found
    logs, differences = [], np.zeros(len(tokens))
    for seed in range(3):
        own, first = (
            next(row for row in rows if (row["arm"], row["seed"]) == (arm, seed))
            for arm in ("newline", "natural")
        )
        of = [row["perplexity"]["prose"]["512"] for row in (own, first)]
        logs.append(math.log(of[0] / of[1]))
        for number in range(len(tokens)):
            one, other = (row["document_nats"]["prose"]["512"][number] for row in (own, first))
            differences[number] += (one - other) / 3
    assert ratio.log == pytest.approx(sum(logs) / 3)
    deviation = math.sqrt(sum((log - sum(logs) / 3) ** 2 for log in logs) / 2)
    assert ratio.seeds == pytest.approx(4.303 * deviation / math.sqrt(3), rel=1e-3)
    assert ratio.agree == (len({log > 0 for log in logs}) == 1)
    # The delta method's standard error of a ratio of sums, instead of the bootstrap.
    rest = differences - sum(differences) / sum(tokens) * np.array(tokens)
    error = math.sqrt((rest**2).sum()) / sum(tokens)
    assert ratio.documents == pytest.approx(1.96 * error, rel=0.15)


def test_one_seed_has_no_interval_by_seeds_and_other_texts_are_refused():
    _, rows = _toy_rows(seeds=1)
    (ratio,) = answers_table.ratios("A", rows)
    assert math.isinf(ratio.seeds) and "?" in ratio.shown()
    rows[1]["document_tokens"]["prose"]["512"][0] += 1
    with pytest.raises(ValueError, match="other texts of prose"):
        answers_table.ratios("A", rows)


def test_sources_together_are_the_mean_of_their_logarithms():
    _, rows = _toy_rows()
    for row in rows:
        for key in ("document_nats", "document_tokens", "perplexity"):
            row[key]["code"] = row[key]["prose"]
    found = {each.source: each for each in answers_table.ratios("A", rows)}
    assert found[ALL].log == pytest.approx(found["prose"].log)
    assert found[ALL].documents == pytest.approx(found["prose"].documents / math.sqrt(2))
    assert found[ALL].seeds == pytest.approx(found["prose"].seeds)


def test_a_table_and_a_picture_show_every_arm(tmp_path):
    _, rows = _toy_rows()
    path = tmp_path / "answers_A.json"
    path.write_text(answers_table.spelled({"study": "A"}, rows))
    lines = answers_table.table(path)
    (ratio,) = answers_table.ratios("A", rows)
    assert any(ratio.shown() in line and "newline / natural | 3" in line for line in lines)
    answers_table.draw(path, tmp_path / "a.svg")
    assert "newline" in (tmp_path / "a.svg").read_text()
    curve = answers_table.curves("A", rows)["newline"]
    assert [point[1] for point in curve] == pytest.approx([1.0] * 8)  # names of one length


def test_a_curve_takes_the_steps_of_each_block_once():
    metrics = [{"step": step, "loss/source/prose": float(step)} for step in range(1, 81)]
    blocks = answers_table.curve_of(metrics, ["prose"])["prose"]
    assert blocks == [sum(range(10 * n + 1, 10 * n + 11)) / 10 for n in range(8)]
    assert answers_table.curve_of(metrics[-1:], ["prose", "code"]) == {
        "prose": [None] * 7 + [80.0], "code": [None] * 8,
    }  # fmt: skip


def test_the_rate_leaves_out_stops(tmp_path):
    home = answers.Home(tmp_path)
    notes = [(0, 0), (60, 6000), (7000, 6000), (7060, 9000), (7120, 9000)]
    home.rates.write_text("".join(json.dumps({"time": t, "work": w}) + "\n" for t, w in notes))
    assert answers.rate_of(home) == pytest.approx(9000 / 180)


def test_a_study_goes_on_at_the_commit_of_its_last_row(tmp_path):
    path = tmp_path / "answers_A.json"
    assert answers.commit_of([path]) == answers.commit()
    rows = [
        {"finished": "2026-11-29 14:02:29", "commit": "later"},
        {"finished": "2026-11-29 01:35:31", "commit": "earlier"},
    ]
    path.write_text(json.dumps({"rows": rows}), encoding="utf-8")
    assert answers.commit_of([tmp_path / "answers_B.json", path]) == "later"


def test_half_widths_are_those_of_the_report():
    assert answers_table.half_width is half_width and RIVALS.keys() == ARMS.keys()


def test_the_page_has_the_numbers_and_the_picture_of_the_rows(tmp_path):
    rows = ROOT / "benchmarks" / "results" / "answers_A.json"
    page = (ROOT / "docs" / "segmentation.md").read_text(encoding="utf-8")
    cell = re.compile(r"\d+\.\d \u00b1\d+\.\d")
    shown = cell.findall(page.partition("### First rows")[2])
    assert sorted(shown) == sorted(cell.findall("\n".join(answers_table.table(rows))))
    answers_table.draw(rows, tmp_path / "answers.svg")
    drawn = (tmp_path / "answers.svg").read_text(encoding="utf-8")
    committed = (ROOT / "docs" / "answers.svg").read_text(encoding="utf-8")
    assert re.findall(r"<text[^>]*>([^<]*)<", drawn) == re.findall(
        r"<text[^>]*>([^<]*)<", committed
    )
    places = [re.findall(r"-?\d+\.\d+", svg.partition("</defs>")[2]) for svg in (drawn, committed)]
    assert np.allclose(*(np.array(values, float) for values in places), atol=0.01)


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="needs Linux's autogroups")
def test_what_a_study_starts_comes_after_all_other_sessions():
    program = "cat /proc/self/autogroup; cut -d' ' -f6,19,41 /proc/$$/stat; echo $$"
    started = subprocess.run(
        ["sh", "-c", program],
        preexec_fn=workers.begin_apart,
        capture_output=True,
        text=True,
        check=True,
    )
    group, numbers, pid = started.stdout.splitlines()
    session, nice, policy = map(int, numbers.split())
    assert group.endswith("nice 19") and (nice, policy) == (19, os.SCHED_IDLE)
    assert session == int(pid) != os.getsid(0)


TOY = """
import sys
from benchmarks import answers, answers_plan, answers_text, workers

for name in [*answers_text.SOURCES]:
    if name not in ("prose", "python"):
        del answers_text.SOURCES[name]
answers.MODELS["2M"] = {"width": 32, "n_layer": 1, "n_head": 2, "mlp_width": 32}
# Tests do not wait for all others.
answers.lowest_priority = workers.lowest_priority = lambda: None
answers.VOCABULARY, answers_plan.MOST_PASSES = 300, 100
small = {"row_length": 32, "rows.global_batch": 4, "rows.micro_batch": 4, "rows.validation_rows": 4}
answers.SETTINGS["pretrain"] |= small | {"checkpoint_every": 5, "trainer.precision": "32-true"}
answers.SETTINGS["evaluate"] |= {"row_length": 32, "evaluate.lengths": [1, 2]}
answers.STUDIES["A"] = tuple(
    answers_plan.Run(study="A", arm=arm, seed=0, tokens=4096 * 40)
    for arm in sys.argv[1].split(",")
)
sys.exit(answers.main(["A", "--here", "--cores", "2", "--nice", "0", *sys.argv[2:]]))
"""


def _toy_text(folder):
    made = {}
    drawn = random.Random(0)
    for name in ("prose", "python"):
        rows = [
            {"id": f"{name}{n}", "text": " ".join(drawn.choices(["One.", "two", "x =\n"], k=150))}
            for n in range(30)
        ]
        for part in (".", "quarter"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / part / f"{name}.jsonl").write_text(lines)
        ids = [row["id"] for row in rows]
        made[name] = {"test": ids[:4], "validation": ids[4:6], "written": {}}
    (folder / answers_text.MANIFEST).write_text(json.dumps(made))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_study_that_is_killed_goes_on_exactly(tmp_path):
    program = tmp_path / "toy.py"
    program.write_text(TOY)

    def start(home):
        words = [sys.executable, str(program), "natural", "--home", home, "--results", home]
        path = os.environ | {"PYTHONPATH": str(ROOT)}
        with (tmp_path / "log").open("a") as log:
            return Popen(words, cwd=ROOT, env=path, stdout=log, stderr=subprocess.STDOUT)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    _toy_text(whole / "text")
    assert start(whole).wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    for name in ("text", "data"):
        shutil.copytree(whole / name, cut / name)
    process, metrics = start(cut), cut / "runs" / "A_natural_0" / "metrics.csv"
    begun = time.monotonic()
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert time.monotonic() - begun < LIMIT_S and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    time.sleep(1)
    before = metrics.read_text()
    time.sleep(1)
    assert metrics.read_text() == before  # nothing goes on alone
    assert not (metrics.parent / "row.json").exists()
    assert start(cut).wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    ((one,), (other,)) = (
        answers_table.rows_of(home / "answers_A.json")[1] for home in (whole, cut)
    )
    for key in ("document_nats", "document_tokens", "perplexity", "curve", "steps"):
        assert one[key] == other[key], key
    assert one["perplexity"].keys() == {"prose", "python"}
    lines = list(answers.status(answers.Home(cut), STUDIES["A"][:2]))
    assert lines[0] == "A: 1 of 2 runs are done: natural_0"
    # Another home takes what the results have, and trains nothing anew.
    other = tmp_path / "other"
    shutil.copytree(whole / "text", other / "text")
    shutil.copy(whole / "answers_A.json", other)
    assert start(other).wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "log").read_text().endswith("0 of 1 runs are missing\n")
    assert (other / "answers_A.json").read_text() == (whole / "answers_A.json").read_text()
    (other / "text" / answers_text.MANIFEST).write_text("{}")
    assert start(other).wait(LIMIT_S) == 1
    assert "has rows of another text; move it, or set" in (tmp_path / "log").read_text()
