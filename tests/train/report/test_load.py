"""Loading: what is right arrives whole; what is wrong is named by file, key, rule and cure."""

import json
import math
import random
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from train.errors import ReportError, UserError
from train.evals.rows import FILE, Row, half_width
from train.fit.checkpoints import Place
from train.report.labels import labelled
from train.report.load import load, load_growth
from train.report.page import all_rows


def test_every_row_of_a_run_is_in_the_table(make):
    one = make.run()
    held = make.results(one).table
    for row in one.rows:
        at = {"measure": row.measure, "source": row.source, "length": row.length,
              "depth": row.depth, "start": row.start}  # fmt: skip
        found = held
        for name, value in at.items():
            found = found[found[name].isna() if value is None else found[name] == value]
        assert found.value.tolist() == [row.value], at
    costs = {"parameters": 8, "training_tokens": 1_536_000, "training_steps": 188,
             "training_seconds": 30, "training_row_length": 512, "clamped_share": 0.1,
             "training_memory": 1.25}  # fmt: skip
    for measure, value in costs.items():
        assert held[held.measure == measure].value.tolist() == [pytest.approx(value)], measure
    assert held[held.measure == "training_loss"].stop.tolist() == [8192, 16384, 24576]


def test_runs_keep_their_order_come_once_and_need_no_evaluation(make):
    folders = make.folders(make.run(), make.run("ALiBi"), make.Made(name="new", family="NoPE"))
    names = ["RoPE", "ALiBi", "NoPE"]
    assert [arm.label for arm in load(map(Place.of, folders)).arms] == names
    results = load(map(Place.of, [*folders[::-1], folders[0]]))
    assert [arm.label for arm in results.arms] == names[::-1] and results.unmeasured == ["NoPE"]
    with pytest.raises(UserError, match="nowhere"):
        load([Place.of(folders[0].with_name("nowhere"))])
    bare = load(map(Place.of, make.folders(make.Made(name="bare", seed=None, notes={}, losses=()))))
    assert set(bare.table.measure) == {"parameters", "training_skipped_steps"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"value": "high"}, ".*not as bipe evaluate writes it"),
        ({"cell": None, "of": "x"}, "line 4 is not a measurement"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(make, change, rule):
    (folder,) = make.folders(make.run())
    lines = re.sub('"digest": "[^"]+", ', "", (folder / FILE).read_text()).splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | change)
    (folder / FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=f"{FILE}: {rule}.* run bipe evaluate again"):
        load([Place.of(folder)])


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("segment_edges", [], ""),
        ("sources.code", 3, ""),
        ("sources.code", {"sample": {}}, "'tokens_per_segment' is missing"),
        ("sources.code.by_document_length.1.histogram", [1], ""),
    ],
)
def test_statistics_that_are_not_as_written_are_named_by_file_and_cure(make, key, value, rule):
    content = make.statistics()
    *parents, last = key.split(".")
    place = content["statistics"]
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    with pytest.raises(
        ReportError, match=rf"data/statistics.json: .*{rule}.*run bipe prepare again"
    ):
        load(map(Place.of, make.folders(make.run())), data=make.data(content))


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_mapping_is_named_with_its_cure(tmp_path, content):
    file = tmp_path / "segment_statistics.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ReportError, match=r"segment_statistics\.json: .*bipe evaluate statistics"):
        load_growth(file)


SEEDS = (0, 1, 2)


def seeded(make, *, factor=1.0, bilevel=False, seeds=SEEDS, **told):
    """Runs of several seeds; seeds differ by some percent, models on one seed by one ratio."""
    made = []
    for seed in seeds:
        one = make.run(bilevel=bilevel, seed=seed, **told)
        noise = random.Random(seed).uniform(0.95, 1.05)
        own = random.Random(f"{seed}/{factor}").uniform(0.999, 1.001)
        for length in (512, 1024, 8192):
            one.change("perplexity", 10 * noise * own * factor, length=length)
        made.append(one)
    return made


def value(results, measure, **at):
    (row,) = results.cells(measure, **at).itertuples()
    return row


def test_a_run_without_an_evaluation_does_not_hide_those_of_other_seeds(make):
    made = seeded(make)
    made[1].rows = []
    results = make.results(*made)
    mean = value(results, "perplexity", source="prose", length=1024)
    logs = [math.log(row.value) for one in made for row in one.rows
            if (row.measure, row.source, row.length) == ("perplexity", "prose", 1024)]  # fmt: skip
    ends = [math.exp(fmean(logs) + side * half_width(logs)) for side in (-1, 0, 1)]
    assert ([mean.low, mean.value, mean.high], mean.seeds) == (pytest.approx(ends), 2)
    assert results.unmeasured == [made[1].name]
    two = load(map(Place.of, make.folders(*made[:2], place="two")))
    (alone,) = two.cells("perplexity", source="prose", length=512).itertuples()
    first = next(row for row in made[0].rows if row.measure == "perplexity" and row.length == 512)
    assert alone[1:].count(first.value) == alone.seeds == 1


