"""Ids from marks, and marks from text, against what they stand beside.

    python benchmarks/positions.py

Peers in the same run: one pass of torch.cumsum over the same rows for the ids; the tokenizer's
own encode_batch over the same text for cutting and alignment. Medians of CPU time, one thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from bipe import Positions
from segmenters import Lines, Segmenter, Sentences, mark
from train.data.corpora import KingJamesBible, PackageCode
from train.data.vocabulary import TrainBPE


def median(run: Callable[[], object], repeats: int = 7) -> float:
    """Median of the CPU seconds of a call, the first one left out."""
    times = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return statistics.median(times[1:])


def ids() -> None:
    marks = torch.randint(0, 20, (32, 1024)).eq(0).to(torch.uint8) << 1
    ours = median(lambda: Positions.from_marks(marks), 50)
    peer = median(lambda: marks.cumsum(-1), 50)
    rate = marks.numel() / ours / 1e6
    print(f"ids from marks, 32 x 1024: {rate:.0f}M tokens/s, {ours / peer:.1f} x one cumsum")


def marks() -> None:
    cases = {
        "prose, rules": (KingJamesBible(), Sentences(backend="rules")),
        "prose, spaCy": (KingJamesBible(), Sentences()),
        "code, lines": (PackageCode(packages=["stdlib"], limit=200), Lines()),
    }
    for name, (reader, segmenter) in cases.items():
        report(name, [document.text for document in reader], segmenter)


def report(name: str, texts: list[str], segmenter: Segmenter) -> None:
    tokenizer = TrainBPE(vocab_size=4096).build(lambda _: texts)
    table = tokenizer.table
    assert table is not None
    encoded = [ids for ids, _ in tokenizer.encode_batch(texts)]
    levels = [segmenter.levels(text) for text in texts]

    def align() -> None:
        for text, ids, cuts in zip(texts, encoded, levels, strict=True):
            mark(table.anchors(text, ids), cuts)

    encode = median(lambda: tokenizer.fast.encode_batch(texts, add_special_tokens=False), 3)
    cut = median(lambda: [segmenter.levels(text) for text in texts], 3)
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(
        f"{name}: cut {size / cut:.1f} MB/s ({100 * cut / encode:.1f}% of encode_batch), "
        f"align {100 * median(align, 3) / encode:.1f}%"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    ids()
    marks()
