r"""Marks token by token, while a text is generated: the same as `mark` of the whole text.

    online = Online(segmenter=Sentences())
    online.push(" The")  -> [3]      the mark of this token: document and segment start here
    online.push(" end.") -> [0]
    online.push(" It")   -> [2]

**Delay.** A mark is decided by the token's anchor, its first visible character (align.py), and
every cut up to the anchor p is known from text[: p + 1], since the segmenters here look ahead at
most one character and that is the anchor itself. So `push` returns the mark of the very token that
it is given, before the next token is chosen. One case waits: a token whose anchor is a character
of which bytes are still to come (byte-level vocabularies split emoji and CJK). Its mark comes with
the push that completes the character, together with those of the tokens in between.

The state is the end of the text, some hundred to some thousand characters, whatever the length of
the text; `copy` is cheap, so that speculative decoding can roll back. Segmenters that read further
ahead are refused: their marks cannot be known in time.
"""

from __future__ import annotations

import codecs
from collections import deque

from segmenters.align import DOCUMENT, SEGMENT
from segmenters.base import Segmenter
from segmenters.lines import Lines
from segmenters.pattern import Newline, Official
from segmenters.proofs.arithmetic import ArithmeticSteps
from segmenters.sentence_rules import sentence_ends
from segmenters.sentences import Sentences

# How many characters before a place these segmenters read to decide on it.
_LOCAL: dict[type[Segmenter], int] = {Newline: 1, Official: 2, ArithmeticSteps: 2, Lines: 1}
# The sentence rules look no further back than this, in characters, from where a scan resumes.
_CONTEXT = 500


class Online:
    """Marks of the tokens of one document, pushed one by one.

    `segmenter`: Sentences (backend rules or spacy), Newline, Official, ArithmeticSteps or physical
    Lines. Raises ValueError for any other, and for one that reads further ahead than a character.
    """

    __slots__ = (
        *("_base", "_cuts", "_decoder", "_last", "_letter", "_anchor", "_segmenter", "_text"),
        "_waiting",
    )

    def __init__(self, *, segmenter: Segmenter) -> None:
        causal = segmenter.lookahead in (0, 1)
        if not causal or not (type(segmenter) in _LOCAL or isinstance(segmenter, Sentences)):
            known = ", ".join(kind.__name__ for kind in _LOCAL)
            raise ValueError(
                f"segmenter must be {known} or Sentences, and look ahead at most 1 character, "
                f"was: {segmenter!r}"
            )
        self._segmenter = segmenter
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # The end of the text, and how many characters of it were dropped.
        self._text, self._base = "", 0
        # Where the last sentence started (None: nothing visible yet), and a letter before which
        # all is decided; both count in characters of the whole text.
        self._last: int | None = None
        self._letter = 0
        # Cuts behind the last anchor; the last anchor (None before the first token).
        self._cuts: deque[int] = deque()
        self._anchor: int | None = None
        # First and last character of each token that waits for its mark.
        self._waiting: deque[tuple[int, int]] = deque()

    @property
    def waiting(self) -> int:
        """How many tokens have no mark yet: their character is not complete."""
        return len(self._waiting)

    def push(self, piece: str | bytes) -> list[int]:
        """Marks decided by one more token, in the order of the tokens; usually its own, alone.

        `piece` is the text of the token: bytes of UTF-8, of which a character may be split over
        tokens (what is no UTF-8 counts as U+FFFD), or whole characters. A special token has the
        empty piece. Raises TypeError for anything else.
        """
        if not isinstance(piece, str | bytes):
            raise TypeError(f"piece must be str or bytes, was: {type(piece).__name__}")
        known = self._base + len(self._text)
        first = known
        if isinstance(piece, str):
            added = self._decoder.decode(b"", final=True)
            first += len(added)
            added += piece
            self._decoder.reset()
        else:
            split = bool(self._decoder.getstate()[0])
            added = self._decoder.decode(piece)
            # A broken character is replaced; the piece then starts behind the replacement.
            first += split and bool(piece) and not 0x80 <= piece[0] < 0xC0
        self._text += added
        end = self._base + len(self._text) + bool(self._decoder.getstate()[0])
        self._waiting.append((first, end - 1) if piece else (first, first - 1))
        return self._decide(known)

    def finish(self) -> list[int]:
        """Marks of the tokens that still wait when the text ends in an incomplete character."""
        known = self._base + len(self._text)
        self._text += self._decoder.decode(b"", final=True)
        return self._decide(known)

    def copy(self) -> Online:
        """An independent state at the same place."""
        twin = Online.__new__(Online)
        for name in Online.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._cuts, twin._waiting = self._cuts.copy(), self._waiting.copy()
        twin._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        twin._decoder.setstate(self._decoder.getstate())
        return twin

    def _decide(self, known: int) -> list[int]:
        """Marks of the tokens whose anchors are complete; `known` characters were there before."""
        if self._base + len(self._text) > known:
            if isinstance(self._segmenter, Sentences):
                self._cut_sentences(known)
            else:
                self._cut_locally(known)
        marks: list[int] = []
        while self._waiting:
            anchor = self._anchor_of(*self._waiting[0])
            if anchor is None:
                break
            self._waiting.popleft()
            marks.append(self._mark(anchor))
        self._forget()
        return marks

    def _anchor_of(self, first: int, last: int) -> int | None:
        """The deciding character of a token's span; None while it is not complete."""
        before = -1 if self._anchor is None else self._anchor
        if last < first:
            return max(before, 0)
        for place in range(first, last + 1):
            if place - self._base >= len(self._text):
                return None
            if not self._text[place - self._base].isspace():
                return max(before, place)
        return max(before, first)

    def _mark(self, anchor: int) -> int:
        mark = DOCUMENT | SEGMENT if self._anchor is None else 0
        while self._cuts and self._cuts[0] <= anchor:
            self._cuts.popleft()
            mark |= SEGMENT
        self._anchor = anchor
        return mark

    def _cut_locally(self, known: int) -> None:
        # From where the rule sees all that it reads: places before `known` are decided.
        start = max(0, known - self._base - _LOCAL[type(self._segmenter)])
        cuts = self._segmenter.cut(self._text[start:]) + (start + self._base)
        self._cuts.extend(cut for cut in cuts[1:-1].tolist() if cut >= known)

    def _cut_sentences(self, known: int) -> None:
        text, base = self._text, self._base
        if self._last is None:
            space = len(text) - len(text.lstrip())
            if space == len(text):
                return
            self._last = base + space
        ends = sentence_ends(text, position=self._letter - base, last=self._last - base)
        if ends:
            self._last = base + ends[-1]
            self._cuts.extend(base + end for end in ends)
        # No candidate reaches over a letter, so the next scan may start there.
        for place in range(len(text) - 1, known - base - 1, -1):
            if text[place].isalpha():
                self._letter = base + place
                break

    def _forget(self) -> None:
        """Drop the text that no rule and no waiting token can read any more."""
        if len(self._text) < 2 * _CONTEXT:
            return
        oldest = self._base + len(self._text)
        if isinstance(self._segmenter, Sentences):
            oldest = self._letter
        if self._waiting:
            oldest = min(oldest, self._waiting[0][0])
        drop = oldest - self._base - _CONTEXT
        if drop > 0:
            self._text = self._text[drop:]
            self._base += drop
