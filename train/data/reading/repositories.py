"""Repositories as documents: the files of each one joined, with a level of files.

    Repositories(of=TextFiles(path="code", pattern="**/*"))         code/NAME/... is a repository
    Repositories(of=TextFiles(path="one", pattern="**/*"), depth=0)         the folder is one
    Repositories(of=JSONL(path="rows.jsonl"), key="repo_name")      so are rows that share a field

Hidden files, installed packages and files that hold no text are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from bipe.arguments import Rule
from segmenters.fields import KNOWN_FIELDS, path_of
from train.data.reading.documents import (
    BINARY,
    SKIPPED,
    Bad,
    Document,
    Part,
    Reader,
    TolerantReader,
    grouped,
    part_size,
)
from train.data.reading.fields import Rows, dig
from train.data.reading.files import Files
from train.data.reading.storage import File
from train.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Repositories(Reader):
    """One document per repository; its fields say where its files begin.

    of: the reader of the files, or of rows with one file each. key: field of a row that names the
    repository, dotted if nested; the rows of one follow each other, in one file. depth: without
    `key`, how many leading folders of a file name it. header: a line before each file, such as
    "# {path}".
    """

    of: Reader
    key: str | None = None
    depth: Annotated[int, Rule("at least 0", lambda value: value >= 0)] = 1
    header: str | None = None
    kind: str = "code"

    def __post_init__(self) -> None:
        if self.key is None and (not isinstance(self.of, Files) or isinstance(self.of, Rows)):
            raise DataError("key must name the field with the repository of a row, was: null")
        if self.unwrap:
            raise DataError("unwrap is a setting of the reader of files: set of.unwrap")
        try:
            (self.header or "").format(path="")
        except (KeyError, IndexError, ValueError):
            rule = "header must be a line in which {path} is the path of the file"
            raise DataError(f"{rule}, was: {self.header}") from None
        if self.key is not None and isinstance(self.of, Rows):
            kept = KNOWN_FIELDS if self.of.meta_keys is None else self.of.meta_keys
            keys = [*dict.fromkeys([*kept, self.key])]
            object.__setattr__(self, "of", replace(self.of, meta_keys=keys))

    def keyed(self, keys: str) -> Self:
        reader = super().keyed(keys)
        object.__setattr__(reader, "of", self.of.keyed(f"{keys}of."))
        return reader

    def broken_share(self) -> float:
        return self.of.broken_share()

    def cure(self, rule: str) -> str:
        return self.of.cure(rule)

    def check(self) -> None:
        self.of.check()

    def label(self) -> str:
        return f"Repositories of {self.of.label()}"

    def state(self) -> Any:
        return self.of.state()

    def fingerprint(self) -> dict[str, Any]:
        return {**Reader.fingerprint(self), "of": self.of.fingerprint()}

    def parts(self) -> list[Part]:
        if not isinstance(self.of, Files):
            parts = self.of.parts()
            if any("first" in part.where for part in parts):  # ranges of rows would divide some
                return [Part(where={}, size=sum(part.size or 0 for part in parts))]
            return parts
        if self.key is not None:
            files = self.of.files()
            return [Part(where={"files": [astuple(file)]}, size=file.size) for file in files]
        shown = [file for file in self.of.files() if not _hidden(file.name)]
        repositories = []
        for name, group in groupby(sorted(shown, key=self._key), key=self._owner):
            files = [*group]
            size = sum(file.size for file in files)
            repositories.append(([name, [*map(astuple, files)]], size))
        most = part_size(sum(size for _, size in repositories))
        return [
            Part(where={"repositories": stored}, size=size)
            for stored, size in grouped(repositories, size=most)
        ]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        if "repositories" not in part.where:
            yield from self._of_rows(self.of.read_part(part))
            return
        for name, stored in part.where["repositories"]:
            files = []
            for item in self._files([File(*values) for values in stored]):
                if isinstance(item, Bad):
                    yield item
                else:
                    files.append(("/".join(_divided(item.id, self.depth)[1]), item))
            yield from self._joined(name, files)

    def _files(self, files: list[File]) -> Iterator[Document | Bad]:
        assert isinstance(self.of, Files)
        for number, file in enumerate(files, start=1):
            try:
                yield from self.of.guarded(file, {})
            except Bad as bad:
                if bad.rule != BINARY:
                    raise self.of.beside(bad, files[number:]) from None
                yield bad.with_traceback(None)

    def _of_rows(self, items: Iterable[Document | Bad]) -> Iterator[Document | Bad]:
        """Join neighbouring rows of a repository; one that comes again is a fault."""
        assert self.key is not None
        finished: set[str] = set()
        name, files = "", list[tuple[str, Document]]()
        for item in items:
            if isinstance(item, Bad):
                yield item
                continue
            repository = str(dig(item.meta, self.key, parameter="key", where=f"{item.id}: "))
            if repository in finished:
                detail = f"rows of repository {repository} are apart: sort them by {self.key}"
                bad = Bad(where=item.id, rule="rows apart", detail=detail)
                if not isinstance(self.of, TolerantReader):
                    raise bad
                yield self.of.left_out(bad)
                continue
            if repository != name:
                yield from self._joined(name, sorted(files, key=_order_of))
                finished |= {name} if files else set()
                name, files = repository, []
            files.append((path_of(None, item.meta, known=bool) or item.id, item))
        yield from self._joined(name, sorted(files, key=_order_of))

    def _joined(self, name: str, files: list[tuple[str, Document]]) -> Iterator[Document]:
        """Yield the document of a repository, if it has files; a last line gets an end."""
        if not files:
            return
        texts: list[str] = []
        places: list[dict[str, Any]] = []
        at = 0
        for path, file in files:
            head = "" if self.header is None else self.header.format(path=path).rstrip("\n") + "\n"
            if not head and not file.text:
                continue
            places.append({"path": path, "start": at, "body": at + len(head), "meta": file.meta})
            end = "" if not file.text or file.text.endswith(("\n", "\r")) else "\n"
            texts += [head, file.text, end]
            at += len(head) + len(file.text) + len(end)
        yield self.document(
            "".join(texts),
            id=name,
            replaced=sum(file.replaced for _, file in files),
            encoding=", ".join(sorted({file.encoding for _, file in files} - {""})),
            meta={"files": places} if places else {},
        )

    def _owner(self, file: File) -> str:
        return "/".join(_divided(file.name, self.depth)[0]) or "."

    def _key(self, file: File) -> tuple[str, list[tuple[int, str]]]:
        return self._owner(file), _order(file.name)


def _divided(name: str, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the leading folders that name the repository of a file, and the rest of its path."""
    parts = PurePosixPath(name).parts
    at = min(depth, len(parts) - 1)
    return parts[:at], parts[at:]


def _order(path: str) -> list[tuple[int, str]]:
    """Return a key to sort by: the README of a folder, its other files, then its folders."""
    *folders, name = PurePosixPath(path).parts or ("",)
    rank = 0 if name.lower().startswith("readme") else 1
    return [*((2, folder) for folder in folders), (rank, name)]


def _order_of(named: tuple[str, Document]) -> list[tuple[int, str]]:
    return _order(named[0])


def _hidden(name: str) -> bool:
    return any(part[0] == "." or part in SKIPPED for part in PurePosixPath(name).parts)
