"""Data sets on disk: tokens, document ends, one bitmap a level, and a manifest that vouches.

    NAME.bin           ids, uint16 (uint32 where the vocabulary needs it), documents back to back
    NAME.documents     int64 [documents]: where each ends, in tokens
    NAME.bytes         int64 [documents]: its size in UTF-8 bytes, for bits per byte
    NAME.ids           one JSON string a line: its id
    NAME.level0.bits   one bit a token, lowest bit first: a segment starts here; level1 and so on
    manifest.json      fingerprints, counts, size and sha256 of every file

A bitmap costs 1/16 of the tokens where stored position ids would cost 4 to 8 times them. The
manifest is written last: a folder without one is not a data set. Mark bit 0 (a document starts)
follows from the ends and is not stored. Positions are not known here: bipe.positions derives them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from train.data.disk import Output, sync_folder, write_whole
from train.data.documents import DataError

FORMAT = "bipe-shards"
VERSION = 1
MANIFEST = "manifest.json"
MAX_LEVELS = 7
_UINT16_IDS = 65_536
_READ_BYTES = 1 << 22


class ShardWriter:
    """Writes one split of one source; a context manager that leaves all of it or nothing.

    levels: number of segment levels, of which bit 1 + k of a mark holds the k-th.
    description: what the manifest says beyond counts and files (fingerprints, source, split).
    """

    def __init__(
        self, *, folder: Path, name: str, vocab_size: int, levels: int, description: dict[str, Any]
    ) -> None:
        if not 1 <= levels <= MAX_LEVELS:
            raise DataError(f"{name}: levels must be 1 to {MAX_LEVELS}, was: {levels}")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.name = folder, name
        self.dtype = np.dtype("<u2" if vocab_size <= _UINT16_IDS else "<u4")
        self.counts = dict.fromkeys(("documents", "tokens", "segments", "bytes", "replaced"), 0)
        self._description = {**description, "vocab_size": vocab_size, "levels": levels}
        self._pending = [np.empty(0, np.uint8) for _ in range(levels)]
        self._outputs: list[Output] = []
        try:
            self._tokens, self._ends, self._bytes, self._ids = (
                self._open(suffix) for suffix in ("bin", "documents", "bytes", "ids")
            )
            self._levels = [self._open(f"level{level}.bits") for level in range(levels)]
        except BaseException:
            self.discard()
            raise

    def add(
        self,
        tokens: npt.NDArray[np.integer],
        marks: npt.NDArray[np.uint8],
        *,
        id: str,
        size: int,
        replaced: int = 0,
    ) -> None:
        """Append a document: its tokens, one mark each, and its size in UTF-8 bytes."""
        if not len(tokens) or len(tokens) != len(marks):
            raise DataError(f"document {id}: {len(tokens)} tokens with {len(marks)} marks")
        added = (1, len(tokens), int(np.count_nonzero(marks & 2)), size, replaced)
        for key, number in zip(self.counts, added, strict=True):
            self.counts[key] += number
        self._tokens.write(tokens.astype(self.dtype).tobytes())
        self._ends.write(np.int64(self.counts["tokens"]).tobytes())
        self._bytes.write(np.int64(size).tobytes())
        self._ids.write(json.dumps(id).encode() + b"\n")
        for level in range(len(self._levels)):
            self._add_bits(level, (marks >> np.uint8(1 + level)) & np.uint8(1))

    def finish(self) -> dict[str, Any]:
        """Put all files in place, the manifest last; return the manifest."""
        for level, output in enumerate(self._levels):
            output.write(np.packbits(self._pending[level], bitorder="little").tobytes())
        files = {output.path.name: output.commit() for output in self._outputs}
        sync_folder(self.folder)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "dtype": self.dtype.name,
            **self._description,
            "counts": self.counts,
            "files": files,
        }
        write_whole(self.folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        return manifest

    def discard(self) -> None:
        """Remove every file of this writer."""
        for output in self._outputs:
            output.discard()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.finish()
        except BaseException:
            self.discard()
            raise

    def _open(self, suffix: str) -> Output:
        output = Output(self.folder / f"{self.name}.{suffix}")
        self._outputs.append(output)
        return output

    def _add_bits(self, level: int, bits: npt.NDArray[np.uint8]) -> None:
        bits = np.concatenate((self._pending[level], bits))
        whole = len(bits) // 8 * 8
        self._levels[level].write(np.packbits(bits[:whole], bitorder="little").tobytes())
        self._pending[level] = bits[whole:]


class DataSet:
    """One split of one source, mapped into memory.

    tokens: uint16 or uint32 [tokens]. document_ends, document_bytes: int64 [documents].
    """

    def __init__(self, *, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest, self.name = folder, manifest, str(manifest["name"])
        self.tokens = self._map("bin", np.dtype(manifest["dtype"]).newbyteorder("<"))
        self.document_ends = self._map("documents", np.dtype("<i8"))
        self.document_bytes = self._map("bytes", np.dtype("<i8"))
        self._bits = [
            self._map(f"level{level}.bits", np.dtype(np.uint8))
            for level in range(manifest["levels"])
        ]

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.document_ends)

    def marks(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Marks of the tokens from start to stop: uint8 [stop - start]."""
        marks = np.zeros(stop - start, np.uint8)
        for level, bits in enumerate(self._bits):
            marks |= self.starts(start, stop, bits=bits) << np.uint8(1 + level)
        first, last = np.searchsorted(self.document_ends, [start, stop])
        marks[self.document_ends[first:last] - start] |= 1
        if start == 0 and len(marks):
            marks[0] |= 1
        return marks

    def starts(
        self, start: int, stop: int, *, bits: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.uint8]:
        """1 where a segment of the first level (or of the given bitmap) starts, else 0."""
        packed = (self._bits[0] if bits is None else bits)[start // 8 : (stop + 7) // 8]
        skip = start % 8
        return np.unpackbits(packed, bitorder="little")[skip : skip + stop - start]

    def span(self, index: int) -> tuple[int, int]:
        """Where a document starts and ends, in tokens."""
        start = self.document_ends[index - 1] if index else 0
        return int(start), int(self.document_ends[index])

    def document(self, index: int) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint8]]:
        """Tokens and marks of a document."""
        start, stop = self.span(index)
        return self.tokens[start:stop], self.marks(start, stop)

    def document_ids(self) -> list[str]:
        """The ids of all documents, in their order."""
        lines = (self.folder / f"{self.name}.ids").read_text(encoding="utf-8")
        return [json.loads(line) for line in lines.splitlines()]

    def _map(self, suffix: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        path = self.folder / f"{self.name}.{suffix}"
        if path.stat().st_size == 0:
            return np.empty(0, dtype)  # an empty file cannot be mapped
        # A plain array over the map: indexing np.memmap costs a subclass at each slice.
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def open_dataset(folder: str | Path, *, verify: bool = True) -> DataSet:
    """Open one split of one source.

    Raises DataError that names the file if it is missing or of another size, or, with `verify`,
    if its sha256 is not the manifest's.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.exists():
            raise DataError(f"{path}: missing, though the manifest lists it; prepare again")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise DataError(
                f"{path}: {size} bytes, but the manifest says {expected['bytes']}; prepare again"
            )
        if verify and _sha256(path) != expected["sha256"]:
            raise DataError(f"{path}: its sha256 is not the manifest's; prepare again")
    return DataSet(folder=folder, manifest=manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a split; DataError if there is none or it is of another format."""
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(f"{path}: there is none, so the folder holds no data set; prepare it first")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        found = (manifest["format"], manifest["version"])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as fault:
        raise DataError(f"{path}: not a manifest of shards ({fault}); prepare again") from None
    if found != (FORMAT, VERSION):
        raise DataError(f"{path}: must be {FORMAT} {VERSION}, was: {found[0]} {found[1]}")
    return manifest


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
