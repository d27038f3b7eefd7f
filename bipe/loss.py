"""Head and cross-entropy in chunks of tokens: all logits are never in memory at once.

    loss = sum over targets of -log softmax(hidden @ head^T)[target]

The forward pass computes the gradients as well, so that no logits are kept. Its chunks are large
enough for fast matrix products. In them, blocks that fit a CPU's cache turn logits into gradients;
on a GPU one compiled kernel does, without logits in float32.
"""

import functools
import warnings
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

IGNORE = -100  # the default of torch.nn.functional.cross_entropy, which `token_nll` relies on
# Tokens per chunk: few enough for memory, enough to fill the device.
CPU_CHUNK = 1024
DEVICE_CHUNK = 4096
BLOCK_NUMBERS = 1 << 18  # float32 logits that stay in the cache of a core


def summed_cross_entropy(
    hidden: Float[Tensor, "token width"],
    head: Float[Tensor, "vocab width"],
    targets: Int[Tensor, " token"],
    *,
    chunk: int | None = None,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    each: Float[Tensor, " token"] | None = None,
) -> Float[Tensor, ""]:
    """Return the summed negative log-likelihood of the targets in nats; differentiable.

    targets: -100 is ignored. chunk: tokens whose logits are in memory at once; None suits the
    device. z_loss: weight of the squared log-normaliser (Chowdhery et al., 2204.02311).
    label_smoothing: share of the target spread over the vocabulary (Szegedy et al., 1512.00567).
    each: is filled with the loss of each target, 0 where it is ignored, without gradients.
    """
    if not z_loss >= 0:
        raise ValueError(f"z_loss must be 0 or more, was: {z_loss}")
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing must be from 0 to below 1, was: {label_smoothing}")
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    with torch.autocast(hidden.device.type, enabled=False):
        return _ChunkedCrossEntropy.apply(
            hidden, head, targets, chunk or _chunk(hidden), z_loss, label_smoothing, each
        )


@torch.no_grad()
def token_nll(
    hidden: Float[Tensor, "token width"],
    head: Float[Tensor, "vocab width"],
    targets: Int[Tensor, " token"],
    *,
    chunk: int | None = None,
) -> Float[Tensor, " token"]:
    """Return the negative log-likelihood of each target in nats, 0 where it is ignored."""
    pieces = []
    chunk = chunk or _chunk(hidden)
    for x, y in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        logits = (x @ head.to(x.dtype).T).to(_precise(x))
        pieces.append(torch.nn.functional.cross_entropy(logits, y, reduction="none"))
    return torch.cat(pieces)


