"""Axes: where a value lands in pixels, and which ticks to draw.

Lengths run on a log2 axis with a tick at each measured length. Values run on a linear axis with
round ticks, or on a log10 axis once the largest is `LOG_RATIO` times the smallest, since a linear
axis would then press every good model onto the bottom line.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from train.report.formats import rounded, tick

LOG_RATIO = 10
_LARGEST, _SMALLEST = 1e300, 1e-300  # what is beyond them would overflow on the way to pixels
_TICK_SPACE = 40  # pixels between ticks of an axis of lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Maps low .. high onto start .. stop pixels; ticks are (value, label)."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.stop - self.start)


def drawable(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return abs(value) <= _LARGEST


def length_axis(
    lengths: Iterable[float], *, start: float, stop: float, octaves: bool = False
) -> Axis:
    """A log2 axis in tokens, a little wider than the lengths.

    Its ticks stand at the lengths, or with `octaves` at the powers of two among them.
    """
    ordered = sorted(set(lengths))
    low, high = ordered[0], ordered[-1]
    pad = max(high / low, 2.0) ** 0.06
    axis = Axis(low=low / pad, high=high * pad, start=start, stop=stop, ticks=(), log=True)
    if octaves:
        first, last = math.ceil(math.log2(axis.low)), math.floor(math.log2(axis.high))
        ordered = [2.0**power for power in range(first, last + 1)]
    kept: list[float] = []
    for length in reversed(ordered):  # the longest length always keeps its tick
        if not kept or abs(axis.at(kept[-1]) - axis.at(length)) >= _TICK_SPACE:
            kept.append(length)
    return replace(axis, ticks=tuple((length, f"{length:g}") for length in reversed(kept)))


def value_axis(
    values: Iterable[float],
    *,
    start: float,
    stop: float,
    limits: tuple[float, float] | None = None,
    write: Callable[[float], str] | None = None,
) -> Axis:
    """An axis that holds all the values, linear unless their ratio exceeds LOG_RATIO.

    Given `limits`, the axis is linear and runs from one to the other exactly.
    """
    ordered = sorted(values) or [0.0, 1.0]
    low, high = limits or (ordered[0], ordered[-1])
    if limits is None and low > 0 and high > low * LOG_RATIO:
        return _log_axis(low, high, start=start, stop=stop)
    marks = round_ticks(low, high)
    if limits is None:
        low, high = marks[0], marks[-1]
    marks = [mark for mark in marks if low <= mark <= high]
    labels = map(write, marks) if write else rounded(marks)
    ticks = tuple(zip(marks, labels, strict=True))
    return Axis(low=low, high=high, start=start, stop=stop, ticks=ticks)


def round_ticks(low: float, high: float, *, wanted: int = 5) -> list[float]:
    """About `wanted` round numbers, the first at or below `low`, the last at or above `high`."""
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size or size < _SMALLEST:  # one value, as far as a figure can show
        pad = size * 0.1 if size >= _SMALLEST else 1.0
        low, high = low - pad, high + pad
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def _log_axis(low: float, high: float, *, start: float, stop: float) -> Axis:
    low, high = max(low, _SMALLEST), max(high, _SMALLEST)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    units: Sequence[int] = (1, 2, 5) if len(decades) <= 4 else (1,)
    stride = max(1, math.ceil(len(decades) / 7))
    marks = [unit * 10.0**decade for decade in decades[::stride] for unit in units]
    bottom = max((mark for mark in marks if mark <= low), default=low)
    top = min((mark for mark in marks if mark >= high), default=high)
    ticks = tuple((mark, tick(mark)) for mark in marks if bottom <= mark <= top)
    return Axis(low=bottom, high=top, start=start, stop=stop, ticks=ticks, log=True)
