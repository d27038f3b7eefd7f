"""From what was typed to a configuration: conf/ by Hydra's compose API, or a run's config.yaml."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError, RunError, UserError, as_config_error, nearest
from train.launch.commands import COMMANDS, CONTINUES, TRAINS
from train.launch.words import Typed, opened

if TYPE_CHECKING:
    from omegaconf import DictConfig

_UNKNOWN = re.compile(r"Could not override '([^']+)'")
_SEVERAL = re.compile(r"Ambiguous value for argument '\W*([^=]+)=([^']+)'")
_MISSING = re.compile(r"Could not find '([\w@./]+)/(\w+)'")
_ALLOWS = re.compile(r"[+~]*allowed_targets=")
# An interpolation that is more than the name of another key, such as ${oc.env:HOME}.
_RESOLVES = re.compile(r"\$\{(?![\w.]+\})")
_ROW_LENGTH = 512  # tokens, in a plan whose checkpoint is not there yet to tell


def composed(typed: Typed) -> DictConfig:
    """Return the configuration of one run, unresolved; allowed_targets are those of the words."""
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig

    HydraConfig.instance().cfg = None  # of an earlier command in this process
    with opened_conf(typed) as words:
        if typed.has("config-file"):
            config = _from_file(typed)
        else:
            whole = compose("config", overrides=words, return_hydra_config=True)
            HydraConfig.instance().set_config(whole)  # its choices, and ${hydra:...}
            config = without_hydra(whole, command=typed.study.name)
            _reach_own(config, typed)
    return allowing(typed.study.name, config, typed.overrides)


def without_hydra(whole: DictConfig, *, command: str, swept: Collection[str] = ()) -> DictConfig:
    """Return a configuration without the section of Hydra itself.

    What names a run by its encoding, ${run_name:...} or no name at all, becomes the name of the
    encoding that was chosen. swept: keys that others add to the name.
    """
    from omegaconf import OmegaConf, open_dict, read_write

    from train.launch.trials import chosen_name

    config = whole.copy()
    with read_write(config), open_dict(config):
        del config["hydra"]
        if COMMANDS[command].trains and not COMMANDS[command].continues:
            typed = [word.lstrip("+~").partition("=") for word in whole.hydra.overrides.task]
            changes = {key: value for key, _, value in typed if key not in swept}
            choice = whole.hydra.runtime.choices.get("encoding")
            name = chosen_name(choice, changes, encoding=config.get("encoding"))
            OmegaConf.register_new_resolver("run_name", lambda _: name, replace=True)
            config.name = name if config.name is None else str(config.name)
            register_resolvers()
    return config


@contextmanager
def opened_conf(typed: Typed) -> Iterator[list[str]]:
    """Open conf/ and the folder of --config-dir for Hydra; yield the overrides in its grammar.

    Its errors about them, and those of a YAML that cannot be read, become ConfigErrors.
    """
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from yaml import MarkedYAMLError

    from train.disk.files import yaml_fault

    words, folder = typed.for_hydra(), typed.options.get("config-dir")
    if folder is not None:
        if not Path(folder).is_dir():
            raise ConfigError(f"--config-dir must name a folder, was: {folder}")
        words.append(f"hydra.searchpath=['file://{Path(folder).resolve()}']")
    register_resolvers()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("conf", version_base="1.3"):
            yield words
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{mark.name if mark else folder}: {yaml_fault(error)}") from error
    except UnicodeDecodeError as error:
        files = Path(folder or ".").resolve().rglob("*.yaml")
        file = next((each for each in files if error.object in each.read_bytes()), folder)
        raise ConfigError(f"{file}: not UTF-8: {error.reason} (byte {error.start})") from error
    except UserError:
        raise
    except ValueError as error:  # from Hydra
        raise ConfigError(str(error)) from error
    finally:
        GlobalHydra.instance().clear()


def _reach_own(config: DictConfig, typed: Typed) -> None:
    """Let Python find the packages that the words allow in the folder of --config-dir too."""
    from bipe.build import reach

    folder, allows = typed.options.get("config-dir"), any(map(_ALLOWS.match, typed.overrides))
    for package in config.get("allowed_targets") or () if folder and allows else ():
        name = str(package).partition(".")[0]
        home = Path(str(folder)).resolve() / name
        if name.isidentifier() and (home.is_dir() or home.with_suffix(".py").is_file()):
            reach(name)  # the working directory comes first
            reach(name, str(home.parent))  # does nothing for what is found there


def _from_file(typed: Typed) -> DictConfig:
    """Read a configuration that a run stored, with overrides: FILE [key=value ...]."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from train.disk.files import read_yaml

    file = Path(typed.options["config-file"])
    if not file.is_file():
        raise ConfigError(f"--config-file {file}: there is no such file")
    with as_config_error(f"--config-file {file}: ", OSError, OmegaConfBaseException):
        plain = read_yaml(file)  # of a limited size
        if call := next(filter(_RESOLVES.search, _texts(plain)), None):
            raise ValueError(f"must contain plain values only, as runs store them, was: {call!r}")
        config = OmegaConf.load(file)
        if not isinstance(config, DictConfig) or "out" not in config:
            raise ValueError("contains no configuration, as --cfg job shows and runs store one")
    if typed.study.name == "prepare":
        _refuse_engine(plain.get("engine"), file, typed.overrides)
    # A file may be from anyone: packages that it names are imported only if the user says so.
    OmegaConf.update(config, "allowed_targets", [])
    words = [opened(word) for word in typed.overrides]
    for each in OverridesParser.create().parse_overrides(words):
        value = None if each.is_delete() else each.value()
        OmegaConf.update(config, each.key_or_group, value, force_add=True)
    return config


