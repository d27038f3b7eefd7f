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
    study, options, overrides = command, dict[str, str](), list[str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            name, option, value = _option(word, rest, command, study)
            if option.key:
                overrides.append(option.key + value)
            else:
                options[name[2:]] = value
        elif command.names_study and study is command:
            if word not in STUDIES:
                raise ConfigError(
                    f"{command.name}: there is no command {word!r}; {nearest(word, STUDIES)}"
                )
            study = COMMANDS[word]
        else:
            overrides.append(_override(study, word))
    return Typed(
        command=command, study=study, overrides=tuple(overrides), options=options,
        words=tuple(words),
    )  # fmt: skip


def _option(word: str, rest: list[str], *commands: Command) -> tuple[str, Option, str]:
    """Return the name, the option and the value of a word, which may be the first of the rest."""
    name, given, value = word.partition("=")
    known = {
        short: (long, option)
        for command in reversed(commands)  # of one name, the first command's counts
        for long, option in command.options.items()
        if option.key or command is commands[0]  # nobody would read the others of a study
        for short in (long, option.short or long)
    }
    if name not in known:
        raise ConfigError(
            f"{commands[-1].name}: there is no option {name}; {nearest(name, [*known, '--help'])}"
        )
    name, option = known[name]
    if given and not option.value:
        raise ConfigError(f"{name} takes no value, was: {word}")
    if option.value and not given:
        value = rest.pop(0) if rest else ""
    if option.value and not value:
        raise ConfigError(f"{name} needs {option.value}")
    return name, option, verbatim(value) if option.text else value


def _override(command: Command, word: str) -> str:
    name, given, value = word.partition("=")
    if not name or not (given or word.startswith("~")):
        if name and command.positional:
            return f"{command.positional}={verbatim(word)}"
        raise ConfigError(
            f"{command.name} expects KEY=VALUE without spaces, was: {word!r}; "
            f"{_meant(command, word)}bipe {command.name} --help lists the keys"
        )
    if command.continues and _OF_CHECKPOINT.match(word):
        raise ConfigError(f"{command.name}: remove {word}; the checkpoint sets it")
    name = command.renames.get(name, name)
    texts = [option.key for option in command.options.values() if option.text]
    if f"{name}=" in texts and not _QUOTED.fullmatch(value):
        value = verbatim(value)
    return f"{name}{given}{value}"


def _meant(command: Command, word: str) -> str:
    """Return "did you mean ...? " for a word without a key, if that can be known."""
    longer = [each for each in COMMANDS if each.startswith(f"{command.name} ")]
    if close := difflib.get_close_matches(f"{command.name} {word}", longer, cutoff=0.8):
        return f"did you mean bipe {close[0]}? "
    if not ("/" in word or command.examines or _is_place(word)):
        return ""
    keys = {"prepare": f"corpus=text {_SOURCE}", "explain": "encoding"}
    key = keys.get(command.name, "checkpoint" if command.continues else "out")
    return f"did you mean {key}={word}? "


def opened(word: str) -> str:
    """Return an override that sets a nested key whether or not the YAML contains it.

    Hydra needs "++" for a key that the YAML lacks (config/sections.py checks that it exists), and
    ~stretch for stretch=null.
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
