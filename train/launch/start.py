"""Run what was typed: a command on its configuration, a plan, a sweep, or a job of Slurm."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError
from train.launch.commands import LAUNCHED, loaded
from train.launch.composition import composed, resolved
from train.launch.run import OF_TRAINING, log_to_stderr, run_command
from train.launch.words import Typed

if TYPE_CHECKING:
    from omegaconf import DictConfig


def start(typed: Typed) -> int:
    """Run a command that composes a configuration; return the exit status."""
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, io.TextIOWrapper):  # in a pipe too, warnings follow what they are of
        sys.stdout.reconfigure(line_buffering=True)
    command, name = typed.command, typed.command.name
    log_to_stderr()
    if typed.has("multirun"):
        if alone := next(filter(typed.has, ("plan", "cfg", "config-file")), None):
            raise ConfigError(f"--{alone} is for one run: remove -m")
        return _many(typed)
    if command.names_study and typed.study is command:  # the machine alone
        if beside := {*typed.options} - {"ranks", "json"}:
            raise ConfigError(
                f"--{min(beside)} is of a study; name its command: bipe {name} pretrain"
            )
        return int(loaded(command.call)(None, study=name, options=typed.options))
    config = composed(typed)
    if typed.has("cfg"):
        _show(typed, config)
    elif command.examines:
        return _examine(typed, config)
    elif typed.has("plan"):
        from train.config import Config

        notes = list[str]()
        checked = Config.from_config(resolved(name, config, notes=notes))
        show = loaded("commands.plan:show")
        show(checked, command=name, notes=notes, as_json=typed.has("json"))
    elif _asks_for_job(name, config):
        from train.launch import slurm

        return slurm.submit_one(name, resolved(name, config), words=typed.words)
    else:
        run_command(name, resolved(name, config))
    return 0


def _many(typed: Typed) -> int:
    from train.launch import slurm, sweeps

    with sweeps.composed_sweep(typed) as made:
        if made.searches:
            from train.launch.search import search

            return sweeps.report_faults(*search(made))
        trials = made.trials(list(sweeps.combinations(made)))
        if _asks_for_job(made.command, trials[0].config):
            if not made.here:
                raise ConfigError("launch=slurm submits all trials itself; remove hydra/launcher")
            return slurm.submit(made.command, trials)
        outcomes = made.run(trials)
    return sweeps.report_faults(trials, outcomes)


def _asks_for_job(command: str, config: Mapping[str, Any]) -> bool:
    """Return whether to submit a job instead of running the command; ConfigError if it cannot."""
    job = str(config["launch"].get("_target_")).endswith(".Slurm")
    if job and command not in LAUNCHED:
        cure = "set engine=slurm" if command == "prepare" else "remove it"
        raise ConfigError(f"launch=slurm is for bipe {', '.join(LAUNCHED)}; {cure}")
    if config["dry_run"] and not job and command != "prepare":
        raise ConfigError("dry_run is for bipe prepare and launch=slurm; remove it")
    return job


def _show(typed: Typed, config: DictConfig) -> None:
    from omegaconf import OmegaConf

    if typed.options["cfg"] != "job":
        raise ConfigError(f"--cfg must be job, was: {typed.options['cfg']}")
    print(OmegaConf.to_yaml(config, resolve=typed.has("resolve")), end="")


def _examine(typed: Typed, config: DictConfig) -> int:
    """Run a command that describes a study, which needs no data and no checkpoint yet."""
    from omegaconf import OmegaConf

    from train.config import Config

    if config.get("data") is None:  # that of the checkpoint
        OmegaConf.update(config, "data", "${out}/data", merge=False)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    computes = typed.command.computes
    checked = Config.from_config({**plain, **(OF_TRAINING if computes else {})}, calls=computes)
    made = loaded(typed.command.call)(checked, study=typed.study.name, options=typed.options)
    return int(made or 0)
