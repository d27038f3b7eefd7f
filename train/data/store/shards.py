"""Data sets on disk: tokens, document ends, one bitmap per level, and a manifest of checksums.

    NAME.00000.bin           ids, uint16 (uint32 where the vocabulary needs it), back to back
    NAME.00000.documents     int64 [documents]: where each ends, in tokens of this shard
    NAME.00000.bytes         int64 [documents]: its size in UTF-8 bytes, for bits per byte
    NAME.00000.ids           one JSON string per line: its id
    NAME.00000.level0.bits   one bit per token, lowest bit first: a segment starts; level1 and so on
    NAME.00001.bin           the next shard; no document is in two
    manifest.json            fingerprints, counts, size and checksums of every file

The manifest is written last: a folder without one is not a data set. Mark bit 0 (a document starts)
follows from the ends and is not stored. docs/shards.md describes the format for other programs.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from bipe.arguments import NOT_NEGATIVE
from train.disk.files import is_name
from train.disk.manifest import file_faults, load
from train.errors import DataError

Marks = npt.NDArray[np.uint8]
LevelWish = int | str | Sequence[str]
# Further levels that are read: as many, or these.
Coarser = Annotated[int, NOT_NEGATIVE] | Sequence[LevelWish]
FORMAT = "bipe-shards"
VERSION = 2
MAX_LEVELS = 7  # the bits of a mark, a byte, besides that of documents
MANIFEST = "manifest.json"
_WIDTHS = {"uint16": 2, "uint32": 4}
_BLOCK = 1 << 22  # tokens
_KEYS = {"name": str, "dtype": str, "levels": int, "vocab_size": int, "counts": dict}
_KEYS |= {"shards": list, "files": dict}


def shard_file(name: str, number: int, suffix: str) -> str:
    return f"{name}.{number:05d}.{suffix}"


def suffixes(levels: int) -> list[str]:
    """Return the suffixes of the files of a shard."""
    return ["bin", "documents", "bytes", "ids", *(f"level{level}.bits" for level in range(levels))]


class Shard:
    """One shard, mapped into memory; all places count from its own first token.

    tokens: uint16 or uint32 [tokens]. ends, sizes: int64 [documents]. bits: uint8 per level.
    """

    def __init__(self, *, folder: Path, manifest: dict[str, Any], number: int) -> None:
        self.paths = {
            suffix: folder / shard_file(manifest["name"], number, suffix)
            for suffix in suffixes(manifest["levels"])
        }
        self.tokens = _map(self.paths["bin"], np.dtype(manifest["dtype"]).newbyteorder("<"))
        self.ends = _map(self.paths["documents"], np.dtype("<i8"))
        self.sizes = _map(self.paths["bytes"], np.dtype("<i8"))
        self.bits = [
            _map(self.paths[f"level{level}.bits"], np.dtype(np.uint8))
            for level in range(manifest["levels"])
        ]

    def starts(self, start: int, stop: int, *, level: int) -> npt.NDArray[np.uint8]:
        """Return 1 where a segment of the level starts, else 0: uint8 [stop - start]."""
        packed = self.bits[level][start // 8 : (stop + 7) // 8]
        skip = start % 8
        return np.unpackbits(packed, bitorder="little")[skip : skip + stop - start]


class JoinedTokens:
    """The tokens of several shards as one array; slices are views, or copies across shards."""

    def __init__(self, parts: list[npt.NDArray[np.integer]]) -> None:
        self._parts, self.dtype = parts, parts[0].dtype
        self._stops = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._stops[-1]

    def __getitem__(self, place: slice) -> npt.NDArray[np.integer]:
        start, stop, _ = place.indices(len(self))
        spans = _pieces(self._stops, start, stop)
        pieces = [self._parts[at][first:last] for at, first, last in spans]
        return _joined(pieces, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.integer]:
        return self[:].astype(dtype or self.dtype)


class DataSet:
    """One split of one source, mapped into memory; its shards behave as one.

    tokens: uint16 or uint32 [tokens]. document_ends, document_bytes: int64 [documents].
    level: the stored one whose segments are read. coarser: further ones that are read. Marks hold
    these, or without `coarser` all from `level` on: `marked`.
    """

    def __init__(
        self,
        *,
        folder: Path,
        manifest: dict[str, Any],
        level: int = 0,
        coarser: Sequence[int] = (),
    ) -> None:
        self.folder, self.manifest, self.name = folder, manifest, str(manifest["name"])
        self.level, self.levels = level, (level, *coarser)
        self.marked = self.levels if coarser else tuple(range(level, manifest["levels"]))
        self.shards = [
            Shard(folder=folder, manifest=manifest, number=number)
            for number in range(len(manifest["shards"]))
        ]
        self._stops = list(accumulate(len(shard.tokens) for shard in self.shards))
        first, *others = self.shards
        self.tokens: npt.NDArray[np.integer] | JoinedTokens = first.tokens
        self.document_ends, self.document_bytes = first.ends, first.sizes
        if others:  # else all is read directly from the map
            self.tokens = JoinedTokens([shard.tokens for shard in self.shards])
            ends = zip(self.shards, [0, *self._stops], strict=False)
            self.document_ends = np.concatenate([shard.ends + begin for shard, begin in ends])
            self.document_bytes = np.concatenate([shard.sizes for shard in self.shards])

    def __len__(self) -> int:
        return len(self.document_ends)

    def marks(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Return the marks of tokens start to stop: uint8 [stop - start]."""
        marks = self.starts(start, stop) << np.uint8(1)
        for bit, level in enumerate(self.marked[1:], start=2):
            marks |= self.starts(start, stop, level=level) << np.uint8(bit)
        # A document starts where the one before it ends.
        first, last = map(self.document_ends.searchsorted, (start, stop))
        marks[self.document_ends[first:last] - start] |= 1
        if start == 0 and len(marks):
            marks[0] |= 1
        return marks

    def starts(self, start: int, stop: int, *, level: int | None = None) -> npt.NDArray[np.uint8]:
        """Return 1 where a segment of a stored level starts, else 0; None: the one that is read."""
        level = self.level if level is None else level
        spans = _pieces(self._stops, start, stop)
        pieces = [self.shards[at].starts(first, last, level=level) for at, first, last in spans]
        return _joined(pieces, np.dtype(np.uint8))

    def segments(self, *, level: int | None = None) -> npt.NDArray[np.int64]:
        """Return the first token of each segment, int64; the bits are read in blocks."""
        size = self._stops[-1]
        found = [
            at + np.flatnonzero(self.starts(at, min(at + _BLOCK, size), level=level))
            for at in range(0, size, _BLOCK)
        ]
        return np.concatenate([np.empty(0, np.int64), *found])

    def read(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Marks]:
        """Return the tokens and the marks at these places, int64 and uint8."""
        tokens, marks = np.empty(len(places), np.int64), np.zeros(len(places), np.uint8)
        for shard, here, own in self._by_shard(places):
            tokens[here] = shard.tokens[own]
            byte, bit = own >> 3, (own & 7).astype(np.uint8)
            for place, level in enumerate(self.marked, start=1):
                marks[here] |= (shard.bits[level][byte] >> bit & 1) << np.uint8(place)
        # A document starts a segment, and these are few.
        opened = np.flatnonzero(marks & 2)
        begins = places[opened]
        ends = self.document_ends[self.document_ends.searchsorted(begins)]
        marks[opened] |= (ends == begins) | (begins == 0)  # True is bit 0
        return tokens, marks

    def _by_shard(self, places: npt.NDArray[np.int64]) -> Iterator[tuple[Shard, Any, Any]]:
        """Yield the shards that hold these places, which of them each holds, and its own places."""
        if len(self.shards) == 1:
            yield self.shards[0], slice(None), places
            return
        of = np.searchsorted(self._stops, places, side="right")
        for number in np.unique(of).tolist():
            here = np.flatnonzero(of == number)
            shard = self.shards[number]
            yield shard, here, places[here] - (self._stops[number] - len(shard.tokens))

    def span(self, index: int) -> tuple[int, int]:
        start = self.document_ends[index - 1] if index else 0
        return int(start), int(self.document_ends[index])

    def document(self, index: int) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint8]]:
        start, stop = self.span(index)
        return self.tokens[start:stop], self.marks(start, stop)

    def document_ids(self) -> list[str]:
        return [json.loads(line) for line in self.id_lines()]

    def id_lines(self) -> Iterator[bytes]:
        for shard in self.shards:
            with shard.paths["ids"].open("rb") as lines:
                yield from lines


