"""Sentence and step boundaries against gold, and against what others find in the same run.

    python -m benchmarks.segments FILE.jsonl ... --segmenter sentences [--peers]

A line of a file is one document: `text`, `bounds` (character offsets at which a segment starts,
the first left out) and `set` (what it is counted under). A boundary is right if as many visible
characters stand before it as before the gold one, so white space may lie on either side. Peers
read one paragraph at a time, since most of them do not stop at a blank line. Prints JSON: for each
segmenter and set precision, recall and F1 of the boundaries, how many documents are cut exactly as
in the gold, and megabytes of UTF-8 a second of CPU time, the best of three runs over a set.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import segmenters
from segmenters import Segmenter, Sentences

_BLANK_LINES = re.compile(r"\n[^\S\n]*+\n\s*+")
# The split that is often written by hand.
_SPLIT = re.compile(r"[.!?]+[\"')\]]*\s+(?=[A-Z\"'(])")
# Text -> character offsets at which a segment starts or ends, in any order.
Cutter = Callable[[str], Iterable[int]]
SHORT = {
    "sentences": Sentences(),
    "spacy": Sentences(backend="spacy"),
    "sentencizer": Sentences(backend="sentencizer", language="en"),
}


def boundaries(text: str, places: Iterable[int]) -> set[int]:
    """Places as numbers of visible characters before them, without the ends of the text."""
    visible = np.cumsum(np.fromiter((not char.isspace() for char in text), bool, len(text)))
    before = np.concatenate(([0], visible))
    found = {int(before[place]) for place in places}
    return {place for place in found if 0 < place < before[-1]}


def documents(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Return the documents of the files; a fault names its file and line."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                record = json.loads(line)
                missing = [key for key in ("text", "bounds") if key not in record]
                if missing:
                    raise ValueError(f"{path}:{number}: the document has no {missing[0]!r}")
                yield {"set": path.stem, **record}


def score(records: list[dict[str, Any]], cutter: Cutter) -> dict[str, Any]:
    """Per set and in all: precision, recall, F1, exact documents; and the speed."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    by_set: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_set[record["set"]].append(record)
    seconds = {name: min(timed(rows, cutter) for _ in range(3)) for name, rows in by_set.items()}
    sizes = {name: sum(map(size_of, rows)) for name, rows in by_set.items()}
    seconds["all"], sizes["all"] = sum(seconds.values()), sum(sizes.values())
    for record in records:
        text = record["text"]
        gold, found = boundaries(text, record["bounds"]), boundaries(text, cutter(text))
        values = (len(gold & found), len(found), len(gold), gold == found, 1)
        for name in (record["set"], "all"):
            counts[name] = [a + b for a, b in zip(counts[name], values, strict=True)]
    speeds = {name: round(sizes[name] / 1e6 / max(seconds[name], 1e-9), 2) for name in sizes}
    return {
        "sets": {
            name: {**summary(*values), "megabytes_per_cpu_second": speeds[name]}
            for name, values in sorted(counts.items())
        },
        "megabytes_per_cpu_second": speeds["all"],
    }


def timed(records: list[dict[str, Any]], cutter: Cutter) -> float:
    """Return how many seconds of CPU time it takes to cut the documents."""
    begin = time.process_time()
    for record in records:
        list(cutter(record["text"]))
    return time.process_time() - begin


def size_of(record: dict[str, Any]) -> int:
    return len(record["text"].encode("utf-8", "surrogatepass"))


def summary(right: int, found: int, gold: int, exact: int, total: int) -> dict[str, Any]:
    """Return what is printed of one set; shares of nothing are 1."""
    precision = right / found if found else 1.0
    recall = right / gold if gold else 1.0
    mean = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "f1": round(mean, 4),
        "exact": exact,
        "documents": total,
        "boundaries": gold,
    }


def named(name: str, parameters: dict[str, Any]) -> Cutter:
    """Return the segmenter of a short name, or of a class of `segmenters`."""
    if name in SHORT and not parameters:
        segmenter: Segmenter = SHORT[name]
    else:
        kind = getattr(segmenters, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Segmenter)):
            raise ValueError(
                f"--segmenter must be {', '.join(SHORT)} or a class of segmenters, was: {name!r}"
            )
        segmenter = kind(**parameters)
    return lambda text: segmenter.cut(text).tolist()


def spans(text: str, sentences: Iterable[str]) -> Iterator[int]:
    """Where the sentences that a peer returns as strings start; those it altered are left out."""
    place = 0
    for sentence in sentences:
        found = text.find(sentence.strip(), place)
        if found >= 0:
            yield found
            place = found + len(sentence.strip())


def by_paragraph(cutter: Cutter) -> Cutter:
    """Return the cutter, given one paragraph at a time; a blank line is a boundary."""

    def cut(text: str) -> list[int]:
        starts = [0, *(match.end() for match in _BLANK_LINES.finditer(text)), len(text)]
        pieces = [(start, text[start:end]) for start, end in pairwise(starts)]
        return starts + [start + place for start, piece in pieces for place in cutter(piece)]

    return cut


def peers(language: str) -> dict[str, Cutter]:
    """Other sentence segmenters, as far as they are installed."""
    found: dict[str, Cutter] = {}
    makers = {
        "regex split": lambda _: lambda text: (match.end() for match in _SPLIT.finditer(text)),
        "spacy sentencizer": _sentencizer,
        "pysbd": _pysbd,
        "blingfire": _blingfire,
        "sentencex": _sentencex,
    }
    for name, make in makers.items():
        try:
            found[name] = by_paragraph(make(language))
        except ImportError:
            print(f"{name} is not installed: left out", file=sys.stderr)
    return found


def _sentencizer(language: str) -> Cutter:
    import spacy

    nlp = spacy.blank(language)
    nlp.add_pipe("sentencizer")
    return lambda text: [sentence.start_char for sentence in nlp(text).sents]


def _pysbd(language: str) -> Cutter:
    import pysbd

    segmenter = pysbd.Segmenter(language=language, clean=False)
    return lambda text: spans(text, segmenter.segment(text))


def _blingfire(language: str) -> Cutter:
    import blingfire

    def cut(text: str) -> list[int]:
        # NUL ends the text for a library of C.
        text = text.replace("\0", " ")
        return [start for start, _ in blingfire.text_to_sentences_and_offsets(text)[1]]

    return cut


def _sentencex(language: str) -> Cutter:
    import sentencex

    return lambda text: spans(text, sentencex.segment(language, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--segmenter", default="sentences", help="a short name or a class")
    parser.add_argument("--parameters", type=json.loads, default={}, help="JSON, for a class")
    parser.add_argument("--peers", action="store_true", help="score other segmenters as well")
    parser.add_argument("--language", default="en", help="for the peers")
    parser.add_argument("--set", action="append", help="score these sets only")
    options = parser.parse_args()
    try:
        cutters = {options.segmenter: named(options.segmenter, options.parameters)}
        records = list(documents(options.files))
    except (OSError, ValueError, TypeError) as error:
        parser.error(str(error))
    if options.set:
        records = [record for record in records if record["set"] in options.set]
    if options.peers:
        cutters |= peers(options.language)
    for cutter in cutters.values():
        list(cutter("What is loaded at the first call is no part of the speed."))
    results = {name: score(records, cutter) for name, cutter in cutters.items()}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
