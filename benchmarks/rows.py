"""What choosing and packing rows costs, beside reading them. No network, no GPU, CPU time.

    python -m benchmarks.rows [--documents 1000000] [--sources 4]

Order: which rows a global batch of 256 holds, of a mixture of a billion rows, against reading them
(32 x 1024 tokens a micro-batch). Packing: best fit decreasing of documents with a long-tailed
distribution of lengths, against the same one document at a time (a sorted list of rooms), and
against concatenation. Each the median of several runs in this process.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

import numpy as np

from benchmarks.workers import cpu_seconds, machine, medians, parser_of, peak_mib
from train.data.rows.order import RowOrder
from train.data.rows.spans import Bins, Stream

LENGTH, BATCH, ROWS = 1024, 256, 10**9


class Counted:
    """Rows that know only how many they are."""

    row_length, continues = LENGTH, False

    def __len__(self) -> int:
        return ROWS


def one_by_one(lengths: np.ndarray, room: int) -> int:
    """Rows that best fit decreasing takes, each document placed for itself."""
    rooms: list[int] = []
    count: defaultdict[int, int] = defaultdict(int)
    rows = 0
    for length in sorted(lengths.tolist(), reverse=True):
        at = bisect_left(rooms, length)
        if at < len(rooms):
            left = rooms[at]
            count[left] -= 1
            if not count[left]:
                rooms.pop(at)
        else:
            left, rows = room, rows + 1
        left -= length
        if left:
            if not count[left]:
                insort(rooms, left)
            count[left] += 1
    return rows


def order(sources: int) -> None:
    """Time of choosing the rows of a batch."""
    weights = {f"s{index}": float(index + 1) for index in range(sources)}
    mixture = RowOrder(rows={name: Counted() for name in weights}, weights=weights)  # type: ignore
    begins = iter(range(10**8, 10**9, BATCH))

    def batch() -> None:
        first = next(begins)
        mixture.global_rows(np.arange(first, first + BATCH))

    (took,) = medians(batch, rounds=200)
    print(f"order: {BATCH} of {ROWS * sources:,} rows: {1e3 * took:.2f} ms")


def packing(documents: int) -> None:
    """Time of packing a data set once."""
    draw = np.random.default_rng(0)
    lengths = np.minimum(draw.lognormal(5.5, 1.2, documents).astype(np.int64) + 1, LENGTH + 1)
    ends = np.cumsum(lengths)
    made: list[Bins] = []

    def fit() -> None:
        made[:] = [Bins(ends, LENGTH, together=True, tails_first=False)]

    slow = cpu_seconds(lambda: one_by_one(lengths, LENGTH + 1))
    fast, plain, longest = medians(
        fit,
        lambda: Stream(ends, LENGTH, longest_first=False),
        lambda: Stream(ends, LENGTH, longest_first=True),
        rounds=3,
    )
    padding = 1 - made[0].inputs() / (len(made[0]) * LENGTH)
    print(f"packing: {documents:,} documents, {int(ends[-1]):,} tokens")
    print(f"  best_fit {fast:.2f} s, {padding:.3%} padding, {slow / fast:.1f} times one by one")
    memory = f"peak of the process {peak_mib() / 1024:.1f} GiB"
    print(f"  concat {plain:.4f} s, long_first {longest:.2f} s; {memory}")


if __name__ == "__main__":
    asked = parser_of(__doc__, documents=1_000_000, sources=4).parse_args()
    print(machine(), "numpy", np.__version__)
    order(asked.sources)
    packing(asked.documents)
