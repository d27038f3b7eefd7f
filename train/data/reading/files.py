"""Readers of files: text, JSON lines, CSV and Parquet, also compressed, on disks and at addresses.

Files are read in sorted order and ids are relative to the folder, so that a corpus gives the same
documents wherever it is stored.
"""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from train.data.reading.documents import (
    Bad,
    Document,
    Part,
    Reader,
    TolerantReader,
    bad_where,
    decode,
    grouped,
    part_size,
)
from train.data.reading.fields import Rows, columns_of, dig
from train.data.reading.storage import File, lines_of, listed, opened, other_endings, raw, spans
from train.disk.manifest import redacted
from train.errors import DataError

log = logging.getLogger("bipe")


@dataclass(frozen=True, kw_only=True)
class Files(TolerantReader):
    """Base of all readers of files; path, pattern: see `storage.listed`."""

    path: str | Path
    pattern: str = "**/*"

    def read(self) -> Iterator[Document | Bad]:
        for file in self.files():
            yield from self.guarded(file, {})

    def parts(self) -> list[Part]:
        files = self.files()
        size = part_size(sum(file.size for file in files))
        divided = [(f, self.pieces(f, size=size) if f.size > size else []) for f in files]
        parts: list[tuple[list[File], dict[str, Any], int]] = []
        for apart, group in groupby(divided, key=lambda both: len(both[1]) > 1):
            if apart:
                parts += [([f], where, own) for f, pieces in group for where, own in pieces]
            else:
                together = grouped(((f, f.size) for f, _ in group), size=size)
                parts += [(held, {}, own) for held, own in together]
        return [
            Part(where={"files": [*map(astuple, held)], **where}, size=own)
            for held, where, own in parts
        ]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        if not part.where:
            yield from self.read()
            return
        where = dict(part.where)
        for file in where.pop("files"):
            yield from self.guarded(File(*file), where)

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        """Return pieces of a large file: arguments of `read_file`, and bytes (about `size`)."""
        return []

    def guarded(self, file: File, where: dict[str, Any]) -> Iterator[Document | Bad]:
        """Yield the documents of a file or a piece of it, with faults handled by `on_bad`."""
        try:
            yield from self.read_file(file, **where)
        except Bad as bad:
            yield self.left_out(bad)
        except OSError as fault:
            detail = f"cannot be read: {redacted(fault.strerror or str(fault))}"
            yield self.left_out(Bad(where=str(file), rule="cannot be read", detail=detail))

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        raise NotImplementedError

    def files(self) -> list[File]:
        return listed(str(self.path), pattern=self.pattern)

    def check(self) -> None:
        files, place = self.files(), Path(self.path)
        if place.is_dir():
            endings = {Path(file.name).suffix for file in files}
            others = other_endings(place, than=endings, more=len(files))
            if others:
                told = "path=%s: only %s match pattern=%s%s"
                log.warning(told, place, len(files), self.pattern, others)

    def label(self) -> str:
        return f"{type(self).__name__} path={redacted(str(self.path))}"

    def state(self) -> list[list[Any]]:
        return [[file.name, file.size, file.changed] for file in self.files()]

    def fingerprint(self) -> dict[str, Any]:
        files = self.files()
        size = sum(file.size for file in files)
        return {**Reader.fingerprint(self), "files": len(files), "bytes": size}


# Files that hold a document per row, compressed or not.
_ROWS = re.compile(r"\.(jsonl|ndjson|parquet|[ct]sv)(?:\.\w{1,4})?$", re.IGNORECASE)
_CORPORA = {"parquet": "parquet", "csv": "csv", "tsv": "csv"}
_LONGEST_FIELD = 2**31 - 1
_FIRST_ROW = 1 << 16  # characters that the first row of a table has at most, to find its delimiter


@dataclass(frozen=True, kw_only=True)
class TextFiles(Files):
    """One document per file; encoding_errors: "replace" bad bytes with U+FFFD, or "fail"."""

    pattern: str = "**/*.txt"
    encoding_errors: str = "replace"

    def check(self) -> None:
        for key, value in (("path", str(self.path)), ("pattern", self.pattern)):
            rows = _ROWS.search(value)
            corpus = _CORPORA.get(rows[1].lower(), "jsonl") if rows else ""
            if corpus == "csv":  # its records may be the segments
                log.warning(
                    "%s=%s: each table is one document; for one document per row, set "
                    "corpus=csv and text_key to the column with the text",
                    key,
                    redacted(value),
                )
            elif rows:
                raise DataError(
                    f"{key} must name text files, each of them one document, was: "
                    f"{redacted(value)}. To read each row as a document, set corpus={corpus} and "
                    "text_key to the field with the text"
                )
        super().check()

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        with opened(file) as stored:
            data = stored.read()
        with bad_where(str(file), rule="not UTF-8"):
            text, replaced = decode(data, errors=self.encoding_errors)
        del data
        yield self.document(text, id=file.name, replaced=replaced)


