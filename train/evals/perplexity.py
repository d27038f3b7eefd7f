"""Token-weighted perplexity against the length of the context, on the same tokens at each length.

Every held-out document that is long enough is cut to the longest length, and that to windows of
each length in turn, which do not overlap. Scored are the tokens that have a context at every
length: all but those at multiples of the training row. So only what the model may look back on
changes from one length to the next.

    training row 4       . x x x . x x x      x is scored, . is not
    length 4             [     ] [     ]
    length 8             [             ]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bipe import Decoder, Positions
from bipe.loss import IGNORE, token_nll
from train.data.reading.documents import DataError
from train.data.rows.held_out import LongDocuments
from train.data.store.shards import DataSet

PROTOCOL = (
    "Windows of each length that do not overlap (the last of a document may be shorter), over the "
    "same first {longest} tokens of each of the held-out documents; the same tokens are scored at "
    "every length (all but those at multiples of {row}); perplexity is exp of the mean over scored "
    "tokens."
)
BINS = 32


@dataclass(frozen=True, slots=True)
class Texts:
    """The beginnings of long documents. tokens, marks: ``(document, time)``; bytes: UTF-8."""

    tokens: np.ndarray
    marks: np.ndarray
    bytes: int


def long_documents(
    data: DataSet,
    *,
    longest: Sequence[int],
    limit: int,
    text: Callable[[np.ndarray], str],
) -> Texts:
    """Cut up to `limit` documents to the greatest of `longest` (tokens) that any reaches.

    text: decodes ids. Raises DataError if no document reaches even the smallest.
    """
    for length in sorted(longest, reverse=True):
        documents = LongDocuments(data, at_least=length, limit=limit)
        if len(documents):
            tokens, marks = documents.beginnings(length)
            size = sum(len(text(row).encode("utf-8", "surrogatepass")) for row in tokens)
            return Texts(tokens, marks, size)
    raise DataError(
        f"{data.folder}: no document has {min(longest)} tokens (row_length); evaluate on longer "
        f"documents, or train and evaluate with a smaller row_length"
    )


def perplexity_by_length(
    model: Decoder,
    texts: Texts,
    *,
    row_length: int,
    lengths: Sequence[int],
    tokens_per_batch: int,
) -> dict[str, Any]:
    """Perplexity, bits a byte and loss per position; `lengths` in tokens, each times row_length.

    Lengths beyond the texts are left out.
    """
    count, longest = texts.tokens.shape
    scored = np.arange(longest) % row_length != 0
    result: dict[str, Any] = {
        name: [] for name in ("lengths", "perplexity", "bits_per_byte", "nll", "tokens_scored")
    }
    nll = np.zeros_like(texts.tokens, dtype=np.float64)
    for length in sorted(length for length in lengths if length <= longest):
        nll = window_nll(model, texts, length=length, tokens_per_batch=tokens_per_batch)
        mean = float(nll[:, scored].mean())
        result["lengths"].append(length)
        result["nll"].append(mean)
        result["perplexity"].append(math.exp(mean) if mean < 700 else math.inf)
        result["bits_per_byte"].append(mean / math.log(2) * texts.tokens.size / texts.bytes)
        result["tokens_scored"].append(int(scored.sum()) * count)
    result["documents"] = [count] * len(result["lengths"])
    result["by_position"] = _by_position(nll, scored)
    result["protocol"] = PROTOCOL.format(longest=longest, row=row_length)
    return result


def window_nll(model: Decoder, texts: Texts, *, length: int, tokens_per_batch: int) -> np.ndarray:
    """Loss of each token in nats, ``(document, time)``; 0 for the first of each window."""
    longest = texts.tokens.shape[1]
    whole = longest // length * length
    parts = []
    for inside, size in ((slice(whole), length), (slice(whole, longest), longest - whole)):
        if size:  # of the windows; those at the end of the documents may be shorter
            tokens = torch.from_numpy(texts.tokens[:, inside].reshape(-1, size))
            marks = torch.from_numpy(texts.marks[:, inside].reshape(-1, size))
            nll = _nll_of_windows(model, tokens, marks, rows=max(1, tokens_per_batch // size))
            parts.append(nll.reshape(len(texts.tokens), -1))
    return np.concatenate(parts, axis=1)


def _nll_of_windows(model: Decoder, tokens: Tensor, marks: Tensor, *, rows: int) -> np.ndarray:
    device = model.head.weight.device
    losses = [
        _nll(model, t.to(device), m.to(device)).cpu()
        for t, m in zip(tokens.split(rows), marks.split(rows), strict=True)
    ]
    return torch.cat(losses).double().numpy()


@torch.no_grad()
def _nll(model: Decoder, tokens: Tensor, marks: Tensor) -> Tensor:
    marks = marks & 0xFE  # one document, whatever it was packed with
    at = Positions.from_marks(marks, packed=False)
    hidden = model(tokens, at)
    targets = torch.nn.functional.pad(tokens[:, 1:], (0, 1), value=IGNORE)
    nll = token_nll(hidden.flatten(0, 1), model.head.weight, targets.flatten())
    return torch.nn.functional.pad(nll.view_as(tokens)[:, :-1], (1, 0))


def _by_position(nll: np.ndarray, scored: np.ndarray) -> dict[str, Any]:
    """Mean loss in equal bins of the position, at the longest length."""
    longest = nll.shape[1]
    edges = np.unique(np.linspace(0, longest, min(BINS, longest) + 1).astype(int))
    means, counts = [], []
    for start, stop in itertools.pairwise(edges):
        inside = nll[:, start:stop][:, scored[start:stop]]
        means.append(float(inside.mean()) if inside.size else None)
        counts.append(int(inside.size))
    return {"length": longest, "edges": edges.tolist(), "nll": means, "tokens": counts}
