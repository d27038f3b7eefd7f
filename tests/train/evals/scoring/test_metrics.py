"""Laws of the scores, what cannot be scored, and statistics of predictions, counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.evals.scoring import Outputs, benchmark_means
from train.tasks.scrolls import metrics
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.encoding import Counts
from train.tasks.scrolls.metrics import ROUGE_TYPES, rouge, score

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


def outputs(texts, references, **about):
    """The rows of outputs by measure."""
    tokens = {id: len(text) // 2 for id, text in texts.items()}
    about = {"task": "t", "split": "test", "metric": "f1", "ended": {}, "cut": Counts(),
             "examples": len(texts)} | about  # fmt: skip
    made = Outputs(texts=texts, references=references, tokens=tokens, **about)
    return {row.measure.removeprefix("scrolls_"): row.value for row in made.rows()}


def test_lengths_are_those_of_predictions_and_of_their_references():
    rows = outputs(
        {"a": "two words", "b": " "},
        {"a": ["one"], "b": ["x y z", "x"]},
        ended={"stop": 2},
        cut=Counts(examples=2, prompts_cut=1, prompt_tokens_cut=9),
    )
    assert rows["empty"] == 0.5 and rows["predictions"] == 2
    assert (rows["ended_by_stop"], rows["ended_by_length"]) == (2, 0)
    words = {"mean": 1.0, "p10": 0.2, "p50": 1.0, "p90": 1.8, "most": 2}
    assert {name: rows[f"prediction_words_{name}"] for name in words} == words
    assert rows["prediction_tokens_mean"] == 2.0
    assert rows["reference_words_mean"] == pytest.approx(5 / 3)
    assert (rows["prompts_cut"], rows["prompt_tokens_cut"]) == (1, 9) and "examples" not in rows
    part = outputs({"a": "one"}, {"a": ["one"]}, examples=3)
    assert (part["part_score"], part["examples"]) == (100.0, 3) and "score" not in part


def test_without_references_or_predictions_nothing_is_made_up():
    rows = outputs({"a": "x"}, {})
    assert not any(name.startswith(("reference", "score", "f1")) for name in rows)
    assert outputs({}, {})["empty"] == 0.0
