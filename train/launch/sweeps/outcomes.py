"""What a trial came to, as the return value of Hydra's job: another process may run it."""

from __future__ import annotations

import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train import stop
from train.disk.files import read_numbers
from train.errors import EXIT_BUG, EXIT_FAULT, is_mendable
from train.fit.runs import METRICS
from train.launch.commands import COMMANDS, TRAINS
from train.launch.composition import configuration
from train.launch.run import log_to_stderr, run_command
from train.launch.sweeps.trials import Trial
from train.ranks import several, world

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. loss: its last validation loss. status: the exit status of a fault."""

    loss: float | None = None
    fault: str | None = None
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Runs a trial, here or in a process that a launcher started."""

    command: str
    here: bool

    def __call__(self, config: DictConfig) -> Outcome:
        from hydra.core.hydra_config import HydraConfig
        from omegaconf import open_dict

        log_to_stderr()
        try:
            with stop.stopping():
                if self.command in TRAINS and world() is None and several(config.trainer):
                    return self._apart(config)
                with open_dict(config):
                    config.hydra = HydraConfig.get()
                words = list(config.hydra.overrides.task)
                config_of_trial = configuration(config, COMMANDS[self.command], words)
                return Outcome(loss=last_loss(run_command(self.command, config_of_trial)))
        except Exception as error:
            if world() is not None:  # the others may be waiting for this process
                raise
            if is_mendable(error):
                return Outcome(fault=str(error), status=EXIT_FAULT)
            return Outcome(fault=traceback.format_exc(), status=EXIT_BUG)
        except BaseException as error:
            if self.here:
                raise
            fault = f"{type(error).__name__}: {error}"
            return Outcome(fault=fault, status=getattr(error, "status", EXIT_BUG))

    def _apart(self, config: DictConfig) -> Outcome:
        """Run a trial of several ranks in processes of its own: they end together on a fault."""
        from hydra.core.hydra_config import HydraConfig

        typed = HydraConfig.get().overrides
        words = [word for word in typed.task if not word.startswith("command=")]
        words += [word for word in typed.hydra if word.startswith("hydra.searchpath=")]
        program = [sys.executable, "-P", "-m", "train.cli", self.command, *words]
        with subprocess.Popen(program) as ranks:
            try:
                status = ranks.wait()
            except BaseException as asked:
                ranks.send_signal(getattr(asked, "signal", signal.SIGTERM))
                raise
        if status == 0:
            return Outcome(loss=last_loss(Path(config.out) / str(config.name)))
        fault = f"its ranks ended with exit status {status}; their messages are above"
        return Outcome(fault=fault, status=status if status > 0 else EXIT_BUG)


def last_loss(made: Any) -> float | None:
    """Return the last validation loss of a run."""
    if not isinstance(made, Path) or not (made / METRICS).exists():
        return None
    losses = [row["validation_loss"] for row in read_numbers(made / METRICS)]
    return next((float(loss) for loss in reversed(losses) if loss is not None), None)


def outcome_of(done: Any) -> Outcome:
    """Return what a job of Hydra returned, or its fault outside of the task."""
    try:
        outcome = done.return_value
    except Exception as fault:
        if world() is not None:
            raise
        return Outcome(fault=f"{type(fault).__name__}: {fault}", status=EXIT_BUG)
    assert isinstance(outcome, Outcome)
    return outcome


def report_faults(trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> int:
    """Name the trials that failed; return the exit status of the sweep."""
    failed = [pair for pair in zip(trials, outcomes, strict=True) if pair[1].fault is not None]
    for trial, outcome in failed:
        print(f"bipe: {trial}: {outcome.fault}", file=sys.stderr)
    if not failed:
        return 0
    print(f"bipe: {len(failed)} of {len(trials)} trials failed", file=sys.stderr, flush=True)
    statuses = {outcome.status for _, outcome in failed}
    return statuses.pop() if len(statuses) == 1 else EXIT_BUG