def open_dataset(
    folder: str | Path,
    *,
    verify: bool = True,
    level: LevelWish | None = None,
    coarser: Coarser = 0,
) -> DataSet:
    """Open one split of one source; DataError names a changed file (`verify`: by its sha256).

    level, coarser: see `levels_read`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for fault in file_faults(folder, manifest["files"], hashes=verify):
        raise DataError(str(fault))
    first, *rest = levels_read(manifest, level, coarser, what=f"{folder}: ")
    return DataSet(folder=folder, manifest=manifest, level=first, coarser=rest)


def levels_read(
    manifest: Mapping[str, Any], level: LevelWish | None, coarser: Coarser, *, what: str
) -> tuple[int, ...]:
    """Return the numbers of the stored levels that are read, the finest first.

    level: see `level_of`. coarser: how many next ones, or which. Raises DataError, with `what` in
    front, for levels that are not there or not in order.
    """
    first = level_of(manifest, level, what=f"{what}level")
    if isinstance(coarser, int):
        stop = first + 1 + coarser
        if coarser and stop > (count := manifest["levels"]):
            names = ", ".join(manifest.get("level_names", [])[first:]) or "unnamed"
            raise DataError(
                f"{what}coarser: the encoding reads {1 + coarser} levels of units, but the data "
                f"has {count - first} ({names}): prepare them with corpus.sources.NAME.levels="
                f"{stop}, if the segmenter has as many, or choose an encoding of fewer"
            )
        return tuple(range(first, stop))
    rest = [level_of(manifest, wish, what=f"{what}coarser") for wish in coarser]
    if [first, *rest] != sorted({first, *rest}):
        raise DataError(
            f"{what}coarser must name levels above that of the segments, from finer to "
            f"coarser, was: {', '.join(map(str, coarser))}"
        )
    return (first, *rest)


def level_of(manifest: Mapping[str, Any], wish: LevelWish | None, *, what: str) -> int:
    """Return the number of a stored level: a number, a name, or the first of some names.

    None: the finest. manifest: of a split, or its entry in that of the whole. Raises DataError,
    with `what` in front, for what is not there.
    """
    if wish is None:
        return 0
    count, names = manifest.get("levels"), manifest.get("level_names", [])
    if not isinstance(count, int) or not isinstance(names, list) or len(names) > count:
        raise DataError(f"{what}={wish}: the manifest has no levels; prepare again")
    numbers: dict[str | int, int] = {str(name): number for number, name in enumerate(names)}
    numbers |= {number: number for number in range(min(count, MAX_LEVELS))}
    for level in [wish] if isinstance(wish, str | int) else wish:
        if level in numbers:
            return numbers[level]
    stored = [*map(str, names), f"0 to {count - 1}" if count > 1 else "0"]
    raise DataError(
        f"{what}={wish} must be one of {', '.join(stored)}; set levels= of the source to store more"
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    manifest = load(path, format=FORMAT, version=VERSION, what="shards")
    for key, kind in _KEYS.items():
        if not isinstance(manifest.get(key), kind):
            raise DataError(f"{path}: has no {key!r} of type {kind.__name__}; prepare again")
    if not (is_name(manifest["name"]) and 1 <= manifest["levels"] <= MAX_LEVELS):
        raise DataError(f"{path}: name must be a file name, levels from 1 to {MAX_LEVELS}")
    try:
        fits = _fits(manifest["files"], _file_sizes(manifest))
    except (KeyError, TypeError, AttributeError) as fault:
        raise DataError(f"{path}: not a manifest of shards ({fault!r}); prepare again") from None
    if not fits:
        raise DataError(f"{path}: its files are not those of its shards; prepare again")
    return manifest


def _file_sizes(manifest: dict[str, Any]) -> dict[str, int | None]:
    """Return the bytes of each file that the shards must have; None where ids decide."""
    width, levels = _WIDTHS[manifest["dtype"]], manifest["levels"]
    sizes: dict[str, int | None] = {}
    for number, counts in enumerate(manifest["shards"]):
        tokens, ends = counts["tokens"], 8 * counts["documents"]
        kinds: dict[str, int | None] = dict.fromkeys(suffixes(levels), -(-tokens // 8))
        kinds |= {"bin": tokens * width, "documents": ends, "bytes": ends, "ids": None}
        sizes |= {shard_file(manifest["name"], number, kind): kinds[kind] for kind in kinds}
    return sizes


def _fits(files: dict[str, dict[str, Any]], sizes: dict[str, int | None]) -> bool:
    # A KeyError or TypeError unless both checksums are there as texts.
    listed = {name: file["bytes"] for name, file in files.items() if file["sha256"] + file["crc32"]}
    return bool(sizes) and listed == {
        name: listed.get(name) if size is None else size for name, size in sizes.items()
    }


def _pieces(stops: list[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield each shard that holds some of the tokens start to stop, with their range in it."""
    index = bisect_right(stops, start)
    while start < stop:
        begin, end = stops[index - 1] if index else 0, min(stop, stops[index])
        yield index, start - begin, end - begin
        start, index = end, index + 1


def _joined(pieces: list[npt.NDArray[Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _map(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # A plain array over the map: each slice of np.memmap makes an object of a subclass, slowly.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
