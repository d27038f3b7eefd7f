"""What is seen, in plain sentences, computed from the numbers.

The sentences name the lowest and the highest, say by how much, and say so when a model diverged or
does not beat guessing. They hold no adjective of praise and no explanation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from train.report.compare import (
    above_chance,
    asked_at,
    found,
    highest,
    lengths,
    lowest,
    measured,
    paired_ratio,
    pairs,
    passkey_lengths,
    retrievals,
    right,
    sources,
    trained_length,
)
from train.report.formats import count, duration, listed, percent, short, spread
from train.report.records import Run, Training

_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def trained_on(runs: Sequence[Run]) -> str:
    """What was trained, on what, how long, and on which machine it was evaluated."""
    models = _NUMBERS[len(runs)] if len(runs) < len(_NUMBERS) else count(len(runs))
    plural, each = ("s", "each ") if len(runs) > 1 else ("", "")
    training = [run.training for run in runs]
    rows = spread((t.row_length for t in training), count)
    mix = list(dict.fromkeys(name for t in training for name in t.sources))
    shares = [f"{spread((_share(t, n) for t in training), percent)} {n}" for n in mix]
    of = f" ({listed(shares)})" if shares else ""
    machines = list(dict.fromkeys(_machine(run) for run in runs))
    return (
        f"{models} model{plural} of {spread(run.model.parameters for run in runs)} parameters, "
        f"{each}trained on {spread(t.tokens for t in training)} tokens{of} in rows of {rows} "
        f"tokens: {spread((t.steps for t in training), count)} steps, "
        f"{spread((t.seconds for t in training), duration)}{each and ' each'}. "
        f"Evaluated on {listed(machines)}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    subject: str
    sentence: str


def observations(runs: Sequence[Run]) -> list[Observation]:
    """What is seen on each source, then of retrieval, then what a single run cannot tell."""
    seen = [
        *((source, _on_source(runs, source)) for source in sources(runs)),
        ("Arithmetic", _arithmetic(runs)),
        ("Retrieval", _retrieval(runs)),
        ("Certainty", _seeds(runs)),
    ]
    return [Observation(subject=about, sentence=said) for about, said in seen if said]


def _on_source(runs: Sequence[Run], source: str) -> str:
    measured_at = lengths(runs, source)
    trained = trained_length(runs)
    near = trained if trained in measured_at else measured_at[0]
    far = measured_at[-1]
    parts = [_extremes(runs, source, length, trained) for length in dict.fromkeys((near, far))]
    for pair in pairs(runs):
        ratios = [paired_ratio(pair, source, n) for n in measured_at]
        finite = [ratio for ratio in ratios if ratio is not None and math.isfinite(ratio)]
        if finite:
            lower = sum(ratio < 1 for ratio in finite)
            parts.append(
                f"{pair.bilevel.label} is below {pair.flat.label} "
                f"at {lower} of {len(finite)} lengths."
            )
    return " ".join(parts)


def _extremes(runs: Sequence[Run], source: str, length: int, trained: int | None) -> str:
    values = {run.label: measured(run, source, length) for run in runs}
    finite = {k: v for k, v in values.items() if v is not None and math.isfinite(v)}
    broken = [k for k, v in values.items() if v is not None and not math.isfinite(v)]
    parts = []
    if len(finite) == 1:
        (label, value), *_ = finite.items()
        parts.append(f"{label} has perplexity {short(value)}")
    elif finite:
        low, high = lowest(finite.values(), short), highest(finite.values(), short)
        if low == high:
            parts.append(f"all models have perplexity {low}")
        else:
            parts.append(f"{_holders(finite, low)} the lowest perplexity, {low}")
            parts.append(f"{_holders(finite, high)} the highest, {high}")
    if broken:
        parts.append(f"{listed(broken)} {_has(broken)} no finite value")
    return f"{_place(length, trained)} {'; '.join(parts) or 'nothing was measured'}."


def _arithmetic(runs: Sequence[Run]) -> str:
    return " ".join(_answers(runs, operators) for operators in asked_at(runs))


def _answers(runs: Sequence[Run], operators: int) -> str:
    held = {run.label: right(run.arithmetic, "answer", operators) for run in runs if run.arithmetic}
    shares = {k: share for k, share in held.items() if share is not None and math.isfinite(share)}
    at = f"Of problems with {operators} operator{'s' * (operators > 1)},"
    if not shares:
        return f"{at} no model has a finite share of right answers."
    low, high = percent(min(shares.values())), percent(max(shares.values()))
    tops = [label for label, share in shares.items() if percent(share) == high]
    lows = [label for label, share in shares.items() if percent(share) == low]
    if low == high:
        return f"{at} {listed(tops)} {_has(tops)} {high} right."
    return f"{at} {listed(tops)} {_has(tops)} the most right, {high}; {listed(lows)} {low}."


def _retrieval(runs: Sequence[Run]) -> str:
    held = retrievals(runs)
    if not held:
        return ""
    far = passkey_lengths(runs)[-1]
    shares = {label: found(passkey).get(far, math.nan) for label, passkey in held.items()}
    finite = {label: share for label, share in shares.items() if math.isfinite(share)}
    if not finite:
        return f"Passkey retrieval at {count(far)} tokens has no finite value for any model."
    chance = spread((held[label].chance for label in finite), percent)
    best = percent(max(finite.values()))
    tops = [label for label, share in finite.items() if percent(share) == best]
    clear = [label for label, share in finite.items() if above_chance(held[label], share)]
    names = f" ({listed(tops)})" if len(finite) > 1 else ""
    above = f"{listed(clear)} {_has(clear, 'is', 'are')}" if clear else "no model is"
    return (
        f"Passkey retrieval at {count(far)} tokens, mean over depths: the highest is "
        f"{best}{names}, where guessing gives {chance}; {above} above "
        "guessing by more than two standard errors."
    )


def _seeds(runs: Sequence[Run]) -> str:
    several = {len(run.members) for run in runs}
    if min(several) > 1:
        return (
            f"Each number is a mean over {spread(several, count)} seeds (of losses, so that "
            "perplexities are averaged geometrically); intervals are 95% intervals of these means, "
            "and tell how much other seeds would change, not how other texts would."
        )
    kinds = {(run.model.family, run.model.levels, run.model.name) for run in runs}
    if len(kinds) < len(runs):
        return ""
    return (
        "Each model was trained once: nothing here tells how much another seed would change, "
        "so differences of a few percent may be chance."
    )


def _place(length: int, trained: int | None) -> str:
    if trained is None:
        return f"At {count(length)} tokens,"
    if length == trained:
        return f"At the training length, {count(length)} tokens,"
    return f"At {count(length)} tokens, {length / trained:.3g} times the training length,"


def _holders(values: dict[str, float], shown: str | None) -> str:
    names = [label for label, value in values.items() if short(value) == shown]
    return f"{listed(names)} {_has(names)}"


def _has(names: Sequence[str], one: str = "has", many: str = "have") -> str:
    return one if len(names) == 1 else many


def _share(training: Training, source: str) -> float:
    total = sum(training.sources.values())
    return training.sources.get(source, 0.0) / total if total else math.nan


def _machine(run: Run) -> str:
    told = run.environment
    if told.get("gpu"):
        return str(told["gpu"])
    cpu = told.get("cpu") or told.get("platform") or "an unnamed machine"
    threads = told.get("threads")
    return f"{cpu} ({threads} thread{'s' * (threads != 1)})" if threads else str(cpu)
