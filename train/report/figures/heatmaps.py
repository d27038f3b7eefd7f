"""Heat maps with the number in each cell, and histograms above each other on one axis.

In histograms all bins are equally wide, whatever their edges; heights are shares of a row's own
total, on one scale for all rows, so that shapes can be compared.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from train.report.figures import Drawing, our_style
from train.report.formats import DAGGER, percent, short
from train.report.palette import colour, heat_step

MAP_WIDTH, HISTOGRAM_WIDTH = 300, 640
_LEFT, _TOP, _ROW, _BOTTOM = 44, 22, 26, 38  # of a heat map
_WORDS = 112  # pixels of "longer than trained"
_START, _MEAN = 128, 76  # left and right of the bins
_HEAD, _GAP, _FOOT = 20, 7, 40  # above, between and below histograms
_TICK_SPACE = 34


def heat_map(
    shares: Mapping[tuple[int, float], float], *, name: str, title: str, trained: int | None
) -> Drawing:
    """Draw shares by (length in tokens, depth); a NaN depth is the mean over depths."""
    lengths = sorted({length for length, _ in shares})
    depths = list(dict.fromkeys(depth for _, depth in shares))
    column = (MAP_WIDTH - _LEFT) / len(lengths)
    bottom = _TOP + _ROW * len(depths)
    with our_style():
        drawing = Drawing(name=name, title=title, width=MAP_WIDTH, height=bottom + _BOTTOM)
        drawing.text(_LEFT - 8, 12, "depth", role="muted", ha="right")
        for row, depth in enumerate(depths):
            top, shown = _TOP + row * _ROW, f"{depth:.0%}" if math.isfinite(depth) else "any"
            drawing.text(_LEFT - 8, _TOP + (row + 0.5) * _ROW + 4, shown, ha="right")
            for place, length in enumerate(lengths):
                if (length, depth) in shares:
                    share = shares[length, depth]
                    tip = f"{length:,} tokens, depth {shown}: {percent(share, 1)}"
                    _cell(drawing, share, x=_LEFT + place * column, y=top, width=column, tip=tip)
        for place, length in enumerate(lengths):
            drawing.text(_LEFT + (place + 0.5) * column, bottom + 15, str(length), ha="center")
        middle = (MAP_WIDTH + _LEFT) / 2
        drawing.text(middle, bottom + 32, "tokens in the document", role="muted", ha="center")
        inside = sum(length <= (trained or 0) for length in lengths)
        if 0 < inside < len(lengths):
            at = _LEFT + inside * column
            words = "longer than trained" if MAP_WIDTH - at > _WORDS else "longer"
            drawing.line([at, at], [_TOP - 14, bottom], role="ink")
            drawing.text(at + 5, _TOP - 6, words, role="muted")
    return drawing


def _cell(drawing: Drawing, share: float, *, x: float, y: float, width: float, tip: str) -> None:
    role, ink, words, look = "panel", "ink", DAGGER, {}
    if math.isfinite(share):
        role, ink = f"heat-{heat_step(share)}", f"heat-ink-{heat_step(share)}"
        words = f"{100 * share:.0f}"
    else:
        look = {"edgecolor": colour("rule"), "linewidth": 1, "linestyle": (0, (2, 2))}
    drawing.box((x + 1, y + 1), (width - 2, _ROW - 2), role=role, tip=tip, **look)
    drawing.text(x + width / 2, y + _ROW / 2 + 4, words, role=ink, tip=tip, ha="center")


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
                at = _START + place(row.mean, edges) * width
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


def place(value: float, edges: Sequence[float]) -> float:
    """Return the position of a value in bins, clamped: 2.5 is the middle of the third bin."""
    index = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    low, high = edges[index], edges[index + 1]
    inside = 0.5 if math.isinf(high) else (value - low) / (high - low)
    return index + min(1.0, max(0.0, inside))
