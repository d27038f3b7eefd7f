"""Training, evaluation and reporting: what needs Lightning, Hydra or a data set.

The commands are functions as well: `train.pretrain(steps=500)`. They are in launch/start.py and
imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train.launch.start import evaluate, extend, prepare, pretrain, retrofit, scrolls

__all__ = ["evaluate", "extend", "prepare", "pretrain", "retrofit", "scrolls"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("train.launch.start"), name)
