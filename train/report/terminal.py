"""The report's main numbers as tables for the terminal.

Names come from outside and are never read as rich's console markup.
"""

from collections.abc import Callable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from train.report.compare import (
    asked_operators,
    found,
    highest,
    lengths,
    lowest,
    measured,
    passkey_lengths,
    retrievals,
    right,
    sources,
    trained_length,
)
from train.report.formats import DASH, TIMES, count, fixed, percent, short
from train.report.markup import visible
from train.report.probes import Probe, probe_mean
from train.report.records import Run
from train.report.scrolls import ScrollsModel, task_names


def summary_table(runs: Sequence[Run]) -> Table:
    """Perplexity of each source, then retrieval, by model and length; the best are bold."""
    measured_at = {n for source in sources(runs) for n in lengths(runs, source)}
    columns = sorted(measured_at | set(passkey_lengths(runs)))
    table = Table(title="Perplexity and retrieval against length in tokens", title_justify="left")
    table.add_column("model", no_wrap=True)
    trained = trained_length(runs)
    for length in columns:
        ratio = f"\n{length / trained:.3g}{TIMES}" if trained else ""
        table.add_column(f"{count(length)}{ratio}", justify="right")
    for source in sources(runs):
        values = {
            run.label: [measured(run, source, n) for n in columns]
            for run in runs
            if source in run.scores
        }
        block(table, f"perplexity, {source}", values, best=lowest, write=short)
    shares = {label: found(passkey) for label, passkey in retrievals(runs).items()}
    if shares:
        lines = {label: [means.get(n) for n in columns] for label, means in shares.items()}
        block(table, "passkey found", lines, best=highest, write=percent)
    return table


def arithmetic_table(runs: Sequence[Run]) -> Table | None:
    """Right answers by model and number of operators; None where none was asked for."""
    held = {run.label: run.arithmetic for run in runs if run.arithmetic}
    if not held:
        return None
    columns = asked_operators(held.values())
    table = Table(title="Arithmetic against the number of operators", title_justify="left")
    table.add_column("model", no_wrap=True)
    for operators in columns:
        table.add_column(str(operators), justify="right")
    for measure in ("answer", "steps", "tokens"):
        lines = {label: [right(one, measure, n) for n in columns] for label, one in held.items()}
        block(table, f"right {measure}", lines, best=highest, write=percent)
    return table


def probes_table(runs: Sequence[Run]) -> Table | None:
    """What each probe found by model and length, the mean over depths; None without probes."""
    held = [run for run in runs if any(probe.lengths for probe in run.probes.values())]
    if not held:
        return None
    columns = sorted({n for run in held for probe in run.probes.values() for n in probe.lengths})
    table = Table(title="Probes against length in tokens", title_justify="left")
    table.add_column("model", no_wrap=True)
    for length in columns:
        table.add_column(count(length), justify="right")
    for name in dict.fromkeys(name for run in held for name in run.probes):
        lines = {
            run.label: [_found(run.probes[name], n) for n in columns]
            for run in held
            if name in run.probes and run.probes[name].lengths
        }
        if lines:
            block(table, f"{name} found", lines, best=highest, write=percent)
    return table


def _found(probe: Probe, length: int) -> float | None:
    return probe_mean(probe, "accuracy", length) if length in probe.lengths else None


def scrolls_table(models: Sequence[ScrollsModel]) -> Table | None:
    """Scores by model and task with the deviation over seeds; None where nothing was scored."""
    if not models:
        return None
    table = Table(title="SCROLLS, official scores in percent", title_justify="left")
    table.add_column("task")
    for model in models:
        table.add_column(Text(visible(f"{model.name}, {model.split}")), justify="right")
    for task in task_names(models):
        table.add_row(Text(visible(task)), *(_score(model, task) for model in models))
    table.add_section()
    for kind, name in (("mean", "mean"), ("mean_without_quality", "mean without QuALITY")):
        means = [model.means[kind] for model in models]
        table.add_row(name, *(DASH if mean is None else fixed(mean, 2) for mean in means))
    return table


def _score(model: ScrollsModel, task: str) -> str:
    mean, deviation = model.mean(task), model.deviation(task)
    if mean is None:
        return DASH
    spread = "" if deviation is None else f" \N{PLUS-MINUS SIGN} {fixed(deviation, 2)}"
    return f"{fixed(mean, 2)}{spread}"


def block(
    table: Table,
    title: str,
    values: Mapping[str, Sequence[float | None]],
    *,
    best: Callable[..., str | None],
    write: Callable[[float], str],
) -> None:
    """Add the lines of one measure under its title; None is a dash, the best is bold."""
    table.add_section()
    table.add_row(Text(visible(title), style="dim"))
    bests = [best(column, write) for column in zip(*values.values(), strict=True)]
    for label, numbers in values.items():
        cells = [DASH if number is None else write(number) for number in numbers]
        table.add_row(
            Text(visible(label)),
            *(Text(c, style="bold" if c == b else "") for c, b in zip(cells, bests, strict=True)),
        )
