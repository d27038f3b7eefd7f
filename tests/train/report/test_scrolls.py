"""SCROLLS in the report: read, grouped, averaged, shown; with runs beside it or alone."""

import json
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.errors import ReportError
from train.report import load_runs, load_scrolls, write_report
from train.report.intervals import half_width
from train.report.numbers import rows
from train.report.page import page
from train.report.sections import scrolls
from train.report.terminal import scrolls_table
from train.tasks.scrolls.archives import TASKS


def scores(*, model="bipe_rope", task="qmsum", seed=0, score=20.0, split="validation"):
    """The content of one scores.json."""
    lengths = {"mean": 30.5, "least": 1, "p10": 3.0, "p50": 31.0, "p90": 60.0, "most": 64}
    return {
        "format": "bipe-scrolls/1", "task": task, "split": split, "model": model, "seed": seed,
        "weights": "00", "metric": "rouge", "score": score,
        "values": {"rouge/geometric_mean": score}, "decoding": {},
        "ended": {"stop": 3, "length": 5},
        "statistics": {
            "predictions": {"count": 8, "characters": lengths, "words": lengths,
                            "tokens": lengths},
            "references": {"count": 8, "characters": lengths, "words": lengths},
            "empty": 0.25,
            "truncated": {"examples": 8, "prompts_cut": 7, "prompt_tokens_cut": 12345,
                          "outputs_cut": 2, "output_tokens_cut": 9},
        },
    }  # fmt: skip


def write(folder, contents):
    """One run folder each, as `bipe scrolls` names them."""
    made = []
    for held in contents:
        run = folder / f"{held['model']}_{held['task']}_seed{held['seed']}"
        (run / "scrolls" / held["split"]).mkdir(parents=True)
        (run / "scrolls" / held["split"] / "scores.json").write_text(json.dumps(held))
        made.append(run)
    return made


def seven(model="bipe_rope", seeds=(0, 1, 2)):
    return [
        scores(model=model, task=task, seed=seed, score=10 + place + seed / 2)
        for place, task in enumerate(TASKS)
        for seed in seeds
    ]


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.randoms())
def test_mean_deviation_and_interval_are_those_of_the_seeds(tmp_path_factory, values, order):
    contents = [scores(seed=seed, score=score) for seed, score in enumerate(values)]
    order.shuffle(contents)
    (model,) = load_scrolls(write(tmp_path_factory.mktemp("s"), contents))
    assert [one.seed for one in model.tasks["qmsum"]] == list(range(len(values)))
    assert model.mean("qmsum") == pytest.approx(fmean(values))
    assert model.deviation("qmsum") == pytest.approx(stdev(values))
    low, high = model.interval("qmsum")
    assert (high - low) / 2 == pytest.approx(half_width(values), abs=1e-9)


def test_the_means_are_over_all_seven_tasks_and_all_but_quality(tmp_path):
    (model,) = load_scrolls(write(tmp_path, seven()))
    task_means = {task: 10.5 + place for place, task in enumerate(TASKS)}
    assert list(model.tasks) == list(TASKS)
    assert model.means["mean"] == pytest.approx(fmean(task_means.values()))
    del task_means["quality"]
    assert model.means["mean_without_quality"] == pytest.approx(fmean(task_means.values()))
    (part,) = load_scrolls(write(tmp_path / "part", [scores()]))
    assert part.means == {"mean": None, "mean_without_quality": None}


def test_everything_is_on_the_page_in_the_rows_and_in_the_terminal(tmp_path):
    models = load_scrolls(write(tmp_path, [*seven(), *seven("rope")]))
    shown = str(scrolls(models))
    for told in (
        ">qmsum<",
        "\u00b10.50, n=3",
        "13.50",  # the mean over tasks
        "22.36",  # what the paper has for BiPE-RoPE
        "18.38",
        "paper",
        "37,035",  # tokens cut of three seeds
        "25%",  # empty
        "62%",  # ended by length
    ):
        assert told in shown, told
    table = [row for row in rows((), {}, models) if row.model == "bipe_rope"]
    by_seed = [row for row in table if row.measure == "scrolls_score" and row.task == "qmsum"]
    assert [row.seed for row in by_seed] == [0, 1, 2]
    found = {row.measure: row for row in table if row.task in ("", "qmsum")}
    place = list(TASKS).index("qmsum")
    assert found["scrolls_score_mean"].value == pytest.approx(10.5 + place)
    assert found["scrolls_score_mean"].low < 10.5 + place < found["scrolls_score_mean"].high
    assert found["scrolls_mean"].value == pytest.approx(13.5)
    assert found["scrolls_prompt_tokens_cut"].value == 12345
    assert found["scrolls_prediction_words_p50"].value == 31
    assert scrolls_table(models).row_count == len(TASKS) + 2
    assert scrolls_table(()) is None


