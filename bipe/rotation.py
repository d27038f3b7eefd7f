"""How queries and keys turn before they meet: what `Encoding.rotation` returns.

A rotation is computed once per forward pass and applied in every layer. Cosines and sines come from
float64 angles and are rounded once, to float32 (float64 for a float64 model): angles in float32
lose a thousandth of a turn at position 8192, in bfloat16 everything beyond position 256.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Rotation(Protocol):
    """Something that turns queries and keys of shape ``(batch, head, time, head_width)``."""

    def query(self, q: Tensor) -> Tensor: ...
    def key(self, k: Tensor) -> Tensor: ...
    def to(self, dtype: torch.dtype) -> Rotation: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRotation:
    """Turn pairs of features by an angle each (RoPE: Su et al., 2104.09864, eq. 34).

    cos, sin: of one angle per token and pair, times whatever factor the encoding puts on both.
    query_scale, key_scale: factors on one side only (XPOS), or None.
    interleaved: pairs are neighbours (0, 1), (2, 3) as in GPT-J; else halves (0, d/2) as in LLaMA.
    """

    cos: Float[Tensor, "batch time pair"]
    sin: Float[Tensor, "batch time pair"]
    query_scale: Float[Tensor, "batch time pair"] | None = None
    key_scale: Float[Tensor, "batch time pair"] | None = None
    interleaved: bool = False

    def query(self, q: Float[Tensor, "batch head time width"]) -> Tensor:
        return self._turn(q, self.query_scale)

    def key(self, k: Float[Tensor, "batch head time width"]) -> Tensor:
        return self._turn(k, self.key_scale)

    def to(self, dtype: torch.dtype) -> PlaneRotation:
        """Return the same rotation with its tables in `dtype`."""
        scales = (self.query_scale, self.key_scale)
        query_scale, key_scale = (None if s is None else s.to(dtype) for s in scales)
        cos, sin = self.cos.to(dtype), self.sin.to(dtype)
        return replace(self, cos=cos, sin=sin, query_scale=query_scale, key_scale=key_scale)

    def _turn(self, x: Tensor, scale: Tensor | None) -> Tensor:
        cos, sin = self.cos[:, None], self.sin[:, None]  # [b, 1, t, d/2]
        if scale is not None:
            cos, sin = cos * scale[:, None], sin * scale[:, None]
        # Multiplying a low-precision x by float32 tables computes in float32.
        if self.interleaved:
            left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
            turned = torch.stack((left * cos - right * sin, right * cos + left * sin), -1)
            return turned.flatten(-2).to(x.dtype)
        left, right = x.chunk(2, -1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), -1).to(x.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotations:
    """Several rotations, one after the other."""

    parts: tuple[Rotation, ...]

    def query(self, q: Tensor) -> Tensor:
        for part in self.parts:
            q = part.query(q)
        return q

    def key(self, k: Tensor) -> Tensor:
        for part in self.parts:
            k = part.key(k)
        return k

    def to(self, dtype: torch.dtype) -> Rotations:
        return Rotations(parts=tuple(part.to(dtype) for part in self.parts))


def compose(*rotations: Rotation | None) -> Rotation | None:
    """Join what several encodings ask for; None if none of them turns anything."""
    parts = tuple(r for r in rotations if r is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    return Rotations(parts=parts)
