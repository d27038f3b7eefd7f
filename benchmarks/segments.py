"""Sentence and step boundaries against gold, and against what others find in the same run.

    python -m benchmarks.segments FILE.jsonl ... --segmenter sentences [--peers]
    python -m benchmarks.segments UD_*/*-ud-test.conllu --peers

A line of a file is one document: `text`, `bounds` (character offsets at which a segment starts,
the first left out), `set` (what it is counted under) and `language`, for the peers. A treebank of
Universal Dependencies is a set: documents are as its comments say, or of 20 sentences where they
say none (or hardly two sentences a document), paragraphs are apart by a blank line, and sentences
by a space unless the last token says `SpaceAfter=No`. A boundary is right if as many visible
characters stand before it as before the gold one, so white space may lie on either side. Peers
read one paragraph at a time, since most of them do not stop at a blank line. Prints JSON: for each
segmenter and set precision, recall and F1 of the boundaries, how many documents are cut exactly as
in the gold, and megabytes of UTF-8 a second of CPU time, the best of three runs over a set; the
mean F1 of all sets; versions, and the commits of the treebanks.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import segmenters
from segmenters import Segmenter, Sentences

_BLANK_LINES = re.compile(r"\n[^\S\n]*+\n\s*+")
# The split that is often written by hand.
_SPLIT = re.compile(r"[.!?]+[\"')\]]*\s+(?=[A-Z\"'(])")
# So many sentences of a treebank are a document if it names none.
_CHUNK = 20
_PEERS = ("spacy", "pysbd", "blingfire", "sentencex")
# Text -> character offsets at which a segment starts or ends, in any order.
Cutter = Callable[[str], Iterable[int]]
# A language, by its code -> what cuts its texts.
Maker = Callable[[str], Cutter]
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
        if path.suffix == ".conllu":
            yield from treebank(path)
            continue
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                record = json.loads(line)
                missing = [key for key in ("text", "bounds") if key not in record]
                if missing:
                    raise ValueError(f"{path}:{number}: the document has no {missing[0]!r}")
                yield {"set": path.stem, **record}


def treebank(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a treebank, whose folder names the set and whose name the language."""
    data = path.read_text(encoding="utf-8").replace("\r", "")
    language = path.name.partition("_")[0]
    names = {"set": path.absolute().parent.name, "language": language}
    is_marked = 1 < data.count("# newdoc") < data.count("# text =") / 2
    text, bounds, gap = "", list[int](), ""
    for block in data.strip().split("\n\n"):
        comments = "\n".join(line for line in block.split("\n") if line.startswith("#"))
        if text and ("# newdoc" in comments if is_marked else len(bounds) == _CHUNK - 1):
            yield {**names, "text": text, "bounds": bounds}
            text, bounds = "", []
        if text:
            text += "\n\n" if "# newpar" in comments else gap
            bounds.append(len(text))
        text += comments.partition("# text =")[2].partition("\n")[0].strip()
        gap = "" if "SpaceAfter=No" in block.rpartition("\n")[2] else " "
    if text:
        yield {**names, "text": text, "bounds": bounds}


