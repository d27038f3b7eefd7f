"""From words to the one configuration: overrides in Hydra's grammar, its compose API, and `Config`.

What is typed is Hydra's to read. A value is quoted only where a text is asked for and Hydra would
read something else (name=2026_11_28), or where it names a file or folder. Where the YAML lacks a
nested key, Hydra needs ++KEY (Config checks that there is such a key), and ~GROUP for GROUP=null.

A file of --config-file may be from anyone: it decides what is trained or measured, and the user's
own words and conf/ what runs, connects or writes; `OWN` is the list.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import threading
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from train import CONF
from train.config import TEXT_KEYS, Config, encoding_name, slug, texts_in
from train.errors import ConfigError, RunError, as_config_error, nearest
from train.launch import help_pages, hydra_keys
from train.launch.reader import exists, verbatim, written
from train.words import Command, Words

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

_LONGEST = 120  # characters of a name; file systems allow 255 bytes
_SEARCHPATH = "hydra.searchpath="
_TURN = threading.RLock()
_FOLDER = "file://"  # of a folder in it
# Keys of the user's own words and conf/. Of sections that name classes these may start jobs and
# processes (launch, engine, trainer), connect to servers (logger, callbacks), or let in packages.
OWN = (
    *("out", "if_exists", "dry_run", "allowed_targets"),
    *("launch", "engine", "trainer", "logger", "callbacks"),
    *("scrolls.examples", "statistics.out", "report.out"),
    "evaluate.runs",  # whose folders get rows
)
# An interpolation that is more than the name of another key, such as ${oc.env:HOME}; \${ is none.
_RESOLVES = re.compile(r"(?<!\\)(\\\\)*\$\{(?![\w.]+\})")
# ${oc.decode:${oc.env:NAME}}, which Hydra reads in quotes alone.
_NESTED = re.compile(r"\$\{[\w.]+:\$\{[^{}]*\}\}")
# What begins a list or such, and is in a sweep that is more than values with commas.
_STRUCTURED = ("'", '"', "[", "{", "(")
_PLACE_OF_GROUP = (
    "GROUP@PATH=NAME needs the path of a key that a YAML file chooses, such as encoding@encoding."
    "inter of encoding=bilevel, or segmenter@corpus.sources.SOURCE.segmenter; --cfg job shows the "
    "sources. With -m, every run gets every word; use one command for each"
)


def composed(words: Words) -> Config:
    """Return the configuration of one run; allowed_targets are those of the words."""
    with opened(words) as overrides:
        return configuration(whole(overrides), words.study, overrides, words.options)


@contextmanager
def opened(words: Words) -> Iterator[list[str]]:
    """Open conf/ and the folder of --config-dir for Hydra; yield the overrides in its grammar.

    Raises ConfigError for words that it cannot read. What Hydra knew before, such as the
    configuration of an application that called us, is restored. Threads take turns.
    """
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins
    from hydra.core.singleton import Singleton
    from hydra.core.utils import JobRuntime

    with _TURN:
        kinds: Any = (ConfigStore, GlobalHydra, HydraConfig, JobRuntime, Plugins)
        theirs = {kind: kind.instance() for kind in kinds}
        ours = Singleton.get_state()  # copies
        ours["instances"][Plugins] = theirs[Plugins]
        Singleton.set_state(ours)
        GlobalHydra.instance().clear()
        store = ConfigStore.instance().repo
        for group, options in {"": CONF, **help_pages.groups()}.items():
            for file in options.glob("*.yaml"):  # of a namesake Hydra would make a schema
                (store.get(group, {}) if group else store).pop(file.name, None)
        ConfigStore.instance().store(**hydra_keys.SEARCHER)
        try:
            with initialize_config_dir(str(CONF), job_name="bipe", version_base="1.3"):
                lines = [f"command={words.study.name}"] * words.study.continues
                lines += as_overrides(words.overrides, many=words.many, texts=words.texts)
                if (folder := words.options.get("config-dir")) is not None:
                    lines = _with_folder(folder, lines)
                yield lines
        finally:
            Singleton.set_state({**ours, "instances": ours["instances"] | theirs})


# Words to overrides


def _with_folder(folder: str, lines: Sequence[str]) -> list[str]:
    """Return overrides by which the folder of --config-dir is searched as well."""
    if not Path(folder).is_dir():
        raise ConfigError(f"--config-dir must name a folder, was: {folder}")
    places, others = [f"{_FOLDER}{Path(folder).resolve()}"], list[str]()
    for line in lines:
        if line.lstrip("+").startswith(_SEARCHPATH):
            typed: Any = parsed(line).value()
            places += typed if isinstance(typed, list) else [str(typed)]
        else:
            others.append(line)
    return [*others, f"{_SEARCHPATH}{written(places)}"]


def as_overrides(words: Iterable[str], *, many: bool, texts: Collection[str] = ()) -> Iterator[str]:
    """Yield each KEY=VALUE as Hydra reads it. texts: those whose value is a text as it is."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser, groups = OverridesParser.create(), help_pages.groups()
    for word in words:
        name, equals, value = word.partition("=")
        try:
            override: Any = parser.parse_override(word)
        except Exception:
            override = None
        key = name.lstrip("+~")
        is_group = key.partition("@")[0] in groups
        read = None if override is None else override.value()
        if is_group and isinstance(read, list) and not all(isinstance(part, str) for part in read):
            raise ConfigError(
                f"{key} takes names, and its keys are set by '+{key}.KEY=VALUE', was: {value}; "
                f"bipe COMMAND --help {key} lists both"
            )
        numeric = is_group and any(
            isinstance(number, int | float) for number in getattr(read, "list", [read])
        )
        if override is None and _NESTED.fullmatch(value):
            value = verbatim(value, interpolates=True)
            word = f"{name}{equals}{value}"
            override = parsed(word)
        numeric |= is_group and override is None and not value.startswith(_STRUCTURED)
        as_text = key in TEXT_KEYS and override is not None and read != value
        if (
            override is None
            or numeric
            or as_text
            or override.is_sweep_override()
            or value.startswith("~/")
            or word in texts
        ):
            if numeric:  # of a file in a group, whose name looks like a number, or is not ASCII
                value = ",".join(verbatim(part.strip()) for part in value.split(","))
            word = f"{name}{equals}{_quoted(key, value, many=many, typed=word in texts)}"
            override = parsed(word)
            if override.is_sweep_override() and not many:
                if override.is_interval_sweep():
                    searched = "is searched by bipe COMMAND -m hydra/sweeper=optuna"
                    raise ConfigError(f"{key}={value} is an interval, which {searched}")
                plain = not is_group and "(" not in value
                one_list = f"; one list is '{key}=[{value}]'" * plain
                raise ConfigError(
                    f"{key}={value} are several values: bipe COMMAND -m runs each{one_list}"
                )
        if equals and name == key and "@" not in name:  # without + and ~
            if is_group and isinstance(override.value(), Mapping):
                yield from described(word)
                continue
            if is_group and override.value() is None:
                word = f"~{name}"
            elif "." in name and not name.startswith("hydra."):
                word = f"++{word}"
        yield word


