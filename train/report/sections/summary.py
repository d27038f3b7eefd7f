"""The start and the end of the page: what was trained, observations, how it was measured.

The sentences are computed from the numbers; they neither praise nor explain.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from segmenters.wording import counted
from train.disk.manifest import redacted
from train.report.content import (
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Items,
    Line,
    Section,
    Table,
    Words,
    Write,
)
from train.report.formats import (
    DASH,
    TIMES,
    amount,
    count,
    duration,
    fixed,
    listed,
    percent,
    short,
    spread,
)
from train.report.sections.curves import Curves, in_order, protocols, to_trained
from train.report.sections.tasks import above_chance, in_distribution
from train.report.table import Results

_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
_LIMITS = (
    "The first paragraph states the size and training of the models. Which encoding is best can "
    "change with both; these results do not apply to larger models.",
    "Bars are 95% intervals: over seeds if a model has several (variation between training runs), "
    "otherwise over documents, or Wilson intervals over correct answers (variation between texts "
    "or problems).",
    "Perplexity beyond the training length rewards a model that uses only the nearest tokens. "
    "Compare it with retrieval and with the loss by position.",
    "A bilevel encoding extrapolates over segments: how far depends on the number of segments in "
    "a training row, and so on the source and its segmenter.",
    "Sources differ in bytes per token; compare them by bits per byte, not by perplexity.",
)


def headline(results: Results) -> Section | None:
    """Show one sentence on the training, the observations, and one table."""
    if not results.arms:
        return None
    seen = [(source, _on_source(results, source)) for source in _sources(results)]
    seen += [("Arithmetic", _arithmetic(results)), ("Retrieval", _retrieval(results)),
             ("Certainty", _certainty(results))]  # fmt: skip
    pairs = [(subject, sentence) for subject, sentence in seen if sentence]
    first = Words(_trained_on(results), look="lead")
    return Section("summary", "Summary", [first, Items(pairs=pairs), _table(results)])


def _sources(results: Results) -> list[str]:
    return in_order(results.cells("perplexity"))


def _trained_on(results: Results) -> str:
    arms = results.arms
    models = _NUMBERS[len(arms)] if len(arms) < len(_NUMBERS) else count(len(arms))
    plural, each = ("s", "each ") if len(arms) > 1 else ("", "")

    def told(measure: str, write: Any = amount) -> str:
        return spread(results.cells(measure).value, write)

    shares = results.cells("training_share")
    totals = shares.groupby("arm").value.sum()
    shares = shares.assign(share=shares.value / shares.arm.map(totals).astype("float64"))
    held = [f"{spread([*own.share, *[0.0] * (len(totals) - len(own))], percent)} {source}"
            for source, own in shares.groupby("source", sort=False)]  # fmt: skip
    machines = list(dict.fromkeys(_machine(found) for found in results.environments if found))
    return (
        f"{models} model{plural} of {told('parameters')} parameters, {each}trained on "
        f"{told('training_tokens')} tokens{f' ({listed(held)})' if held else ''} in rows of "
        f"{told('training_row_length', count)} tokens: {told('training_steps', count)} steps, "
        f"{told('training_seconds', duration)}{each and ' each'}."
        + (f" Evaluated on {listed(machines)}." if machines else "")
    )


def _machine(found: Mapping[str, Any]) -> str:
    cpu = found.get("cpu") or found.get("platform") or "an unnamed machine"
    threads = found.get("threads")
    called = f"{cpu} ({threads} thread{'s' * (threads != 1)})" if threads else cpu
    return str(found.get("gpu") or called)


def _ends(results: Results, source: str) -> list[float]:
    """Return the common training length, or else the shortest length, and the longest."""
    lengths = sorted(results.cells("perplexity", source=source).length.dropna().unique().tolist())
    near = results.trained_at if results.trained_at in lengths else lengths[0]
    return list(dict.fromkeys((float(near), lengths[-1])))  # type: ignore[arg-type]


def _on_source(results: Results, source: str) -> str:
    cells = results.cells("perplexity", source=source)
    parts = [_extremes(results, cells[cells.length == length], length)
             for length in _ends(results, source)]  # fmt: skip
    for flat, bilevel in results.pairs():
        found = results.ratios(bilevel, flat)
        finite = found[(found.source == source) & found.value.notna()].value
        if len(finite):
            parts.append(f"{bilevel.label} is below {flat.label} at {sum(finite < 1)} of "
                         f"{counted(len(finite), 'length')}.")  # fmt: skip
    return " ".join(parts)


def _extremes(results: Results, cells: pd.DataFrame, length: float) -> str:
    parts, broken = [], cells[~np.isfinite(cells.value)].arm.tolist()
    match _ends_of(cells, short):
        case [(only, names)]:
            who = f"{names[0]} has" if len(names) == 1 else "all models have"
            parts.append(f"{who} perplexity {only}")
        case [(low, lowest), (high, highest)]:
            parts.append(f"{_have(lowest)} the lowest perplexity, {low}")
            parts.append(f"{_have(highest)} the highest, {high}")
    if broken:
        parts.append(f"{_have(broken)} no finite value")
    at, trained = f"At {count(length)} tokens,", results.trained_at
    if length == trained:
        at = f"At the training length, {count(length)} tokens,"
    elif trained is not None:
        at += f" {length / trained:.3g} times the training length,"
    return f"{at} {'; '.join(parts)}."


def _ends_of(cells: pd.DataFrame, write: Write) -> list[tuple[str, list[str]]]:
    """Return the lowest and the highest finite value as written, with their arms; one if alike."""
    finite = cells[np.isfinite(cells.value)]
    written = finite.sort_values("value").value.map(write).tolist()
    ends = dict.fromkeys([*written[:1], *written[-1:]])
    return [(end, finite[finite.value.map(write) == end].arm.tolist()) for end in ends]


def _have(names: Sequence[str], one: str = "has", many: str = "have") -> str:
    return f"{listed(names)} {one if len(names) == 1 else many}"


def _asked(results: Results) -> list[float]:
    """Return the most operators within training, and the most overall."""
    asked = results.cells("answer", task="arithmetic").operators.unique().tolist()
    trained = results.cells("trained_operators", task="arithmetic").operators.max()
    return sorted({in_distribution(asked, trained), max(asked)}) if asked else []


def _arithmetic(results: Results) -> str:
    parts = []
    for operators in _asked(results):
        cells = results.cells("answer", task="arithmetic", operators=operators)
        at = f"Of problems with {counted(int(operators), 'operator')},"
        match _ends_of(cells, percent):
            case []:
                parts.append(f"{at} no model has a finite share of correct answers.")
            case [(share, names)]:
                parts.append(f"{at} {_have(names, 'solves', 'solve')} {share}.")
            case [(low, lowest), (high, highest)]:
                best = _have(highest, "solves", "solve")
                parts.append(f"{at} {best} the most, {high}; {listed(lowest)} {low}.")
    return " ".join(parts)


def _retrieval(results: Results) -> str:
    cells = results.cells("accuracy", task="passkey", depth=None)
    if cells.empty:
        return ""
    far = float(cells.length.max())
    cells = cells[cells.length == far]
    if not (ends := _ends_of(cells, percent)):
        return f"Passkey retrieval at {count(far)} tokens has no finite value for any model."
    best, tops = ends[-1]
    chance = spread(results.cells("chance", task="passkey").value, percent)
    clear = above_chance(results, "passkey", far)
    names = f" ({listed(tops)})" if cells.value.count() > 1 else ""
    above = _have(clear, "is", "are") if clear else "no model is"
    return (
        f"Passkey retrieval at {count(far)} tokens, mean over depths: the highest is {best}{names};"
        f" chance is {chance}. {above[0].upper()}{above[1:]} above chance by more than two "
        "standard errors."
    )


def _certainty(results: Results) -> str:
    several = [len(arm.runs) for arm in results.arms]
    if min(several) > 1:
        return (
            f"Each number is a mean over {spread(several, count)} seeds (of losses, so "
            "perplexities are averaged geometrically); the 95% intervals of these means reflect "
            "variation between seeds, not between texts."
        )
    once = (
        "Each model was trained once, so variation between seeds is unknown: differences of a few "
        "percent may be chance."
    )
    return once if len({arm.model for arm in results.arms}) == len(several) else ""


def _table(results: Results) -> Table:
    head, groups = ["model", "parameters"], [("", 2)]
    sizes = {row.arm: row.value for row in results.cells("parameters").itertuples()}
    rows: list[list[Cell | str]] = [
        [Cell(arm.label, style=arm.style), amount(sizes[arm.label])] for arm in results.arms
    ]

    def add(title: str, cells: pd.DataFrame, ends: Sequence[float], **look: Any) -> None:
        own = cells[cells[look.get("x", "length")].isin(ends)].assign(low=math.nan, high=math.nan)
        made = {name.text: row for name, *row in Curves(own, results.looks, **look).rows()}
        groups.append((title, len(ends)))
        head.extend(map(count, ends))
        for arm, row in zip(results.arms, rows, strict=True):
            row += made.get(arm.label, [DASH] * len(ends))

    for source in _sources(results):
        cells = results.cells("perplexity", source=source)
        ratio = to_trained(results, cells)
        add(f"perplexity, {source}", cells, _ends(results, source), small=ratio)
    found = results.cells("accuracy", task="passkey", depth=None)
    if len(found):
        ends = list(dict.fromkeys((found.length.min(), found.length.max())))
        add("passkey found", found, ends, write=percent, pick=max)
    if _asked(results):
        answers = results.cells("answer", task="arithmetic")
        add("correct answers, operators", answers, _asked(results), x="operators", write=percent,
            pick=max)  # fmt: skip
    below = (f"Columns are lengths in tokens; {TIMES} is the ratio to the value at the model's "
             "training length. ")  # fmt: skip
    best = "Bold: the best of its column." if len(head) > 2 else ""
    note = f"{below if _sources(results) else ''}{best}"
    return Table(head=head, groups=groups, rows=rows, note=note)


def training(results: Results) -> Section | None:
    """Show the loss against tokens seen, next to steps, time, memory and faults."""
    if not results.arms:
        return None
    cells = results.cells("training_loss")
    chart = Curves(
        name="training", y_name="training loss, nats per token", cells=cells, x="stop",
        styles=results.looks, x_name="tokens seen", x_scale="linear",
    )  # fmt: skip
    costs = ("training_tokens", "training_steps", "training_seconds", "training_memory",
             "clamped_share", "training_skipped_steps")  # fmt: skip
    at = {(row.arm, row.measure): row.value for row in results.cells(*costs).itertuples()}
    rows: list[Line] = []
    for arm in results.arms:
        tokens, steps, seconds, memory, clamped, skipped = (
            at.get((arm.label, measure), math.nan) for measure in costs
        )
        losses = cells[cells.arm == arm.label].sort_values("stop").value
        rows.append([
            Cell(arm.label, style=arm.style),
            fixed(losses.iloc[-1], 2) if len(losses) else DASH,
            count(steps),
            amount(tokens / seconds) if seconds > 0 and math.isfinite(tokens) else DASH,
            duration(seconds),
            fixed(memory, 2) if math.isfinite(memory) else DASH,
            percent(clamped, 1) if math.isfinite(clamped) else DASH,
            count(skipped),
        ])  # fmt: skip
    words = ("The loss on training batches. If losses are still falling, more training might "
             "change the order of the models.")  # fmt: skip
    note = (
        "Last loss: of the last logged batch, so it is noisy. GiB: peak memory of the process "
        "(of tensors on a GPU). Clamped: share of tokens beyond the end of the intra position "
        "table. Skipped: steps with a non-finite gradient."
    )
    head = ["model", "last loss", "steps", "tokens/s", "time", "GiB", "clamped", "skipped"]
    names = ", ".join(results.unmeasured)
    missing = f"Trained but not evaluated yet: {names}. Run `bipe evaluate` to include them."
    figure = Figure(drawing=chart.draw(), table=Table(head, rows, note=note))
    blocks: list[Block] = [Words(words), *([Words(missing)] if names else []), figure]
    return Section("training", "Training", blocks)


def account(results: Results) -> Section | None:
    """Show how the numbers were made, and what they do not show."""
    if not results.arms:
        return None
    named = list(zip(results.labels, results.runs, results.environments, strict=True))
    environments = {label: found for label, _, found in named if found}
    configs = {label: redacted(dict(run.config)) for label, run, _ in named}
    blocks: list[Block] = [
        *_protocols(results),
        Heading("Interpretation and limits"),
        Items(items=_LIMITS),
        Heading("Machine and versions"),
        *_compared(environments, every=True),
        Heading("Configuration"),
        *(_compared(configs, every=False) if len(configs) > 1 else
          [Words("There is only one run; its full configuration follows.")]),
    ]  # fmt: skip
    for label, run, _ in named:
        whole = {"model": redacted(dict(run.model)), "config": configs[label]}
        if read := run.notes.get("documents"):
            whole["documents"] = redacted(dict(read))
        text = json.dumps(whole, indent=2, ensure_ascii=False, default=str)
        blocks.append(Details(summary=f"{label}: encoding, model and run", text=text))
    return Section("account", "Protocol, configuration, limits", blocks)


def _protocols(results: Results) -> list[Block]:
    rows, blocks = results.cells("perplexity"), list[Block]()
    notes = protocols(rows)
    for note in notes:
        names = ", ".join(rows[rows.note == note].arm.unique())
        whose = f" ({names})" if len(notes) > 1 else ""
        blocks.append(Words(bold=f"Perplexity{whose}: ", text=note))
    skipped = results.table[results.table.measure == "left_out"]
    if len(skipped):
        keys = ["label", "variant", "task", "source"]
        lines = [[*(str(getattr(row, key)) for key in keys),
                  DASH if math.isnan(row.length) else count(row.length), row.note]
                 for row in skipped.itertuples()]  # fmt: skip
        head = ["not measured", "variant", "task", "source", "length", "reason"]
        blocks.append(Table(head, lines, words=True))
    return [Heading("Protocol"), *blocks] if blocks else []


def _compared(found: Mapping[str, Any], *, every: bool) -> list[Block]:
    """Return tables of dotted keys: one with values that all share, one with a column per run."""
    flats = [_flat(held) for held in found.values()]
    keys = dict.fromkeys(key for flat in flats for key in flat)
    rows = [[key, *(flat.get(key, DASH) for flat in flats)] for key in keys]
    same = [row[:2] for row in rows if len(set(row[1:])) == 1]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    blocks: list[Block] = []
    if every and same:
        blocks.append(Table(["key", "value"], same, words=True))
    if differ:
        blocks.append(Table(["differs in", *found], differ, words=True))
    elif not every:
        blocks.append(Words("The configurations of these runs are identical."))
    return blocks


def _flat(held: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in held.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            flat[f"{prefix}{name}"] = text
    return flat
