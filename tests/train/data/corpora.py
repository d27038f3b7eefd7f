"""Corpora of the tests: small, prepared here, without progress; and shards of random documents."""

import json

import numpy as np

from segmenters import Newline
from train.data.preparing.prepare import prepare
from train.data.preparing.source import Corpus, Source
from train.data.reading import SPLITS
from train.data.store.shards import open_dataset
from train.data.store.writer import ShardWriter
from train.data.tokenizing.vocabulary import TrainBPE


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


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
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
