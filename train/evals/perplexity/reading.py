"""A model over rows of any length: in one pass, or chunk by chunk through a cache.

Both give the same; chunks need memory for the keys and values of a row, and for one chunk of
everything else. Logits are never whole. What a dynamic stretch counts with is known beforehand,
because the whole row is: so its chunks turn as the row in one pass would.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from bipe import Cache, Decoder, Positions
from bipe.loss import token_nll
from bipe.positions import DOCUMENT_BIT, Lengths

# Tokens of a row that are read in one pass; more are read in chunks.
ONE_PASS = 16384
CHUNK = 1024


@torch.no_grad()
def hidden_states(
    model: Decoder,
    tokens: Int[Tensor, "batch time"],
    marks: UInt8[Tensor, "batch time"],
    *,
    one_pass: int = ONE_PASS,
    chunk: int = CHUNK,
) -> Iterator[tuple[int, Float[Tensor, "batch part width"]]]:
    """Where each part of the rows starts, and the hidden states of its tokens, in order.

    A row is one document, whatever its marks say of others. chunk: tokens of a part where rows
    have more than `one_pass`.
    """
    marks = marks & ~(1 << DOCUMENT_BIT) & 0xFF
    at = Positions.from_marks(marks, packed=False)
    batch, time = tokens.shape
    if time <= one_pass:
        yield 0, model(tokens, at)
        return
    lengths = Lengths(
        **{name: getattr(at, name).amax(-1) + 1 for name in ("token", "inter", "intra")}
    )
    cache = Cache(batch=batch, capacity=time, lengths=lengths)
    for start in range(0, time, chunk):
        part = slice(start, start + chunk)
        yield start, model(tokens[:, part], at[part], cache=cache)


def token_losses(
    model: Decoder,
    tokens: Int[Tensor, "batch time"],
    marks: UInt8[Tensor, "batch time"],
    *,
    first: int = 1,
    one_pass: int = ONE_PASS,
    chunk: int = CHUNK,
) -> Float[Tensor, "batch scored"]:
    """Loss in nats of each token from `first` (at least 1) on, given all before it in its row."""
    if first < 1:
        raise ValueError(f"first must be at least 1: nothing predicts token 0, was: {first}")
    time, losses = tokens.shape[1], []
    for start, hidden in hidden_states(model, tokens, marks, one_pass=one_pass, chunk=chunk):
        low, high = max(first, start + 1), min(start + hidden.shape[1] + 1, time)
        if low < high:
            behind = hidden[:, low - 1 - start : high - 1 - start]
            targets = tokens[:, low:high]
            nll = token_nll(behind.flatten(0, 1), model.head.weight, targets.flatten())
            losses.append(nll.view_as(targets))
    return torch.cat(losses, 1) if losses else torch.zeros(len(tokens), 0)
