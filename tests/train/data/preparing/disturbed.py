"""A preparation to be killed: python -m tests.train.data.preparing.disturbed FOLDER OUT.

Slow on purpose, and in many small parts, so that there is something to kill it in.
"""

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segmenters import Newline
from tests.train.data.corpora import prepared, write_rows
from train.data.preparing.engines import Local
from train.data.preparing.source import Source
from train.data.reading import documents as parts
from train.data.reading.files import JSONL, TextFiles
from train.data.reading.split import Split

PART_BYTES = 4000
ROOT = Path(__file__).parents[4]


@dataclass(frozen=True, kw_only=True)
class Slow(Newline):
    """Newline, with a pause at each document."""

    seconds: float = 0.01

    def cut(self, text):
        time.sleep(self.seconds)
        return super().cut(text)


def write_corpus(folder, *, seed, documents=100):
    """Documents of two sources in several files; returns their texts by id."""
    draw = np.random.default_rng(seed)
    words = ["cat", "sat", "on", "the", "mat.", "42", "\u4e2d\u6587", "def f():", "x = (1,"]
    texts = {}
    (folder / "text").mkdir(parents=True)
    for number in range(documents):
        ends = draw.choice([" ", ". ", "\n", "\n\n", "\n    "], int(draw.integers(1, 120)))
        text = "".join(str(draw.choice(words)) + end for end in ends)
        texts[f"doc{number}"] = text
        if number % 5 == 0:
            name = f"{number:04d}.txt"
            (folder / "text" / name).write_text(text)
            texts[name] = texts.pop(f"doc{number}")
    rows = [{"id": id, "text": text} for id, text in texts.items() if id.startswith("doc")]
    write_rows(folder / "large.jsonl", rows[: len(rows) // 2])
    write_rows(folder / "small.jsonl", rows[len(rows) // 2 :])
    return texts


def sources(folder, *, seconds=0.0):
    """The sources of that corpus."""
    segmenter = Slow(seconds=seconds)
    rows = JSONL(path=folder, id_key="id")
    return {
        "rows": Source(documents=rows, segmenter=segmenter),
        "text": Source(documents=TextFiles(path=folder / "text"), segmenter=segmenter),
    }


def run(folder, out, *, workers=1, seconds=0.0, **options):
    """Prepare in this process."""
    options = {"engine": Local(workers=workers)} | options
    corpus = {"split": Split(validation=0.1, test=0.2)}
    return prepared(sources(folder, seconds=seconds), out, vocab_size=300, corpus=corpus, **options)


def descendants(pid, depth=1):
    """Processes below a process, by the depth at which they are."""
    found = {}
    with contextlib.suppress(OSError):  # one that ends meanwhile
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found |= {child: depth} | descendants(child, depth + 1)
    return found


def main():
    parts.SMALLEST = PART_BYTES
    made = run(Path(sys.argv[1]), Path(sys.argv[2]), workers=2, seconds=0.01)
    print("kept" if made.kept else "made")


if __name__ == "__main__":
    # A class is fingerprinted by its module, which must not be __main__.
    from tests.train.data.preparing import disturbed

    disturbed.main()
