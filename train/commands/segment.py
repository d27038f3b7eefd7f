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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from bipe.build import reach
from segmenters import Auto, Levels, Lines, Segmenter, registry
from segmenters.align import anchors_from_offsets
from segmenters.base import Meta, SegmenterError, tallied
from segmenters.code.parsed import LANGUAGE_UNKNOWN, NO_GRAMMAR, cure
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
from train.data.reading.named import documents, files
from train.data.rows.source_segmenter import built
from train.data.tokenizing.bounds import in_one_line, require_bounded
from train.disk.files import write_whole
from train.errors import EXIT_FAULT, DataError, UserError, as_config_error, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from train.words import Words

_BAR, _UNLIMITED = 40, 1000  # columns; the latter without a terminal
_KINDS = ("code", "proof", "prose", "text", *registry.ROUTES)


def main(words: Words) -> int:
    """Show the documents; return the exit status."""
    try:
        options, folder = Options.of(words), words.options.get("config-dir")
        for name in filter(None, (options.segmenter, options.beside) if folder else ()):
            reach(name.partition(".")[0], str(folder))
        return _Run(options).run()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as fault:
        _warn(str(fault))
        return EXIT_FAULT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for; launch/commands.py explains each option."""

    files: Sequence[str]
    text_key: str | None = None
    segmenter: str | None = None
    config_dir: str | None = None
    beside: str | None = None
    kind: str | None = None
    language: str | None = None
    levels: str | None = None
    longest: str | None = None
    tokenizer: str | None = None
    html: Path | None = None
    color: str = "auto"
    json: bool = False
    why: bool = False
    stats: bool = False

    @classmethod
    def of(cls, words: Words) -> Options:
        """Return the options that were typed."""
        options: dict[str, Any] = {
            name.replace("-", "_"): value or True for name, value in words.options.items()
        }
        if "html" in options:
            options["html"] = Path(options["html"])
        return cls(files=words.places, **options)


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
            built(self.segmenter)
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
    def bound_in_tokens(self) -> bool:
        return self.longest is not None and "token" in self.longest

    @property
    def fields(self) -> list[str]:
        """Return the fields of rows that the segmenter reads, besides those that all do."""
        field = getattr(built(self.segmenter), "field", None) if self.segmenter else None
        return [field] if field else []

    def _chosen(self, text: str, name: str, meta: dict[str, Any]) -> tuple[str, str, Segmenter]:
        meta |= {"language": self.language} if self.language else {}
        kind, path = self.kind, None if name == "-" else name
        if self.segmenter is not None:
            choice = built(self.segmenter).choose(text=text, kind=kind, name=path, meta=meta)
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
    def __init__(self, options: Options) -> None:
        self.options = options
        self.choice = Choice(
            options.segmenter, options.kind, options.language, options.levels, options.longest
        )
        if options.beside and not options.html:
            raise UserError(f"--beside {options.beside}: needs --html OUT")
        if options.html and not (folder := options.html.resolve().parent).is_dir():
            raise UserError(f"--html {options.html}: there is no folder {folder}; make it first")
        self.beside = options.beside and dataclasses.replace(self.choice, segmenter=options.beside)
        self.tokenize = _tokens(options.tokenizer) if options.tokenizer else None
        if self.choice.bound_in_tokens and not self.tokenize:
            raise UserError(f"--longest {options.longest}: needs --tokenizer PATH, to count tokens")
        self.colours = colours_of(options.color, is_terminal=sys.stdout.isatty())
        self.pages: list[CutText] = []
        self.rows: list[_Row] = []
        self.rules: Counter[str] = Counter()

    def run(self) -> int:
        """Show all files; one that cannot be shown is a fault, or is skipped inside a folder."""
        options = self.options
        inside, faults = False, 0
        skipped: list[str] = []  # in folders, with the reason
        for name, in_folder in files(list(options.files)):
            inside = inside or in_folder
            try:
                fields = self.choice.fields
                for document in documents(name, text_key=options.text_key, fields=fields):
                    self.one(document, in_folder)
            except (UserError, SegmenterError) as fault:
                if in_folder:
                    skipped.append(str(fault))
                else:
                    faults += 1
                    _warn(str(fault))
        if options.html and self.pages:
            written = page(self.pages, options.files[0] if len(options.files) == 1 else "segments")
            write_whole(options.html, written)
            number = counted(len(self.pages), "document")
            print(escaped(f"{options.html}: {number}"), file=sys.stderr)
        if (inside or len(self.rows) > 1) and self.rows and not options.json:
            _print(*_summary(self.rows))
        for rule in self.rules:
            if (help := cure(rule)) is not None:
                help = help.replace("language=", "--language (text: prose)")
                _warn(f"{counted(self.rules[rule], 'character')}: {rule}; {help}")
        if skipped:
            verb = "is" if len(skipped) == 1 else "are"
            number = counted(len(skipped), "file")
            print(escaped(f"bipe: {number} {verb} not text, such as {skipped[0]}"), file=sys.stderr)
        return EXIT_FAULT if faults or not self.rows else 0

    def one(self, document: Document, in_folder: bool) -> None:
        text, name = document.text, document.id
        tokens = None if self.tokenize is None else self.tokenize(text)
        with tallied() as rules:
            label, why, segmenter, cut = _cut(self.choice, document, tokens, why=self.options.why)
        if self.beside:
            cut = dataclasses.replace(cut, beside=_cut(self.beside, document, tokens)[-1])
        if (named := self._named(document)) and LANGUAGE_UNKNOWN in rules:
            rules[f"{NO_GRAMMAR}{named}"] = rules.pop(LANGUAGE_UNKNOWN)
        self.rules.update(rules)
        shares = [f"; {rules[rule] / len(text):.0%} {rule}" for rule in rules if cure(rule)]
        sizes = f"; levels: {cut.sizes}" if self.options.levels else ""
        cut = dataclasses.replace(cut, note="".join([cut.note, *shares, sizes]))
        count = len(cut.cuts) - 1
        self.rows.append(_Row(name, label, cut.note, count, cut.length, cut.units[0]))
        if self.options.html:
            self.pages.append(cut)
        if self.options.json:
            level, outer = cut.above
            facts = {
                "file": name, "segmenter": label, "why": why, **statistics(cut),
                "fingerprint": segmenter.fingerprint(), "cuts": cut.cuts.tolist(),
                "level": plural(level), "outer": outer.tolist(),
                "levels": {name: cuts.tolist() for name, cuts in cut.levels.items()},
            }  # fmt: skip
            if cut.token_counts is not None:
                facts["tokens_of_segments"] = cut.token_counts.tolist()
            if cut.rulings:
                facts["rulings"] = [*map(dataclasses.asdict, cut.rulings)]
            _write([json.dumps(facts), "\n"])
        elif self.options.stats:
            _print(*_tables(cut))
        elif self.options.why and not self.options.html:
            _print(escaped(f"{name}: {cut.note}"), _table(rows_of_rulings(cut)))
        elif not self.options.html and not in_folder:
            # Facts about the segmenter go to stderr: stdout holds only the text.
            size = counted(count, "segment") if cut.text else "empty, no segments"
            sys.stdout.flush()
            print(escaped(f"{name}: {cut.note}; {size}"), file=sys.stderr)
            _write(shown(cut, self.colours))

    def _named(self, document: Document) -> str:
        """Return how the language of a document of code is named, or ""."""
        field = language_of_fields(document.meta) or ""
        path = PurePath(document.id.lower())
        suffix = path.suffix if registry.route_of_file(path) == "code" else ""
        route = registry.route_of_language(field, is_code=True)
        return self.options.language or (field if route else suffix)


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


def _tokens(path: str) -> Callable[[str], Tokens]:
    """Return a function that gives the tokens of a text."""
    import tokenizers

    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise UserError(f"--tokenizer {path}: there is no {file}")
    try:
        fast = tokenizers.Tokenizer.from_file(str(file))
        require_bounded(json.loads(fast.to_str()))
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

    facts = statistics(cut)
    yield escaped(f"{cut.name}: {summary(cut)}; {cut.note}")
    if not facts["segments"]:
        return
    yield _table(rows_of_lengths(facts, cut.units))
    if facts.get("segments_without_token"):
        yield f"segments without a token: {facts['segments_without_token']}"
    bars = _table([[cut.units[0], "segments", ""]])
    histogram = facts[f"histogram_of_{cut.units[0]}"]
    for name, count in histogram.items():
        bars.add_row(name, str(count), Bar(max(histogram.values()), 0, count, width=_BAR))
    yield bars
    yield _table(rows_of_separators(facts))


def _summary(rows: list[_Row]) -> Iterator[Any]:
    """Yield a table with a line per document, then one with a line per segmenter."""
    units = list(dict.fromkeys(row.unit for row in rows))
    size = f"{units[0]}/segment" if len(units) == 1 else "length/segment"

    def sizes(some: list[_Row]) -> tuple[str, str]:
        means = []
        for unit in units:
            rows = [row for row in some if row.unit == unit]
            if count := sum(row.segments for row in rows):
                mean = f"{sum(row.units for row in rows) / count:.1f}"
                means.append(mean if len(units) == 1 else f"{mean} {unit}")
        return str(sum(row.segments for row in some)), ", ".join(means) or "-"

    lines = [[row.name, *sizes([row]), row.note] for row in rows]
    yield _table([["document", "segments", size, "by"], *lines])
    yield ""
    labels = sorted({row.label for row in rows})
    groups = [(label, [row for row in rows if row.label == label]) for label in labels]
    groups += [("all", rows)] if len(groups) > 1 else []
    body = [[label, str(len(group)), *sizes(group)] for label, group in groups]
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
    print(escaped(f"bipe: segment: {fault}"), file=sys.stderr)
