"""The words behind a command: options become values or keys, and what is mistyped is refused.

All of it comes before Hydra, which says less of a wrong word than a user needs.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, STUDIES, Command, Option

_NESTED = re.compile(r"(?!hydra\.)\w+(\.[\w-]+)+=")
_SOURCE = "corpus.sources.text.documents.path"
# What Hydra's grammar reads without quotes; and values that are lists, functions, quoted or such.
_PLAIN = re.compile(r"[\w/\-\\+.$%*@?|:, ]*", re.ASCII)
_WRITTEN = re.compile(r"(?:.*,\s*)?[\[{'\"]|\w+\(.*\)$|.*\$\{", re.DOTALL)
# What Hydra cannot read under python -O, for want of its asserts: mappings and functions.
_ASSERTED = re.compile(r"(?<!\$)\{|\w\(")
_QUOTED = re.compile(r"null|'.*'|\".*\"", re.DOTALL)
_OF_CHECKPOINT = re.compile(r"[+~]*(model|encoding)[.=@]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What was typed: KEY=VALUE, and the options that are no keys, by name without dashes.

    study: the command whose study another one examines; otherwise the command itself. words: as
    they were typed, behind the command.
    """

    command: Command
    study: Command
    overrides: tuple[str, ...]
    options: Mapping[str, str]
    words: tuple[str, ...]

    def has(self, option: str) -> bool:
        return option in self.options

    def for_hydra(self) -> list[str]:
        """Return the overrides in Hydra's grammar, those of the command's own YAML first."""
        own = [f"command={self.study.name}"] if self.study.continues else []
        return [*own, *map(opened, self.overrides)]


def read(command: Command, words: Sequence[str]) -> Typed:
    """Read the words behind a command; ConfigError for the first that is none of its words."""
    study, options, overrides = command, {}, list[str]()
    names = _by_name(command)
    rest = list(words)
    before = ""
    while rest:
        word = rest.pop(0)
        if _is_override(word):
            overrides.append(_override(study, word))
        elif word.startswith("-"):
            name, given, value = word.partition("=")
            if name not in names:
                raise _no_option(command, name, names)
            name, option = names[name]
            if option.value and not given:
                value = rest.pop(0) if rest else ""
            if option.value and not value:
                raise ConfigError(f"{name} needs {option.value}")
            if given and not option.value:
                raise ConfigError(f"{name} takes no value, was: {word}")
            if not option.key:
                options[name[2:]] = value
            elif "=" in option.key:
                overrides.append(option.key)
            else:
                overrides.append(f"{option.key}={verbatim(value) if option.text else value}")
        elif fault := _spaced(before, word, rest[0] if rest else ""):
            raise ConfigError(fault)
        elif command.names_study and study is command:
            if word not in STUDIES:
                raise ConfigError(
                    f"{command.name}: there is no command {word!r}; {nearest(word, STUDIES)}"
                )
            study = COMMANDS[word]
            names |= {each: got for each, got in _by_name(study).items() if got[1].key}
        elif study.positional:
            overrides.append(f"{study.positional}={verbatim(word)}")
        else:
            raise ConfigError(
                f"{study.name} expects KEY=VALUE, was: {word!r}; {_meant(study, word)}"
                f"bipe {study.name} --help lists the keys"
            )
        before = word if _is_override(word) else ""
    return Typed(
        command=command, study=study, overrides=tuple(overrides), options=options,
        words=tuple(words),
    )  # fmt: skip


def _by_name(command: Command) -> dict[str, tuple[str, Option]]:
    short = {each.short: (name, each) for name, each in command.options.items() if each.short}
    return short | {name: (name, each) for name, each in command.options.items()}


def _override(command: Command, word: str) -> str:
    name, given, value = word.partition("=")
    if command.continues and _OF_CHECKPOINT.match(word):
        raise ConfigError(f"{command.name}: remove {word}; the checkpoint sets it")
    name = command.renames.get(name, name)
    texts = [option.key for option in command.options.values() if option.text]
    if name in texts and not _QUOTED.fullmatch(value):
        value = verbatim(value)
    return f"{name}{given}{value}"


def _is_override(word: str) -> bool:
    return word[:1] not in ("-", "=") and ("=" in word or word.startswith("~"))


def _spaced(before: str, word: str, after: str) -> str:
    """Return what is wrong with a word that a space separates from its key; empty if nothing is."""
    if before.endswith(","):
        return f"a list of values must have no spaces, was: {before}{word}"
    if before.endswith("=") or "=" in (word[:1], after[:1]):
        return f"KEY=VALUE must have no spaces around =, was: {word!r}"
    return ""


def _no_option(command: Command, option: str, known: Mapping[str, object]) -> ConfigError:
    others = [name for name, each in COMMANDS.items() if option in each.options]
    if others:
        return ConfigError(f"{option} is for {', '.join(others)}, not for bipe {command.name}")
    close = difflib.get_close_matches(option, [*known, "--help"], n=1)
    cure = f"did you mean {close[0]!r}?" if close else f"bipe {command.name} --help lists the keys"
    return ConfigError(f"{command.name}: there is no option {option}; {cure}")


def _meant(command: Command, word: str) -> str:
    """Return "did you mean ...? " for a word without a key, if that can be known."""
    longer = [each for each in COMMANDS if each.startswith(f"{command.name} ")]
    if close := difflib.get_close_matches(f"{command.name} {word}", longer, cutoff=0.8):
        meant = f"bipe {close[0]}"
    elif command.continues or command.examines:
        meant = f"{'encoding' if command.examines else 'checkpoint'}={word}"
    elif command.name == "prepare":
        meant = f"corpus=text {_SOURCE}={word}" if _is_place(word) else ""
    else:
        meant = f"out={word}" if _is_place(word) or "/" in word else ""
    return f"did you mean {meant}? " if meant else ""


def opened(word: str) -> str:
    """Return an override that sets a nested key whether or not the YAML contains it.

    Hydra needs "++" for a key that the YAML lacks (check.py checks that it exists), and ~stretch
    for stretch=null.
    """
    name, _, value = word.partition("=")
    if value == "null":
        defaults = resources.files("conf").joinpath("config.yaml").read_text()
        if name in re.findall(r"^  - (\w+): null\b", defaults, re.MULTILINE):
            return f"~{name}"
    word = _quoted(word)
    return f"++{word}" if _NESTED.match(word) else word


def _quoted(word: str) -> str:
    """Return an override whose value Hydra reads as it was typed: paths hold any character."""
    name, given, value = word.partition("=")
    if value.startswith("~/"):  # which a shell does not expand behind a key
        value = str(Path(value).expanduser())
    if not given or re.fullmatch(r"[\w/\-+.]*", value, re.ASCII):
        return f"{name}{given}{value}"
    if _is_place(value):
        return f"{name}={verbatim(value)}"
    if not _PLAIN.fullmatch(value) and not _WRITTEN.match(value):
        value = ",".join(map(verbatim, value.split(",")))  # several are for -m
    elif sys.flags.optimize and _ASSERTED.search(value):
        raise ConfigError(f"PYTHONOPTIMIZE must be unset, and python run without -O, for {word}")
    return f"{name}={value}"


def verbatim(text: str) -> str:
    """Quote a text so that Hydra and OmegaConf read back just that text."""
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" * bool(m[2])), text) + "'"


def _is_place(word: str) -> bool:
    """Return whether a word names a file or folder."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False
