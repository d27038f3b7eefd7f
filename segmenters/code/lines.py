r"""Lines of code as segments: physical lines, statements, top-level definitions.

physical  a segment ends with its line end, "\n", "\r\n" or "\r".
logical   a statement over several physical lines is one segment; blank lines and comment lines
          are segments of their own.

With `prose`, sentences in docstrings and comments are a level below logical lines (comments.py).
Above logical lines are two levels: methods, whose segments start at every function or method with
its decorators and the comments directly above it, and at what follows one; and classes, which start
at top-level definitions in the same way: imports and constants between two are one segment.

A line keeps its line end and its indentation, so that a model sees the depth of a line in its own
segment. `str.splitlines` is not used: it also cuts at form feeds, vertical tabs and Unicode
separators, which may be inside of a line of code.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import ClassVar

import numpy as np

from segmenters.base import (
    Cuts,
    Machine,
    Meta,
    Ruling,
    Segmenter,
    SegmenterError,
    Window,
    cuts_from_ends,
    tally,
)
from segmenters.checks import require_choice, require_type
from segmenters.code import advice, haskell_lines, parsed, python_lines
from segmenters.code.comments import prose_cuts
from segmenters.fields import language_of_fields, path_of
from segmenters.offsets import character_ends, distinct
from segmenters.registry import (
    SEGMENTERS,
    known_language,
    language_named,
    language_of,
    language_of_script,
    make,
)

_LOG = logging.getLogger(__name__)
_LEVELS = {"physical": ("line",), "logical": ("statement", "method", "class")}
# Languages with a reader of their own, which need no grammar.
_MACHINES = ("haskell", "python")
# How a logical line at the left margin starts; other lines are inside of something.
_MARGINS = {
    "python": re.compile(
        r"(?P<indent>)(?:(?P<definition>@|(?:async\s+def|def|class)\b)|(?P<comment>#)|(?P<other>\S))"
    ),
    "haskell": re.compile(
        r"(?P<indent>)(?:(?P<comment>--|\{-)|(?P<other>#|(?:import|default|infix[lr]?|foreign)"
        r"(?![\w']))|(?P<definition>\S))"
    ),
}
_PYTHON_LINE = re.compile(
    r"(?P<indent>[ \t]*+)(?:(?P<definition>@|(?:async\s+def|def)\b)|(?P<comment>#)|(?P<other>\S))"
)


# Rules of `why`.
_LINE_END, _STATEMENT, _INSIDE = "line end", "the next line begins a statement", "in a statement"
_SENTENCE, _MINIFIED = "sentence of a comment or docstring", "statement in a minified line"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines(Segmenter):
    """Ends a segment at each line end. A blank line is a segment of its own.

    `granularity`: "physical", or "logical" for statements and the levels above them. `language`: a
    name in `segmenters.registry`, or "auto": from a field of the document, its file name or the
    first line of a script, else none (physical lines). Logical lines of Python also work during
    generation; other languages need the whole text and, except Haskell, tree-sitter and their
    grammar. `fallback`: cut physical lines if the grammar is not installed. `prose`: the name of a
    segmenter ("sentences") that cuts docstrings and comments further, a level below statements.
    Raises ValueError for an unknown language, and SegmenterError for a missing grammar.
    """

    granularity: str = "physical"
    language: str = "auto"
    fallback: bool = False
    prose: str | None = None
    version: ClassVar[int] = 17
    unknown: ClassVar[str] = advice.LANGUAGE_UNKNOWN  # what is tallied then

    def __post_init__(self) -> None:
        require_choice("granularity", self.granularity, tuple(_LEVELS))
        require_type("language", self.language, str)
        require_type("fallback", self.fallback, bool)
        if self.prose is not None:
            require_choice("prose", self.prose, tuple(SEGMENTERS))
            if self.granularity == "physical":
                raise ValueError("granularity must be 'logical' with prose, was: 'physical'")
        if self.language != "auto":
            object.__setattr__(self, "language", language_named(self.language))
        if self.granularity == "physical" or self.fallback or self.language in ("auto", *_MACHINES):
            return
        if wrong := advice.missing(self.language):
            raise SegmenterError(wrong)

    def for_document(
        self, *, path: str | PurePath | None = None, language: str | None = None
    ) -> Lines:
        """Return this segmenter with the document's language, if its own is "auto".

        `language`, as the data name it, may be unknown here; then `path` decides.
        """
        if self.language != "auto":
            return self
        chosen = (known_language(language) if language else None) or (path and language_of(path))
        return dataclasses.replace(self, language=chosen) if chosen else self

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        if self.granularity == "physical":
            return self
        language = language_of_fields(meta or {})
        return self.for_document(
            path=path_of(name, meta or {}, known=language_of), language=language
        )

    @property
    def lookahead(self) -> int | None:
        if self.granularity == "physical":
            # Only the next character shows whether "\r" ends the line or "\r\n" does.
            return 1
        if self.prose is not None:
            return None
        return python_lines.LOOKAHEAD if self.language == "python" else None

    @property
    def level_names(self) -> tuple[str, ...]:
        names = _LEVELS[self.granularity]
        return names if self.prose is None else ("sentence", *names)

    def _levels(self, text: str) -> tuple[Cuts, ...]:
        language = self._language_for(text)
        levels = self._levels_of_code(text, language)
        if self.prose is None:
            return levels
        return (self._with_prose(text, levels[0], language), *levels)

    def _with_prose(self, text: str, ends: Cuts, language: str | None) -> Cuts:
        """Return the ends of statements, and those of sentences in docstrings and comments."""
        if self.prose is None or language is None:
            return ends
        cuts = cuts_from_ends(ends, len(text))
        return distinct(ends, prose_cuts(text, cuts, language, make(self.prose)))

    def _levels_of_code(self, text: str, language: str | None) -> tuple[Cuts, ...]:
        if language is not None and language not in _MACHINES:
            return parsed.levels(text, language)
        cuts = cuts_from_ends(self._statement_ends(text, language), len(text))
        if language is None:
            return (cuts,)
        classes = _definitions(text, cuts, _MARGINS[language])
        if language != "python":
            return (cuts, classes, classes)
        return (cuts, distinct(classes, _definitions(text, cuts, _PYTHON_LINE)), classes)

    def versions(self) -> dict[str, str]:
        """Return the versions of tree-sitter and of the grammar of a language that is named."""
        prose = {} if self.prose is None else {"prose": str(make(self.prose).version)}
        if self.granularity == "physical" or self.language in ("auto", *_MACHINES):
            return prose
        # Headers in C++ are often said to be C.
        read = ("c", "cpp") if self.language == "c" else (self.language,)
        some = (advice.versions(name) for name in read if not advice.missing(name))
        return {
            package: number for packages in some for package, number in packages.items()
        } | prose

    def _language_for(self, text: str) -> str | None:
        """Return the language whose rule cuts the text; None: physical lines."""
        if self.granularity == "physical":
            return None
        language = self._asked_for(text)
        if language is None or language in _MACHINES:
            return language
        if language == "c" and is_cpp(text) and not advice.missing("cpp"):
            return "cpp"
        return None if self.fallback and advice.missing(language) else language

    def _asked_for(self, text: str) -> str | None:
        return self.language if self.language != "auto" else language_of_script(text)

    def _ends(self, text: str) -> Cuts:
        language = self._language_for(text)
        return self._with_prose(text, self._statement_ends(text, language), language)

    def _statement_ends(self, text: str, language: str | None) -> Cuts:
        if self.granularity == "logical" and language is None:
            wish = self._asked_for(text)
            rule = f"{advice.NO_GRAMMAR}{wish}" if wish else self.unknown
            if not tally(rule, len(text)) and text:
                _warn(rule)
        if language is None:
            return character_ends(text)
        if language in _MACHINES:
            tally(f"logical {language}", len(text))
        if language == "python":
            return np.array(python_lines.PythonLines().read_all(text), dtype=np.int64)
        if language == "haskell":
            return haskell_lines.item_ends(text)
        return parsed.logical_ends(text, language)

    def _why(self, text: str) -> Iterable[Ruling]:
        """Return the rule at each line end; between lines, sentences end, or minified statements.

        A statement that is not read as such ends with each of its lines.
        """
        ends, whole = self.cut(text).tolist(), set(character_ends(text).tolist())
        if self._language_for(text) is None:
            return [Ruling(place, True, _LINE_END) for place in ends]
        between = _SENTENCE if self.prose else _MINIFIED
        rules = {place: Ruling(place, False, _INSIDE) for place in whole}
        rules |= {p: Ruling(p, True, _STATEMENT if p in whole else between) for p in ends}
        return rules.values()

    def machine(self) -> Machine:
        if self.granularity == "physical":
            return Window(segmenter=self, before=1, triggers="\n\r")
        if self.prose is not None:
            raise self.refusal("sentences in docstrings need the whole text: set prose=null")
        if self.language != "python":
            raise self.refusal(
                "statements can be found during generation in Python only: set language=python"
            )
        return python_lines.PythonLines()


# One of these words is in every text that `_CPP` matches, which is slower.
_CPP_WORDS = ("namespace", "template", "class", "public", "protected", "private")
_CPP = re.compile(
    r"^[ \t]*+(?:namespace\b(?:[ \t]++[\w:]++)?+\s*+\{|template[ \t]*+<|using namespace\b"
    r"|(?:public|protected|private)[ \t]*+:[ \t]*+$|class[ \t][^\n=;(){]*+[{;][ \t]*+$)",
    re.MULTILINE,
)


def is_cpp(text: str) -> bool:
    """Return whether a text in C is C++, as many headers are; C's grammar fails all over these."""
    return any(word in text for word in _CPP_WORDS) and _CPP.search(text) is not None


def _definitions(text: str, lines: Cuts, pattern: re.Pattern[str]) -> Cuts:
    """Return where definitions of any depth begin, and what follows each, among logical lines.

    `pattern` tells them from comments and others, by the indentation that it allows.
    """
    ends: list[int] = []
    depths: list[int] = []  # of the definitions around this line
    comments, decorated = -1, False  # where the comments directly above this line start
    for place in lines[:-1].tolist():
        match = pattern.match(text, place)
        if match is None or match.lastgroup == "comment":
            comments = -1 if match is None else place if comments < 0 else comments
            continue
        depth, ended = len(match["indent"]), False
        while depths and depths[-1] >= depth:
            depths.pop()
            ended = True
        begins = match.lastgroup == "definition" and not decorated
        if ended or begins:
            ends.append(place if comments < 0 else comments)
        decorated = match["definition"] == "@"
        if match["definition"] and not decorated:
            depths.append(depth)
        comments = -1
    return np.array(ends, dtype=np.int64)


@cache
def _warn(rule: str) -> None:
    """Warn once of physical lines in place of logical ones, where no manifest will tell it."""
    _LOG.warning(
        "Lines(granularity='logical') cuts physical lines (%s); name it, as by language='python'",
        rule,
    )
