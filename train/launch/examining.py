"""Commands that compose a study without running it: `bipe doctor` and `bipe explain`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from train.errors import ConfigError, nearest
from train.launch.composition import GO_ON, TRAINS, going_on, opened, register_resolvers

LENGTHS = (128, 512, 2048, 8192)
STUDIES = ("prepare", *TRAINS, "evaluate", "generate", "report")


def doctor(words: list[str]) -> int:
    """Examine the machine for what the words name; return the exit status."""
    checks: Any = import_module("train.commands.before.doctor")
    given, rest = checks.options(words)
    if not rest:
        return int(checks.examine(given))
    command, *study = rest
    if command not in STUDIES:
        raise ConfigError(f"doctor: there is no command {command!r}; {nearest(command, STUDIES)}")
    return int(checks.examine(given, config=_composed(command, study), command=command))


def explain(words: list[str]) -> int:
    """Explain the encoding that the words compose; return the exit status."""
    given, rest = _explaining().parse_known_args(words)
    if (option := next((word for word in rest if word.startswith("-")), None)) is not None:
        raise ConfigError(f"explain: there is no option {option}; {_OPTIONS}")
    for name in ("svg", "pdf"):
        file = getattr(given, name)
        if file is not None and file.suffix != f".{name}":
            raise ConfigError(f"--{name} must name a file that ends in .{name}, was: {file}")
        if file is not None and not file.absolute().parent.is_dir():
            raise ConfigError(f"--{name} {file}: there is no folder {file.parent}")
    config = _composed("explain", rest)
    module: Any = import_module("train.commands.explain")
    module.explain(config, lengths=given.lengths, svg=given.svg, pdf=given.pdf)
    return 0


_OPTIONS = "there are: --lengths N,N, --svg FILE, --pdf FILE"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"explain: {message}")


def _explaining() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bipe explain",
        usage="bipe explain encoding=NAME [key=value ...] [options]",
        description="Print formula, source, hooks, cost and paths of an encoding; draw it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--lengths", type=_lengths, default=LENGTHS, metavar="N,N", help="of rows, in tokens")
    add("--svg", type=Path, metavar="FILE", help="write the picture")
    add("--pdf", type=Path, metavar="FILE", help="write the picture")
    return parser


def _lengths(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"must be numbers from 1 up, was: {text}")
    return tuple(sorted(set(map(int, parts))))


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
    if command == "explain":  # which reads no trainer: to check one takes seconds for Lightning
        plain["trainer"] = {}
    return Config.from_config(plain)
