"""The numbers of `bipe segment` for reading: of one document, and of many in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from segmenters.show import CutText, visible
from segmenters.show.page import percent

_BAR, _EIGHTHS = 40, " \u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One document of a table; `units` are tokens, or words without a tokenizer."""

    name: str
    label: str
    note: str
    segments: int
    characters: int
    units: int
    unit: str

    @classmethod
    def of(cls, cut: CutText, *, label: str) -> Row:
        known = cut.tokens is not None
        units = int(cut.tokens.sum()) if cut.tokens is not None else len(cut.text.split())
        return cls(
            name=cut.name,
            label=label,
            note=cut.note,
            segments=len(cut.cuts) - 1,
            characters=len(cut.text),
            units=units,
            unit="tokens" if known else "words",
        )


def table(cut: CutText, facts: dict[str, Any]) -> str:
    """The statistics of one document."""
    lines = [
        f"{cut.name}: {facts['segments']} segments in {facts[cut.level]} {cut.level}; {cut.note}"
    ]
    units = ("tokens", "words", "characters") if cut.tokens is not None else ("words", "characters")
    if facts["segments"]:
        lines += [_lengths(facts, unit) for unit in units]
        shares = (f"of one {unit[:-1]} {facts[f'share_of_one_{unit[:-1]}']:.1%}" for unit in units)
        lines.append(f"segments {', '.join(shares)}")
        if facts.get("segments_without_token"):
            lines.append(f"segments without a token: {facts['segments_without_token']}")
        lines += _histogram(facts[f"histogram_of_{units[0]}"], units[0])
        lines += _separators(facts)
    return "\n".join(map(visible, lines)) + "\n"


def _lengths(facts: dict[str, Any], unit: str) -> str:
    lengths = "  ".join(f"{key} {value:g}" for key, value in facts[unit].items())
    return f"{unit} a segment: {lengths}"


def _histogram(histogram: dict[str, int], unit: str) -> list[str]:
    most = max(1, *histogram.values())
    return [
        f"{unit:>7}  segments",
        *(f"{n:>7}  {count:>8} {_bar(count / most)}".rstrip() for n, count in histogram.items()),
    ]


def _bar(share: float) -> str:
    """A bar in eighths of a character; what is there at all is seen."""
    eighths = max(round(8 * _BAR * share), int(share > 0))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _separators(facts: dict[str, Any]) -> list[str]:
    return [
        f"{'ends with':<12}  {'of segments':>11}  {'of its occurrences':>18}",
        *(
            f"{_quoted(name):<12}  {share:>11.1%}  {percent(facts['rates'][name]):>18}"
            for name, share in facts["separators"].items()
        ),
    ]


def _quoted(name: str) -> str:
    return repr(name) if len(name) == 1 else name


def summary(rows: list[Row]) -> str:
    """Many documents, a line each, and all together by what cut them."""
    width = min(_LONGEST_NAME, max(len(row.name) for row in rows))
    unit = rows[0].unit
    lines = [f"{'document':<{width}}  {'segments':>8}  {unit + '/segment':>15}  by"]
    lines += [
        f"{_short(row.name, width):<{width}}  {row.segments:>8}  {_mean([row]):>15}  {row.note}"
        for row in rows
    ]
    counted = Counter(row.label for row in rows)
    lines += ["", f"{'all by':<20}  {'documents':>9}  {'segments':>9}  {unit + '/segment':>15}"]
    groups = [(label, [row for row in rows if row.label == label]) for label in sorted(counted)]
    for label, group in [*groups, ("all", rows)] if len(groups) > 1 else groups:
        held = sum(row.segments for row in group)
        lines.append(f"{label:<20}  {len(group):>9}  {held:>9}  {_mean(group):>15}")
    return "\n".join(map(visible, lines))


def _mean(rows: Iterable[Row]) -> str:
    rows = list(rows)
    segments = sum(row.segments for row in rows)
    return f"{sum(row.units for row in rows) / segments:.1f}" if segments else "-"


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]
