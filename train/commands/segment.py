"""`bipe segment FILE...`: documents with their segments, in colours, as HTML, JSON or statistics.

Each document is cut as `segmenter: auto` does, unless a segmenter is named, and it is said by what
that was decided. Needs neither a model nor a configuration, and imports no torch, Hydra or spaCy.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from segmenters.base import Segmenter, SegmenterError
from segmenters.registry import SEGMENTERS
from segmenters.show import CutText, coloured, page, plain, statistics, visible
from segmenters.show.terminal import colours_of
from train.commands.segment_choice import Choice
from train.commands.segment_files import FileFault, TextFile, named, read
from train.commands.segment_tables import Row, summary, table
from train.errors import UserError

EXIT_FAULT = 2
_PIECE = 1 << 16


class _Parser(argparse.ArgumentParser):
    """Faults in one line, as of the other commands."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def main(words: list[str]) -> int:
    """Run the command on its arguments; returns the exit status."""
    try:
        status = _Run(_parser().parse_args(words)).run()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (OSError, ValueError) as fault:
        _say(str(fault))
        return EXIT_FAULT
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bipe segment", description="Show documents with their segments.")
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="text in UTF-8, a folder, or - (standard input)")
    add("--segmenter", metavar="NAME[:KEY=VALUE,...]", help=f"one of {', '.join(SEGMENTERS)}")
    add("--kind", metavar="KIND", help="what the documents are: prose, code, proof, markdown, ...")
    add("--language", metavar="NAME", help="the programming language of the documents")
    add("--tokenizer", metavar="PATH", help="tokenizer.json, or its folder, to count tokens by")
    add("--html", metavar="OUT", type=Path, help="write a page of HTML")
    add("--json", action="store_true", help="print cuts and statistics, one document a line")
    add("--stats", action="store_true", help="print lengths, a histogram and separators")
    add("--color", choices=("auto", "always", "never"), default="auto", help="of the terminal")
    return parser


class _Run:
    """One call of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.choice = Choice(
            segmenter=options.segmenter, kind=options.kind, language=options.language
        )
        self.count = _counter(options.tokenizer) if options.tokenizer else None
        self.colours = colours_of(os.environ, is_terminal=sys.stdout.isatty(), wish=options.color)
        self.pages: list[CutText] = []
        self.rows: list[Row] = []
        self.faults = self.skipped = 0

    def run(self) -> int:
        """Show all files; those that cannot be shown are faults, or skipped inside of folders."""
        inside = False
        for name, in_folder in named(self.options.files):
            inside = inside or in_folder
            try:
                self.one(read(name), in_folder)
            except (FileFault, SegmenterError) as fault:
                if in_folder:
                    self.skipped += 1
                else:
                    self.faults += 1
                    _say(str(fault))
        if self.options.html and self.pages:
            self.write_page(self.options.html)
        if inside or len(self.rows) > 1:
            self.finish()
        return EXIT_FAULT if self.faults or not self.rows else 0

    def one(self, file: TextFile, in_folder: bool) -> None:
        """Cut and show one document."""
        label, why, segmenter = self.choice.of(file.text, file.name)
        cut = CutText.by(segmenter, file.text, name=file.name, note=f"{label}, {why}")
        if self.count:
            cut = replace(cut, tokens=self.count(cut))
        self.rows.append(Row.of(cut, label=label))
        if file.replaced:
            _say(
                f"{file.name}: not UTF-8 at byte {file.first_bad}; "
                f"{file.replaced} characters are shown as U+FFFD"
            )
        if self.options.html:
            self.pages.append(cut)
        if self.options.json:
            self.print_json(cut, label, why, segmenter)
        elif self.options.stats:
            _write([table(cut, statistics(cut)), "\n"])
        elif not self.options.html and not in_folder:
            self.show(cut)

    def print_json(self, cut: CutText, label: str, why: str, segmenter: Segmenter) -> None:
        facts: dict[str, Any] = {
            "file": cut.name,
            "segmenter": label,
            "why": why,
            **statistics(cut),
            "fingerprint": segmenter.fingerprint(),
            "cuts": cut.cuts.tolist(),
            "level": cut.level,
            "outer": cut.outer.tolist(),
        }
        if cut.tokens is not None:
            facts["tokens_of_segments"] = cut.tokens.tolist()
        _write([json.dumps(facts), "\n"])

    def show(self, cut: CutText) -> None:
        """The text, below a line that says how it is cut; that line is none of the text."""
        size = f"{len(cut.cuts) - 1} segments" if cut.text else "empty, no segments"
        sys.stdout.flush()
        print(visible(f"{cut.name}: {cut.note}; {size}"), file=sys.stderr)
        _write(coloured(cut, self.colours) if self.colours else plain(cut))

    def write_page(self, out: Path) -> None:
        title = self.options.files[0] if len(self.options.files) == 1 else "segments"
        out.write_text(page(self.pages, title=title), encoding="utf-8", newline="")
        print(f"{out}: {len(self.pages)} documents", file=sys.stderr)

    def finish(self) -> None:
        """What there was, all in all."""
        if not self.options.json and self.rows:
            _write([summary(self.rows), "\n"])
        if self.skipped:
            print(f"bipe: segment: {self.skipped} files are no text", file=sys.stderr)


def _counter(path: str) -> Callable[[CutText], Any]:
    """What counts the tokens of each segment; ValueError for a tokenizer that cannot be read."""
    import tokenizers

    from segmenters.align import anchors_from_offsets
    from segmenters.show import tokens_of

    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise UserError(f"--tokenizer {path}: there is no {file}")
    try:
        fast = tokenizers.Tokenizer.from_file(str(file))
    except Exception as fault:  # the library raises nothing narrower
        raise UserError(f"--tokenizer {path}: not a fast tokenizer: {fault}") from None
    fast.no_truncation()
    fast.no_padding()

    def count(cut: CutText) -> Any:
        offsets = fast.encode(cut.text, add_special_tokens=False).offsets
        return tokens_of(cut.text, cut.cuts, anchors_from_offsets(cut.text, offsets))

    return count


def _write(pieces: Iterable[str]) -> None:
    """To the standard output in UTF-8, whatever the locale, in large pieces."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE:
            sys.stdout.buffer.write("".join(held).encode("utf-8", "replace"))
            held, size = [], 0
    sys.stdout.buffer.write("".join(held).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _say(fault: str) -> None:
    print(visible(f"bipe: segment: {fault}"), file=sys.stderr)
