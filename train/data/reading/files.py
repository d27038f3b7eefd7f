"""Readers of files: text, JSON lines and CSV, also compressed, on disks and at addresses.

Files are read in sorted order and ids are relative to the folder, so that a corpus gives the same
documents wherever it is stored.
"""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from bipe.arguments import Rule
from train.data.reading.documents import (
    BINARY,
    BROKEN,
    Bad,
    Document,
    Part,
    Reader,
    TolerantReader,
    grouped,
    part_size,
)
from train.data.reading.encodings import (
    AUTO,
    UTF8,
    Decoded,
    Encoding,
    check_encoding,
    decode,
    decode_by,
    fault_of,
    names_of,
    names_of_lines,
    wide_encoding,
)
from train.data.reading.fields import Rows
from train.data.reading.line_pieces import lines_of, spans
from train.data.reading.storage import (
    File,
    listed,
    opened,
    other_endings,
)
from train.disk.manifest import redacted
from train.errors import DataError

log = logging.getLogger("bipe")
# Files that hold a document per row, compressed or not.
_ROWS = re.compile(r"\.(jsonl|ndjson|parquet|[ct]sv)(?:\.\w{1,4})?$", re.IGNORECASE)
_CORPORA = {"parquet": "parquet", "csv": "csv", "tsv": "csv"}  # by suffix; others: jsonl
_LONGEST_FIELD = 2**31 - 1  # characters: the largest C long of every platform
_LOOKED_AT, _NAMED = 200, 4  # further files like one that is no text
_WIDE = ("utf-16", "utf_16", "utf16", "utf-32", "utf_32", "utf32")
_JSON = json.JSONDecoder()
_SHORT_LINE = 1 << 16  # bytes
_HEAD = 1 << 16  # bytes by which the encoding of lines is found
_FIRST_ROW = 1 << 16  # characters that the first row of a table has at most, to find its delimiter


@dataclass(frozen=True, kw_only=True)
class Files(TolerantReader):
    """Base of all readers of files; path, pattern: see `storage.listed`."""

    path: str | Path
    pattern: str = "**/*"

    def read(self) -> Iterator[Document | Bad]:
        yield from self._each(self.files(), {})

    def parts(self) -> list[Part]:
        files = self.files()
        size = part_size(sum(file.size for file in files))
        divided = [(f, self.pieces(f, size=size) if f.size > size else []) for f in files]
        parts: list[tuple[list[File], dict[str, Any], int]] = []
        for apart, group in groupby(divided, key=lambda both: len(both[1]) > 1):
            if apart:
                parts += [([f], where, size) for f, pieces in group for where, size in pieces]
            else:
                together = grouped(((f, f.size) for f, _ in group), size=size)
                parts += [(files, {}, size) for files, size in together]
        return [
            Part(where={"files": [*map(astuple, files)], **where}, size=size)
            for files, where, size in parts
        ]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        if not part.where:
            yield from self.read()
            return
        where = dict(part.where)
        yield from self._each([File(*file) for file in where.pop("files")], where)

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        """Return pieces of a large file: arguments of `read_file`, and bytes (about `size`)."""
        return []

    def guarded(self, file: File, where: dict[str, Any]) -> Iterator[Document | Bad]:
        """Yield the documents of a file or a piece of it, with faults handled by `on_bad`."""
        try:
            broken, size, first = 0, 0, ""
            for item in self.read_file(file, **where):
                # With on_bad=skip each document is judged by itself (`Rows.row`), not its file.
                if isinstance(item, Document) and self.on_bad == "error":
                    size += len(item.text)
                    if own := item.broken:
                        broken, first = broken + own, first or item.id
                yield item
                del item
            place = partial(self.fault, file, first)
            if bad := self.too_broken(broken, size, where=str(file), place=place):
                raise bad
        except Bad as bad:
            yield self.left_out(bad)
        except OSError as fault:
            detail = f"cannot be read: {redacted(fault.strerror or str(fault))}"
            yield self.left_out(Bad(where=str(file), rule="cannot be read", detail=detail))

    def fault(self, file: File, first: str) -> str:
        """Return where the text of a file is broken, for messages. first: id of that document."""
        return f", the first in {first}"

    def _each(self, files: list[File], where: dict[str, Any]) -> Iterator[Document | Bad]:
        for number, file in enumerate(files, start=1):
            try:
                yield from self.guarded(file, where)
            except Bad as bad:
                raise self.beside(bad, files[number:]) from None

    def beside(self, bad: Bad, files: list[File]) -> Bad:
        """Return what is raised for a file; if it is no text, with the names of others like it."""
        others = list[str]()
        for file in files[:_LOOKED_AT] if bad.rule in (BINARY, BROKEN) else ():
            try:
                for _ in self.guarded(file, {}):
                    pass
            except Bad as other:
                others += [str(file)] * (other.rule in (BINARY, BROKEN))
            if len(others) == _NAMED:
                break
        also = f"; so are {', '.join(others)}" if others else ""
        return Bad(where=bad.where, rule=bad.rule, detail=bad.detail + also, cure=bad.cure)

    def hint(self, rule: str) -> str:
        """Return the corpus that reads files of this name, if it is another one."""
        for value in (str(self.path), self.pattern):
            if (rows := _ROWS.search(value)) and rule not in (BINARY, BROKEN):
                corpus = _CORPORA.get(rows[1].lower(), "jsonl")
                return f"Set corpus={corpus}." if corpus != type(self).__name__.lower() else ""
        return ""

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        """Yield the documents of a file, or of the piece of it that further arguments name."""
        raise NotImplementedError

    def files(self) -> list[File]:
        return listed(str(self.path), pattern=self.pattern, keys=self.keys)

    def check(self) -> None:
        files, place = self.files(), Path(self.path)
        if place.is_dir():
            endings = {Path(file.name).suffix for file in files}
            others = other_endings(place, than=endings, more=len(files), keys=self.keys)
            if others:
                message = "path=%s: only %s match pattern=%s%s"
                log.warning(message, place, len(files), self.pattern, others)

    def label(self) -> str:
        return f"{type(self).__name__} path={redacted(str(self.path))}"

    def state(self) -> list[list[Any]]:
        return [[file.name, file.size, file.changed] for file in self.files()]

    def fingerprint(self) -> dict[str, Any]:
        files = self.files()
        size = sum(file.size for file in files)
        return {**Reader.fingerprint(self), "files": len(files), "bytes": size}