def _refuse_engine(engine: Any, file: Path, words: Sequence[str]) -> None:
    """Raise ConfigError for an engine of a file that may run lines of a shell, or elsewhere."""
    target = str(engine.get("_target_") if isinstance(engine, dict) else engine)
    local = target.rpartition(".")[2] == "Local"
    if not local and not any(word.startswith("engine.") for word in words):
        raise ConfigError(
            f"--config-file {file}: its engine is {engine}; if you trust it, add "
            f"engine._target_={target} on the command line"
        )


def allowing(command: str, config: DictConfig, words: Sequence[str]) -> DictConfig:
    """Return a composed configuration whose allowed_targets are those of the words, if any.

    Else they are those that this user let in when training the runs that the command reads.
    """
    from omegaconf import OmegaConf

    if any(map(_ALLOWS.match, words)):
        return config
    places: Any = [OmegaConf.select(config, COMMANDS[command].reads)]
    if OmegaConf.is_list(places[0]):
        places = [*places[0]]
    allowed = {name: None for place in filter(None, places) for name in _let_in(str(place))}
    return OmegaConf.merge(config, {"allowed_targets": [*allowed]})  # type: ignore[return-value]


def _let_in(place: str) -> Iterator[str]:
    from train.fit import runs
    from train.fit.checkpoints import find_places

    found = [Path(place)]
    with suppress(RunError):
        found += [each.home for each in find_places(place)]
    for run in found:
        yield from runs.allowed_of(run)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def resolved(command: str, config: DictConfig, *, notes: list[str] | None = None) -> dict[str, Any]:
    """Resolve the configuration; set `steps` from `epochs` first, since schedules refer to it.

    notes: of a plan, gets what is assumed of a checkpoint or data that are not there yet.
    """
    from omegaconf import OmegaConf

    if command in CONTINUES:
        config = _completed(config, notes)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    if command not in TRAINS or plain.get("epochs") is None:
        return dict(plain)
    if command == "scrolls":
        raise ConfigError("epochs must be null for bipe scrolls; set steps instead")
    config = config.copy()
    try:
        OmegaConf.update(config, "steps", _epoch_steps(plain))
    except (UserError, OSError) as fault:
        if notes is None or isinstance(fault, ConfigError):
            raise
        OmegaConf.update(config, "epochs", None, merge=False)
        notes.append(
            f"epochs={plain['epochs']} cannot be counted before there is data; planned for "
            f"steps={config.steps}"
        )
    return dict(OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]


def _epoch_steps(plain: Mapping[str, Any]) -> int:
    from train.config import Config

    checked = Config.from_config(plain, calls=False)
    from train.commands.pretrain import rows_of

    return rows_of(checked).epoch_steps()


def _completed(config: DictConfig, notes: list[str] | None) -> DictConfig:
    """Return a configuration with the model of its checkpoint, or without one where that lacks."""
    from omegaconf import OmegaConf

    from train.commands.before import needs

    checkpoint = config.get("checkpoint")
    try:
        needs.require_run(checkpoint, key="checkpoint")
        from train.commands.extend import completed

        return completed(config)
    except UserError as fault:
        named = isinstance(checkpoint, str)
        if notes is None or not isinstance(fault, RunError if named else ConfigError):
            raise
        note = f"{fault}; planned for the model and encoding of the configuration"
    config = config.copy()
    if config.get("data") is None:
        OmegaConf.update(config, "data", "${out}/data", merge=False)
    if config.get("row_length") is None:  # retrofit has the checkpoint's
        OmegaConf.update(config, "row_length", _ROW_LENGTH, merge=False)
        note += f", row_length={_ROW_LENGTH}"
    notes.append(note)
    return config


def register_resolvers() -> None:
    """Let YAML call ${head_width:width,n_head}, ${half:number} and ${run_name:encoding}."""
    from omegaconf import OmegaConf

    def head_width(width: int, n_head: int, *, _root_: Any) -> int:
        given = (_root_.get("model") or {}).get("head_width")
        return int(width) // max(1, int(n_head)) if given is None else int(given)

    def half(number: int) -> int:
        return int(number) // 2

    def run_name(encoding: Any) -> str:
        from train.config import encoding_name, slug

        return slug(encoding_name(encoding))

    for resolver in (head_width, half, run_name):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def explained(error: Exception) -> str:
    """Return the message of an error; for an unknown key of Hydra, with the nearest key."""
    from train.launch import help_pages

    text = str(error).partition("\nConfig search path")[0].strip()
    if unknown := _UNKNOWN.search(text):
        if "@" in unknown[1]:
            return (
                f"there is no {unknown[1]}: GROUP@PATH=NAME needs the path of a key that a YAML "
                "file chooses, such as encoding@encoding.inter of encoding=bilevel, or "
                "segmenter@corpus.sources.SOURCE.segmenter; --cfg job shows the sources. With -m, "
                "every run gets every word; use one command for each"
            )
        return f"there is no key {unknown[1]!r}; {help_pages.meant(unknown[1])}"
    if several := _SEVERAL.match(text):
        key, values = several.groups()
        listed = f"one list is '{key}=[{values}]'"
        return f"{key}={values} are several values: bipe COMMAND -m runs each; {listed}"
    if missing := _MISSING.search(text):
        known = text.partition("Available options")[2].split()[2:]
        own = f"your own: FOLDER/{missing[1]}/{missing[2]}.yaml and --config-dir FOLDER"
        if missing[1] == "corpus":
            own += "\nyour own files: corpus=text corpus.sources.text.documents.path=PATH"
        return f"{missing[0]}; {nearest(missing[2], known)}\n{own}"
    quoting = "\nquote a value with special characters: \"key='a <value>'\""
    return text + quoting * ("override_grammar" in text)
