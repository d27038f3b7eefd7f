"""The ids of a sentence and the curves of an encoding as one figure, for --svg and --pdf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from train.commands.explain.curves import Curve
from train.commands.explain.parts import Part, ids_read
from train.commands.explain.text import Cut, samples
from train.report.figures import Drawing, our_style
from train.report.palette import colour, ordered_styles

WIDTH = 760
_LEFT, _RIGHT, _TOP = 70, 110, 40
_ROW, _LETTER, _PAD = 20, 7.2, 10  # pixels: of a line of ids, of a letter, around a word
_PANEL, _HEAD, _FOOT = 230, 44, 46  # a curve, and what is above and below its axes


def picture(title: str, parts: Sequence[Part], curves: Iterable[Curve]) -> Drawing:
    """Draw the ids of short texts and, below, a panel for each curve."""
    names = ids_read(parts)
    drawn, cuts, tall = list(curves), list(samples(names)), (len(names) + 1) * _ROW + 30
    read = {name for each in parts for name in each.ids}
    below = _TOP + tall * len(cuts)
    with our_style():
        made = Drawing(name="encoding", title=title, width=WIDTH,
                       height=below + _PANEL * len(drawn))  # fmt: skip
        made.text(0, 18, title, weight="bold", fontsize=15)
        for place, cut in enumerate(cuts):
            _ids(made, cut, read, top=_TOP + place * tall)
        for place, curve in enumerate(drawn):
            _panel(made, curve, top=below + place * _PANEL)
    return made


def _ids(made: Drawing, cut: Cut, read: set[str], *, top: float) -> None:
    for line, name in enumerate((cut.level, *cut.ids)):
        role = "ink" if name in read else "muted"
        weight = "bold" if name in read else "normal"
        made.text(0, top + line * _ROW + 15, name, role=role, weight=weight)
    left = float(_LEFT + 20)
    for place, word in enumerate(cut.words):
        width = _LETTER * len(word) + _PAD
        tint = f"tint-{cut.ids['inter'][place] % 2}"
        made.box((left, top), (width - 1, (len(cut.ids) + 1) * _ROW), role=tint)
        cells = (word, *(str(each[place]) for each in cut.ids.values()))
        for line, cell in enumerate(cells):
            made.text(left + width / 2, top + line * _ROW + 15, cell, ha="center")
        left += width


def _panel(made: Drawing, curve: Curve, *, top: float) -> None:
    height = made.height
    tall = _PANEL - _HEAD - _FOOT
    axes = made.figure.add_axes(
        (_LEFT / WIDTH, 1 - (top + _HEAD + tall) / height,
         (WIDTH - _LEFT - _RIGHT) / WIDTH, tall / height)
    )  # fmt: skip
    made.text(0, top + 20, curve.title, weight="bold")
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    made.text(middle, top + _HEAD + tall + 36, curve.unit, role="muted", ha="center")
    _look(axes, curve)
    looks = ordered_styles(list(curve.heads))
    for place, (name, row) in enumerate(curve.heads.items()):
        role = looks[name].role
        made.line(range(len(row)), row, role=role, tip=name, linewidth=1.8,
                  transform=axes.transData)  # fmt: skip
        made.text(WIDTH - _RIGHT + 14, top + _HEAD + 14 + 18 * place, name, role=role,
                  weight="bold")  # fmt: skip


def _look(axes: Axes, curve: Curve) -> None:
    low, high = curve.bounds
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_xlim(0, max(1, curve.farthest))
    axes.set_ylim(low - pad, high + pad)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(labelcolor=colour("ink"), color=colour("rule"), labelsize=11)
    axes.grid(axis="y", color=colour("grid"), linewidth=1)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set(color=colour("rule"), linewidth=1)
