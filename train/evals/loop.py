"""The loop of all evaluations: models x measurements x cells, into RUN/evaluation.jsonl.

    for each run, as it is and in each variant          Subject
        for each measurement, each of its cells         Measurement, Cell
            rows = cell.measure(model)                  Row, appended as soon as they are known

A cell whose key is in the journal is not measured again: an interrupted evaluation continues, and
new lengths are added. Cells of equal models are measured once.
"""

import datetime
import json
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bipe import Decoder, DecoderConfig
from bipe.build import ALLOWED
from segmenters.wording import counted, escaped
from train import stop
from train.disk.files import write_whole
from train.evals.rows import FILE, LEFT_OUT, Journal, Row, key_of, left_out, of_run
from train.evals.texts import HeldOut
from train.fit.checkpoints import Place
from train.fit.checkpoints.reading import load_place
from train.fit.machine import environment
from train.fit.runs import ENVIRONMENT
from train.fit.trained_run import TrainedRun

log = logging.getLogger("bipe")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A trained run as it is, or a variant of it. Lengths are in tokens.

    row_length: of its first training. configs: the configuration of the variant at each length.
    """

    run: TrainedRun
    row_length: int
    lengths: tuple[int, ...]
    held_out: HeldOut
    variant: str = ""
    configs: Mapping[int, DecoderConfig] = field(default_factory=dict)

    @cached_property
    def config(self) -> DecoderConfig:
        return DecoderConfig(**self.run.model)

    def config_at(self, length: int | None) -> DecoderConfig:
        return self.config if length is None else self.configs.get(length, self.config)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A unit of measurement: one length of one source, or one number of operators.

    name: unique in its measurement; a later cell of this name replaces this one. depends_on: plain
    values that decide the rows, besides name and model. cost: tokens read, for the time left.
    measure: gives rows without run, arm, seed and variant; rows themselves need no model.
    measurement: of the rows, if only those of equal ones may be compared (Row.measurement).
    """

    name: str
    depends_on: Any
    measure: Callable[[Decoder], Iterable[Row]] | Sequence[Row]
    cost: float = 0
    length: int | None = None
    measurement: str = ""

    def filled(self, rows: Iterable[Row], run: TrainedRun, **at: Any) -> list[Row]:
        """Return the rows with the names of their run and the measurement; at: further fields."""
        filled = list(rows) or left_out("there is nothing to measure")
        return of_run(filled, run, measurement=self.measurement, **at)


class Measurement(ABC):
    """A measurement of models, cell by cell.

    >>> class Entropy(Measurement):
    ...     def cells(self, subject):
    ...         for length in subject.lengths:
    ...             yield Cell(name=f"at {length} tokens", depends_on=length, length=length,
    ...                        measure=lambda model: [Row(measure="entropy", value=...)])
    """

    @abstractmethod
    def cells(self, subject: Subject) -> Iterable[Cell]:
        """Yield the cells of a subject, without measuring anything yet."""


Job = tuple[Subject, str, Measurement]  # the name of the measurement begins those of its cells


@dataclass(frozen=True, kw_only=True)
class _Planned:
    subject: Subject
    kind: str
    cell: Cell

    @property
    def name(self) -> str:
        step = "" if self.subject.run.step is None else f"step {self.subject.run.step}: "
        variant = f"{self.subject.variant}: " if self.subject.variant else ""
        return f"{step}{variant}{self.kind} {self.cell.name}".rstrip()

    @cached_property
    def measured(self) -> str:
        """A key that is equal for cells that measure the same of equal models."""
        cell, weights = self.cell, self.subject.run.weights
        config = asdict(self.subject.config_at(cell.length))
        return key_of([weights, config, self.kind, cell.name, cell.depends_on])

    @cached_property
    def key(self) -> str:
        return key_of([self.measured, self.subject.variant])

    def filled(self, rows: Iterable[Row]) -> list[Row]:
        run = self.subject.run
        return self.cell.filled(rows, run, step=run.step, variant=self.subject.variant)


