"""Parts, ids and curves as lines of a terminal, all in ASCII."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bipe.positions import Positions
from segmenters import Lines, Segmenter, Sentences, anchors_from_offsets, mark
from train.commands.explain.curves import Curve
from train.commands.explain.parts import ALL_IDS, Part, ids_read, settings, source_of
from train.report.formats import short

SAMPLES: tuple[tuple[str, Segmenter, str], ...] = (
    (
        "sentences",
        Sentences(),
        "Dr. Bo counts twice. One id is for segments.\n\nThe other one stays.",
    ),
    ("lines", Lines(), "def twice(x):\n    y = x + x\n    return y\n"),
)
_COLUMNS, _ROWS = 64, 10  # of a chart
_MARKS = "abcd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Words of a sample, as tokens, and their ids after a segmenter cut it. level: its name."""

    level: str
    words: tuple[str, ...]
    ids: dict[str, tuple[int, ...]]


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def part(one: Part) -> Iterator[str]:
    """Yield what a part is: formula, source, hooks, parameters."""
    where = "" if one.layers is None else f"; layers {', '.join(map(str, one.layers)) or 'none'}"
    yield f"{one.path}: {one.name}, uses {' and '.join(one.ids)} ids ({one.counts}){where}"
    source, formula = source_of(type(one.of))
    yield f"  {source}"
    yield from formula and indented(["", *formula, ""])
    for name, said in one.hooks.items() or {"none": "changes nothing"}.items():
        yield f"  hook {name}: {said}"
    parameters = one.parameters
    names = ", ".join(f"{name} {count:,}" for name, count in parameters.items())
    yield f"  parameters: {sum(parameters.values()):,}{names and f' ({names})'}"
    yield f"  {'; '.join(one.nature)}"


def far(where: str, method: Any) -> Iterator[str]:
    """Yield what a far method or a stretch is."""
    yield f"{where}: {type(method).__name__}({settings(method)})"
    said = (type(method).__doc__ or "").strip().split("\n\n")[0]
    yield f"  {' '.join(said.split())}"


def samples(names: Sequence[str] = ALL_IDS) -> Iterator[Cut]:
    """Yield short texts with the ids of these names; each word is a token."""
    levels = max(1, len(names) - len(ALL_IDS))
    for level, segmenter, text in SAMPLES:
        words = [*re.finditer(r"\S+", text)]
        anchors = anchors_from_offsets(text, [word.span() for word in words])
        marks = mark(anchors, segmenter.levels(text)[:levels])
        at = Positions.from_marks(torch.from_numpy(marks)[None], packed=False, levels=levels)
        ids = {name: tuple(at.ids(name)[0].tolist()) for name in names}
        yield Cut(level=level, words=tuple(word[0] for word in words), ids=ids)


def ids(parts: Sequence[Part]) -> Iterator[str]:
    """Yield tables of ids; a star is at those that the encoding reads."""
    read = {name for part_read in parts for name in part_read.ids}
    yield "ids (* used by this encoding; | starts a segment; each word is a token here)"
    for cut in samples(ids_read(parts)):
        rows = {cut.level: cut.words}
        rows |= {
            f"{name}{'*' * (name in read)}": tuple(map(str, row)) for name, row in cut.ids.items()
        }
        widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
        for name, row in rows.items():
            cells = zip(row, widths, cut.ids["intra"], strict=True)
            line = (f"{'' if at else '| '}{cell:>{width}} " for cell, width, at in cells)
            yield f"  {name:<10}{''.join(line)}".rstrip()


def chart(curve: Curve) -> Iterator[str]:
    """Yield a curve as a chart of letters, one for each head."""
    low, high = curve.bounds
    if curve.flat:
        yield f"{curve.title}: {short(low)} at every distance"
        return
    yield curve.title
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]
    columns = min(_COLUMNS, curve.farthest + 1)
    for letter, row in zip(_MARKS, curve.heads.values(), strict=False):
        for column in range(columns):
            value = row[round(column * curve.farthest / max(1, columns - 1))]
            if math.isfinite(value):
                place = round((high - value) / (high - low) * (_ROWS - 1))
                grid[place][column] = letter
    for place, cells in enumerate(grid):
        edge = {0: f"{high:.4g}", _ROWS - 1: f"{low:.4g}"}.get(place, "")
        yield f"{edge:>10} |{''.join(cells).rstrip()}"
    yield f"{'':>10} 0{f'{curve.farthest} {curve.unit}':>{max(columns - 1, 0)}}".rstrip()
    pairs = zip(_MARKS, curve.heads, strict=False)
    yield f"{'':>12}" + ", ".join(f"{letter}: {name}" for letter, name in pairs)
