"""Rotations of queries and keys, as returned by `Encoding.rotation`.

A rotation is computed once per forward pass and applied in every layer. Cosines and sines come from
float64 angles and are rounded once, to float32 (float64 for a float64 model): float32 angles are
off by a thousandth of a turn at position 8192, bfloat16 angles are useless beyond position 256.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Rotation(Protocol):
    """A rotation of queries and keys of shape ``(batch, head, time, head_width)``."""

    def query(self, x: Tensor) -> Tensor: ...
    def key(self, x: Tensor) -> Tensor: ...
    def to(self, dtype: torch.dtype) -> Rotation: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRotation:
    """A rotation of pairs of features by one angle each (RoPE: Su et al., 2104.09864, eq. 34).

    cos, sin: per token and pair, including the attention factor of the encoding.
    interleaved: pairs are neighbours (0, 1), (2, 3) as in GPT-J; else halves (0, d/2) as in LLaMA.
    """

    cos: Float[Tensor, "batch time pair"]
    sin: Float[Tensor, "batch time pair"]
    interleaved: bool = False

    def to(self, dtype: torch.dtype) -> PlaneRotation:
        """Return the same rotation with its tables in `dtype`."""
        return replace(self, cos=self.cos.to(dtype), sin=self.sin.to(dtype))

    def query(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        cos, sin = self.cos[:, None], self.sin[:, None]  # [b, 1, t, d/2]
        # Multiplying a low-precision x by float32 tables computes in float32.
        if self.interleaved:
            left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
            turned = torch.stack((left * cos - right * sin, right * cos + left * sin), -1)
            return turned.flatten(-2).to(x.dtype)
        left, right = x.chunk(2, -1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), -1).to(x.dtype)

    key = query


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRotation:
    """A rotation of some neighbouring features of each head; the others are unchanged."""

    features: slice
    inner: Rotation

    def to(self, dtype: torch.dtype) -> PartRotation:
        return replace(self, inner=self.inner.to(dtype))

    def query(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        return self._with(x, self.inner.query(x[..., self.features]))

    def key(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        return self._with(x, self.inner.key(x[..., self.features]))

    def _with(self, x: Tensor, turned: Tensor) -> Tensor:
        before, after = x[..., : self.features.start], x[..., self.features.stop :]
        return torch.cat((before, turned, after), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalRotation:
    """A rotation that differs between queries and keys (XPOS)."""

    of_query: Rotation
    of_key: Rotation

    def to(self, dtype: torch.dtype) -> UnequalRotation:
        return UnequalRotation(of_query=self.of_query.to(dtype), of_key=self.of_key.to(dtype))

    def query(self, x: Tensor) -> Tensor:
        return self.of_query.query(x)

    def key(self, x: Tensor) -> Tensor:
        return self.of_key.key(x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotations:
    """Several rotations, applied in order."""

    parts: tuple[Rotation, ...]

    def query(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda x, part: part.query(x), self.parts, x)

    def key(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda x, part: part.key(x), self.parts, x)

    def to(self, dtype: torch.dtype) -> Rotations:
        return Rotations(parts=tuple(part.to(dtype) for part in self.parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A factor on all scores."""

    factor: float

    def query(self, x: Tensor) -> Tensor:
        return x * self.factor

    def key(self, x: Tensor) -> Tensor:
        return x

    def to(self, dtype: torch.dtype) -> Scaled:
        return self


def compose(*rotations: Rotation | None) -> Rotation | None:
    """Chain the rotations of several encodings; None if there are none.

    Raises ValueError for a rotation that `widens` heads (PoPE) combined with another one.
    """
    parts = tuple(r for r in rotations if r is not None)
    wide = next((type(r).__name__ for r in parts if getattr(r, "widens", False)), None)
    if wide is not None and len(parts) > 1:
        others = ", ".join(type(r).__name__ for r in parts if not getattr(r, "widens", False))
        raise ValueError(
            f"PoPE ({wide}) cannot be combined with another rotation ({others or wide}): use an "
            "encoding without one on the other level"
        )
    if len(parts) < 2:
        return parts[0] if parts else None
    return Rotations(parts=parts)