class _Run:
    def __init__(self, cells: Sequence[_Planned], allowed: tuple[str, ...]) -> None:
        self.cells, self._run, self._allowed = cells, cells[0].subject.run, allowed
        self.journal = Journal(self._run.folder / FILE)
        self.journal.forget_others(self._run.weights, step=self._run.step)
        self._variant: Decoder | None = None
        self._alike: dict[str, list[_Planned]] = defaultdict(list)
        for planned in cells:
            self._alike[planned.measured].append(planned)

    def equal_rows(self, cell: _Planned) -> list[Row] | None:
        """Return the rows measured on an equal model, under whatever name."""
        keys = (planned.key for planned in self._alike[cell.measured])
        return next((self.journal[key] for key in keys if key in self.journal), None)

    def missing(self) -> list[_Planned]:
        firsts = [cells[0] for cells in self._alike.values() if callable(cells[0].cell.measure)]
        return [planned for planned in firsts if self.equal_rows(planned) is None]

    @cached_property
    def _trained(self) -> Decoder:
        place = self._run.folder / ENVIRONMENT
        try:
            write_whole(place, json.dumps(environment(), indent=1) + "\n")
        except Exception as fault:  # a record: no reason to measure nothing
            log.warning("%s is not written: %s", place, fault)
        model, _ = load_place(self._run.place, allowed=self._allowed)
        return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")

    def measured(self, planned: _Planned) -> Iterable[Row]:
        cell = planned.cell
        if not callable(cell.measure):
            return cell.measure
        with torch.no_grad():
            return list(cell.measure(self._model(planned.subject.config_at(cell.length))))

    def _model(self, config: DecoderConfig) -> Decoder:
        """Return the model of a configuration: the trained one, the last variant, or a new one."""
        for model in (self._trained, self._variant):
            if model is not None and model.config == config:
                return model
        self._variant = Decoder(config, allowed=self._allowed)
        # Share the tensors of the run's model: no copy for each variant.
        self._variant.load_state_dict(self._trained.state_dict(), assign=True)
        return self._variant.eval().to(self._trained.head.weight.device)


def measure(jobs: Iterable[Job], *, allowed: tuple[str, ...] = ALLOWED) -> None:
    """Measure all cells of all jobs that are not yet in the journals of their runs.

    All are planned before the first is measured, so that an impossible one is refused at once.
    """
    planned: dict[Place | None, list[_Planned]] = defaultdict(list)
    for subject, kind, measurement in jobs:
        planned[subject.run.place] += [
            _Planned(subject=subject, kind=kind, cell=cell) for cell in measurement.cells(subject)
        ]
    runs = {place: _Run(cells, allowed) for place, cells in planned.items() if cells}
    meter = _Meter([cell for run in runs.values() for cell in run.missing()])
    with meter.bar, stop.kept(lambda: f"{meter.state()} are kept; {stop.AGAIN}"):
        for place in list(runs):
            run = runs.pop(place)  # to free its model afterwards
            for cell in run.cells:
                stop.check()
                if cell.key in run.journal:
                    run.journal.renew(cell.key)
                else:
                    rows = run.equal_rows(cell)
                    is_new = rows is None and callable(cell.cell.measure)
                    rows = cell.filled(run.measured(cell) if rows is None else rows)
                    weights = cell.subject.run.weights
                    run.journal.append(cell.key, rows, name=cell.name, weights=weights)
                    if is_new:
                        meter.done(cell)
                meter.note(cell, run.journal[cell.key])
        meter.print_left_out()


_SECONDS_BETWEEN_LINES = 5  # of the progress in a log


class _Meter:
    """Progress on stderr, and the time left by the cost of what is measured."""

    def __init__(self, missing: Sequence[_Planned]) -> None:
        self._total, self._count = len(missing), 0
        self._cost, self._spent = sum(planned.cell.cost for planned in missing), 0.0
        self._left_out: dict[str, list[str]] = defaultdict(list)
        self._console = Console(stderr=True)
        self.bar = Progress(
            BarColumn(bar_width=24), TextColumn("{task.description}", markup=False),
            console=self._console, disable=not self._console.is_terminal or not missing,
        )  # fmt: skip
        self._task = self.bar.add_task("", total=self._total)
        self._began, self._printed = time.monotonic(), -math.inf

    def done(self, planned: _Planned) -> None:
        self._count, self._spent = self._count + 1, self._spent + planned.cell.cost
        now, is_last = time.monotonic(), self._count == self._total
        name = f"{planned.subject.run.name}: {planned.name}"
        shown, seconds = f"{name}: {self._count} of {self._total} measured", now - self._began
        # The first cells also load the model, and say little of the speed of the others.
        if not is_last and seconds >= _SECONDS_BETWEEN_LINES and self._spent:
            left = seconds * (self._cost - self._spent) / self._spent
            shown += f", {datetime.timedelta(seconds=round(left))} left"
        self.bar.update(self._task, completed=self._count, description=escaped(shown))
        if self.bar.disable and (is_last or now - self._printed >= _SECONDS_BETWEEN_LINES):
            self._printed = now
            self._print(shown)

    def state(self) -> str:
        return f"{self._count} of {counted(self._total, 'measurement')}"

    def note(self, planned: _Planned, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.measure == LEFT_OUT:
                name = f"{planned.kind} {planned.cell.name}".rstrip()
                model = f"{row.run} ({row.variant})" if row.variant else row.run
                self._left_out[f"{name} is left out: {row.note}"].append(model)

    def print_left_out(self) -> None:
        """Print each reason once, with the models that it applies to."""
        for reason, models in self._left_out.items():
            listed = ", ".join(models) if len(models) < 4 else f"{len(models)} models"
            self._print(f"{listed}: {reason}")

    def _print(self, line: str) -> None:
        self._console.print(escaped(line), markup=False, highlight=False, soft_wrap=True)
