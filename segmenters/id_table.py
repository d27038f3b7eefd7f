r"""Marks from token ids alone: what a segmenter does, compiled for one vocabulary.

    table = IdTable.compile(pieces, segmenter)        # pieces: the bytes of each id
    table = table.measured(texts, encode)             # how often it is wrong
    table.marks(ids)                                  # uint8 [..., time], as `mark` gives them

Four booleans an id, found out by letting the segmenter's machine read the piece in a few places:

    closes   a segment ends with the piece (".", "\n"): the next one may start another
    takes    the piece starts a segment if the piece before closed one (" The"; ")" does not)
    passes   the piece leaves that to the next (white space behind a period, special tokens)
    opens    a segment starts in the piece by itself ("\nNo" as one token)

A token t starts a segment if opens[t] or (pending and takes[t]); then pending becomes closes[t] or
(pending and passes[t]). One boolean is carried, so the table runs on a device, in a loop or, as
here, without one. The released rule (`official_marks`) is the table that only closes.

What more than two neighbours decide is lost: abbreviations, brackets, comments. `disagreement` is
the measured share of tokens whose mark is wrong; it is a part of the fingerprint. For exact marks,
take `Online`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.align import DOCUMENT, SEGMENT, Marks
from segmenters.base import Segmenter
from segmenters.online import Online

Flags = npt.NDArray[np.bool_]

# A plain word that stands before the piece; what then closes a segment, the first that does; and a
# word that starts one.
_BEFORE, _CLOSERS, _AFTER = "It was written", (".", "\n", " =", " $."), " Next"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IdTable:
    """What each id does to segments: bool [ids] each. Make it by `compile` or `of_separators`.

    `disagreement` is the measured share of wrong marks in so many `tokens` (None: not measured).
    """

    closes: Flags
    takes: Flags
    passes: Flags
    opens: Flags
    pieces: tuple[bytes, ...] = ()
    segmenter: Segmenter | None = None
    disagreement: float | None = None
    tokens: int = 0

    @classmethod
    def compile(cls, pieces: Sequence[str | bytes], segmenter: Segmenter) -> IdTable:
        """The table of a vocabulary: `pieces[id]` is the text of the id, empty for special tokens.

        Raises ValueError for a segmenter that cannot be followed (`machine_of`).
        """
        before = Online(segmenter=segmenter)
        before.push(_BEFORE)
        closed = before.copy()
        for closer in _CLOSERS:
            closed = _pushed(before, closer)[0]
            if _pushed(closed, _AFTER)[1]:
                break
        data = tuple(_bytes_of(piece) for piece in pieces)
        flags = np.array([_flags(piece, before, closed) for piece in data], dtype=bool)
        closes, takes, passes, opens = flags.reshape(-1, 4).T.copy()
        return cls(
            closes=closes,
            takes=takes,
            passes=passes,
            opens=opens,
            pieces=data,
            segmenter=segmenter,
        )

    @classmethod
    def of_separators(cls, size: int, separators: Collection[int]) -> IdTable:
        """The rule of the released BiPE: each of the ids `separators` closes its segment."""
        closes = np.zeros(size, dtype=bool)
        closes[list(separators)] = True
        none = np.zeros(size, dtype=bool)
        return cls(closes=closes, takes=~none, passes=none, opens=none)

    def marks(self, ids: npt.ArrayLike) -> Marks:
        """Marks uint8 [..., time] of ids [..., time]; each row is a document from its start.

        Raises ValueError for an id that the table does not have.
        """
        index = np.asarray(ids, dtype=np.int64)
        if index.size and not 0 <= index.min() <= index.max() < len(self.closes):
            raise ValueError(f"ids must be below {len(self.closes)}, was: {index.max()}")
        marks = np.zeros(index.shape, dtype=np.uint8)
        if not index.size:
            return marks
        # Pending in front of a token: what the last token said that does not just pass it on.
        time = np.arange(index.shape[-1])
        closes, passes = self.closes[index], self.passes[index]
        said = np.maximum.accumulate(np.where(closes | ~passes, time, -1), axis=-1)
        after = np.take_along_axis(closes, np.maximum(said, 0), axis=-1) & (said >= 0)
        pending = np.zeros_like(after)
        pending[..., 1:] = after[..., :-1]
        marks[self.opens[index] | (pending & self.takes[index])] = SEGMENT
        marks[..., 0] = DOCUMENT | SEGMENT
        return marks

    def measured(self, texts: Iterable[str], encode: Callable[[str], Sequence[int]]) -> IdTable:
        """This table with its share of marks that are not the exact ones (`Online`) on `texts`.

        `encode` gives the ids of a text. Raises ValueError without a segmenter or without tokens.
        """
        if self.segmenter is None:
            raise ValueError("segmenter must be known: measure a table made by compile")
        wrong = tokens = 0
        for text in texts:
            ids = list(encode(text))
            online = Online(segmenter=self.segmenter)
            exact = [mark for id in ids for mark in online.push(self.pieces[id])]
            exact += online.finish()
            wrong += int((self.marks(ids) != np.array(exact, dtype=np.uint8)).sum())
            tokens += len(ids)
        if not tokens:
            raise ValueError("texts must hold tokens to measure on")
        return replace(self, disagreement=wrong / tokens, tokens=tokens)

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the marks, and how good they are, as JSON-able values."""
        flags = np.stack((self.closes, self.takes, self.passes, self.opens))
        return {
            "id_table": hashlib.sha256(np.packbits(flags).tobytes()).hexdigest(),
            "ids": len(self.closes),
            "segmenter": self.segmenter.fingerprint() if self.segmenter else None,
            "disagreement": self.disagreement,
            "tokens": self.tokens,
        }

    def __str__(self) -> str:
        name = repr(self.segmenter) if self.segmenter else "separators"
        rate = "not measured"
        if self.disagreement is not None:
            rate = f"{self.disagreement:.4%} of {self.tokens} marks wrong"
        return f"IdTable of {len(self.closes)} ids for {name}: {rate}"


def _bytes_of(piece: str | bytes) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")


def _pushed(online: Online, piece: str | bytes) -> tuple[Online, bool]:
    """The state behind a piece, and whether a segment started in it."""
    twin = online.copy()
    marks = twin.push(piece) or twin.provisional()
    return twin, bool(marks[-1] & SEGMENT)


def _flags(piece: bytes, before: Online, closed: Online) -> tuple[bool, bool, bool, bool]:
    """closes, takes, passes, opens of a piece, read behind a word and behind a closed segment."""
    if not piece:
        return False, False, True, False
    behind_word, opens = _pushed(before, piece)
    closes = _pushed(behind_word, _AFTER)[1]
    behind_end, takes = _pushed(closed, piece)
    passes = not takes and not closes and _pushed(behind_end, _AFTER)[1]
    return closes, takes, passes, opens
