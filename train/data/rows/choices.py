"""How a run reads its data, as the configuration says it: packing, mixture and curriculum.

A curriculum has short rows first (2108.06084), with the data in the same order. Rows are packed and
shuffled only at `row_length`. An earlier stage reads each of them in equal parts with the same
targets, so an epoch loses nothing where stages change, and the state stays one integer. A document
that goes on in the next part restarts or continues like one that a row cuts.

    row_length 8     |a a a a a b b b|c c ...     a, b, c documents
    length 4         |a a a a|a b b b|c c ...     as many tokens per step (budget tokens)
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from bipe.arguments import Count
from segmenters.wording import counted
from train.errors import DataError, nearest

PackingName = Literal["concat", "best_fit", "long_first", "single"]
WHOLE = ("single", "best_fit")  # those that cut no document that fits a row
PACKINGS = get_args(PackingName)
SplitDocuments = Literal["restart", "continue"]
Budget = Literal["tokens", "rows"]
MicroBatch = Count | Literal["auto"]  # auto: as many rows at once as fit in the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How documents become rows.

    strategy: see packing.py. split_documents: whether positions "restart" or "continue" where a
    document is cut. prompt_level: level (number or name) whose first segment in each document is a
    prompt, which is not scored; then no document is cut.
    """

    strategy: PackingName = "concat"
    split_documents: SplitDocuments = "restart"
    prompt_level: int | str | None = None

    def __post_init__(self) -> None:
        for key, value, allowed in (
            ("packing", self.strategy, WHOLE),
            ("split_documents", self.split_documents, ("restart",)),
        ):
            if self.prompt_level is not None and value not in allowed:
                raise DataError(
                    f"rows.{key} must be {' or '.join(allowed)}, since documents with a prompt "
                    f"(rows.prompt_level={self.prompt_level}) are not split, was: {value}"
                )

    @property
    def continues(self) -> bool:
        return self.split_documents == "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The sources of a run and their weights.

    sources: weights by name, or a list of names; by default all sources, weighted by their rows.
    The name of a folder means all its sources, which share its weight by their tokens. temperature:
    weights are tokens^(1/T). max_epochs: per source, above which if_repeated warns or refuses.
    """

    sources: Mapping[str, float] | Sequence[str] | None = None
    temperature: float | None = None
    max_epochs: float | None = None
    if_repeated: Literal["warn", "refuse"] = "warn"


def uneven(global_batch: int, micro_batch: MicroBatch, *, devices: int, context: int) -> str:
    """Return why devices cannot share a batch, with the cure; "" if they can."""
    if devices % context:
        return (
            f"context_parallel must divide the number of devices ({devices}), was: {context}; set "
            "trainer.devices"
        )
    readers = max(1, devices // context)
    least = 1 if micro_batch == "auto" else micro_batch
    at_once, (each, rest) = least * readers, divmod(global_batch, readers)
    if global_batch % at_once == 0:
        return ""
    cure = f"rows.global_batch={at_once * max(1, round(global_batch / at_once))}"
    if not rest:
        cure = f"rows.micro_batch={max((n for n in range(1, least) if each % n == 0), default=1)}"
    shared = "" if micro_batch == "auto" else "rows.micro_batch x "
    shared += "devices" + " / context_parallel" * (context > 1)
    return (
        f"rows.global_batch must be a multiple of {shared} ({at_once}), was: {global_batch}; "
        f"set {cure}"
    )


def require_known(name: str, *, known: Mapping[str, object]) -> None:
    if name not in known:
        raise DataError(f"rows.sources.{name}: no such source; {nearest(name, known)}")


def by_temperature(tokens: Mapping[str, int], *, temperature: float) -> dict[str, float]:
    """Return weights proportional to tokens^(1/T), as mT5 (2010.11934) does with alpha = 1/T."""
    if not 0 < temperature < math.inf:
        raise DataError(f"rows.temperature must be above 0, was: {temperature}")
    # Relative to the largest, because powers of token counts can overflow for T below 1.
    largest = max(tokens.values())
    return {name: (count / largest) ** (1 / temperature) for name, count in tokens.items()}


def require_weights(
    weights: Mapping[str, float | Fraction], *, known: Mapping[str, object]
) -> None:
    for name, weight in weights.items():
        require_known(name, known=known)
        if not 0 <= weight < math.inf:
            raise DataError(f"rows.sources.{name}: a weight must be 0 or more, was: {weight}")
    if not any(weights.values()):
        raise DataError("rows.sources: at least one weight must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Steps with rows of one length.

    first, stop: steps, from 0; the last stage never stops. length: inputs of a row, in tokens.
    parts: rows of this length per row of `row_length`. consumes: rows of `row_length` per step.
    """

    first: int
    stop: int = sys.maxsize
    length: int
    parts: int
    consumes: int

    @property
    def rows(self) -> int:
        return self.consumes * self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Shorter rows in early steps.

    stages: each {length: tokens, steps: optimizer steps}, ascending; rows of `row_length` follow.
    budget: what each step has the same number of, "tokens" (so more rows if they are short) or
    "rows".
    """

    stages: Sequence[Mapping[str, int]] = ()
    budget: Budget = "tokens"

    def __post_init__(self) -> None:
        before = 0
        for index, stage in enumerate(self.stages):
            key = f"rows.curriculum[{index}]"
            if set(stage) != {"length", "steps"}:
                rule = "must be {length: tokens, steps: steps}"
                raise DataError(f"{key} {rule}, was: {dict(stage)}")
            length, steps = stage["length"], stage["steps"]
            if steps < 1:
                raise DataError(f"{key}.steps must be at least 1, was: {steps}")
            if length <= before:
                rule = f"must be above the previous one ({before})"
                raise DataError(f"{key}.length {rule}, was: {length}")
            before = length


class Stages:
    """The stages of a run, by optimizer step. global_batch: rows per step of the last stage."""

    def __init__(
        self, *, row_length: int, global_batch: int, curriculum: Curriculum | None = None
    ) -> None:
        self.curriculum = curriculum or Curriculum()
        self.row_length, self.global_batch = row_length, global_batch
        self.each: list[Stage] = []
        first = 0
        for index, asked in enumerate(self.curriculum.stages):
            self.each.append(self._stage(first, asked, key=f"rows.curriculum[{index}].length"))
            first = self.each[-1].stop
        last = Stage(first=first, length=row_length, parts=1, consumes=global_batch)
        self.each.append(last)

    def refuse_short(self, steps: int) -> None:
        """Raise DataError for a run that ends before its rows are whole."""
        if (last := self.each[-1].first) >= steps:
            raise DataError(
                f"rows.curriculum takes {counted(last, 'step')} before rows have row_length, but "
                f"the run has only {steps}: shorten it, or set more steps"
            )

    def at(self, step: int) -> Stage:
        return next(stage for stage in self.each if step < stage.stop)

    def consumed(self, steps: int) -> int:
        """Return how many rows of `row_length` the first steps consume."""
        return sum(
            (min(steps, stage.stop) - stage.first) * stage.consumes
            for stage in self.each
            if stage.first < steps
        )

    def steps(self, rows: int) -> int:
        """Return how many steps it takes to consume `rows` rows of `row_length`, rounded up."""
        stage = next(stage for stage in self.each if rows <= self.consumed(stage.stop))
        # Minus a floor of the negative is a ceiling.
        return stage.first - (self.consumed(stage.first) - rows) // stage.consumes

    def _stage(self, first: int, asked: Mapping[str, int], *, key: str) -> Stage:
        length = asked["length"]
        if length >= self.row_length or self.row_length % length:
            raise DataError(
                f"{key} must divide row_length ({self.row_length}) and be below it, since rows are "
                f"split into equal parts, was: {length}"
            )
        parts, consumes, stop = self.row_length // length, self.global_batch, first + asked["steps"]
        if self.curriculum.budget == "rows":
            if consumes % parts:
                raise DataError(
                    f"{key} must fit a step of whole rows: rows.global_batch ({consumes}) must be "
                    f"a multiple of row_length / length ({parts}), or set rows.budget=tokens"
                )
            consumes //= parts
        return Stage(first=first, stop=stop, length=length, parts=parts, consumes=consumes)
