"""Documents as a command line names them: files, folders, rows of files, the standard input."""

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from train.data.reading.documents import Document, Reader, clean
from train.errors import DataError, UserError, near

STDIN = "-"
# A file is binary if its head has a NUL, or if more than this share of it is not UTF-8.
_HEAD, _SHARE_OF_TEXT = 8192, 0.3
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SKIPPED = frozenset(("__pycache__", "node_modules"))
_TABLES = {".csv": "CSV", ".tsv": "CSV"}  # whose lines may be the segments
_ROWS = {".jsonl": "JSONL", ".ndjson": "JSONL", ".parquet": "Parquet"}


def files(names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield files, and whether from a folder; hidden files and installed packages are left out."""
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name, False
            continue
        found = False
        for folder, folders, inside in os.walk(name):
            folders[:] = sorted(one for one in folders if one[0] != "." and one not in _SKIPPED)
            for file in sorted(file for file in inside if file[0] != "."):
                yield str(Path(folder) / file), True
                found = True
        if not found:
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
    from train.data.reading import files as readers_of

    options: dict[str, Any] = {"meta_keys": [*KNOWN_FIELDS, *fields]} if fields else {}
    made: Reader = getattr(readers_of, kind)(path=name, text_key=text_key or "text", **options)
    named = f"{PurePath(name).name}:"
    try:
        for one in made:
            # Rows are named by their file; here it may be in any folder.
            whole = f"{name}:{one.id.removeprefix(named)}" if one.id.startswith(named) else one.id
            yield dataclasses.replace(one, id=whole)
    except DataError as fault:
        raise UserError(str(fault).replace("text_key=", "--text-key ")) from None


def read(name: str) -> str:
    """Return the text of a file, with a warning if some of it is not UTF-8."""
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except IsADirectoryError:
        raise UserError(f"{name}: a folder without files (hidden ones are left out)") from None
    except OSError as fault:
        said = near(name) if isinstance(fault, FileNotFoundError) else ""
        raise UserError(f"{name}: {fault.strerror or fault}{said}") from None
    if data.startswith(_UTF16):
        raise UserError(f"{name}: is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8")
    nul = data.find(b"\0", 0, _HEAD)
    if nul >= 0:
        raise UserError(f"{name}: a binary file (NUL at byte {nul})")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        first_bad = fault.start
    text = data.decode("utf-8", "replace")
    replaced = text.count("\ufffd") - data.count("\ufffd".encode())
    if replaced > _SHARE_OF_TEXT * len(text):
        raise UserError(f"{name}: a binary file ({replaced / len(text):.0%} of it is not UTF-8)")
    told = f"{name}: not UTF-8 at byte {first_bad}; characters shown as U+FFFD: {replaced}"
    print(f"bipe: {clean(told)[0]}", file=sys.stderr)
    return text
