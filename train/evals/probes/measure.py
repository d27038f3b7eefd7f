"""Runs probes on a model: accuracy by length and depth, and every trial with its distances.

Trials are functions of (seed, probe, length, depth, number) and of the held-out text: the same for
all models, on every machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bipe import Decoder
from train.evals.probes import COPIES, KINDS
from train.evals.probes.copied import CUE, Repeat, copied
from train.evals.probes.draft import Kind
from train.evals.probes.draw import Draw
from train.evals.probes.haystack import Haystack
from train.evals.probes.layout import Trial, trial
from train.evals.probes.positions import TASK as POSITIONS_TASK
from train.evals.probes.positions import positions
from train.evals.probes.rank import shares_found
from train.evals.probes.text import Texts
from train.evals.probes.written import matches

RANKED = (
    "accuracy: of what is asked for, the share among as many of the likeliest of {candidates} "
    "candidates (by the probability of all tokens; chance {chance:.2f})"
)
WRITTEN = (
    "written: greedy decoding of {max_new} tokens, RULER's string match ({rule}), in which a "
    "number inside a longer one counts"
)
COPIED = (
    "accuracy: share of the tokens of the second appearance that are the likeliest, but for its "
    "first {cue}; first, second: loss in nats of the two appearances"
)
_TASKS = {
    "copy": "A few random tokens stand at a depth of held-out text, and again at the end.",
    "induction": "Random tokens fill half of the context, and come again in the other half.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured: lengths in tokens, depths as shares, trials a cell.

    scoring: "rank", "write" or both. tokens_per_batch: of contexts that are read at once.
    """

    lengths: Sequence[int]
    depths: Sequence[float]
    trials: int
    candidates: int
    scoring: Sequence[str]
    tokens_per_batch: int
    seed: int


def probe(name: str, model: Decoder, hay: Haystack, texts: Texts, *, plan: Plan) -> dict[str, Any]:
    """One probe at all lengths and depths; lengths without room for it are left out."""
    if name == "positions":
        return _positions(model, hay, texts, plan)
    measured = _copies if name in COPIES else _retrieved
    found = measured(name, model, hay, texts, plan)
    found["protocol"] = (
        f"{found['task']} {found['protocol']}. Held-out text: {hay.name}"
        f"{', which comes again where a context is longer' * (len(hay) < max(plan.lengths))}; "
        f"{plan.trials} trials a cell; segments by the rules of the data."
    )
    return found


def _depths(name: str, plan: Plan) -> list[float] | None:
    """The depths of a probe; None if it has none."""
    deep = name == "copy" or (name in KINDS and KINDS[name].deep)
    return list(plan.depths) if deep else None


def _cells(name: str, plan: Plan, length: int) -> list[tuple[float | None, list[Draw]]]:
    depths: Sequence[float | None] = _depths(name, plan) or [None]
    return [
        (
            depth,
            [
                Draw(plan.seed, name, length, -1 if depth is None else round(1000 * depth), number)
                for number in range(plan.trials)
            ],
        )
        for depth in depths
    ]


def _retrieved(
    name: str, model: Decoder, hay: Haystack, texts: Texts, plan: Plan
) -> dict[str, Any]:
    kind = KINDS[name]
    table = _Table(name, plan, ("accuracy", "written"))
    counts: set[tuple[int, int]] = set()
    for length in plan.lengths:
        cells = []
        for depth, draws in _cells(name, plan, length):
            trials = [
                trial(kind, hay, texts, length=length, depth=depth,
                      candidates=plan.candidates, draw=draw)
                for draw in draws
            ]  # fmt: skip
            made = [each for each in trials if each is not None]
            if len(made) < len(trials):
                break
            counts |= {(int(each.right.sum()), len(each.right)) for each in made}
            cells.append((depth, made, _scores(model, made, kind, texts, plan)))
        else:
            table.add(length, cells)
    answers, candidates = next(iter(counts), (0, 0))
    return {
        "task": kind.task,
        "protocol": _protocol(kind, plan, answers, candidates),
        **table.result(),
        "chance": answers / candidates if counts else None,
    }


