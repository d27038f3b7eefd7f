"""Run what was typed: a command on its configuration, a plan, a sweep, or a job of Slurm.

The commands are functions too, for notebooks and for searches of one's own:

    import train
    run = train.pretrain(encoding="bipe_rope", data="runs/mine/data", out="runs/mine", steps=500)
    run.metrics[-1]["validation_loss"]

Keys are those of conf/, with the same composition and the same checks as on the command line; a
nested key is written {"optimizer": {"lr": 1e-3}} or by ** with its dots. Words are those of the
command line ("experiment=demo"). Errors are `train.errors.UserError`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

import yaml

from train.config import Config
from train.errors import ConfigError, as_config_error
from train.launch import help_pages, hydra_keys
from train.launch.commands import COMMANDS, HELP, settled
from train.launch.composition import composed, configuration, opened, whole
from train.launch.reader import read, unwrapped, written
from train.launch.run import log_to_stderr, run_command
from train.ranks import several
from train.stop import Stopped
from train.words import Words, loaded

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.fit.trained_run import TrainedRun

_FOR_ONE_RUN = ("plan", "config-file")


def start(words: Words) -> int:
    """Run a command that composes a configuration; return the exit status."""
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, io.TextIOWrapper):  # in a pipe too, warnings follow what they are of
        sys.stdout.reconfigure(line_buffering=True)
    log_to_stderr()
    command = words.command
    if command.names_study and words.study is command:  # the machine alone
        if beside := {*words.options} - {"json"}:
            raise ConfigError(
                f"--{min(beside)} is of a study; name its command: bipe {command.name} pretrain"
            )
        return int(loaded(command.call)(None, study=command.name, options=words.options))
    with opened(words) as overrides:
        made = None if words.many else whole(overrides)
        if made is None or str(made.hydra.mode).endswith("MULTIRUN"):
            return _many(words, overrides)
        name = words.study.name
        config = configuration(made, words.study, overrides, words.options)
        if "cfg" in words.options:
            _show(words, config, made)
        elif command.examines:
            run = loaded(command.call)
            return int(run(config, study=name, options=words.options) or 0)
        elif "plan" in words.options:
            notes, show = list[str](), loaded("commands.before.plan:show")
            config = settled(name, config, notes=notes)
            show(config, command=name, notes=notes, as_json=words.has("json"))
        elif config.launch.description["_target_"].endswith(".Slurm"):
            from train.launch import slurm

            return slurm.submit_one(name, config, words=words)
        else:
            _run_as_job(name, config, made, overrides)
    return 0


def _run_as_job(name: str, config: Config, made: DictConfig, overrides: Sequence[str]) -> None:
    """Run a command as Hydra's job, with the callbacks, logging and variables of its section."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.utils import configure_log, run_job
    from hydra.types import HydraContext

    callbacks = hydra_keys.callbacks(made, overrides, allowed=config.allowed_targets)
    loader = GlobalHydra.instance().config_loader()
    configure_log(made.hydra.hydra_logging, made.hydra.verbose)
    callbacks.on_run_start(config=made, config_name="config")
    context = HydraContext(config_loader=loader, callbacks=callbacks)
    done = run_job(lambda _: run_command(name, config), made, "hydra.run.dir", None, context)
    callbacks.on_run_end(config=made, config_name="config", job_return=done)
    with redirect_stderr(io.StringIO()):  # Hydra says of what it raises here what we say below
        done.return_value  # noqa: B018


def _many(words: Words, overrides: list[str]) -> int:
    from train.launch import slurm
    from train.launch.sweeps.outcomes import report_faults
    from train.launch.sweeps.sweep import Sweep

    if alone := next(filter(words.has, _FOR_ONE_RUN), None):
        raise ConfigError(f"--{alone} is for one run: remove -m")
    made = Sweep.of(words, overrides)
    if words.has("cfg"):
        trials = [made.composed(trial) for trial in made.combinations()]
        if made.command == "pretrain":  # others take names from a checkpoint
            trials = made.with_names(trials)
        for trial in trials:
            print(f"--- # {trial}")
            _show(words, trial.config, made.master)
        return 0
    if made.searches:
        from train.launch.sweeps.search import search

        return report_faults(*search(made))
    trials = made.trials(list(made.combinations()))
    if trials[0].config.launch.description["_target_"].endswith(".Slurm"):
        if not made.here:
            raise ConfigError("launch=slurm submits all trials itself; remove hydra/launcher")
        return slurm.submit(made.command, trials)
    return report_faults(trials, made.run(trials))


