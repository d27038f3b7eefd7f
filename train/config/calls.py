"""A section of the configuration that names a class, as a value.

The signature of the class is the schema. A section is checked when that is first needed, since the
class has to be imported for it, and what it describes is built once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from types import NoneType
from typing import Any

from bipe.arguments import members
from bipe.build import TARGET, planned
from train.errors import ConfigError, UserError, refuse


@dataclass(eq=False, repr=False)
class Call(Mapping[str, Any]):
    """The description of an object: `_target_`, a class or one of our factories, and arguments.

    kind: what it may name, a type that `bipe.build` reads. key: its key in the configuration.
    texts: what was typed for keys, which an argument of type text takes: path=2024_01.
    """

    description: Mapping[str, Any]
    kind: Any
    key: str
    allowed: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.description[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.description)

    def __len__(self) -> int:
        return len(self.description)

    def __repr__(self) -> str:
        return repr(self.description)

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.description, self.kind, self.key, self.allowed, dict(self.texts))

    def changed(self, **arguments: Any) -> Call:
        """Return the same description with other arguments."""
        return replace(self, description={**self.description, **arguments})

    @property
    def settled(self) -> Mapping[str, Any]:
        """Return the description with the texts that were typed for what is declared as text."""
        for path, text in self.texts.items():
            value: Any = self.description
            for part in path.removeprefix(f"{self.key}.").split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            number = path.startswith(f"{self.key}.") and isinstance(value, int | float)
            if number and str(value) != text:
                self._plan  # noqa: B018 (which imports the class)
        return self.description

    @property
    def faults(self) -> list[str]:
        """Return what the signature does not allow."""
        return self._plan[0]

    @cached_property
    def built(self) -> Any:
        """Return the object; ConfigError names the key of the part that cannot be built."""
        faults, build = self._plan
        refuse(faults)
        try:
            return build()
        except UserError:
            raise
        except ValueError as error:
            named = str(error).startswith(self.key)
            place = "" if named else f"{getattr(error, 'place', self.key)}: "
            raise ConfigError(f"{place}{error}") from error

    @cached_property
    def _plan(self) -> tuple[list[str], Callable[[], Any]]:
        if TARGET not in self.description:  # where there may be none, keys wait for a choice
            fault = f"{self.key} must name a class with {TARGET}, was: {self.description}"
            return [fault] * (NoneType not in members(self.kind)), lambda: None
        plan = planned(self.description, self.kind, allowed=self.allowed, path=self.key)
        for path, text in self.texts.items():
            inside = path.removeprefix(f"{self.key}.").split(".")
            if any(fault.startswith(f"{path} must be") for fault in plan[0]):
                description = copy.deepcopy(self.description)
                put(description, tuple(inside), text)
                other = planned(description, self.kind, allowed=self.allowed, path=self.key)
                if len(other[0]) < len(plan[0]):
                    self.description, plan = description, other
        return plan


def put(plain: Any, path: Sequence[str | int], value: Any) -> None:
    """Set a value inside plain mappings and lists."""
    *parts, last = path
    for part in parts:
        plain = plain[part]
    plain[last] = value


def plain(value: Any) -> Any:
    """Return a typed value as it would be written in YAML."""
    if isinstance(value, Mapping):
        value = value.settled if isinstance(value, Call) else value
        return {key: plain(part) for key, part in value.items()}
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value) if part.init}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def calls_in(value: Any) -> Iterator[Call]:
    """Yield the calls inside a typed value."""
    if isinstance(value, Call):
        yield value
    elif is_dataclass(value):
        for part in fields(value):
            yield from calls_in(getattr(value, part.name))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from calls_in(part)
