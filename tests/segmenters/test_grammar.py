"""Documents that a grammar writes: all formats end, tile them, and nest their levels.

`BIPE_FUZZ=100000 pytest tests/segmenters/test_grammar.py` reads more of them; so does
`python -m benchmarks.hostile --fuzz`, which also measures time.
"""

import os
import re
import signal

import numpy as np
import pytest

from segmenters import Auto, ChainOfThought, LaTeXProofs, Mixed, Segmenter, Sentences
from segmenters.documents.mixed import FORMATS
from tests.segmenters.grammar import document

_TEXTS = int(os.environ.get("BIPE_FUZZ", "100"))
_READERS: list[Segmenter] = [
    *(Mixed(format=format) for format in FORMATS),
    *(Auto(), Auto(granularity="logical"), LaTeXProofs(), ChainOfThought()),
    Sentences(backend="rules"),
]
each = pytest.mark.parametrize("reader", _READERS, ids=repr)


def tiles(reader, text):
    """Whether the levels tile the text and are nested; a loop without end is an error instead."""
    before = signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, 10)
    try:
        levels = reader.levels(text)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    finer = np.arange(len(text) + 1)
    for cuts in levels:
        if cuts[0] != 0 or cuts[-1] != len(text) or not (np.diff(cuts) > 0).all():
            return False
        if not np.isin(cuts, finer).all():
            return False
        finer = cuts
    return len(levels) == len(reader.level_names)


def _late(*_):
    raise TimeoutError("it took 10 seconds")


@each
def test_documents_of_the_grammar_are_tiled_on_all_levels(reader):
    for seed in range(_TEXTS):
        assert tiles(reader, document(seed)), seed


def test_the_grammar_writes_what_once_looped_without_end():
    """A quotation indented by four in a list item must come back whatever is added."""
    texts = [document(seed) for seed in range(1500)]
    assert texts == [document(seed) for seed in range(1500)]
    assert any(re.search(r"^(?:1\.|-) *[\r\n]+ {4}>", text, re.MULTILINE) for text in texts)
