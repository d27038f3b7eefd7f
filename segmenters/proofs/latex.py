r"""Statements, proofs and prose in LaTeX.

A segment starts at `\item`, at and after a heading, at `\begin` and after `\end` of an environment
of text (theorem, proof, enumerate, ...), after a blank line, and at each sentence by the causal
rules of `prose.rules`, which see neither mathematics nor comments. A display (`$$`, `\[`, equation,
align and the like, with every `\\` in them) stays whole in its sentence; it ends the sentence if it
ends with a period, or without punctuation before a capital. Tables and pictures stay whole,
listings are cut into lines. `\end` stays with the segment before, and so does a comment unless it
follows a blank line. Unclosed mathematics ends at a blank line, where TeX itself gives up. Macros
are not expanded, so an environment under another name (\bea) is text. Sources: Lamport, LaTeX
(1994); amsmath user's guide (2020), "Displayed equations".
"""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from segmenters.base import Machine, Segmenter
from segmenters.places import SPACE, past
from segmenters.prose import rules

DISPLAYS = (
    *("equation", "align", "gather", "multline", "eqnarray", "alignat", "flalign", "displaymath"),
    *("math", "dmath", "IEEEeqnarray", "subequations", "xalignat", "xxalignat"),
)
WHOLE = (
    *("tabular", "tabularx", "longtable", "array", "tikzpicture", "tikzcd", "picture", "xy"),
    *("CD", "pspicture"),
)
LISTINGS = ("verbatim", "lstlisting", "minted", "Verbatim", "alltt", "comment", "filecontents")
_HEADINGS = "part|chapter|(?:sub){0,2}section|(?:sub)?paragraph"
_LONGEST_NAME = 20
# Causal but for the name of an environment, which is certain only after this many characters:
# "\begin{", the name, its star and "}".
_LOOKAHEAD = len(r"\begin{}") + _LONGEST_NAME + 2

_TOKEN = re.compile(
    r"(?P<comment>%[^\n\r]*+(?:\r\n?|\n)?[ \t]*+)|(?P<dollars>\$\$?)"
    r"|\\(?:(?P<round>\()|(?P<square>\[)|(?P<start>(?:(?:bib)?item|par)(?![A-Za-z]))"
    rf"|(?P<heading>(?:{_HEADINGS})\*?(?=[\[{{]))"
    rf"|begin\{{(?P<begin>[A-Za-z]{{1,{_LONGEST_NAME}}})\*?\}}(?P<about>\[)?"
    rf"|(?P<end>end\{{[A-Za-z]{{1,{_LONGEST_NAME}}}\*?\}})"
    r"|(?:verb\*?|lstinline|mintinline\{\w{1,20}\})(?P<verb>[^A-Za-z\s*\[{])|(?P<index>index\{)"
    r"|(?P<address>(?:url|href|path|nolinkurl|lstinline|mintinline\{\w{1,20}\})\{)|[A-Za-z]++(?P<option>\[)|.)",
    re.DOTALL,
)
_BLANK_LINE = r"\n[^\S\n]*+\n|\r[^\S\r\n]*+\r|\r\n[^\S\r\n]*+\r\n"
# Patterns up to the closing sign; escapes and comments close nothing.
_SKIPPED = r"\\.|%[^\n\r]*+"
_CLOSING = {"$": r"\$", "$$": r"\$\$", "(": r"\\\)", "[": r"\\\]", "option": r"\]", "index": r"\}"}
_CLOSING |= {name: rf"\\end\{{{name}\*?\}}" for name in DISPLAYS}
_CLOSES = {
    opening: re.compile(rf"(?P<close>{sign})|{_SKIPPED}|(?P<blank>{_BLANK_LINE})", re.DOTALL)
    for opening, sign in _CLOSING.items()
}
_CLOSES["address"] = re.compile(rf"(?P<close>\}})|\\.|(?P<blank>{_BLANK_LINE})", re.DOTALL)
_CLOSES |= {name: re.compile(rf"(?P<close>\\end\{{{name}\*?\}})") for name in (*WHOLE, *LISTINGS)}

