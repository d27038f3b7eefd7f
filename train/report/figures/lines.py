"""A line chart with labels at the ends of the lines instead of a legend.

A value that is not finite breaks its line and leaves a dagger at the top. Lengths are on a log2
axis; values too are on a logarithmic one if the largest is `LOG_RATIO` times the smallest.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from train.report.figures import Drawing, our_style
from train.report.formats import DAGGER, amount, percent, rounded, short, tick
from train.report.palette import Style, colour

WIDTH, NARROW, HEIGHT = 640, 400, 310
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
    width: in pixels; a drawing of the usual width has a narrow one beside it.
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
    width: int = WIDTH

    def draw(self) -> Drawing:
        with our_style():
            made = Drawing(name=self.name, title=self.title, width=self.width, height=HEIGHT)
            longest = max((len(one.label) for one in self.series), default=0)
            right = self.width - 22 - _LETTER * min(longest, _LONGEST_LABEL)
            size = ((right - _LEFT) / self.width, (HEIGHT - _TOP - _BOTTOM) / HEIGHT)
            axes = made.figure.add_axes((_LEFT / self.width, _BOTTOM / HEIGHT, *size))
            self._x_axis(axes)
            log = self._y_axis(axes)
            y_name = f"{self.y_name} (log scale)" if log else self.y_name
            fitting = min(13.0, 1.7 * self.width / max(1, len(y_name)))
            made.text(0, 12, y_name, weight="bold", fontsize=fitting)
            middle = (_LEFT + right) / 2
            made.text(middle, HEIGHT - _BOTTOM + 36, self.x_name, role="muted", ha="center")
            for guide in self.guides:
                self._guide(made, axes, guide)
            for one in self.series:
                self._line(made, axes, one)
            self._daggers(made, axes)
            self._labels(made, axes, right)
        if self.width > NARROW:
            made.narrow = replace(self, width=NARROW).draw()
        return made

    def _x_axis(self, axes: Axes) -> None:
        xs = [x for one in self.series for x, _ in one.points]
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
        ys = [y for one in self.series for _, y in one.finite]
        ys += [y for one in self.series for _, *ends in one.bars
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

    def _guide(self, made: Drawing, axes: Axes, guide: Guide) -> None:
        at = _place(made, axes, guide.at, axes.get_ylim()[0])[0]
        bounds = axes.get_position()
        late = at > (bounds.x0 + bounds.x1) / 2 * self.width
        made.line([at, at], [_TOP - 18, HEIGHT - _BOTTOM], role="ink")
        shift, side = (-5, "right") if late else (5, "left")
        made.text(at + shift, _TOP - 10, guide.label, role="muted", ha=side)

    def _line(self, made: Drawing, axes: Axes, one: Series) -> None:
        xs, ys = [x for x, _ in one.points], [y if drawable(y) else math.nan for _, y in one.points]
        dashes = (0, (5, 4)) if one.style.dashed else "solid"
        made.line(xs, ys, role=one.style.role, tip=one.label, linestyle=dashes, linewidth=2.0,
                  transform=axes.transData, solid_joinstyle="round")  # fmt: skip
        for x, low, high in one.bars:
            if drawable(low) and drawable(high):
                made.line([x, x], [low, high], role=one.style.role, transform=axes.transData)
        if len(one.points) <= _MOST_MARKS:
            for x, y in one.finite:
                tip = f"{one.label}, {x:,.0f} {self.x_name}: {self.write(y)}"
                made.mark(x, y, one.style, transform=axes.transData, tip=tip)

    def _daggers(self, made: Drawing, axes: Axes) -> None:
        stacked: Counter[float] = Counter()
        for one in self.series:
            for x in (x for x, y in one.points if not drawable(y)):
                at = _place(made, axes, x, axes.get_ylim()[0])[0]
                tip = f"{one.label}, {x:,.0f} {self.x_name}: no finite value"
                made.text(at, _TOP + 10 + 12 * stacked[x], DAGGER, role=one.style.role, tip=tip,
                          ha="center", fontsize=14, weight="bold")  # fmt: skip
                stacked[x] += 1

    def _labels(self, made: Drawing, axes: Axes, right: float) -> None:
        ends = sorted(
            ((*_place(made, axes, *one.finite[-1]), one) for one in self.series if one.finite),
            key=lambda end: end[1],
        )
        places = spread([y for _, y, _ in ends], low=_TOP, high=HEIGHT - _BOTTOM)
        for (x, y, one), place in zip(ends, places, strict=True):
            left = right + 12
            if abs(place - y) > 3 or left - x > 24:
                made.line([x + 5, left - 2], [y, place], role="rule")
            made.text(left, place + 4, shortened(one.label), role=one.style.role, tip=one.label,
                      weight="bold")  # fmt: skip


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
    """Return the ticks that have room, always with the last one."""
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


def _place(made: Drawing, axes: Axes, x: float, y: float) -> tuple[float, float]:
    return tuple((axes.transData + made.pixels.inverted()).transform((x, y)).tolist())


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
