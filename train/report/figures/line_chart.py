"""A line chart with its labels at the ends of the lines, and no legend.

A value that is not finite breaks its line and leaves a dagger at the top of the plot. Vertical
guides mark lengths that matter (the training length), a horizontal one a level (chance).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from train.report.figures.axes import Axis, drawable, length_axis, value_axis
from train.report.formats import DAGGER, amount, short
from train.report.markup import Markup, tag
from train.report.palette import Style, mark

WIDTH, HEIGHT = 640, 310
_LEFT, _TOP, _BOTTOM = 52, 44, 44
_LETTER = 6.6  # pixels of an average letter at the labels' size, an estimate on the wide side
_LONGEST_LABEL = 24  # letters
_LABEL_SPACE = 14  # pixels between labels
_MOST_MARKS = 16  # points of a line beyond which marks would hide it


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: its points run in the order of x and may hold values that are not finite."""

    label: str
    style: Style
    points: tuple[tuple[float, float], ...]
    bars: tuple[tuple[float, float, float], ...] = ()  # (x, low, high) of intervals

    @property
    def finite(self) -> list[tuple[float, float]]:
        return [point for point in self.points if drawable(point[1])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A labelled line across the plot at one value of x or of y."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    x: Axis
    y: Axis
    x_name: str
    write: Callable[[float], str]


def line_chart(
    *,
    title: str,
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    x_scale: Literal["lengths", "octaves", "linear"] = "lengths",
    guides: Sequence[Guide] = (),
    level: Guide | None = None,
    limits: tuple[float, float] | None = None,
    write: Callable[[float], str] = short,
    write_tick: Callable[[float], str] | None = None,
) -> Markup:
    """The chart as one SVG element.

    x is on a log2 axis with ticks at the `lengths` or at `octaves`, or linear. `guides` are
    vertical, `level` is horizontal; `limits` fixes the y axis, `write` and `write_tick` format
    its values and ticks.
    """
    x = _x_axis(series, guides, x_scale)
    ys = [y for one in series for _, y in one.finite]
    ys += [y for one in series for _, *ends in one.bars if all(map(drawable, ends)) for y in ends]
    y = value_axis(ys, start=HEIGHT - _BOTTOM, stop=_TOP, limits=limits, write=write_tick)
    plot = _Plot(x=x, y=y, x_name=x_name, write=write)
    scale = " (log scale)" if plot.y.log else ""
    return tag(
        "svg",
        tag("title", title),
        tag("text", y_name + scale, x=0, y=12, class_="figure-name"),
        *_grid(plot, level),
        *(_guide(plot, guide) for guide in guides),
        *(_line(plot, one) for one in series),
        *_daggers(plot, series),
        *_labels(plot, series),
        class_="chart", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title,
    )  # fmt: skip


def _x_axis(series: Sequence[Series], guides: Sequence[Guide], x_scale: str) -> Axis:
    longest = max((len(one.label) for one in series), default=0)
    right = WIDTH - 22 - _LETTER * min(longest, _LONGEST_LABEL)
    xs = [x for one in series for x, _ in one.points] + [guide.at for guide in guides] or [1.0]
    if x_scale == "linear":
        ends = (min(0.0, *xs), max(1.0, *xs))
        return value_axis(xs, start=_LEFT, stop=right, limits=ends, write=amount)
    return length_axis(xs, start=_LEFT, stop=right, octaves=x_scale == "octaves")


def _grid(plot: _Plot, level: Guide | None) -> list[Markup]:
    x, y = plot.x, plot.y
    parts = []
    for value, label in y.ticks:
        at = y.at(value)
        parts.append(tag("line", x1=x.start, y1=at, x2=x.stop, y2=at, class_="grid"))
        parts.append(tag("text", label, x=x.start - 8, y=at + 4, class_="tick end"))
    for value, label in x.ticks:
        at = x.at(value)
        parts.append(tag("line", x1=at, y1=y.start, x2=at, y2=y.start + 4, class_="rule"))
        parts.append(tag("text", label, x=at, y=y.start + 17, class_="tick middle"))
    parts.append(tag("line", x1=x.start, y1=y.start, x2=x.stop, y2=y.start, class_="rule"))
    middle = (x.start + x.stop) / 2
    parts.append(tag("text", plot.x_name, x=middle, y=y.start + 36, class_="axis-name middle"))
    if level and y.low <= level.at <= y.high:
        at = y.at(level.at)
        parts.append(tag("line", x1=x.start, y1=at, x2=x.stop, y2=at, class_="level"))
        if all(abs(y.at(value) - at) > _LABEL_SPACE - 2 for value, _ in y.ticks):
            parts.append(tag("text", level.label, x=x.start - 8, y=at + 4, class_="note end"))
    return parts


def _guide(plot: _Plot, guide: Guide) -> Markup:
    at = plot.x.at(guide.at)
    anchor, shift = ("end", -5.0) if at > (plot.x.start + plot.x.stop) / 2 else ("start", 5.0)
    return tag(
        "g",
        tag("line", x1=at, y1=plot.y.stop - 18, x2=at, y2=plot.y.start, class_="guide"),
        tag("text", guide.label, x=at + shift, y=plot.y.stop - 10, class_=f"note {anchor}"),
    )


def _line(plot: _Plot, series: Series) -> Markup:
    style = series.style
    path, pen = [], "M"
    for x, y in series.points:
        if drawable(y):
            path.append(f"{pen}{plot.x.at(x):.1f} {plot.y.at(y):.1f}")
        pen = "L" if drawable(y) else "M"
    parts = [
        tag(
            "path", tag("title", series.label), d=" ".join(path), fill="none",
            stroke=style.colour, stroke_width=2, stroke_dasharray=style.dashes,
        )
    ]  # fmt: skip
    if len(series.points) <= _MOST_MARKS:
        parts += [
            mark(style, plot.x.at(x), plot.y.at(y), title=_tooltip(plot, series, x, y))
            for x, y in series.finite
        ]
    parts += [_bar(plot, style, *bar) for bar in series.bars if all(map(drawable, bar))]
    return tag("g", *parts, class_="series")


def _bar(plot: _Plot, style: Style, x: float, low: float, high: float) -> Markup:
    at, bottom, top = plot.x.at(x), plot.y.at(low), plot.y.at(high)
    return tag("line", x1=at, y1=bottom, x2=at, y2=top, stroke=style.colour, stroke_width=1)


def _tooltip(plot: _Plot, series: Series, x: float, y: float) -> str:
    return f"{series.label}, {x:,.0f} {plot.x_name}: {plot.write(y)}"


def _daggers(plot: _Plot, series: Sequence[Series]) -> list[Markup]:
    stacked: dict[float, int] = {}
    parts = []
    for one in series:
        for x, y in one.points:
            if not drawable(y):
                row = stacked[x] = stacked.get(x, -1) + 1
                title = tag("title", f"{one.label}, {x:,.0f} {plot.x_name}: no finite value")
                parts.append(
                    tag(
                        "text", title, DAGGER, x=plot.x.at(x), y=plot.y.stop + 10 + 12 * row,
                        fill=one.style.colour, class_="dagger middle",
                    )
                )  # fmt: skip
    return parts


def _labels(plot: _Plot, series: Sequence[Series]) -> list[Markup]:
    ends = sorted(
        (
            (plot.y.at(one.finite[-1][1]), plot.x.at(one.finite[-1][0]), one)
            for one in series
            if one.finite
        ),
        key=lambda end: end[0],
    )
    places = spread([y for y, _, _ in ends], low=plot.y.stop, high=plot.y.start)
    parts = []
    for (y, x, one), place in zip(ends, places, strict=True):
        left = plot.x.stop + 12
        if abs(place - y) > 3 or left - x > 24:
            parts.append(
                tag("path", d=f"M{x + 5:.1f} {y:.1f} L{left - 2:.1f} {place:.1f}", class_="leader")
            )
        parts.append(
            tag(
                "text", tag("title", one.label), shortened(one.label), x=left, y=place + 4,
                fill=one.style.colour, class_="name",
            )
        )  # fmt: skip
    return parts


def shortened(label: str) -> str:
    """The label, cut where it would leave the figure; the whole of it stays in the tooltip."""
    if len(label) <= _LONGEST_LABEL:
        return label
    return label[: _LONGEST_LABEL - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def spread(places: Sequence[float], *, low: float, high: float) -> list[float]:
    """Sorted places, moved apart to `_LABEL_SPACE` pixels inside low .. high as little as possible.

    Where they cannot all fit, they share the room evenly.
    """
    if len(places) > 1 and (len(places) - 1) * _LABEL_SPACE > high - low:
        step = (high - low) / (len(places) - 1)
        return [low + index * step for index in range(len(places))]
    # Each group of touching labels sits around the mean of the places it was asked for.
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _start(groups[-1], low, high) < (
            _start(groups[-2], low, high) + len(groups[-2]) * _LABEL_SPACE
        ):
            last = groups.pop()
            groups[-1] += last
    return [
        _start(group, low, high) + index * _LABEL_SPACE
        for group in groups
        for index in range(len(group))
    ]


def _start(group: Sequence[float], low: float, high: float) -> float:
    span = (len(group) - 1) * _LABEL_SPACE
    return min(max(sum(group) / len(group) - span / 2, low), high - span)
