"""Heat maps with the number in each cell, and histograms above each other on one axis.

Heat map: columns are lengths, rows are depths with the start of the document on top. A vertical
rule after the training length separates what was trained from what is extrapolated; the colour
only helps the eye.

Histograms: every bin is equally wide and its edges are written, whatever their spacing. Heights are
shares of a row's own total, on one scale for all rows, so that shapes compare by eye.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.report.figures import Drawing, our_style
from train.report.formats import DAGGER, percent, short
from train.report.palette import colour, heat_step

MAP_WIDTH, HISTOGRAM_WIDTH = 300, 640
_LEFT, _TOP, _ROW, _BOTTOM = 44, 22, 26, 38
_WORDS = 112  # pixels of "longer than trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """shares: by length in tokens and depth; a depth that is not a number stands for all."""

    name: str
    title: str
    shares: Mapping[tuple[int, float], float]
    trained: int | None

    def draw(self) -> Drawing:
        """Return the drawing."""
        lengths = sorted({length for length, _ in self.shares})
        depths = list(dict.fromkeys(depth for _, depth in self.shares))
        column = (MAP_WIDTH - _LEFT) / len(lengths)
        bottom = _TOP + _ROW * len(depths)
        with our_style():
            made = Drawing(
                name=self.name, title=self.title, width=MAP_WIDTH, height=bottom + _BOTTOM
            )
            made.text(_LEFT - 8, 12, "depth", role="muted", ha="right")
            for row, depth in enumerate(depths):
                middle = _TOP + (row + 0.5) * _ROW + 4
                made.text(_LEFT - 8, middle, _depth(depth), ha="right")
                for place, length in enumerate(lengths):
                    if (length, depth) in self.shares:
                        self._cell(made, length, depth, x=_LEFT + place * column, width=column,
                                   y=_TOP + row * _ROW)  # fmt: skip
            for place, length in enumerate(lengths):
                made.text(_LEFT + (place + 0.5) * column, bottom + 15, str(length), ha="center")
            middle = (MAP_WIDTH + _LEFT) / 2
            made.text(middle, bottom + 32, "tokens in the document", role="muted", ha="center")
            inside = sum(length <= (self.trained or 0) for length in lengths)
            if 0 < inside < len(lengths):
                at = _LEFT + inside * column
                words = "longer than trained" if MAP_WIDTH - at > _WORDS else "longer"
                made.line([at, at], [_TOP - 14, bottom], role="ink")
                made.text(at + 5, _TOP - 6, words, role="muted")
        return made

    def _cell(
        self, made: Drawing, length: int, depth: float, *, x: float, y: float, width: float
    ) -> None:
        share = self.shares[length, depth]
        missing = not math.isfinite(share)
        step = 0 if missing else heat_step(share)
        tip = f"{length:,} tokens, depth {_depth(depth)}: {percent(share, 1)}"
        edge = {"edgecolor": colour("rule"), "linewidth": 1, "linestyle": (0, (2, 2))}
        role = "panel" if missing else f"heat-{step}"
        look = edge if missing else {}
        made.box(x + 1, y + 1, width - 2, _ROW - 2, role=role, tip=tip, **look)
        words = DAGGER if missing else f"{100 * share:.0f}"
        ink = "ink" if missing else f"heat-ink-{step}"
        made.text(x + width / 2, y + _ROW / 2 + 4, words, role=ink, tip=tip, ha="center")


def _depth(depth: float) -> str:
    return f"{depth:.0%}" if math.isfinite(depth) else "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """One row: `shares` run along the bins and sum to 1."""

    label: str
    detail: str
    shares: tuple[float, ...]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms:
    """edges: of the bins, in tokens; the last may be infinite."""

    name: str
    title: str
    edges: Sequence[float]
    rows: Sequence[Histogram]

    _LEFT = 128
    _RIGHT = 76
    _TOP = 20
    _GAP = 7
    _BOTTOM = 40
    _TICK_SPACE = 34

    def draw(self) -> Drawing:
        """Return the drawing."""
        tall = 52 if len(self.rows) < 6 else 30
        height = self._TOP + len(self.rows) * (tall + self._GAP) + self._BOTTOM
        right = HISTOGRAM_WIDTH - self._RIGHT
        with our_style():
            made = Drawing(name=self.name, title=self.title, width=HISTOGRAM_WIDTH, height=height)
            made.text(self._LEFT - 10, 10, "tokens in document", role="muted", ha="right")
            made.text(right + 10, 10, "mean", role="muted")
            for index, row in enumerate(self.rows):
                bottom = self._TOP + index * (tall + self._GAP) + tall
                self._row(made, row, bottom=bottom, tall=tall)
            self._ticks(made, bottom=height - self._BOTTOM - self._GAP)
            middle = (right + self._LEFT) / 2
            made.text(middle, height - 6, "tokens per segment", role="muted", ha="center")
        return made

    @property
    def _width(self) -> float:
        """Pixels of a bin."""
        return (HISTOGRAM_WIDTH - self._LEFT - self._RIGHT) / (len(self.edges) - 1)

    def _row(self, made: Drawing, row: Histogram, *, bottom: float, tall: float) -> None:
        left, width, right = self._LEFT, self._width, HISTOGRAM_WIDTH - self._RIGHT
        tallest = max((share for row in self.rows for share in row.shares), default=0.0) or 1.0
        made.text(left - 10, bottom - 16, row.label, ha="right", weight="bold")
        made.text(left - 10, bottom - 3, row.detail, ha="right")
        made.text(right + 10, bottom - 4, short(row.mean), weight="bold")
        gap = min(1.0, width * 0.1)
        for index, share in enumerate(row.shares):
            if share > 0:
                height = share / tallest * tall
                tip = f"{row.label}: {self._bin(index)}, {share:.1%} of segments"
                made.box(left + index * width + gap / 2, bottom - height, width - gap, height,
                         role="bar", tip=tip)  # fmt: skip
        made.line([left, right], [bottom, bottom], role="rule")
        if math.isfinite(row.mean):
            at = left + place(row.mean, self.edges) * width
            made.line([at, at], [bottom - tall, bottom + 3], role="ink", linewidth=2)

    def _ticks(self, made: Drawing, *, bottom: float) -> None:
        for index in range(0, len(self.edges), max(1, math.ceil(self._TICK_SPACE / self._width))):
            at, edge = self._LEFT + index * self._width, self.edges[index]
            made.line([at, at], [bottom, bottom + 4], role="rule")
            label = f"{edge:g}" if math.isfinite(edge) else "\N{INFINITY}"
            made.text(at, bottom + 16, label, ha="center")

    def _bin(self, index: int) -> str:
        low, high = self.edges[index], self.edges[index + 1]
        return (
            f"{low:g} tokens or more" if math.isinf(high) else f"{low:g} to under {high:g} tokens"
        )


def place(value: float, edges: Sequence[float]) -> float:
    """Return where a value lies in bins: 2.5 is the middle of the third; ends hold all outside."""
    index = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    low, high = edges[index], edges[index + 1]
    inside = 0.5 if math.isinf(high) else (value - low) / (high - low)
    return index + min(1.0, max(0.0, inside))
