"""`bipe evaluate` on small runs: probes, ways to stretch, and a measurement of the user's own."""

import functools
import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.train.studies import composed, flip
from train.cli import main
from train.evals.loop import Cell, Measurement
from train.evals.rows import FILE, Journal, Row
from train.launch.run import run_command

NAMES = ("alibi", "bipe_rope")
METHODS = "evaluate.sweep.methods=[none,linear,yarn,dynamic_ntk]"


@pytest.fixture(scope="module")
def study(finished, data, tmp_path_factory):
    """Two runs, and words that evaluate them."""
    out = tmp_path_factory.mktemp("evaluated")
    for encoding in NAMES:
        shutil.copytree(finished(encoding), out / encoding)
    return SimpleNamespace(out=out, words=(f"data={data}", f"out={out}"))


def evaluated(study, *words):
    """The rows of each run."""
    run_command("evaluate", composed(*study.words, *words))
    return {name: Journal(study.out / name / FILE).rows() for name in NAMES}


def values(rows, measure, **at):
    """Values by length."""
    return {
        row.length: row.value
        for row in rows
        if row.measure == measure and all(getattr(row, name) == at[name] for name in at)
    }


def test_probes_are_rows_with_their_trials(study):
    found = evaluated(
        study, "evaluate.probes=[passkey,copy,positions]", "evaluate.probing.trials=2",
        "evaluate.probing.lengths=[128,320]", "evaluate.probing.scoring=[rank,write]",
        "evaluate.probing.depths=[0.0,1.0]",
    )["bipe_rope"]  # fmt: skip
    assert {row.task for row in found} == {"", "passkey", "copy", "positions"}
    assert set(values(found, "accuracy", task="copy", depth=1.0)) == {128, 320}
    trials = [row for row in found if row.measure == "trial_written" and row.task == "passkey"]
    assert {row.number for row in trials} == {0, 1} and {row.source for row in found} == {"proofs"}


def test_long_ppl_over_all_tokens_is_perplexity(study):
    """By whichever run decides which tokens are key, if that is so of all."""
    own = f"{{alpha: -99, beta: -99, evaluator: {study.out}/alibi}}"
    rows = evaluated(study, f"evaluate.long_ppl={own}", "evaluate.probes=[]")["bipe_rope"]
    found, plain = values(rows, "long_ppl"), values(rows, "perplexity")
    # Longer windows score the beginnings of training rows as well, which perplexity leaves out.
    assert found.keys() == plain.keys() and found[64] == pytest.approx(plain[64], rel=1e-5)
    assert {*values(rows, "key_tokens").values()} == {1.0}
    rows = evaluated(study, "evaluate.long_ppl={}", "evaluate.probes=[]")["bipe_rope"]
    assert max(values(rows, "key_tokens").values()) < 0.1


@pytest.fixture(scope="module")
def swept(study):
    return evaluated(study, "sweep=stretch", METHODS)


def test_every_method_unit_and_length_is_there(swept):
    rows = swept["bipe_rope"]
    variants = list(dict.fromkeys(row.variant for row in rows))
    assert variants == [
        "", "none", "linear", "yarn (tokens)", "yarn (segments)", "dynamic_ntk (tokens)",
        "dynamic_ntk (segments)",
    ]  # fmt: skip
    for variant in variants:
        perplexities = values(rows, "perplexity", variant=variant)
        assert set(perplexities) == {64, 128, 256}
        assert all(map(math.isfinite, perplexities.values()))
        found = values(rows, "accuracy", variant=variant, task="passkey", depth=1.0)
        assert set(found) >= {128, 256} and all(0 <= share <= 1 for share in found.values())
    left_out = {row.variant for row in swept["alibi"] if row.measure == "left_out" and row.variant}
    assert left_out >= {"yarn (tokens)", "linear (tokens)"}


