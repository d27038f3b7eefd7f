"""Statistics of predictions, against counts made by hand."""

import json

from train.evals.scoring.benchmark import prediction_statistics
from train.tasks.scrolls.encoding import Counts


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
