"""`bipe segment FILE...`: show documents with their segments, in colour, as HTML, JSON or numbers.

A segmenter is named by its file in conf/segmenter, by its class in words, or as `yours.Pauses`, a
class of your own, with parameters after a colon: `stride:length=100`, `matched:of=lines`. Without
one it depends on the kind of each document, as in `bipe prepare segmenter=auto`. A file that cannot
be shown is a fault, and the next one is read. Imports no torch, Hydra or spaCy.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from bipe.build import reach
from segmenters import Auto, Levels, Lines, Segmenter, registry
from segmenters.align import anchors_from_offsets
from segmenters.base import Meta, SegmenterError, tallied
from segmenters.code.advice import LANGUAGE_UNKNOWN, NO_GRAMMAR, cure
from segmenters.documents.router import decide
from segmenters.fields import language_of_fields
from segmenters.show import CutText, page, shown, statistics
from segmenters.show.measures import (
    Tokens,
    rows_of_lengths,
    rows_of_rulings,
    rows_of_separators,
    summary,
)
from segmenters.wording import counted, escaped, plural
from train.data.reading.documents import Document
from train.data.reading.inputs import documents, files
from train.data.rows.named_segmenter import named_segmenter
from train.data.tokenizing.bounds import bounded, in_one_line
from train.disk.files import write_whole
from train.errors import EXIT_FAULT, DataError, UserError, as_config_error, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from train.words import Words

_BAR, _UNLIMITED = 40, 1000  # columns; the latter without a terminal
_KINDS = ("code", "proof", "prose", "text", *registry.ROUTES)


def main(words: Words) -> int:
    """Show the documents; return the exit status."""
    options, own = words.options, ("segmenter", "beside")
    try:
        for name in filter(None, map(options.get, own if "config-dir" in options else ())):
            reach(name.partition(".")[0], options["config-dir"])
        return _Run(words).run()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as fault:
        _warn(str(fault))
        return EXIT_FAULT


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The segmenter options of the command line, checked before any file is read."""

    segmenter: str | None = None
    kind: str | None = None
    language: str | None = None
    levels: str | None = None
    longest: str | None = None

    def __post_init__(self) -> None:
        if self.segmenter is not None:
            named_segmenter(self.segmenter)
        if self.kind is not None and self.kind not in _KINDS:
            raise UserError(f"--kind: there is no {self.kind!r}; {nearest(self.kind, _KINDS)}")
        if self.language and registry.route_of_language(self.language, is_code=True) is None:
            with as_config_error("--language: "):
                registry.language_named(self.language)

    def of(self, text: str, name: str, fields: Meta = None) -> tuple[str, str, Segmenter]:
        """Return the name of a text's segmenter, the reason, and the segmenter itself."""
        label, why, chosen = self._chosen(text, name, dict(fields or {}))
        if self.levels is None and self.longest is None:
            return label, why, chosen
        wish = self.levels or str(len(chosen.level_names))
        keep = min(int(wish), len(chosen.level_names)) if wish.isdigit() else wish.split(",")
        with as_config_error("--"):
            return label, why, Levels(of=chosen, keep=keep, longest=self.longest)

    @property
    def fields(self) -> list[str]:
        """Return the fields of rows that the segmenter reads, besides those that all do."""
        field = getattr(named_segmenter(self.segmenter), "field", None) if self.segmenter else None
        return [field] if field else []

    def _chosen(self, text: str, name: str, meta: dict[str, Any]) -> tuple[str, str, Segmenter]:
        meta |= {"language": self.language} if self.language else {}
        kind, path = self.kind, None if name == "-" else name
        if self.segmenter is not None:
            choice = named_segmenter(self.segmenter).choose(
                text=text, kind=kind, name=path, meta=meta
            )
            return self.segmenter, "as asked", choice
        if self.language:  # has priority over the name of the file
            kind, path = kind or "code", None
        decision = decide(text=text, kind=kind, name=path, meta=meta)
        label, why = decision.route, f"by {decision.by}" + (decision.said and f": {decision.said}")
        chosen = Auto(granularity="logical").of_route(label, name=path, meta=meta)
        if isinstance(chosen, Lines):
            is_named = chosen.language != "auto"
            language = chosen.language if is_named else registry.language_of_script(text)
            label = f"{label} ({language})" if language else label
        return label, why, chosen


class _Row(NamedTuple):
    name: str
    label: str
    note: str
    segments: int
    units: int
    unit: str  # tokens; without a tokenizer words, or characters for scripts without spaces


