"""Exact duplicates: documents that repeat the text of an earlier one, apart from white space.

Each part hashes its documents; the hashes of all parts are compared, one range at a time to bound
memory; each part leaves out what is listed for it. The first in the order of parts stays.
"""

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from train.data.preparing.work import Work
from train.disk.files import write_whole, writing

HASHES = "hashes.npy"
# Sorted by hash, then by place: the index of the document among those that its reader yields.
ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<i8")])
_AT_ONCE = 1 << 21  # rows compared at once, on average
_SLICE = 1 << 20  # characters
_DONE = "done.json"


def hash_of(text: str) -> tuple[int, int]:
    """Return a 128-bit hash of a text in which each run of white space counts as one blank."""
    digest = hashlib.blake2b(digest_size=16)
    blank = begun = False
    for start in range(0, len(text), _SLICE):
        piece = text[start : start + _SLICE]
        if words := piece.split():
            between = begun and (blank or piece[0].isspace())
            digest.update((" " * between + " ".join(words)).encode())
            begun = True
        blank = piece[-1].isspace()
    return struct.unpack("<QQ", digest.digest())


def store_hashes(folder: Path, rows: list[tuple[int, int, int]]) -> None:
    array = np.array(rows, dtype=ROW)
    array.sort(order=["high", "low", "place"])
    with writing(folder / HASHES):
        np.save(folder / HASHES, array)


def list_duplicates(work: Work) -> None:
    """Compare the hashes of all parts, and write for each part which documents to leave out."""
    folder = work.folder / "duplicates"
    if (folder / _DONE).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    places_of = map(work.hashing().place, range(len(work.tasks)))
    parts = [np.load(place / HASHES, mmap_mode="r") for place in places_of]
    buckets = max(1, sum(map(len, parts)) // _AT_ONCE)
    # Hashes are uniform, so equal ranges of them hold about equally many rows.
    edges = np.array([number * 2**64 // buckets for number in range(1, buckets)], np.uint64)
    pieces = [np.split(part, np.searchsorted(part["high"], edges)) for part in parts]
    for slices in zip(*pieces, strict=True):
        for rank, places in _repeated(slices):
            path = work.duplicates(rank)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab") as file:
                    file.write(places.astype("<i8").tobytes())
    with writing(folder):
        folder.mkdir(exist_ok=True)
    write_whole(folder / _DONE, json.dumps(work.digest))


def duplicates_of(work: Work, rank: int) -> set[int]:
    path = work.duplicates(rank)
    return set(np.fromfile(path, "<i8").tolist()) if path.exists() else set()


def _repeated(
    slices: Sequence[npt.NDArray[np.void]],
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield the rank and the places of rows whose hash an earlier row has."""
    rows = np.concatenate(slices)
    ranks = np.repeat(np.arange(len(slices)), list(map(len, slices)))
    # Stable: rows of one hash stay in the order of ranks and places.
    order = np.lexsort((rows["low"], rows["high"]))
    rows, ranks = rows[order], ranks[order]
    again = np.zeros(len(rows), bool)
    again[1:] = (rows["high"][1:] == rows["high"][:-1]) & (rows["low"][1:] == rows["low"][:-1])
    ranks, places = ranks[again], rows["place"][again]
    for rank in np.unique(ranks).tolist():
        yield rank, places[ranks == rank]
