"""Run a command on its configuration, in this process or in the ranks that it starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from train.config import Config
from train.data.rows.choices import uneven
from train.errors import ConfigError
from train.launch.commands import COMMANDS
from train.ranks import rank, several, start_ranks, to_start
from train.words import loaded


def run_command(name: str, config: Config) -> Any:
    """Run a command on its configuration, after what it needs has been checked."""
    from train.commands.before import needs

    command = COMMANDS[name]
    for key in () if command.continues else ("data", "row_length"):  # no checkpoint decides them
        if getattr(config, key) is None:
            raise ConfigError(f"{key} must be set, was: null")
    if "corpus" in command.groups and config.corpus is None:
        raise ConfigError(
            "corpus is null, since this is the configuration of a run, which names its data; set "
            "corpus=NAME (the manifest.json of the data describes the corpus)"
        )
    if config.dry_run and name != "prepare":
        raise ConfigError("dry_run is for bipe prepare and launch=slurm; remove it")
    needs.require(config, command=name)
    trainer = config.trainer.description
    if command.trains and several(trainer) and (count := to_start(trainer)):
        shares = (config.rows.global_batch, config.rows.micro_batch)
        if fault := uneven(*shares, devices=count, context=config.context_parallel):
            raise ConfigError(fault)  # before ranks start, which takes long, as the next two
        from train.fit.machine import patient, precision_of

        patient(trainer, config.rank_timeout)
        if (precision := trainer.get("precision", "auto")) != "auto":  # which is measured
            precision_of(precision, resumed=None)
        return start_ranks(run_on_rank, name, config, count=count)
    with own_settings() if command.computes else nullcontext():
        return loaded(command.call)(config)


def run_on_rank(name: str, config: Config) -> Any:
    """Run a command as one of several ranks."""
    log_to_stderr()
    return run_command(name, config)


@contextmanager
def own_settings() -> Iterator[None]:
    """Compute in the block with a command's settings of torch, whatever a caller in Python has set.

    Denormal numbers count as 0, in this thread and those that it starts: the weights of far keys
    under ALiBi and BiPE-ALiBi are denormal in float32, and some processors take many times as long
    for such products. Threads of torch that run already are not reached, so this comes before the
    first parallel operation. Python's own numbers are flushed as well.
    """
    import torch

    if (device := torch.get_default_device()).type != "cpu":
        raise ConfigError(
            f"torch.set_default_device must be left at the CPU, was: {device}; call "
            "torch.set_default_device(None), since trainer.accelerator chooses the device"
        )
    dtype = torch.get_default_dtype()
    torch.set_flush_denormal(True)
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_flush_denormal(False)


def log_to_stderr() -> None:
    """Show warnings, and which backends were chosen, of one process of a run."""
    further = rank() > 0
    level = logging.ERROR if further else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", handlers=[CurrentStderr()])
    logging.getLogger("bipe").setLevel(level if further else logging.INFO)
    logging.getLogger("lightning").propagate = False  # it has a handler of its own


class CurrentStderr(logging.Handler):
    """Looks up stderr for each record, because a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)