def test_a_published_mean_stands_only_beside_the_model_and_benchmark_that_have_one(tmp_path):
    for held in (seven("alibi"), seven("bipe_rope_yarn8"), [scores(task="verse_retrieval")]):
        shown = str(scrolls(load_scrolls(write(tmp_path / held[0]["model"], held))))
        assert "mean, published" not in shown


def test_scores_alone_are_a_report(tmp_path):
    folders = write(tmp_path / "runs", [scores()])
    assert load_runs(folders) == ()
    files = write_report(runs=folders, data=None, out=tmp_path / "out", title="T")
    text = files.html.read_text()
    assert 'href="#scrolls"' in text and 'href="#perplexity"' not in text
    assert "scrolls_score" in files.csv.read_text()


def test_scores_stand_beside_evaluated_runs(make, tmp_path):
    folders = [*make.runs(), *write(tmp_path / "tuned", [scores()])]
    files = write_report(runs=folders, data=None, out=tmp_path / "out", title="T")
    text = files.html.read_text()
    assert 'href="#scrolls"' in text and 'href="#perplexity"' in text


def test_a_run_that_was_scored_and_evaluated_for_nothing_else_is_read(make, tmp_path):
    content = make.evaluation(passkey=False)
    content["perplexity"]["sources"] = {}
    (folder,) = write(tmp_path / "tuned", [scores()])
    (folder / "evaluation.json").write_text(json.dumps(content))
    (run,) = load_runs([folder])
    text = page(runs=[run], statistics={}, title="t", scrolls=load_scrolls([folder]))
    assert not run.scores and 'href="#scrolls"' in text and 'href="#perplexity"' not in text


def test_predictions_without_references_are_unscored(tmp_path):
    held = scores(split="test", score=None) | {"values": {}}
    del held["statistics"]["references"]
    (model,) = load_scrolls(write(tmp_path, [held]))
    assert model.mean("qmsum") is None and "unscored" in str(scrolls([model]))
    assert not [row for row in rows((), {}, [model]) if row.measure == "scrolls_score"]


def test_another_run_of_the_same_seed_is_told_apart_by_its_folder(tmp_path):
    first = write(tmp_path / "a", [scores()])
    other = tmp_path / "zero_qmsum_seed0"
    first[0].rename(tmp_path / "tuned")
    write(tmp_path, [scores()])[0].rename(other)
    models = load_scrolls([tmp_path / "tuned", other])
    assert [model.name for model in models] == ["bipe_rope", "bipe_rope (zero)"]
    with pytest.raises(ReportError, match=r"has scores in .* already; report\.runs"):
        load_scrolls([tmp_path / "tuned", other, other])


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("format", "x", "'bipe-scrolls/1'"),
        ("score", 101.0, "from 0 to 100"),
        ("score", "good", "a number or null"),
        ("seed", -1, "a whole number"),
        ("ended", [], "a mapping"),
        ("statistics.predictions.count", "8", "a whole number"),
        ("statistics.truncated.prompts_cut", None, "a whole number"),
    ],
)
def test_a_wrong_value_is_named_by_file_and_key(tmp_path, key, value, rule):
    held = scores()
    place = held
    *parents, last = key.split(".")
    for name in parents:
        place = place[name]
    place[last] = value
    (folder,) = write(tmp_path, [held])
    with pytest.raises(ReportError) as caught:
        load_scrolls([folder])
    for told in ("scores.json", key, rule):
        assert told in str(caught.value)


def test_hostile_names_are_text(tmp_path):
    held = scores(model="<b>x", task="<i>y")
    (folder,) = write(tmp_path / "f", [held | {"model": "m", "task": "t"}])
    place = folder / "scrolls" / "validation" / "scores.json"
    place.write_text(json.dumps(held))
    shown = page(runs=(), statistics={}, title="t", scrolls=load_scrolls([folder]))
    assert "&lt;b&gt;x" in shown and "<b>x" not in shown and "<i>y" not in shown