@dataclass(frozen=True, kw_only=True)
class Encoded(Files):
    """A reader of files of text.

    encoding: "auto" for UTF-8, UTF-16 and UTF-32; a name; or a list of these, of which the first
    that fits is used, such as [auto, cp1252].
    """

    encoding: Encoding = AUTO

    def check(self) -> None:
        check_encoding(self.encoding)
        super().check()

    def decoded(self, file: File) -> Decoded:
        """Return the text of a whole file; raise Bad if too much of it is broken."""
        with opened(file) as stored:
            decoded = decode(stored.read(), encoding=self.encoding)
        broken, rule = decoded.replaced + decoded.zeros, BINARY if decoded.zeros else BROKEN
        place = partial(self.fault, file, "") if rule == BROKEN else str
        if bad := self.too_broken(
            broken, len(decoded.text), where=str(file), rule=rule, place=place
        ):
            raise bad
        return decoded

    def fault(self, file: File, first: str) -> str:
        with opened(file) as stored:
            return (first and super().fault(file, first)) + fault_of(stored)

    def cure(self, rule: str) -> str:
        key = f"{self.keys}encoding"
        names = f"{key}=NAME ('{key}=[auto, NAME]' if only some files are in it)"
        first = names if rule == BROKEN else f"{self.keys}pattern to files of text"
        return f"Set {first}, or {super().cure(rule).removeprefix('Set ')}"


@dataclass(frozen=True, kw_only=True)
class TextFiles(Encoded):
    """One document per file."""

    pattern: str = "**/*.txt"

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
        decoded = self.decoded(file)
        yield self.document(
            decoded.text, id=file.name, replaced=decoded.replaced, encoding=decoded.encoding
        )


