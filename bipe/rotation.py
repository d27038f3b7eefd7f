"""Rotations of queries and keys, as returned by `Encoding.rotation`.

A rotation is computed once per forward pass and applied in every layer. Cosines and sines come from
float64 angles and are rounded once, to float32 (float64 for a float64 model): float32 angles are
off by a thousandth of a turn at position 8192, bfloat16 angles are useless beyond position 256.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Rotation(Protocol):
    """A rotation of queries and keys of shape ``(batch, head, time, head_width)``."""

    def query(self, x: Tensor) -> Tensor: ...
    def key(self, x: Tensor) -> Tensor: ...
    def to(self, dtype: torch.dtype) -> Rotation: ...


class Turn:
    """A dataclass of tables, and of rotations that it is made of, which `to` casts alike."""

    def to(self, dtype: torch.dtype) -> Rotation:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        turn: Any = replace(self, **{name: _cast(x, dtype) for name, x in values.items()})  # type: ignore[type-var]
        return turn  # type: ignore[no-any-return]


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, tuple):
        return tuple(_cast(part, dtype) for part in x)
    casts = x.is_floating_point() if isinstance(x, Tensor) else isinstance(x, Rotation)
    return x.to(dtype) if casts else x


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRotation(Turn):
    """A rotation of pairs of features by one angle each (RoPE: Su et al., 2104.09864, eq. 34).

    cos, sin: per token and pair, including the attention factor of the encoding.
    interleaved: pairs are neighbours (0, 1), (2, 3) as in GPT-J; else halves (0, d/2) as in LLaMA.
    """

    cos: Float[Tensor, "batch time pair"]
    sin: Float[Tensor, "batch time pair"]
    interleaved: bool = False

    def query(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        cos, sin = self.cos[:, None], self.sin[:, None]  # [b, 1, t, d/2]
        left, right = x.unflatten(-1, (-1, 2)).unbind(-1) if self.interleaved else x.chunk(2, -1)
        # Multiplying a low-precision x by float32 tables computes in float32.
        turned = left * cos - right * sin, right * cos + left * sin
        if self.interleaved:
            return torch.stack(turned, -1).flatten(-2).to(x.dtype)
        return torch.cat(turned, -1).to(x.dtype)

    key = query


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRotation(Turn):
    """A rotation of some neighbouring features of each head; the others are unchanged."""

    features: slice
    inner: PlaneRotation

    def query(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        turned = self.inner.query(x[..., self.features])
        before, after = x[..., : self.features.start], x[..., self.features.stop :]
        return torch.cat((before, turned, after), -1)

    key = query


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalRotation(Turn):
    """A rotation that differs between queries and keys (XPOS)."""

    of_query: PlaneRotation
    of_key: PlaneRotation

    def query(self, x: Tensor) -> Tensor:
        return self.of_query.query(x)

    def key(self, x: Tensor) -> Tensor:
        return self.of_key.key(x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotations(Turn):
    """Several rotations, applied in order."""

    parts: tuple[Rotation, ...]

    def query(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda x, part: part.query(x), self.parts, x)

    def key(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda x, part: part.key(x), self.parts, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Turn):
    """A factor on all scores."""

    factor: float

    def query(self, x: Tensor) -> Tensor:
        return x * self.factor

    def key(self, x: Tensor) -> Tensor:
        return x


def compose(*rotations: Rotation | None) -> Rotation | None:
    """Chain the rotations of several encodings; None if there are none.

    Raises ValueError for a rotation that `widens` heads (PoPE) combined with another one.
    """
    parts = tuple(r for r in rotations if r is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    wide = [type(r).__name__ for r in parts if getattr(r, "widens", False)]
    if wide:
        others = ", ".join(type(r).__name__ for r in parts if not getattr(r, "widens", False))
        raise ValueError(
            f"PoPE ({wide[0]}) cannot be combined with another rotation ({others or wide[0]}): "
            "use an encoding without one on the other level"
        )
    return Rotations(parts=parts)
