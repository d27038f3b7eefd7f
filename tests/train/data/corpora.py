"""Corpora of the tests: small, prepared here, without progress."""

import numpy as np

from segmenters import Newline
from train.data.preparing.prepare import prepare
from train.data.preparing.source import Corpus, Source
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


def content(folder):
    """Return the bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
