"""Heat maps: a share by length and depth, with the number in each cell."""

import math
from collections.abc import Mapping

from train.report.figures import Drawing, our_style
from train.report.formats import DAGGER, percent
from train.report.palette import colour, heat_step

MAP_WIDTH = 300
_LEFT = 44  # of the cells, for depths
_TOP = 22  # above the cells
_ROW = 26  # height of a cell
_BOTTOM = 38  # below the cells, for lengths
_WORDS = 112  # of "longer than trained"


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
            for index, length in enumerate(lengths):
                if (length, depth) in shares:
                    share = shares[length, depth]
                    tip = f"{length:,} tokens, depth {shown}: {percent(share, 1)}"
                    _cell(
                        drawing,
                        share,
                        x=_LEFT + index * column,
                        y=top,
                        width=column,
                        tip=tip,
                    )
        for index, length in enumerate(lengths):
            drawing.text(_LEFT + (index + 0.5) * column, bottom + 15, str(length), ha="center")
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
