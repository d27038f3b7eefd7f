"""Examples and an encoder without files; zip archives of rows in the official format."""

import functools
import json
import zipfile

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from segmenters import Sentences
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import END
from train.tasks.scrolls.encoding import Encoder, Truncation
from train.tasks.scrolls.examples import Example, Part

WORDS = ["he", "ran.", "She", "won!", "The", "cat", "sat\n\nOn", "it.", "No?", "Yes.", "ab", "cd"]


@functools.cache
def byte_tokenizer():
    """One id a byte, and the end of a document."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([END, *alphabet])}
    fast = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens([END])
    return Tokenizer(fast=fast, eos=END)


def encoder(*, row_length=256, output=20, last=3, on_long="cut", segmenter=None):
    room = Truncation(row_length=row_length, output=output, last=last, on_long=on_long)
    return Encoder(tokenizer=byte_tokenizer(), segmenter=segmenter or Sentences(), truncation=room)


def drawn_text(rng, words):
    return " ".join(rng.choice(WORDS, size=words))


def drawn_examples(count, *, seed=0, words=12, references=1):
    """Examples of drawn words, of many lengths."""
    rng = np.random.default_rng(seed)
    return [
        Example(
            id=f"example-{index}",
            parts=(
                Part(kind="question", text=drawn_text(rng, 3) + "\n\n"),
                Part(kind="document", text=drawn_text(rng, int(rng.integers(1, words + 1)))),
                Part(kind="text", text="\n\nSummary:"),
            ),
            references=tuple(drawn_text(rng, int(rng.integers(1, 4))) for _ in range(references)),
        )
        for index in range(count)
    ]


class DrawnTask:
    """A task of drawn examples."""

    name, metric, output_tokens, last_tokens = "drawn", "rouge", 20, 3

    def __init__(self, *, seed=0, train=23, validation=7, words=12):
        self.sizes = {"train": train, "validation": validation, "test": 2}
        self.seed, self.words = seed, words

    def examples(self, split):
        seed = self.seed + list(self.sizes).index(split)
        return drawn_examples(self.sizes[split], seed=seed, words=self.words)


def row(number, *, input="What?\n\nA text.", output="An answer", **other):
    return {"id": f"i{number}", "pid": f"i{number}_0", "input": input, "output": output, **other}


def archive(path, *, task="qmsum", **splits):
    """An archive with these splits; a split is a list of rows, or bytes as they stand."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for split, rows in splits.items():
            if not isinstance(rows, bytes):
                rows = "".join(json.dumps(one) + "\n" for one in rows).encode()
            made.writestr(f"{task}/{split}.jsonl", rows)
    return path
