"""The start and the end of the page: what was trained, observations, how it was measured.

The sentences are computed from the numbers; they neither praise nor explain.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from train.disk.manifest import redacted
from train.report.content import (
    Block,
    Cell,
    Figure,
    Heading,
    Html,
    Items,
    Line,
    Table,
    Words,
    Write,
    note,
)
from train.report.formats import DASH, amount, count, duration, fixed, percent, short, spread
from train.report.sections.exhibits import Curves, protocols, to_trained
from train.report.sections.tasks import above_chance, in_distribution
from train.report.table import Arm, Choice, Results, in_order

_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
_LIMITS = ("size", "bars", "nearest", "segments", "bytes")


def headline(results: Results) -> Iterator[Block]:
    """Show one sentence on the training, the observations, and one table."""
    if not results.arms:
        return
    pairs = [(source, _on_source(results, source)) for source in _sources(results)]
    pairs += [("Arithmetic", _arithmetic(results)), ("Retrieval", _retrieval(results)),
              ("Certainty", _certainty(results)),
              ("Measurements", " ".join(map(choice_text, results.choices)))]  # fmt: skip
    yield Words(_trained_on(results), look="lead")
    yield Items(pairs=[(subject, sentence) for subject, sentence in pairs if sentence])
    yield _table(results)


def _sources(results: Results) -> list[str]:
    return in_order(results.cells("perplexity"))


def _trained_on(results: Results) -> str:
    measures = {"parameters": "parameters", "tokens": "training_tokens",
                "lengths": "training_row_length", "steps": "training_steps",
                "seconds": "training_seconds"}  # fmt: skip
    values = {name: results.cells(measure).value for name, measure in measures.items()}
    number = len(results.arms)
    shares = results.cells("training_share")
    totals = shares.groupby("arm").value.sum()
    shares = shares.assign(share=shares.value / shares.arm.map(totals).astype("float64"))
    mix = [f"{spread([*rows.share, *[0.0] * (len(totals) - len(rows))], percent)} {source}"
           for source, rows in shares.groupby("source", sort=False)]  # fmt: skip
    machines = list(dict.fromkeys(_machine(about) for about in results.environments if about))
    models = _NUMBERS[number] if number < len(_NUMBERS) else count(number)
    return note("summary", "trained", models=models, several=number > 1, mix=mix,
                machines=machines, **values)  # fmt: skip


def _machine(about: Mapping[str, Any]) -> str:
    cpu = about.get("cpu") or about.get("platform") or "an unnamed machine"
    threads = about.get("threads")
    named = f"{cpu} ({threads} thread{'s' * (threads != 1)})" if threads else cpu
    return str(about.get("gpu") or named)


def _ends(results: Results, source: str) -> list[float]:
    """Return the common training length, or else the shortest length, and the longest."""
    lengths = sorted(results.cells("perplexity", source=source).length.dropna().unique().tolist())
    trained = results.trained_at
    near = lengths[0] if trained is None or trained not in lengths else trained
    return list(dict.fromkeys((float(near), lengths[-1])))


def _extremes(cells: pd.DataFrame, write: Write) -> dict[str, Any]:
    """Return the lowest and the highest finite value as written, with their arms.

    Without a value both are empty; without two that are written differently the highest is.
    """
    finite = cells[np.isfinite(cells.value)]
    written = finite.sort_values("value").value.map(write)
    ends = [*dict.fromkeys([*written[:1], *written[-1:]]), "", ""][:2]
    arms = (finite.arm[finite.value.map(write) == end].tolist() for end in ends)
    return dict(zip(("low", "high", "lowest", "highest"), (*ends, *arms), strict=True))


def _on_source(results: Results, source: str) -> str:
    cells = results.cells("perplexity", source=source)
    parts = []
    for length in _ends(results, source):
        there = cells[cells.length == length]
        parts.append(note("summary", "at", length=length, trained=results.trained_at,
                          broken=there[~np.isfinite(there.value)].arm.tolist(),
                          **_extremes(there, short)))  # fmt: skip
    for flat, bilevel in results.pairs():
        ratios = results.ratios(bilevel, flat)
        finite = ratios[(ratios.source == source) & ratios.value.notna()].value
        if len(finite):
            parts.append(note("summary", "below", flat=flat.label, bilevel=bilevel.label,
                              below=sum(finite < 1), number=len(finite)))  # fmt: skip
    return " ".join(parts)


def _operators(results: Results) -> list[float]:
    """Return the most operators within training, and the most overall."""
    numbers = results.cells("answer", task="arithmetic").operators.unique().tolist()
    trained = results.cells("trained_operators", task="arithmetic").operators.max()
    return sorted({in_distribution(numbers, trained), max(numbers)}) if numbers else []


def _arithmetic(results: Results) -> str:
    answers = results.cells("answer", task="arithmetic")
    return " ".join(note("summary", "solved", operators=operators,
                         **_extremes(answers[answers.operators == operators], percent))
                    for operators in _operators(results))  # fmt: skip


def _retrieval(results: Results) -> str:
    cells = results.cells("accuracy", task="passkey", depth=None)
    if cells.empty:
        return ""
    far = float(cells.length.max())
    cells = cells[cells.length == far]
    chance = results.cells("chance", task="passkey").value
    clear, several = above_chance(results, "passkey", far), cells.value.count() > 1
    return note("summary", "found", length=far, several=several, chance=chance, clear=clear,
                **_extremes(cells, percent))  # fmt: skip


def choice_text(choice: Choice) -> str:
    """Return by what a measure is compared, which measurements are apart, and which not shown."""
    return note("summary", "choice", choice=choice)


def _certainty(results: Results) -> str:
    several = [len(arm.runs) for arm in results.arms]
    if min(several) > 1:
        return note("summary", "seeds", seeds=several)
    alone = len({arm.model for arm in results.arms}) == len(several)
    return note("summary", "once") if alone else ""


def _table(results: Results) -> Table:
    head, groups = ["model", "parameters"], [("", 2)]
    sizes = {row.arm: row.value for row in results.cells("parameters").itertuples()}
    rows: list[list[Cell | str]] = [
        [Cell(arm.label, style=arm.style), amount(sizes[arm.label])] for arm in results.arms
    ]

    def add(title: str, cells: pd.DataFrame, ends: Sequence[float], **look: Any) -> None:
        cells = cells[cells[look.get("x", "length")].isin(ends)].assign(low=math.nan, high=math.nan)
        lines = {name.text: row for name, *row in Curves(cells, results.looks, **look).rows()}
        groups.append((title, len(ends)))
        head.extend(map(count, ends))
        for arm, row in zip(results.arms, rows, strict=True):
            row += lines.get(arm.label, [DASH] * len(ends))

    for source in _sources(results):
        cells = results.cells("perplexity", source=source)
        ratio = to_trained(results, cells)
        add(f"perplexity, {source}", cells, _ends(results, source), small=ratio)
    shares = results.cells("accuracy", task="passkey", depth=None)
    if len(shares):
        ends = list(dict.fromkeys((shares.length.min(), shares.length.max())))
        add("passkey found", shares, ends, write=percent, pick=max)
    if operators := _operators(results):
        answers = results.cells("answer", task="arithmetic")
        add("correct answers, operators", answers, operators, x="operators", write=percent,
            pick=max)  # fmt: skip
    parts = ["ratio"] * bool(_sources(results)) + ["best"] * (len(head) > 2)
    return Table(head=head, groups=groups, rows=rows,
                 note=" ".join(note("summary", name) for name in parts))  # fmt: skip


def training(results: Results) -> Iterator[Block]:
    """Show the loss against tokens seen, next to steps, time, memory and faults."""
    if not results.arms:
        return
    if names := ", ".join(results.unmeasured):
        yield Words(note("training", "missing", names=names))
    cells = results.cells("training_loss")
    chart = Curves(cells, results.looks, x="stop").draw(
        "training", "training loss, nats per token", "tokens seen", x_scale="linear"
    )
    head = ["model", "last loss", "steps", "tokens/s", "time", "GiB", "clamped", "skipped"]
    rows = [_cost(results, arm, cells) for arm in results.arms]
    yield Figure(chart, Table(head, rows, note=note("training")))


def _cost(results: Results, arm: Arm, cells: pd.DataFrame) -> Line:
    costs = ("training_tokens", "training_steps", "training_seconds", "training_memory",
             "clamped_share", "training_skipped_steps")  # fmt: skip
    at = {row.measure: row.value for row in results.cells(*costs, arm=arm.label).itertuples()}
    tokens, steps, seconds, memory, clamped, skipped = (at.get(name, math.nan) for name in costs)
    losses = cells[cells.arm == arm.label].sort_values("stop").value
    return [
        Cell(arm.label, style=arm.style),
        fixed(losses.iloc[-1], 2) if len(losses) else DASH,
        count(steps),
        amount(tokens / seconds) if seconds > 0 and math.isfinite(tokens) else DASH,
        duration(seconds),
        fixed(memory, 2) if math.isfinite(memory) else DASH,
        percent(clamped, 1) if math.isfinite(clamped) else DASH,
        count(skipped),
    ]


def account(results: Results) -> Iterator[Block]:
    """Show how the numbers were made, and what they do not show."""
    if not results.arms:
        return
    yield from _protocols(results)
    yield Heading("Interpretation and limits")
    yield Items([note("account", name) for name in _LIMITS])
    labels = [label for _, label in results.labels]
    machines = dict(zip(labels, results.environments, strict=True))
    yield Heading("Machine and versions")
    same, differ = _compared({label: about for label, about in machines.items() if about})
    yield from (table for table in (same, differ) if table)
    configs = [redacted(dict(run.config)) for run in results.runs]
    yield Heading("Configuration")
    _, differ = _compared(dict(zip(labels, configs, strict=True)))
    yield differ or Words(note("account", "alike", runs=len(configs)))
    for label, run, config in zip(labels, results.runs, configs, strict=True):
        whole = {"model": redacted(dict(run.model)), "config": config}
        if read := run.notes.get("documents"):
            whole["documents"] = redacted(dict(read))
        text = json.dumps(whole, indent=2, ensure_ascii=False, default=str)
        yield Html("details", {"summary": f"{label}: encoding, model and run", "text": text})


def _protocols(results: Results) -> Iterator[Block]:
    rows = results.cells("perplexity")
    notes = protocols(rows)
    skipped = results.table[results.table.measure == "left_out"]
    if notes or len(skipped):
        yield Heading("Protocol")
    for text in notes:
        whose = f" ({', '.join(rows[rows.note == text].arm.unique())})" if len(notes) > 1 else ""
        yield Words(bold=f"Perplexity{whose}: ", text=text)
    if len(skipped):
        lengths = [DASH if math.isnan(length) else count(length) for length in skipped.length]
        columns = ["label", "variant", "task", "source", "length", "note"]
        cells = skipped.assign(length=lengths)[columns].astype(str).values.tolist()
        head = ["not measured", "variant", "task", "source", "length", "reason"]
        yield Table(head, cells, words=True)


def _compared(values: Mapping[str, Any]) -> tuple[Table | None, Table | None]:
    """Return tables of dotted keys: of values that all share, and with a column for each name."""
    flats = [_flat(value) for value in values.values()]
    keys = dict.fromkeys(key for flat in flats for key in flat)
    rows = [[key, *(flat.get(key, DASH) for flat in flats)] for key in keys]
    same = [row[:2] for row in rows if len(set(row[1:])) == 1]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    return (
        Table(["key", "value"], same, words=True) if same else None,
        Table(["differs in", *values], differ, words=True) if differ else None,
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            flat[f"{prefix}{name}"] = text
    return flat
