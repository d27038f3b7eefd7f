"""Sentences of prose as segments.

By default a spaCy pipeline with one component, the causal rules of `rules`; the same rules without
spaCy (identical cuts, faster); or spaCy's own sentencizer, senter or parser, which read ahead.
Trailing white space stays with the sentence before, and a blank line is always a boundary. Nothing
here trains or downloads a model.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from segmenters.base import Machine, Segmenter, SegmenterError, require_type
from segmenters.places import after_space
from segmenters.prose import rules
from segmenters.prose.tables import CLOSERS, DIVIDERS, EMOJI, PLAIN, STRONG

_LOG = logging.getLogger(__name__)

# No rule looks further back than this, in characters, from where a scan resumes.
_CONTEXT = 512
# The text is shortened when it is longer than this.
_LONGEST = 8 * _CONTEXT

_RUN, _DIVIDER = re.escape(PLAIN + STRONG + CLOSERS), re.escape(DIVIDERS)
# Where a scan may resume. Each look-behind is what a candidate can take no more of.
_RESUME = re.compile(
    rf"[^{_RUN}{EMOJI}{_DIVIDER}\s\u201c\d\[]"
    # Behind white space a candidate goes on with quotes, notes and emoji alone, and its white
    # space before a quote or note is a single one.
    rf"|(?<=\s)[^\s'\u00bb\[{EMOJI}]"
    r"|(?<=\s\s)['\u00bb\[]|(?<=[^\S \u00a0\u202f])['\u00bb\[]"
    rf"|(?<=[^\S \u00a0])[{EMOJI}]"
    # One doubled or angled quote at most, and no single one.
    rf"|(?<=\s')[^\s']|(?<=\s'')[^\s\[{EMOJI}]|(?<=\s\u00bb)[^\s\[{EMOJI}]"
    r"|(?<=\s''\s)['\u00bb]|(?<=\s['\u00bb]\s)['\u00bb]"
    # A note is a bracket and up to three digits; emoji come last; dividers mix with nothing.
    rf"|(?<![\[\d])\d|(?<=\d\d\d)\d|\[(?=\D)|(?<=[{EMOJI}])[^\s{EMOJI}]"
    rf"|(?<=[{_DIVIDER}])(?<!_)[^\s{_DIVIDER}]|(?!_)(?<![{_DIVIDER}])[{_DIVIDER}]"
)
# Where a sentence may start. What is behind a single blank and can only go on is left out, and
# what prolongs a run of terminators, of emoji or of notes. (Some emoji are capital letters.)
_GOES_ON = rf"\[{EMOJI}{re.escape(PLAIN + STRONG)}"
_CAPITALS = "\U0001f100-\U0001f189"
# The low quotes that `_LATE` of the rules adds to a run, unless a strong terminator is before it.
_QUOTED_RUN = rf"{_RUN}\u201c"
_CONCEIVABLE = re.compile(
    rf"(?<=\s)[^\s{_GOES_ON}]|(?<=[^\S \u00a0])[{_GOES_ON}]|(?<=\s\s)[{_GOES_ON}]"
    rf"|(?<=\s)[{_CAPITALS}]"
    rf"|(?<=[{_QUOTED_RUN}{EMOJI}])[^\s\[{_QUOTED_RUN}{EMOJI}]|(?<=[{EMOJI}])[{_QUOTED_RUN}]"
    rf"|(?<![{_QUOTED_RUN}]{{3}})(?<=[{_QUOTED_RUN}])[{_QUOTED_RUN}]"
    rf"|(?<=[{re.escape(STRONG)}\u201d])\u201c"
)
_WEAK_RUN = re.escape("".join(sorted({*PLAIN, *CLOSERS, "\u201c"} - {"\u201d"})))
_ONE_KIND = re.compile(rf"\s++|[{_RUN}]++|[{_WEAK_RUN}]++|[{EMOJI}]++|[{_DIVIDER}]++")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences(Segmenter):
    """Ends a segment where a sentence ends.

    `backend`: "spacy" (the causal rules as a spaCy component), "rules" (the same cuts without
    spaCy), "sentencizer", "senter" or "parser" (spaCy's own; the last two need the small model of
    `language`), or the name or path of an installed spaCy model. `language` is a code of spaCy
    ("en"; "xx" for any) and is read by spaCy's own back ends alone. A model reads paragraph by
    paragraph, and a paragraph beyond its size in pieces.

    `next_word` lets the rules read the next word where the next character leaves a doubt (after
    "U.S.", at "2)" inside of a line): more exact, for text that is there as a whole.

    `fallback` lets the rules cut, without spaCy, where spaCy or the model is not installed; a
    warning is logged, and the fingerprint differs.

    Raises SegmenterError, when it cuts, if spaCy or the model is not installed or the model does
    not find sentences.
    """

    backend: str = "spacy"
    language: str = "xx"
    next_word: bool = False
    fallback: bool = False
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        require_type("backend", self.backend, str)
        require_type("language", self.language, str)
        require_type("next_word", self.next_word, bool)
        require_type("fallback", self.fallback, bool)
        for name in ("backend", "language"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        if self.next_word and not self._is_causal:
            raise ValueError(
                f"next_word must be false unless backend is rules or spacy, was: {self.backend!r}"
            )

    @property
    def lookahead(self) -> int | None:
        if not self._is_causal:
            return None
        return rules.REACH if self.next_word else 1

    @property
    def _is_causal(self) -> bool:
        return self.backend in ("rules", "spacy")

    @property
    def _without_spacy(self) -> bool:
        """Return whether the rules cut alone. Raises SegmenterError for what is missing."""
        if self.backend == "rules":
            return True
        missing = _missing(self.backend, self.language)
        if missing is None:
            return False
        if not self.fallback:
            raise SegmenterError(f"{missing}, or set fallback=true for the rules without spaCy")
        _warn_once(missing)
        return True

    def versions(self) -> dict[str, str]:
        """Return the tables of our rules, or the versions of spaCy and of the model."""
        if self._is_causal or self._without_spacy:
            return {"tables": rules.tables()}
        from segmenters.prose import spacy_pipeline

        return spacy_pipeline.versions(self.backend, self.language)

    def _ends(self, text: str) -> Iterable[int]:
        if self._without_spacy:
            return rules.sentence_ends(text, next_word=self.next_word)
        from segmenters.prose import spacy_pipeline

        if self.backend == "spacy":
            return spacy_pipeline.rule_ends(text, next_word=self.next_word)
        starts = spacy_pipeline.sentence_starts(text, backend=self.backend, language=self.language)
        # spaCy's own back ends may start a sentence with the white space in front of it.
        first, *ends = after_space(text, [0, *starts.tolist()])
        return [end for end in ends if end > first]

    def machine(self) -> Machine:
        if not self._is_causal:
            raise self.refusal("this back end reads the whole text: take backend=rules")
        if self.next_word:
            raise self.refusal("it reads the next word: set next_word=false")
        return SentenceMachine()


@lru_cache(maxsize=32)
def _missing(backend: str, language: str) -> str | None:
    """Return what the back end needs and is not installed, with its cure; None if nothing."""
    wrong = f"backend {backend!r} of Sentences:"
    try:
        from segmenters.prose import spacy_pipeline
    except ImportError as error:
        return f"{wrong} spaCy is not installed ({error}): pip install spacy"
    try:
        if backend != "spacy":
            spacy_pipeline.build(backend, language)
    except ModuleNotFoundError as error:
        return f"{wrong} {error}"
    return None


@lru_cache(maxsize=32)
def _warn_once(wrong: str) -> None:
    _LOG.warning("%s; the rules cut in its stead", wrong)


@dataclass(slots=True, kw_only=True)
class SentenceMachine(Machine):
    """Follows the causal sentence rules through a text that is still being written.

    The rules are asked again from a place to resume at: no candidate for an end that starts before
    it reaches beyond it. A letter is one, and nearly everything else, too: a candidate is a run of
    terminators and closers, then a spaced quote, notes, emoji and white space, in this order. And
    they are asked only where an end is conceivable: at a visible character behind white space, a
    terminator, a closer or an emoji. So a push costs the same however long the text, the sentence
    or the run of signs is. The end of a few thousand characters is kept of the text; a run of white
    space, terminators or emoji beyond that is shortened in the middle, where the rules do not look.
    (Numbered notes and spaced emoji without end are kept whole: memory, and a copy for each push.)

    `text` is the end of the text, possibly shortened; `last`, where its sentence starts (None:
    nothing visible yet), and `resume` count in it.
    """

    text: str = ""
    last: int | None = None
    resume: int = 0

    def _read(self, text: str) -> list[int]:
        known = len(self.text)
        self.text += text
        ends: list[int] = []
        if self.last is None:
            start = len(self.text) - len(self.text.lstrip())
            if start < len(self.text):
                self.last = start
        if self.last is not None and _CONCEIVABLE.search(self.text, known):
            ends = rules.sentence_ends(self.text, position=self.resume, last=self.last)
        if ends:
            self.last = ends[-1]
        # One back: a bracket is a place to resume at once the character behind it is known.
        for match in _RESUME.finditer(self.text, max(0, known - 1)):
            self.resume = match.start()
        moved = self.size - known
        if len(self.text) > _LONGEST:
            self._shorten()
        return [moved + end for end in ends]

    def _shorten(self) -> None:
        """Drop the text that no rule can read any more."""
        drop = max(0, self.resume - _CONTEXT)
        text = self.text[drop:]
        self.resume -= drop
        if self.last is not None:
            self.last -= drop
        last = self.last or 0
        run = len(text) - 6 * _CONTEXT
        if run > max(self.resume, last) and _ONE_KIND.fullmatch(text, run):
            # The rules ask which signs a run holds, and whether there is a second line end.
            middle = text[run + _CONTEXT : -_CONTEXT]
            kept = "".join(char * min(middle.count(char), 2) for char in dict.fromkeys(middle))
            text = text[: run + _CONTEXT] + kept + text[-_CONTEXT:]
        self.text = text
