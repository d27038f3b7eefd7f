"""Whether the files of a data set are those that its manifest lists: there, whole, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.disk.files import checksum, differing, sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a file; start, stop: where in it, in bytes, if that is known."""

    path: Path
    what: str
    start: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        where = "" if self.start is None else f" (bytes {self.start} to {self.stop})"
        return f"{self.path}: {self.what}{where}"


def file_faults(
    folder: Path,
    files: dict[str, dict[str, Any]],
    *,
    hashes: bool = True,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Fault]:
    """Every listed file that is missing or has another size or, with `hashes`, other bytes.

    files: digest (checksum.py) of each name. advance: is told of every piece read, in bytes.
    """
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            yield Fault(path=path, what="missing, though the manifest lists it; prepare again")
            continue
        size = path.stat().st_size
        if size != expected["bytes"]:
            told = f"{size} bytes, but the manifest says {expected['bytes']}; prepare again"
            first, last = sorted((size, expected["bytes"]))
            yield Fault(path=path, what=told, start=first, stop=last)
        elif hashes and sha256(path, advance=advance) != expected["sha256"]:
            yield from _changes(path, expected)


def _changes(path: Path, expected: dict[str, Any]) -> Iterator[Fault]:
    what = "its sha256 is not the manifest's; prepare again"
    places = list(differing(checksum(path), expected))
    if not places:  # each block is as it was written, so the manifest is not
        yield Fault(path=path, what=what)
    for start, stop in places:
        yield Fault(path=path, what=what, start=start, stop=stop)
