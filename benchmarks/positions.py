"""Ids from marks, and marks from text, against what they stand beside.

    python -m benchmarks.positions
    python -m benchmarks.positions --one-line    # memory of encoding 100 MB without a line end

Peers in the same run: one pass of torch.cumsum over the same rows for the ids; the tokenizer's
own encode_batch over the same text for cutting and alignment. Medians of CPU time, one thread.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, trainers

from benchmarks.workers import medians, peak_mib
from bipe import Positions
from segmenters import Lines, Segmenter, Sentences, anchors_from_offsets, mark
from segmenters.base import Cuts
from train.data.reading.corpora import KingJamesBible, PackageCode
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import TrainBPE


def ids() -> None:
    marks = torch.randint(0, 20, (32, 1024)).eq(0).to(torch.uint8) << 1
    ours, peer = medians(lambda: Positions.from_marks(marks), lambda: marks.cumsum(-1), rounds=50)
    rate = marks.numel() / ours / 1e6
    print(f"ids from marks, 32 x 1024: {rate:.0f}M tokens/s, {ours / peer:.1f} x one cumsum")


def marks() -> None:
    prose = [document.text for document in KingJamesBible()]
    code = [document.text for document in PackageCode(packages=["stdlib"], limit=200)]
    small = [text for book in prose for text in textwrap.wrap(book[:60_000], 200)]
    cases = {
        "prose, rules": (prose, Sentences(backend="rules")),
        "prose, spaCy": (prose, Sentences()),
        "code, lines": (code, Lines()),
        "documents of 200 characters, lines": (small, Lines()),
    }
    for name, (texts, segmenter) in cases.items():
        report(name, texts, segmenter, TrainBPE(vocab_size=4096).build(lambda _, t=texts: t))
    report("prose, rules, SentencePiece", prose, Sentences(backend="rules"), sentencepiece(prose))
    report(
        "prose, rules, WordPiece (offsets)", prose, Sentences(backend="rules"), word_piece(prose)
    )


def report(name: str, texts: list[str], segmenter: Segmenter, tokenizer: Tokenizer) -> None:
    levels = [[segmenter.cut(text)] for text in texts]
    fast = tokenizer.fast
    encode, cut, align = medians(
        lambda: fast.encode_batch(texts, add_special_tokens=False),
        lambda: [segmenter.cut(text) for text in texts],
        aligning(tokenizer, texts, levels),
        rounds=3,
    )
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(
        f"{name}: cut {size / cut:.1f} MB/s ({100 * cut / encode:.1f}% of encode_batch), "
        f"align {100 * align / encode:.1f}%"
    )


def aligning(
    tokenizer: Tokenizer, texts: list[str], levels: list[tuple[Cuts, ...]]
) -> Callable[[], object]:
    """Return what is done with ids, or offsets, until each token has its mark."""
    encodings = tokenizer.fast.encode_batch(texts, add_special_tokens=False)
    rows = [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
    counts, spelling = [*map(len, rows)], tokenizer.spelling

    def from_bytes() -> None:
        assert spelling is not None
        ids, prefixes = np.concatenate(rows), [*map(spelling.prefix, texts)]
        anchors, exact = spelling.table.anchors_of_parts(texts, ids, counts, prefixes)
        assert exact.all()
        ends = np.cumsum(counts).tolist()
        for end, count, cuts in zip(ends, counts, levels, strict=True):
            mark(anchors[end - count : end], cuts)

    def from_offsets() -> None:
        for text, encoding, cuts in zip(texts, encodings, levels, strict=True):
            flat = itertools.chain.from_iterable(encoding.offsets)
            spans = np.fromiter(flat, dtype=np.int64, count=2 * len(encoding)).reshape(-1, 2)
            mark(anchors_from_offsets(text, spans), cuts)

    return from_bytes if spelling is not None else from_offsets


def sentencepiece(texts: list[str]) -> Tokenizer:
    """Return a BPE over marked spaces with byte fallback, like LLaMA's."""
    fast = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    fast.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return trained(fast, trainers.BpeTrainer, ["<unk>", "</s>"], texts)


def word_piece(texts: list[str]) -> Tokenizer:
    """Return a WordPiece that lower-cases, like BERT's: its pieces do not spell the text."""
    fast = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    fast.normalizer = normalizers.BertNormalizer()
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return trained(fast, trainers.WordPieceTrainer, ["[UNK]", "[SEP]"], texts)


def trained(
    fast: tokenizers.Tokenizer, trainer: Any, special: list[str], texts: list[str]
) -> Tokenizer:
    made = trainer(vocab_size=4096, special_tokens=special, show_progress=False)
    fast.train_from_iterator(texts, made)
    return Tokenizer(fast=fast, eos=special[1])


def one_line(megabytes: int) -> None:
    """Peak of memory for a text without line ends, in a process that does nothing else."""
    words = "the quick (brown) fox jumps_over 12 lazy dogs. " * (megabytes * 1_000_000 // 47)
    tokenizer = TrainBPE(vocab_size=4096).build(lambda _: [words[:100_000]])
    before = peak_mib() / 1024
    ((ids, _),) = tokenizer.encode_batch([words])
    print(
        f"one line of {megabytes} MB: {len(ids) / 1e6:.1f}M tokens, "
        f"peak {peak_mib() / 1024:.2f} GiB ({before:.2f} before)"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--one-line"]:
        one_line(100)
    else:
        ids()
        marks()