def described(word: str) -> Sequence[str]:
    """Return the words for GROUP={...}: a class takes the place of the group, keys change it."""
    value: Any = parsed(word).value()
    if "_target_" not in value:
        return [f"++{word}"]
    return [f"~{word.partition('=')[0]}", f"+{word}"]


def parsed(word: str) -> Override:
    """Return an override as Hydra reads it; ConfigError if it cannot."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    from train.disk.files import yaml_fault

    try:
        loader = GlobalHydra.instance().config_loader() if GlobalHydra().is_initialized() else None
        return OverridesParser.create(config_loader=loader).parse_overrides([word])[0]
    except HydraException as error:
        cure = "quote a value with special characters: \"key='a <value>'\""
        raise ConfigError(f"{error}\n{cure}") from error
    except ValueError as error:  # of a number
        raise ConfigError(f"{word.partition('=')[0]}: {yaml_fault(error)}") from error


def _quoted(key: str, value: str, *, many: bool, typed: bool) -> str:
    """Return a value in quotes, if it is a text, or names a place that Hydra reads as more.

    typed: it is a text whatever it looks like.
    """
    if value.startswith("~/"):  # which a shell does not expand behind a key
        value = str(Path(value).expanduser())
    if typed or exists(value):
        return verbatim(value)
    if key in TEXT_KEYS and value not in ("", "null") and not value.startswith(_STRUCTURED):
        if "," not in value or not (many or TEXT_KEYS[key]):
            return verbatim(value, interpolates=True)
        if many and not any(sign in value for sign in _STRUCTURED):
            parts = (verbatim(part.strip(), interpolates=True) for part in value.split(","))
            return ",".join(parts)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        # Python's own spelling of lists and mappings, as agents of sweeps call.
        if isinstance(plain := ast.literal_eval(value), dict | list):
            return written(plain)
    return value


# Overrides to a configuration


def whole(overrides: Sequence[str], *, number: int | None = None) -> DictConfig:
    """Return what Hydra composes, its own section included. number: of the trial in its sweep."""
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from yaml import YAMLError

    try:
        with warnings.catch_warnings():  # of a place of hydra.searchpath
            warnings.filterwarnings("error", ".*path=.*is not available")
            config = compose("config", overrides=list(overrides), return_hydra_config=True)
    except UserWarning as missing:
        place = str(missing).partition("path=")[2].removesuffix(" is not available.")
        raise ConfigError(f"hydra.searchpath names {place}, which is not there") from None
    except (HydraException, YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(_explained(error, overrides)) from error
    hydra_keys.check(config, overrides)
    if number is not None:
        config.hydra.job.num = number
    HydraConfig.instance().set_config(config)  # for ${hydra:...}
    return config


def configuration(
    made: DictConfig,
    command: Command,
    overrides: Sequence[str],
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    swept: Collection[str] = (),
) -> Config:
    """Return what Hydra composed for a command, or that of --config-file, as a value.

    A run has the name of the encoding that was chosen, and reads prepared data: no corpus, unless
    it is planned before there is any. swept: keys that are not for its name.
    """
    from omegaconf import OmegaConf, open_dict, read_write

    file = options.get("config-file")
    node = made.copy() if file is None else stored(Path(file), made, command, overrides)
    with read_write(node), open_dict(node):
        if OmegaConf.is_dict(node.get("experiment")):
            raise ConfigError(
                "experiment: its YAML file must begin with the line '# @package _global_', so that "
                "its keys are those of the configuration"
            )
        hydra = node.pop("hydra", None)
        choices = {} if hydra is None else dict(hydra.runtime.choices)
        if command.trains and not command.continues and choices:
            # rope, or rope_theta=5e5 where the encoding's YAML was changed.
            name, inside = choices.get("encoding"), "encoding."
            if not isinstance(name, str):  # a description, or a list of names
                described: Any = OmegaConf.to_container(node, resolve=False)
                name = slug(encoding_name(described.get("encoding")))
            pairs = (word.lstrip("+~").partition("=") for word in overrides)
            typed = ((key.rpartition("@")[2], value or "null") for key, _, value in pairs
                     if key not in swept)  # fmt: skip
            if changes := {key.removeprefix(inside): value for key, value in typed
                           if key.startswith(inside)}:  # fmt: skip
                name = named(name, changes)
            OmegaConf.register_new_resolver("run_name", lambda _: name, replace=True)
            if not OmegaConf.is_config(node.name):  # which a name cannot be
                node.name = name if node.name is None else str(node.name)
        if command.trains and "plan" not in options:
            node.corpus = None
        if not any(word.lstrip("+").startswith("allowed_targets=") for word in overrides):
            allowed = _let_in(node, command.reads) if command.reads else ()
            node.allowed_targets = [*dict.fromkeys(allowed)]
        elif hydra is not None and hydra.searchpath:
            _reach(node.allowed_targets, _folders(hydra.searchpath))
    # What was typed: a key of a class may turn out to be declared as text (path=2024_01).
    pairs = (word.lstrip("+").partition("=") for word in overrides)
    texts = {key: value for key, equals, value in pairs
             if equals and not value.startswith(_STRUCTURED) and "${" not in value}  # fmt: skip
    return Config.from_config(node, choices=choices, texts=texts)


def _folders(searchpath: Any) -> list[str]:
    """Return the folders of hydra.searchpath."""
    paths = map(str, searchpath or ())
    return [path.removeprefix(_FOLDER) for path in paths if path.startswith(_FOLDER)]


def _let_in(node: DictConfig, reads: str) -> Iterator[str]:
    """Yield the packages that this user let in when training the runs that a command reads."""
    from omegaconf import OmegaConf

    from train.fit import runs
    from train.fit.checkpoints import find_places

    places: Any = OmegaConf.select(node, reads) if reads else None
    for place in places if OmegaConf.is_list(places) else filter(None, [places]):
        homes = [Path(str(place))]
        with suppress(RunError):
            homes += [place.home for place in find_places(str(place))]
        for home in homes:
            yield from runs.allowed_of(home)


def _reach(packages: Iterable[Any] | None, folders: Iterable[str]) -> None:
    """Let Python find the packages that the words allow in the folders of --config-dir too."""
    from bipe.build import reach

    for package in packages or ():
        name = str(package).partition(".")[0]
        for folder in folders:
            home = Path(folder) / name
            if name.isidentifier() and (home.is_dir() or home.with_suffix(".py").is_file()):
                reach(name)  # the working directory comes first
                reach(name, folder)  # does nothing for what is found there


def _explained(error: Exception, overrides: Sequence[str]) -> str:
    """Return what an error of Hydra or of YAML says, with its cure."""
    from hydra.errors import MissingConfigException
    from yaml import YAMLError

    from train.disk.files import yaml_fault

    if isinstance(error, MissingConfigException):
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return (
            f"there is no {group}={name}; {nearest(name, error.options or ())}\n"
            f"your own: FOLDER/{group}/{name}.yaml and --config-dir FOLDER"
            + "\nyour own files: corpus=text corpus.sources.text.documents.path=PATH"
            * (group == "corpus")
        )
    if isinstance(error, RecursionError):
        return "defaults of YAML files name each other in a circle"
    if isinstance(error, YAMLError):
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        return f"{mark.name if mark else 'YAML'}: {yaml_fault(error)}"
    folders = [folder for word in overrides if "hydra.searchpath=" in word
               for folder in _folders(parsed(word).value())]  # fmt: skip
    files = (path for folder in folders for path in Path(folder).rglob("*.yaml"))
    if isinstance(error, UnicodeDecodeError):
        file = next((path for path in files if error.object in path.read_bytes()), "a YAML")
        return f"{file}: not UTF-8: {error.reason} (byte {error.start})"
    if isinstance(error, ValueError) and (said := yaml_fault(error)) != str(error):
        long = (path for path in files if re.search(rb"\d{4000}", path.read_bytes()))
        return f"{next(long, 'a YAML')}: {said}"
    names = {*help_pages.groups(), *help_pages.top_keys()}
    names |= {path.name for folder in folders for path in Path(folder).iterdir()}
    for key in (word.partition("=")[0] for word in overrides):
        if key.isidentifier() and key not in names:
            return f"there is no key {key!r}; {help_pages.meant(key)}"
    said = str(error).strip()
    if found := re.match(r"Could not override 'hydra\.(sweeper|launcher)\.(\w+)", said):
        section, key = found.groups()
        near = nearest(key, hydra_keys.SEARCH)
        near = near if section == "sweeper" else "add its launcher, as hydra/launcher=joblib"
        return f"hydra.{section}.{key} has no effect in bipe; {near}"
    if found := re.match(r"Could not override '(hydra\.[\w.]+)", said):
        return f"there is no {found[1]}; bipe pretrain --cfg hydra shows the keys of Hydra"
    if said.startswith("Error merging") and error.__cause__ is not None:
        said += f": {str(error.__cause__).strip().partition(chr(10))[0]}"
    if said.endswith("Cannot merge DictConfig with ListConfig"):
        said += "; a list takes the place of a mapping by two words: ~KEY +KEY=[...]"
    return f"{said}\n{_PLACE_OF_GROUP}" if "@" in said else said


def stored(file: Path, made: DictConfig, command: Command, overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of a file with what the user's own words decide.

    made: what Hydra composed of conf/ and the words.
    """
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from train.disk.files import read_yaml, yaml_fault

    if not file.is_file():
        raise ConfigError(f"--config-file {file}: there is no such file")
    with as_config_error(f"--config-file {file}: ", OSError, OmegaConfBaseException):
        plain = read_yaml(file)  # of a limited size
        if call := next((text for _, text in texts_in(plain) if _RESOLVES.search(text)), None):
            raise ValueError(f"must contain plain values only, was: {call!r}; write what it is")
        try:
            config = OmegaConf.load(file)
        except YAMLError as error:  # a key twice
            raise ValueError(yaml_fault(error)) from None
        if not isinstance(config, DictConfig) or "out" not in config:
            raise ValueError("contains no configuration, as --cfg job shows and runs store one")
    reserved = OWN if command.name != "prepare" else (*OWN, "data")  # where it writes
    left = [key for name in reserved for key in _differing(config, made, name)]
    if config.pop("hydra", None) is not None:  # which may name folders of packages, and files
        left.append("hydra")
    if left:
        print(
            f"bipe: warning: --config-file {file}: not used: {', '.join(left)}, since a file "
            "decides what is trained or measured, and not what runs or writes; type "
            "what you want of it",
            file=sys.stderr,
        )
    for key in reserved:
        OmegaConf.update(config, key, _raw(made, key), merge=False, force_add=True)
    for word in overrides:
        if hydra_keys.is_of_hydra(word) or word.startswith("command="):
            continue
        override = parsed(word)
        group, place = override.key_or_group, override.package
        key = place or group
        if (group if place is None else f"{group}@{place}") in made.hydra.runtime.choices:
            OmegaConf.update(config, key, _raw(made, key), merge=False, force_add=True)
        elif not f"{key}.".startswith(tuple(f"{name}." for name in reserved)):
            value = None if override.is_delete() else override.value()
            OmegaConf.update(config, key, value, force_add=True)
    return config


