"""Corpora of the tests: small, prepared here; shards of random documents; streams in memory."""

import json
from pathlib import Path

import numpy as np

from segmenters import Newline
from train.data.preparing.prepare import prepare
from train.data.preparing.source import Corpus, Source
from train.data.store.shards import open_dataset
from train.data.store.writer import ShardWriter
from train.data.tokenizing.vocabulary import TrainBPE
from train.disk.manifest import SPLITS


def prepared(sources, out, *, tokenizer=None, vocab_size=270, corpus=None, **options):
    """Prepare sources; a reader is one that is cut at lines. corpus: further options of that."""
    sources = {
        name: each if isinstance(each, Source) else Source(documents=each, segmenter=Newline())
        for name, each in sources.items()
    }
    tokenizer = tokenizer or TrainBPE(vocab_size=vocab_size)
    made = Corpus(sources=sources, tokenizer=tokenizer, **(corpus or {}))
    return prepare(made, out=out, **({"progress": False} | options))


def write_words(root, *, files, words):
    """Write prose/0.txt ... and code/0.txt ... of random words and lines."""
    draw = np.random.default_rng(0)
    for source in ("prose", "code"):
        (root / source).mkdir()
        for number in range(files):
            drawn = draw.choice(["cat", "sat", "mat\n", "dog", "ran."], words)
            (root / source / f"{number}.txt").write_text(" ".join(drawn))


def as_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_rows(path, rows):
    path.write_bytes(as_lines(rows))
    return path


def content(folder):
    """Return the bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def ids_of(out, *sources):
    """Return the ids of the documents of all splits of prepared sources, sorted."""
    opened = [open_dataset(out / source / split) for source in sources for split in SPLITS]
    return sorted(id for data in opened for id in data.document_ids())


def random_documents(lengths, *, seed=0, vocab_size=300, levels=2):
    """Tokens and marks of documents of these lengths."""
    draw = np.random.default_rng(seed)
    documents = []
    for length in lengths:
        marks = draw.integers(0, 2**levels, length).astype(np.uint8) << 1
        marks[0] = (2 << levels) - 1
        documents.append((draw.integers(0, vocab_size, length), marks))
    return documents


def shard_writer(folder, **options):
    given = {"name": "x", "vocab_size": 300, "levels": 2}
    given["description"] = {"split": "t", "tokenizer": {"sha256": "t"}}
    return ShardWriter(folder=folder, **given | options)


def write_shards(folder, documents, *, first=0, fail_at=None, **options):
    with shard_writer(folder, **options) as opened:
        for number, (tokens, marks) in enumerate(documents, first):
            if number == fail_at:
                raise KeyboardInterrupt
            opened.add(tokens, marks, id=f"d\n\u4e2d{number}", size=10 * number, replaced=number)


class Stream:
    """Documents of given lengths; tokens are 0, 1, 2, .. so that one says where it came from."""

    def __init__(self, lengths, *, name="x", seed=0):
        draw = np.random.default_rng(seed)
        self.name, self.folder = name, Path(name)
        self.manifest = {"split": "train", "files": {}}
        self.levels = (0,)
        self.document_ends = np.cumsum(lengths, dtype=np.int64)
        total = sum(lengths)
        self.tokens = np.arange(total)
        self._marks = (draw.random(total) < 0.2).astype(np.uint8) << 1
        self._marks[np.append(0, self.document_ends)[: len(lengths)]] = 3

    def __len__(self):
        return len(self.document_ends)

    def marks(self, start, stop):
        return self._marks[start:stop].copy()

    def read(self, places):
        return self.tokens[places], self._marks[places]

    def starts(self, start, stop):
        return self._marks[start:stop] >> 1 & 1

    def span(self, index):
        return int(self.document_ends[index - 1]) if index else 0, int(self.document_ends[index])

    def inner(self):
        """Every token that is to be a target: all but the first of each document."""
        return np.setdiff1d(self.tokens, [0, *self.document_ends.tolist()])
