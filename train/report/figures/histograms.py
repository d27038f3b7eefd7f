"""Small multiples of one histogram, stacked on one axis so that shapes compare by eye.

Every bin is drawn equally wide and its edges are written, whatever their spacing: the heights are
shares of a row's own total, on one scale for all rows. A tick on each row marks its mean.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from train.report.formats import short
from train.report.markup import Markup, tag

WIDTH = 640
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 128, 76, 20, 7, 40
_TALL, _LOW, _MANY = 52, 30, 6  # heights of a row, and from how many rows on they are low
_TICK_SPACE = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """One row: `share` runs along the bins and sums to 1."""

    label: str
    detail: str
    share: tuple[float, ...]
    mean: float


def histograms(
    *, title: str, edges: Sequence[float], rows: Sequence[Histogram], x_name: str
) -> Markup:
    """The rows above each other as one SVG element; the last edge may be infinite."""
    tall = _TALL if len(rows) < _MANY else _LOW
    height = _TOP + len(rows) * (tall + _GAP) + _BOTTOM
    width = (WIDTH - _LEFT - _RIGHT) / (len(edges) - 1)
    tallest = max((share for row in rows for share in row.share), default=0.0) or 1.0
    return tag(
        "svg",
        tag("title", title),
        tag("text", "tokens in document", x=_LEFT - 10, y=10, class_="axis-name end"),
        tag("text", "mean", x=WIDTH - _RIGHT + 10, y=10, class_="axis-name"),
        *(
            _row(row, edges, bottom=_TOP + index * (tall + _GAP) + tall, width=width, tall=tall,
                 tallest=tallest)
            for index, row in enumerate(rows)
        ),
        *_ticks(edges, bottom=height - _BOTTOM - _GAP, width=width),
        tag("text", x_name, x=(WIDTH + _LEFT - _RIGHT) / 2, y=height - 6,
            class_="axis-name middle"),
        class_="chart", viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=title,
    )  # fmt: skip


def _row(
    row: Histogram, edges, *, bottom: float, width: float, tall: float, tallest: float
) -> Markup:
    bars = [
        _bar(x=_LEFT + index * width, bottom=bottom, width=width, height=share / tallest * tall,
             title=f"{row.label}: {_bin(edges, index)}, {share:.1%} of segments")
        for index, share in enumerate(row.share)
    ]  # fmt: skip
    parts = [
        tag("text", row.label, x=_LEFT - 10, y=bottom - 16, class_="tick end strong"),
        tag("text", row.detail, x=_LEFT - 10, y=bottom - 3, class_="tick end"),
        *bars,
        tag("line", x1=_LEFT, y1=bottom, x2=WIDTH - _RIGHT, y2=bottom, class_="rule"),
        tag("text", short(row.mean), x=WIDTH - _RIGHT + 10, y=bottom - 4, class_="tick strong"),
    ]
    if math.isfinite(row.mean):
        at = _LEFT + place(row.mean, edges) * width
        parts.append(tag("line", x1=at, y1=bottom - tall, x2=at, y2=bottom + 3, class_="mean"))
    return tag("g", *parts)


def _bar(*, x: float, bottom: float, width: float, height: float, title: str) -> Markup:
    gap = min(1.0, width * 0.1)
    return tag("rect", tag("title", title), x=x + gap / 2, y=bottom - height, width=width - gap,
               height=height, class_="bar")  # fmt: skip


def _ticks(edges: Sequence[float], *, bottom: float, width: float) -> list[Markup]:
    stride = max(1, math.ceil(_TICK_SPACE / width))
    parts = []
    for index in range(0, len(edges), stride):
        at = _LEFT + index * width
        label = f"{edges[index]:g}" if math.isfinite(edges[index]) else "\N{INFINITY}"
        parts.append(tag("line", x1=at, y1=bottom, x2=at, y2=bottom + 4, class_="rule"))
        parts.append(tag("text", label, x=at, y=bottom + 16, class_="tick middle"))
    return parts


def _bin(edges: Sequence[float], index: int) -> str:
    low, high = edges[index], edges[index + 1]
    return f"{low:g} tokens or more" if math.isinf(high) else f"{low:g} to under {high:g} tokens"


def place(value: float, edges: Sequence[float]) -> float:
    """Where a value lies in bins: 2.5 is the middle of the third; ends hold what lies outside."""
    index = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    low, high = edges[index], edges[index + 1]
    inside = 0.5 if math.isinf(high) else (value - low) / (high - low)
    return index + min(1.0, max(0.0, inside))
