"""Numbers of papers to compare ours with, from targets.json, each with its provenance."""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.report.content import Block, Cell, Line, Table, note
from train.report.formats import count
from train.report.table import Results

PROVENANCES = ("paper", "later", "unread")  # explained in words.toml
OTHERS = "every other encoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A published number, in words.

    text: empty if it is unread. model: a name, OTHERS, or empty. data: a source of text, or a
    benchmark. trained_at, length: in tokens.
    """

    measure: str
    source: str
    provenance: str
    model: str = ""
    data: str = ""
    trained_at: int | None = None
    length: int | None = None
    text: str = ""

    @property
    def cell(self) -> Cell:
        return Cell(self.text, small=(self.provenance,))


@functools.cache
def targets() -> dict[str, tuple[Target, ...]]:
    """Return all targets by experiment, in the order of the file."""
    path = Path(__file__).parents[1] / "targets.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple(Target(**line) for line in lines) for name, lines in whole.items()}


def target_of(experiment: str, model: str) -> Target | None:
    """Return the target of a model, or of all models without their own; None if there is none."""
    models = {target.model: target for target in targets()[experiment]}
    return models.get(model, models.get(OTHERS))


def sources_of(experiment: str) -> str:
    """Return the sources of an experiment's targets with their provenance, each once."""
    lines = (f"{target.source} ({target.provenance})" for target in targets()[experiment])
    return ", ".join(dict.fromkeys(lines))


def comparable(*, data: str, model: str, trained_at: int | None) -> dict[int, Target]:
    """Return the perplexities by length published of a model that was trained at the same length.

    Sources are compared by the letters and digits of their names: pg19 is PG-19.
    """
    return {
        target.length: target
        for target in targets()["perplexity"]
        if target.length is not None
        and (target.model, target.trained_at) == (model, trained_at)
        and _plain(target.data) == _plain(data)
    }


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def published_perplexities(results: Results, source: str, lengths: Sequence[float]) -> list[Line]:
    """Return a row for each model with a published number here; other cells are blank."""
    rows: dict[str, Line] = {}
    for arm in results.arms:
        at = comparable(data=source, model=arm.model, trained_at=arm.row_length)
        if arm.model not in rows and {*at} & {*lengths}:
            cells = [at[int(length)].cell if length in at else "" for length in lengths]
            rows[arm.model] = [Cell(arm.model, style=arm.style), *cells]
    return [["published (provenance below)"], *rows.values()] if rows else []


def published(results: Results) -> Iterator[Block]:
    """Show one table of all targets, whether or not a run can be compared with them."""
    rows: list[Line] = []
    for name, group in targets().items():
        texts: dict[tuple[str, ...], list[str]] = {}  # those that differ only by length
        for target in group:
            trained = "" if target.trained_at is None else count(target.trained_at)
            source = f"{target.source} ({target.provenance})"
            key = (target.measure, target.model, target.data, trained, source)
            length = "" if target.length is None else f" at {count(target.length)}"
            texts.setdefault(key, []).append(f"{target.text}{length}")
        rows.append([name])
        rows += [[*key, ", ".join(values), source] for (*key, source), values in texts.items()]
    head = ["measure", "model", "data", "trained at", "published", "source, provenance"]
    meanings = "; ".join(f"{name}: {note('published', name)}" for name in PROVENANCES)
    yield Table(head, rows, note=f"Provenance: {meanings}.", words=True)
