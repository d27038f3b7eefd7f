"""Head and cross-entropy in chunks of tokens: all logits are never in memory at once.

    loss = sum over targets of -log softmax(hidden @ head^T)[target]

The gradient of the logits is known as soon as they are, so the forward pass computes it chunk by
chunk and keeps only gradients of the size of its inputs. The plain form is the twin in the tests.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

IGNORE = -100
# Tokens a chunk: few enough for the caches of a CPU, enough to fill a GPU.
CPU_CHUNK = 256
DEVICE_CHUNK = 4096


def summed_cross_entropy(
    hidden: Float[Tensor, "token width"],
    head: Float[Tensor, "vocab width"],
    targets: Int[Tensor, " token"],
    *,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Sum of the negative log-likelihoods of the targets, in nats and float32; differentiable.

    targets: -100 is ignored. chunk: tokens whose logits are in memory together;
    by default what suits the device.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    with torch.autocast(hidden.device.type, enabled=False):
        return _ChunkedCrossEntropy.apply(hidden, head, targets, chunk or _chunk(hidden))


@torch.no_grad()
def token_nll(
    hidden: Float[Tensor, "token width"],
    head: Float[Tensor, "vocab width"],
    targets: Int[Tensor, " token"],
    *,
    chunk: int | None = None,
) -> Float[Tensor, " token"]:
    """Negative log-likelihood of each target in nats, 0 where the target is ignored."""
    pieces = []
    chunk = chunk or _chunk(hidden)
    for x, y in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        logits = _logits(x, head.to(x.dtype))
        pieces.append(torch.nn.functional.cross_entropy(logits, y, reduction="none"))
    return torch.cat(pieces)


def _chunk(hidden: Tensor) -> int:
    return CPU_CHUNK if hidden.device.type == "cpu" else DEVICE_CHUNK


def _logits(x: Tensor, head: Tensor) -> Tensor:
    return (x @ head.T).to(torch.promote_types(x.dtype, torch.float32))


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, head, targets, chunk):  # type: ignore[no-untyped-def]
        weight = head.to(hidden.dtype)
        precise = torch.promote_types(hidden.dtype, torch.float32)
        total = torch.zeros((), dtype=precise, device=hidden.device)
        wanted = ctx.needs_input_grad[:2]
        d_hidden = torch.empty_like(hidden) if wanted[0] else None
        d_head = torch.zeros(head.shape, dtype=precise, device=head.device) if wanted[1] else None
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            x, y = hidden[part], targets[part]
            scored = (y != IGNORE).to(precise)
            y = y.clamp(min=0)[:, None]
            logits = _logits(x, weight)
            log_sum = logits.logsumexp(-1)
            total += ((log_sum - logits.gather(1, y)[:, 0]) * scored).sum()
            if not any(wanted):
                continue
            # d loss / d logits = softmax - one hot, in place.
            d_logits = logits.sub_(log_sum[:, None]).exp_()
            d_logits.scatter_add_(1, y, torch.full_like(d_logits[:, :1], -1.0))
            d_logits = d_logits.mul_(scored[:, None]).to(hidden.dtype)
            if d_hidden is not None:
                d_hidden[part] = d_logits @ weight
            if d_head is not None:
                d_head += d_logits.T @ x
        ctx.save_for_backward(d_hidden, d_head)
        ctx.head_dtype = head.dtype
        return total

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        d_hidden, d_head = ctx.saved_tensors
        if d_hidden is not None:
            d_hidden = (d_hidden * grad).to(d_hidden.dtype)
        if d_head is not None:
            d_head = (d_head * grad).to(ctx.head_dtype)
        return d_hidden, d_head, None, None
