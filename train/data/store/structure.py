"""Whether the bytes of a shard make sense: what must hold of the format, whatever its checksums.

For each rule that is broken, the first place is told and how many there are. The rules: ids are
below vocab_size; document ends rise and the last is the number of tokens; a document starts a
segment of every level; no bit stands beyond the last token; the ids file has a JSON string on a
line for each document; and all is as many as the manifest counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from train.data.store.integrity import Fault
from train.data.store.shards import Shard

_BLOCK = 1 << 22  # items looked at together
_INT64 = 8


def structure_faults(shard: Shard, *, counts: dict[str, int], vocab_size: int) -> Iterator[Fault]:
    """What is wrong inside a shard whose files have the sizes that its counts give them.

    counts: documents, tokens and segments, as the manifest has them.
    """
    yield from _ids_below(shard, vocab_size)
    yield from _documents(shard)
    for level in range(len(shard.bits)):
        yield from _bitmap(shard, level)
    segments = sum(
        int(np.bitwise_count(shard.bits[0][at : at + _BLOCK]).sum(dtype=np.int64))
        for at in range(0, len(shard.bits[0]), _BLOCK)
    )
    if segments != counts["segments"]:
        yield Fault(
            path=shard.paths["level0.bits"],
            what=f"{segments} segments start, but the manifest counts {counts['segments']}",
        )
    yield from _id_lines(shard.paths["ids"], counts["documents"])


def _ids_below(shard: Shard, vocab_size: int) -> Iterator[Fault]:
    width = shard.tokens.dtype.itemsize
    wrong = [
        at + np.flatnonzero(block >= vocab_size)
        for at in range(0, len(shard.tokens), _BLOCK)
        if len(block := shard.tokens[at : at + _BLOCK]) and block.max() >= vocab_size
    ]
    if wrong:
        places = np.concatenate(wrong)
        what = f"ids must be below {vocab_size}, was: {shard.tokens[places[0]]}"
        yield _at(shard.paths["bin"], what, places, width)


def _documents(shard: Shard) -> Iterator[Fault]:
    path = shard.paths["documents"]
    falls = np.flatnonzero(np.diff(shard.ends, prepend=np.int64(0)) <= 0)
    if len(falls):
        yield _at(path, "document ends must rise", falls, _INT64)
    last = int(shard.ends[-1]) if len(shard.ends) else 0
    if last != len(shard.tokens):
        what = f"the last document must end with token {len(shard.tokens)}, was: {last}"
        yield _at(path, what, np.array([max(0, len(shard.ends) - 1)]), _INT64)
    negative = np.flatnonzero(shard.sizes < 0)
    if len(negative):
        yield _at(shard.paths["bytes"], "sizes must be at least 0", negative, _INT64)


def _bitmap(shard: Shard, level: int) -> Iterator[Fault]:
    path, bits, tokens = shard.paths[f"level{level}.bits"], shard.bits[level], len(shard.tokens)
    if tokens % 8 and bits[-1] >> (tokens % 8):
        yield _at(path, "bits stand beyond the last token", np.array([len(bits) - 1]), 1)
    starts = np.concatenate(([0], shard.ends[:-1]))[: len(shard.ends)]
    starts = starts[(starts >= 0) & (starts < tokens)]  # others are told of elsewhere
    unset = starts[(bits[starts >> 3] >> (starts & 7) & 1) == 0]
    if len(unset):
        yield _at(path, "a document must start a segment", unset >> 3, 1)


def _id_lines(path: Path, documents: int) -> Iterator[Fault]:
    at = number = 0
    with path.open("rb") as lines:
        for line in lines:
            if not _is_id(line):
                what = f"line {number + 1} must be a JSON string"
                yield Fault(path=path, what=what, start=at, stop=at + len(line))
                return
            at, number = at + len(line), number + 1
    if number != documents:
        yield Fault(path=path, what=f"{number} lines for {documents} documents")


def _is_id(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), str)
    except (ValueError, RecursionError):
        return False


def _at(path: Path, what: str, places: npt.NDArray[Any], width: int) -> Fault:
    first = int(places[0])
    more = f", and at {len(places) - 1} more places" if len(places) > 1 else ""
    return Fault(path=path, what=what + more, start=first * width, stop=(first + 1) * width)
