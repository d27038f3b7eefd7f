r"""Marks token by token, while a text is generated: the same as `mark` of the whole text.

    online = Online(segmenter=Sentences())
    online.push(" The")  -> [3]      the mark of this token: document and segment start here
    online.push(" end.") -> [0]
    online.push(" It")   -> [2]

A mark is decided by the token's anchor, its first visible character (align.py), and the machines of
our segmenters know every cut up to the last character read. So `push` returns the mark of the very
token that it is given, before the next token is chosen. One case waits: a token whose anchor is a
character of which bytes are still to come (byte-level vocabularies split emoji and CJK). Its mark
comes with the push that completes the character; `waiting` counts such tokens, and `provisional`
returns their marks if the text ended here. A machine that decides later lets its tokens wait, too.

The state is small whatever the length of the text: `copy` it at each step, and speculative decoding
can roll back by going on with a copy. States can be compared and pickled.
"""

from __future__ import annotations

import codecs
import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from segmenters.align import DOCUMENT, SEGMENT
from segmenters.base import Machine, Segmenter

_CONTINUATION = range(0x80, 0xC0)


@dataclass(slots=True, init=False)
class Online:
    """Marks of the tokens of one document, pushed one by one.

    Raises ValueError for a `segmenter` that cannot be followed (`Segmenter.machine`).
    """

    _machine: Machine
    # Bytes of a character that is not complete; characters read; whether the text has ended.
    _bytes: bytes
    _size: int
    _closed: bool
    # Cuts behind the last anchor; the last anchor (-1 before the first token).
    _cuts: deque[int]
    _anchor: int
    # First and last character of the tokens whose anchor is not known, and then anchors of those
    # before them whose mark is not decided.
    _spans: deque[tuple[int, int]]
    _anchors: deque[int]

    def __init__(self, *, segmenter: Segmenter) -> None:
        self._machine = segmenter.machine()
        self._bytes, self._size, self._closed = b"", 0, False
        self._cuts, self._anchor = deque(), -1
        self._spans, self._anchors = deque(), deque()

    @property
    def waiting(self) -> int:
        """Return how many tokens have no mark yet."""
        return len(self._spans) + len(self._anchors)

    def push(self, piece: str | bytes) -> list[int]:
        """Return the marks decided by one more token, in order; usually its own, alone.

        `piece`: the text of the token in whole characters, or in bytes of UTF-8, which may split
        one (what is no UTF-8 counts as U+FFFD; lone surrogates are characters); empty for special
        tokens. Raises TypeError for anything else, and ValueError behind `finish`.
        """
        if not isinstance(piece, str | bytes):
            raise TypeError(f"piece must be str or bytes, was: {type(piece).__name__}")
        if self._closed:
            raise ValueError("push must not follow finish: copy the state before")
        first = self._size
        if isinstance(piece, str):
            # Of a broken character, its replacement comes before the piece.
            added, self._bytes = _decode(self._bytes, final=True)[0], b""
            first += len(added)
            added += piece
        else:
            first += bool(self._bytes and piece and piece[0] not in _CONTINUATION)
            data = self._bytes + piece
            added, read = _decode(data, final=False)
            self._bytes = data[read:]
        last = self._size + len(added) - (not self._bytes)
        self._spans.append((first, last) if piece else (first, first - 1))
        return self._decide(added)

    def finish(self) -> list[int]:
        """End the text; return the marks of the tokens that still wait."""
        if self._closed:
            return []
        added, self._bytes, self._closed = _decode(self._bytes, final=True)[0], b"", True
        return self._decide(added)

    def provisional(self) -> list[int]:
        """Return the marks of the waiting tokens if the text ended here; the state stays."""
        return self.copy().finish() if self.waiting else []

    def copy(self) -> Online:
        """Return an independent state at the same place."""
        twin = copy.copy(self)
        twin._machine = self._machine.copy()
        twin._cuts, twin._spans = self._cuts.copy(), self._spans.copy()
        twin._anchors = self._anchors.copy()
        return twin

    def _decide(self, added: str) -> list[int]:
        """Return marks of the tokens that are decided, now that `added` follows the text."""
        known = self._size
        self._size += len(added)
        self._cuts.extend(self._machine.push(added))
        if self._closed:
            self._cuts.extend(self._machine.close())
        while self._spans and (anchor := self._anchor_of(*self._spans[0], added, known)) >= 0:
            self._spans.popleft()
            self._anchors.append(anchor)
        decided = self._size if self._closed else self._machine.decided
        marks: list[int] = []
        while self._anchors and (self._anchors[0] <= decided or not self._anchors[0]):
            marks.append(self._mark(self._anchors.popleft()))
        return marks

    def _anchor_of(self, first: int, last: int, added: str, known: int) -> int:
        """Return the deciding character of a token's span; -1 while it is not complete.

        The characters of the span before `known` are white space.
        """
        before = self._anchors[-1] if self._anchors else max(self._anchor, 0)
        if last < first:
            return before
        for place in range(max(first, known), last + 1):
            if place == self._size:
                return -1
            if not added[place - known].isspace():
                return max(before, place)
        return max(before, first)

    def _mark(self, anchor: int) -> int:
        mark = DOCUMENT | SEGMENT if self._anchor < 0 else 0
        while self._cuts and self._cuts[0] <= anchor:
            self._cuts.popleft()
            mark |= SEGMENT
        self._anchor = anchor
        return mark


class TokenMarker:
    """Marks of the tokens of one document from their ids, as whoever decodes has them.

    pieces: the bytes of each token id, empty for special tokens; skip: bytes at the start that are
    not of the text (SentencePiece writes a space before it). Raises ValueError as `Online` does.
    """

    __slots__ = ("_online", "_pieces", "_skip")

    def __init__(self, *, segmenter: Segmenter, pieces: Sequence[bytes], skip: int = 0) -> None:
        self._online, self._pieces = Online(segmenter=segmenter), pieces
        self._skip = skip

    def push(self, token: int) -> list[int]:
        """Return the marks decided by one more token (`Online.push`)."""
        piece = self._pieces[token]
        if self._skip:
            piece, self._skip = piece[self._skip :], max(0, self._skip - len(piece))
        return self._online.push(piece)

    def provisional(self) -> list[int]:
        """Return the marks of the waiting tokens if the text ended here."""
        return self._online.provisional()

    def copy(self) -> TokenMarker:
        """Return an independent marker in the same state."""
        twin = copy.copy(self)
        twin._online = self._online.copy()
        return twin


def _decode(data: bytes, *, final: bool) -> tuple[str, int]:
    """Return the characters of `data`, and of how many bytes: not of half a character."""
    half = not final and data[-2:-1] == b"\xed" and 0xA0 <= data[-1] < 0xC0
    text, read = codecs.utf_8_decode(data[:-2] if half else data, _ERRORS, final)
    return text, read


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Read a lone surrogate as itself, anything else that is no UTF-8 as U+FFFD."""
    assert isinstance(error, UnicodeDecodeError)
    lone = error.object[error.start : error.start + 3]
    try:
        return lone.decode("utf-8", "surrogatepass"), error.start + 3
    except UnicodeDecodeError:
        return "\ufffd", error.end


_ERRORS = "segmenters.surrogates"
codecs.register_error(_ERRORS, _replace)
