"""A curriculum of row lengths: short rows first (2108.06084), with the data in the same order.

Rows are packed and shuffled only at `row_length`. An earlier stage reads each of them in equal
parts with the same targets, so an epoch loses nothing where stages change, and the state stays one
integer. A document that goes on in the next part restarts or continues like one that a row cuts.

    row_length 8     |a a a a a b b b|c c ...     a, b, c documents
    length 4         |a a a a|a b b b|c c ...     as many tokens per step (budget tokens)
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.errors import DataError

BUDGETS = ("tokens", "rows")


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
    budget: str = "tokens"

    def __post_init__(self) -> None:
        if self.budget not in BUDGETS:
            raise DataError(f"rows.budget must be one of {', '.join(BUDGETS)}, was: {self.budget}")
        for index, given in enumerate(self.stages):
            key = f"rows.curriculum[{index}]"
            if set(given) != {"length", "steps"}:
                rule = "must be {length: tokens, steps: steps}"
                raise DataError(f"{key} {rule}, was: {dict(given)}")
            length, before = given["length"], self.stages[index - 1]["length"] if index else 0
            if given["steps"] < 1:
                raise DataError(f"{key}.steps must be at least 1, was: {given['steps']}")
            if length <= before:
                rule = f"must be above the previous one ({before})"
                raise DataError(f"{key}.length {rule}, was: {length}")


class Stages:
    """The stages of a run, by optimizer step. global_batch: rows per step of the last stage."""

    def __init__(
        self, *, row_length: int, global_batch: int, curriculum: Curriculum | None = None
    ) -> None:
        self.curriculum = curriculum or Curriculum()
        self.row_length, self.global_batch = row_length, global_batch
        self.each: list[Stage] = []
        first = 0
        for index, given in enumerate(self.curriculum.stages):
            self.each.append(self._stage(first, given, key=f"rows.curriculum[{index}].length"))
            first = self.each[-1].stop
        last = Stage(first=first, length=row_length, parts=1, consumes=global_batch)
        self.each.append(last)

    def at(self, step: int) -> Stage:
        return next(stage for stage in self.each if step < stage.stop)

    def consumed(self, steps: int) -> int:
        return sum(
            (min(steps, stage.stop) - stage.first) * stage.consumes
            for stage in self.each
            if stage.first < steps
        )

    def steps(self, rows: int) -> int:
        """Return how many steps it takes to consume `rows` rows of `row_length`, rounded up."""
        stage = next(one for one in self.each if rows <= self.consumed(one.stop))
        return stage.first - (self.consumed(stage.first) - rows) // stage.consumes

    def _stage(self, first: int, given: Mapping[str, int], *, key: str) -> Stage:
        length = given["length"]
        if length >= self.row_length or self.row_length % length:
            raise DataError(
                f"{key} must divide row_length ({self.row_length}) and be below it, since rows are "
                f"split into equal parts, was: {length}"
            )
        parts, consumes, stop = self.row_length // length, self.global_batch, first + given["steps"]
        if self.curriculum.budget == "rows":
            if consumes % parts:
                raise DataError(
                    f"{key} must fit a step of whole rows: rows.global_batch ({consumes}) must be "
                    f"a multiple of row_length / length ({parts}), or set rows.budget=tokens"
                )
            consumes //= parts
        return Stage(first=first, stop=stop, length=length, parts=parts, consumes=consumes)