_AFTER_BLANK_LINE = re.compile(rf"(?:{_BLANK_LINE})[ \t]*\Z")
_ARGUMENT = re.compile(r"[{}\n\r]|\\.", re.DOTALL)
_LINE_END = re.compile(r"\r\n?|\n")
_REST_OF_LINE = re.compile(r"[^\n]*+\n?")
# Where a section or paragraph of text begins, with the blank lines in front of it.
_BEGINS = re.compile(
    r"(?P<section>^[ \t]*+\\(?:part|chapter|(?:sub){0,2}section)\*?[\[{])"
    r"|(?P<start>^[ \t]*+(?=\\(?:item|par|paragraph|begin\{(?!(?:equation|align|gather|array|cases"
    r"|split|aligned|[bpvBV]?matrix|multline|eqnarray|tabular)\*?\}))(?![A-Za-z])"
    r"|\\begin\{))|(?P<blank>\n[ \t\r]*\n)",
    re.MULTILINE,
)
_END = "\\end{"
# In the shadow: what the rules of sentences see nothing in, and what they take for a full stop.
_HIDDEN, _SHOWN = "$", "."
# What may follow the last punctuation mark in a display, searched in a bounded window.
_WINDOW = 160  # characters
_BEHIND_MARK = re.compile(
    r"(?:\s|\\\]|\$\$|\\(?:qedhere|nonumber|notag|qquad|quad|displaybreak|right\.?|[,;:! \\])"
    r"|\\(?:label|tag\*?|eqno|leqno|end)\{[^{}]*\}|%[^\n]*\n|\})*\Z"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaTeXProofs(Segmenter):
    """Ends a segment after each sentence, item, heading and environment, never inside a formula."""

    version: ClassVar[int] = 4
    lookahead = _LOOKAHEAD

    def versions(self) -> dict[str, str]:
        return {"tables": rules.tables()}

    level_names = ("sentence", "paragraph", "section")

    def _ends(self, text: str) -> Iterable[int]:
        return _Scan(text).run()

    def _levels(self, text: str) -> Sequence[Iterable[int]]:
        paragraphs: list[int] = []
        sections: list[int] = []
        for match in _BEGINS.finditer(text):
            blank = match.lastgroup == "blank"
            paragraphs.append(match.end() if blank else match.start())
            if match.lastgroup == "section":
                sections.append(match.start())
        # Behind a heading that fills its line.
        lines = (_REST_OF_LINE.match(text, place) for place in sections)
        paragraphs += [line.end() for line in lines if line and line.group().rstrip()[-1:] == "}"]
        return self.cut(text), sections + paragraphs, sections

    def machine(self) -> Machine:
        raise self.refusal("the end of a formula or listing is known only from the text after it")


class _Scan:
    """One pass over a text: its ends, and a shadow that masks mathematics and comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.shadow = io.StringIO()
        self.copied = 0  # up to here the shadow is written
        self.line_end = 0  # of the line of the last \\verb
        self.headed = 0  # up to here the arguments of headings are read
        self.ends: list[int] = []

    def run(self) -> list[int]:
        r"""Return all ends, unordered; none before \end or after the leading white space."""
        place = 0
        while match := _TOKEN.search(self.text, place):
            place = self.take(match)
        self.copy(len(self.text))
        self.ends += rules.sentence_ends(self.shadow.getvalue())
        first = past(SPACE, self.text, 0)
        return [end for end in self.ends if end > first and not self.text.startswith(_END, end)]

    def take(self, match: re.Match[str]) -> int:
        """Process one token; return where to continue."""
        kind = match.lastgroup
        start, place = match.span()
        if kind == "comment":
            self.comment(start, place)
        elif kind in ("dollars", "round", "square"):
            opening = match[kind]
            place = self.mathematics(start, place, opening, display=opening in ("$$", "["))
        elif kind in ("begin", "about"):
            place = self.environment(start, place, match["begin"])
            if kind == "about" and match["begin"] not in _CLOSES:
                place = self.hide(place, self.closing(place, "option"))
        elif kind == "start":
            self.ends.append(start)
        elif kind == "heading":
            self.ends.append(start)
            self.heading(place)
        elif kind == "verb":
            place = self.verbatim(start, place, match["verb"])
        elif kind in ("option", "index", "address"):
            place = self.hide(place, self.closing(place, kind))
        elif kind == "end":
            self.ends.append(past(SPACE, self.text, place))
        return place

    def copy(self, end: int, hidden: str | None = None) -> None:
        """Extend the shadow up to `end`, with the text or with `hidden`."""
        self.shadow.write(self.text[self.copied : end] if hidden is None else hidden)
        self.copied = end

    def hide(self, start: int, end: int) -> int:
        """Mask a part of the text in the shadow; return its end."""
        self.copy(start)
        self.copy(end, _HIDDEN * (end - start))
        return end

    def comment(self, start: int, end: int) -> None:
        if _AFTER_BLANK_LINE.search(self.text, max(0, start - _WINDOW), start):
            self.ends.append(start)
        self.copy(start)
        self.copy(end, " " * (end - start))

    def mathematics(self, start: int, place: int, opening: str, *, display: bool) -> int:
        """Mask a formula, of which a display may end its sentence; return its end."""
        end = self.closing(place, opening)
        if not display:
            return self.hide(start, end)
        self.copy(start)
        mark = self.last_mark(place, end)
        self.copy(end, _HIDDEN * (end - start - 1) + (_SHOWN if mark in ".?!" else _HIDDEN))
        follows = past(SPACE, self.text, end)
        if mark not in ".?!,;:" and self.text[follows : follows + 1].isupper():
            self.ends.append(follows)
        return end

    def environment(self, start: int, place: int, name: str) -> int:
        if name in DISPLAYS:
            return self.mathematics(start, place, name, display=True)
        if name not in _CLOSES:
            self.ends.append(start)
            return place
        end = self.hide(start, self.closing(place, name))
        if name in LISTINGS:
            lines = _LINE_END.finditer(self.text, start, end)
            self.ends += [start, *(line.end() for line in lines), past(SPACE, self.text, end)]
        return end

    def closing(self, place: int, opening: str) -> int:
        """Return where what opens before `place` closes, or where TeX gives up."""
        for match in _CLOSES[opening].finditer(self.text, place):
            if match.lastgroup == "close":
                return match.end()
            if match.lastgroup == "blank":
                return match.start()
        return len(self.text)

    def last_mark(self, start: int, end: int) -> str:
        """Return the last character of a display that a reader sees."""
        window = self.text[max(start, end - _WINDOW) : end]
        return _BEHIND_MARK.sub("", window, count=1)[-1:] or _HIDDEN

    def heading(self, place: int) -> None:
        """End a heading after its argument, if that is on its line and no label follows."""
        depth = 0
        for match in _ARGUMENT.finditer(self.text, max(place, self.headed)):
            self.headed = match.end()
            depth += {"{": 1, "}": -1}.get(match.group(), 0)
            if match.group() in "\r\n":
                return
            if match.group() == "}" and depth <= 0:
                follows = past(SPACE, self.text, match.end())
                if self.text[follows : follows + 1] != "\\":
                    self.ends.append(follows)
                return

    def verbatim(self, start: int, place: int, delimiter: str) -> int:
        r"""Mask \verb up to its delimiter, or to the end of the line, which it cannot cross."""
        if self.line_end < place:
            line_end = _LINE_END.search(self.text, place)
            self.line_end = line_end.start() if line_end else len(self.text)
        closer = self.text.find(delimiter, place, self.line_end)
        return self.hide(start, self.line_end if closer < 0 else closer + 1)
