"""Perplexity by one protocol against the length of the context."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bipe import Decoder
from train.evals.intervals import over_documents
from train.evals.perplexity.choice import Measure
from train.evals.perplexity.full_context import FullContext
from train.evals.perplexity.protocol import Losses, score
from train.evals.perplexity.texts import Texts

BINS = 32
_LARGEST = 700.0  # nats whose exponential a float still holds
_SHARED = (
    "Read are the first {longest} tokens of each of the held-out documents; perplexity is exp of "
    "the mean over scored tokens."
)


def perplexity(nll: float) -> float:
    """Return exp of a mean loss in nats; infinite where a float cannot hold it."""
    return math.inf if nll >= _LARGEST else math.exp(nll)


def perplexity_by_length(
    model: Decoder,
    texts: Texts,
    *,
    measure: Measure,
    lengths: Sequence[int],
    tokens_per_batch: int,
) -> dict[str, Any]:
    """Perplexity, its interval, bits a byte and losses by document and position.

    lengths: of context, in tokens; those beyond the texts are left out.
    """
    longest = texts.tokens.shape[1]
    lengths = sorted(length for length in lengths if length <= longest)
    if measure.protocol == FullContext.name:
        lengths = [longest]
    rows, losses = [], None
    for length in lengths:
        losses = score(model, texts.stream, measure.at(length), tokens_per_batch=tokens_per_batch)
        rows.append(_row(losses, texts) | _published(measure, length, losses))
    names = (
        "perplexity", "perplexity_low", "perplexity_high", "bits_per_byte", "nll",
        "tokens_scored", "documents", "by_document", "published",
    )  # fmt: skip
    return {
        "lengths": lengths,
        **{name: [row[name] for row in rows] for name in names},
        "by_position": None if losses is None else _by_position(losses, texts),
        "protocol_name": measure.protocol,
        "protocol": _told(measure, lengths, longest),
    }


def _row(losses: Losses, texts: Texts) -> dict[str, Any]:
    mean = losses.mean()
    sums, tokens = losses.by(losses.document, count=len(texts.tokens))
    between = over_documents(sums, tokens)
    low, high = (None, None) if between is None else map(perplexity, between)
    return {
        "nll": mean,
        "perplexity": perplexity(mean),
        "perplexity_low": low,
        "perplexity_high": high,
        "bits_per_byte": mean / math.log(2) * texts.tokens.size / texts.bytes,
        "tokens_scored": int(losses.scored.sum()),
        "documents": len(texts.tokens),
        "by_document": {"nll": sums.tolist(), "tokens": tokens.tolist()},
    }


def _published(measure: Measure, length: int, losses: Losses) -> dict[str, Any]:
    """The perplexities that the source of the protocol would report."""
    averages = measure.at(length).averages(losses)
    return {"published": {name: perplexity(mean) for name, mean in averages.items()}}


def _told(measure: Measure, lengths: Sequence[int], longest: int) -> str:
    """The definition, for all lengths: that of the first with the others named."""
    if not lengths:
        return ""
    first = measure.at(lengths[0]).definition
    others = "" if len(lengths) == 1 else f" (and so for {', '.join(map(str, lengths[1:]))})"
    return f"{measure.protocol}: {first}{others} {_SHARED.format(longest=longest)}"


def _by_position(losses: Losses, texts: Texts) -> dict[str, Any]:
    """Mean loss in equal bins of the place in the document, at the longest length."""
    longest = texts.tokens.shape[1]
    nll = losses.nll.reshape(texts.tokens.shape)
    scored = losses.scored.reshape(texts.tokens.shape)
    edges = np.unique(np.linspace(0, longest, min(BINS, longest) + 1).astype(int))
    means, counts = [], []
    for start, stop in itertools.pairwise(edges):
        inside = nll[:, start:stop][scored[:, start:stop]]
        means.append(float(inside.mean()) if inside.size else None)
        counts.append(int(inside.size))
    return {"length": longest, "edges": edges.tolist(), "nll": means, "tokens": counts}
