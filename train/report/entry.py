"""One value of a JSON file, together with the place where it stands.

`Entry` knows its file and its dotted key, so that whatever is wrong with a value is reported as
the file and the key, the rule, the value and the cure. It deliberately ignores keys that nobody
asks for: a newer writer may add some.
"""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from train.errors import ReportError

_SHOWN = 80  # characters of an offending value that an error repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value at `key` of `file`; each reading method checks one rule or raises ReportError."""

    file: Path
    key: str
    value: Any

    def __getitem__(self, name: str) -> Self:
        mapping = self.mapping()
        if name not in mapping:
            raise ReportError(
                f"{self.file}: {self._dotted(name)} is missing; "
                f"the keys here are: {', '.join(map(str, mapping)) or 'none'}"
            )
        return self._at(name, mapping[name])

    def optional(self, name: str) -> Self | None:
        """The value below `name`, or None where it is absent or null."""
        value = self.mapping().get(name)
        return None if value is None else self._at(name, value)

    def mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.value, dict):
            raise self.fault("a mapping")
        return self.value

    def items(self) -> list[tuple[str, Self]]:
        return [(name, self._at(name, value)) for name, value in self.mapping().items()]

    def entries(self) -> list[Self]:
        if not isinstance(self.value, list):
            raise self.fault("a list")
        return [self._at(str(index), value) for index, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fault("a string")
        return self.value

    def count(self, *, least: int = 0) -> int:
        whole = isinstance(self.value, int) and not isinstance(self.value, bool)
        if not whole or self.value < least:
            raise self.fault(f"a whole number of at least {least}")
        return self.value

    def number(self) -> float:
        """Any number; null reads as not-a-number, and infinities stay."""
        if self.value is None:
            return math.nan
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.fault("a number or null")
        try:
            return float(self.value)
        except OverflowError:
            raise self.fault("a number that a float can hold") from None

    def numbers(self, *, length: int | None = None) -> tuple[float, ...]:
        return tuple(entry.number() for entry in self._sized(length))

    def counts(self, *, length: int | None = None) -> tuple[int, ...]:
        return tuple(entry.count() for entry in self._sized(length))

    def rising(self, *, least: int = 0) -> tuple[int, ...]:
        """Whole numbers, each larger than the one before; at least one."""
        values = tuple(entry.count(least=least) for entry in self.entries())
        if not values or any(b <= a for a, b in itertools.pairwise(values)):
            raise self.fault("a strictly increasing list of at least one whole number")
        return values

    def fault(self, rule: str, *, cure: str = "") -> ReportError:
        """The error that says which rule this value breaks."""
        shown = repr(self.value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        end = f"; {cure}" if cure else ""
        return ReportError(f"{self.file}: {self.key} must be {rule}, was: {shown}{end}")

    def _sized(self, length: int | None) -> list[Self]:
        entries = self.entries()
        if length is not None and len(entries) != length:
            raise self.fault(f"a list of {length} values ({len(entries)} given)")
        return entries

    def _at(self, name: str, value: Any) -> Self:
        return type(self)(file=self.file, key=self._dotted(name), value=value)

    def _dotted(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name


def open_json(file: Path, *, cure: str) -> Entry:
    """The root entry of a JSON file that must hold a mapping.

    Raises:
        ReportError: no such file (the message ends with `cure`), not JSON, not a mapping.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{file}: there is no such file; {cure}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ReportError(f"{file}: cannot be read as JSON ({error}); {cure}") from error
    root = Entry(file=file, key="", value=value)
    if not isinstance(value, dict):
        raise ReportError(f"{file}: must hold a mapping, holds a {type(value).__name__}; {cure}")
    return root
