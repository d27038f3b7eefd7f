"""Dialogues in many languages: quotes in quotes are cut where their sentences end.

`BIPE_FUZZ=20000 pytest tests/segmenters/test_dialogues.py` reads more of them.
"""

import os

from segmenters import Sentences
from tests.segmenters.dialogues import LANGUAGES, dialogue

_TEXTS = int(os.environ.get("BIPE_FUZZ", "200"))
RULES = Sentences()


def marked(text, cuts):
    return "|".join(text[start:end] for start, end in zip(cuts, [*cuts[1:], None], strict=True))


def test_sentences_in_quotes_end_at_their_terminators_and_closers():
    names = set()
    for seed in range(_TEXTS):
        text, ends, name = dialogue(seed)
        assert marked(text, RULES.cut(text).tolist()[:-1]) == marked(text, ends), (seed, name)
        names.add(name)
    assert names == {*LANGUAGES}
