"""Sweeps (-m): one run for each combination, all of them composed and checked before the first.

A launcher of Hydra's runs the trials: here, one after the other, or elsewhere
(hydra/launcher=joblib, submitit_local, submitit_slurm). A trial that fails does not end the sweep;
all are named at the end. What a trial came to travels as its return value, since a launcher may run
it in another process.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train import stop
from train.errors import EXIT_BUG, EXIT_FAULT, ConfigError, RunError, is_mendable
from train.launch.commands import TRAINS
from train.launch.composition import (
    allowing,
    explained,
    opened_conf,
    register_resolvers,
    resolved,
    without_hydra,
)
from train.launch.run import log_to_stderr, run_command
from train.launch.trials import Trial, check_trial, trial_names
from train.launch.words import Typed
from train.ranks import several, world

if TYPE_CHECKING:
    from hydra.types import HydraContext
    from omegaconf import DictConfig

# hydra/sweeper=optuna (search.py). n_trials: in all, those of earlier starts included. n_jobs: at
# the same time; more than one needs a launcher. seed: of the sampler. storage: the trials so far.
SEARCH = {"n_trials": 20, "n_jobs": 1, "seed": 0, "storage": "${out}/search.journal"}
# The default launcher, which runs the trials in this process.
_HERE = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. loss: its last validation loss. status: the exit status of a fault."""

    loss: float | None = None
    fault: str | None = None
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A composed sweep. context, master: Hydra's, and what the trials share but for their words."""

    command: str
    context: HydraContext
    master: DictConfig

    @property
    def searches(self) -> bool:
        return self.master.hydra.sweeper.get("n_trials") is not None

    @property
    def here(self) -> bool:
        return bool(self.master.hydra.launcher["_target_"] == _HERE)

    def trials(self, asked: Sequence[Trial], *, endings: Sequence[str] = ()) -> list[Trial]:
        """Compose, check and name trials; nothing is written.

        endings: of the names, where later trials may differ in keys that these share.
        """
        from train.config import Config

        found = []
        for trial in asked:
            with _named(trial):
                load = self.context.config_loader.load_sweep_config
                config = load(self.master, list(trial.words))
                own = without_hydra(config, command=self.command, swept=trial.changes)
                plain = resolved(self.command, allowing(self.command, own, trial.words))
                Config.from_config(plain)
                found.append(replace(trial, config=plain, unnamed=config.name is None))
        if self.command not in TRAINS:
            return found
        names = trial_names(self.command, found, endings=endings)
        found = [trial.named(name) for trial, name in zip(found, names, strict=True)]
        for trial in found:
            with _named(trial):
                check_trial(self.command, trial)
        return found

    def run(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Run the trials by Hydra's launcher; each has an outcome, whatever happened to it."""
        from hydra.core.plugins import Plugins

        from train.fit.runs import MODEL

        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self.context,
            task_function=Task(command=self.command, here=self.here),
            config=self.master,
        )
        try:
            done = launcher.launch([list(trial.words) for trial in trials], initial_job_idx=0)
        except Exception as error:
            name = str(self.master.hydra.launcher["_target_"]).rpartition(".")[2]
            fault = f"{name} lost a trial, and this one has no model: {str(error) or repr(error)}"
            lost = Outcome(fault=fault, status=EXIT_BUG)
            folders = [Path(each.config["out"]) / str(each.name) for each in trials]
            return [
                Outcome(loss=_loss(each)) if (each / MODEL).exists() else lost for each in folders
            ]
        return [_outcome(each) for each in done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Runs a trial, here or in a process that a launcher started."""

    command: str
    here: bool

    def __call__(self, config: DictConfig) -> Outcome:
        from hydra.core.hydra_config import HydraConfig

        register_resolvers()
        log_to_stderr()
        try:
            with stop.stopping():
                if self.command in TRAINS and world() is None and several(config.trainer):
                    return self._apart(config)
                allowed = allowing(self.command, config, HydraConfig.get().overrides.task)
                return Outcome(
                    loss=_loss(run_command(self.command, resolved(self.command, allowed)))
                )
        except Exception as error:
            if world() is not None:  # the others may be waiting for this process
                raise
            if is_mendable(error):
                return Outcome(fault=explained(error), status=EXIT_FAULT)
            return Outcome(fault=traceback.format_exc(), status=EXIT_BUG)
        except BaseException as error:
            if self.here:
                raise
            fault = f"{type(error).__name__}: {error}"
            return Outcome(fault=fault, status=getattr(error, "status", EXIT_BUG))

    def _apart(self, config: DictConfig) -> Outcome:
        """Run a trial of several ranks in processes of its own: they end together on a fault."""
        from hydra.core.hydra_config import HydraConfig

        words = [w for w in HydraConfig.get().overrides.task if not w.startswith("command=")]
        program = [sys.executable, "-P", "-m", "train.cli", self.command, *words]
        with subprocess.Popen(program) as ranks:
            try:
                status = ranks.wait()
            except BaseException as asked:
                ranks.send_signal(getattr(asked, "signal", signal.SIGTERM))
                raise
        if status == 0:
            return Outcome(loss=_loss(Path(config.out) / str(config.name)))
        fault = f"its ranks ended with exit status {status}; their messages are above"
        return Outcome(fault=fault, status=status if status > 0 else EXIT_BUG)


@contextmanager
def composed_sweep(typed: Typed) -> Iterator[Sweep]:
    """Compose what the trials share."""
    from hydra._internal.callbacks import Callbacks
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import HydraContext, RunMode

    ConfigStore.instance().store(group="hydra/sweeper", name="optuna", node=dict(SEARCH))
    with opened_conf(typed) as words:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        master = hydra.compose_config(
            config_name="config",
            overrides=words,
            run_mode=RunMode.MULTIRUN,
            with_log_configuration=False,
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks())
        made = Sweep(command=typed.command.name, context=context, master=master)
        if world() is not None and not made.here:
            raise ConfigError(
                "hydra/launcher must be basic when torchrun or srun started the processes: they "
                "run the trials together, one after the other; remove it"
            )
        yield made


def combinations(made: Sweep) -> Iterator[Trial]:
    """Yield the trials, which are not composed yet."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    loader = made.context.config_loader
    typed = OmegaConf.to_container(made.master.hydra.overrides.task, resolve=False)
    params = made.master.hydra.sweeper.get("params") or {}
    words = [*(f"{key}={value}" for key, value in params.items()), *typed]  # type: ignore
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(words)
    swept = {each.get_key_element() for each in parsed if each.is_sweep_override()}
    (batch,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    for combination in batch:
        pairs = (word.partition("=") for word in combination)
        changes = {key.lstrip("+"): value for key, _, value in pairs if key in swept}
        yield Trial(words=tuple(combination), changes=changes)


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


def _loss(made: Any) -> float | None:
    """Return the last validation loss of a run."""
    from train.disk.files import read_numbers
    from train.fit.runs import METRICS

    if not isinstance(made, Path) or not (made / METRICS).exists():
        return None
    losses = [row["validation_loss"] for row in read_numbers(made / METRICS)]
    return next((float(loss) for loss in reversed(losses) if loss is not None), None)


def _outcome(done: Any) -> Outcome:
    found = done._return_value  # return_value raises, and prints, on a failure outside of the task
    if isinstance(found, Outcome):
        return found
    if world() is not None and isinstance(found, Exception):
        raise found
    return Outcome(fault=f"{type(found).__name__}: {found}", status=EXIT_BUG)


@contextmanager
def _named(trial: Trial) -> Iterator[None]:
    """Put the trial before the message of what it is refused for."""
    try:
        yield
    except (ConfigError, RunError) as error:
        raise type(error)(f"{trial}: " * bool(trial.changes) + str(error)) from error