def _protocol(kind: Kind, plan: Plan, answers: int, candidates: int) -> str:
    said = []
    if "rank" in plan.scoring and candidates:
        said.append(RANKED.format(candidates=candidates, chance=answers / candidates))
    if "write" in plan.scoring:
        rule = "one answer is enough" if kind.any_of else "share of the answers"
        said.append(WRITTEN.format(max_new=kind.max_new, rule=rule))
    return "; ".join(said)


def _scores(
    model: Decoder, trials: list[Trial], kind: Kind, texts: Texts, plan: Plan
) -> list[dict[str, Any]]:
    """accuracy and written of each trial, None where not asked for."""
    scores: list[dict[str, Any]] = []
    for batch in _batches(trials, plan):
        ranked: list[Any] = [None] * len(batch)
        wrote: list[Any] = [(None, None)] * len(batch)
        if "rank" in plan.scoring:
            ranked = list(shares_found(model, batch))
        if "write" in plan.scoring:
            wrote = list(matches(model, batch, kind=kind, texts=texts))
        for accuracy, (share, text) in zip(ranked, wrote, strict=True):
            scores.append({"accuracy": accuracy, "written": share, "text": text})
    return scores


def _copies(name: str, model: Decoder, hay: Haystack, texts: Texts, plan: Plan) -> dict[str, Any]:
    table = _Table(name, plan, ("accuracy", "first", "second"))
    for length in plan.lengths:
        cells = []
        for depth, draws in _cells(name, plan, length):
            repeats = [
                COPIES[name](hay, texts, length=length, depth=depth, draw=draw) for draw in draws
            ]
            made = [each for each in repeats if each is not None]
            if len(made) < len(repeats):
                break
            scores = [
                {"accuracy": one.accuracy, "first": one.first, "second": one.second}
                for batch in _batches(made, plan)
                for one in copied(model, batch)
            ]
            cells.append((depth, made, scores))
        else:
            table.add(length, cells)
    return {
        "task": _TASKS[name],
        "protocol": COPIED.format(cue=CUE),
        **table.result(),
        "chance": None,
    }


def _positions(model: Decoder, hay: Haystack, texts: Texts, plan: Plan) -> dict[str, Any]:
    length = max(plan.lengths)
    curves = positions(
        model,
        hay,
        texts,
        length=length,
        trials=plan.trials,
        draw=lambda number: Draw(plan.seed, "positions", length, number),
        rows=max(1, plan.tokens_per_batch // length),
    )
    told = f"{POSITIONS_TASK} Means in octaves over {plan.trials} texts of {hay.name}."
    return {"task": POSITIONS_TASK, "protocol": told, "length": length, "curves": curves}


def _batches(items: list[Any], plan: Plan) -> list[list[Any]]:
    """All of one length, as many at once as the batch allows."""
    size = max(1, plan.tokens_per_batch // len(items[0].tokens))
    return [items[start : start + size] for start in range(0, len(items), size)]


class _Table:
    """Means by length and depth, and the trials behind them."""

    def __init__(self, name: str, plan: Plan, scores: Sequence[str]) -> None:
        self._depths, self._trials = _depths(name, plan), plan.trials
        self._lengths: list[int] = []
        self._grids: dict[str, list[list[float | None]]] = {
            grid: [] for grid in (*scores, "distance_tokens", "distance_segments")
        }
        self._results: dict[str, list[Any]] = {}

    def add(
        self,
        length: int,
        cells: Sequence[tuple[float | None, Sequence[Trial | Repeat], list[dict[str, Any]]]],
    ) -> None:
        """The cells of one length: depth, trials, and the scores of each."""
        self._lengths.append(length)
        rows = []
        for depth, trials, scores in cells:
            rows.append(
                [
                    {
                        "length": length,
                        "depth": depth,
                        "distance_tokens": each.distance_tokens,
                        "distance_segments": each.distance_segments,
                        **score,
                    }
                    for each, score in zip(trials, scores, strict=True)
                ]
            )
        for grid, held in self._grids.items():
            held.append([_mean([one[grid] for one in row]) for row in rows])
        for one in (one for row in rows for one in row):
            for column, value in one.items():
                self._results.setdefault(column, []).append(value)

    def result(self) -> dict[str, Any]:
        return {
            "lengths": self._lengths,
            "depths": self._depths,
            "trials": self._trials,
            **self._grids,
            "results": self._results,
        }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
