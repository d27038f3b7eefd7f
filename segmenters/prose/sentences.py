"""Sentences of prose as segments, by our causal rules or by spaCy.

By default the causal rules of `rules` are used; spaCy is imported only for its own backends.
Trailing white space stays with the sentence before, and a blank line is always a boundary. No model
is trained or downloaded.
"""

import logging
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar

from segmenters.base import (
    END_OF_TEXT,
    Cuts,
    Machine,
    Meta,
    Ruling,
    Segmenter,
    SegmenterError,
    in_pieces,
)
from segmenters.checks import require_choice, require_text, require_type
from segmenters.fields import language_of_fields
from segmenters.places import after_space
from segmenters.prose import rules
from segmenters.prose.endings import ahead
from segmenters.prose.endings.habits import remembered
from segmenters.prose.endings.language import ANY, code_of
from segmenters.prose.line_ends import KINDS, WRAPPED, LineEnds, sections
from segmenters.prose.quotes import MOST, QUOTE, Quotes
from segmenters.prose.signs import (
    CLOSERS,
    DIVIDERS,
    EMOJI,
    GERMAN_CLOSERS,
    PLAIN,
    SPACED_ANGLES,
    SPACED_CLOSERS,
    STRONG,
    usual,
    with_line_ends,
)

_LOG = logging.getLogger(__name__)

# No rule looks further back than this, in characters, from where a scan resumes: the words of a
# language, and a word.
_CONTEXT = 576
# The text is shortened when it is longer than this.
_LONGEST = 7 * _CONTEXT

