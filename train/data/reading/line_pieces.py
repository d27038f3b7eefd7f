"""The lines of a file, whole or in pieces that workers read at the same time.

A plain file is cut at line ends, after counting the lines of each piece, since documents are named
by them. A compressed file can only be read from its start: each piece unpacks all and keeps its own
lines, which costs little next to tokenizing.
"""

import codecs
import io
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import IO, Any

from train.data.reading.documents import Bad
from train.data.reading.storage import File, opened, raw

PACKED_PIECES = 8  # few, because each unpacks the whole file
_BLOCK = 1 << 22  # bytes


def spans(file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
    """Return pieces of about `size` bytes: arguments of `lines_of`, and their stored bytes."""
    if file.packed:
        turns = min(PACKED_PIECES, -(-file.size // size))
        return [({"turn": turn, "turns": turns}, file.size // turns) for turn in range(turns)]
    return [
        ({"start": start, "stop": stop, "line": line}, stop - start)
        for (start, line), (stop, _) in pairwise([*_starts(file, size=size), (file.size, 0)])
    ]


def _starts(file: File, *, size: int) -> Iterator[tuple[int, int]]:
    yield 0, 1
    line, at, goal = 1, 0, size
    with raw(file) as stored:
        while block := stored.read(_BLOCK):
            done = 0
            while goal < at + len(block):
                end = block.find(b"\n", max(done, goal - at))
                if end < 0:
                    break
                line += block.count(b"\n", done, end + 1)
                done = end + 1
                if at + done < file.size:
                    yield at + done, line
                goal = at + done + size
            line += block.count(b"\n", done)
            at += len(block)


def lines_of(
    file: File,
    *,
    start: int = 0,
    stop: int | None = None,
    line: int = 1,
    turn: int = 0,
    turns: int = 1,
    encoding: str | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and bytes of the lines of a file, or of a piece of it (`spans`).

    start, stop: in bytes. line: number of the first one there. turn, turns: of these lines, only
    every `turns`-th. encoding: UTF-16 or UTF-32, whose lines are recoded as UTF-8, of a whole file.

    Lines end only at "\\n": JSON strings may contain other line separators. A packed file that is
    cut short raises Bad in its first piece only.
    """
    try:
        with opened(file) as stored:
            if start:
                stored.seek(start)
            lines: Iterable[bytes] = stored if encoding is None else _recoded(stored, encoding)
            offset = start
            for number, content in enumerate(lines, start=line):
                if stop is not None and offset >= stop:
                    return
                offset += len(content)
                if number % turns == turn:
                    yield number, content
    except Bad:
        if turn == 0:
            raise


# What cannot be decoded becomes no UTF-8, and is replaced and counted there.
codecs.register_error("bipe.lost", lambda fault: ("\udcff", fault.end))  # type: ignore[attr-defined]


def _recoded(stored: IO[bytes], encoding: str) -> Iterator[bytes]:
    with io.TextIOWrapper(stored, encoding, errors="bipe.lost", newline="\n") as text:
        for line in text:
            yield line.encode("utf-8", "surrogateescape")
