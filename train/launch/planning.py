"""`bipe pretrain | extend | scrolls --plan`: what a training will do and need, without training.

A plan is made of any configuration that is valid, also before there is data or a checkpoint; what
is then assumed is said.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError, RunError, UserError
from train.launch.composition import GO_ON, TRAINS, of_command_line, resolved

if TYPE_CHECKING:
    from omegaconf import DictConfig

OPTION, AS_JSON = "--plan", "--json"


def without_plan(
    command: str, words: list[str]
) -> tuple[list[str], Callable[[DictConfig], None] | None]:
    """Return the words without --plan and its --json, and what plans a configuration, if asked."""
    if OPTION not in words:
        return words, None
    if command not in TRAINS:
        raise ConfigError(f"{OPTION} is for {', '.join(TRAINS)}, not for bipe {command}")
    rest = [word for word in words if word not in (OPTION, AS_JSON)]
    return rest, functools.partial(_plan, command, words=rest, as_json=AS_JSON in words)


def _plan(command: str, config: DictConfig, *, words: Sequence[str], as_json: bool) -> None:
    """Print the plan of one configuration."""
    from train.config import Config

    values, notes = _resolved(command, of_command_line(config, words))
    checked = Config.from_config(values)
    show = import_module("train.commands.before.plan").show
    show(checked, command=command, notes=notes, as_json=as_json)


def _resolved(command: str, config: DictConfig) -> tuple[dict[str, Any], list[str]]:
    """Resolve as for a run; where its checkpoint or data is not there yet, go on without."""
    from omegaconf import OmegaConf

    notes: list[str] = []
    if command in GO_ON:
        try:
            return resolved(command, config), notes
        except RunError as fault:
            notes.append(f"{fault}; planned for the model and encoding of the configuration")
        except ConfigError as fault:
            if isinstance(config.get("checkpoint"), str):
                raise
            notes.append(f"{fault}; planned for the model and encoding of the configuration")
        config = config.copy()
        if config.get("data") is None:
            OmegaConf.update(config, "data", "${out}/data", merge=False)
    else:
        try:
            return resolved(command, config), notes
        except (UserError, OSError) as fault:
            if config.get("epochs") is None or isinstance(fault, ConfigError):
                raise
            notes.append(
                f"epochs={config.epochs} cannot be counted before there is data; planned for "
                f"steps={config.steps}"
            )
    config = config.copy()
    OmegaConf.update(config, "epochs", None, merge=False)
    return dict(OmegaConf.to_container(config, resolve=True)), notes  # type: ignore[arg-type]