_RUN, _DIVIDER = re.escape(PLAIN + STRONG + CLOSERS), re.escape(DIVIDERS)
_OTHERS = "".join(sorted({*SPACED_CLOSERS} - {*SPACED_ANGLES}))
# Where a scan may resume. Each look-behind is text that no candidate can extend any further.
_RESUME = re.compile(
    rf"[^{_RUN}{GERMAN_CLOSERS}{EMOJI}{_DIVIDER}\s\d\[]"
    # After white space a candidate continues only with quotes, notes and emoji, with a single space
    # before a quote or note.
    rf"|(?<=\s)[^\s'{SPACED_CLOSERS}\[{EMOJI}]"
    rf"|(?<=\s\s)['{SPACED_CLOSERS}\[]|(?<=[^\S \u00a0\u202f])['{SPACED_CLOSERS}\[]"
    rf"|(?<=[^\S \u00a0])[{EMOJI}]"
    # One quote, doubled or not, and up to two angles.
    rf"|(?<=\s')[^\s'\[{EMOJI}]|(?<=\s'')[^\s\[{EMOJI}]|(?<=\s[{SPACED_CLOSERS}])[^\s\[{EMOJI}]"
    rf"|(?<=\s''\s)['{_OTHERS}]|(?<=\s['{SPACED_CLOSERS}]\s)['{_OTHERS}]"
    rf"|(?<=\s[{SPACED_ANGLES}]\s[{SPACED_ANGLES}]\s[{SPACED_ANGLES}]\s)[{SPACED_ANGLES}]"
    # A note is up to three digits in brackets, or right behind a run; emoji come last; dividers mix
    # with nothing.
    rf"|(?<![\[\d{_RUN}])\d|(?<=\d\d\d)\d|\[(?=\D)|(?<=[{EMOJI}])[^\s{EMOJI}]"
    rf"|(?<=[{_DIVIDER}])(?<!_)[^\s{_DIVIDER}]|(?!_)(?<![{_DIVIDER}])[{_DIVIDER}]"
)
# Where a sentence may start. Signs that can only continue one after a single blank are left out, as
# is what extends a run of terminators, emoji or notes. (Some emoji are capital letters.)
_GOES_ON = rf"\[{EMOJI}{re.escape(PLAIN + STRONG)}"
_CAPITALS = "\U0001f100-\U0001f189"
_QUOTED_RUN = _RUN + GERMAN_CLOSERS
_CONCEIVABLE = re.compile(
    rf"(?<=\s)[^\s{_GOES_ON}]|(?<=[^\S \u00a0])[{_GOES_ON}]|(?<=\s\s)[{_GOES_ON}]"
    rf"|(?<=\s)[{_CAPITALS}]"
    rf"|(?<=[{_QUOTED_RUN}{EMOJI}])[^\s\[{_QUOTED_RUN}{EMOJI}]|(?<=[{EMOJI}])[{_QUOTED_RUN}]"
    rf"|(?<![{_QUOTED_RUN}]{{{MOST}}})(?<=[{_QUOTED_RUN}])[{_QUOTED_RUN}]"
)
_WEAK_RUN = re.escape("".join(sorted({*PLAIN, *CLOSERS, *GERMAN_CLOSERS} - {"\u201d"})))
_ONE_KIND = re.compile(rf"\s++|[{_RUN}]++|[{_WEAK_RUN}]++|[{EMOJI}]++|[{_DIVIDER}]++")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences(Segmenter):
    """Ends a segment where a sentence ends.

    `backend`: "rules" (the causal rules), "spacy" (the same rules as a spaCy component, slower),
    "thai" (the rules, with PyThaiNLP for the spaces of Thai), "sentencizer", "senter" or "parser"
    (spaCy's own, not causal; the last two need the small model of `language`), or the name or path
    of an installed spaCy model. Models process one paragraph at a time, very long ones in pieces.
    `language`: a code ("en"; "xx" for any). The rules then know its abbreviations from the start;
    else those that are words in other languages count once the text shows its language. `choose`
    takes it from a document's field `language`. `next_word`:
    the rules also read the next word where the next character is ambiguous (after "U.S.", at "2)"
    inside a line): more accurate, but not available during generation. `fallback`: use the rules
    if the library or model is not installed; a warning is logged, and the fingerprint differs.
    `line_ends`: how the rules treat a single line end: "wrapped" (white space), "paragraph" (the
    end of a sentence and a paragraph) or "auto" (by the lengths of the previous lines). Raises
    SegmenterError in `cut` if the library or model is not installed, or finds no sentences.
    """

    backend: str = "rules"
    language: str = "xx"
    next_word: bool = False
    fallback: bool = False
    line_ends: str = WRAPPED
    version: ClassVar[int] = 16
    level_names = ("sentence", "paragraph", "section")

    def __post_init__(self) -> None:
        for name in ("next_word", "fallback"):
            require_type(name, getattr(self, name), bool)
        require_choice("line_ends", self.line_ends, KINDS)
        for name in ("backend", "language"):
            require_type(name, getattr(self, name), str)
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        for name, plain in (("line_ends", WRAPPED), ("next_word", False)):
            if (value := getattr(self, name)) != plain and not self._has_rules:
                raise ValueError(
                    f"{name} must be {str(plain).lower()} unless backend is rules, spacy or thai, "
                    f"was: {value!r} with backend={self.backend!r}"
                )

    @property
    def lookahead(self) -> int | None:
        if not self._is_causal:
            return None
        return ahead.REACH if self.next_word else 1

    @property
    def _is_causal(self) -> bool:
        return self.backend in ("rules", "spacy")

    @property
    def _has_rules(self) -> bool:
        return self._is_causal or self.backend == "thai"

    @property
    def _without_library(self) -> bool:
        """Return whether the rules cut alone. Raises SegmenterError for what is missing."""
        if self.backend == "rules":
            return True
        missing = _missing(self.backend, self.language)
        if missing is None:
            return False
        if not self.fallback:
            raise SegmenterError(f"{missing}, or set fallback=true to use the rules instead")
        _warn_once(missing)
        return True

    def versions(self) -> dict[str, str]:
        """Return the digest of our tables, or the versions of spaCy and of the model."""
        numbers = {"tables": rules.tables()}
        if self._is_causal or self._without_library:
            return numbers
        library = _library(self.backend)
        if self.backend == "thai":
            return numbers | library.versions()
        return dict(library.versions(self.backend, self.language))

    def _ends(self, text: str) -> Iterable[int]:
        if self.backend == "thai" or self._without_library:
            return [] if not self.next_word and rules.is_one(text) else self._rule_ends(text)
        library = _library(self.backend)
        if self.backend == "spacy":
            ends = library.rule_ends(text, next_word=self.next_word, language=self.language)
            return ends if self.line_ends == WRAPPED else [*ends, *in_pieces(self._lines(), text)]
        starts = library.sentence_starts(text, backend=self.backend, language=self.language)
        # spaCy's own back ends may start a sentence with the white space in front of it.
        first, *ends = after_space(text, [0, *starts.tolist()])
        return [end for end in ends if end > first]

    def _rule_ends(self, text: str, log: list[Ruling] | None = None) -> list[int]:
        """Return the ends that the rules find; `log` gets what decided (`rules.sentence_ends`)."""
        thai = None
        if self.backend == "thai" and not self._without_library:
            thai = _library(self.backend).sentence_starts
        lines = [] if self.line_ends == WRAPPED else array("q", in_pieces(self._lines(), text))
        return rules.sentence_ends(
            text,
            next_word=self.next_word,
            language=self.language,
            starts=lines,
            thai=thai,
            log=log,
        )

    def why(self, text: str) -> list[Ruling]:
        if not (self._has_rules or self._without_library):
            return super(Sentences, self).why(text)
        require_text(text)
        log: list[Ruling] = []
        self._rule_ends(text, log)
        # Where a rule and something else decide, what ends the sentence counts.
        by_place = {ruling.place: ruling for ruling in sorted(log, key=lambda r: (r.place, r.ends))}
        if text:
            by_place[len(text)] = Ruling(len(text), True, END_OF_TEXT)
        return [by_place[place] for place in sorted(by_place)]

    def machine(self) -> Machine:
        if not self._is_causal:
            raise self.refusal("this backend needs the whole text: set backend=rules")
        if self.next_word:
            raise self.refusal("it needs the next word: set next_word=false")
        lines = None if self.line_ends == WRAPPED else self._lines()
        return SentenceMachine(lines=lines, language=self.language)

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        """Return the segmenter of one document, with the language that its fields name."""
        code = code_of(language_of_fields(meta)) if meta else ANY
        if ANY in (code, self.language) and code != self.language and self._has_rules:
            return replace(self, language=code) if code != ANY else self
        return self

    def _lines(self, *, blank: bool = False) -> LineEnds:
        return LineEnds(line_ends=self.line_ends, blank=blank)

    def _levels(self, text: str) -> Sequence[Iterable[int] | Cuts]:
        paragraphs = array("q", in_pieces(self._lines(blank=True), text))
        first = len(text) - len(text.lstrip())
        return (
            self._ends(text),
            paragraphs,
            [*sections(with_line_ends(text), chain([first], paragraphs))],
        )

    def _coarser_machine(self, level: int) -> Machine:
        if level == 1:
            return self._lines(blank=True)
        return super(Sentences, self)._coarser_machine(level)


