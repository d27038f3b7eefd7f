"""What a command takes, as values: its words as they are declared, and as they were typed.

train/launch/commands.py declares the commands, and train/launch/reader.py reads what was typed.
Imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option such as --limit N.

    value: the name of its value; empty for a switch. about: a line for help. choices: its only
    values. key: KEY= or KEY=VALUE of conf/, which it sets; otherwise the command reads the option
    itself. text: the value is taken as it is typed. short: another name. instead: of an option of
    Hydra that bipe has not, what does the same.
    """

    value: str = ""
    about: str = ""
    choices: Sequence[str] = ()
    key: str = ""
    text: bool = False
    short: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """KEY=VALUE of a command without a configuration; the value is text.

    about: lines for help. choices: its only values. needed: it must be given.
    """

    about: str
    choices: Sequence[str] = ()
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Words without a key. key: of conf/, which the only one sets; most: None for any number."""

    name: str
    about: str = ""
    least: int = 1
    most: int | None = 1
    key: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command. name: one or two words. does: a sentence without its full stop.

    call: "module:function" below train. It takes the composed configuration; with examines, the
    configuration, the study and the options; without composes, the words. about: more for help.
    places: words without a key. options: by name. keys: of a command without a configuration.
    further: other keys are left to the command; rest: all other words, to another program.
    sections, groups: of the help page, sections named by how their comments in conf/config.yaml
    start. leave_out: keys of these that the page has no room for. renames: short names of keys.
    elsewhere: keys that make it another command.
    """

    name: str
    does: str
    call: str
    _: KW_ONLY
    about: str = ""
    places: Places | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    further: bool = False
    rest: bool = False
    sections: Sequence[str] = ()
    groups: Sequence[str] = ()
    leave_out: Sequence[str] = ()
    composes: bool = True
    examines: bool = False
    names_study: bool = False  # its place is the command whose study it examines
    trains: bool = False  # writes a run, with its configuration
    continues: bool = False  # starts from a checkpoint, which decides the model
    launched: bool = False  # may be a job of Slurm
    computes: bool = False  # runs models
    reads: str = ""  # key of the runs that it reads
    renames: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, Command] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The first word of its name."""
        return self.name.partition(" ")[0]

    @property
    def module(self) -> str:
        """The module below train that it is in."""
        return self.call.partition(":")[0]

    @property
    def examples(self) -> list[str]:
        """The lines that call it in the docstring of its module, which is not imported."""
        spec = find_spec(f"train.{self.module}")
        doc = Path(str(spec and spec.origin)).read_text(encoding="utf-8").split('"""')[1]
        return re.findall(rf"^ *([^`\n]*(?:bipe|-m train\.cli) {self.name}(?: .*)?)$", doc, re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was typed behind a command. study: the command whose study another one examines.

    options: by name without dashes. overrides: KEY=VALUE, in order; an option that sets a key is
    one of them. places: words without a key. rest: those for another program. texts: the overrides
    whose value is a text as it is typed. typed: all of it. many: they are a sweep.
    """

    command: Command
    study: Command
    options: Mapping[str, str]
    overrides: tuple[str, ...]
    places: tuple[str, ...]
    rest: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    typed: tuple[str, ...] = ()
    many: bool = False

    def has(self, option: str) -> bool:
        return option in self.options

    @property
    def keys(self) -> dict[str, str]:
        """Return the values of the command's own keys."""
        pairs = (word.partition("=") for word in self.overrides)
        return {key: value for key, _, value in pairs if key in self.command.keys}


def loaded(call: str) -> Any:
    """Return what "module:name" below train names."""
    module, _, name = call.partition(":")
    return getattr(import_module(f"train.{module}"), name)
