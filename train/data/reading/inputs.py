"""Documents as a command line names them: files, folders, rows of files, the standard input."""

import dataclasses
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from segmenters.offsets import without_surrogates
from segmenters.wording import counted
from train.data.reading.documents import MAX_BROKEN, SKIPPED, Bad, Document, Reader
from train.data.reading.encodings import decode, fault_of
from train.errors import DataError, UserError, near

STDIN = "-"
_SHARE_OF_TEXT = 0.3  # more broken text than this is not shown
_TABLES = {".csv": "CSV", ".tsv": "CSV"}  # whose lines may be the segments
_ROWS = {".jsonl": "JSONL", ".ndjson": "JSONL", ".parquet": "Parquet"}


def files(names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield files, and whether from a folder; hidden files and installed packages are left out."""
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name, False
            continue
        is_empty = True
        for folder, inner, inside in os.walk(name):
            inner[:] = sorted(each for each in inner if each[0] != "." and each not in SKIPPED)
            for file in sorted(file for file in inside if file[0] != "."):
                yield str(Path(folder) / file), True
                is_empty = False
        if is_empty:
            yield name, False


def documents(name: str, *, text_key: str | None, fields: list[str]) -> Iterator[Document]:
    """Yield the document of a file, or those of the rows of JSON lines, Parquet, CSV and TSV.

    text_key: the field with the text; None: "text", and tables are read as text. fields: others to
    keep whole. Raises UserError for what holds no text.
    """
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes[-2:]]
    readers = _ROWS | (_TABLES if text_key else {})
    kind = next((readers[suffix] for suffix in suffixes if suffix in readers), None)
    if kind is None or name == STDIN:
        yield Document(text=read(name), kind="prose", id=name, source=name)
        return
    from segmenters.fields import KNOWN_FIELDS
    from train.data.reading.files import CSV, JSONL
    from train.data.reading.parquet import Parquet

    kinds: dict[str, Any] = {"CSV": CSV, "JSONL": JSONL, "Parquet": Parquet}
    options = {"meta_keys": [*KNOWN_FIELDS, *fields]} if fields else {}
    reader: Reader = kinds[kind](path=name, text_key=text_key or "text", **options)
    own = f"{PurePath(name).name}:"
    try:
        for document in reader:
            # Rows are named by their file; here it may be in any folder.
            id = document.id
            id = f"{name}:{id.removeprefix(own)}" if id.startswith(own) else id
            yield dataclasses.replace(document, id=id)
    except DataError as fault:
        # The cure of a bad row is an option of `bipe prepare`.
        message = f"{fault.where}: {fault.detail}" if isinstance(fault, Bad) else str(fault)
        raise UserError(message.replace("text_key=", "--text-key ")) from None


def read(name: str) -> str:
    """Return the text of a file, with a warning if some of it is not UTF-8.

    UTF-16 and UTF-32 are read as such, and this is printed.
    """
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except IsADirectoryError:
        raise UserError(f"{name}: a folder without files (hidden ones are left out)") from None
    except OSError as fault:
        hint = near(name) if isinstance(fault, FileNotFoundError) else ""
        raise UserError(f"{name}: {fault.strerror or fault}{hint}") from None
    decoded = decode(data)
    if decoded.zeros > MAX_BROKEN * len(decoded.text):
        raise UserError(f"{name}: a binary file ({counted(decoded.zeros, 'zero or control byte')})")
    place = fault_of(io.BytesIO(data)) if decoded.replaced else ""
    if decoded.replaced > _SHARE_OF_TEXT * len(decoded.text):
        share = f"{decoded.replaced / len(decoded.text):.0%} of it"
        raise UserError(f"{name}: {share} is not UTF-8{place}; convert it with iconv -t UTF-8")
    if decoded.encoding:
        print(f"bipe: {without_surrogates(name)[0]}: read as {decoded.encoding}", file=sys.stderr)
    if decoded.replaced:
        message = f"{name}: not UTF-8{place}; characters shown as U+FFFD: "
        print(f"bipe: {without_surrogates(message)[0]}{decoded.replaced}", file=sys.stderr)
    return decoded.text
