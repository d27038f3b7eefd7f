"""Dialogues in many languages: quotes in quotes are cut where their sentences end.

`BIPE_FUZZ=20000 pytest tests/segmenters/test_dialogues.py` reads more of them.
"""

import os

from segmenters import Sentences
from tests.segmenters.dialogues import LANGUAGES, dialogue
from tests.segmenters.record_samples import with_marks

_TEXTS = int(os.environ.get("BIPE_FUZZ", "200"))
RULES = Sentences()


def test_sentences_in_quotes_end_at_their_terminators_and_closers():
    names = set()
    for seed in range(_TEXTS):
        text, ends, name = dialogue(seed)
        expected = with_marks(text, [[*ends, len(text)]])
        assert with_marks(text, [RULES.cut(text)]) == expected, (seed, name)
        names.add(name)
    assert names == {*LANGUAGES}
