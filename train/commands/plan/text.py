"""A plan as it is printed, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from segmenters.wording import counted, size
from train.commands.plan.reckoning import UTILISATION, Plan

_HOUR, _MINUTE = 1 / 24, 1 / 1440  # in days


def as_numbers(plan: Plan) -> dict[str, Any]:
    found = asdict(plan)
    found["weights"]["total"] = plan.weights.total
    found["flops"] |= {"model": plan.flops.model, "device": plan.flops.device}
    for each, own in zip(found["on"], plan.on, strict=True):
        each["flops"] |= {"model": own.flops.model, "device": own.flops.device}
        each["memory"]["moment"] = own.memory.moment
    for each, source in zip(found["data"]["sources"], plan.data.sources, strict=True):
        each["epochs"] = source.epochs
    return found


def lines(plan: Plan, *, title: str) -> Iterator[RenderableType]:
    """Yield the parts of the plan, in the order in which a reader asks for them."""
    yield f"[bold]{escape(title)}[/]\n"
    yield _model(plan)
    yield _run(plan)
    for one in plan.data.sources:
        yield f"  {escape(one.source)}: {one.tokens:,} tokens, read {one.epochs:.2f} times"
    yield ""
    yield from (f"attention on {each.kind}: {each.path} ({each.reason})" for each in plan.on)
    yield ""
    yield _memory(plan)
    if plan.paces:
        yield _time(plan)
    yield _disk(plan)
    yield from (f"[dim]assumed:[/] {escape(note)}" for note in plan.notes)
    yield from (f"[yellow]warning:[/] {escape(warning)}" for warning in plan.warnings)


def _model(plan: Plan) -> Table:
    table = _table("parameters", "", "share")
    for name, count in asdict(plan.weights).items():
        if count:
            table.add_row(name, f"{count:,}", f"{count / plan.weights.total:.1%}")
    table.add_row("total", f"{plan.weights.total:,}", "")
    return table


def _run(plan: Plan) -> str:
    run, flops = plan.schedule, plan.flops
    per_step = run.tokens / max(1, run.steps)
    per_weight = run.tokens / plan.weights.total
    rows = counted(plan.data.validation_rows, "row")
    tested = f"; {counted(plan.validations, 'validation')} of {rows}"
    return (
        f"{counted(run.steps, 'step')} of {counted(run.global_batch, 'row')} "
        f"({_division(plan)}) "
        f"of {run.row_length:,} tokens: {per_step:,.0f} tokens per step\n"
        f"{run.tokens:,} tokens in total, {per_weight:,.1f} per parameter"
        f"{tested if plan.validations else ''}\n"
        f"{flops.forward / 1e6:,.2f} MFLOP per token forward, {flops.backward / 1e6:,.2f} "
        f"backward; {plan.total_flops:.3g} FLOP in total"
    )


def _division(plan: Plan) -> str:
    """Return how a step is divided: 4 rows x 8 devices x 2 micro-batches."""
    devices = f" x {plan.ranks} devices" if plan.ranks > 1 else ""
    share, found = plan.on[0].micro_batch * plan.accumulation, dict[str, str]()
    for each in plan.on:
        passes = share // each.micro_batch
        text = f"{counted(each.micro_batch, 'row')}{devices}"
        text += f" x {passes} micro-batches" if passes > 1 else ""
        found.setdefault(text, each.kind)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{text} on {kind}" for text, kind in found.items())


def _memory(plan: Plan) -> Table:
    names = [f"{each.kind}, {each.precision}" for each in plan.on]
    table = _table("memory per device", *names)
    table.add_row("rows at once", *(f"{each.micro_batch:,}" for each in plan.on))
    for part in ("weights", "gradients", "moments", "gathered", "activations", "copy"):
        held = [getattr(each.memory, part) for each in plan.on]
        if any(held):
            table.add_row(part, *map(size, held))
    table.add_row("peak", *(f"{size(each.peak)}, in {each.memory.moment}" for each in plan.on))
    table.add_row("available here", *(size(each.available) for each in plan.on))
    return table


def _time(plan: Plan) -> Table:
    several = plan.ranks > 1
    heads = [f"with {plan.ranks} of them"] if several else []
    table = _table(
        f"time (estimates; GPUs at {UTILISATION:.0%} of their peak)", "one device", *heads, ""
    )
    for pace in plan.paces:
        rest = ""
        if pace.rows is not None:
            rest = f"{counted(pace.rows, 'row')} at once" if pace.rows else "[red]too small[/]"
        own = [duration(pace.days)] if several else []
        known = escape(pace.assumed) + (f"; {rest}" if rest else "")
        table.add_row(pace.device, duration(pace.device_days), *own, known)
    return table


def _disk(plan: Plan) -> str:
    disk = plan.checkpoints
    return (
        f"{counted(disk.number, 'checkpoint')} of {size(disk.each)}, "
        f"one every {counted(disk.every, 'step')}, "
        f"{disk.kept} kept; model {size(disk.model)}\n"
        f"{escape(plan.folder)} needs up to {size(disk.needed)}; {size(disk.free)} are free"
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def duration(days: float) -> str:
    """Return days in the unit that suits them: 3.2 days, 5.1 hours, 12 minutes."""
    if days >= 1:
        return f"{days:,.1f} days"
    if days >= _HOUR:
        return f"{days / _HOUR:.1f} hours"
    return f"{days / _MINUTE:.1f} minutes" if days >= _MINUTE else "under a minute"
