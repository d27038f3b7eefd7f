"""Scores equal those of the official scorers, on whatever pairs the golden folder holds."""

import json
import os
from pathlib import Path

import pytest

from train.evals.probes import answers
from train.evals.scoring import benchmark_means
from train.tasks.scrolls import metrics
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.metrics import rouge, rouge_means, score

FOLDER = Path(os.environ.get("BIPE_GOLDEN", Path(__file__).parents[3] / "golden"))
FILE = FOLDER / "scoring.json"
GOLDEN = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CLOSE = 1e-4
pytestmark = pytest.mark.skipif(
    "BIPE_GOLDEN" in os.environ and not GOLDEN, reason=f"{FOLDER} holds no scoring.json"
)


def pairs_of(name):
    return [pytest.param(pair, id=str(i)) for i, pair in enumerate(GOLDEN.get(name, []))]


def mapped(pairs):
    return (
        {str(i): pair["prediction"] for i, pair in enumerate(pairs)},
        {str(i): pair["references"] for i, pair in enumerate(pairs)},
    )


@pytest.mark.parametrize("pair", pairs_of("qa_pairs"))
def test_answers_score_as_in_the_official_scorer(pair):
    given = (pair["prediction"], pair["references"])
    assert 100 * metrics.f1(*given) == pytest.approx(pair["f1_scrolls"], abs=CLOSE)
    assert 100 * metrics.exact_match(*given) == pair["em_scrolls"]
    assert metrics.normalized(pair["prediction"]) == pair["normalized_prediction"]


@pytest.mark.parametrize("pair", pairs_of("summ_pairs"))
def test_summaries_score_as_in_the_official_scorer(pair):
    found = rouge_means([rouge(pair["prediction"], pair["references"])])
    for kind, value in found.items():
        assert 100 * value == pytest.approx(pair[kind], abs=CLOSE)


@pytest.mark.parametrize("task", TASKS)
def test_the_score_of_a_task_is_the_official_one(task):
    metric = {**TASKS}[task][1]
    predictions, references = mapped(GOLDEN["summ_pairs" if metric == "rouge" else "qa_pairs"])
    found, official = score(predictions, references, metric=metric), GOLDEN["aggregate"][task]
    for name, value in found.values.items():
        assert value == pytest.approx(official[name], abs=CLOSE)
    assert found.score == pytest.approx(official["scrolls_score"], abs=CLOSE)


def test_the_benchmark_is_the_mean_of_the_seven():
    scores = {task: GOLDEN["aggregate"][task]["scrolls_score"] for task in TASKS}
    found = benchmark_means(scores)
    assert found["mean"] == pytest.approx(GOLDEN["benchmark_mean_of_7_tasks"], abs=CLOSE)
    steady = [value for task, value in scores.items() if task != "quality"]
    assert found["mean_without_quality"] == pytest.approx(sum(steady) / 6)


@pytest.mark.parametrize("task", ["gov_report", "contract_nli", "narrative_qa"])
def test_the_example_of_the_official_documentation_is_reproduced(task):
    anchor = GOLDEN["anchor_official_docstring"]
    predictions = dict(enumerate(anchor["predictions"]))
    references = dict(enumerate(anchor["references"]))
    found = score(predictions, references, metric={**TASKS}[task][1])
    for name, value in found.values.items():
        assert value == pytest.approx(anchor[task][name], abs=CLOSE)


def test_ruler_scores_as_its_release_does():
    golden = GOLDEN["ruler"]
    for pair in golden["pairs"]:
        text = answers.postprocessed(pair["prediction"])
        assert text == pair["postprocessed"]
        for rule, any_of in (("all", False), ("part", True)):
            found = answers.string_match(text, pair["references"], any_of=any_of)
            assert found == pytest.approx(pair[rule])
