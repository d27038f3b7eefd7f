"""Laws of the scores, what cannot be scored, and statistics of predictions, counted by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.evals.scoring import metrics
from train.evals.scoring.benchmark import benchmark_means, prediction_statistics, score
from train.evals.scoring.metrics import ROUGE_TYPES, rouge
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.encoding import Counts

WORDS = ["red", "Green.", "the", "an", "blue-ish", "7,000", "'x'"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
REFERENCES = st.lists(TEXTS, min_size=1, max_size=3)
METRICS = ["rouge", "f1", "exact_match"]


@given(prediction=TEXTS, references=REFERENCES, more=TEXTS)
def test_another_reference_never_lowers_a_score(prediction, references, more):
    wider = [*references, more]
    assert metrics.f1(prediction, wider) >= metrics.f1(prediction, references)
    assert metrics.exact_match(prediction, wider) >= metrics.exact_match(prediction, references)
    before, after = rouge(prediction, references), rouge(prediction, wider)
    assert all(after[kind] >= before[kind] for kind in ROUGE_TYPES)


@given(prediction=TEXTS, references=REFERENCES)
def test_an_exact_match_has_full_f1_unless_nothing_is_left(prediction, references):
    left = metrics.normalized(prediction)
    if metrics.exact_match(prediction, references):
        assert metrics.f1(prediction, references) == (1.0 if left else 0.0)
    assert metrics.normalized(left) == left


@pytest.mark.parametrize("metric", METRICS)
@given(rows=st.lists(st.tuples(TEXTS, REFERENCES), min_size=1, max_size=4), seed=st.randoms())
def test_a_score_does_not_know_the_order_of_ids(metric, rows, seed):
    predictions = {str(i): prediction for i, (prediction, _) in enumerate(rows)}
    references = {str(i): found for i, (_, found) in enumerate(rows)}
    order = [*predictions]
    seed.shuffle(order)
    shuffled = {id: predictions[id] for id in order}
    assert score(shuffled, references, metric=metric) == score(
        predictions, references, metric=metric
    )


def test_a_mean_needs_all_its_tasks():
    scores = {task: 10.0 for task in TASKS if task != "quality"}
    assert benchmark_means(scores) == {"mean": None, "mean_without_quality": 10.0}
    assert benchmark_means({"qmsum": 1.0}) == {"mean": None, "mean_without_quality": None}


def test_lengths_are_those_of_predictions_and_of_their_references():
    found = prediction_statistics(
        {"a": "two words", "b": " "},
        {"a": ["one"], "b": ["x y z", "x"], "c": ["not predicted"]},
        truncated=Counts(examples=2, prompts_cut=1, prompt_tokens_cut=9),
        tokens={"a": 4, "b": 0},
    )
    assert found["empty"] == 0.5
    assert found["predictions"]["count"] == 2
    assert found["references"]["count"] == 3
    words = {"mean": 1.0, "least": 0, "p10": 0.2, "p50": 1.0, "p90": 1.8, "most": 2}
    assert found["predictions"]["words"] == words
    assert found["predictions"]["characters"]["most"] == 9
    assert found["predictions"]["tokens"]["mean"] == 2.0
    assert found["references"]["characters"]["mean"] == 3.0
    assert found["truncated"]["prompt_tokens_cut"] == 9
    assert json.loads(json.dumps(found)) == found


def test_without_references_or_predictions_nothing_is_made_up():
    found = prediction_statistics({"a": "x"}, {}, truncated=Counts(), tokens={"a": 1})
    assert found["references"] == {"count": 0, "characters": None, "words": None}
    assert prediction_statistics({}, {}, truncated=Counts(), tokens={})["empty"] == 0.0
