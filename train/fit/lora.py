"""LoRA (Hu et al., 2106.09685): train only a low-rank update of some layers.

    W x + alpha / rank * up (down x)

`up` starts at zero, so the first step is the base model, bit for bit; `merged` gives plain weights
again, under the names that the model had before.
"""

import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bipe.decoder import Decoder

LAYERS = ("query", "key", "value", "output", "gate", "up", "down")
_PART = "lora"


class LowRank(nn.Module):
    """The low-rank term added to the output of a layer."""

    def __init__(self, layer: nn.Linear, *, rank: int, alpha: float, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        bound = 1 / math.sqrt(layer.in_features)
        drawn = torch.empty(rank, layer.in_features).uniform_(-bound, bound, generator=generator)
        self.down = nn.Parameter(drawn.to(layer.weight))
        self.up = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(alpha / rank))

    def forward(self, x: Float[Tensor, "*batch wide"]) -> Float[Tensor, "*batch out"]:
        return F.linear(F.linear(x, self.down), self.up) * self.scale


def add_lora(
    model: Decoder,
    *,
    rank: int,
    alpha: float,
    layers: Collection[str] = LAYERS,
    whole: Collection[str] = (),
    seed: int = 0,
) -> None:
    """Train only low-rank updates of some layers of all blocks, and the parameters `whole`.

    ValueError for a layer that no block has.
    """
    if odd := sorted({*layers} - {*LAYERS}):
        raise ValueError(f"layers must be among {', '.join(LAYERS)}, was: {', '.join(odd)}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in whole)
    for name, layer in model.blocks.named_modules():
        if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in layers:
            stream = zlib.crc32(f"{seed}/{_PART}/{name}".encode())
            layer.add_module(_PART, LowRank(layer, rank=rank, alpha=alpha, seed=stream))
            layer.register_forward_hook(_added)


def _added(layer: nn.Module, inputs: tuple[Tensor, ...], made: Tensor) -> Tensor:
    return made + getattr(layer, _PART)(inputs[0])


def merged(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with low-rank updates merged, under the names of a plain model."""
    made: dict[str, Any] = dict(state)
    for name in state:
        place, _, last = name.rpartition(f".{_PART}.")
        if not place:
            continue
        del made[name]
        if last == "up":
            up, down, scale = (state[f"{place}.{_PART}.{part}"] for part in ("up", "down", "scale"))
            weight = state[f"{place}.weight"]
            both = weight.double() + scale.double() * (up.double() @ down.double())
            made[f"{place}.weight"] = both.to(weight.dtype)
    return made
