"""The memory of a training step on one device, reckoned from its shapes.

Kept for the backward pass, per token and block (c width, a width of queries of all heads, k of keys
and of values, m mlp_width, h heads; e bytes of the dtype of products: 4, or 2 under bfloat16
autocast):

    norms       2 x 4c residual, 8 statistics; on the CPU another 2 x 4c, where they are not fused;
                with qk_norm the same again of a, k or both
    products    inputs: 2c e, or 5c e under autocast, which casts for each product anew
    attention   (2a + 2k) e, 4h log-sum-exp; a e where heads are copied back into a row
    mlp         4m e: gate, silu(gate), up, and their product

With recompute=true, 4c: the input of a block; the rest is there for one block at a time. Beyond
blocks there are copies of the weights in bfloat16 under autocast, and the head, whose logits are
made in chunks (bipe/loss.py). The peak is that of three moments: the last chunk of the head, the
backward pass of the last block, and the step of the optimizer. Not counted: memory of libraries and
the process itself, and what an allocator cannot use (often 5 to 10%). A compiled block keeps less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from bipe.attention.dispatch import Case, Kind, bias_kind, choose_rule
from bipe.attention.fused import bias_row_works
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Scheme, levels_of
from bipe.loss import BLOCK_NUMBERS, CPU_CHUNK, DEVICE_CHUNK
from bipe.positions import Positions
from train.data.rows.choices import MicroBatch
from train.fit.flops import block_weights
from train.fit.watching.counts import BINS, LEVELS

WEIGHT = 4  # bytes: weights, gradients and moments are float32
USABLE = 0.85  # of the memory that is free: for what is not counted, see above
DENSE = ("masked", "eager")  # paths that compute all pairs of a row
Device = Literal["cpu", "cuda"]
_INTEGERS = 8 * 4 + 8 * 2 + 2  # positions, tokens and targets, marks and padding, per token
# Paths whose keys and values of a group stay shared; others repeat them for each head.
_GROUPED = ("causal", "masked", "flex")
_BY_DOCUMENT = ("causal", "banded", "bias_row", "augmented", "chunked")
_FEATURES = 8  # that the augmented path adds to each head


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The numbers of parameters, by part."""

    embedding: int
    encoding: int
    attention: int
    mlp: int
    norms: int
    head: int  # 0 if it is the embedding

    @property
    def total(self) -> int:
        return self.embedding + self.encoding + self.blocks + self.head

    @property
    def blocks(self) -> int:
        return self.attention + self.mlp + self.norms


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the memory of a step depends on.

    rows, time: of a micro-batch. path: of attention. dense_bias: a bias of that path is a tensor of
    query x key. rotated: queries and keys are rotated. half: bfloat16 autocast. accumulates:
    several micro-batches make a step. shards: ranks that share weights, gradients and moments.
    buckets: gradients are copied to be sent (DDP). copied: a checkpoint is written from a copy on
    the host, which stays for the next one. context: devices that share a row, of which each gathers
    all keys and values; time is then a device's part. muon: one moment
    per weight of the matrices of blocks, not two.
    """

    decoder: DecoderConfig
    weights: Weights
    rows: int
    time: int
    device: Device = "cpu"
    path: str = ""
    dense_bias: bool = False
    rotated: bool = True
    packed: bool = True
    half: bool = False
    recompute: bool = False
    accumulates: bool = False
    shards: int = 1
    buckets: bool = False
    copied: bool = False
    context: int = 1
    muon: bool = False

    @property
    def tokens(self) -> int:
        return self.rows * self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one device. during: what is taken at each moment, beyond the lasting parts."""

    weights: int
    gradients: int
    moments: int
    gathered: int
    activations: int
    copy: int
    counts: int
    during: Mapping[str, int]

    @property
    def moment(self) -> str:
        return max(self.during, key=self.during.__getitem__)

    @property
    def peak(self) -> int:
        lasting = self.weights + self.moments + self.gathered + self.copy + self.counts
        return lasting + self.during[self.moment]


