"""`bipe segment FILE`: a document with its segments, in colours, as HTML, JSON or statistics.

The kind of the document is guessed from the file's name alone, unless a segmenter is named. Needs
neither a model nor a configuration, and imports no torch, Hydra or spaCy: sentences are cut by the
rules alone, which are those that spaCy runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import segmenters
from segmenters import Lines, Segmenter, Sentences
from segmenters.code.languages import language_of
from segmenters.show import coloured, page, printable, segments_of, statistics
from train.nearest import nearest

NAMES: dict[str, Callable[[], Segmenter]] = {
    "sentences": lambda: Sentences(backend="rules"),
    "next_word": lambda: Sentences(backend="rules", next_word=True),
    "spacy": lambda: Sentences(backend="spacy"),
    "lines": lambda: Lines(),
    "logical": lambda: Lines(granularity="logical", fallback=True),
    "newline": segmenters.Newline,
    "official": segmenters.Official,
    "arithmetic": segmenters.ArithmeticSteps,
    "chain_of_thought": segmenters.ChainOfThought,
    "latex": segmenters.LaTeXProofs,
    "lean": segmenters.Lean,
    "coq": segmenters.Coq,
    "isabelle": segmenters.Isabelle,
    "metamath": segmenters.Metamath,
    "mizar": segmenters.Mizar,
}
_BY_SUFFIX = {
    ".v": "coq",
    ".lean": "lean",
    ".thy": "isabelle",
    ".tex": "latex",
    ".mm": "metamath",
    ".miz": "mizar",
}
_BAR = 40


class _Parser(argparse.ArgumentParser):
    """Faults in one line, as of the other commands."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(words: list[str]) -> int:
    """Run the command on its arguments; returns the exit status."""
    try:
        options = _parser().parse_args(words)
        _show(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        print(f"bipe: segment: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bipe segment", description="Show a document with its segments.")
    parser.add_argument("file", metavar="FILE", help="text in UTF-8; - reads the standard input")
    parser.add_argument("--segmenter", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--html", metavar="OUT", type=Path, help="write a page of HTML")
    parser.add_argument("--json", action="store_true", help="print cuts and statistics")
    parser.add_argument("--stats", action="store_true", help="print lengths and separators")
    return parser


def _show(options: argparse.Namespace) -> None:
    text = read(options.file)
    name, segmenter = choose(options.file, options.segmenter)
    cuts = segmenter.cut(text)
    segments = segments_of(text, cuts)
    facts: dict[str, Any] = {"file": options.file, "segmenter": name, **statistics(segments)}
    if options.html:
        summary = f"{name}: {len(segments)} segments, {len(text)} characters"
        made = page(segments, title=options.file, summary=summary)
        options.html.write_text(made, encoding="utf-8", newline="")
        print(f"{options.html}: {summary}", file=sys.stderr)
    if options.json:
        fingerprint = segmenter.fingerprint()
        print(json.dumps(facts | {"fingerprint": fingerprint, "cuts": cuts.tolist()}))
    elif options.stats:
        print(table(facts))
    elif not options.html:
        _print(segments)


def read(name: str) -> str:
    """The text of a file, or of the standard input; broken UTF-8 is replaced, with a warning."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        print(
            f"bipe: segment: {name} is not UTF-8 at byte {error.start} ({error.reason}): "
            "such bytes are shown as U+FFFD",
            file=sys.stderr,
        )
        return data.decode("utf-8", "replace")


def choose(file: str, name: str | None) -> tuple[str, Segmenter]:
    """The segmenter of this name, or the one for files of this name.

    Raises ValueError, with the nearest name, for one that does not exist.
    """
    language = language_of(file)
    if name is None:
        name = _BY_SUFFIX.get(Path(file).suffix.lower(), "logical" if language else "sentences")
    if name not in NAMES:
        raise ValueError(f"--segmenter: there is no {name!r}; {nearest(name, NAMES)}")
    segmenter = NAMES[name]()
    if isinstance(segmenter, Lines):
        segmenter = segmenter.for_document(path=file)
        name = f"{name} ({language})" if language else name
    return name, segmenter


def table(facts: dict[str, Any]) -> str:
    """The statistics for reading."""
    lines = [f"{facts['file']}: {facts['segments']} segments by {facts['segmenter']}"]
    for unit in ("characters", "words"):
        lengths = "  ".join(f"{key} {value:g}" for key, value in facts[unit].items())
        lines.append(f"{unit} a segment: {lengths}")
    lines.append(
        f"segments of one character {facts['share_of_one_character']:.1%}, "
        f"of at most one word {facts['share_of_one_word']:.1%}"
    )
    lines.append("words    segments")
    most = max(1, *facts["histogram_of_words"].values())
    for words, count in facts["histogram_of_words"].items():
        lines.append(f"{words:>7}  {count:>8} {'#' * round(_BAR * count / most)}".rstrip())
    ends = "  ".join(f"{name!r} {share:.1%}" for name, share in facts["separators"].items())
    lines.append(f"ends with: {ends}")
    return "\n".join(map(printable, lines))


def _print(segments: list[str]) -> None:
    """To a terminal in colours; elsewhere with a bar between the segments."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal and console.color_system:
        console.print(coloured(segments), soft_wrap=True)
    else:
        shown = "|".join(map(printable, segments))
        sys.stdout.buffer.write((shown + "\n").encode())
