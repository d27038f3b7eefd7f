"""Marks token by token while a text is generated: the same as `mark` of the whole text.

    online = Online(segmenter=Sentences())
    online.push(" The")  -> [3]      the mark of this token: document and segment start here
    online.push(" end.") -> [0]
    online.push(" It")   -> [2]

With `levels=2`, bit 2 of a mark opens a segment of the second level, and so on, if the segmenter
can follow these levels (`Segmenter.level_machine`).

A mark depends on the token's anchor, its first visible character (align.py), and machines know
every cut up to the last character read, so `push` returns the mark of its own token before the next
one is chosen. A token waits only if the bytes of its anchor are incomplete (byte-level vocabularies
split emoji and CJK) or if a machine decides later. `waiting` counts such tokens, and `provisional`
returns their marks as if the text ended here. The state is small for any length of text, and can be
compared and pickled; a `copy` at each step lets speculative decoding roll back.
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

    `levels`: how many levels of the segmenter the marks contain, finest first. Raises ValueError
    for a segmenter that needs the whole text.
    """

    _machines: list[Machine]
    # Bytes of a character that is not complete; characters read; whether the text has ended.
    _bytes: bytes
    _size: int
    _closed: bool
    # Cuts of each level after the last anchor; the last anchor (-1 before the first token).
    _cuts: list[deque[int]]
    _anchor: int
    # First and last character of each token with an unknown anchor; the anchors of the tokens
    # before them whose marks are undecided.
    _spans: deque[tuple[int, int]]
    _anchors: deque[int]

    def __init__(self, *, segmenter: Segmenter, levels: int = 1) -> None:
        if not isinstance(segmenter, Segmenter):
            raise ValueError(f"segmenter must be one, such as Sentences(), was: {segmenter!r}")
        names = segmenter.level_names
        if not 1 <= levels <= len(names):
            raise ValueError(
                f"levels must be 1 to {len(names)}, since {type(segmenter).__name__} has "
                f"{', '.join(names)}, was: {levels}"
            )
        self._machines = [segmenter.level_machine(level) for level in range(levels)]
        self._bytes, self._size, self._closed = b"", 0, False
        self._cuts, self._anchor = [deque() for _ in self._machines], -1
        self._spans, self._anchors = deque(), deque()

    @property
    def waiting(self) -> int:
        """Return how many tokens have no mark yet."""
        return len(self._spans) + len(self._anchors)

    def push(self, piece: str | bytes) -> list[int]:
        """Read one more token; return the marks that it decides, in order: usually only its own.

        `piece`: the token's text, or its bytes of UTF-8, which may split a character (invalid bytes
        count as U+FFFD, lone surrogates as characters); empty for special tokens. Raises TypeError
        for other types, and ValueError after `finish`.
        """
        if not isinstance(piece, str | bytes):
            raise TypeError(f"piece must be str or bytes, was: {type(piece).__name__}")
        if self._closed:
            raise ValueError("push must not follow finish: copy the state before finish")
        # The place of the first character of the piece, which may end one that is begun.
        first = self._size
        if isinstance(piece, str):
            # The replacement of an incomplete character comes before the piece.
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
        """End the text; return the marks of the waiting tokens."""
        if self._closed:
            return []
        added, self._bytes, self._closed = _decode(self._bytes, final=True)[0], b"", True
        return self._decide(added)

    def provisional(self) -> list[int]:
        """Return the marks of the waiting tokens as if the text ended here; the state stays."""
        return self.copy().finish() if self.waiting else []

    def copy(self) -> Online:
        """Return an independent copy."""
        twin = copy.copy(self)
        twin._machines = [machine.copy() for machine in self._machines]
        twin._cuts = [cuts.copy() for cuts in self._cuts]
        twin._spans, twin._anchors = self._spans.copy(), self._anchors.copy()
        return twin

    def _decide(self, added: str) -> list[int]:
        """Return the marks that are decided once `added` follows the text."""
        size = self._size
        self._size += len(added)
        found: list[int] = []
        while self._spans and (anchor := self._anchor_of(*self._spans[0], added, size)) >= 0:
            self._spans.popleft()
            self._anchors.append(anchor)
            found.append(anchor)
        for machine, cuts in zip(self._machines, self._cuts, strict=True):
            cuts.extend(machine.push(added))
            for anchor in found:
                cuts.extend(machine.anchored(anchor))
            if self._closed:
                cuts.extend(machine.close())
        decided = min(machine.decided for machine in self._machines)
        decided = self._size if self._closed else decided
        marks: list[int] = []
        while self._anchors and (self._anchors[0] <= decided or not self._anchors[0]):
            marks.append(self._mark(self._anchors.popleft()))
        return marks

    def _anchor_of(self, first: int, last: int, added: str, known: int) -> int:
        """Return the anchor of a token's span, or -1 while the span is incomplete."""
        before = self._anchors[-1] if self._anchors else max(self._anchor, 0)
        if last < first:
            return before
        for place in range(max(first, known), last + 1):  # before `known` is white space
            if place == self._size:
                return -1
            if not added[place - known].isspace():
                return max(before, place)
        return max(before, first)

    def _mark(self, anchor: int) -> int:
        mark = DOCUMENT if self._anchor < 0 else 0
        for level, cuts in enumerate(self._cuts):
            opens = self._anchor < 0
            while cuts and cuts[0] <= anchor:
                cuts.popleft()
                opens = True
            mark |= opens * (SEGMENT << level)
        self._anchor = anchor
        return mark


