"""Histograms above each other on one axis.

All bins are equally wide, whatever their edges; heights are shares of a row's own total, on one
scale for all rows, so that shapes can be compared.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from train.report.figures import Drawing, our_style
from train.report.formats import short

HISTOGRAM_WIDTH = 640
_START = 128  # left of the bins, for labels
_MEAN = 76  # right of the bins, for the mean
_HEAD = 20  # above the first histogram
_GAP = 7  # between two
_FOOT = 40  # below the last
_TICK_SPACE = 34  # between numbers on the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """One row of bins; `shares` sum to 1."""

    label: str
    detail: str
    shares: tuple[float, ...]
    mean: float


def histograms(
    rows: Sequence[Histogram], *, name: str, title: str, edges: Sequence[float]
) -> Drawing:
    """Draw rows over bins with these edges in tokens; the last edge may be infinite."""
    tall = 52 if len(rows) < 6 else 30
    height = _HEAD + len(rows) * (tall + _GAP) + _FOOT
    end = HISTOGRAM_WIDTH - _MEAN
    width = (end - _START) / (len(edges) - 1)
    tallest = max((share for row in rows for share in row.shares), default=0.0) or 1.0
    with our_style():
        drawing = Drawing(name=name, title=title, width=HISTOGRAM_WIDTH, height=height)
        drawing.text(_START - 10, 10, "tokens in document", role="muted", ha="right")
        drawing.text(end + 10, 10, "mean", role="muted")
        for index, row in enumerate(rows):
            bottom = _HEAD + index * (tall + _GAP) + tall
            drawing.text(_START - 10, bottom - 16, row.label, ha="right", weight="bold")
            drawing.text(_START - 10, bottom - 3, row.detail, ha="right")
            drawing.text(end + 10, bottom - 4, short(row.mean), weight="bold")
            _bars(drawing, row, edges, bottom=bottom, width=width, scale=tall / tallest)
            drawing.line([_START, end], [bottom, bottom], role="rule")
            if math.isfinite(row.mean):
                at = _START + position_in_bins(row.mean, edges) * width
                drawing.line([at, at], [bottom - tall, bottom + 3], role="ink", linewidth=2)
        bottom = height - _FOOT - _GAP
        for index in range(0, len(edges), max(1, math.ceil(_TICK_SPACE / width))):
            at, edge = _START + index * width, edges[index]
            drawing.line([at, at], [bottom, bottom + 4], role="rule")
            label = f"{edge:g}" if math.isfinite(edge) else "\N{INFINITY}"
            drawing.text(at, bottom + 16, label, ha="center")
        middle = (_START + end) / 2
        drawing.text(middle, height - 6, "tokens per segment", role="muted", ha="center")
    return drawing


def _bars(
    drawing: Drawing, row: Histogram, edges: Sequence[float], *, bottom: float, width: float,
    scale: float,
) -> None:  # fmt: skip
    gap = min(1.0, width * 0.1)
    for index, (share, (low, high)) in enumerate(zip(row.shares, pairwise(edges), strict=True)):
        if share > 0:
            words = "tokens or more" if math.isinf(high) else f"to under {high:g} tokens"
            tip = f"{row.label}: {low:g} {words}, {share:.1%} of segments"
            at = (_START + index * width + gap / 2, bottom - share * scale)
            drawing.box(at, (width - gap, share * scale), role="bar", tip=tip)


def position_in_bins(value: float, edges: Sequence[float]) -> float:
    """Return the position of a value in bins, clamped: 2.5 is the middle of the third bin."""
    index = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    low, high = edges[index], edges[index + 1]
    inside = 0.5 if math.isinf(high) else (value - low) / (high - low)
    return index + min(1.0, max(0.0, inside))
