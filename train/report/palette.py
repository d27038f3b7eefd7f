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
# From 0 to 1: light and dark cell, then the ink that contrasts with each. Inks look the same but
# have different values, so that each is of one role.
_HEAT = (
    ("#f1f5f4", "#20292b", "#0d161f", "#ffffff"),
    ("#d9e4e2", "#2b3c3c", "#0d161e", "#ffffff"),
    ("#c1d3cf", "#36504c", "#0d161d", "#ffffff"),
    ("#a9c1bd", "#41635c", "#0d161c", "#ffffff"),
    ("#91b0aa", "#4c766d", "#0d161b", "#ffffff"),
    ("#789f98", "#588a7e", "#0d161a", "#0d1614"),
    ("#608e86", "#639d8e", "#0d1619", "#0d1614"),
    ("#487d73", "#6eb09e", "#fffff8", "#0d1614"),
    ("#306b61", "#79c3af", "#fffff7", "#0d1614"),
    ("#185a4e", "#84d7c0", "#fffff6", "#0d1614"),
    ("#00493c", "#8fead0", "#fffff5", "#0d1614"),
)
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


COLOURS = _BASE | {
    f"heat-{part}{step}": (row[at], row[at + 1])
    for step, row in enumerate(_HEAT)
    for part, at in (("", 0), ("ink-", 2))
}


def colour(role: str) -> str:
    return COLOURS[role][0]
