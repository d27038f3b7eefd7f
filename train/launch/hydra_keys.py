"""Hydra's own section: its keys act as in Hydra's manual, or are refused with what does it here.

docs/runs.md lists those that act; bipe pretrain --cfg hydra shows all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("bipe")

_DERIVED = "Hydra derives it; remove it"
_HELP = "bipe COMMAND --help is the help; remove it"
# What conf/ says of a key that has no effect, if a YAML file may set it, and what to do instead.
REFUSED: dict[str, tuple[Any, str]] = {
    "run.dir": (".", "a run is written to OUT/NAME: set out= and name="),
    "sweep.dir": ("${out}", "the trials are written to OUT: set out="),
    "sweep.subdir": (".", "a trial is written to OUT/NAME: set name="),
    "output_subdir": (None, "OUT/NAME/config.yaml keeps the configuration; remove it"),
    "job.chdir": (False, "paths are those of the working directory: cd, or set out="),
    "job.env_copy": ([], "jobs inherit the environment: export the variable"),
    "job.id": ("???", _DERIVED),
    "job.num": ("???", _DERIVED),
    "job.config_name": ("config", _DERIVED),
    "job.override_dirname": (..., _DERIVED),
    "overrides": (..., _DERIVED),
    "runtime": (..., _DERIVED),
    "env": (..., _DERIVED),
    "help": (..., _HELP),
    "hydra_help": (..., _HELP),
}
# hydra/sweeper=optuna (search.py), by the names of Hydra's Optuna sweeper.
SEARCH: dict[str, Any] = {
    "n_trials": 20,  # in all, those of earlier starts included
    "n_jobs": 1,  # trials at the same time; more than one needs a launcher
    "seed": 0,  # of the sampler
    "storage": "${out}/search.journal",  # the trials so far
    "study_name": "bipe",
    "direction": "minimize",
    "params": {},  # what is searched, as on the command line
}
SEARCHER: dict[str, Any] = {"group": "hydra/sweeper", "name": "optuna", "node": SEARCH}
_EVENTS = [f"on_{what}_{when}" for what in ("run", "multirun", "job") for when in ("start", "end")]


def is_of_hydra(word: str) -> bool:
    """Return whether an override is for Hydra's own section."""
    return word.lstrip("+~").startswith(("hydra.", "hydra/"))


def check(made: DictConfig, overrides: Sequence[str]) -> None:
    """Raise ConfigError for a key that is set, by words or a YAML file, and does not act here."""
    from hydra.conf import HydraConf, JobConf
    from omegaconf import OmegaConf

    plain: Any = OmegaConf.to_container(made.hydra, resolve=False)
    words = [word.lstrip("+~").partition("=")[0].replace("/", ".") for word in overrides]
    for section, kind in ((made.hydra, HydraConf), (made.hydra.job, JobConf)):
        of = "hydra" if section is made.hydra else "hydra.job"
        for key in {*section} - {field.name for field in fields(kind)} - {*REFUSED}:
            raise ConfigError(f"{of}.{key} has no effect: Hydra has no such key; remove it")
    if isinstance(verbose := plain["verbose"], Mapping):
        raise ConfigError(f"hydra.verbose must be true, or names of loggers, was: {verbose}")
    for name, (default, cure) in REFUSED.items():
        value: Any = plain
        for part in name.split("."):
            value = value.get(part)
        typed = [key for key in words if f"{key}.".startswith(f"hydra.{name}.")]
        if typed or (default is not ... and value != default):
            raise ConfigError(f"{(*typed, f'hydra.{name}')[0]} has no effect in bipe: {cure}")


def callbacks(made: DictConfig, overrides: Sequence[str], *, allowed: Sequence[str]) -> Any:
    """Return those of hydra.callbacks, to be called as Hydra calls them; a fault is a warning.

    What a YAML file names must be Hydra's own or among allowed_targets.
    """
    from hydra.utils import instantiate

    from bipe.build import reach

    objects, packages = [], {each.partition(".")[0] for each in ("hydra", *allowed)}
    for name, call in (made.hydra.callbacks or {}).items():
        if not isinstance(call, Mapping) or not isinstance(call.get("_target_"), str):
            raise ConfigError(
                f"hydra.callbacks.{name} must be a mapping with _target_, the class of the "
                f"callback, was: {call}; set +hydra.callbacks.{name}._target_=PACKAGE.CLASS"
            )
        package = call["_target_"].partition(".")[0]
        words = [word for word in overrides if f"hydra.callbacks.{name}." in word]
        if not words and package not in packages:
            raise ConfigError(
                f"hydra.callbacks.{name}._target_ names code that is not allowed, was: "
                f"{call.get('_target_')!r}; if you trust it, add allowed_targets=[{package}]"
            )
        reach(package)
        objects.append(instantiate(call))

    def tell(event: str, **given: Any) -> None:
        for callback in objects if event.endswith("_start") else reversed(objects):
            try:
                getattr(callback, event, lambda **_: None)(**given)
            except Exception as error:
                fault = f"{type(callback).__name__}.{event}: {type(error).__name__}: {error}"
                log.warning("hydra.callbacks: %s", fault)

    quiet = (lambda **_: None) if not objects else None
    return SimpleNamespace(**{event: quiet or partial(tell, event) for event in _EVENTS})