def count_weights(model: Decoder) -> Weights:
    """Count the parameters of a model, which may be on the meta device."""
    found = dict.fromkeys(Weights.__slots__, 0)
    parts = {"tokens": "embedding", "scheme": "encoding", "head": "head"}
    for name, parameter in model.named_parameters():
        inner = (part for part in ("mlp", "attention") if f".{part}." in name)
        found[next(inner, parts.get(name.partition(".")[0], "norms"))] += parameter.numel()
    return Weights(**found)


def memory_of(step: Step) -> Memory:
    """Return what a step takes on one device."""
    decoder, tokens, size = step.decoder, step.tokens, _size(step)
    own = -(-step.weights.total // step.shards) * WEIGHT
    before = own if step.accumulates else 0  # gradients of earlier micro-batches
    kept = before + activations(step)
    # Autocast keeps a copy of all weights of blocks; shards are gathered in bfloat16 as they are.
    cast = 2 * block_weights(decoder) if step.half and step.shards == 1 else 0
    head, hidden = WEIGHT * decoder.vocab_size * decoder.width, tokens * decoder.width * size
    # The gradients of both factors of a block's product are new; the last norm is done with.
    backward = tokens * (2 * decoder.mlp_width * size - 2 * 4 * decoder.width) + head
    kept_cast = cast * decoder.n_layer
    again = block_activations(step) - tokens * 4 * decoder.width + cast
    backward += again if step.recompute else kept_cast
    return Memory(
        weights=own,
        gradients=own,
        moments=round(_moments(step) * own),
        gathered=_gathered(step) + (own if step.buckets else 0),
        activations=kept - before + kept_cast,
        during={
            "the loss": kept + kept_cast + hidden + _loss(step),
            "the backward pass": kept + max(backward, 2 * (head + hidden)),
            "the optimizer": own + _INTEGERS * tokens,
        },
        copy=round((1 + _moments(step)) * own) if step.copied and step.device == "cpu" else 0,
        counts=8 * len(LEVELS) * BINS,
    )


def rows_at_once(
    step: Step, asked: MicroBatch, *, share: int, free: int | None, held: int = 0
) -> int:
    """Return the rows of a device's `share` of a batch to compute at once; 0 if none would fit.

    auto: the largest divisor of the share that fits. free: bytes, None if not known; held: those of
    the step that are taken already.
    """
    sizes = [asked] if asked != "auto" else (n for n in range(share, 0, -1) if share % n == 0)
    room = math.inf if free is None else USABLE * free + held
    return next((n for n in sizes if memory_of(of_rows(step, n, share)).peak <= room), 0)


def of_rows(step: Step, rows: int, share: int) -> Step:
    return replace(step, rows=rows, accumulates=rows < share)


def placed(
    step: Step, scheme: Scheme, *, kind: Device, half: bool, attention: str
) -> tuple[Step, str]:
    """Return the step on a kind of device, by the path that attention takes there, and its reason.

    attention: as configured.
    """
    path, reason, bias, rotated = attention_of(
        scheme, kind=kind, time=step.time * step.context, packed=step.packed, path=attention
    )
    if step.context > 1 and path not in DENSE:
        path, reason = "masked", f"a row is shared by {step.context} devices"
    step = replace(step, device=kind, path=path, half=half)
    return replace(step, dense_bias=bias != "none", rotated=rotated), reason


def attention_of(
    scheme: Scheme, *, kind: Device, time: int, packed: bool, path: str
) -> tuple[str, str, Kind, bool]:
    """Return path and reason of attention, what its bias is, and whether there is a rotation."""
    nothing = torch.zeros(1, 2, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=packed, levels=levels_of(scheme))
    with torch.no_grad():
        bias, rotated = bias_kind(scheme.bias(at, at)), scheme.rotation(at) is not None
    if path != "auto":
        return path, "as configured", bias, rotated
    case = Case(
        device=kind,
        bias=bias,
        queries="all",
        time=time,
        packed=packed,
        gradients=True,
        row_kernel=bias_row_works(),
    )
    rule = choose_rule(case)
    return rule.path, rule.reason, bias, rotated


def _moments(step: Step) -> float:
    """Return the numbers that the optimizer keeps per weight, on average."""
    matrices = step.decoder.n_layer * block_weights(step.decoder)
    return 2 - matrices / step.weights.total if step.muon else 2.0


def activations(step: Step) -> int:
    """Return the bytes that are kept from the forward to the backward pass, of all blocks."""
    decoder, tokens = step.decoder, step.tokens
    each = 4 * decoder.width * tokens if step.recompute else block_activations(step)
    norm = (2 if step.device == "cpu" else 1) * 4 * decoder.width  # the last one, and its output
    rotation = 4 * decoder.head_width if step.rotated else 4 * decoder.n_head
    ends = tokens * (4 * decoder.width + norm + rotation + _INTEGERS)
    return decoder.n_layer * each + ends


def block_activations(step: Step) -> int:
    """Return the same for one block, without the casts of its weights."""
    decoder, size = step.decoder, _size(step)
    width, mlp, heads = decoder.width, decoder.mlp_width, decoder.n_head
    queries = decoder.q_width
    keys = decoder.kv_width if step.path in _GROUPED else queries
    normed = {None: 0, "key": decoder.kv_width, "both": queries + decoder.kv_width}
    in_norms = 2 * width + normed[decoder.qk_norm]
    norms = 4 * in_norms * (2 if step.device == "cpu" else 1) + 8
    inputs = 5 * width * size if step.half else 2 * width * size
    attention = (2 * queries + 2 * keys) * size + 4 * heads
    if _copies_heads(step):
        attention += queries * size
    if step.path == "augmented":
        attention += 4 * _FEATURES * heads * size
    if step.path == "masked":  # the mask of a row, in the dtype of the scores
        row = step.time * step.context
        attention += (heads if step.dense_bias else 1) * row * size
    attention += (step.context - 1) * 2 * keys * size
    if step.path == "eager":
        attention += heads * step.time * (6 if step.half else 4)
    return step.tokens * (norms + inputs + attention + 4 * mlp * size)


def _copies_heads(step: Step) -> bool:
    """Return whether the output of attention is copied, because heads come before time in it."""
    by_document = step.packed and step.path in _BY_DOCUMENT
    return step.path == "augmented" or (step.device == "cpu" and (step.rotated or by_document))


def _loss(step: Step) -> int:
    """Return what the head takes beyond the gradient of the hidden states (bipe/loss.py)."""
    decoder, size = step.decoder, _size(step)
    chunk = CPU_CHUNK if step.device == "cpu" else DEVICE_CHUNK
    rows = min(chunk, step.tokens)
    logits, head = rows * decoder.vocab_size * size, decoder.vocab_size * decoder.width
    # The logits of a chunk are there until those of the next one are.
    several = logits if step.tokens > chunk else 0
    softmax = rows * decoder.vocab_size * 4
    if step.device == "cpu":
        softmax = min(softmax, BLOCK_NUMBERS * 4) * (2 if step.half else 1)
    cast = size * head + step.tokens * decoder.width * size if step.half else 0
    return cast + WEIGHT * head + logits + max(several, softmax, size * head)


def _gathered(step: Step) -> int:
    """Return the whole weights that shards lack for a while, and the gradients on their way."""
    # Two blocks (one is fetched ahead) and what is in none; gradients twice, once as they are sent.
    if step.shards == 1:
        return 0
    block = step.weights.blocks // step.decoder.n_layer
    rest = step.weights.total - step.weights.blocks
    blocks = min(2, step.decoder.n_layer) * block
    return 2 * WEIGHT * rest + _size(step) * (blocks + block) + WEIGHT * block


def _size(step: Step) -> int:
    return 2 if step.half else 4
