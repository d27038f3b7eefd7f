"""What `bipe segment` reads: files, the files of folders, or the standard input.

A file that cannot be shown (missing, binary) is a fault in one line, and the next one is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from train.errors import UserError

STDIN = "-"
# A file with NUL among its first bytes is none of text; nor is one of which so much is not UTF-8.
_HEAD = 8192
_SHARE_OF_TEXT = 0.3
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SKIPPED_FOLDERS = frozenset(("__pycache__", "node_modules"))


class FileFault(UserError):
    """A file that cannot be shown; the message names it and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A text that was read; `replaced` characters stand for bytes that are not UTF-8."""

    name: str
    text: str
    replaced: int = 0
    first_bad: int = 0


def named(names: list[str]) -> Iterator[tuple[str, bool]]:
    """The files of all names in order, those of folders sorted, and whether from a folder.

    Hidden files and folders of packages are left out of folders.
    """
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name, False
            continue
        for folder, folders, files in os.walk(name):
            kept = sorted(one for one in folders if one[0] != "." and one not in _SKIPPED_FOLDERS)
            folders[:] = kept
            for file in sorted(files):
                if file[0] != ".":
                    yield str(Path(folder) / file), True


def read(name: str) -> TextFile:
    """The text of a file; FileFault for what is no text."""
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as fault:
        raise FileFault(f"{name}: {fault.strerror or fault}") from None
    if data.startswith(_UTF16):
        raise FileFault(f"{name}: UTF-16; convert it with: iconv -f UTF-16 -t UTF-8")
    nul = data.find(b"\0", 0, _HEAD)
    if nul >= 0:
        raise FileFault(f"{name}: a binary file (NUL at byte {nul})")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return TextFile(name=name, text=data.decode("utf-8"))
    except UnicodeDecodeError as fault:
        first_bad = fault.start
    text = data.decode("utf-8", "replace")
    replaced = text.count("\ufffd") - data.count("\ufffd".encode())
    if replaced > _SHARE_OF_TEXT * len(text):
        raise FileFault(f"{name}: a binary file ({replaced / len(text):.0%} of it is not UTF-8)")
    return TextFile(name=name, text=text, replaced=replaced, first_bad=first_bad)