class _Run:
    def __init__(self, words: Words) -> None:
        self.files, self.options = list(words.places), words.options
        get = self.options.get
        self.choice = Choice(
            **{field.name: get(field.name) for field in dataclasses.fields(Choice)}
        )
        self.html = Path(self.options["html"]) if "html" in self.options else None
        beside, longest, tokenizer = get("beside"), get("longest"), get("tokenizer")
        if beside and not self.html:
            raise UserError(f"--beside {beside}: needs --html OUT")
        if self.html and not (folder := self.html.resolve().parent).is_dir():
            raise UserError(f"--html {self.html}: there is no folder {folder}; make it first")
        self.beside = dataclasses.replace(self.choice, segmenter=beside) if beside else None
        self.tokenize = _tokens(tokenizer) if tokenizer else None
        if longest is not None and "token" in longest and not self.tokenize:
            raise UserError(f"--longest {longest}: needs --tokenizer PATH, to count tokens")
        self.colours = colours_of(get("color") or "auto", is_terminal=sys.stdout.isatty())
        self.pages: list[CutText] = []
        self.rows: list[_Row] = []
        self.rules: Counter[str] = Counter()

    def run(self) -> int:
        """Show all files; one that cannot be shown is a fault, or is skipped inside a folder."""
        inside, faults = False, 0
        skipped: list[str] = []  # in folders, with the reason
        for name, in_folder in files(self.files):
            inside = inside or in_folder
            try:
                key, fields = self.options.get("text-key"), self.choice.fields
                for document in documents(name, text_key=key, fields=fields):
                    self.one(document, in_folder)
            except (UserError, SegmenterError) as fault:
                if in_folder:
                    skipped.append(str(fault))
                else:
                    faults += 1
                    _warn(str(fault))
        if self.html and self.pages:
            title = self.files[0] if len(self.files) == 1 else "segments"
            write_whole(self.html, page(self.pages, title))
            _note(f"{self.html}: {counted(len(self.pages), 'document')}")
        if (inside or len(self.rows) > 1) and self.rows and "json" not in self.options:
            _print(*_summary(self.rows))
        for rule, characters in self.rules.items():
            if (help := cure(rule)) is not None:
                help = help.replace("language=", "--language (text: prose)")
                _warn(f"{counted(characters, 'character')}: {rule}; {help}")
        if skipped:
            verb = "is" if len(skipped) == 1 else "are"
            _note(f"bipe: {counted(len(skipped), 'file')} {verb} not text, such as {skipped[0]}")
        return EXIT_FAULT if faults or not self.rows else 0

    def one(self, document: Document, in_folder: bool) -> None:
        text, name, options = document.text, document.id, self.options
        tokens = None if self.tokenize is None else self.tokenize(text)
        with tallied() as rules:
            label, why, segmenter, cut = _cut(self.choice, document, tokens, why="why" in options)
        beside = _cut(self.beside, document, tokens)[-1] if self.beside else None
        if (named := self._named(document)) and LANGUAGE_UNKNOWN in rules:
            rules[f"{NO_GRAMMAR}{named}"] = rules.pop(LANGUAGE_UNKNOWN)
        self.rules.update(rules)
        shares = [f"; {rules[rule] / len(text):.0%} {rule}" for rule in rules if cure(rule)]
        sizes = f"; levels: {cut.sizes}" if "levels" in options else ""
        cut = dataclasses.replace(cut, note="".join([cut.note, *shares, sizes]), beside=beside)
        count = len(cut.cuts) - 1
        self.rows.append(_Row(name, label, cut.note, count, cut.length, cut.units[0]))
        if self.html:
            self.pages.append(cut)
        if "json" in options:
            _write([json.dumps(_facts(cut, label, why, segmenter)), "\n"])
        elif "stats" in options:
            _print(*_tables(cut))
        elif "why" in options and not self.html:
            _print(escaped(f"{name}: {cut.note}"), _table(rows_of_rulings(cut)))
        elif not self.html and not in_folder:
            # Facts about the segmenter go to stderr: stdout holds only the text.
            sys.stdout.flush()
            size = counted(count, "segment") if text else "empty, no segments"
            _note(f"{name}: {cut.note}; {size}")
            _write(shown(cut, self.colours))

    def _named(self, document: Document) -> str:
        """Return how the language of a document of code is named, or ""."""
        field = language_of_fields(document.meta) or ""
        path = PurePath(document.id.lower())
        suffix = path.suffix if registry.route_of_file(path.name, path.suffix) == "code" else ""
        route = registry.route_of_language(field, is_code=True)
        return self.choice.language or (field if route else suffix)


def colours_of(wish: str, *, is_terminal: bool) -> int:
    """Return the number of colours, 256, 16 or 0, according to NO_COLOR, TERM and COLORTERM."""
    if wish == "never" or (wish == "auto" and not is_terminal):
        return 0
    from rich.console import Console

    console = Console(force_terminal=True)
    if wish == "auto" and (console.no_color or not console.color_system):
        return 0
    return 256 if console.color_system in ("256", "truecolor") else 16


