"""Run a command on a resolved configuration, after what it needs has been checked."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from train.errors import ConfigError
from train.launch.commands import COMMANDS, loaded
from train.ranks import rank

# What only trainings read: to check it takes seconds, for Lightning.
OF_TRAINING: dict[str, Any] = {"trainer": {}, "callbacks": {}, "logger": {}}


def run_command(name: str, config: Mapping[str, Any]) -> Any:
    """Check a resolved configuration, and run a command on it."""
    from train.commands.before import needs
    from train.config import Config

    command = COMMANDS[name]
    checked = Config.from_config(config, calls=False)  # what torch is not needed for comes first
    if "corpus" in command.groups and checked.corpus is None:
        raise ConfigError(
            "corpus is null, since this is the configuration of a run, which names its data; set "
            "corpus=NAME (the manifest.json of the data describes the corpus)"
        )
    if command.trains or name == "prepare":
        needs.require(checked, command=name)
    needs.require_folders(checked, command=name)
    if command.computes:  # the others build their own sections, and so check them
        unread = {} if command.trains else OF_TRAINING
        checked = Config.from_config({**config, **unread})
    run = loaded(command.call)
    if not command.computes:
        return run(checked)
    with flushed_denormals():
        # A run reads prepared data, and not the corpus that the configuration names.
        stored = {"stored": {**config, "corpus": None}} if command.trains else {}
        return run(checked, **stored)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Let denormal numbers count as 0 in the block, in this thread and those that it starts.

    The weights of far keys under ALiBi and BiPE-ALiBi are denormal in float32, and some processors
    take many times as long for such products. Threads of torch that run already are not reached,
    so this comes before the first parallel operation. Python's own numbers are flushed as well.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def log_to_stderr() -> None:
    """Show warnings, and which backends were chosen, of one process of a run."""

    class CurrentStderr(logging.Handler):
        """Looks up stderr for each record, because a progress bar replaces it."""

        def emit(self, record: logging.LogRecord) -> None:
            print(self.format(record), file=sys.stderr)

    further = rank() > 0
    level = logging.ERROR if further else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", handlers=[CurrentStderr()])
    logging.getLogger("bipe").setLevel(level if further else logging.INFO)
