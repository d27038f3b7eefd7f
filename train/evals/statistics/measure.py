"""All statistics of one source, from its splits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from train.data.preparing.statistics import DOCUMENT_EDGES, Lengths
from train.data.store.shards import DataSet
from train.evals.statistics.counting import Counted
from train.evals.statistics.distance import by_chance, histograms, js_distance
from train.evals.statistics.growth import growth
from train.evals.statistics.separators import Separators


def source_statistics(
    splits: Sequence[DataSet],
    *,
    pieces: Sequence[bytes] | None,
    separator_tokens: int | None,
    least: int,
) -> dict[str, Any]:
    """Lengths, growth, distances and separators.

    pieces: the bytes of each id; None leaves separators out. separator_tokens: of each split, how
    many are looked at for them. least: documents without which a bin is not compared.
    """
    counted = Counted()
    for data in splits:
        counted.add(data)
    lengths = Lengths()
    lengths.merge(counted.state())
    separators = None
    if pieces is not None:
        separators = Separators(pieces)
        for data in splits:
            separators.add(data, limit=separator_tokens)
    return {
        "documents": len(counted.tokens),
        "tokens": int(counted.tokens.sum()),
        "segments": int(counted.segments.sum()),
        **lengths.summary(),
        "growth": growth(counted.tokens, counted.segments) if len(counted.tokens) else None,
        "distance": _distances(counted, least),
        "separators": separators.summary() if separators is not None else None,
    }


def _distances(counted: Counted, least: int) -> dict[str, Any]:
    """Of every two bins of document length with at least so many documents."""
    documents = [number for number, _ in counted.state()]
    compared = [index for index, number in enumerate(documents) if number >= least]
    rows = histograms([counted.lengths[index] for index in compared])
    pairs: list[dict[str, Any]] = [
        {
            "bins": [DOCUMENT_EDGES[compared[i]], DOCUMENT_EDGES[compared[j]]],
            "distance": js_distance(rows[i], rows[j]),
            "by_chance": by_chance(rows[i], rows[j]),
        }
        for i, j in itertools.combinations(range(len(compared)), 2)
    ]
    found = [pair["distance"] for pair in pairs]
    return {
        "least_documents": least,
        "bins": [DOCUMENT_EDGES[index] for index in compared],
        "pairs": pairs,
        "mean": sum(found) / len(found) if found else None,
        "largest": max(found) if found else None,
    }
