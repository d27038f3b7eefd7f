"""Colours and marks: how each model looks, on the page and on paper.

A family of encodings has one hue; its flat form is dashed with hollow marks, its bilevel form
solid with filled marks. Hues follow Okabe and Ito (2008, https://jfly.uni-koeln.de/color/),
darkened on white and lightened on black until they can be read as text. Figures are drawn in light
values, each of one role only, so that it can be replaced by the role's CSS variable.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HUES = 6
HEAT_STEPS = 10
_BASE = {
    "paper": ("#ffffff", "#14181c"),
    "ink": ("#1a1f26", "#e7eaed"),
    "muted": ("#59636f", "#9ba6b2"),
    "rule": ("#b9c0c8", "#515b66"),
    "grid": ("#e6e9ed", "#272e36"),
    "panel": ("#f5f6f8", "#1c2127"),
    "bar": ("#8b95a1", "#77828f"),
    "tint-0": ("#d5ebe5", "#1d4038"),
    "tint-1": ("#f4ead4", "#453a20"),
    # contrast with the paper at least 4.5 : 1
    "hue-0": ("#0067a5", "#63b7ec"),  # blue
    "hue-1": ("#bf4a00", "#f2935a"),  # vermilion
    "hue-2": ("#00755a", "#35c49f"),  # bluish green
    "hue-3": ("#96407f", "#e3a0cb"),  # reddish purple
    "hue-4": ("#866000", "#e3b448"),  # yellow, darkened
    "hue-5": ("#4f5966", "#b3bcc7"),  # grey
}
_HEAT = (("#f1f5f4", "#00493c"), ("#20292b", "#8fead0"))  # from 0 to 1: light theme, dark theme
_INKS = ("#ffffff", "#0d1614")
_FIRST_HUES = {"rope": 0, "alibi": 1, "nope": 2, "learned": 3, "sinusoidal": 4}
SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The look of one model, in every figure and next to its name in every table."""

    hue: int
    dashed: bool = False
    shape: str = "circle"

    @property
    def role(self) -> str:
        return f"hue-{self.hue}"


def styles(models: Sequence[tuple[str, str, bool]]) -> dict[str, Style]:
    """Return the style of each model, given as (label, family, whether it is bilevel)."""
    families = [family.lower() for _, family, _ in models]
    alike = Counter(zip(families, (bilevel for *_, bilevel in models), strict=True))
    if max(alike.values(), default=0) > len(SHAPES):
        families = [label for label, *_ in models]  # many forms of one encoding: a hue each
    hues = {name: _FIRST_HUES[name] for name in families if name in _FIRST_HUES}
    free = [hue for hue in range(HUES) if hue not in hues.values()] or list(range(HUES))
    strangers = dict.fromkeys(name for name in families if name not in hues)
    hues |= {name: free[place % len(free)] for place, name in enumerate(strangers)}
    seen: Counter[tuple[int, bool]] = Counter()
    chosen = {}
    for family, (label, _, bilevel) in zip(families, models, strict=True):
        look = (hues[family], not bilevel)
        shape = SHAPES[seen[look] % len(SHAPES)]
        seen[look] += 1
        chosen[label] = Style(hue=look[0], dashed=look[1], shape=shape)
    return chosen


def ordered_styles(names: Sequence[str]) -> dict[str, Style]:
    """Return a style for each name that is not a model: another hue each, then another shape."""
    return {
        name: Style(hue=place % HUES, shape=SHAPES[place // HUES % len(SHAPES)])
        for place, name in enumerate(dict.fromkeys(names))
    }


def heat_step(share: float) -> int:
    """Return the step of the heat scale for a share, clamped to 0 .. 1."""
    return round(HEAT_STEPS * min(1.0, max(0.0, share)))


def contrast(colour: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2 between two colours, from 1 to 21."""
    dim, bright = sorted((_luminance(colour), _luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    levels = [level / 255 for level in bytes.fromhex(colour[1:])]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mix(low: str, high: str, share: float) -> str:
    pairs = zip(bytes.fromhex(low[1:]), bytes.fromhex(high[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _heat() -> dict[str, tuple[str, str]]:
    made = {}
    for step in range(HEAT_STEPS + 1):
        light, dark = (_mix(*ends, step / HEAT_STEPS) for ends in _HEAT)
        inks = [max(_INKS, key=lambda ink: contrast(ink, cell)) for cell in (light, dark)]
        made[f"heat-{step}"] = (light, dark)
        # Inks that look the same but have different values: the last digit counts the steps.
        made[f"heat-ink-{step}"] = (f"{inks[0][:-1]}{'fedcba98765'[step]}", inks[1])
    return made


COLOURS = _BASE | _heat()


def colour(role: str) -> str:
    return COLOURS[role][0]
