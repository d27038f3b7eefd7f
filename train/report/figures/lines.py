"""A line chart with labels at the ends of the lines instead of a legend.

A value that is not finite breaks its line and leaves a dagger at the top. Lengths are on a log2
axis; values too are on a logarithmic one if the largest is `LOG_RATIO` times the smallest.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from train.report.figures import Drawing, our_style
from train.report.formats import DAGGER, amount, percent, rounded, short, tick
from train.report.palette import Style, colour

WIDTH, HEIGHT = 640, 310
LOG_RATIO = 10
_LEFT, _TOP, _BOTTOM = 52, 44, 44
_LETTER = 6.6  # pixels of an average letter of a label, rather too many
_LONGEST_LABEL = 24  # letters
_LABEL_SPACE = 14  # pixels between labels
_TICK_SPACE = 40  # pixels between ticks of an axis of lengths
_MOST_MARKS = 16  # with more points, marks would hide their line
_LARGEST, _SMALLEST = 1e300, 1e-300  # values beyond overflow when converted to pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: its points are in the order of x; values may be not finite."""

    label: str
    style: Style
    points: tuple[tuple[float, float], ...]
    bars: tuple[tuple[float, float, float], ...] = ()  # (x, low, high) of intervals
    joined: bool = True  # by a line

    @property
    def finite(self) -> list[tuple[float, float]]:
        return [point for point in self.points if drawable(point[1])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A labelled line across the plot at one value of x (a training length) or of y (chance)."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A chart.

    x_scale: log2 with ticks at the `lengths` or at `octaves`, or `linear`. guides are vertical,
    level is horizontal. write: formats values; `percent` gives an axis of shares, from 0 to 1.
    """

    name: str
    title: str
    series: Sequence[Series]
    x_name: str
    y_name: str
    x_scale: Literal["lengths", "octaves", "linear"] = "lengths"
    guides: Sequence[Guide] = ()
    level: Guide | None = None
    write: Callable[[float], str] = short

    def draw(self) -> Drawing:
        with our_style():
            drawing = Drawing(name=self.name, title=self.title, width=WIDTH, height=HEIGHT)
            longest = max((len(series.label) for series in self.series), default=0)
            right = WIDTH - 22 - _LETTER * min(longest, _LONGEST_LABEL)
            size = ((right - _LEFT) / WIDTH, (HEIGHT - _TOP - _BOTTOM) / HEIGHT)
            axes = drawing.figure.add_axes((_LEFT / WIDTH, _BOTTOM / HEIGHT, *size))
            self._x_axis(axes)
            log = self._y_axis(axes)
            y_name = f"{self.y_name} (log scale)" if log else self.y_name
            fitting = min(13.0, 1.7 * WIDTH / max(1, len(y_name)))
            drawing.text(0, 12, y_name, weight="bold", fontsize=fitting)
            middle = (_LEFT + right) / 2
            drawing.text(middle, HEIGHT - _BOTTOM + 36, self.x_name, role="muted", ha="center")
            for guide in self.guides:
                self._guide(drawing, axes, guide)
            for series in self.series:
                self._line(drawing, axes, series)
            self._daggers(drawing, axes)
            self._labels(drawing, axes, right)
        return drawing

    def _x_axis(self, axes: Axes) -> None:
        xs = [x for series in self.series for x, _ in series.points]
        xs = sorted({*xs, *(guide.at for guide in self.guides)} or {1.0})
        if self.x_scale == "linear":
            low, high = min(0.0, xs[0]), max(1.0, xs[-1])
            ticks = [mark for mark in round_ticks(low, high) if low <= mark <= high]
            axes.set_xlim(low, high)
        else:
            pad = max(xs[-1] / xs[0], 2.0) ** 0.06
            axes.set_xscale("log", base=2)
            axes.set_xlim(xs[0] / pad, xs[-1] * pad)
            ticks = xs
            if self.x_scale == "octaves":
                first, last = (math.log2(end) for end in axes.get_xlim())
                ticks = [2.0**n for n in range(math.ceil(first), math.floor(last) + 1)]
        ticks = _apart(ticks, [axes.transData.transform((at, 1.0))[0] for at in ticks])
        write = amount if self.x_scale == "linear" else "{:g}".format
        rule = {"length": 4, "width": 1, "color": colour("rule")}
        _set_ticks(axes.xaxis, ticks, map(write, ticks), **rule)

    def _y_axis(self, axes: Axes) -> bool:
        """Set the axis of values and return whether it is logarithmic."""
        ys = [y for series in self.series for _, y in series.finite]
        ys += [y for series in self.series for _, *ends in series.bars
               if all(map(drawable, ends)) for y in ends]  # fmt: skip
        shares = self.write is percent
        low, high = (0.0, 1.0) if shares else (min(ys, default=0.0), max(ys, default=1.0))
        log = not shares and low > 0 and high > low * LOG_RATIO
        marks = log_ticks(low, high) if log else round_ticks(low, high)
        if log:
            axes.set_yscale("log")
        axes.set_ylim(marks[0], marks[-1])
        written = map(percent if shares else tick, marks) if log or shares else rounded(marks)
        _set_ticks(axes.yaxis, marks, written, length=0, pad=8)
        axes.grid(axis="y", color=colour("grid"), linewidth=1)
        axes.set_axisbelow(True)
        axes.patch.set_visible(False)
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.spines["bottom"].set(color=colour("rule"), linewidth=1)
        if self.level and marks[0] <= self.level.at <= marks[-1]:
            self._level(axes, self.level, marks)
        return log

    def _level(self, axes: Axes, level: Guide, marks: Sequence[float]) -> None:
        axes.axhline(level.at, color=colour("muted"), linewidth=1.5, linestyle=(0, (1, 3)))
        places = axes.transData.transform([(1.0, mark) for mark in (level.at, *marks)])[:, 1]
        if all(abs(place - places[0]) > _LABEL_SPACE - 2 for place in places[1:]):
            axes.annotate(
                level.label, (0, level.at), (-8, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right", va="center", color=colour("muted"),
            )  # fmt: skip

    def _guide(self, drawing: Drawing, axes: Axes, guide: Guide) -> None:
        at = _place(drawing, axes, guide.at, axes.get_ylim()[0])[0]
        bounds = axes.get_position()
        late = at > (bounds.x0 + bounds.x1) / 2 * WIDTH
        drawing.line([at, at], [_TOP - 18, HEIGHT - _BOTTOM], role="ink")
        shift, side = (-5, "right") if late else (5, "left")
        drawing.text(at + shift, _TOP - 10, guide.label, role="muted", ha=side)

    def _line(self, drawing: Drawing, axes: Axes, series: Series) -> None:
        xs = [x for x, _ in series.points]
        ys = [y if drawable(y) else math.nan for _, y in series.points]
        dashes = "none" if not series.joined else (0, (5, 4)) if series.style.dashed else "solid"
        drawing.line(xs, ys, role=series.style.role, tip=series.label, linestyle=dashes,
                     linewidth=2.0, transform=axes.transData, solid_joinstyle="round")  # fmt: skip
        for x, low, high in series.bars:
            if drawable(low) and drawable(high):
                drawing.line([x, x], [low, high], role=series.style.role, transform=axes.transData)
        if len(series.points) <= _MOST_MARKS:
            for x, y in series.finite:
                tip = f"{series.label}, {x:,.0f} {self.x_name}: {self.write(y)}"
                drawing.mark(x, y, series.style, transform=axes.transData, tip=tip)

    def _daggers(self, drawing: Drawing, axes: Axes) -> None:
        stacked: Counter[float] = Counter()
        for series in self.series:
            for x in (x for x, y in series.points if not drawable(y)):
                at = _place(drawing, axes, x, axes.get_ylim()[0])[0]
                tip = f"{series.label}, {x:,.0f} {self.x_name}: no finite value"
                drawing.text(at, _TOP + 10 + 12 * stacked[x], DAGGER, role=series.style.role,
                             tip=tip, ha="center", fontsize=14, weight="bold")  # fmt: skip
                stacked[x] += 1

    def _labels(self, drawing: Drawing, axes: Axes, right: float) -> None:
        shown = [series for series in self.series if series.finite]
        ends = [(*_place(drawing, axes, *series.finite[-1]), series) for series in shown]
        ends.sort(key=lambda end: end[1])
        places = spread([y for _, y, _ in ends], low=_TOP, high=HEIGHT - _BOTTOM)
        for (x, y, series), place in zip(ends, places, strict=True):
            left = right + 12
            if abs(place - y) > 3 or left - x > 24:
                drawing.line([x + 5, left - 2], [y, place], role="rule")
            drawing.text(left, place + 4, shortened(series.label), role=series.style.role,
                         tip=series.label, weight="bold")  # fmt: skip


def drawable(value: float) -> bool:
    """Return whether a value is finite and small enough to be drawn."""
    return abs(value) <= _LARGEST


def round_ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers that enclose `low` and `high`."""
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size or size < _SMALLEST:  # indistinguishable in a figure
        pad = size * 0.1 if size >= _SMALLEST else 1.0
        low, high = low - pad, high + pad
    marks = list(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    slack = 1e-9 * (high - low)
    return _enclosing([float(f"{mark:.12g}") for mark in marks], low + slack, high - slack)


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers of several decades that enclose `low` and `high`."""
    low, high = max(low, _SMALLEST), max(high, _SMALLEST)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    units = (1, 2, 5) if last - first <= 4 else (1,)
    decades = range(first, last + 1, max(1, math.ceil((last - first) / 7)))
    marks = [unit * 10.0**decade for decade in decades for unit in units]
    return _enclosing(marks, low * (1 + 1e-9), high * (1 - 1e-9))


def _enclosing(marks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the marks from the last at or below `low` to the first at or above `high`."""
    first = max((mark for mark in marks if mark <= low), default=low)
    last = min((mark for mark in marks if mark >= high), default=high)
    return sorted({first, last, *(mark for mark in marks if first <= mark <= last)})


def _apart(ticks: Sequence[float], places: Sequence[float]) -> list[float]:
    """Return the ticks that have room, always with the last series."""
    kept: list[tuple[float, float]] = []
    for at, place in sorted(zip(ticks, places, strict=True), reverse=True):
        if not kept or kept[-1][1] - place >= _TICK_SPACE:
            kept.append((at, place))
    return [at for at, _ in reversed(kept)]


def _set_ticks(axis: Axis, ticks: Sequence[float], labels: Iterable[str], **look: Any) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter(list(labels)))
    axis.set_minor_locator(NullLocator())
    axis.set_tick_params(labelcolor=colour("ink"), labelsize=12, **look)


def _place(drawing: Drawing, axes: Axes, x: float, y: float) -> tuple[float, float]:
    return tuple((axes.transData + drawing.pixels.inverted()).transform((x, y)).tolist())


def shortened(label: str) -> str:
    """Return the label, cut if it would leave the figure; its tooltip has all of it."""
    cut = label[: _LONGEST_LABEL - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    return label if len(label) <= _LONGEST_LABEL else cut


def spread(places: Sequence[float], *, low: float, high: float) -> list[float]:
    """Return sorted places moved `_LABEL_SPACE` pixels apart, or less if low .. high is short."""
    if len(places) > 1 and (len(places) - 1) * _LABEL_SPACE > high - low:
        step = (high - low) / (len(places) - 1)
        return [low + index * step for index in range(len(places))]

    def start(group: Sequence[float]) -> float:
        """Return the start of a group centred on the mean of its wanted places."""
        span = (len(group) - 1) * _LABEL_SPACE
        return min(max(sum(group) / len(group) - span / 2, low), high - span)

    groups: list[list[float]] = []
    for place in places:
        group = [place]
        while groups and start(group) < start(groups[-1]) + len(groups[-1]) * _LABEL_SPACE:
            group = groups.pop() + group
        groups.append(group)
    return [start(group) + index * _LABEL_SPACE for group in groups for index in range(len(group))]
