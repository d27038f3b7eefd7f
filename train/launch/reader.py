"""The words behind a command, read in one way for all commands: options, KEY=VALUE, places.

Values of Python are written as such words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import partial
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, OF_HYDRA, STUDIES
from train.words import Command, Option, Words

_OURS = ("bipe.", "segmenters.", "train.")
_SOURCE = "corpus.sources.text.documents.path"
Options = dict[str, tuple[str, Option]]  # the long name and the option, by each of its names


def read(command: Command, typed: Sequence[str]) -> Words:
    """Read the words behind a command; ConfigError for the first that is none of its words."""
    study, options, overrides, places = command, dict[str, str](), list[str](), list[str]()
    rest, texts, words = list[str](), set[str](), iter(typed)
    known: Options = {name: (long, option) for long, option in command.options.items()
                      for name in (long, option.short or long)}  # fmt: skip
    for word in words:
        name, given, value = word.partition("=")
        if name in known:
            long, option = known[name]
            value = _value(long, option, word, words)
            if option.key:
                overrides.append(option.key + value)
                texts |= {overrides[-1]} if option.text else set()
            else:
                options[long[2:]] = value
        elif command.rest and name not in command.keys and (places or word.startswith("-")):
            rest.append(word)
        elif (
            word.startswith("--")
            and given
            and name not in OF_HYDRA
            and (command.composes or name[2:] in command.keys)
        ):
            overrides.append(word[2:])  # as agents of sweeps call
        elif word.startswith("-") and word != "-":
            raise ConfigError(_no_option(study, name, known))
        elif command.names_study and study is command:
            study = _study(command, word)
            known |= {long: (long, option) for long, option in study.options.items()
                      if option.key}  # nobody would read its others  # fmt: skip
        elif command.places is not None and _is_place(command, word, places):
            places.append(word)
        else:
            overrides.append(word)
    if command.composes and "cfg" not in options:
        for name in ("package", "resolve"):
            if name in options:
                raise ConfigError(f"--{name} has no effect without --cfg: add --cfg job")
    overrides = [*_checked(study, overrides)]
    if command.places is not None or command.keys:
        _require(command, places, overrides)
    if command.places is not None and command.places.key:
        overrides[:0] = of_places = [f"{command.places.key}={place}" for place in places]
        texts |= {*of_places}
    return Words(
        command=command, study=study, options=options, overrides=tuple(overrides),
        places=tuple(places), rest=tuple(rest), texts=frozenset(texts), typed=tuple(typed),
        many="multirun" in options or "hydra.mode=MULTIRUN" in overrides,
    )  # fmt: skip


def _value(name: str, option: Option, word: str, rest: Iterator[str]) -> str:
    """Return the value of an option, which may be the next word."""
    _, given, value = word.partition("=")
    if given and not option.value:
        raise ConfigError(f"{name} takes no value, was: {word}")
    if option.value and not (value := value if given else next(rest, "")):
        raise ConfigError(f"{name} needs {option.value}")
    if option.choices and value not in option.choices:
        raise ConfigError(f"{name} must be one of {', '.join(option.choices)}, was: {value}")
    return value


def _no_option(command: Command, name: str, known: Options) -> str:
    for long, option in OF_HYDRA.items() if command.composes else ():
        if name in (long, option.short):
            return f"{command.name} has no option {name}: {option.instead}"
    from train.launch.help_pages import groups, top_keys  # reads YAML

    key = name.removeprefix("--")
    if command.composes and key.partition(".")[0] in {*groups(), *top_keys()}:
        return f"{command.name}: {name} is a key, not an option: write {key}=VALUE, in one word"
    return f"{command.name}: there is no option {name}; {nearest(name, [*known, '--help'])}"


def _study(command: Command, word: str) -> Command:
    if word not in STUDIES:
        raise ConfigError(f"{command.name}: there is no command {word!r}; {nearest(word, STUDIES)}")
    return COMMANDS[word]


def _is_place(command: Command, word: str, places: Sequence[str]) -> bool:
    run = word.rpartition("@")[0] or word  # the names of runs may hold a =
    if "=" in word and (command.composes or command.keys) and not (exists(word) or exists(run)):
        return False
    most = command.places.most if command.places else 0
    return bool(word) and (most is None or len(places) < most or not command.composes)


def _checked(command: Command, words: Iterable[str]) -> Iterator[str]:
    """Yield each KEY=VALUE with the long name of its key; ConfigError for what cannot be one."""
    for word in words:
        name, given, value = word.partition("=")
        if not name or not (given or word.startswith("~")):
            raise ConfigError(
                f"{command.name} expects KEY=VALUE without spaces, was: {word!r}; "
                f"{_meant(command, word)}bipe {command.name} --help lists the keys"
            )
        key = name.lstrip("+~").partition("@")[0].partition(".")[0]
        if command.continues and key in ("model", "encoding"):
            raise ConfigError(f"{command.name}: remove {word}; the checkpoint sets it")
        if command.composes:
            yield f"{command.renames.get(name, name)}{given}{value}"
            continue
        name = name.removeprefix(f"{command.name}.")
        if name in command.keys:
            choices = command.keys[name].choices
            if choices and value not in choices:
                raise ConfigError(f"{name} must be {' or '.join(choices)}, was: {value!r}")
        elif not command.further:
            near = nearest(name, command.keys)
            raise ConfigError(f"{command.name}: there is no key {name!r}; {near}")
        yield f"{name}{given}{value}"


def _require(command: Command, places: Sequence[str], overrides: Sequence[str]) -> None:
    """Raise ConfigError for places and keys that a command lacks, or has too many of."""
    wanted, cure = command.places, f"bipe {command.name} --help explains it"
    if wanted is not None and not (
        wanted.least <= len(places) <= (len(places) if wanted.most is None else wanted.most)
    ):
        raise ConfigError(
            f"{command.name}: {'one' if wanted.most == 1 else 'at least one'} {wanted.name} must be"
            f" given, was: {' '.join(places) or 'none'}; {cure}"
        )
    given = {key for key, _, value in (word.partition("=") for word in overrides) if value}
    for name, key in command.keys.items():
        if key.needed and name not in given:
            raise ConfigError(f"{command.name}: {name}= must be set; {cure}")


def _meant(command: Command, word: str) -> str:
    """Return "did you mean ...? " for a word without a key, if that can be known."""
    longer = [name for name in COMMANDS if name.startswith(f"{command.name} ")]
    if close := difflib.get_close_matches(f"{command.name} {word}", longer, cutoff=0.8):
        return f"did you mean bipe {close[0]}? "
    if not ("/" in word or command.examines or exists(word)):
        return ""
    keys = {"prepare": f"corpus=text {_SOURCE}", "explain": "encoding"}
    key = keys.get(command.name, "checkpoint" if command.continues else "out")
    return f"did you mean {key}={word}? "


def exists(word: str) -> bool:
    """Return whether a word names a file or folder."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


# Values as words


def verbatim(text: str, *, interpolates: bool = False) -> str:
    """Quote a text so that Hydra and OmegaConf read back just that text.

    interpolates: ${key} in it stays the value of that key.
    """
    if not interpolates:
        text = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" * bool(m[2])), text) + "'"


def unwrapped(value: Any) -> Any:
    """Return what a path, an enumeration, a dataclass or a partial function stands for."""
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Enum):  # by its name, as in Hydra, where its value is no text
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, partial) or (is_dataclass(value) and not isinstance(value, type)):
        from bipe.build import describe

        named = isinstance(value, partial) or type(value).__module__.startswith(_OURS)
        return describe(value) if named else asdict(value)  # type: ignore[arg-type]
    return value


def written(value: Any) -> str:
    """Return a plain value in Hydra's grammar; TypeError for another."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {written(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Real):  # NumPy's too
        return repr(int(value) if isinstance(value, Integral) else float(value))
    if not isinstance(value, str):
        raise TypeError(
            f"must be text, a number, a list or a mapping, was: {type(value).__name__}; an object "
            "is described by {'_target_': 'package.Class', ...}"
        )
    return verbatim(value)