def _cut(
    choice: Choice, document: Document, tokens: Tokens | None, *, why: bool = False
) -> tuple[str, str, Segmenter, CutText]:
    label, reason, segmenter = choice.of(document.text, document.id, document.meta)
    about = {"name": document.id, "note": f"{label}, {reason}"}
    cut = CutText.by(segmenter, document.text, tokens=tokens, why=why, **about)
    return label, reason, segmenter, cut


def _facts(cut: CutText, label: str, why: str, segmenter: Segmenter) -> dict[str, Any]:
    """Return what --json prints of a document."""
    level, outer = cut.above
    facts = {
        "file": cut.name, "segmenter": label, "why": why, **statistics(cut),
        "fingerprint": segmenter.fingerprint(), "cuts": cut.cuts.tolist(),
        "level": plural(level), "outer": outer.tolist(),
        "levels": {name: cuts.tolist() for name, cuts in cut.levels.items()},
    }  # fmt: skip
    if cut.token_counts is not None:
        facts["tokens_of_segments"] = cut.token_counts.tolist()
    if cut.rulings:
        facts["rulings"] = [*map(dataclasses.asdict, cut.rulings)]
    return facts


def _tokens(path: str) -> Callable[[str], Tokens]:
    """Return a function that gives the tokens of a text."""
    import tokenizers

    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise UserError(f"--tokenizer {path}: there is no {file}")
    try:
        fast = tokenizers.Tokenizer.from_file(str(file))
        bounded(fast)
    except DataError as fault:
        raise UserError(f"--tokenizer {path}: {fault}") from None
    except Exception as fault:  # the library raises nothing narrower
        raise UserError(f"--tokenizer {path}: not a fast tokenizer: {fault}") from None
    fast.no_truncation()
    fast.no_padding()

    def tokens_of(text: str) -> Tokens:
        with in_one_line():
            encoding = fast.encode(text, add_special_tokens=False)
        anchors = anchors_from_offsets(text, encoding.offsets)
        return Tokens(
            names=encoding.tokens, ids=encoding.ids, spans=encoding.offsets, anchors=anchors
        )

    return tokens_of


def _tables(cut: CutText) -> Iterator[Any]:
    from rich.bar import Bar

    facts, unit = statistics(cut), cut.units[0]
    yield escaped(f"{cut.name}: {summary(cut)}; {cut.note}")
    if not facts["segments"]:
        return
    yield _table(rows_of_lengths(facts, cut.units))
    if facts.get("segments_without_token"):
        yield f"segments without a token: {facts['segments_without_token']}"
    bars, histogram = _table([[unit, "segments", ""]]), facts[f"histogram_of_{unit}"]
    for name, count in histogram.items():
        bars.add_row(name, str(count), Bar(max(histogram.values()), 0, count, width=_BAR))
    yield bars
    yield _table(rows_of_separators(facts))


def _summary(rows: list[_Row]) -> Iterator[Any]:
    """Yield a table with a line per document, then one with a line per segmenter."""
    units = list(dict.fromkeys(row.unit for row in rows))
    one = len(units) == 1
    size = f"{units[0]}/segment" if one else "length/segment"

    def sizes(some: list[_Row]) -> tuple[str, str]:
        means = []
        for unit in units:
            of_unit = [row for row in some if row.unit == unit]
            if count := sum(row.segments for row in of_unit):
                mean = sum(row.units for row in of_unit) / count
                means.append(f"{mean:.1f}{'' if one else f' {unit}'}")
        return str(sum(row.segments for row in some)), ", ".join(means) or "-"

    lines = [[row.name, *sizes([row]), row.note] for row in rows]
    yield _table([["document", "segments", size, "by"], *lines])
    yield ""
    groups: dict[str, list[_Row]] = {}
    for row in sorted(rows, key=lambda row: row.label):
        groups.setdefault(row.label, []).append(row)
    groups |= {"all": rows} if len(groups) > 1 else {}
    body = [[label, str(len(group)), *sizes(group)] for label, group in groups.items()]
    yield _table([["all by", "documents", "segments", size], *body])


def _table(rows: list[list[str]]) -> Table:
    """Return a table whose first row is its head; texts are on the left, numbers on the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in rows[0]:
        is_text = name in (rows[0][0], "", "by")
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(escaped(cell)) for cell in row))
    return table


def _print(*parts: Any) -> None:
    """Print tables and lines, as wide as the terminal, or without a terminal as wide as needed."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _UNLIMITED
    console = Console(width=width, color_system=None, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    _write(line.rstrip() + "\n" for line in captured.get().splitlines())


def _write(pieces: Iterable[str]) -> None:
    """Write to the standard output in UTF-8, whatever the locale."""
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _warn(fault: str) -> None:
    _note(f"bipe: segment: {fault}")


def _note(line: str) -> None:
    print(escaped(line), file=sys.stderr)
