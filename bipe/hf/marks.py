"""Marks of tokens inside transformers: their positions, and the marks of generated tokens.

Models receive `segment_marks` [batch, all tokens so far], as in data sets (bit 0: a document
starts, bit 1: a segment starts), and ordinary position_ids, whose restarts are packed documents, as
everywhere in transformers. Never pass ids of BiPE as position_ids: transformers would treat each
segment as a packed document and separate their attention.

Marks of new tokens come from one of two rules:

    IdFlags      the table of a vocabulary (segmenters.IdTable), on any device: fast, with an error
                 rate that was measured
    ExactMarks   a marker (segmenters.TokenMarker) that reads the text: exact. The mark of a token
                 is settled when it is written, even if it ends inside a character
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from bipe.generation.session import Marker
from bipe.positions import DOCUMENT_BIT, SEGMENT_BIT, Positions

_DOCUMENT, _SEGMENT = 1 << DOCUMENT_BIT, 1 << SEGMENT_BIT
_KEPT = 8  # states per row: enough for the candidates of assisted decoding
Marks = UInt8[Tensor, "batch time"]


def positions_of(
    marks: Int[Tensor, "batch time"] | Marks,
    *,
    mask: Tensor | None = None,
    position_ids: Int[Tensor, "rows time"] | None = None,
    levels: int = 1,
) -> Positions:
    """Return the positions of all tokens so far, of as many levels as the model reads.

    mask: 0 for padding ``(batch, time)``. position_ids: a document starts where they restart.
    """
    marks = marks.byte()
    real = mask.bool() if mask is not None and may_be(~mask.bool().all()) else None
    if position_ids is not None:
        restarts = position_ids[:, 1:] != position_ids[:, :-1] + 1
        if real is not None:
            restarts = restarts & real[:, 1:] & real[:, :-1]
        marks = marks.clone()
        marks[:, 1:] |= restarts.byte() * _DOCUMENT
    packed = real is not None or may_be((marks[:, 1:] & _DOCUMENT).any())
    padding = None if real is None else ~real
    return Positions.from_marks(marks, padding=padding, packed=packed, levels=levels)


def may_be(flag: Tensor) -> bool:
    """Return the value of a flag; true while a graph is recorded, which has to serve all values."""
    return torch.compiler.is_compiling() or bool(flag)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IdFlags:
    """What each id does to segments: the flags of a `segmenters.IdTable` as one tensor.

    flags: bool [9, ids], the rows of closes (2), takes (2), passes (2), opens, guards, spaces.
    about: the table's fingerprint: segmenter, share of wrong marks, tokens it was measured on.
    """

    flags: Tensor
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, packed: Mapping[str, Any]) -> IdFlags:
        """Return what `IdTable.packed` wrote; ValueError if it is something else."""
        try:
            ids, about = int(packed["ids"]), dict(packed["about"])
            size = -(-9 * ids // 8)
            reader = zlib.decompressobj()
            # At most one byte too many, which shows a fault: a small text may hold gigabytes.
            data = reader.decompress(base64.b64decode(packed["flags"], validate=True), size + 1)
        except (KeyError, TypeError, ValueError, zlib.error) as fault:
            raise ValueError(f"segment_table has changed since it was written: {fault!r}") from None
        if ids < 1 or len(data) != size:
            raise ValueError(
                f"segment_table is damaged: it must have one flag for each of the {ids} ids"
            )
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=9 * ids)
        return cls(flags=torch.from_numpy(bits.reshape(9, ids).astype(bool)), about=about)

    def with_ids(self, count: int) -> IdFlags:
        """Return the flags of `count` ids, further ones as of special tokens, without text."""
        added = torch.zeros(9, max(0, count - self.flags.shape[1]), dtype=torch.bool)
        added[4:6] = True
        return IdFlags(flags=torch.cat([self.flags, added], 1), about=self.about)

    def to(self, device: torch.device) -> IdFlags:
        return IdFlags(flags=self.flags.to(device), about=self.about)

    def marks(
        self, ids: Int[Tensor, "batch time"], *, mask: Tensor | None = None, whole: bool = False
    ) -> Marks:
        """Return the marks of ids; each row is a document from its start (`IdTable.marks`).

        mask, whole: see ExactMarks.marks, whose results depend on them.
        """
        closes, takes, passes = (self.flags[i : i + 2] for i in (0, 2, 4))
        opens, guards, spaces = self.flags[6:]
        spaced, guarded = _behind(spaces[ids]).long(), _behind(guards[ids]).long()
        closed = closes[guarded, ids]
        decides = closed | ~passes[spaced, ids]
        at = torch.arange(ids.shape[1], device=ids.device)
        # The decision of the last token that does not only pass one on.
        last = torch.where(decides, at, 0).cummax(-1).values
        starts = opens[ids] | (_behind(closed.gather(-1, last)) & takes[spaced, ids])
        marks = starts.byte() * _SEGMENT
        marks[:, :1] = _DOCUMENT | _SEGMENT
        return marks

    def __str__(self) -> str:
        segmenter = (self.about.get("segmenter") or {}).get("segmenter", "separators")
        wrong, tokens = self.about.get("disagreement"), self.about.get("tokens")
        rate = "not measured" if wrong is None else f"{wrong:.4%} of {tokens} marks wrong"
        return (
            "marks of new tokens, and of texts without segment_marks: a table of "
            f"{self.flags.shape[1]} ids for {segmenter}, {rate}"
        )


@dataclass(frozen=True, slots=True)
class _State:
    """What was read of a row: `settled` when each token was written, `decided` with hindsight."""

    tokens: np.ndarray
    settled: np.ndarray
    decided: np.ndarray
    marker: Marker


class ExactMarks:
    """Marks from a marker that reads every token; states of rows are kept for the next tokens.

    For one call; others, maybe in other threads, take others.
    choose: gives the marker of a row by its first tokens, the prompt; None: a copy of `marker`.
    """

    def __init__(
        self, marker: Marker, *, choose: Callable[[np.ndarray], Marker] | None = None
    ) -> None:
        self._choose = choose
        self._start = _State(np.empty(0, dtype=np.int64), _uint8([]), _uint8([]), marker.copy())
        self._states: list[_State] = []

    def marks(
        self, ids: Int[Tensor, "batch time"], *, mask: Tensor | None = None, whole: bool = False
    ) -> Marks:
        """Return the marks of ids, settled as they were written; `whole`: as in the finished text.

        mask: 0 for padding, which is not read.
        """
        marks = torch.zeros_like(ids, dtype=torch.uint8, device="cpu")
        rows = ids.cpu().numpy()
        real = np.ones_like(rows, dtype=bool) if mask is None else mask.cpu().numpy().astype(bool)
        for row, (tokens, read) in enumerate(zip(rows, real, strict=True)):
            state = self._read(tokens[read])
            row_marks = state.settled
            if whole:
                row_marks = np.concatenate([state.decided, _uint8(state.marker.provisional())])
            marks[row, torch.from_numpy(read)] = torch.from_numpy(row_marks)
        del self._states[: -_KEPT * len(rows)]
        return marks.to(ids.device)

    def _read(self, tokens: np.ndarray) -> _State:
        prefixes = [s for s in self._states if np.array_equal(s.tokens, tokens[: len(s.tokens)])]
        state = max(prefixes, key=lambda state: len(state.tokens), default=self._start)
        if len(state.tokens) == len(tokens):
            return state
        choose = self._choose if state is self._start else None
        marker = state.marker.copy() if choose is None else choose(tokens)
        settled, decided = [], []
        for token in tokens[len(state.tokens) :].tolist():
            pushed = marker.push(token)
            decided += pushed
            settled.append((pushed + marker.provisional())[-1])  # the mark of this token
        state = _State(
            tokens,
            np.concatenate([state.settled, _uint8(settled)]),
            np.concatenate([state.decided, _uint8(decided)]),
            marker,
        )
        self._states.append(state)
        return state


def _behind(flags: Tensor) -> Tensor:
    """Return the flags of the previous token; false for the first."""
    moved = torch.zeros_like(flags)
    moved[:, 1:] = flags[:, :-1]
    return moved


def _uint8(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint8)
