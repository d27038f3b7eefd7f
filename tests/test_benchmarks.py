"""The measurements: they start beside a rival of their name, and changes are drawn by seed."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import automaton, scale, segments
from benchmarks.workers import chosen
from tests.processes import run

ROOT = Path(__file__).parents[1]
ENCODINGS = ("rope", "bipe_rope")


def test_a_script_starts_beside_a_package_of_its_name(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r}); import runpy; sys.argv[1:] = ['-h'];"
    )
    program += "runpy.run_module('benchmarks.mutations', run_name='__main__', alter_sys=True)"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "--old" in done.stdout, done.stderr


def test_candidates_that_are_not_there_end_a_measurement():
    assert chosen(["a", "b"], None) == ["a", "b"] and chosen(["a", "b"], ["b"]) == ["b"]
    with pytest.raises(SystemExit, match="there are: a; b"):
        chosen(["a", "b"], ["b", "c"])


def test_a_treebank_is_read_as_its_comments_say(tmp_path):
    """Documents, paragraphs and missing spaces; of 20 sentences where no documents are named."""
    path = tmp_path / "UD_English-Any" / "en_any-ud-test.conllu"
    path.parent.mkdir()
    blocks = [
        "# newdoc\n# text = Go.\n1\tGo\t_\n2\t.\tSpaceAfter=No\n",
        "# text = No.\n1\tNo.\t_\n",
    ]
    blocks += ["# newpar\n# text = Yes.\n1\tYes.\t_\n", "# text = So.\n1\tSo.\t_\n"]
    named = {"set": "UD_English-Any", "language": "en"}
    first = {**named, "text": "Go.No.\n\nYes. So.", "bounds": [3, 8, 13]}
    path.write_text("\n".join(blocks * 2))
    assert [*segments.documents([path])] == [first, first]
    path.write_text("\n".join(["# text = So.\n1\tSo.\t_\n"] * 21))
    assert [len(record["bounds"]) for record in segments.documents([path])] == [19, 0]


@pytest.mark.slow
def test_a_comparison_is_sized_by_seconds_and_outlives_a_model(tmp_path, monkeypatch):
    """The command for a GPU at toy size: two encodings, and one that there is not."""
    monkeypatch.setattr(scale.subprocess, "run", run)
    monkeypatch.setattr(scale, "PACKAGES", ["jinja2"])
    monkeypatch.setattr(scale, "MOST_PASSES", 0.05)
    drawn, words = random.Random(0), ["one", "two", "three", "four", "five", "six"]
    with (tmp_path / "prose.jsonl").open("w") as file:
        for number in range(40):
            text = "".join(f"{' '.join(drawn.choices(words, k=6))}.\n\n" for _ in range(20))
            file.write(json.dumps({"text": text, "id": number}) + "\n")
    scale.main(["text", f"{tmp_path}/texts", "--prose", f"{tmp_path}/prose.jsonl"])
    small = "row_length=64 rows.global_batch=4 rows.micro_batch=4 rows.validation_rows=4 "
    small += "model.width=32 model.n_layer=1 model.n_head=2 model.mlp_width=32 compile=false "
    small += "trainer.accelerator=cpu evaluate.lengths=[1,2] evaluate.documents=3 "
    small += "corpus.tokenizer.vocab_size=300 corpus.split.validation=0.15"
    typed = ["run", f"{tmp_path}/texts", "--out", f"{tmp_path}/out", "--plan", small]
    scale.main([*typed, "--encodings", "rope", "bipe_rope", "nothing"])
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(found["failed"]) == ["nothing_0"]
    trained = 0
    for name in ("prose", "code"):
        manifest = tmp_path / "out" / "data" / name / "train" / "manifest.json"
        trained += json.loads(manifest.read_text())["counts"]["tokens"]
        assert found["perplexity"][name].keys() == {"rope_0", "bipe_rope_0"}
        for length, (ratio, low, high) in found["paired"][name]["bipe_rope_0"].items():
            one, other = (found["perplexity"][name][f"{m}_0"][length][0] for m in ENCODINGS)
            assert low <= ratio <= high and ratio == pytest.approx(other / one, rel=1e-3)
    assert 0.04 * trained < found["tokens"] <= 0.05 * trained
    done = (tmp_path / "out" / "runs" / "rope_0" / "metrics.csv").read_text()
    scale.main([*typed, "--encodings", "rope"])  # nothing is left to do
    assert (tmp_path / "out" / "runs" / "rope_0" / "metrics.csv").read_text() == done
    assert json.loads((tmp_path / "out" / "results.json").read_text())["steps"] == found["steps"]


def test_states_follow_the_letters_and_no_model_is_trained_twice(tmp_path):
    tokens, marks = automaton.words("any", 20, segments=5)
    for word, starts in zip(tokens.tolist(), marks.tolist(), strict=True):
        state, letters, opened = 0, [], [0, word.index(automaton.END, 1)]
        for place, token in enumerate(word[1 : opened[1]], 1):
            opened += [] if letters else [place]
            if token < automaton.LETTERS:
                letters.append(token)
                continue
            lower = 0
            for letter in letters:
                lower = automaton.DOWN[letter][lower]
            state, letters = automaton.UP[lower][state], []
            assert token == automaton.LETTERS + state
        assert {place for place, mark in enumerate(starts) if mark} == {*opened}
    rows = tmp_path / "rows.jsonl"
    asked = f"--steps 2 --widths 16 --seeds 0 --json {rows} --svg {tmp_path / 'curve.svg'}".split()
    automaton.main([*asked, "--encodings", "bipe_rope"])
    before = rows.read_text()
    automaton.main([*asked, "--encodings", "bipe_rope", "rope"])
    assert rows.read_text().startswith(before) and rows.read_text().count("\n") == 2
    assert (tmp_path / "curve.svg").stat().st_size > 1000
