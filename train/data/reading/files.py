"""Readers of files: text, JSON lines (also packed) and Parquet, on disks and at addresses.

A path is a file, a folder, a glob, a zip archive, or an address (storage.py). Files come in sorted
order and ids are relative to the folder, so that a corpus gives the same documents wherever it
lies. Bytes that are not UTF-8 follow `encoding_errors` (Parquet holds text, not bytes, and has no
such option); what holds no document at all follows `on_bad`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar

from train.data.reading.conditions import check_conditions, keeps
from train.data.reading.documents import Document, Reader, decode, dig, text_of
from train.data.reading.fields import columns_of, fields_of
from train.data.reading.lines import Span, lines_of, spans
from train.data.reading.parts import Bad, OnBad, Part, grouped, part_size
from train.data.reading.storage import File, PackingFault, listed, opened, raw
from train.disk.redaction import redacted
from train.errors import DataError


class _Unreadable(DataError):
    """A file or row that holds no document; `rule` is what is wrong with it, in general."""

    def __init__(self, rule: str, where: str, detail: str) -> None:
        super().__init__(f"{where}: {detail}")
        self.rule, self.where, self.detail = rule, where, detail

    def __reduce__(self) -> tuple[Any, ...]:
        # It travels between processes, and default pickling knows one argument only.
        return type(self), (self.rule, self.where, self.detail)


@dataclass(frozen=True, kw_only=True)
class Files(Reader):
    """What all readers of files share.

    path, pattern: see `storage.listed`; the pattern is for folders and archives.
    on_bad: "error" at the first file or row that holds no document (it cannot be read, is cut
    short, is no JSON, lacks the text), or "skip" and count it.
    """

    path: str | Path
    pattern: str = "**/*"
    on_bad: OnBad = "error"

    def __post_init__(self) -> None:
        if self.on_bad not in ("error", "skip"):
            raise DataError(f"on_bad must be error or skip, was: {self.on_bad}")

    def read(self) -> Iterator[Document | Bad]:
        for file in self.files():
            yield from self.guarded(file, {})

    def parts(self) -> list[Part]:
        files = self.files()
        size = part_size(sum(file.size for file in files))
        parts: list[Part] = []
        small: list[tuple[File, int]] = []
        for file in files:
            pieces = self.pieces(file, size=size) if file.size > size else []
            if len(pieces) < 2:
                small.append((file, file.size))
                continue
            parts += _together(small, size=size)
            small = []
            parts += [
                Part(where={"files": [astuple(file)], **where}, size=bytes_)
                for where, bytes_ in pieces
            ]
        return [*parts, *_together(small, size=size)]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        if not part.where:
            yield from self.read()
            return
        where = dict(part.where)
        for path, name, size, changed in where.pop("files"):
            file = File(path=path, name=name, size=size, changed=changed)
            yield from self.guarded(file, where)

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        """Where pieces of about `size` bytes of a large file are, with the bytes of each."""
        return []

    def guarded(self, file: File, where: dict[str, Any]) -> Iterator[Document | Bad]:
        """Read a file or a piece of it; what cannot be read is a fault, or one `Bad`."""
        try:
            yield from self.read_file(file, **where)
        except (OSError, PackingFault, _Unreadable) as fault:
            bad = _named(fault, file)
            if self.on_bad == "error":
                raise bad from None
            yield Bad(where=bad.where, rule=bad.rule, detail=bad.detail)

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        """Yield the documents of a file."""
        raise NotImplementedError

    def files(self) -> list[File]:
        """The files of the corpus, sorted; DataError if there are none."""
        return listed(str(self.path), pattern=self.pattern)

    def check(self) -> None:
        self.files()

    def label(self) -> str:
        return f"{type(self).__name__} path={redacted(str(self.path))}"

    def state(self) -> list[list[Any]]:
        return [[file.name, file.size, file.changed] for file in self.files()]

    def fingerprint(self) -> dict[str, Any]:
        files = self.files()
        size = sum(file.size for file in files)
        return {**Reader.fingerprint(self), "files": len(files), "bytes": size}


@dataclass(frozen=True, kw_only=True)
class TextFiles(Files):
    """One document a file.

    encoding_errors: "replace" bytes that are not UTF-8 by U+FFFD and count them, or "fail", which
    `on_bad` may turn into leaving the document out.
    """

    pattern: str = "**/*.txt"
    encoding_errors: str = "replace"

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        with opened(file) as stored:
            data = stored.read()
        with _as_bad("not UTF-8", str(file)):
            text, replaced = decode(data, errors=self.encoding_errors, where="")
        del data
        yield self.document(text, id=file.name, replaced=replaced)


@dataclass(frozen=True, kw_only=True)
class _Rows(Files):
    text_key: str = "text"
    id_key: str | None = None
    meta_keys: Sequence[str] | None = None
    filter: Mapping[str, Any] | None = None

    def check(self) -> None:
        check_conditions(self.filter)
        super().check()

    def row_document(self, row: Any, *, where: str, id: str, replaced: int = 0) -> Document | None:
        """The document of a row; None for one that the filter does not keep."""
        if not isinstance(row, dict):
            raise _Unreadable(
                "no object", where, f"must be an object with keys, was: {type(row).__name__}"
            )
        if not keeps(row, self.filter, where=where):
            return None
        with _as_bad("no text", where):
            text = text_of(row, self.text_key, where="")
            if self.id_key is not None:
                id = str(dig(row, self.id_key, where="", parameter="id_key"))
        meta = fields_of(row, self.text_key, self.meta_keys)
        return self.document(text, id=id, replaced=replaced, meta=meta)

    def row(self, row: Any, *, where: str, id: str) -> Document | Bad | None:
        """The document of a row, why there is none, or None for one that is not asked for."""
        try:
            return self.row_document(row, where=where, id=id)
        except _Unreadable as fault:
            return self.bad_row(fault)

    def bad_row(self, fault: _Unreadable) -> Bad:
        if self.on_bad == "error":
            raise fault
        return Bad(where=fault.where, rule=fault.rule, detail=fault.detail)


@dataclass(frozen=True, kw_only=True)
class JSONL(_Rows):
    """One document a line, an object; files that end in .gz, .bz2, .xz or .zst are unpacked.

    text_key, id_key: keys of the object, dotted for nested ones; without id_key a document is
    named by file and line. meta_keys: fields that documents keep for segmenters that choose by
    them; by default those that `Auto` knows. filter: which rows are read (conditions.py).
    """

    pattern: str = "**/*.jsonl*"
    encoding_errors: str = "replace"

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        return spans(file, size=size)

    def read_file(self, file: File, **where: int) -> Iterator[Document | Bad]:
        span = Span(**where)
        for number, offset, held in lines_of(file, span):
            place = f"{file}:{number}"
            try:
                found = self.parse(held, id=f"{file.name}:{number}", where=place, offset=offset)
            except _Unreadable as fault:
                yield self.bad_row(fault)
                continue
            if found is not None:
                yield found
            del found

    def parse(self, held: list[bytes], *, id: str, where: str, offset: int) -> Document | None:
        """The document of a line, taken out of its list; None for an empty one."""
        line = held.pop()
        with _as_bad("not UTF-8", where):
            text, replaced = decode(line, errors=self.encoding_errors, where="", offset=offset)
        del line
        if not text or text.isspace():
            return None
        try:
            row = json.loads(text)
        except json.JSONDecodeError as fault:
            told = f"not JSON: {fault.msg}, column {fault.colno}"
            raise _Unreadable("not JSON", where, told) from None
        except (ValueError, RecursionError) as fault:  # a number of 5000 digits, 1000 brackets
            raise _Unreadable("not JSON", where, f"not JSON for Python: {fault}") from None
        del text
        return self.row_document(row, where=where, id=id, replaced=replaced)


@dataclass(frozen=True, kw_only=True)
class Parquet(_Rows):
    """One document a row, read in batches of `batch_rows`; only the columns asked for are read."""

    pattern: str = "**/*.parquet"
    batch_rows: ClassVar[int] = 256
    batch_bytes: ClassVar[int] = 16_000_000

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        try:
            with self.table(file) as table:
                groups = [
                    table.metadata.row_group(i).num_rows
                    for i in range(table.metadata.num_row_groups)
                ]
        except (OSError, _Unreadable):  # the worker that reads it says so
            return []
        weights = [file.size * rows // max(1, sum(groups)) for rows in groups]
        first = 0
        pieces = []
        for numbers, bytes_ in grouped(zip(range(len(groups)), weights, strict=True), size=size):
            pieces.append(({"groups": numbers, "first": first}, bytes_))
            first += sum(groups[number] for number in numbers)
        return pieces

    def read_file(
        self, file: File, *, groups: list[int] | None = None, first: int = 0
    ) -> Iterator[Document | Bad]:
        number = first
        with self.table(file) as table:
            names = table.schema_arrow.names
            asked = (self.text_key, self.id_key, *(self.filter or {}))
            keys = [key for key in asked if key is not None]
            top = [key if key in names else key.split(".")[0] for key in keys]
            top += columns_of(table.schema_arrow, self.meta_keys)
            rows = self.rows_at_once(table.metadata)
            batches = table.iter_batches(batch_size=rows, columns=top, row_groups=groups)
            for batch in batches:
                for row in batch.to_pylist():
                    where = f"{file}, row {number}"
                    found = self.row(row, where=where, id=f"{file.name}:{number}")
                    if found is not None:
                        yield found
                    number += 1

    def rows_at_once(self, metadata: Any) -> int:
        """As many as `batch_rows`, fewer where rows are large, so that memory is bounded."""
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        mean = max((g.total_byte_size // max(1, g.num_rows) for g in groups), default=0)
        return max(1, min(self.batch_rows, self.batch_bytes // max(1, mean)))

    @contextmanager
    def table(self, file: File) -> Iterator[Any]:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        with raw(file) as stored:
            try:
                with parquet.ParquetFile(stored) as table:
                    yield table
            except arrow.ArrowException as fault:
                raise _Unreadable(
                    "not Parquet", str(file), f"not a Parquet file: {fault}"
                ) from None


def _together(files: list[tuple[File, int]], *, size: int) -> list[Part]:
    return [
        Part(where={"files": [astuple(file) for file in group]}, size=held)
        for group, held in grouped(files, size=size)
    ]


@contextmanager
def _as_bad(rule: str, where: str) -> Iterator[None]:
    """A fault in the block is one of the document there."""
    try:
        yield
    except _Unreadable:
        raise
    except DataError as fault:
        raise _Unreadable(rule, where, str(fault).removeprefix(": ")) from None


def _named(fault: Exception, file: File) -> _Unreadable:
    if isinstance(fault, _Unreadable):
        return fault
    if isinstance(fault, PackingFault):
        return _Unreadable("cut short", str(file), str(fault))
    told = redacted(str(getattr(fault, "strerror", None) or fault))
    return _Unreadable("cannot be read", str(file), f"cannot be read: {told}")