def test_losses_and_shares_are_averaged_as_they_are_and_trials_are_summed(make):
    made = seeded(make)
    for seed, one in enumerate(made):
        one.change("accuracy", 0.3 + 0.3 * seed, length=512)
    results = make.results(*made)
    for measure, depth, expected in (("accuracy", None, 0.6), ("accuracy", 0.5, 0.6),
                                     ("trials", 0.5, 30), ("trials", None, 90)):  # fmt: skip
        mean = value(results, measure, task="passkey", length=512, depth=depth)
        assert mean.value == pytest.approx(expected)
        assert measure == "trials" or (mean.low, mean.high) == (0.0, 1.0)
    assert value(results, "training_loss", stop=8192).value == 5.0
    assert value(results, "training_skipped_steps").value == 0
    # Without what identifies a run, and after all single numbers: so that is a row of the files.
    table = all_rows(results)
    means = table[(table.label == "") & (table.arm != "")]
    assert means.measure.str.endswith("_mean").all() and means.seed.isna().all()
    assert set(means.note) == {"mean over 3 seeds"} and "nll_mean" in set(means.measure)
    assert len(table[(table.measure == "perplexity") & (table.label == "rope_2")]) == 6


def test_means_of_perplexities_over_seeds_are_geometric(make):
    names = ("perplexity", "long_ppl", "as_averaged_by_mean_of_windows")
    runs = [make.run(seed=seed) for seed in (0, 1)]
    for one, number in zip(runs, (1.0, 4.0), strict=True):
        one.rows = [Row(measure=name, source="prose", length=512, value=number)
                    for name in (*names, "entropy")]  # fmt: skip
    means = make.results(*runs).means.set_index("measure").value
    assert [means[name] for name in names] == pytest.approx([2.0] * 3) and means["entropy"] == 2.5


def test_what_a_seed_lacks_the_mean_lacks(make):
    whole, part = seeded(make, seeds=(0, 1))
    part.rows = [row for row in part.rows if row.source != "code" and row.length != 1024]
    results = make.results(whole, part)
    cells = results.cells("perplexity")
    assert set(zip(cells.source, cells.length, strict=True)) == {("prose", 512), ("prose", 8192)}
    assert results.cells("accuracy", task="passkey", length=1024).empty


def test_a_mean_of_what_is_not_finite_is_not_finite(make):
    one, two = seeded(make, seeds=(0, 1))
    two.change("perplexity", None, length=512).change("accuracy", None, length=512, depth=0.5)
    results = make.results(one, two)
    assert math.isnan(value(results, "perplexity", source="prose", length=512).value)
    assert math.isnan(value(results, "accuracy", task="passkey", length=512, depth=None).value)
    assert math.isfinite(value(results, "perplexity", source="prose", length=1024).value)


def test_models_are_compared_seed_by_seed(make):
    ours = seeded(make, bilevel=True, factor=0.9)
    results = make.results(*seeded(make, seeds=(0, 1, 2, 7)), *ours)
    ((flat, bilevel),) = results.pairs()
    assert (flat.label, bilevel.label) == ("RoPE", "BiPE-RoPE")
    found = results.ratios(bilevel, flat)
    row = found[(found.source == "prose") & (found.length == 512)].iloc[0]
    held = results.table.query("measure == 'perplexity' and length == 512 and source == 'prose'")
    one, two = (held[held.arm == arm.label].set_index("seed").value for arm in (bilevel, flat))
    assert row.value == pytest.approx(math.exp(fmean(np.log((one / two).dropna()))))
    assert row.seeds == 3 and row.low < row.value < row.high < 0.95


def test_what_has_no_seed_in_common_is_not_compared_and_two_forms_make_no_pair(make):
    made = [make.run(seed=0), make.run(bilevel=True, seed=1)]
    results = make.results(*made)
    ((flat, bilevel),) = results.pairs()
    assert results.ratios(bilevel, flat).empty
    other = make.run(bilevel=True, name="other")
    other.config["steps"] = 5
    folders = [shown.run.folder for shown in results.runs]
    assert load(map(Place.of, [*make.folders(other, place="more"), *folders])).pairs() == []


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "x/y"]), st.sampled_from(
    ["/x/y", "/z/y", "/x/y/", "/a", "/x/a"])), max_size=6))  # fmt: skip
@example([("RoPE", "x/rope"), ("RoPE", "y/rope"), ("ALiBi", "y/alibi")])
def test_no_two_labels_are_equal(named):
    labels = labelled([(name, Path(path)) for name, path in named])
    assert len(set(labels)) == len(named)
    if ("RoPE", "x/rope") in named:
        assert labels == ["x/rope", "y/rope", "ALiBi"]
