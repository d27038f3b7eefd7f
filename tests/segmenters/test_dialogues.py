"""Dialogues in many languages: quotes in quotes are cut where their sentences end.

`BIPE_FUZZ=20000 pytest tests/segmenters/test_dialogues.py` reads more of them.
"""

import os
import random

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


def test_dialogues_are_cut_alike_in_pieces_of_any_size():
    draw = random.Random(0)
    for seed in range(_TEXTS // 5):
        text, ends, _ = dialogue(seed)
        machine, found, place = RULES.machine(), [], 0
        while place < len(text):
            size = draw.choice((1, 1, 2, 5, 40))
            found += machine.push(text[place : place + size])
            place = machine.size
            assert found == [end for end in ends[1:] if end < place], seed
