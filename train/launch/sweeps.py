"""Run a command on one configuration, or on each of a sweep (-m)."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from train.errors import ConfigError
from train.launch.composition import (
    GO_ON,
    from_file,
    going_on,
    of_command_line,
    opened,
    register_resolvers,
    resolved,
    run_command,
    without_options,
)
from train.ranks import rank

if TYPE_CHECKING:
    from omegaconf import DictConfig


def compose_and_run(command: str, words: list[str]) -> int:
    """Run a command on the words behind it; return the exit status."""
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import hydra

    register_resolvers()
    if command == "prepare":
        words = without_options(words)
    elif command in GO_ON:
        words = going_on(command, words)
    _log_to_stderr()
    if words[:1] == ["--config-file"]:
        run_command(command, resolved(command, from_file(words[1:])))
        return 0
    faults: list[BaseException] = []

    def task(config: DictConfig) -> None:
        if faults:  # the rest of a sweep
            return
        try:
            config = of_command_line(config, words)
            if command == "prepare":
                from train.commands.prepare import prepare_again

                if prepare_again(config):
                    return
            run_command(command, resolved(command, config))
        except BaseException as fault:  # raised below, since Hydra would print its own lines first
            faults.append(fault)

    before = sys.argv
    # Options first: argparse does not accept overrides on both sides of an option.
    sys.argv = [before[0], *map(opened, sorted(words, key=_is_override))]
    try:
        hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")(task)()
    except ValueError as error:  # from Hydra: errors of a command are in `faults`
        raise ConfigError(str(error)) from error
    finally:
        sys.argv = before
    if faults:
        raise faults[0]
    return 0


def _is_override(word: str) -> bool:
    return not word.startswith("-") and ("=" in word or word.startswith("~"))


def _log_to_stderr() -> None:
    """Show warnings, and which backends were chosen, of one process of a run."""

    class CurrentStderr(logging.Handler):
        """Looks up stderr for each record, because a progress bar replaces it."""

        def emit(self, record: logging.LogRecord) -> None:
            print(self.format(record), file=sys.stderr)

    several = rank() > 0
    level = logging.ERROR if several else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", handlers=[CurrentStderr()])
    logging.getLogger("bipe").setLevel(level if several else logging.INFO)
