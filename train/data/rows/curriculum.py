"""A curriculum of row lengths: short rows first (2108.06084), without another order of the data.

Rows are packed and shuffled at `row_length` alone. In an earlier stage each is read in equal parts,
which are the rows of a shorter length: they have the same targets, each once, so an epoch loses
nothing where stages change, the n-th row stays a pure function of (seed, n), and the state stays
one integer, rows of `row_length` consumed. A document that goes on in the next part restarts or
continues like one that is cut by a row.

    row_length 8     |a a a a a b b b|c c ...     a, b, c documents
    length 4         |a a a a|a b b b|c c ...     as many tokens a step (budget tokens)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.errors import DataError

BUDGETS = ("tokens", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Steps with rows of one length.

    first, stop: steps, from 0; the last stage has no end. length: inputs of a row, in tokens.
    parts: rows of this length in one of `row_length`. consumes: rows of `row_length` a step.
    """

    first: int
    stop: int | None
    length: int
    parts: int
    consumes: int

    @property
    def rows(self) -> int:
        """Rows of this length in a step."""
        return self.consumes * self.parts


class Curriculum:
    """Stages of row lengths, by optimizer step.

    stages: those before the last, each {length: tokens, steps: optimizer steps}, rising; the last
    has `row_length` and goes on. budget: what a step has as much of in each stage, "tokens"
    (shorter rows are more) or "rows". global_batch: rows of a step of the last stage.
    """

    def __init__(
        self,
        *,
        row_length: int,
        global_batch: int,
        stages: Sequence[Mapping[str, int]] = (),
        budget: str = "tokens",
    ) -> None:
        if budget not in BUDGETS:
            raise DataError(f"rows.budget must be one of {', '.join(BUDGETS)}, was: {budget}")
        self.row_length = row_length
        self.stages: list[Stage] = []
        for index, given in enumerate(stages):
            key = f"rows.curriculum[{index}]"
            length, steps = _read(given, key=key)
            before = self.stages[-1].length if self.stages else 0
            if not before < length < row_length:
                raise DataError(
                    f"{key}.length must be above the one before ({before}) and below row_length "
                    f"({row_length}), was: {length}"
                )
            if row_length % length:
                raise DataError(
                    f"{key}.length must divide row_length ({row_length}), was: {length}: a row is "
                    "read in equal parts"
                )
            parts = row_length // length
            if budget == "rows" and global_batch % parts:
                raise DataError(
                    f"{key}.length must make whole rows of a step: rows.global_batch "
                    f"({global_batch}) must be a multiple of row_length / length ({parts}), or "
                    "set rows.budget=tokens"
                )
            self._add(steps, length, global_batch // parts if budget == "rows" else global_batch)
        self._add(None, row_length, global_batch)

    def at(self, step: int) -> Stage:
        """The stage of a step."""
        return next(stage for stage in self.stages if stage.stop is None or step < stage.stop)

    def consumed(self, steps: int) -> int:
        """Rows of `row_length` that so many first steps consume."""
        return sum(
            (min(steps, steps if stage.stop is None else stage.stop) - stage.first) * stage.consumes
            for stage in self.stages
            if stage.first < steps
        )

    def steps(self, rows: int) -> int:
        """Steps that consume so many rows of `row_length`, the last perhaps in part."""
        for stage in self.stages:
            here = self.consumed(stage.first)
            if stage.stop is None or rows <= self.consumed(stage.stop):
                return stage.first - (here - rows) // stage.consumes
        raise AssertionError("the last stage has no end")

    def _add(self, steps: int | None, length: int, consumes: int) -> None:
        first = self.stages[-1].stop if self.stages else 0
        assert first is not None
        self.stages.append(
            Stage(
                first=first,
                stop=None if steps is None else first + steps,
                length=length,
                parts=self.row_length // length,
                consumes=consumes,
            )
        )


def _read(given: Mapping[str, int], *, key: str) -> tuple[int, int]:
    if set(given) != {"length", "steps"}:
        raise DataError(f"{key} must be {{length: tokens, steps: steps}}, was: {dict(given)}")
    if given["steps"] < 1:
        raise DataError(f"{key}.steps must be at least 1, was: {given['steps']}")
    return given["length"], given["steps"]