def test_none_and_every_method_at_the_training_length_are_the_model_as_it_is(swept):
    rows = swept["bipe_rope"]
    for measure in ("perplexity", "accuracy"):
        plain = values(rows, measure, variant="")
        assert values(rows, measure, variant="none") == {
            length: value for length, value in plain.items() if length in (64, 128, 256)
        }
    first = {
        variant: values(rows, "perplexity", variant=variant)[64]
        for variant in {row.variant for row in rows if row.measure == "perplexity"}
    }
    assert len(set(first.values())) == 1


def test_a_sweep_again_measures_nothing_and_another_protocol_gives_way(study, swept, capsys):
    assert evaluated(study, "sweep=stretch", METHODS) == swept
    assert "measured" not in capsys.readouterr().err
    other = evaluated(study, "evaluate.protocol=last_k", "evaluate.last=8")["bipe_rope"]
    assert set(values(other, "tokens_scored", variant="").values()) == {16.0}
    assert "as_averaged_by_mean_of_documents" in {row.measure for row in other}
    assert any(
        row.note.startswith("last_k: The last 128 + 1 tokens") for row in other if not row.variant
    )
    again = evaluated(study, "sweep=stretch", METHODS)
    assert sorted(map(repr, again["bipe_rope"])) == sorted(map(repr, swept["bipe_rope"]))


def test_lengths_are_measured_anew_where_the_scored_tokens_change(study, capsys):
    def evaluate(*words):
        rows = evaluated(study, "evaluate.probes=[]", "evaluate.protocol=sliding", *words)
        rows = [row for row in rows["alibi"] if row.measure == "perplexity" and not row.variant]
        return {row.length: row for row in rows}, capsys.readouterr().err

    first, said = evaluate("evaluate.lengths=[1,2]")
    assert set(first) >= {64, 128} and "anew" not in said
    longer, said = evaluate("evaluate.lengths=[4]")
    assert len({row.measurement for row in longer.values()}) == 1 and set(longer) >= {64, 128, 256}
    assert "perplexity of proofs at 64, 128 tokens is measured anew" in said
    assert "of 256 tokens" in said and "was: " in said and "of 128 tokens" in said
    assert longer[64].measurement != first[64].measurement
    again, said = evaluate("evaluate.lengths=[1]")
    assert again == longer and "measured" not in said
    fewer, said = evaluate("evaluate.lengths=[1]", "evaluate.documents=1")
    assert "at 64, 128, 256 tokens is measured anew" in said and "1 document of" in said
    assert {row.measurement for row in fewer.values()} != {longer[64].measurement}
    rows = Journal(study.out / "alibi" / FILE).rows(replaced=True)
    ways = {row.measurement for row in rows if row.measure == "perplexity" and row.length == 64}
    assert {first[64].measurement, longer[64].measurement, fewer[64].measurement} <= ways


class Spread(Measurement):
    """The standard deviation of the weights of the head, times a number."""

    def __init__(self, *, times):
        self.times = times

    def cells(self, subject):
        for length in subject.lengths:
            name = f"at {length} tokens"
            measure = functools.partial(self.spread, length)
            yield Cell(name=name, length=length, depends_on=self.times, measure=measure)

    def spread(self, length, model):
        value = self.times * float(model.head.weight.std())
        return [Row(measure="spread", length=length, value=value)]


