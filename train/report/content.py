"""The parts of a section, all plain text: the template escapes it, rich reads no markup in it.

words.toml holds the title of each section, its link in the head of the page, and its texts.
"""

import functools
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from rich.table import Table as RichTable
from rich.text import Text as RichText

from segmenters.wording import counted, visible
from train.report import formats
from train.report.figures import Drawing
from train.report.formats import DAGGER, DASH
from train.report.palette import Style

EXPLAINED = f"{DAGGER} no finite value: not measured, or the loss was not a number."
Write = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell. small: lines below. style: of the named model. meter: a bar, from 0 to 1."""

    text: str
    small: tuple[str, ...] = ()
    best: bool = False
    style: Style | None = None
    meter: float | None = None


Line = Sequence[Cell | str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; the first column names them, and a row of one cell is a heading.

    groups: headings above the head, each with the number of columns below it. words: cells hold
    text. title: on the terminal, where a table without a title is not shown.
    """

    head: Sequence[str]
    rows: Sequence[Line]
    groups: Sequence[tuple[str, int]] = ()
    note: str = ""
    title: str = ""
    words: bool = False

    @property
    def cells(self) -> list[list[Cell]]:
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
                for row in self.rows]  # fmt: skip

    @property
    def notes(self) -> list[str]:
        broken = any(DAGGER in line for row in self.cells for cell in row
                     for line in (cell.text, *cell.small))  # fmt: skip
        return [line for line in (self.note, EXPLAINED if broken else "") if line]


class Words(NamedTuple):
    """A paragraph. look: lead, note or facts. bold: its first words."""

    text: str
    look: str = ""
    bold: str = ""


class Heading(NamedTuple):
    text: str


class Items(NamedTuple):
    """A list of texts, or with pairs a list of terms and their explanations."""

    items: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()


class Figure(NamedTuple):
    """A drawing, with its table next to it if the page is wide enough."""

    drawing: Drawing
    table: Table | None = None


class Grid(NamedTuple):
    """Drawings side by side under their captions. look: maps or charts."""

    drawings: Sequence[tuple[str, Drawing]]
    look: str = "maps"


class Html(NamedTuple):
    """A part that the template draws by itself: scale, details or passage, and its values."""

    name: str
    values: Mapping[str, Any] = {}


Block = Words | Heading | Items | Table | Figure | Grid | Html


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. nav: the text of its link, if it is not the title."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    nav: str = ""

    @property
    def tables(self) -> list[Table]:
        """Return all tables, including those next to figures."""
        parts = [block.table if isinstance(block, Figure) else block for block in self.blocks]
        return [table for table in parts if isinstance(table, Table)]

    @property
    def drawings(self) -> list[Drawing]:
        grids = [block.drawings for block in self.blocks if isinstance(block, Grid)]
        figures = [block.drawing for block in self.blocks if isinstance(block, Figure)]
        return [*figures, *(drawing for grid in grids for _, drawing in grid)]


@functools.cache
def texts() -> dict[str, dict[str, jinja2.Template]]:
    """Return the texts of words.toml by section, in which formats.py writes values."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    functions = {name: value for name, value in vars(formats).items() if callable(value)}
    environment.filters |= functions | {"counted": counted}
    environment.globals |= functions
    environment.tests["finite"] = math.isfinite
    words = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return {anchor: {name: environment.from_string(text) for name, text in section.items()}
            for anchor, section in words.items()}  # fmt: skip


def note(anchor: str, name: str = "note", /, **values: Any) -> str:
    """Return a text of a section with these values."""
    return texts()[anchor][name].render(values)


def section(anchor: str, blocks: Iterable[Block], **values: Any) -> Section:
    """Return a section under its title and first paragraph; values: of the templates of these."""
    title, nav, first = (
        note(anchor, name, **values) if name in texts()[anchor] else ""
        for name in ("title", "nav", "words")
    )
    return Section(anchor, title, [*([Words(first)] if first else ()), *blocks], nav)


def best_of(values: Iterable[float], pick: Callable[..., float] | None, write: Write) -> str | None:
    """Return the best of several finite values as it is written: values written alike are ties."""
    finite = [value for value in values if math.isfinite(value)]
    return write(pick(finite)) if pick and len(finite) > 1 else None


def span(low: float, high: float, write: Write) -> str:
    """Return an interval as text, or "" if an end is not finite."""
    both = math.isfinite(low) and math.isfinite(high)
    return f"{write(low)}{DASH}{write(high)}" if both else ""


def terminal_tables(sections: Iterable[Section]) -> list[RichTable]:
    """Return the tables with a title for the terminal; those with one title and head are merged."""
    merged: dict[tuple[str, ...], RichTable] = {}
    for table in (table for section in sections for table in section.tables if table.title):
        title, _, part = table.title.partition(": ")
        key = (title, *table.head[1:])
        if key not in merged:
            merged[key] = RichTable("", title=visible(title), title_justify="left")
            merged[key].columns[0].no_wrap = True
            for name in table.head[1:]:
                merged[key].add_column(RichText(visible(name)), justify="right")
        shown = merged[key]
        if part:
            shown.add_section()
            shown.add_row(RichText(visible(part), style="dim"))
        for row in table.cells:
            shown.add_row(*(RichText(visible(c.text), style="bold" if c.best else "") for c in row))
    return list(merged.values())
