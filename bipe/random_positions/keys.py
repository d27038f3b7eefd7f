"""Random numbers that belong to a row of tokens, wherever it is computed.

A draw depends on (seed, step, tokens of the row) alone: not on the rank, the size of micro-batches
or the state of a generator. So a run that is resumed on other devices draws what it would have.
The numbers are those of a counter through the finaliser of SplitMix64 (Steele et al., 2014).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # as the int64 of the same bits
_MIX = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
_FRACTION_BITS = 53  # of a float64


def row_keys(tokens: Int[Tensor, "batch time"], *, seed: int, step: int) -> Int[Tensor, " batch"]:
    """A key for each row, of all its tokens."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    told = mixed(mixed(tokens + 1) + place).sum(-1)
    return mixed(told + _wrapped(seed * 0x632BE59BD9B4E019 + step))


def uniform(keys: Int[Tensor, " ..."], number: int) -> Float[Tensor, " ..."]:
    """The `number`-th number of each key, float64 from 0 to below 1."""
    bits = _shifted(mixed(keys + _wrapped(number * 0xD1342543DE82EF95)), 64 - _FRACTION_BITS)
    return bits.double() * 2.0**-_FRACTION_BITS


def mixed(x: Int[Tensor, " ..."]) -> Int[Tensor, " ..."]:
    """A bijection of int64 that leaves no pattern."""
    x = x + _GOLDEN
    x = (x ^ _shifted(x, 30)) * _MIX[0]
    x = (x ^ _shifted(x, 27)) * _MIX[1]
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A logical shift to the right: torch's own copies the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _wrapped(x: int) -> int:
    """An integer as an int64 of its last 64 bits."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)
