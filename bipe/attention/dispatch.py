"""The choice of how attention is computed: the first of RULES that fits.

It is made once per forward pass, for all layers. Every path is exact (banded and flex: to less than
the rounding of the dtype), and documents do not leak into each other. On the CPU each document of a
packed row attends on its own, which is cheaper than a mask (6 documents per row: 0.44 of its time).
"""

import functools
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from bipe.attention import Path
from bipe.attention.banded import (
    WORTH_FROM,
    banded_attention,
    costs_no_digits,
    exact_banded_attention,
)
from bipe.attention.chunked import chunked_attention
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.attention.flex import choose_flex
from bipe.attention.fused import (
    augmented_attention,
    bias_row_attention,
    bias_row_works,
    causal_attention,
    chunk_attention,
    kernel_dtype,
    last_query_attention,
)
from bipe.attention.heads import Attention, Keys, Queries
from bipe.attention.tables import table_attention
from bipe.bias import (
    Bias,
    ContentBias,
    DistanceBias,
    GateBias,
    LinearBias,
    SeparableBias,
    TableBias,
    add_biases,
)
from bipe.positions import Positions

log = logging.getLogger(__name__)

# Tokens from which a dense bias takes so much memory that computing it twice is better.
CHUNKED_FROM = 1024
# Tokens from which a kernel call per document beats one with a mask, on the CPU. Time of the mask
# over that of the calls, 2 to 16 documents per row, forward and backward: 0.15 to 0.5 at 64 tokens,
# 0.4 to 1.2 at 128, 1.5 to 3.2 at 256.
BY_DOCUMENT_FROM = 128
# Tokens from which skipped blocks make up for the slower kernel of FlexAttention. Its time over
# that of `augmented`, H200, bfloat16: 1.13 at 2048 tokens, 1.24 at 4096, 0.51 at 8192.
FLEX_FROM = 8192
# The same for gates, whose gradients in bfloat16 it keeps (errors of 0.02, others 0.2 and more).
GATES_FLEX_FROM = 2048
_ALL = slice(None)
# Of each path that takes a document at a time: its attention, and the bias that it needs.
_KERNELS: dict[str, tuple[Callable[..., Tensor], str]] = {
    "causal": (causal_attention, "no bias"),
    "chunk": (exact_banded_attention, "a linear bias"),
    "banded": (banded_attention, "a linear bias"),
    "exact_banded": (exact_banded_attention, "a linear bias"),
    "bias_row": (bias_row_attention, "a linear bias"),
    "augmented": (augmented_attention, "a linear bias"),
    "tables": (table_attention, "a table"),
    "chunked": (chunked_attention, "a bias"),
}
Kind = Literal["none", "linear", "gates", "table", "content", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the choice of a path depends on.

    bias: "gates": linear in ids but for a row that has gradients; "table" may have linear parts;
        "content": depends on queries and keys; "other" has only a dense form.
    queries: all of the keys, or the last one or several, with the other keys from a cache.
    time: keys per row, in tokens. packed: several documents or padding in a row.
    gradients: a backward pass may follow. row_kernel: the CPU's kernel takes a bias row.
    """

    device: str
    bias: Kind
    queries: Literal["all", "one", "several"]
    time: int
    packed: bool
    gradients: bool
    row_kernel: bool

    @property
    def on_row_kernel(self) -> bool:
        return self.device == "cpu" and self.row_kernel

    @property
    def in_rows(self) -> bool:
        return self.bias in ("linear", "gates")

    @property
    def cached_chunk(self) -> bool:
        simple = self.bias in ("none", "linear", "gates")
        simple = simple and not self.packed and not self.gradients
        return self.queries == "several" and simple and self.on_row_kernel

    @property
    def in_blocks(self) -> bool:
        """Whether FlexAttention has blocks to skip or a table to gather."""
        least = {"linear": FLEX_FROM, "gates": GATES_FLEX_FROM}
        far = self.bias in least and self.time >= least[self.bias]
        blockwise = self.packed or self.bias == "table" or far
        return self.device == "cuda" and self.bias not in ("content", "other") and blockwise


@dataclass(frozen=True, slots=True)
class Rule:
    """A path, the cases that it is for, and why."""

    path: str
    fits: Callable[[Case], bool]
    reason: str


# fmt: off
RULES = (
    Rule("eager", lambda c: c.bias == "content" and (c.queries != "all" or c.time < CHUNKED_FROM),
         "few scores, which depend on the content"),
    Rule("chunked", lambda c: c.bias == "content", "scores depend on the content: in blocks"),
    Rule("step", lambda c: c.queries == "one", "one query sees every key: no mask but for padding"),
    Rule("chunk", lambda c: c.cached_chunk, "the past and the chunk in two passes, without a mask"),
    Rule("masked", lambda c: c.queries == "several", "cached keys of several documents"),
    Rule("flex", lambda c: c.in_blocks, "skips blocks of other documents and of keys too far"),
    Rule("masked", lambda c: c.packed and c.device != "cpu", "a mask keeps documents apart"),
    Rule("masked", lambda c: c.packed and c.time < BY_DOCUMENT_FROM,
         "for short rows of several documents: one kernel"),
    Rule("causal", lambda c: c.bias == "none",
         "for rows of one document, and long rows: torch's own kernel, document by document"),
    Rule("exact_banded", lambda c: c.in_rows and c.on_row_kernel and not c.gradients,
         "without gradients: skips keys too far away; as exact as no bias"),
    Rule("banded", lambda c: c.bias == "linear" and c.on_row_kernel,
         "skips keys too far away, in long documents; a bias row in short ones"),
    Rule("augmented", lambda c: c.in_rows, "torch's own kernel, wherever it runs"),
    Rule("tables", lambda c: c.bias == "table" and c.on_row_kernel,
         "a fused kernel, with the table of a block of queries at a time"),
    Rule("chunked", lambda c: c.time >= CHUNKED_FROM, "the dense bias of a row is too large"),
    Rule("masked", lambda c: True, "a dense bias is small in short rows"),
)
# fmt: on


def choose_attention(
    *, bias: Bias | None, q_at: Positions, k_at: Positions, path: Path = "auto"
) -> Attention:
    """Return ``attend(q, k, v)``; raise ValueError for a path that cannot do what is asked.

    FlexAttention reads whole rows: the last queries of cached keys are as under "auto".
    """
    cached = q_at.document.shape != k_at.document.shape
    if path == "auto" or (path == "flex" and cached):
        rule = choose_rule(_case(bias, q_at, k_at))
        name, reason = rule.path, rule.reason
    else:
        name, reason = str(path), "as configured"
    _log_once(name, k_at.document.device.type, bias_kind(bias), reason)
    if name == "step":
        return functools.partial(last_query_attention, bias=_last_row(bias, q_at, k_at))
    if name == "chunk":
        return chunk_attention if bias is None else _kernel(name, bias)(_ALL, _ALL)
    if name in ("eager", "masked"):
        allowed = allowed_pairs(q_at.document, k_at.document)
        if name == "eager":
            return functools.partial(eager_attention, bias=bias, allowed=allowed)
        return functools.partial(masked_attention, bias=bias, allowed=allowed)
    if name == "flex":
        return choose_flex(bias=bias, at=k_at)
    suits = {
        "no bias": bias is None,
        "a linear bias": isinstance(bias, SeparableBias),
        "a table": bias_kind(bias) == "table",
        "a bias": bias is not None,
    }
    if not suits[need := _KERNELS[name][1]]:
        got = None if bias is None else type(bias).__name__
        raise ValueError(f"attention path {name!r} needs {need}, got {got}")
    if cached:
        raise ValueError(
            f"attention path {name!r} needs as many queries as keys, got "
            f"{q_at.document.shape[1]} and {k_at.document.shape[1]}; set attention=auto to decode"
        )
    if k_at.packed and k_at.document.device.type != "cpu":
        if name != "chunked" or bias is None:
            raise ValueError(
                f"attention path {name!r} takes rows of one document only, except on a CPU; set "
                "attention=auto, or if each row is one, Positions.from_marks(..., packed=False)"
            )
        return functools.partial(chunked_attention, bias=bias, document=k_at.document)
    return _by_document(_kernel(name, bias), k_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InLayer:
    """Attention with a bias that differs between layers, for keys from `with_gates`.

    Gates travel as features behind the keys, one for each query head of a key head: a cache keeps
    them, and gives back those of earlier tokens.
    """

    bias: Bias
    q_at: Positions
    k_at: Positions
    path: Path
    layer: int

    def with_gates(self, k: Keys, x: Float[Tensor, "batch key hidden"]) -> Tensor:
        """Return keys with the gates of their tokens, given what enters attention."""
        gates = [b.gates(self.layer, x) for b in self.bias.leaves() if isinstance(b, GateBias)]
        grouped = [g.unflatten(-1, (k.shape[1], -1)).transpose(1, 2) for g in gates]
        # In a dtype of 16 bits, the rest that it cannot hold is kept beside it.
        high = [g.to(k.dtype) for g in grouped]
        low = [(g - h).to(k.dtype) for g, h in zip(grouped, high, strict=True)]
        return torch.cat((k, *high, *(low if k.dtype.itemsize < 4 else ())), -1)

    def __call__(self, q: Queries, k: Tensor, v: Tensor) -> Queries:
        k, gates = k.split((q.shape[-1], k.shape[-1] - q.shape[-1]), -1)
        if k.dtype.itemsize < 4:
            gates = sum(half.float() for half in gates.chunk(2, -1))
        # One tensor for each gate among the leaves, in their order.
        left = list(gates.split(q.shape[1] // k.shape[1], -1)) if gates.numel() else []
        parts: list[Bias] = []
        for leaf in self.bias.leaves():
            if isinstance(leaf, GateBias):
                parts.append(leaf.over(left.pop(0).transpose(2, 3).flatten(1, 2)))
            else:
                parts.append(leaf.in_layer(self.layer) if isinstance(leaf, ContentBias) else leaf)
        bias = add_biases(*parts)
        return choose_attention(bias=bias, q_at=self.q_at, k_at=self.k_at, path=self.path)(q, k, v)


def choose_rule(case: Case) -> Rule:
    return next(rule for rule in RULES if rule.fits(case))


def _case(bias: Bias | None, q_at: Positions, k_at: Positions) -> Case:
    (_, query), (_, key) = q_at.document.shape, k_at.document.shape
    return Case(
        device=k_at.document.device.type,
        bias=bias_kind(bias),
        queries="all" if query == key else "one" if query == 1 else "several",
        time=key,
        packed=k_at.packed,
        gradients=torch.is_grad_enabled(),
        row_kernel=bias_row_works(),
    )


def bias_kind(bias: Bias | None) -> Kind:
    """Return what `Case.bias` says of a bias."""
    if bias is None:
        return "none"
    if isinstance(bias, SeparableBias):
        return "gates" if bias.learned else "linear"
    parts = bias.leaves()
    if any(isinstance(x, GateBias) for x in parts):
        return "gates" if all(isinstance(x, GateBias | SeparableBias) for x in parts) else "other"
    if any(isinstance(x, ContentBias) for x in parts):
        return "content"
    tables = LinearBias | TableBias | DistanceBias
    return "table" if all(isinstance(x, tables) for x in parts) else "other"


def _last_row(bias: Bias | None, q_at: Positions, k_at: Positions) -> Tensor | None:
    """Return what is added to the scores of the only query of each row: float64 or None."""
    row = None if bias is None else bias.dense(torch.float64)
    if not k_at.packed:
        return row
    row = torch.zeros((), device=k_at.document.device) if row is None else row
    allowed = allowed_pairs(q_at.document, k_at.document)[:, None]
    return torch.where(allowed, row, float("-inf"))


def _kernel(name: str, bias: Bias | None) -> Callable[[slice, slice], Attention]:
    """Return a function from (rows of the batch, time of a document) to its attention."""
    attention, need = _KERNELS[name]

    def at(rows: slice, keys: slice) -> Attention:
        if bias is None:
            return attention
        if need != "a linear bias":
            return functools.partial(attention, bias=bias.part(rows=rows, queries=keys, keys=keys))
        assert isinstance(bias, SeparableBias)
        row = bias.row(rows=rows, keys=keys, dtype=torch.float64)  # once for all layers
        if name != "augmented" and row.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"attention path {name!r} trains no gates; set attention=auto")
        short = name == "banded" and row.shape[-1] < WORTH_FROM
        simple = short or (name == "exact_banded" and costs_no_digits(row))
        return functools.partial(bias_row_attention if simple else attention, row=row)

    return at


def _by_document(kernel: Callable[[slice, slice], Attention], at: Positions) -> Attention:
    spans = document_spans(at.document) if at.packed else []
    if all(len(row) == 1 for row in spans):
        return kernel(_ALL, _ALL)
    return ByDocument(
        [
            [(span, kernel(slice(row, row + 1), span)) for span in documents]
            for row, documents in enumerate(spans)
        ]
    )


def document_spans(document: Int[Tensor, "batch time"]) -> list[list[slice]]:
    """Return the time of each document of each row; reads the ids on the host: CPU only.

    document 0 0 0 1 1    ->  [slice(0, 3), slice(3, 5)]
    """
    edges = [[0] for _ in document]
    for row, before in (document[:, 1:] != document[:, :-1]).nonzero().tolist():
        edges[row].append(before + 1)
    return [
        list(itertools.starmap(slice, itertools.pairwise([*starts, document.shape[1]])))
        for starts in edges
    ]


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function out of compiled graphs.

    `torch.compiler.disable` at import would load Dynamo, which takes longer than torch itself.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class ByDocument:
    """Attention of packed rows: each document on its own, and the pieces joined."""

    spans: list[list[tuple[slice, Attention]]]

    # Not in compiled graphs: each layout of documents would be compiled anew.
    @uncompiled
    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = []
        for row, documents in enumerate(self.spans):
            lengths = [span.stop - span.start for span, _ in documents]
            # split and unbind, not slices: the backward of a slice fills a whole zero tensor.
            pieces = zip(*(x[row : row + 1].split(lengths, 2) for x in (q, k, v)), strict=True)
            outs = [attend(*piece) for (_, attend), piece in zip(documents, pieces, strict=True)]
            rows.append(torch.cat(outs, 2))
        return torch.cat(rows)


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Bias | None, allowed: Tensor
) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    mask = allowed[:, None]
    if bias is not None:
        # The CPU's kernel takes a mask of higher precision than q, which steep slopes need.
        dtype = kernel_dtype(q) if q.device.type == "cpu" else q.dtype
        mask = bias.dense(dtype).masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


_LOGGED: set[tuple[str, ...]] = set()


def _log_once(*facts: str) -> None:
    if facts not in _LOGGED:
        _LOGGED.add(facts)
        log.info("attention path: %s (on %s, bias: %s): %s", *facts)


_log_once._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as bias_row_works
