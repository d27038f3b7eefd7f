"""Marks token by token equal the marks of the whole text."""

import pickle
import random
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Coq, Lines, Newline, Segmenter, Sentences, mark
from segmenters.align import anchors_from_offsets
from segmenters.base import Machine
from segmenters.streaming.online import Online
from tests.segmenters.texts import any_text

each = pytest.mark.parametrize("segmenter", [Sentences(), Lines(), Coq()], ids=repr)


def online_marks(segmenter, pieces):
    online = Online(segmenter=segmenter)
    marks = [decided for piece in pieces for decided in online.push(piece)]
    return marks + online.finish()


@each
@given(text=any_text, seed=st.integers(0, 99))
def test_any_text_in_any_pieces_agrees(segmenter, text, seed):
    """Empty pieces, split characters, and lone surrogates, as UTF-8 would spell them."""
    draw = random.Random(seed)
    rest, pieces, offsets = text.encode("utf-8", "surrogatepass"), [], []
    while rest:
        size = draw.randint(0, 5)
        pieces.append(rest[:size])
        rest = rest[size:]
    # The characters that hold the first and the last byte of a piece.
    sizes = (len(char.encode("utf-8", "surrogatepass")) for char in text)
    owner = [place for place, size in enumerate(sizes) for _ in range(size)]
    byte = 0
    for piece in pieces:
        held = owner[byte : byte + len(piece)]
        offsets.append((held[0], held[-1] + 1) if held else (0, 0))
        byte += len(piece)
    batch = mark(anchors_from_offsets(text, offsets), (segmenter.cut(text),))
    assert online_marks(segmenter, pieces) == batch.tolist()


@given(text=any_text, taken_back=st.binary(max_size=9), share=st.floats(0, 1))
def test_a_rollback_leaves_no_trace(text, taken_back, share):
    rest = text.encode("utf-8", "surrogatepass")
    place = int(share * len(rest))
    online, straight = (Online(segmenter=Sentences()) for _ in range(2))
    for value in rest[:place]:
        assert online.push(bytes([value])) == straight.push(bytes([value]))
    saved = online.copy()
    assert saved == online == pickle.loads(pickle.dumps(online))
    online.push(taken_back)
    online.finish()
    assert saved == straight
    for value in rest[place:]:
        assert saved.push(bytes([value])) == straight.push(bytes([value]))


def test_a_mark_comes_with_its_token():
    online = Online(segmenter=Sentences())
    pushed = [online.push(piece) for piece in ("He", " left", ".", " ", '"', " She", "")]
    assert pushed == [[3], [0], [0], [0], [2], [0], [0]]


def test_a_split_character_waits_for_its_last_byte():
    online = Online(segmenter=Newline())
    first, *rest = [bytes([byte]) for byte in "\n\U0001f600".encode()]
    assert online.push(first) == [3]
    assert [online.push(piece) for piece in rest[:-1]] == [[], [], []]
    assert online.waiting == 3 and online.provisional() == [2, 0, 0]
    assert online.push(rest[-1]) == [2, 0, 0, 0]
    assert online.waiting == 0 and online.provisional() == []


def test_broken_bytes_are_replaced():
    online = Online(segmenter=Newline())
    assert online.push(b"\n") == [3] and online.push(b"\xf0\x9f") == []
    assert online.push(b"a") == [2, 0]
    assert online.push(b"\xe3") == [] and online.finish() == [0]
    with pytest.raises(ValueError, match="push must not follow finish"):
        online.push(b"a")


class Late(Segmenter):
    """Cuts in front of "ab": what stands behind a place decides."""

    lookahead = 2

    def _ends(self, text):
        return [place for place in range(len(text)) if text.startswith("ab", place)]

    def machine(self):
        return LateMachine()


@dataclass(slots=True, kw_only=True)
class LateMachine(Machine):
    """Follows `Late`; `pending` says that the last character is an "a"."""

    pending: bool = False

    @property
    def decided(self):
        return self.size - 1 - self.pending

    def _read(self, text):
        window = "a" * self.pending + text
        start = self.size - self.pending
        self.pending = window.endswith("a")
        return [found for m in re.finditer("ab", window) if (found := start + m.start())]


@given(text=st.text("ab ", max_size=30))
def test_tokens_wait_for_a_machine_that_decides_late(text):
    batch = mark(
        anchors_from_offsets(text, [(i, i + 1) for i in range(len(text))]), (Late().cut(text),)
    )
    assert online_marks(Late(), text) == batch.tolist()
    online = Online(segmenter=Late())
    for place, char in enumerate(text):
        online.push(char)
        assert online.waiting == (char == "a" and place > 0)
        assert len(online.provisional()) == online.waiting