@dataclass(frozen=True, kw_only=True)
class JSONL(Rows, Encoded):
    """One document per line, an object; without id_key, it is named by file and line.

    Of a key that an object repeats, the last value counts, as in Python and JavaScript.
    """

    pattern: str = "**/*.jsonl*"

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        try:
            return [] if self._wide(file) else spans(file, size=size)
        except (OSError, Bad):  # reported by the worker that reads the file
            return []

    def read_file(self, file: File, **where: int) -> Iterator[Document | Bad]:
        wide = self._wide(file)
        names, shown = names_of_lines(UTF8 if wide else self.encoding), str(file)
        plain = names[:1] == [UTF8]
        for number, line in lines_of(file, encoding=wide, **where):
            place, id = f"{shown}:{number}", f"{file.name}:{number}"
            if plain and (row := _short_object(line)) is not None:
                item = self.row(row, where=place, id=id)
            else:
                decoded = decode_by(line, names)
                del line  # it may be large
                try:
                    item = self.parse(decoded, where=place, id=id)
                except Bad as fault:
                    item = self.left_out(fault)
                del decoded
            if item is not None:
                yield item
            del item

    def _wide(self, file: File) -> str | None:
        """Return the name of UTF-16 or UTF-32, whose lines do not end with a byte of their own."""
        with opened(file) as stored:
            head = stored.read(_HEAD)
        names = (name for name in names_of(self.encoding) if name.lower().startswith(_WIDE))
        # In these the brackets and quotes of JSON have zero bytes.
        return wide_encoding(head, whole=False) or (next(names, None) if 0 in head else None)

    def parse(self, line: Decoded, *, where: str, id: str) -> Document | Bad | None:
        """Return the document of a line; None for an empty line."""
        if not line.text or line.text.isspace():
            return None
        try:
            row = json.loads(line.text)
        except (ValueError, RecursionError) as fault:  # also for 5000 digits or 1000 brackets
            if line.text.lstrip("\ufeff \t")[:1] == "[" and where.endswith(":1"):
                raise _array(where) from None
            what = f"for Python: {fault}"
            if isinstance(fault, json.JSONDecodeError):
                what = f"{fault.msg}, column {fault.colno}"
            raise Bad(where=where, rule="not JSON", detail=f"not JSON: {what}") from None
        if isinstance(row, list) and where.endswith(":1"):
            raise _array(where)
        return self.row(row, where=where, id=id, replaced=line.replaced, encoding=line.encoding)


def _short_object(line: bytes) -> dict[str, Any] | None:
    """Return the object in a short line of UTF-8 with nothing else in it; None: look closer.

    A line of a sentence takes 4 us, and 6.5 by `decode_by` and `parse`, which all other lines need.
    """
    if len(line) > _SHORT_LINE:
        return None
    try:
        content = line.decode()
        value, end = _JSON.raw_decode(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and content[end:] in ("", "\n") else None


def _array(where: str) -> Bad:
    """Return what is wrong with a file of JSON that is an array, in one line or in many."""
    file = where.rpartition(":")[0]
    return Bad(
        where=where,
        rule="JSON array",
        detail="a JSON array; write one object per line",
        cure=f"For example: jq -c '.[]' {file} > lines.jsonl",
    )


@dataclass(frozen=True, kw_only=True)
class CSV(Rows, Encoded):
    """One document per row of a table whose first row names its columns.

    delimiter: None: a tab in .tsv; else the first of comma, semicolon, tab and bar with which the
    first row names `text_key`, or the most frequent there.
    """

    pattern: str = "**/*.csv*"
    delimiter: Annotated[str, Rule("one character", lambda value: len(value) == 1)] | None = None

    def read_file(self, file: File) -> Iterator[Document | Bad]:
        csv.field_size_limit(_LONGEST_FIELD)
        decoded = self.decoded(file)
        text, replaced = decoded.text, decoded.replaced
        tabs = ".tsv" in file.name.lower()
        delimiter = self.delimiter or ("\t" if tabs else self._frequent_delimiter(text))
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        number = 0
        try:
            columns = [*(rows.fieldnames or [])]
            self.require_one(columns, where=str(file))
            for number, row in enumerate(rows, start=1):
                where = f"{file}, row {number}"
                id = f"{file.name}:{number}"
                item: Document | Bad | None
                if any(row.pop(None, ())):
                    cure = f"quote texts that contain {delimiter!r}"
                    detail = f"more fields than {len(columns)} columns; {cure}"
                    item = self.left_out(Bad(where=where, rule="not CSV", detail=detail))
                else:
                    item = self.row(row, where=where, id=id, encoding=decoded.encoding)
                if isinstance(item, Document) and replaced:
                    # What was replaced in the file counts for its first row.
                    item, replaced = replace(item, replaced=item.replaced + replaced), 0
                if item is not None:
                    yield item
        except csv.Error as fault:
            detail = f"not CSV after row {number}: {fault}"
            raise Bad(where=str(file), rule="not CSV", detail=detail) from None

    def _frequent_delimiter(self, text: str) -> str:
        for delimiter in ",;\t|":
            first = csv.reader(io.StringIO(text[:_FIRST_ROW], newline=""), delimiter=delimiter)
            with suppress(csv.Error):
                if self.text_key in next(first, []):
                    return delimiter
        return max(",;\t|", key=text.partition("\n")[0].count)
