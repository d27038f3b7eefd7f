"""How the work on a corpus is divided, and what is left out of it on the way.

A source is read in parts: one worker reads one part by itself. How a source is divided depends on
the corpus alone, never on the number of workers, so that any number of them writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

# So many parts at most where sizes allow it: enough to keep workers busy to the end, and little
# is lost with one of them.
PARTS = 64
SMALLEST, LARGEST = 2_000_000, 256_000_000  # bytes

OnBad = Literal["error", "skip"]
Sized = TypeVar("Sized")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a source.

    where: what its reader needs to find it again, as JSON-able values; empty for the whole.
    size: bytes as they are stored; None where only reading would tell.
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None

    def digest(self) -> str:
        """A name that any change of the part changes."""
        return hashlib.sha256(json.dumps([self.where, self.size]).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """What a reader met where a document should be, and left out.

    where: file and line, or row. rule: what is wrong with it, of a small number of kinds.
    """

    where: str
    rule: str
    detail: str = ""


def part_size(total: int) -> int:
    """Bytes that a part of a corpus of `total` bytes should have."""
    return min(max(total // PARTS, SMALLEST), LARGEST)


def grouped(items: Iterable[tuple[Sized, int]], *, size: int) -> list[tuple[list[Sized], int]]:
    """Neighbours together until they have `size` bytes; each group with its bytes."""
    groups: list[tuple[list[Sized], int]] = []
    group: list[Sized] = []
    held = 0
    for item, own in items:
        group.append(item)
        held += own
        if held >= size:
            groups.append((group, held))
            group, held = [], 0
    return [*groups, (group, held)] if group else groups


def ranges(number: int, *, each: int) -> Sequence[tuple[int, int]]:
    """The numbers from 0 to `number` in ranges of `each`."""
    return [(start, min(start + each, number)) for start in range(0, number, max(1, each))]
