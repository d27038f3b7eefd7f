"""Readers of local files: text, JSON lines (also gzip) and Parquet.

A path is a file, a folder or a glob. Files come in sorted order and ids are relative to the
folder, so that a corpus gives the same documents wherever it lies. Bytes that are not UTF-8
follow `encoding_errors` (Parquet holds text, not bytes, and has no such option).
"""

from __future__ import annotations

import glob
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from train.data.documents import DataError, Document, Reader, decode, dig, fields_of, text_of


@dataclass(frozen=True, kw_only=True)
class _Files(Reader):
    path: str | Path
    pattern: str = "**/*"

    def read(self) -> Iterator[Document]:
        for file in self.files():
            yield from self.read_file(file)

    def read_file(self, file: Path) -> Iterator[Document]:
        raise NotImplementedError

    def files(self) -> list[Path]:
        """The files of the corpus, sorted; DataError if there are none."""
        path = Path(self.path)
        if path.is_file():
            return [path]
        if path.is_dir():
            found = sorted(file for file in path.glob(self.pattern) if file.is_file())
            if not found:
                raise DataError(f"path={self.path}: no file in it matches pattern={self.pattern}")
            return found
        if not glob.has_magic(str(self.path)):
            raise DataError(f"path={self.path}: there is no such file or folder")
        found = [Path(name) for name in glob.glob(str(self.path), recursive=True)]  # noqa: PTH207
        found = sorted(file for file in found if file.is_file())
        if not found:
            raise DataError(f"path={self.path}: no file matches this glob")
        return found

    def check(self) -> None:
        self.files()

    def label(self) -> str:
        return f"{type(self).__name__} path={self.path}"

    def relative(self, file: Path) -> str:
        root = Path(self.path)
        return file.relative_to(root).as_posix() if root.is_dir() else file.name

    def fingerprint(self) -> dict[str, Any]:
        files = self.files()
        size = sum(file.stat().st_size for file in files)
        return {**Reader.fingerprint(self), "files": len(files), "bytes": size}


@dataclass(frozen=True, kw_only=True)
class TextFiles(_Files):
    """One document a file.

    encoding_errors: "replace" bytes that are not UTF-8 by U+FFFD and count them, or "fail".
    """

    pattern: str = "**/*.txt"
    encoding_errors: str = "replace"

    def read_file(self, file: Path) -> Iterator[Document]:
        text, replaced = decode(file.read_bytes(), errors=self.encoding_errors, where=str(file))
        yield self.document(text, id=self.relative(file), replaced=replaced)


@dataclass(frozen=True, kw_only=True)
class _Rows(_Files):
    text_key: str = "text"
    id_key: str | None = None

    def row_document(self, row: Any, *, where: str, id: str, replaced: int = 0) -> Document:
        if not isinstance(row, dict):
            raise DataError(f"{where}: must be an object with keys, was: {type(row).__name__}")
        text = text_of(row, self.text_key, where=where)
        if self.id_key is not None:
            id = str(dig(row, self.id_key, where=where, parameter="id_key"))
        meta = fields_of(row, self.text_key)
        return self.document(text, id=id, replaced=replaced, meta=meta)


@dataclass(frozen=True, kw_only=True)
class JSONL(_Rows):
    """One document a line, an object; files that end in .gz are unpacked on the way.

    text_key, id_key: keys of the object, dotted for nested ones; without id_key a document is
    named by file and line.
    """

    pattern: str = "**/*.jsonl*"
    encoding_errors: str = "replace"

    def read_file(self, file: Path) -> Iterator[Document]:
        offset = 0
        for number, line in enumerate(_lines(file), start=1):
            where = f"{file}:{number}"
            text, replaced = decode(line, errors=self.encoding_errors, where=where, offset=offset)
            offset += len(line)
            if text.isspace():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as fault:
                raise DataError(f"{where}: not JSON: {fault.msg}, column {fault.colno}") from None
            id = f"{self.relative(file)}:{number}"
            yield self.row_document(row, where=where, id=id, replaced=replaced)


def _lines(file: Path) -> Iterator[bytes]:
    """Lines by "\n" alone: other line separators are legal inside JSON strings."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            yield from lines
    except (gzip.BadGzipFile, EOFError) as fault:
        raise DataError(f"{file}: not a whole gzip file: {fault}") from None


@dataclass(frozen=True, kw_only=True)
class Parquet(_Rows):
    """One document a row, read in batches of `batch_rows`."""

    pattern: str = "**/*.parquet"
    batch_rows: ClassVar[int] = 256

    def read_file(self, file: Path) -> Iterator[Document]:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        try:
            table = parquet.ParquetFile(file)
        except arrow.ArrowInvalid as fault:
            raise DataError(f"{file}: not a Parquet file: {fault}") from None
        keys = [key for key in (self.text_key, self.id_key) if key is not None]
        top = [key if key in table.schema_arrow.names else key.split(".")[0] for key in keys]
        number = 0
        with table:
            for batch in table.iter_batches(batch_size=self.batch_rows, columns=top):
                for row in batch.to_pylist():
                    where = f"{file}, row {number}"
                    yield self.row_document(row, where=where, id=f"{self.relative(file)}:{number}")
                    number += 1
