r"""Marks from only token ids: a segmenter compiled for one vocabulary.

    table = IdTable.compile(pieces, segmenter)        # pieces: the bytes of each id
    table = table.measured(texts, encode)             # how often it is wrong
    table.marks(ids)                                  # uint8 [..., time], as `mark` gives them

Flags of each id, found by letting the segmenter's machine read the piece in a few places:

    closes   a segment ends with the piece (".", "\n"): the next one may start another
    takes    the piece starts a segment if one was closed before it (" The"; ")" does not)
    passes   the piece leaves the start to the next (white space after a period, special tokens)
    opens    a segment starts inside of the piece ("\nNo" as one token)
    guards   a period after the piece does not close (" Mr")
    spaces   the piece ends in white space

`closes` has a row for any previous token and one for a token that guards; `takes` and `passes` have
one for any previous token and one for a token that ends in white space. Token t after token s does

    start = opens[t] or (pending and takes[spaces[s]][t])
    pending = closes[guards[s]][t] or (pending and passes[spaces[s]][t])

on a device or, as here, without a loop. The released rule (`official_marks`) is the table that only
closes. What depends on more than a few neighbours is lost: brackets, comments, the word before an
abbreviation. `disagreement` is the measured share of wrong marks; `Online` is exact.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.align import DOCUMENT, SEGMENT, Marks
from segmenters.base import Segmenter
from segmenters.streaming.online import Online

Flags = npt.NDArray[np.bool_]

_FLAGS = ("closes", "takes", "passes", "opens", "guards", "spaces")
# A plain word before the piece; what may close a segment (the first that does is used); and a word
# that starts one.
_BEFORE, _CLOSERS, _AFTER = "It was written", (".", "\n", " =", " $.", ";"), " Next"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IdTable:
    """The effect of each id on segments. Made by `compile` or `of_separators`."""

    closes: Flags  # bool [2, ids], as the next two
    takes: Flags
    passes: Flags
    opens: Flags  # bool [ids], as the next two
    guards: Flags
    spaces: Flags
    pieces: tuple[bytes, ...] = ()
    segmenter: Segmenter | None = None
    disagreement: float | None = None  # the measured share of wrong marks
    tokens: int = 0  # that it was measured on

    @classmethod
    def compile(
        cls, pieces: Sequence[str | bytes], segmenter: Segmenter, *, texts: Sequence[str] = ("",)
    ) -> IdTable:
        """Return the table of a vocabulary; `pieces[id]` is the text of an id, empty if special.

        texts: documents; most of them get the segmenter of the table, if it is chosen for each.
        Raises ValueError for a segmenter that needs the whole text (`Segmenter.machine`).
        """
        segmenter = _usual(segmenter, texts)
        probe = _Probe(segmenter)
        data = tuple(
            piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")
            for piece in pieces
        )
        guards = [bool(piece) and probe.guards(piece) for piece in data]
        guard = next((_as_word(data[id]) for id in np.flatnonzero(guards)), b"")
        closes = [[probe.closes(piece, behind) for piece in data] for behind in (b"", guard)]
        wanted = [
            [probe.takes_or_passes(piece, behind) for piece in data]
            for behind in (probe.closed, probe.spaced)
        ]
        takes, passes = np.array(wanted, dtype=bool).reshape(2, -1, 2).transpose(2, 0, 1)
        opens = np.array([bool(piece) and _pushed(probe.word, piece)[1] for piece in data], bool)
        return cls(
            closes=np.array(closes, dtype=bool),
            takes=takes.copy(),
            passes=passes.copy(),
            opens=opens,
            guards=np.array(guards, dtype=bool),
            spaces=np.array([piece[-1:].isspace() for piece in data], dtype=bool),
            pieces=data,
            segmenter=segmenter,
        )

    @classmethod
    def of_separators(cls, size: int, separators: Collection[int]) -> IdTable:
        """Return the table of the released BiPE: each id in `separators` ends its segment."""
        closes = np.zeros((2, size), dtype=bool)
        closes[:, list(separators)] = True
        never, none = np.zeros_like(closes), np.zeros(size, dtype=bool)
        return cls(closes=closes, takes=~never, passes=never, opens=none, guards=none, spaces=none)

    def marks(self, ids: npt.ArrayLike) -> Marks:
        """Return marks uint8 [..., time] of ids; each row is a document from its start.

        Raises ValueError for an id outside the table.
        """
        index = np.asarray(ids, dtype=np.int64)
        if (wrong := index[(index < 0) | (index >= len(self.opens))]).size:
            raise ValueError(f"ids must be from 0 to {len(self.opens) - 1}, was: {wrong[0]}")
        marks = np.zeros(index.shape, dtype=np.uint8)
        if not index.size:
            return marks
        # Flags of the previous token; before the first one nothing guards and nothing is closed.
        spaced = _behind(self.spaces[index]).astype(np.int8)
        closes = self.closes[_behind(self.guards[index]).astype(np.int8), index]
        decides = closes | ~self.passes[spaced, index]
        # The decision of the last token that does not only pass one on.
        last = np.maximum.accumulate(np.where(decides, np.arange(index.shape[-1]), 0), axis=-1)
        pending = _behind(np.take_along_axis(closes, last, axis=-1))
        marks[self.opens[index] | (pending & self.takes[spaced, index])] = SEGMENT
        marks[..., 0] = DOCUMENT | SEGMENT
        return marks

    def measured(
        self,
        texts: Iterable[str],
        encode: Callable[[str], Sequence[int]],
        *,
        by: Segmenter | None = None,
    ) -> IdTable:
        """Return this table with the share of its marks on `texts` that differ from `Online`'s.

        `encode` gives the ids of a text. by: a segmenter that is chosen for each text; texts whose
        segmenter needs all of them are left out. Raises ValueError without a segmenter or tokens.
        """
        by = by or self.segmenter
        if by is None or not self.pieces:
            raise ValueError("the table has no segmenter: measure one made by compile")
        wrong = tokens = left_out = 0
        for text in texts:
            if (online := _online(by.choose(text=text))) is None:
                left_out += 1
                continue
            ids = list(encode(text))
            exact = [mark for id in ids for mark in online.push(self.pieces[id])]
            exact += online.finish()
            wrong += int((self.marks(ids) != np.array(exact, dtype=np.uint8)).sum())
            tokens += len(ids)
        if not tokens and left_out:
            return self
        if not tokens:
            raise ValueError("texts must contain at least one token")
        return replace(self, disagreement=wrong / tokens, tokens=tokens)

    def fingerprint(self) -> dict[str, Any]:
        """Return all that determines the marks, and how good they are, as JSON-able values."""
        flags = np.concatenate([getattr(self, name).ravel() for name in _FLAGS])
        return {
            "id_table": hashlib.sha256(np.packbits(flags).tobytes()).hexdigest(),
            "ids": len(self.opens),
            "segmenter": self.segmenter.fingerprint() if self.segmenter else None,
            "disagreement": self.disagreement,
            "tokens": self.tokens,
        }

    def packed(self, *, size: int | None = None) -> dict[str, Any]:
        """Return the table as JSON-able values, for the config of a model of `size` ids.

        flags: bool [9, ids], closes, takes, passes, opens, guards, spaces; zlib in base64. Ids
        beyond the table are special. Raises ValueError for a model of fewer ids.
        """
        count, size = len(self.opens), size or len(self.opens)
        if count > size:
            raise ValueError(
                f"the id table must have one entry per id of the vocabulary ({size}), was: {count}"
                "; enlarge that of the model (transformers: model.resize_token_embeddings)"
            )
        flags = np.zeros((9, size), dtype=bool)
        flags[:, :count] = np.concatenate([np.atleast_2d(getattr(self, name)) for name in _FLAGS])
        flags[4:6, count:] = True  # passes
        data = zlib.compress(np.packbits(flags).tobytes(), 9)
        return {"ids": size, "flags": base64.b64encode(data).decode(), "about": self.fingerprint()}

    def __str__(self) -> str:
        name = repr(self.segmenter) if self.segmenter else "separators"
        rate = "not measured"
        if self.disagreement is not None:
            rate = f"{self.disagreement:.4%} of {self.tokens} marks wrong"
        return f"IdTable of {len(self.opens)} ids for {name}: {rate}"


class _Probe:
    """States to try pieces in: after a word, after a closed segment, and after a blank after it."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.word = _pushed(Online(segmenter=segmenter), _BEFORE)[0]
        for self.closer in _CLOSERS:
            self.closed = _pushed(self.word, self.closer)[0]
            if self.starts(self.closed):
                break
        self.spaced, taken = _pushed(self.closed, " ")
        if taken:  # lines: white space starts the next segment like anything else
            self.spaced = self.closed

    def starts(self, online: Online) -> bool:
        """Return whether the next word starts a segment."""
        return _pushed(online, _AFTER)[1]

    def guards(self, piece: bytes) -> bool:
        behind = _pushed(_pushed(self.word, _as_word(piece))[0], self.closer)[0]
        return not self.starts(behind)

    def closes(self, piece: bytes, behind: bytes) -> bool:
        return bool(piece) and self.starts(_pushed(_pushed(self.word, behind)[0], piece)[0])

    def takes_or_passes(self, piece: bytes, behind: Online) -> tuple[bool, bool]:
        if not piece:
            return False, True
        after, takes = _pushed(behind, piece)
        return takes, not takes and self.starts(after)


def _online(segmenter: Segmenter) -> Online | None:
    try:
        return Online(segmenter=segmenter)
    except ValueError:
        return None


def _usual(segmenter: Segmenter, texts: Iterable[str]) -> Segmenter:
    """Return the segmenter that most texts get, of those that work during generation."""
    chosen = [segmenter.choose(text=text) for text in texts]
    works = [each for each in chosen if _online(each)] or chosen
    counts = Counter(map(repr, works))
    return max(works, key=lambda each: counts[repr(each)])


def _behind(flags: Flags) -> Flags:
    """Return the flags of the previous token; false for the first."""
    moved = np.zeros_like(flags)
    moved[..., 1:] = flags[..., :-1]
    return moved


def _as_word(piece: bytes) -> bytes:
    """Put a space before a piece with a capital: it most likely starts a word."""
    return b" " + piece if piece[:1].isupper() else piece


def _pushed(online: Online, piece: str | bytes) -> tuple[Online, bool]:
    """Return the state after a piece, and whether a segment started in it."""
    twin = online.copy()
    marks = twin.push(piece) + twin.provisional()
    return twin, bool(marks[-1] & SEGMENT)
