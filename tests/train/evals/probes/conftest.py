"""Held-out text of made-up sentences, a tokenizer that knows its words, and models that cheat."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from bipe import Decoder
from bipe.encodings import Flat, RoPE
from segmenters import Lines, Newline, Sentences
from train.data.tokenizing.vocabulary import TrainBPE
from train.evals.probes.trials import WORDS, Draw, Haystack, Texts

PHRASES = """Remember the pass key that is hidden in this text. The pass key is 12345. Remember it.
What is the secret number of river-stone? The secret number of silver-garden is 7654321.
Name all secret numbers of river-gold. They are. Which variables have the value? VAR ABCDE = VAR.
Which ten words are the most common in the list? They are bafalu, dimogu and zonika."""
SEGMENTERS = {"sentences": Sentences(), "newline": Newline(), "lines": Lines(language="python")}


def prose(sentences, *, seed="prose", joint=" "):
    draw = Draw(seed)
    made = []
    for _ in range(sentences):
        words = [WORDS[draw.below(len(WORDS))] for _ in range(3 + draw.below(9))]
        made.append(f"{words[0].capitalize()} {' '.join(words[1:])}.")
    return joint.join(made)


@pytest.fixture(scope="session")
def tokenizer():
    text = f"{prose(200)}\n{PHRASES}\n" * 3
    return TrainBPE(vocab_size=700).build(lambda _: [text])


@pytest.fixture(scope="session")
def texts(tokenizer):
    return Texts(tokenizer=tokenizer, segmenter=Newline())


@pytest.fixture(scope="session")
def hay(texts):
    return hay_for(texts)


def hay_for(texts):
    """Sentences, in lines of their own where a segment is a line."""
    joint = " " if isinstance(texts.segmenter, Sentences) else "\n"
    return haystack(texts, prose(400, joint=joint))


def haystack(texts, text, *, name="made up"):
    (ids,) = texts.encode([text])
    ids = np.append(ids, texts.tokenizer.eos_id)
    marks = texts.marks(ids)
    data = SimpleNamespace(
        tokens=ids, marks=lambda start, stop: marks[start:stop], name=name, folder="made/up",
        manifest={"name": name},
    )  # fmt: skip
    return Haystack(data, texts=texts, name=name)


class Cheat(Decoder):
    """A model whose logits are a function of all tokens of a row; reads through the cache."""

    def __init__(self, predict, vocab_size):
        nn.Module.__init__(self)
        self.predict, self.vocab_size = predict, vocab_size
        self.scheme, self.levels = Flat(encoding=RoPE(head_width=2)), 1
        self.config = SimpleNamespace(vocab_size=vocab_size)
        self.head = nn.Identity()
        self.head.weight = torch.zeros(())
        self.tokens = SimpleNamespace(weight=self.head.weight)

    def forward(self, tokens, at, cache):
        start = len(cache)
        cache.extend(at)
        self.seen = torch.cat([self.seen[:, :start], tokens], 1) if start else tokens
        return torch.stack(
            [self.predict(row.tolist(), start, self.vocab_size) for row in self.seen]
        )


def copies(row, start, vocab_size):
    """Each token is followed by what followed the longest match of the last tokens before."""
    logits = torch.zeros(len(row) - start, vocab_size)
    for t in range(start, len(row)):
        best = (0, None)
        for s in range(t):
            n = 0
            while n <= s and row[s - n] == row[t - n] and n < 24:
                n += 1
            if n > best[0]:
                best = (n, row[s + 1])
        if best[1] is not None:
            logits[t - start, best[1]] = 50.0
    return logits


def guesses(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return lambda row, start, vocab_size: torch.randn(
        len(row) - start, vocab_size, generator=generator
    )
