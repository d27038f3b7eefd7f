"""Runs that differ by their seed alone, brought together: means, and how sure they are.

Perplexities are averaged as losses, hence geometrically. Intervals are those of Student's t for
the mean over seeds at 95%; arms are compared seed by seed, because runs of one seed have the same
batches and the same weights to start from.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from train.report.compare import measured
from train.report.records import ByPosition, Passkey, Run, Scores, Training

# 97.5% points of Student's t for 1, 2, 3 ... degrees of freedom; the normal one lies below all.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
# What may differ between the runs of an arm.
_FREE = {"seed", "name", "out", "data", "if_exists", "evaluate", "report", "generate", "logger"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Perplexity of an arm over that of another, of the seeds that both have.

    ratio: geometric mean. half: half the width of its 95% interval, as a logarithm.
    """

    ratio: float
    half: float
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out equality."""
        return abs(math.log(self.ratio)) > self.half


def arms(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs, those of several seeds as one with its `members`, in the order of the first."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    merged = [_merged(group) for group in groups.values()]
    names = Counter(run.model.name for run in merged if run.members)
    return tuple(
        replace(run, label=_label(run, alone=names[run.model.name] == 1)) if run.members else run
        for run in merged
    )


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95% interval of a mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    if not all(map(math.isfinite, values)):
        return math.nan
    freedom = len(values) - 1
    return (_T[freedom - 1] if freedom <= len(_T) else 2.0) * stdev(values) / math.sqrt(len(values))


def difference(arm: Run, other: Run, source: str, length: int) -> Difference | None:
    """How an arm compares with another at a length; None without two seeds that both have."""
    theirs = {run.training.seed: run for run in other.members}
    logs = []
    for run in arm.members:
        twin = theirs.get(run.training.seed)
        values = [measured(each, source, length) for each in (run, twin) if each is not None]
        if len(values) == 2 and all(v is not None and math.isfinite(v) and v > 0 for v in values):
            logs.append(math.log(values[0] / values[1]))  # type: ignore[operator]
    if len(logs) < 2:
        return None
    return Difference(ratio=math.exp(fmean(logs)), half=half_width(logs), seeds=len(logs))


def _key(run: Run) -> str:
    """All that decides what a run is, but its seed; a run that tells no seed is on its own."""
    if run.training.seed is None:
        return run.label
    kept = {name: value for name, value in run.config.items() if name not in _FREE}
    told = [run.model.name, run.model.encoding, run.model.config, kept]
    return json.dumps(told, sort_keys=True, default=str)


def _label(run: Run, *, alone: bool) -> str:
    """The model's name; where other arms have it too, the folder without the seed."""
    return run.model.name if alone else _stem(run)


def _stem(run: Run) -> str:
    first = run.members[0]
    return first.folder.removesuffix(f"_{first.training.seed}")


def _merged(group: Sequence[Run]) -> Run:
    first = group[0]
    if len(group) == 1:
        return first
    return replace(
        first,
        folder=", ".join(run.folder for run in group),
        training=_training([run.training for run in group]),
        scores=_all_scores(group),
        passkey=_passkeys([run.passkey for run in group]),
        members=tuple(group),
    )


def _training(held: Sequence[Training]) -> Training:
    return replace(
        held[0],
        seconds=fmean(each.seconds for each in held),
        seed=None,
        curve=tuple(_curve(held)),
        skipped_steps=sum(each.skipped_steps for each in held),
        clipped_share=fmean(each.clipped_share for each in held),
    )


def _curve(held: Sequence[Training]) -> Iterator[tuple[float, float]]:
    """The mean loss wherever all have one."""
    losses = [dict(each.curve) for each in held]
    for tokens, _ in held[0].curve:
        if all(tokens in loss for loss in losses):
            yield tokens, fmean(loss[tokens] for loss in losses)


def _all_scores(group: Sequence[Run]) -> Mapping[str, Scores]:
    shared = [name for name in group[0].scores if all(name in run.scores for run in group)]
    return {name: _scores([run.scores[name] for run in group]) for name in shared}


def _scores(held: Sequence[Scores]) -> Scores:
    lengths = [n for n in held[0].lengths if all(n in each.lengths for each in held)]

    def column(field: str, length: int) -> list[Any]:
        return [getattr(each, field)[each.lengths.index(length)] for each in held]

    nll = [column("nll", n) for n in lengths]
    return replace(
        held[0],
        lengths=tuple(lengths),
        nll=tuple(map(fmean, nll)),
        perplexity=tuple(_exp(fmean(values)) for values in nll),
        bits_per_byte=tuple(fmean(column("bits_per_byte", n)) for n in lengths),
        tokens_scored=tuple(column("tokens_scored", n)[0] for n in lengths),
        documents=tuple(column("documents", n)[0] for n in lengths),
        by_position=_by_position([each.by_position for each in held]),
        half_widths=tuple(map(half_width, nll)),
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _by_position(held: Sequence[ByPosition | None]) -> ByPosition | None:
    first = held[0]
    places = [each for each in held if each is not None and first and each.edges == first.edges]
    if first is None or len(places) < len(held):
        return None
    columns = zip(*(each.nll for each in places), strict=True)
    return replace(first, nll=tuple(map(fmean, columns)))


def _passkeys(held: Sequence[Passkey | None]) -> Passkey | None:
    first = held[0]
    alike = [
        each for each in held
        if each and first and (each.lengths, each.depths) == (first.lengths, first.depths)
    ]  # fmt: skip
    if first is None or len(alike) < len(held):
        return None

    def mean(grids: Sequence[Sequence[Sequence[float]]]) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(map(fmean, zip(*lines, strict=True))) for lines in zip(*grids, strict=True)
        )

    return replace(
        first,
        accuracy=mean([each.accuracy for each in alike]),
        exact=mean([each.exact for each in alike]),
        trials=sum(each.trials for each in alike),
    )
