"""What the report compares: lengths, ratios, pairs, windows and means. Numbers in, numbers out.

Every rule by which one model is called lower than another stands here, once: the page, its
sentences and the terminal all ask this file.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from train.report.records import Arithmetic, ByPosition, Passkey, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One family in its two forms, trained from one seed."""

    flat: Run
    bilevel: Run


def sources(runs: Sequence[Run]) -> list[str]:
    """All sources of all runs, in the order in which they first appear."""
    return list(dict.fromkeys(name for run in runs for name in run.scores))


def lengths(runs: Sequence[Run], source: str) -> list[int]:
    """All lengths in tokens at which some run was measured on the source."""
    return sorted({n for run in runs if source in run.scores for n in run.scores[source].lengths})


def trained_length(runs: Sequence[Run]) -> int | None:
    """The training length in tokens, or None where the runs differ in it."""
    different = {run.training.row_length for run in runs}
    return different.pop() if len(different) == 1 else None


def measured(run: Run, source: str, length: int, field: str = "perplexity") -> float | None:
    """One number, or None where the run was not measured there."""
    scores = run.scores.get(source)
    if scores is None or length not in scores.lengths:
        return None
    return getattr(scores, field)[scores.lengths.index(length)]


def to_trained(run: Run, source: str, length: int) -> float | None:
    """Perplexity at a length over that at the run's own training length, where it is finite."""
    value = measured(run, source, length)
    base = measured(run, source, run.training.row_length)
    if value is None or base is None or length == run.training.row_length:
        return None
    if not math.isfinite(value):
        return None
    return value / base if math.isfinite(base) and base else math.nan


def lowest(values: Iterable[float | None], write) -> str | None:
    """The smallest finite value as `write` shows it: what is written alike is a tie."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return write(min(finite)) if len(finite) > 1 else None


def highest(values: Iterable[float | None], write) -> str | None:
    """The largest finite value as `write` shows it."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return write(max(finite)) if len(finite) > 1 else None


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """Flat and bilevel runs of one family and one seed, where there is exactly one of each."""
    groups: dict[tuple[str, int | None], dict[str, list[Run]]] = {}
    for run in runs:
        group = groups.setdefault((run.model.family, run.training.seed), {})
        group.setdefault(run.model.levels, []).append(run)
    return [
        Pair(flat=group["flat"][0], bilevel=group["bilevel"][0])
        for group in groups.values()
        if len(group.get("flat", ())) == len(group.get("bilevel", ())) == 1
    ]


def paired_ratio(pair: Pair, source: str, length: int) -> float | None:
    """Perplexity of the bilevel form over that of the flat form; below 1, bilevel is lower."""
    flat = measured(pair.flat, source, length)
    bilevel = measured(pair.bilevel, source, length)
    if flat is None or bilevel is None:
        return None
    return bilevel / flat if math.isfinite(bilevel) and math.isfinite(flat) and flat else math.nan


def octaves(trained: int, length: int) -> list[tuple[int, int]]:
    """Windows of positions: up to the training length, then each twice as wide, up to `length`."""
    windows, low, high = [], 0, trained
    while low < length:
        windows.append((low, min(high, length)))
        low, high = high, 2 * high
    return windows


def window_mean(by_position: ByPosition, low: int, high: int) -> float | None:
    """Token-weighted loss in a window; a bin belongs to the window that holds its middle."""
    edges = by_position.edges
    inside = [
        (nll, tokens)
        for nll, tokens, a, b in zip(
            by_position.nll, by_position.tokens, edges, edges[1:], strict=False
        )
        if low <= (a + b) / 2 < high and tokens
    ]
    total = sum(tokens for _, tokens in inside)
    return sum(nll * tokens for nll, tokens in inside) / total if total else None


def retrievals(runs: Sequence[Run]) -> dict[str, Passkey]:
    """The retrieval results of the runs that have them, by label."""
    return {run.label: run.passkey for run in runs if run.passkey}


def found(passkey: Passkey, field: str = "accuracy") -> dict[int, float]:
    """The mean over depths at each length in tokens; not finite where any depth is not."""
    return dict(zip(passkey.lengths, map(fmean, getattr(passkey, field)), strict=True))


def passkey_lengths(runs: Sequence[Run]) -> list[int]:
    """All lengths in tokens at which some run was asked for a key."""
    return sorted({length for held in retrievals(runs).values() for length in held.lengths})


def right(held: Arithmetic, measure: str, operators: int) -> float | None:
    """The share of what is right at a number of operators; None where it was not asked for."""
    if operators not in held.operators:
        return None
    return getattr(held, measure)[held.operators.index(operators)]


def asked_operators(held: Iterable[Arithmetic]) -> list[int]:
    """All numbers of operators that some model was asked for."""
    return sorted({n for each in held for n in each.operators})


def in_distribution(held: Arithmetic) -> int:
    """The most operators that were trained on and asked for, or the fewest asked for."""
    known = [n for n in held.operators if n <= max(held.trained)]
    return known[-1] if known else held.operators[0]


def asked_at(runs: Sequence[Run]) -> list[int]:
    """The most operators of training, and the most that were asked for; none without arithmetic."""
    held = [run.arithmetic for run in runs if run.arithmetic]
    return sorted({in_distribution(each) for each in held} | set(asked_operators(held)[-1:]))


def placed(runs: Sequence[Run], source: str) -> dict[str, ByPosition]:
    """The loss by position of the runs that have it on the source, by label."""
    scores = ((run.label, run.scores.get(source)) for run in runs)
    return {label: held.by_position for label, held in scores if held and held.by_position}


def above_chance(passkey: Passkey, share: float) -> bool:
    """Whether a mean over depths is more than two standard errors of guessing above chance."""
    guesses = passkey.trials * len(passkey.depths)
    error = math.sqrt(max(0.0, passkey.chance * (1 - passkey.chance)) / guesses)
    return math.isfinite(share) and share > passkey.chance + 2 * error


def flatten(mapping: Mapping, prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys; lists stay whole."""
    flat: dict[str, object] = {}
    for name, value in mapping.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, prefix=f"{key}.")
        else:
            flat[key] = value
    return flat
