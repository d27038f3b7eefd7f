"""The original length of a model: how many positions drove its rotation in training.

Under BiPE the segment index turns the rotation, so the length is a number of segments: far fewer
than a row has tokens. Counting tokens there mistakes slow pairs that never turned once for fast
ones, and leaves them as they are. Training records the indices that it saw in a model's notes:

    positions: {token: {counted, maximum, p99, p99.9}, segment: {...}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["segments", "tokens"]
_PERCENTILE = "p99.9"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalLength:
    """length: in positions, from 1. unit: what was counted. source: where the number is from."""

    length: int
    unit: str
    source: str

    def __str__(self) -> str:
        return f"{self.length} {self.unit} ({self.source})"


def original_length(notes: Mapping[str, Any], *, unit: Unit | int) -> OriginalLength:
    """Return the original length of a model with these notes.

    unit: `segments` takes the index of the segment that 99.9% of training tokens did not exceed;
    `tokens` the length of a training row, as everybody counts; a number fixes it. Raises ValueError
    for notes that lack it.
    """
    if isinstance(unit, int) and not isinstance(unit, bool):
        if unit < 1:
            raise ValueError(f"unit must be at least 1 position, was: {unit}")
        return OriginalLength(length=unit, unit="positions", source="given")
    if unit == "tokens":
        if notes.get("row_length") is None:
            raise ValueError("the notes of the model have no row_length; give unit as a number")
        return OriginalLength(
            length=int(notes["row_length"]), unit="tokens", source="a training row"
        )
    if unit != "segments":
        raise ValueError(f"unit must be segments, tokens or a number, was: {unit!r}")
    try:
        seen = notes["positions"]["segment"]
        last, maximum = int(seen[_PERCENTILE]), int(seen["maximum"])
    except (KeyError, TypeError):
        raise ValueError(
            f"the notes of the model have no positions.segment.{_PERCENTILE}: trained before "
            "they were recorded; give unit as a number of segments, or unit=tokens"
        ) from None
    if last < 0:
        raise ValueError("the model was trained on no tokens; give unit as a number of segments")
    return OriginalLength(
        length=last + 1,
        unit="segments",
        source=f"{_PERCENTILE} of the indices in training, the largest was {maximum}",
    )
