"""Training, evaluation and reporting: what needs Lightning, Hydra or a data set.

The commands are functions as well: `train.pretrain(steps=500)`. They are in launch/start.py and
imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train.launch.start import evaluate, extend, prepare, pretrain, retrofit, scrolls

__all__ = ["evaluate", "extend", "prepare", "pretrain", "retrofit", "scrolls"]

# Not by its name: an application of Hydra has a conf of its own, found first.
CONF = Path(__file__).parents[1] / "conf"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("train.launch.start"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