def test_a_measurement_of_ones_own_is_a_class_and_a_line(data, study, tmp_path, capsys):
    shutil.copytree(study.out / "alibi", tmp_path / "alibi", ignore=lambda *_: [FILE])

    def spread(times):
        own = f"evaluate.measurements={{spread: {{_target_: {__name__}.Spread, times: {times}}}}}"
        words = (f"data={data}", f"out={tmp_path}", own, f"allowed_targets=[{__name__}]")
        run_command("evaluate", composed(*words, "evaluate.probes=[]"))
        return values(Journal(tmp_path / "alibi" / FILE).rows(), "spread")

    found = spread(3.0)
    assert set(found) == {64, 128, 256} and len(set(found.values())) == 1
    assert "spread" in capsys.readouterr().out
    listed = [str(tmp_path / name) for name in ("alibi", "nope")]
    run_command("report", composed(f"data={data}", f"out={tmp_path}", f"report.runs={listed}"))
    assert f"report.runs: {tmp_path / 'nope'} is not trained yet" in capsys.readouterr().err
    listed[1] = f"{tmp_path / 'alibi'}@300"
    run_command("report", composed(f"data={data}", f"out={tmp_path}", f"report.runs={listed}"))
    told = capsys.readouterr().err
    assert "300" in told and "it is left out" in told and "not trained" not in told
    assert f"{found[64]}" in (tmp_path / "report.csv").read_text()
    assert "spread" in (tmp_path / "report.html").read_text()
    assert spread(6.0)[64] == 2 * found[64]


@pytest.mark.parametrize(("word", "rule"), [
    ("evaluate.probes=[pass_key]", "evaluate.probes: 'pass_key' is not a probe; .*passkey"),
    ("evaluate.probing.source=prose", "evaluate.probing.source: 'prose' is not a source"),
    ("evaluate.probing.depths=[2.0]", "evaluate.probing.depths must be shares from 0 to 1"),
    ("evaluate.split=tests", "evaluate.split must be one of train, validation, test"),
    ("evaluate.start_token=99999", "evaluate.start_token must be an id below"),
    ("evaluate.sources=[prose]", "evaluate.sources: 'prose' is not a source"),
    ("evaluate.measurements={x: {_target_: bipe.encodings.RoPE, head_width: 4}}",
     "evaluate.measurements.x._target_ must start with one of train"),
    ("evaluate.measurements={x: {_target_: train.fit.entry.Fit}}", "subclass of Measurement"),
    (f"evaluate.measurements={{passkey: {{_target_: {__name__}.Spread, times: 1.0}}}} "
     f"allowed_targets=[{__name__}]",
     "evaluate.measurements.passkey: bipe already has a measurement of this name"),
    ("sweep=stretch evaluate.sweep.methods=[none,yarm]", "'yarm' is not one of"),
    ("evaluate.long_ppl={evaluator: OUT}", "evaluator must be one run, was: "),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused_by_its_key(study, word, rule):
    words = re.split(r" (?=[\w.]+=)", word.replace("OUT", str(study.out)))
    with pytest.raises(ValueError, match=rule):
        run_command("evaluate", composed(*study.words, *words))


def test_statistics_of_two_folders_side_by_side(data, tmp_path, capsys):
    folders = f"data={{one: {data}, two: {data}}}"
    words = ("experiment=smoke", folders, f"out={tmp_path}", "statistics.documents=1000000")
    assert main(["evaluate", "statistics", *words]) == 0
    shown = capsys.readouterr().out
    assert "two/proofs" in shown and "= (equals sign)" in shown and "\N{DAGGER}" in shown
    found = json.loads((tmp_path / "segment_statistics.json").read_text())["sources"]
    assert list(found) == ["one/proofs", "two/proofs"]
    told = json.loads((data / "statistics.json").read_text())["sources"]["proofs"]
    assert found["one/proofs"]["tokens_per_segment"] == told["tokens_per_segment"]
    ends = found["one/proofs"]["separators"]["characters"]
    assert max(ends, key=lambda row: row["share"])["character"] == "="
    page = (tmp_path / "segment_statistics.html").read_text()
    assert "two/proofs" in page and "<script" not in page


def test_statistics_of_damaged_data_are_refused(data, tmp_path, capsys):
    spoilt = Path(shutil.copytree(data, tmp_path / "data"))
    flip(spoilt / "proofs/test/proofs.00000.level0.bits")
    words = ("experiment=smoke", f"data={spoilt}", f"out={tmp_path}")
    assert main(["evaluate", "statistics", *words]) == 2
    assert "proofs.00000.level0.bits" in capsys.readouterr().err
