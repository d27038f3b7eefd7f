"""From the words behind a command to its run, to the runs of a sweep, or to a job of Slurm."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError
from train.launch.composition import (
    GO_ON,
    LAUNCHED,
    asks_for_job,
    from_file,
    going_on,
    log_to_stderr,
    of_command_line,
    opened,
    prompted,
    register_resolvers,
    resolved,
    run_command,
    run_composed,
    without_options,
)
from train.launch.planning import without_plan

if TYPE_CHECKING:
    from omegaconf import DictConfig

_MANY = ("-m", "--multirun")


def compose_and_run(command: str, words: list[str]) -> int:
    """Run a command on the words behind it; return the exit status."""
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    register_resolvers()
    typed = words
    if command == "prepare" or command in LAUNCHED:
        words = without_options(words)
    if command == "generate":
        words = prompted(words)
    if command in GO_ON:
        words = going_on(command, words)
    log_to_stderr()
    words, plan = without_plan(command, words)
    if words[:1] == ["--config-file"]:
        config = from_file(words[1:], command=command)
        if plan is None:
            run_command(command, resolved(command, config))
        else:
            plan(config)
        return 0
    if plan is not None:
        return _run_one(words, plan)
    options = [word for word in words if not _is_override(word)]
    if options and set(options) <= set(_MANY):
        from train.launch.sweeps import sweep

        try:
            return sweep(command, [opened(word) for word in words if word not in _MANY])
        except ValueError as error:  # from Hydra
            raise _as_config_error(error) from error
    return _run_one(words, lambda config: _submit_or_run(command, config, words, typed))


def _run_one(words: Sequence[str], run: Callable[[DictConfig], Any]) -> int:
    """Run one configuration, or what Hydra's options ask for (--cfg, --help)."""
    import hydra

    faults: list[BaseException] = []
    statuses: list[int] = []

    def task(config: DictConfig) -> None:
        try:
            statuses.append(run(config) or 0)
        except BaseException as fault:  # raised below, since Hydra would print its own lines first
            faults.append(fault)

    before = sys.argv
    # Options first: argparse does not accept overrides on both sides of an option.
    sys.argv = [before[0], *map(opened, sorted(words, key=_is_override))]
    try:
        hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")(task)()
    except ValueError as error:  # from Hydra: errors of a command are in `faults`
        raise _as_config_error(error) from error
    finally:
        sys.argv = before
    if faults:
        raise faults[0]
    return statuses[0] if statuses else 0


def _submit_or_run(
    command: str, config: DictConfig, words: Sequence[str], typed: Sequence[str]
) -> int:
    if asks_for_job(command, config):
        from train.launch.sweeps import submit_one

        return submit_one(command, of_command_line(config, words), words=typed)
    run_composed(command, config, words)
    return 0


def _as_config_error(error: ValueError) -> ValueError:
    """Return Hydra's ValueErrors as what they are, faults of the words."""
    ours = type(error) is not ValueError
    return error if ours else ConfigError(str(error))


def _is_override(word: str) -> bool:
    return not word.startswith("-") and ("=" in word or word.startswith("~"))
