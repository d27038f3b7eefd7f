"""From the words behind a command to its run, to the runs of a sweep, or to a job of Slurm.

`bipe doctor`, `bipe explain` and --plan compose a study without running it. `bipe pretrain | extend
| scrolls --plan` prints what a training will do and need, of any configuration that is valid, also
before there is data or a checkpoint; what is then assumed is said.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from train.errors import ConfigError, RunError, UserError, nearest
from train.launch.composition import (
    LAUNCHED,
    TRAINS,
    asks_for_job,
    from_file,
    going_on,
    log_to_stderr,
    of_command_line,
    reach_own,
    register_resolvers,
    resolved,
    run_command,
    run_composed,
)
from train.launch.typed import (
    CONFIG_FOLDER,
    GO_ON,
    MANY,
    PLANS,
    is_override,
    opened,
    prompted,
    refuse_bare,
    without_options,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig


def compose_and_run(command: str, words: list[str]) -> int:
    """Run a command on the words behind it; return the exit status."""
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    register_resolvers()
    typed = words
    if command == "prepare" or command in LAUNCHED:
        words = without_options(words)
    if command == "generate":
        words = prompted(words)
    if command in GO_ON:
        words = going_on(command, words)
    refuse_bare(command, words)
    log_to_stderr()
    words, plan = without_plan(command, words)
    if words[:1] == ["--config-file"]:
        config = from_file(words[1:], command=command)
        if plan is None:
            run_command(command, resolved(command, config))
        else:
            plan(config)
        return 0
    if plan is not None:
        return _run_one(words, plan)
    options = [word for word in words if not is_override(word)]
    if options and set(options) <= set(MANY):
        from train.launch.sweeps import sweep

        try:
            return sweep(command, [opened(word) for word in words if word not in MANY])
        except ValueError as error:  # from Hydra
            raise _as_config_error(error) from error
    return _run_one(words, lambda config: _submit_or_run(command, config, words, typed))


def _run_one(words: Sequence[str], run: Callable[[DictConfig], Any]) -> int:
    """Run one configuration, or what Hydra's options ask for (--cfg, --help)."""
    import hydra

    faults: list[BaseException] = []
    statuses: list[int] = []

    folder, _ = _config_folder(words)

    def task(config: DictConfig) -> None:
        try:
            if folder is not None:
                reach_own(config, words, folder)
            statuses.append(run(config) or 0)
        except BaseException as fault:  # raised below, since Hydra would print its own lines first
            faults.append(fault)

    before = sys.argv
    # Options first: argparse does not accept overrides on both sides of an option.
    sys.argv = [before[0], *map(opened, sorted(words, key=is_override))]
    try:
        hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")(task)()
    except ValueError as error:  # from Hydra: errors of a command are in `faults`
        raise _as_config_error(error) from error
    finally:
        sys.argv = before
    if faults:
        raise faults[0]
    return statuses[0] if statuses else 0


def _config_folder(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the folder of --config-dir, and the words without it."""
    for at, (option, given, value) in enumerate(word.partition("=") for word in words):
        if option in CONFIG_FOLDER:
            value, *rest = [value, *words[at + 1 :]] if given else [*words[at + 1 :], ""]
            if not value or not Path(value).is_dir():
                raise ConfigError(f"{option} must name a folder, was: {value or 'nothing'}")
            return str(Path(value).resolve()), [*words[:at], *filter(None, rest)]
    return None, list(words)


def _submit_or_run(
    command: str, config: DictConfig, words: Sequence[str], typed: Sequence[str]
) -> int:
    if asks_for_job(command, config):
        from train.launch.sweeps import submit_one

        return submit_one(command, of_command_line(command, config, words), words=typed)
    run_composed(command, config, words)
    return 0


def _as_config_error(error: ValueError) -> ValueError:
    """Return Hydra's ValueErrors as what they are, faults of the words."""
    ours = type(error) is not ValueError
    return error if ours else ConfigError(str(error))


LENGTHS = (128, 512, 2048, 8192)
_ROW_LENGTH = 512  # of a plan whose checkpoint is not there yet to tell
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
    if (
        option := next((word for word in _config_folder(rest)[1] if word.startswith("-")), None)
    ) is not None:
        raise ConfigError(f"explain: there is no option {option}; {_OPTIONS}")
    for name, suffix in (("svg", ".svg"), ("pdf", ".pdf"), ("page", ".html")):
        file = getattr(given, name)
        if file is not None and file.suffix != suffix:
            raise ConfigError(f"--{name} must name a file that ends in {suffix}, was: {file}")
        if file is not None and not file.absolute().parent.is_dir():
            raise ConfigError(f"--{name} {file}: there is no folder {file.parent}")
    if given.file is not None and given.page is None:
        raise ConfigError(f"--file {given.file}: needs --page FILE")
    if given.file is not None and not given.file.is_file():
        raise ConfigError(f"--file {given.file}: there is no such file")
    config = _composed("explain", rest)
    module: Any = import_module("train.commands.explain")
    module.explain(config, **vars(given))
    return 0


_OPTIONS = (
    "there are: --config-dir FOLDER, --lengths N,N, --svg FILE, --pdf FILE, --page FILE.html, "
    "--file FILE"
)


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
    add("--page", type=Path, metavar="FILE", help="write a page (.html) to type texts in")
    add("--file", type=Path, metavar="FILE", help="the text that the page begins with")
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
    folder, words = _config_folder(words)
    refuse_bare(command, words)
    if command in GO_ON:
        words = going_on(command, words)
    if folder is not None:
        words = [*words, f"hydra.searchpath=['file://{folder}']"]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("conf", version_base="1.3"):
            config = compose("config", overrides=[*map(opened, words)])
    finally:
        GlobalHydra.instance().clear()
    if folder is not None:
        reach_own(config, words, folder)
    if config.get("data") is None:  # that of the checkpoint
        OmegaConf.update(config, "data", "${out}/data", merge=False)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    if command == "explain":  # which reads no trainer: to check one takes seconds for Lightning
        plain["trainer"] = {}
    return Config.from_config(plain)


OPTION, AS_JSON = PLANS


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
    from train.config import Config

    values, notes = _resolved(command, of_command_line(command, config, words))
    checked = Config.from_config(values)
    show = import_module("train.commands.before.plan").show
    show(checked, command=command, notes=notes, as_json=as_json)


def _resolved(command: str, config: DictConfig) -> tuple[dict[str, Any], list[str]]:
    """Resolve as for a run; where its checkpoint or data is not there yet, go on without."""
    from omegaconf import OmegaConf

    try:
        return resolved(command, config), []
    except (UserError, OSError) as fault:
        if command in GO_ON:
            named = isinstance(config.get("checkpoint"), str)
            lacks = isinstance(fault, RunError) or (isinstance(fault, ConfigError) and not named)
            note = f"{fault}; planned for the model and encoding of the configuration"
        else:
            lacks = config.get("epochs") is not None and not isinstance(fault, ConfigError)
            note = (
                f"epochs={config.epochs} cannot be counted before there is data; planned for "
                f"steps={config.steps}"
            )
        if not lacks:
            raise
    config = config.copy()
    if command in GO_ON and config.get("data") is None:
        OmegaConf.update(config, "data", "${out}/data", merge=False)
    if config.get("row_length") is None:  # retrofit has the checkpoint's
        OmegaConf.update(config, "row_length", _ROW_LENGTH, merge=False)
        note += f", row_length={_ROW_LENGTH}"
    OmegaConf.update(config, "epochs", None, merge=False)
    return dict(OmegaConf.to_container(config, resolve=True)), [note]  # type: ignore[arg-type]
