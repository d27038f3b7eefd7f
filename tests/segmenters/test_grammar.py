"""Documents that a grammar writes: all formats end, tile them, and nest their levels.

`BIPE_FUZZ=100000 pytest tests/segmenters/test_grammar.py` reads more of them; so does
`python -m benchmarks.hostile --fuzz`, which also measures time.
"""

import os
import re
import signal

import pytest

from segmenters import Auto, ChainOfThought, LaTeXProofs, Mixed, Segmenter, Sentences
from segmenters.documents.mixed import FORMATS
from tests.segmenters.grammar import document
from tests.segmenters.test_laws import levels_of

_TEXTS = int(os.environ.get("BIPE_FUZZ", "100"))
_READERS: list[Segmenter] = [
    *(Mixed(format=format) for format in FORMATS),
    *(Auto(), Auto(granularity="logical"), LaTeXProofs(), ChainOfThought()),
    Sentences(backend="rules"),
]


def _late(*_):
    raise TimeoutError("it took 10 seconds")


@pytest.mark.parametrize("reader", _READERS, ids=repr)
def test_documents_of_the_grammar_are_tiled_on_all_levels(reader):
    """A loop without end is an error instead."""
    before = signal.signal(signal.SIGVTALRM, _late)
    try:
        for seed in range(_TEXTS):
            signal.setitimer(signal.ITIMER_VIRTUAL, 10)
            levels_of(reader, document(seed))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_the_grammar_writes_what_once_looped_without_end():
    """A quotation indented by four in a list item must come back whatever is added."""
    texts = [document(seed) for seed in range(1500)]
    assert texts == [document(seed) for seed in range(1500)]
    assert any(re.search(r"^(?:1\.|-) *[\r\n]+ {4}>", text, re.MULTILINE) for text in texts)
