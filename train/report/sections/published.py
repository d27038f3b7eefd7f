"""Numbers of papers to compare ours with, from targets.json, each with its provenance."""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from train.report.content import Cell, Line, Section, Table, Words
from train.report.formats import count, percent, tick
from train.report.table import Results

PROVENANCES = {
    "paper": "quoted from the paper or an article on it",
    "later": "reproduced by a later paper",
    "unread": "known to be published, but not seen: left blank",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A published number: `value`, an upper bound `below`, or in words `said`.

    model: None for every model without a target of its own. unit: "share", from 0 to 1, or none.
    data: a source of text, or a benchmark. trained_at, length: tokens. width: of the paper's model.
    """

    measure: str
    source: str
    provenance: str
    model: str | None = None
    unit: str = ""
    data: str = ""
    trained_at: int | None = None
    length: int | None = None
    width: int | None = None
    value: float | None = None
    below: float | None = None
    said: str = ""

    def __str__(self) -> str:
        """Return the published number as text; "" if it is unread."""
        write = percent if self.unit == "share" else tick
        if self.value is not None:
            return write(self.value)
        return f"below {write(self.below)}" if self.below is not None else self.said


@functools.cache
def targets() -> dict[str, tuple[Target, ...]]:
    """Return all targets by experiment, in the order of the file."""
    path = Path(__file__).parents[1] / "targets.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple(Target(**one) for one in listed) for name, listed in held.items()}


def target_of(experiment: str, model: str) -> Target | None:
    """Return the target of a model, or of all models without their own; None if there is none."""
    own = {target.model: target for target in targets()[experiment]}
    return own.get(model, own.get(None))


def sources_of(experiment: str) -> str:
    """Return the sources of an experiment's targets with their provenance, each once."""
    held = targets()[experiment]
    return ", ".join(dict.fromkeys(f"{each.source} ({each.provenance})" for each in held))


def published_mean(model: str) -> Cell | str:
    """Return the published SCROLLS mean of a model by its run's name: bipe_rope is BiPE-RoPE."""
    named = {target.model.lower(): target for target in targets()["scrolls"] if target.model}
    found = named.get(model.lower().replace("_", "-"))
    return "" if found is None else Cell(str(found), small=(found.provenance,))


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
        found = comparable(data=source, model=arm.model, trained_at=arm.row_length)
        if arm.model not in rows and {*found} & {*lengths}:
            cells = [Cell(str(found[n]), small=(found[n].provenance,)) if n in found else ""
                     for n in map(int, lengths)]  # fmt: skip
            rows[arm.model] = [Cell(arm.model, style=arm.style), *cells]
    return [["published (provenance below)"], *rows.values()] if rows else []


def published(results: Results) -> Section:
    """Show one table of all targets, whether or not a run can be compared with them."""
    rows = [row for name, held in targets().items() for row in ([name], *_rows(held))]
    head = ["measure", "model", "data", "trained at", "published", "source, provenance"]
    note = "; ".join(f"{name}: {meaning}" for name, meaning in PROVENANCES.items())
    words = (
        "These come from other models, trained on other amounts of text. Published perplexities "
        "with the same source, training length and context length are shown beside ours above."
    )
    table = Table(head, rows, note=f"Provenance: {note}.", words=True)
    return Section("published", "Published numbers", [Words(words), table])  # fmt: skip


def _rows(held: Sequence[Target]) -> list[list[str]]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for target in held:
        width = "" if target.width is None else f" (width {target.width})"
        key = (
            f"{target.measure}{width}",
            target.model or ("every other encoding" if target.below is not None else ""),
            target.data,
            "" if target.trained_at is None else count(target.trained_at),
            f"{target.source} ({target.provenance})",
        )
        length = "" if target.length is None else f" at {count(target.length)}"
        rows.setdefault(key, []).append(f"{target}{length}")
    return [[*key, ", ".join(values), source] for (*key, source), values in rows.items()]
