"""Evaluation while training: the measurements of `bipe evaluate` on the weights of a step.

Rows get the step and go to the same RUN/evaluation.jsonl. A resumed run measures no step twice. The
weights are those of the training, read by a model of its own: neither its mode nor its random
numbers change, so that the training is the same with and without.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from bipe import Decoder
from train.evals.loop import Measurement, Subject
from train.evals.rows import FILE, Journal, Row, key_of
from train.evals.texts import HeldOut
from train.fit import runs
from train.fit.checkpoints import Place
from train.fit.lora import merged
from train.fit.parallel.sharded import Sharded, full_state
from train.fit.trained_run import TrainedRun
from train.fit.watching.loggers import send
from train.fit.watching.stalls import unwatched

_LONG = timedelta(days=7)


@dataclass(kw_only=True, eq=False)
class LiveEvaluation(lightning.Callback):
    """Measures every few optimizer steps; other ranks wait for the first. Lengths are in tokens."""

    every: int
    measurements: Mapping[str, Measurement]
    held_out: HeldOut
    row_length: int
    lengths: tuple[int, ...]
    allowed: tuple[str, ...]
    _last: int = 0
    _group: Any = None

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        self._last = trainer.global_step
        if trainer.world_size > 1:  # its own group: the others wait longer than for a step
            self._group = torch.distributed.new_group(backend="gloo", timeout=_LONG)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step == self._last or step % self.every:
            return
        self._last = step
        with unwatched(trainer):
            sharded = isinstance(trainer.strategy, Sharded)
            state = full_state(module.model) if sharded else module.model.state_dict()
            if trainer.is_global_zero:
                with torch.random.fork_rng(), torch.no_grad():
                    self._measure(trainer, module.model, state)
            if self._group is not None:
                torch.distributed.barrier(group=self._group)

    def _measure(
        self, trainer: lightning.Trainer, trained: Decoder, state: Mapping[str, Tensor]
    ) -> None:
        folder, step = Path(trainer.default_root_dir), trainer.global_step
        run = TrainedRun(
            folder=folder,
            model=asdict(trained.config),
            notes={"data": trainer.datamodule.data_digest()},  # type: ignore[attr-defined]
            config=runs.read_config(folder),
            metrics=(),
            place=Place.of(folder),
        )
        subject = Subject(
            run=run, row_length=self.row_length, lengths=self.lengths, held_out=self.held_out
        )
        journal = Journal(folder / FILE)
        model: Decoder | None = None
        for kind, measurement in self.measurements.items():
            for cell in measurement.cells(subject):
                key = key_of([run.arm, run.seed, step, kind, cell.name, cell.depends_on])
                if key in journal or not callable(cell.measure):
                    continue
                model = model or self._copy(trained, state, trainer.strategy.root_device)
                rows = cell.filled(cell.measure(model), run, step=step)
                journal.append(key, rows, name=f"step {step}: {kind} {cell.name}")
                send(trainer.loggers, _values(rows), step, kind="evaluation")

    def _copy(self, trained: Decoder, state: Mapping[str, Tensor], device: torch.device) -> Decoder:
        """Return a model that shares the weights, unless they had to be gathered."""
        with torch.device("meta"):
            model = Decoder(trained.config, allowed=self.allowed)
        model.load_state_dict(merged(state), assign=True)
        return model.eval().to(device)


def _values(rows: list[Row]) -> dict[str, Any]:
    return {
        "/".join(map(str, filter(None, (row.measure, row.source, row.task, row.length,
                                        row.operators)))): row.value
        for row in rows
        if (row.depth, row.number, row.start) == (None, None, None)
    }  # fmt: skip
