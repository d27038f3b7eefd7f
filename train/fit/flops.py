"""Floating-point operations of a training step, and how many a device can do in a second.

Those of a step are of its matrix products, two per multiply-add. Per token, with the width c, that
of all heads a, vocabulary v, and p keys that a query sees on average:

    forward       2 x (weights of the blocks) + 4 p a per layer + 2 v c
    backward      twice that
    recomputed    the scores of attention, by fused kernels (2 p a per layer), and with
                  recompute=true the blocks' forward pass

`model` is what the utilisation of a device (MFU; Chowdhery et al., 2204.02311, appendix B) is
reckoned from, with attention over the pairs that it needs: causal, within documents. Norms,
activations and rotations are left out: they are bound by memory. So is what the banded path of a
linear bias skips, which depends on the weights.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cache

import torch

from bipe.decoder import DecoderConfig

_TIMES = 5  # at least so often a product is measured,
_SECONDS = 0.025  # and at least so long
_WORK = 768**3  # its multiplications
# Dense operations per second in bfloat16 (V100: in float16, it has no other of 16 bits) by the
# makers' data sheets, by what is in the device's name; the first that fits. (RTX 4090: with sums in
# float32.)
PEAK = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
    "V100": 125e12,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """Floating-point operations per token of a training step."""

    forward: float
    backward: float
    recomputed: float

    @property
    def model(self) -> float:
        """Return what the model needs; recomputation is not useful work."""
        return self.forward + self.backward

    @property
    def device(self) -> float:
        return self.model + self.recomputed


def keys_per_query(row_length: int, *, document: float | None = None) -> float:
    """Return how many keys a token attends to on average, itself among them.

    document: mean over tokens of the length of their document (or its part in the row), that is sum
    of squared lengths / sum of lengths. None: one document fills the row.
    """
    return (min(document or row_length, row_length) + 1) / 2


def step_flops(
    decoder: DecoderConfig,
    *,
    row_length: int,
    document: float | None = None,
    recompute: bool = False,
    keys: float | None = None,
) -> Flops:
    """Return the operations per token of a training step.

    document: see keys_per_query. keys: keys per query, if a path computes other pairs than needed.
    """
    pairs = keys_per_query(row_length, document=document) if keys is None else keys
    blocks = 2.0 * decoder.n_layer * block_weights(decoder)
    attention = 4.0 * decoder.n_layer * decoder.q_width * pairs  # q k^T, and the weights with v
    head = 2.0 * decoder.vocab_size * decoder.width
    forward = blocks + attention + head
    # The last product of a block is not computed again: nothing in its backward pass needs it.
    last = 2.0 * decoder.n_layer * decoder.width * decoder.mlp_width
    again = blocks - last + attention if recompute else 0.0
    return Flops(forward=forward, backward=2 * forward, recomputed=again + attention / 2)


def block_weights(decoder: DecoderConfig) -> int:
    heads = 2 * (decoder.q_width + decoder.kv_width)  # queries and output, keys and values
    return decoder.width * (heads + 3 * decoder.mlp_width)


# The most operations per second of a device: a GPU's are its maker's, a CPU's are measured


@cache
def peak_of(device: torch.device, *, bfloat16: bool) -> float | None:
    """Return the operations per second that a device can do at most; None if it is not known."""
    if device.type == "cuda":
        return peak_flops(torch.cuda.get_device_name(device)) if bfloat16 else None
    if device.type != "cpu":
        return None
    return product_rate(torch.bfloat16 if bfloat16 else torch.float32)


def peak_flops(device: str) -> float | None:
    """Return the bfloat16 operations per second of a device's name; None if it is not known."""
    words = {*re.split(r"[\W_]+", device.casefold())}  # an RTX A1000 is no A100
    return next((peak for key, peak in PEAK.items() if {*key.casefold().split()} <= words), None)


def product_rate(dtype: torch.dtype, *, width: int = 768, device: str = "cpu") -> float:
    """Return the operations per second of products of tokens with square weights."""
    # Narrow ones have more tokens: each takes some milliseconds, whatever else runs.
    tokens = max(1, _WORK // width**2)
    x, weight = (torch.ones(rows, width, dtype=dtype, device=device) for rows in (tokens, width))
    times: list[float] = []
    while len(times) < _TIMES or sum(times) < _SECONDS:
        begin = time.perf_counter()
        (x @ weight)[0, 0].item()  # waits for the device
        times.append(time.perf_counter() - begin)
        if sum(times) > 1:  # emulated
            break
    return 2 * len(x) * width**2 / min(times)
