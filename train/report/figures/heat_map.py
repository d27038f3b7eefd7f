"""A heat map of shares with the number in each cell, so that colour only helps the eye.

Columns are lengths, rows are depths with the start of the document on top. A vertical rule after
the training length parts what was trained from what is extrapolated.
"""

import math
from collections.abc import Sequence

from train.report.formats import DAGGER, percent
from train.report.markup import Markup, tag
from train.report.palette import heat_step

WIDTH = 300
_LEFT, _TOP, _ROW, _BOTTOM = 44, 22, 26, 38
_WORDS = 112  # pixels of "longer than trained"


def heat_map(
    *,
    title: str,
    values: Sequence[Sequence[float]],
    lengths: Sequence[int],
    depths: Sequence[float],
    trained: int,
) -> Markup:
    """The map as one SVG element; values[l][d] is a share at lengths[l] tokens and depths[d].

    A depth that is not a number stands for all of them.
    """
    column = (WIDTH - _LEFT) / len(lengths)
    height = _TOP + _ROW * len(depths) + _BOTTOM
    cells = [
        _cell(values[i][j], x=_LEFT + i * column, y=_TOP + j * _ROW, width=column,
              title=f"{length:,} tokens, depth {_depth(depth)}")
        for i, length in enumerate(lengths)
        for j, depth in enumerate(depths)
    ]  # fmt: skip
    return tag(
        "svg",
        tag("title", title),
        tag("text", "depth", x=_LEFT - 8, y=12, class_="axis-name end"),
        *cells,
        *_edges(lengths, depths, column),
        *_trained(sum(length <= trained for length in lengths), len(lengths), column, len(depths)),
        class_="chart", viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=title,
    )  # fmt: skip


def _cell(share: float, *, x: float, y: float, width: float, title: str) -> Markup:
    missing = not math.isfinite(share)
    step = 0 if missing else heat_step(share)
    box = tag(
        "rect", x=x + 1, y=y + 1, width=width - 2, height=_ROW - 2, rx=2,
        fill=None if missing else f"var(--heat-{step})", class_="missing" if missing else None,
    )  # fmt: skip
    words = tag(
        "text", DAGGER if missing else f"{100 * share:.0f}",
        x=x + width / 2, y=y + _ROW / 2 + 4, class_="cell middle",
        fill="var(--ink)" if missing else f"var(--heat-ink-{step})",
    )  # fmt: skip
    return tag("g", tag("title", f"{title}: {percent(share, 1)}"), box, words)


def _depth(depth: float) -> str:
    return f"{depth:.0%}" if math.isfinite(depth) else "any"


def _edges(lengths: Sequence[int], depths: Sequence[float], column: float) -> list[Markup]:
    bottom = _TOP + _ROW * len(depths)
    rows = [
        tag("text", _depth(depth), x=_LEFT - 8, y=_TOP + (j + 0.5) * _ROW + 4, class_="tick end")
        for j, depth in enumerate(depths)
    ]
    columns = [
        tag("text", str(length), x=_LEFT + (i + 0.5) * column, y=bottom + 15, class_="tick middle")
        for i, length in enumerate(lengths)
    ]
    middle = _LEFT + column * len(lengths) / 2
    name = tag("text", "tokens in the document", x=middle, y=bottom + 32, class_="axis-name middle")
    return [*rows, *columns, name]


def _trained(inside: int, total: int, column: float, rows: int) -> list[Markup]:
    if not 0 < inside < total:
        return []
    at = _LEFT + inside * column
    bottom = _TOP + _ROW * rows
    words = "longer than trained" if WIDTH - at > _WORDS else "longer"
    return [
        tag("line", x1=at, y1=_TOP - 14, x2=at, y2=bottom, class_="guide"),
        tag("text", words, x=at + 5, y=_TOP - 6, class_="note"),
    ]