def summed_divergence(
    hidden: Float[Tensor, "token width"],
    head: Float[Tensor, "vocab width"],
    teacher: tuple[Float[Tensor, "token wide"], Float[Tensor, "vocab wide"]],
    scored: Bool[Tensor, " token"],
    *,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Return the summed KL divergence of our predictions from a teacher's in nats; differentiable.

    teacher: its hidden states and head. scored: tokens that count. The logits of each chunk are
    computed again in the backward pass.
    """

    def divergence(x: Tensor, taught: Tensor, counts: Tensor) -> Tensor:
        own, theirs = (
            (states @ weight.to(states.dtype).T).log_softmax(-1, dtype=_precise(states))
            for states, weight in ((x, head), (taught, teacher[1]))
        )
        return ((theirs.exp() * (theirs - own)).sum(-1) * counts).sum()

    size = chunk or _chunk(hidden)
    parts = zip(hidden.split(size), teacher[0].split(size), scored.split(size), strict=True)
    return torch.stack(
        [
            checkpoint(divergence, *part, use_reentrant=False, preserve_rng_state=False)
            for part in parts
        ]
    ).sum()


def _chunk(hidden: Tensor) -> int:
    return CPU_CHUNK if hidden.device.type == "cpu" else DEVICE_CHUNK


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, head, targets, chunk, z_loss, smoothing, each):  # type: ignore[no-untyped-def]
        weight = head.to(hidden.dtype)
        total = torch.zeros((), dtype=_precise(hidden), device=hidden.device)
        for_hidden, for_head = ctx.needs_input_grad[:2]
        wanted, compiling = for_hidden or for_head, torch.compiler.is_compiling()
        d_hidden = torch.empty_like(hidden) if for_hidden else None
        d_head = torch.zeros_like(head, dtype=_precise(hidden)) if for_head else None
        block = max(1, BLOCK_NUMBERS // len(head)) if hidden.device.type == "cpu" else chunk
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            logits = hidden[part] @ weight.T
            blocks = zip(logits.split(block), targets[part].split(block), strict=True)
            for place, (rows, y) in enumerate(blocks):
                # Chunks of other sizes, at the end, are not worth a kernel of their own.
                whole = rows.is_cuda and wanted and len(rows) == DEVICE_CHUNK and not compiling
                into = kernel() if whole else _loss_and_gradient
                losses = into(rows, y, z_loss, smoothing, wanted=wanted)
                total += losses.sum()
                if each is not None:
                    begin = start + place * block
                    each[begin : begin + len(y)] = losses[:, 0]
            # By now `logits` holds their gradients.
            if d_hidden is not None:
                d_hidden[part] = logits @ weight
            if d_head is not None:
                d_head += logits.T @ hidden[part]
        # The loss is a scalar, so the backward pass only scales these.
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
        return d_hidden, d_head, None, None, None, None, None


def _loss_and_gradient(
    logits: Tensor, targets: Tensor, z_loss: float, smoothing: float, *, wanted: bool
) -> Tensor:
    """Return the losses of a block ``[token, 1]``; if wanted, overwrite logits by gradients."""
    chances = logits.log_softmax(-1, dtype=_precise(logits))
    scored = (targets != IGNORE).to(chances.dtype)[:, None]
    y = targets.clamp(min=0)[:, None]
    picked = chances.gather(1, y)
    log_sum = logits.gather(1, y).to(chances.dtype) - picked
    loss = -(1 - smoothing) * picked + z_loss * log_sum.square()
    if smoothing:
        loss = loss - smoothing * chances.mean(-1, keepdim=True)
    if wanted:
        # d loss / d logits = (1 + 2 z_loss log_sum) softmax - smoothed target
        chances.exp_()
        if z_loss:
            chances.mul_(1 + 2 * z_loss * log_sum)
        if smoothing:
            chances.sub_(smoothing / logits.shape[-1])
        chances.scatter_add_(1, y, torch.full_like(picked, smoothing - 1))
        torch.mul(chances, scored, out=logits)
    return loss * scored


def one_pass(
    logits: Tensor, targets: Tensor, z_loss: float, smoothing: float, *, wanted: bool = True
) -> Tensor:
    """Do as `_loss_and_gradient` in expressions that a compiler makes one kernel of."""
    scored, y = (targets != IGNORE)[:, None], targets.clamp(min=0)[:, None]
    exact = logits.to(_precise(logits))
    log_sum = exact.logsumexp(-1, keepdim=True)
    picked = exact.gather(1, y) - log_sum
    loss = -(1 - smoothing) * picked + z_loss * log_sum.square()
    if smoothing:
        loss = loss - smoothing * (exact - log_sum).mean(-1, keepdim=True)
    if wanted:
        right = torch.arange(logits.shape[-1], device=logits.device) == y
        chances = (exact - log_sum).exp() * (1 + 2 * z_loss * log_sum)
        gradient = chances - smoothing / logits.shape[-1] - right * (1 - smoothing)
        logits.copy_(gradient * scored)
    return loss * scored


@functools.cache
def kernel(device: str = "cuda") -> Callable[..., Tensor]:
    """Return `one_pass` compiled, or the eager way, with a warning, where compiling fails."""
    compiled = torch.compile(one_pass, dynamic=False, fullgraph=True)
    try:
        compiled(torch.zeros(2, 3, device=device), torch.zeros(2, device=device).long(), 0.0, 0.0)
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        warnings.warn(f"the loss runs uncompiled, and slower: {reason}", stacklevel=2)
        return _loss_and_gradient
    return compiled
