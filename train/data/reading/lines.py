"""Lines of large files, in pieces: byte ranges of plain files, every n-th line of packed ones.

A plain file is cut at line ends, and the number of each piece's first line is counted beforehand,
since documents are named by their lines. A packed file can only be read from its start: each piece
unpacks the whole and keeps its own lines, which costs little beside tokenizing them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from train.data.reading.storage import File, PackingFault, opened, raw

PACKED_PIECES = 8
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which lines of a file: those of the bytes from start to stop, and of them every n-th.

    line: number of the first, from 1. turn, turns: lines whose number is `turn` modulo `turns`.
    """

    start: int = 0
    stop: int | None = None
    line: int = 1
    turn: int = 0
    turns: int = 1


def spans(file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
    """Pieces of about `size` bytes, as the fields of a `Span`, with the stored bytes of each."""
    if file.packed:
        turns = min(PACKED_PIECES, -(-file.size // size))
        return [(asdict(Span(turn=turn, turns=turns)), file.size // turns) for turn in range(turns)]
    try:
        starts = list(_starts(file, size=size))
    except OSError:  # the worker that reads it says so
        return []
    stops = [start for start, _ in starts[1:]] + [file.size]
    return [
        (asdict(Span(start=start, stop=stop, line=line)), stop - start)
        for (start, line), stop in zip(starts, stops, strict=True)
    ]


def lines_of(file: File, span: Span) -> Iterator[tuple[int, int, list[bytes]]]:
    """Number (from 1), offset (bytes) and, in a list, the bytes of each line of a span.

    Who takes the line out of its list holds it alone: a line may be a large part of the memory.
    Lines end at "\\n" alone: other line separators are legal inside JSON strings. A packed file
    that is cut short raises PackingFault in one of its pieces, and simply ends in the others.
    """
    try:
        with opened(file) as lines:
            if span.start:
                lines.seek(span.start)
            offset = span.start
            number = span.line
            for line in lines:  # by no enumerate, which would keep the line
                if span.stop is not None and offset >= span.stop:
                    return
                held, size = [line], len(line)
                del line
                if number % span.turns == span.turn:
                    yield number, offset, held
                number, offset = number + 1, offset + size
    except PackingFault:
        if span.turn == 0:
            raise


def _starts(file: File, *, size: int) -> Iterator[tuple[int, int]]:
    """Offset and number of the first line of each piece."""
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
