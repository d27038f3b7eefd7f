"""Number formats for people: few digits. CSV and JSON hold the numbers as measured."""

import math
from collections.abc import Iterable, Sequence

DAGGER = "\N{DAGGER}"
DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


def short(value: float) -> str:
    """Return about three significant digits; a dagger if the value is not finite."""
    if not math.isfinite(value):
        return DAGGER
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{decimals}f}"


def tick(value: float) -> str:
    """Return a round number without superfluous zeros."""
    return f"{value:,.10g}" if 1e-3 <= abs(value) < 1e6 or not value else short(value)


def rounded(values: Sequence[float]) -> list[str]:
    """Return numbers of one scale, all with as many decimals as the longest of them needs."""
    labels = [tick(value) for value in values]
    decimals = max((len(label.partition(".")[2]) for label in labels), default=0)
    whole = any("e" in label for label in labels)
    return labels if whole else [f"{value:,.{decimals}f}" for value in values]


def times(ratio: float) -> str:
    shown = fixed(ratio, 2) if ratio < 10 else short(ratio)
    return shown if shown == DAGGER else TIMES + shown


def fixed(value: float, decimals: int = 3) -> str:
    """Return a fixed number of decimals; a dagger if the value is not finite."""
    return f"{value:,.{decimals}f}" if math.isfinite(value) else DAGGER


def percent(value: float, decimals: int = 0) -> str:
    """Return a share as a percentage; a dagger if the value is not finite."""
    return f"{100 * value:.{decimals}f}%" if math.isfinite(value) else DAGGER


def change(ratio: float) -> str:
    """Return a ratio as a signed percentage: 0.9 -> -10.0%."""
    if not math.isfinite(ratio):
        return DAGGER
    if ratio >= 10:
        return f"{TIMES}{short(ratio)}"
    points = round(100 * (ratio - 1), 1)
    sign = "+" if points > 0 else MINUS if points < 0 else ""
    return f"{sign}{abs(points):.1f}%"


def count(value: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,.0f}" if math.isfinite(value) else DAGGER


def amount(value: float) -> str:
    """Return a large count with a unit: 1.5 M, 320 k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and unit != "k"):
            scaled = value / size
            return f"{scaled:.0f}{SPACE}{unit}" if scaled >= 100 else f"{scaled:.3g}{SPACE}{unit}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return seconds, minutes or hours, whichever is easiest to read."""
    if not math.isfinite(seconds):
        return DAGGER
    if seconds < 120:
        return f"{seconds:.0f}{SPACE}s"
    return f"{seconds / 60:.0f}{SPACE}min" if seconds < 7200 else f"{seconds / 3600:.1f}{SPACE}h"


def spread(values: Iterable[float], write=amount) -> str:
    """Return one text if all values are written alike, else the smallest to the largest."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return DAGGER
    low, high = write(ordered[0]), write(ordered[-1])
    return low if low == high else f"{low} to {high}"


def have(names: Sequence[str], one: str = "has", many: str = "have") -> str:
    return f"{listed(names)} {one if len(names) == 1 else many}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(words: Iterable[str]) -> str:
    """Return words as an English list: a, b and c."""
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