class TokenMarker:
    """Marks of the tokens of one document from their ids; raises ValueError as `Online` does.

    `levels`: of the marks, as for `Online`.
    `pieces`: the bytes of each id, empty for special tokens; `skip`: bytes at the start that do not
    belong to the text (SentencePiece writes a space before it).
    """

    __slots__ = ("_online", "_pieces", "_skip")

    def __init__(
        self, *, segmenter: Segmenter, pieces: Sequence[bytes], skip: int = 0, levels: int = 1
    ) -> None:
        if isinstance(pieces, bytes) or not all(isinstance(piece, bytes) for piece in pieces[:1]):
            raise ValueError("pieces must be a list of the bytes of each id")
        self._online, self._pieces = Online(segmenter=segmenter, levels=levels), pieces
        self._skip = skip

    def push(self, token: int) -> list[int]:
        """Read one more token; return the marks that it decides (`Online.push`)."""
        if not 0 <= token < len(self._pieces):
            raise ValueError(f"token must be an id of the {len(self._pieces)} pieces, was: {token}")
        piece = self._pieces[token]
        if self._skip:
            piece, self._skip = piece[self._skip :], max(0, self._skip - len(piece))
        return self._online.push(piece)

    def provisional(self) -> list[int]:
        """Return the marks of the waiting tokens as if the text ended here."""
        return self._online.provisional()

    def copy(self) -> TokenMarker:
        """Return an independent copy."""
        twin = copy.copy(self)
        twin._online = self._online.copy()
        return twin


def _decode(data: bytes, *, final: bool) -> tuple[str, int]:
    """Return the decoded characters of `data` and their number of bytes; half a character waits."""
    # The first two bytes of a surrogate, which Python takes for invalid at once.
    half = not final and data[-2:-1] == b"\xed" and 0xA0 <= data[-1] < 0xC0
    return codecs.utf_8_decode(data[:-2] if half else data, _ERRORS, final)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Decode a lone surrogate as itself, and other invalid UTF-8 as U+FFFD."""
    assert isinstance(error, UnicodeDecodeError)
    lone = error.object[error.start : error.start + 3]
    try:
        return lone.decode("utf-8", "surrogatepass"), error.start + 3
    except UnicodeDecodeError:
        return "\ufffd", error.end


_ERRORS = "segmenters.surrogates"
codecs.register_error(_ERRORS, _replace)