def _library(backend: str) -> Any:
    """Return our file that imports the library of a back end."""
    home = {"thai": "thai", "spacy": "spacy_pipeline"}.get(backend, "spacy_models")
    return import_module(f"{__package__}.{home}")


@lru_cache(maxsize=32)
def _missing(backend: str, language: str) -> str | None:
    """Return what the back end lacks and how to install it; None if nothing is missing."""
    wrong = f"backend {backend!r} of Sentences:"
    name = "PyThaiNLP" if backend == "thai" else "spaCy"
    try:
        library = _library(backend)
    except ImportError as error:
        return f"{wrong} {name} is not installed ({error}): pip install {name.lower()}"
    if backend not in ("thai", "spacy"):
        try:
            library.build(backend, language)
        except ModuleNotFoundError as error:
            return f"{wrong} {error}"
    return None


@lru_cache(maxsize=32)
def _warn_once(wrong: str) -> None:
    _LOG.warning("%s; the rules are used instead", wrong)


@dataclass(slots=True, kw_only=True)
class SentenceMachine(Machine):
    """Follows the causal sentence rules through a text that is still being written.

    A push costs the same however long the text, the sentence or the run of signs is. The rules scan
    again from a place to resume at, across which no candidate reaches: a candidate is a run of
    terminators and closers, then a spaced quote, notes, emoji and white space, in this order, so a
    letter is such a place, and nearly everything else. They scan only where an end is conceivable:
    at a visible character after white space, a terminator, a closer or an emoji. A few thousand
    characters of the text are kept; a longer run of white space, terminators or emoji is shortened
    in the middle, where the rules do not look. (Endless numbered notes and spaced emoji are kept
    whole.)
    """

    text: str = ""  # the end of the text, possibly shortened
    last: int | None = None  # where its sentence starts; None: nothing visible yet
    resume: int = 0  # where to resume in it
    signs: str = ""  # how the last sentences begin (`habits`)
    quoted: tuple[tuple[str, int], ...] = ()  # what is open there, and where in `text` it opened
    lines: LineEnds | None = None
    language: str = ANY

    def _read(self, text: str) -> list[int]:
        size = len(self.text)
        moved = self.size - size
        starts = [start - moved for start in self.lines.push(text)] if self.lines else []
        # A return counts when it is known whether "\n" follows.
        returned = self.text.endswith("\r")
        self.text = self.text.removesuffix("\r") + usual(with_line_ends("\r" * returned + text))
        ends: list[int] = []
        if self.last is None:
            start = len(self.text) - len(self.text.lstrip())
            if start < len(self.text):
                self.last = start
        if self.last is not None and (starts or _CONCEIVABLE.search(self.text, size)):
            ends = rules.sentence_ends(
                self.text,
                language=self.language,
                position=self.resume,
                last=self.last,
                signs=self.signs,
                starts=starts,
                quoted=self.quoted,
            )
            for end in ends:
                self.signs = remembered(self.signs, self.text, self.last, end)
                self.last = end
        # One back: whether a bracket is a place to resume depends on the character after it.
        before, self.resume = self.resume, self._last_resume(max(0, size - 1))
        if QUOTE.search(self.text, before, self.resume):
            quotes = Quotes(self.text, before, self.quoted)
            quotes.read(self.resume)
            self.quoted = tuple(quotes.open)
        if len(self.text) > _LONGEST:
            self._shorten()
        return [moved + end for end in ends]

    def _last_resume(self, first: int) -> int:
        """Return the last place to resume at from `first` on, searched from the end."""
        start, reach = len(self.text), 8
        last = self.text[-1]
        if last.isalpha() and last.isascii():
            return start - 1
        while start > first:
            start, reach = max(first, start - reach), 2 * reach
            if places := [match.start() for match in _RESUME.finditer(self.text, start)]:
                return places[-1]
        return self.resume

    def _shorten(self) -> None:
        drop = max(0, self.resume - _CONTEXT)
        text = self.text[drop:]
        self.resume -= drop
        if self.last is not None:
            self.last = max(0, self.last - drop)
        self.quoted = tuple((sign, place - drop) for sign, place in self.quoted)
        last = self.last or 0
        run = len(text) - 6 * _CONTEXT
        if run > max(self.resume, last) and _ONE_KIND.fullmatch(text, run):
            # The rules ask which signs a run holds, and whether there is a second line end.
            middle = text[run + _CONTEXT : -_CONTEXT]
            kept = "".join(char * min(middle.count(char), 2) for char in dict.fromkeys(middle))
            text = text[: run + _CONTEXT] + kept + text[-_CONTEXT:]
        self.text = text
