"""The start of the page: what was trained, and what both ends of each curve show.

The sentences are computed from the numbers; they neither praise nor explain.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from train.report.content import Block, Cell, Items, Table, Words, note
from train.report.formats import DASH, amount, count, percent, spread
from train.report.sections.curves import Curves, to_trained
from train.report.sections.tasks import above_chance, in_distribution
from train.report.table import Choice, Results, in_order, values_at

_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def headline(results: Results) -> Iterator[Block]:
    """Show one sentence on the training, the observations, and one table."""
    if not results.arms:
        return
    texts = {source: _perplexity(results, source)
             for source in in_order(results.cells("perplexity"))}  # fmt: skip
    passkeys = _ends(results, results.cells("accuracy", task="passkey", depth=None),
                  title="passkey found")  # fmt: skip
    answers = _answers(results)
    pairs = [(source, _on_source(results, curves, source)) for source, curves in texts.items()]
    pairs += [("Arithmetic", " ".join(_sentence(answers, "solved", at) for at in answers.columns)),
              ("Retrieval", _retrieval(results, passkeys)),
              ("Certainty", _certainty(results)),
              ("Measurements", " ".join(map(choice_text, results.choices)))]  # fmt: skip
    yield Words(_trained_on(results), look="lead")
    yield Items(pairs=[(subject, sentence) for subject, sentence in pairs if sentence])
    yield _table(results, [*texts.values(), passkeys, answers], ratio=bool(texts))


def _ends(
    results: Results, cells: pd.DataFrame, *, near: float | None = None, x: str = "length",
    **look: Any,
) -> Curves:  # fmt: skip
    """Return the values at two ends of the axis: at `near`, or else the first, and at the last."""
    xs = sorted(cells[x].dropna().unique().tolist())
    first = near if near in xs else min(xs, default=None)
    shown = cells[cells[x].isin([first, *xs[-1:]])]
    return Curves(shown.assign(low=math.nan, high=math.nan), results.looks, x=x, **look)


def _perplexity(results: Results, source: str) -> Curves:
    cells = results.cells("perplexity", source=source)
    return _ends(results, cells, near=results.trained_at, small=to_trained(results, cells),
                 title=f"perplexity, {source}")  # fmt: skip


def _answers(results: Results) -> Curves:
    """Return the answers at the most operators within training, and at the most overall."""
    cells = results.cells("answer", task="arithmetic")
    return _ends(results, cells, near=in_distribution(results, cells), x="operators",
                 title="correct answers, operators")  # fmt: skip


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
    machines = list(dict.fromkeys(_machine(run.machine) for run in results.runs if run.machine))
    models = _NUMBERS[number] if number < len(_NUMBERS) else count(number)
    return note("summary", "trained", models=models, several=number > 1, mix=mix,
                machines=machines, **values)  # fmt: skip


def _machine(about: Mapping[str, Any]) -> str:
    cpu = about.get("cpu") or about.get("platform") or "an unnamed machine"
    threads = about.get("threads")
    named = f"{cpu} ({threads} thread{'s' * (threads != 1)})" if threads else cpu
    return str(about.get("gpu") or named)


def _sentence(curves: Curves, name: str, at: float, **values: Any) -> str:
    """Return a sentence on the lowest and the highest finite value of a column, and whose they are.

    Without a value both are empty; without two that are written differently the highest is.
    """
    column = {line: row.value for (line, x), row in curves.at.items() if x == at}
    written = {line: curves.write(value) for line, value in column.items() if math.isfinite(value)}
    ends = [curves.write(pick(column[line] for line in written)) for pick in (min, max) if written]
    low, high = [*dict.fromkeys(ends), "", ""][:2]
    lowest, highest = ([line for line in written if written[line] == end] for end in (low, high))
    return note("summary", name, at=at, low=low, high=high, lowest=lowest, highest=highest,
                broken=[line for line in column if line not in written], **values)  # fmt: skip


def _on_source(results: Results, curves: Curves, source: str) -> str:
    parts = [_sentence(curves, "at", at, trained=results.trained_at) for at in curves.columns]
    for flat, bilevel in results.pairs():
        ratios = results.ratios(bilevel, flat)
        finite = ratios[(ratios.source == source) & ratios.value.notna()].value
        if len(finite):
            parts.append(note("summary", "below", flat=flat.label, bilevel=bilevel.label,
                              below=sum(finite < 1), number=len(finite)))  # fmt: skip
    return " ".join(parts)


def _retrieval(results: Results, passkeys: Curves) -> str:
    return "".join(
        _sentence(passkeys, "found", far, chance=results.cells("chance", task="passkey").value,
              clear=above_chance(results, "passkey", far))
        for far in passkeys.columns[-1:]
    )  # fmt: skip


def choice_text(choice: Choice) -> str:
    """Return by what a measure is compared, which measurements are apart, and which not shown."""
    return note("summary", "choice", choice=choice)


def _certainty(results: Results) -> str:
    several = [len(arm.runs) for arm in results.arms]
    if min(several) > 1:
        return note("summary", "seeds", seeds=several)
    alone = len({arm.model for arm in results.arms}) == len(several)
    return note("summary", "once") if alone else ""


def _table(results: Results, curves: Sequence[Curves], *, ratio: bool) -> Table:
    """Return the columns of all curves side by side, a row per model."""
    curves = [curve for curve in curves if curve.columns]
    sizes = values_at(results.cells("parameters"), "arm")
    lines = [{name.text: cells for name, *cells in curve.rows()} for curve in curves]
    rows: list[list[Cell | str]] = []
    for arm in results.arms:
        rows.append([Cell(arm.label, style=arm.style), amount(sizes[arm.label])])
        for curve, named in zip(curves, lines, strict=True):
            rows[-1] += named.get(arm.label, [DASH] * len(curve.columns))
    head = ["model", "parameters", *(count(at) for curve in curves for at in curve.columns)]
    groups = [("", 2), *((curve.title, len(curve.columns)) for curve in curves)]
    parts = ["ratio"] * ratio + ["best"] * bool(curves)
    return Table(head=head, groups=groups, rows=rows,
                 note=" ".join(note("summary", name) for name in parts))  # fmt: skip