def commit(path: Path) -> str | None:
    """Return the commit of the repository that holds a file, if there is one."""
    command = ["git", "-C", str(path.absolute().parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def score(records: list[dict[str, Any]], maker: Maker, *, runs: int = 3) -> dict[str, Any]:
    """Per set and in all: precision, recall, F1, exact documents; and the speed."""
    make = cache(maker)
    for language in {record["language"] for record in records}:
        list(make(language)("What is loaded at the first call is no part of the speed."))
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    by_set: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_set[record["set"]].append(record)
    seconds = {name: min(timed(rows, make) for _ in range(runs)) for name, rows in by_set.items()}
    sizes = {name: sum(map(size_of, rows)) for name, rows in by_set.items()}
    seconds["all"], sizes["all"] = sum(seconds.values()), sum(sizes.values())
    for record in records:
        text, cut = record["text"], make(record["language"])
        gold, found = boundaries(text, record["bounds"]), boundaries(text, cut(text))
        values = (len(gold & found), len(found), len(gold), gold == found, 1)
        for name in (record["set"], "all"):
            counts[name] = [a + b for a, b in zip(counts[name], values, strict=True)]
    speeds = {name: round(sizes[name] / 1e6 / max(seconds[name], 1e-9), 2) for name in sizes}
    sets = {
        name: {**summary(*values), "megabytes_per_cpu_second": speeds[name]}
        for name, values in sorted(counts.items())
    }
    mean = sum(sets[name]["f1"] for name in by_set) / max(len(by_set), 1)
    return {
        "sets": sets,
        "mean_f1": round(mean, 4),
        "megabytes_per_cpu_second": speeds["all"],
    }


def f1_table(scores: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the F1 of each set by segmenter, and the mean of the sets."""
    sets = next(iter(scores.values()))["sets"]
    f1 = {name: {by: values["sets"][name]["f1"] for by, values in scores.items()} for name in sets}
    return {"mean_f1": {by: values["mean_f1"] for by, values in scores.items()}, "f1": f1}


def timed(records: list[dict[str, Any]], make: Maker) -> float:
    """Return how many seconds of CPU time it takes to cut the documents."""
    begin = time.process_time()
    for record in records:
        list(make(record["language"])(record["text"]))
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


def named(name: str, parameters: dict[str, Any]) -> Maker:
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
    return lambda language: lambda text: segmenter.cut(text).tolist()


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


def peers() -> dict[str, Maker]:
    """Other sentence segmenters, as far as they are installed."""
    installed: dict[str, Maker] = {}
    makers: dict[str, Maker] = {
        "regex split": lambda _: lambda text: (match.end() for match in _SPLIT.finditer(text)),
        "spacy sentencizer": _sentencizer,
        "pysbd": _pysbd,
        "blingfire": _blingfire,
        "sentencex": _sentencex,
    }
    for name, make in makers.items():
        try:
            make("en")
        except ImportError:
            print(f"{name} is not installed: left out", file=sys.stderr)
        else:
            installed[name] = lambda language, make=make: by_paragraph(make(language))
    return installed


def _sentencizer(language: str) -> Cutter:
    import spacy

    try:
        nlp = spacy.blank(language)
    except ImportError:  # a language that it does not know
        nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    return lambda text: [sentence.start_char for sentence in nlp(text).sents]


def _pysbd(language: str) -> Cutter:
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    language = language if language in LANGUAGE_CODES else "en"
    segmenter = pysbd.Segmenter(language=language, clean=False)
    return lambda text: spans(text, segmenter.segment(text))


def _blingfire(language: str) -> Cutter:
    import blingfire

    def cut(text: str) -> list[int]:
        if not text.strip():
            return []
        # NUL ends the text for a library of C.
        text = text.replace("\0", " ")
        return [start for start, _ in blingfire.text_to_sentences_and_offsets(text)[1]]

    return cut


def _sentencex(language: str) -> Cutter:
    import sentencex

    return lambda text: spans(text, sentencex.segment(language, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="jsonl or conllu")
    parser.add_argument("--segmenter", default="sentences", help="a short name or a class")
    parser.add_argument("--parameters", type=json.loads, default={}, help="JSON, for a class")
    parser.add_argument("--peers", action="store_true", help="score other segmenters as well")
    parser.add_argument("--language", default="en", help="for the peers, where a file names none")
    parser.add_argument("--f1", action="store_true", help="print the F1 of each set alone")
    parser.add_argument("--set", action="append", help="score these sets only")
    options = parser.parse_args()
    try:
        makers = {options.segmenter: named(options.segmenter, options.parameters)}
        records = [{"language": options.language, **record} for record in documents(options.files)]
    except (OSError, ValueError, TypeError) as error:
        parser.error(str(error))
    if options.set:
        records = [record for record in records if record["set"] in options.set]
    if options.peers:
        makers |= peers()
    runs = 1 if options.f1 else 3
    scores = {name: score(records, maker, runs=runs) for name, maker in makers.items()}
    results: dict[str, Any] = f1_table(scores) if options.f1 else {**scores}
    results["environment"] = {
        "python": platform.python_version(),
        "sentences": Sentences.version,
        **{name: version(name) for name in _PEERS if options.peers and find_spec(name)},
    }
    treebanks = (path for path in options.files if path.suffix == ".conllu")
    results["treebanks"] = {path.name: commit(path) for path in treebanks}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
