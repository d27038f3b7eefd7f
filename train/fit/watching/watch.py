"""All that watches a training: metrics.csv, progress, loggers, and what is printed around it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
from lightning.fabric.utilities.rank_zero import rank_zero_only

from bipe import Decoder
from train.data.rows.datamodule import LMDataModule, table
from train.fit.watching.announce import end_lines, start_lines, warnings_of
from train.fit.watching.losses import StepLosses
from train.fit.watching.metrics import MetricsFile, read_metrics
from train.fit.watching.progress import ProgressBar
from train.fit.watching.tracking import Tracking

log = logging.getLogger("bipe")


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Watches a run. metrics, model: its files. every: optimizer steps between lines."""

    folder: Path
    metrics: Path
    model: Path
    config: Mapping[str, Any]
    every: int
    tracking: Tracking

    def callbacks(self, model: Decoder, rows: LMDataModule) -> list[lightning.Callback]:
        return [
            MetricsFile(
                path=self.metrics,
                every=self.every,
                decoder=model.config,
                losses=StepLosses.of(model, rows).names,
                send=self.tracking.send,
            ),
            ProgressBar(title=self.folder.name),
        ]

    @contextlib.contextmanager
    def running(
        self,
        trainer: lightning.Trainer,
        model: Decoder,
        rows: LMDataModule,
        *,
        resumed_at: int | None,
        validate_every: int | None,
    ) -> Iterator[None]:
        """Print what the run is, let the loggers run during the block, and print how it ended."""
        steps = trainer.max_steps
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            schedule = self.config.get("schedule") or {}
            for text in warnings_of(steps=steps, validate_every=validate_every, schedule=schedule):
                log.warning("%s", text)
            lines = start_lines(trainer, model, rows, folder=self.folder, resumed_at=resumed_at)
            _show([*lines, *table(rows.statistics(steps=steps))])
        else:  # one process says which path of attention was chosen
            logging.getLogger("bipe.attention").setLevel(logging.WARNING)
        self.tracking.begin()
        failed = True
        try:
            yield
            failed = False
        finally:
            self.tracking.end(failed=failed)
        if trainer.is_global_zero:
            found = read_metrics(self.metrics)
            _show(end_lines(found, folder=self.folder, model=self.model, config=self.config))


def _show(lines: Sequence[str]) -> None:
    print("\n".join(lines), file=sys.stderr, flush=True)
