"""What has to surround Lightning's `fit`: its own habits suit a script, not a command.

It starts the processes of other devices by repeating the command line, leaves its environment
variables and its process group behind, exits without a word when the user interrupts it, and
gives advice that does not apply here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

_LAUNCH = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_NOT_HERE = (
    # Rows come from memory-mapped files through a thread: there is nothing for workers to do.
    ".*does not have many workers.*",
    # The data module resumes (consumed_rows), not its loader.
    ".*your dataloader is not resumable.*",
    ".*across ranks is zero.*",  # no validation
    ".*Trainer already configured with.*",
    ".*treespec.*LeafSpec.*",
)


@contextlib.contextmanager
def fitting(config_file: Path, *, command: str) -> Iterator[None]:
    """Surround `fit` and what needs its processes; others run the command on config_file."""
    with quiet(), _interruptible(), _children_repeat(config_file, command), _released():
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep back what Lightning says about devices, and advice that does not apply here."""
    with (
        _errors_only("lightning.pytorch"),
        _errors_only("lightning.fabric"),
        warnings.catch_warnings(),
    ):
        for message in _NOT_HERE:
            warnings.filterwarnings("ignore", message=message)
        yield


@contextlib.contextmanager
def _errors_only(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Lightning turns an interruption by the user into an exit without a word: turn it back."""
    try:
        yield
    except SystemExit as exit:
        if isinstance(exit.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from exit
        raise


@contextlib.contextmanager
def _children_repeat(config_file: Path, command: str) -> Iterator[None]:
    """Let the processes that Lightning starts for other devices run this very configuration.

    They repeat the command line. Under Hydra that would compose anew: in a multirun each child
    would run the whole sweep, and Lightning would give each a folder of its own.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.instance()
    before, composed = sys.argv, hydra.cfg
    sys.argv = [before[0], command, "--config-file", str(config_file)]
    hydra.cfg = None
    try:
        yield
    finally:
        sys.argv, hydra.cfg = before, composed


@contextlib.contextmanager
def _released() -> Iterator[None]:
    """Leave no process group behind, so that the next run of a sweep starts its own.

    After a failure the group is left to the end of the process: others may be waiting in it.
    """
    before = {name: os.environ.get(name) for name in _LAUNCH}
    try:
        yield
        ours = before["LOCAL_RANK"] is None  # and not torchrun's, which serves the whole sweep
        if ours and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
