"""What shards cost: beside the tokens, in a loader batch, when they are merged and verified.

    python -m benchmarks.shards [MEGATOKENS]

Peers in the same run: the tokens alone on disk; torch's DataLoader over the same tokens without
marks; a bare copy of the same files with sha256 (merging, verifying).
Medians of CPU time, one thread. Ids from marks: benchmarks/positions.py.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from benchmarks.workers import medians
from train.data.rows.choices import Packing
from train.data.rows.loader import RowLoader
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.data.store.shards import DataSet, open_dataset
from train.data.store.verify import split_faults
from train.data.store.writer import ShardWriter

ROWS, ROW_LENGTH, STEPS = 32, 1024, 60
SEGMENT, DOCUMENT = 20, 700  # tokens, on average
VOCAB_SIZE = 50_000


def write(folder: Path, *, tokens: int, levels: int = 1) -> DataSet:
    """Documents of random ids."""
    draw = np.random.default_rng(0)
    with ShardWriter(
        folder=folder, name="x", vocab_size=VOCAB_SIZE, levels=levels, description={}
    ) as writer:
        while writer.counts["tokens"] < tokens:
            length = int(draw.exponential(DOCUMENT)) + 1
            starts = draw.random((levels, length)) < 1 / SEGMENT
            marks = np.zeros(length, np.uint8)
            for level, row in enumerate(starts):
                marks |= row.astype(np.uint8) << np.uint8(1 + level)
            marks[0] = (2 << levels) - 1
            ids = draw.integers(0, VOCAB_SIZE, length)
            writer.add(ids, marks, id=f"document {writer.counts['documents']}", size=4 * length)
    return open_dataset(folder, verify=False)


def size(data: DataSet) -> None:
    """Bitmaps and document ends against the tokens."""
    for shard in data.shards:
        tokens = shard.paths["bin"].stat().st_size
        level = shard.paths["level0.bits"].stat().st_size
        ends = shard.paths["documents"].stat().st_size
        print(
            f"side channel: {100 * level / tokens:.2f}% of uint16 tokens a level, "
            f"{100 * ends / tokens:.2f}% document ends ({DOCUMENT} tokens a document)"
        )


class Windows(torch.utils.data.Dataset):
    """Tokens alone, as loaders of flat language models read them: a stretch of the map a row."""

    def __init__(self, data: DataSet) -> None:
        self._tokens = data.tokens

    def __len__(self) -> int:
        return (len(self._tokens) - 1) // ROW_LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = index * ROW_LENGTH
        row = torch.from_numpy(self._tokens[start : start + ROW_LENGTH + 1].astype(np.int64))
        return row[:-1], row[1:]


def batches(data: DataSet, packing: str) -> None:
    """Time batches with marks and masked targets against tokens and shifted targets."""
    rows = Rows(data=data, row_length=ROW_LENGTH, packing=Packing(strategy=packing))
    mixture = RowOrder(rows={"x": rows})
    loader = RowLoader(order=mixture, micro_batch=ROWS, global_batch=ROWS, steps=STEPS)
    peer = torch.utils.data.DataLoader(Windows(data), batch_size=ROWS, shuffle=True)

    def with_marks() -> None:
        for _ in loader.batches():
            pass

    def without() -> None:
        assert isinstance(data.tokens, np.ndarray)  # of one shard
        tokens, empty = data.tokens, np.zeros(ROWS * (ROW_LENGTH + 1), np.uint8)

        def nothing(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return tokens[places].astype(np.int64), empty[: len(places)].copy()

        with mock.patch.object(data, "read", nothing):
            with_marks()

    def torch_loader() -> None:
        for _ in itertools.islice(peer, STEPS):
            pass

    def gathered() -> None:
        for step in range(STEPS):
            _, chosen = mixture.global_rows(np.arange(step * ROWS, (step + 1) * ROWS))
            starts = (chosen % (len(data.tokens) // ROW_LENGTH - 1)) * ROW_LENGTH
            plain = np.empty((ROWS, ROW_LENGTH + 1), np.int64)
            for row, start in zip(plain, starts.tolist(), strict=True):
                row[:] = data.tokens[start : start + ROW_LENGTH + 1]
            torch.from_numpy(plain[:, :-1].copy()), torch.from_numpy(plain[:, 1:].copy())

    ours, *others = medians(with_marks, torch_loader, without, gathered, rounds=5)
    names = ("DataLoader, tokens only", "the same, marks left out", "bare numpy, tokens only")
    shown = ", ".join(
        f"{ours / each:.2f} of {name} ({each * 1e3 / STEPS:.2f} ms)"
        for name, each in zip(names, others, strict=True)
    )
    print(f"batch {ROWS} x {ROW_LENGTH}, {packing}: {ours * 1e3 / STEPS:.2f} ms: {shown}")


def merge(data: DataSet, root: Path) -> None:
    """Two parts into one, against a bare copy of their files that is hashed on the way."""
    total = 2 * sum(file["bytes"] for file in data.manifest["files"].values())
    number = iter(range(1000))

    def ours() -> None:
        with ShardWriter(
            folder=root / f"merged{next(number)}",
            name="x",
            vocab_size=VOCAB_SIZE,
            levels=data.manifest["levels"],
            description={},
        ) as writer:
            writer.extend(data)
            writer.extend(data)

    def copy() -> None:
        with (root / "copy").open("wb") as target:
            for name in [*data.manifest["files"]] * 2:
                digest = hashlib.sha256()
                with (data.folder / name).open("rb") as file:
                    while block := file.read(1 << 20):
                        digest.update(block)
                        target.write(block)

    one, two = medians(ours, copy, rounds=3)
    print(f"merge: {total / one / 1e6:.0f} MB/s, a hashed copy {total / two / 1e6:.0f} MB/s")


def verify(data: DataSet) -> None:
    """Checksums alone, as before training, and with the structure, against bare sha256."""
    total = sum(file["bytes"] for file in data.manifest["files"].values())

    def bare() -> None:
        for name in data.manifest["files"]:
            with (data.folder / name).open("rb") as file:
                hashlib.file_digest(file, "sha256")

    checked = [
        lambda structure=structure: list(split_faults(data.folder, structure=structure))
        for structure in (False, True)
    ]
    seconds = medians(*checked, bare, rounds=3)
    names = ("verify, checksums", "verify, with structure", "bare sha256")
    for name, each in zip(names, seconds, strict=True):
        print(f"{name}: {total / each / 1e6:.0f} MB/s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("megatokens", type=float, nargs="?", default=20)
    megatokens = parser.parse_args().megatokens
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        one = write(place / "data", tokens=int(megatokens * 1e6))
        size(one)
        for packing in ("concat", "best_fit"):
            batches(one, packing)
        merge(one, place)
        verify(one)