def _differing(config: DictConfig, other: DictConfig, name: str) -> Iterator[str]:
    """Yield what differs of a key, or of the keys in it."""
    from omegaconf import OmegaConf

    ours, two = (OmegaConf.select(side, name) for side in (config, other))
    if ours is None:
        return
    if not (OmegaConf.is_dict(ours) and OmegaConf.is_dict(two)):
        yield from [name] * (ours != two)
    else:
        keys = dict.fromkeys((*ours, *two))
        yield from (f"{name}.{key}" for key in keys if ours.get(key) != two.get(key))


def _raw(config: DictConfig, key: str) -> Any:
    """Return a value with its interpolations, for another configuration."""
    from omegaconf import OmegaConf

    *parents, last = key.split(".")
    node: Any = OmegaConf.select(config, ".".join(parents)) if parents else config
    plain: Any = OmegaConf.to_container(node, resolve=False)
    return plain.get(last)


# Names of runs


def named(name: str, changes: Mapping[str, str], end: str = "") -> str:
    """Return a name with KEY=VALUE of what is changed; of a long one a digest replaces the end."""
    for word in (f"{key}={value}" for key, value in changes.items()):
        name += f"_{re.sub(r'[^A-Za-z0-9.+=-]+', '_', word).strip('_')}"
    if len(name := name + end) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
