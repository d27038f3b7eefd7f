"""`bipe doctor [COMMAND key=value ...]`: compose the study that is named, and examine it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from train.errors import ConfigError, nearest
from train.launch.composition import GO_ON, TRAINS, going_on, opened, register_resolvers

STUDIES = ("prepare", *TRAINS, "evaluate", "generate", "report")


def main(words: list[str]) -> int:
    """Run the command on its arguments; return the exit status."""
    doctor: Any = import_module("train.commands.before.doctor")
    given, rest = doctor.options(words)
    if not rest:
        return int(doctor.examine(given))
    command, *study = rest
    if command not in STUDIES:
        raise ConfigError(f"doctor: there is no command {command!r}; {nearest(command, STUDIES)}")
    return int(doctor.examine(given, config=_composed(command, study), command=command))


def _composed(command: str, words: list[str]) -> Any:
    """Return the configuration that the words make, without asking for data or a checkpoint."""
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    from train.config import Config

    register_resolvers()
    if command in GO_ON:
        words = going_on(command, words)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("conf", version_base="1.3"):
            config = compose("config", overrides=[*map(opened, words)])
    finally:
        GlobalHydra.instance().clear()
    if config.get("data") is None:  # that of the checkpoint
        OmegaConf.update(config, "data", "${out}/data", merge=False)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    return Config.from_config(plain)
