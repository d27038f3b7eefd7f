"""Runs of several seeds as one run: the mean of everything that all of them have.

Perplexities are averaged as losses, hence geometrically; shares and losses as they are. What one
of the seeds lacks (a source, a length, a probe) the mean lacks too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from train.report.intervals import half_width, interval
from train.report.probes import mean_probe
from train.report.records import (
    Arithmetic,
    ByPosition,
    Passkey,
    Run,
    Scores,
    Stretched,
    Training,
)

_LARGEST = 700.0  # nats, beyond which a perplexity is no float


def merged(group: Sequence[Run]) -> Run:
    """One run of the means, with the runs as its members; a single run as it is."""
    first = group[0]
    if len(group) == 1:
        return first
    return replace(
        first,
        folder=", ".join(run.folder for run in group),
        training=_training([run.training for run in group]),
        scores=_all_scores(group),
        passkey=_passkeys([run.passkey for run in group]),
        arithmetic=_arithmetic([run.arithmetic for run in group]),
        probes={
            name: mean_probe([run.probes[name] for run in group])
            for name in _shared([run.probes for run in group])
        },
        stretched=tuple(_all_stretched([run.stretched for run in group])),
        members=tuple(group),
    )


def _shared(held: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names that all have, in the order of the first."""
    return [name for name in held[0] if all(name in each for each in held)]


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
    shared = _shared([run.scores for run in group])
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
    return math.exp(value) if value < _LARGEST else math.inf


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


def _arithmetic(held: Sequence[Arithmetic | None]) -> Arithmetic | None:
    found = [each for each in held if each is not None]
    if len(found) < len(held):
        return None
    first = found[0]
    operators = [n for n in first.operators if all(n in each.operators for each in found)]
    if not operators:
        return None

    def columns(field: str) -> list[list[Any]]:
        return [
            [getattr(each, field)[each.operators.index(n)] for each in found] for n in operators
        ]

    answers = columns("answer")
    return replace(
        first,
        operators=tuple(operators),
        problems=tuple(map(sum, columns("problems"))),
        answer=tuple(map(fmean, answers)),
        steps=tuple(map(fmean, columns("steps"))),
        tokens=tuple(map(fmean, columns("tokens"))),
        interval=tuple(interval(shares, share=True) or (math.nan,) * 2 for shares in answers),
    )


def _all_stretched(held: Sequence[Sequence[Stretched]]) -> Iterator[Stretched]:
    """Each way to stretch that all seeds have, at lengths and with factors that are the same."""
    lines = [{line.name: line for line in each} for each in held]
    for name in _shared(lines):
        alike = [each[name] for each in lines]
        if len({(line.lengths, line.factors) for line in alike}) == 1:
            yield _stretched(alike)


def _stretched(held: Sequence[Stretched]) -> Stretched:
    sources = _shared([each.perplexity for each in held])

    def columns(field: str, source: str) -> Iterator[tuple[float, ...]]:
        return zip(*(getattr(each, field)[source] for each in held), strict=True)

    return replace(
        held[0],
        perplexity={name: tuple(map(_geometric, columns("perplexity", name))) for name in sources},
        bits_per_byte={name: tuple(map(fmean, columns("bits_per_byte", name))) for name in sources},
        tokens_scored={name: held[0].tokens_scored[name] for name in sources},
        passkey=tuple(map(fmean, zip(*(each.passkey for each in held), strict=True))),
    )


def _geometric(values: Sequence[float]) -> float:
    if not all(math.isfinite(value) and value > 0 for value in values):
        return math.nan
    return _exp(fmean(map(math.log, values)))