@dataclass(frozen=True, kw_only=True)
class JSONL(Rows, Files):
    """One document per line, an object; without id_key, it is named by file and line."""

    pattern: str = "**/*.jsonl*"
    encoding_errors: str = "replace"

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        return spans(file, size=size)

    def read_file(self, file: File, **where: int) -> Iterator[Document | Bad]:
        for number, offset, held in lines_of(file, **where):
            place = f"{file}:{number}"
            try:
                found = self.parse(held, id=f"{file.name}:{number}", where=place, offset=offset)
            except Bad as fault:
                found = self.left_out(fault)
            if found is not None:
                yield found
            del found

    def parse(
        self, held: list[bytes], *, id: str, where: str, offset: int
    ) -> Document | Bad | None:
        """Pop a line from its list and return its document; None for an empty line."""
        line = held.pop()
        with bad_where(where, rule="not UTF-8"):
            text, replaced = decode(line, errors=self.encoding_errors, offset=offset)
        del line
        if not text or text.isspace():
            return None
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as fault:  # also for 5000 digits or 1000 brackets
            what = f"for Python: {fault}"
            if isinstance(fault, json.JSONDecodeError):
                what = f"{fault.msg}, column {fault.colno}"
            raise Bad(where=where, rule="not JSON", detail=f"not JSON: {what}") from None
        del text
        return self.row(row, where=where, id=id, replaced=replaced)


@dataclass(frozen=True, kw_only=True)
class CSV(Rows, Files):
    """One document per row of a table whose first row names its columns.

    delimiter: None: a tab in .tsv; else the first of comma, semicolon, tab and bar with which the
    first row names `text_key`, or the most frequent there.
    """

    pattern: str = "**/*.csv*"
    delimiter: str | None = None
    encoding_errors: str = "replace"

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        csv.field_size_limit(_LONGEST_FIELD)
        with opened(file) as stored, bad_where(str(file), rule="not UTF-8"):
            text, replaced = decode(stored.read(), errors=self.encoding_errors)
        delimiter = self.delimiter or ("\t" if ".tsv" in file.name.lower() else self._found(text))
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        number = 1
        try:
            for number, row in enumerate(rows, start=1):
                where = f"{file}, row {number}"
                # What was replaced in the file counts for its first row.
                found = self.row(row, where=where, id=f"{file.name}:{number}", replaced=replaced)
                replaced = 0
                if found is not None:
                    yield found
        except csv.Error as fault:
            detail = f"not CSV after row {number}: {fault}"
            raise Bad(where=str(file), rule="not CSV", detail=detail) from None

    def _found(self, text: str) -> str:
        for delimiter in ",;\t|":
            first = csv.reader(io.StringIO(text[:_FIRST_ROW], newline=""), delimiter=delimiter)
            with suppress(csv.Error):
                if self.text_key in next(first, []):
                    return delimiter
        return max(",;\t|", key=text.partition("\n")[0].count)


@dataclass(frozen=True, kw_only=True)
class Parquet(Rows, Files):
    """One document per row, read in batches and only the needed columns."""

    pattern: str = "**/*.parquet"
    batch_rows: ClassVar[int] = 256
    batch_bytes: ClassVar[int] = 16_000_000

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        try:
            with self.table(file) as table:
                metadata = table.metadata
                groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        except (OSError, Bad):  # reported by the worker that reads the file
            return []
        weights = [file.size * rows // max(1, sum(groups)) for rows in groups]
        first = 0
        pieces = []
        for numbers, bytes_ in grouped(enumerate(weights), size=size):
            pieces.append(({"groups": numbers, "first": first}, bytes_))
            first += sum(groups[number] for number in numbers)
        return pieces

    def read_file(
        self, file: File, *, groups: list[int] | None = None, first: int = 0
    ) -> Iterator[Document | Bad]:
        number = first
        with self.table(file) as table:
            names = table.schema_arrow.names
            keys = [self.text_key, *filter(None, [self.id_key]), *(self.filter or {})]
            columns = [key if key in names else key.split(".")[0] for key in keys]
            if columns[0] not in names:
                with bad_where(str(file), rule="no text"):
                    dig(dict.fromkeys(names), self.text_key, parameter="text_key")
            columns += columns_of(table.schema_arrow, self.meta_keys)
            rows = self.rows_at_once(table.metadata)
            for batch in table.iter_batches(batch_size=rows, columns=columns, row_groups=groups):
                for row in batch.to_pylist():
                    where = f"{file}, row {number}"
                    found = self.row(row, where=where, id=f"{file.name}:{number}")
                    if found is not None:
                        yield found
                    number += 1

    def rows_at_once(self, metadata: Any) -> int:
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
                detail = f"not a Parquet file: {fault}"
                raise Bad(where=str(file), rule="not Parquet", detail=detail) from None