def _show(words: Words, config: Config, made: DictConfig) -> None:
    """Print the configuration, or Hydra's own section, or both; --package: a part of it."""
    from omegaconf import OmegaConf

    asked = words.options["cfg"]
    plain: Any = {} if asked == "hydra" else config.as_plain()
    if asked != "job":
        how: Any = {"resolve": words.has("resolve"), "enum_to_str": True}
        plain = {"hydra": OmegaConf.to_container(made.hydra, **how), **plain}
    package = words.options.get("package", "").removeprefix("_global_")
    for part in filter(None, package.split(".")):
        if not isinstance(plain, dict) or part not in plain:
            raise ConfigError(f"--package {words.options['package']}: there is no such key")
        plain = plain[part]
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    print(text.removesuffix("...\n"), end="")


# The commands as functions


def prepare(*words: str, **keys: Any) -> Path:
    """Prepare data as `bipe prepare`, and return its folder."""
    return Path(run("prepare", *words, **keys).folder)


def pretrain(*words: str, **keys: Any) -> TrainedRun:
    """Train as `bipe pretrain`, and return the run; the same call again resumes it."""
    return _trained("pretrain", *words, **keys)


def extend(*words: str, **keys: Any) -> TrainedRun:
    """Extend a model as `bipe extend`, and return the run."""
    return _trained("extend", *words, **keys)


def retrofit(*words: str, **keys: Any) -> TrainedRun:
    """Teach a model segments as `bipe retrofit`, and return the run."""
    return _trained("retrofit", *words, **keys)


def scrolls(*words: str, **keys: Any) -> TrainedRun:
    """Fine-tune, decode and score as `bipe scrolls`, and return the run."""
    return _trained("scrolls", *words, **keys)


def evaluate(*words: str, **keys: Any) -> list[Path]:
    """Measure runs as `bipe evaluate`, and return the files with their rows."""
    files: list[Path] = run("evaluate", *words, **keys)
    return files


def run(command: str, /, *words: str, **keys: Any) -> Any:
    """Run a command that composes a configuration, and return what it returns."""
    from train.fit.record import CALLED

    for word in words:
        if not isinstance(word, str) or word in HELP:
            raise ConfigError(
                f"train.{command} takes texts such as 'experiment=demo', and keys by their names "
                f"(steps=500), was: {word!r}"
            )
    typed = read(COMMANDS[command], [*words, *_typed(keys)])
    for option in typed.options:
        raise ConfigError(f"--{option} is for the command line: bipe {command}")
    for word in typed.overrides:
        if hydra_keys.is_of_hydra(word) and "hydra.searchpath=" not in word:
            raise ConfigError(
                f"{word.partition('=')[0]} acts on the command line alone, bipe {command}: here "
                "it would have no effect; remove it"
            )
    config = composed(typed)
    if config.launch["_target_"].endswith(".Slurm"):
        raise ConfigError(f"launch=slurm is for the command line: bipe {command}")
    if COMMANDS[command].trains and several(config.trainer):
        raise ConfigError(
            f"train.{command} trains on one device; on several, trainer.devices="
            f"{config.trainer.get('devices')}, use bipe {command}"
        )
    called = CALLED.set((*words, *_typed(keys)))
    try:
        return run_command(command, config)
    except Stopped as end:
        if end.signal is not SIGINT:
            raise
        raise KeyboardInterrupt(str(end)) from None
    finally:
        CALLED.reset(called)


def _trained(command: str, /, *words: str, **keys: Any) -> TrainedRun:
    from train.fit.checkpoints import find_place
    from train.fit.trained_run import read_run

    return read_run(find_place(str(run(command, *words, **keys)), key="RUN"))


def _are_keys(names: Mapping[str, Any]) -> bool:
    """Return whether each name can be typed as a key; that of a source, web/text, cannot."""
    return "_target_" not in names and not any("/" in str(name) for name in names)


def _typed(keys: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the keys as they would be typed. A mapping with a `_target_` replaces its group."""
    for key, value in keys.items():
        name, groups = f"{path}{key}", help_pages.groups()
        with as_config_error(f"{name}: ", TypeError):
            value = unwrapped(value)
        if "omegaconf" in sys.modules:  # a value of an application of Hydra
            from omegaconf import OmegaConf

            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True)
        if isinstance(value, Mapping) and value and _are_keys(value):
            yield from _typed(value, f"{name}.")
        elif isinstance(value, str) and name.partition("@")[0] in groups:
            yield f"{name}={value}"
        else:
            with as_config_error(f"{name}: ", TypeError):
                word = f"{name}={written(value)}"
            yield word
