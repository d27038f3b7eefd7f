"""Numbers of papers to compare ours with, from targets.json, each with its provenance."""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from train.report.content import Block, Cell, Line, Table, note
from train.report.formats import count
from train.report.table import Results

PROVENANCES = ("paper", "later", "unread")  # explained in words.toml
OTHERS = "every other encoding"
_COLUMNS = ("experiment", "measure", "model", "data", "trained_at", "length", "text", "source",
            "provenance")  # fmt: skip


@functools.cache
def targets() -> pd.DataFrame:
    """Return a row for each published number, in the order of the file; what does not apply is "".

    text: the number in words, empty if it is unread. model: a name, OTHERS, or empty. data: a
    source of text, or a benchmark. trained_at, length: in tokens. origin: source and provenance.
    """
    path = Path(__file__).parents[1] / "targets.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    rows = [{"experiment": name, **line} for name, lines in whole.items() for line in lines]
    table = pd.DataFrame(rows, columns=_COLUMNS, dtype=object).fillna("")
    return table.assign(origin=table.source + " (" + table.provenance + ")")


def targets_of(experiment: str) -> pd.DataFrame:
    return targets()[targets().experiment == experiment]


def target_of(experiment: str, model: str) -> str:
    """Return the number of a model, or of all models without their own; "" if there is none."""
    models = targets_of(experiment).set_index("model").text.to_dict()
    return str(models.get(model, models.get(OTHERS, "")))


def sources_of(experiment: str) -> str:
    """Return the sources of an experiment's targets with their provenance, each once."""
    return ", ".join(targets_of(experiment).origin.unique())


def as_cell(target: Any) -> Cell:
    return Cell(target.text, small=(target.provenance,))


def _letters(name: str) -> str:
    """Return what sources are compared by: pg19 is PG-19."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def published_perplexities(results: Results, source: str, lengths: Sequence[float]) -> list[Line]:
    """Return a row for each model with a published number here; other cells are blank."""
    rows: dict[str, Line] = {}
    for arm in results.arms:
        alike = (arm.model, arm.row_length, _letters(source))
        at = {target.length: as_cell(target) for target in targets_of("perplexity").itertuples()
              if (target.model, target.trained_at, _letters(target.data)) == alike}  # fmt: skip
        cells = [at.get(length, "") for length in lengths]
        if any(cells) and arm.model not in rows:
            rows[arm.model] = [Cell(arm.model, style=arm.style), *cells]
    return [["published (provenance below)"], *rows.values()] if rows else []


def published(results: Results) -> Iterator[Block]:
    """Show one table of all targets, whether or not a run can be compared with them."""
    rows: list[Line] = []
    for name, group in targets().groupby("experiment", sort=False):
        rows.append([str(name)])
        # Those that differ only by length share a row.
        by = ["measure", "model", "data", "trained_at", "origin"]
        for (*key, trained, origin), alike in group.groupby(by, sort=False):
            texts = (f"{target.text}{target.length and f' at {count(target.length)}'}"
                     for target in alike.itertuples())  # fmt: skip
            rows.append([*key, trained and count(trained), ", ".join(texts), origin])
    head = ["measure", "model", "data", "trained at", "published", "source, provenance"]
    meanings = "; ".join(f"{name}: {note('published', name)}" for name in PROVENANCES)
    yield Table(head, rows, note=f"Provenance: {meanings}.", words=True)
