"""Methods that add segments to a trained model with flat RoPE.

    Gated       a table of zeros, and a gate of zero on segments in each rotary pair: the first step
                is the base model, bit for bit
    Homotopy    the same at first; then positions move from tokens to segments on a schedule
    Swap        segments at once, with the same frequencies, followed by training (as DroPE drops
                positions at once; Gelberg et al., 2512.12167)
    Split       no training: fast pairs count tokens of the segment, slow ones segments, beyond a
                window of plain positions (HiRoPE; Zhang et al., 2403.19115)

`extend_config` accepts them like a stretch. Parameters that the base model lacks start at zero.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bipe.arguments import Bounded, at_least, require
from bipe.build import TARGET

Node = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Retrofit(Bounded, ABC):
    """Base of the methods; flat_layers: how many of the first layers keep plain RoPE."""

    flat_layers: int = field(default=0, metadata=at_least(0))

    @abstractmethod
    def scheme(self, rope: Node, *, width: int) -> Node:
        """Return the description of a scheme, from that of the base model's RoPE."""

    def encoding(self, rope: Node, *, width: int, n_layer: int) -> Node:
        """Return the description of the new encoding; ValueError if no layer would have it."""
        scheme, flat = self.scheme(rope, width=width), self.flat_layers
        require(flat < n_layer, f"below n_layer ({n_layer})", flat_layers=flat)
        if not flat:
            return scheme
        return {
            TARGET: "bipe.encodings.base.Layers",
            "schemes": {"flat": {TARGET: "bipe.encodings.Flat", "encoding": rope}, "own": scheme},
            "pattern": ["flat"] * flat + ["own"] * (n_layer - flat),
        }


@dataclass(frozen=True, kw_only=True)
class Swap(Retrofit):
    """BiPE-RoPE at once; length: rows of the table of places in a segment."""

    length: int = field(default=1024, metadata=at_least(1))

    def scheme(self, rope: Node, *, width: int) -> Node:
        return {TARGET: "bipe.encodings.Bilevel", **self._levels(rope, width)}

    def _levels(self, rope: Node, width: int) -> dict[str, Any]:
        table = {TARGET: "bipe.encodings.Learned", "width": width, "length": self.length}
        return {"intra": table, "inter": rope}


@dataclass(frozen=True, kw_only=True)
class Gated(Swap):
    """Learned gates; step: tokens that a segment counts as."""

    step: float = field(metadata=at_least(0))

    def scheme(self, rope: Node, *, width: int) -> Node:
        levels = self._levels(rope, width)
        return {TARGET: "bipe.encodings.retrofit.GatedBiPE", **levels, "step": self.step}


@dataclass(frozen=True, kw_only=True)
class Homotopy(Gated):
    """Positions that move to segments over the first share `over` of the training steps."""

    over: float = 0.8

    def scheme(self, rope: Node, *, width: int) -> Node:
        target = "bipe.encodings.retrofit.AnnealedBiPE"
        return {**super().scheme(rope, width=width), TARGET: target, "over": self.over}


@dataclass(frozen=True, kw_only=True)
class Split(Retrofit):
    """HiRoPE; window: of plain positions, in tokens. split: share of the pairs that are fast."""

    window: int = field(metadata=at_least(1))
    split: float = 0.5

    def scheme(self, rope: Node, *, width: int) -> Node:
        taken = {key: rope[key] for key in ("head_width", "theta", "interleaved") if key in rope}
        if odd := [key for key in rope if key not in (*taken, TARGET)]:
            raise ValueError(f"Split needs plain RoPE, without {odd[0]}: use gated or swap")
        target = "bipe.encodings.hirope.HiRoPE"
        return {TARGET: target, **taken, "window": self.window, "split": self.split}
