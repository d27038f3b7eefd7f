"""Checksums of files: one sha256 that vouches for the whole, one CRC-32 a block that tells where.

`sha256sum` gives the same digest. The CRCs stand in one string, eight hexadecimal digits a block,
so that a terabyte costs a manifest 8 MB.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
_DIGITS = 8


class Checksum:
    """Grows with the bytes of a file; `digest` is what a manifest says of it."""

    def __init__(self) -> None:
        self.size = 0
        self._sha256 = hashlib.sha256()
        self._whole: list[int] = []  # CRCs of the blocks that are complete
        self._open = 0  # of the one that is not

    def update(self, data: bytes | memoryview) -> None:
        """Add the bytes that come next."""
        self._sha256.update(data)
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            piece = view[at : at + BLOCK - self.size % BLOCK]
            self._open = zlib.crc32(piece, self._open)
            at, self.size = at + len(piece), self.size + len(piece)
            if self.size % BLOCK == 0:
                self._whole.append(self._open)
                self._open = 0

    def digest(self) -> dict[str, Any]:
        """Size in bytes, sha256 and the CRCs of the blocks."""
        blocks = [*self._whole, *([self._open] if self.size % BLOCK else [])]
        return {
            "bytes": self.size,
            "sha256": self._sha256.hexdigest(),
            "crc32": "".join(f"{crc:0{_DIGITS}x}" for crc in blocks),
        }


def sha256(path: Path, *, advance: Callable[[int], object] = lambda _: None) -> str:
    """The sha256 of a file; `advance` is told of every piece that was read, in bytes."""
    found = hashlib.sha256()
    for block in _blocks(path):
        found.update(block)
        advance(len(block))
    return found.hexdigest()


def checksum(path: Path) -> dict[str, Any]:
    """The digest of a file."""
    found = Checksum()
    for block in _blocks(path):
        found.update(block)
    return found.digest()


def differing(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Byte ranges of the blocks by which two digests differ, neighbours joined."""
    size = max(found["bytes"], expected["bytes"])
    start = None
    for block in range(-(-size // BLOCK)):
        digits = slice(block * _DIGITS, (block + 1) * _DIGITS)
        if found["crc32"][digits] != expected["crc32"][digits]:
            start = block * BLOCK if start is None else start
        elif start is not None:
            yield start, block * BLOCK
            start = None
    if start is not None:
        yield start, size


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
