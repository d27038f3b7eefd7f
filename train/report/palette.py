"""Colours and marks: which model looks how.

A family of encodings has one hue; its flat form is dashed with hollow marks, its bilevel form
solid with filled marks. Runs that would still look alike (several seeds, say) differ in the shape
of their marks. Hues follow Okabe and Ito (2008, https://jfly.uni-koeln.de/color/), darkened on
white and lightened on black until they can be read as text; labels and marks never rest on colour
alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from train.report.markup import Markup, tag
from train.report.records import Run

# (light theme, dark theme), each at least 4.5 : 1 against its paper
HUES = (
    ("#0067a5", "#63b7ec"),  # blue
    ("#bf4a00", "#f2935a"),  # vermilion
    ("#00755a", "#35c49f"),  # bluish green
    ("#96407f", "#e3a0cb"),  # reddish purple
    ("#866000", "#e3b448"),  # yellow, darkened
    ("#4f5966", "#b3bcc7"),  # grey
)
HEAT_STEPS = 10
_HEAT = (("#f1f5f4", "#00493c"), ("#20292b", "#8fead0"))  # from 0 to 1: light theme, dark theme
_INKS = ("#ffffff", "#0d1614")
_FIRST_HUES = {"rope": 0, "alibi": 1, "nope": 2, "learned": 3, "sinusoidal": 4}
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one run is drawn, in every figure and beside its name in every table."""

    hue: int
    dashed: bool
    shape: str

    @property
    def colour(self) -> str:
        return f"var(--hue-{self.hue})"

    @property
    def dashes(self) -> str | None:
        return "5 4" if self.dashed else None


def styles(runs: Sequence[Run]) -> dict[str, Style]:
    """The style of each run, by its label."""
    families = [run.model.family.lower() for run in runs]
    alike = Counter((family, run.model.levels) for family, run in zip(families, runs, strict=True))
    if max(alike.values(), default=0) > len(_SHAPES):
        # One encoding in many forms: colours tell the forms apart.
        families = [run.label for run in runs]
    hues = _hues(families)
    seen: Counter[tuple[int, bool]] = Counter()
    chosen = {}
    for family, run in zip(families, runs, strict=True):
        look = (hues[family], run.model.levels == "flat")
        shape = _SHAPES[seen[look] % len(_SHAPES)]
        seen[look] += 1
        chosen[run.label] = Style(hue=look[0], dashed=look[1], shape=shape)
    return chosen


def mark(style: Style, x: float, y: float, *, title: str | None = None) -> Markup:
    """One data point: hollow for flat encodings, filled for bilevel ones."""
    tooltip = [tag("title", title)] if title else []
    look: dict[str, str | float] = {
        "fill": "var(--paper)" if style.dashed else style.colour,
        "stroke": style.colour,
        "stroke_width": 1.5,
    }
    if style.shape == "circle":
        return tag("circle", *tooltip, cx=x, cy=y, r=3.2, **look)
    corners = {
        "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "diamond": ((0, -4.2), (4.2, 0), (0, 4.2), (-4.2, 0)),
        "triangle": ((0, -4), (4, 3.2), (-4, 3.2)),
    }[style.shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return tag("polygon", *tooltip, points=points, **look)


def swatch(style: Style) -> Markup:
    """A short piece of the run's line, to stand beside its name."""
    line = tag(
        "line", x1=1, y1=6, x2=25, y2=6,
        stroke=style.colour, stroke_width=2, stroke_dasharray=style.dashes,
    )  # fmt: skip
    return tag(
        "svg", line, mark(style, 13, 6),
        class_="swatch", viewBox="0 0 26 12", width=26, height=12, aria_hidden="true",
    )  # fmt: skip


def heat_step(share: float) -> int:
    """The step of the heat scale for a share; shares outside 0 .. 1 take the nearest end."""
    return round(HEAT_STEPS * min(1.0, max(0.0, share)))


def colour_variables(*, dark: bool) -> str:
    """The CSS custom properties of all hues and heat steps for one theme."""
    lines = [f"--hue-{i}: {pair[dark]};" for i, pair in enumerate(HUES)]
    low, high = _HEAT[dark]
    for step in range(HEAT_STEPS + 1):
        cell = _mix(low, high, step / HEAT_STEPS)
        lines.append(f"--heat-{step}: {cell}; --heat-ink-{step}: {max(_INKS, key=contrast(cell))};")
    return " ".join(lines)


def contrast(colour: str) -> Callable[[str], float]:
    """The contrast ratio of WCAG 2 between `colour` and another, from 1 to 21."""

    def between(other: str) -> float:
        dim, bright = sorted((_luminance(colour), _luminance(other)))
        return (bright + 0.05) / (dim + 0.05)

    return between


def _luminance(colour: str) -> float:
    levels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hues(families: Sequence[str]) -> dict[str, int]:
    hues = {name: _FIRST_HUES[name] for name in families if name in _FIRST_HUES}
    free = [hue for hue in range(len(HUES)) if hue not in hues.values()] or list(range(len(HUES)))
    strangers = [name for name in dict.fromkeys(families) if name not in hues]
    return hues | {name: free[i % len(free)] for i, name in enumerate(strangers)}


def _mix(low: str, high: str, share: float) -> str:
    pairs = ((int(low[i : i + 2], 16), int(high[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
