r"""Formulas, listings and tags in the text of a chain of thought, found while it is written.

Open for a while are: a display (`\[ .. \]`, `$$ .. $$`, `[asy] .. [/asy]`, an environment that is
not one of text), a formula in a line (`\( .. \)`, `$ .. $`), a price or a formula that begins with
a digit (`$5`), a fence of code or a listing, and a line of a table or a heading. What is never
closed ends at a blank line before a word, or after so many characters. Signs of several characters
(`\begin{align}`) wait, unread, until they are complete; what is open at a character is known when
the character is read.
"""

import re
import sys
from dataclasses import dataclass, field
from typing import Final

SENTENCE = ".$"  # behind a formula in a line that ends with a full stop
DISPLAY, ROUND, FORMULA, PRICE = "display", "round", "formula", "price"
CODE, ROW = "code", "row"
# After so many characters an unclosed one is text.
_LONGEST: Final = {DISPLAY: 5000, ROUND: 300, FORMULA: 300, PRICE: 300}
_CONTEXT = 192  # characters of the text before a piece that are kept; no sign is longer
_LISTS = frozenset(("itemize", "enumerate", "description"))
_LISTINGS = frozenset(("verbatim", "Verbatim", "lstlisting", "minted", "alltt"))
_PROSE_ENVIRONMENTS: Final = """
    document abstract center figure table quote quotation flushleft flushright minipage small
    proof theorem lemma proposition corollary claim definition remark example exercise problem
    question solution answer note tasks parts
"""
_TEXTS = frozenset(_PROSE_ENVIRONMENTS.split())
_TAG = r"think|thinking|thought|thoughts|reasoning|reflection|scratchpad|answer|solution|output"
_ENVIRONMENT = r"(?P<which>begin|end)\{(?P<name>[A-Za-z]{1,20})\*?\}"
_LINE_END = r"(?:\r\n|\n|\r(?!\n))"
_BLANK = rf"(?P<blank>{_LINE_END}[^\S\r\n]{{0,80}}{_LINE_END}\s{{0,40}})"
_LINE = r"(?P<line>[\r\n](?=[^\S\r\n]{0,80}\S))"
_TEXT = re.compile(
    r"[\r\n][ \t]{0,12}(?:(?P<fence>`{3}|~{3})|(?P<row>\||#{1,6}[ \t]))"
    rf"|\\(?:(?P<round>\()|(?P<square>\[)|{_ENVIRONMENT}|[^A-Za-z(\[])"
    r"|\$(?:(?P<double>\$)|(?P<single>(?=[^\s\d$<.,;:!?)\]}*]))|(?P<price>(?=[\s\d])))"
    rf"|<(?P<tag>/?(?:{_TAG}))>|\[(?P<asy>asy)\]"
)
_PROSE, _CAPITAL = r"(?=[A-Za-z#*<>-])", r"(?=[A-Z#*<>])"
# What each sign opens, and what closes or breaks that; `break` is read again as text.
_OPENERS: Final = {
    "square": (DISPLAY, rf"(?P<close>\\\])|\\[^\]]|{_BLANK}{_CAPITAL}"),
    "double": (DISPLAY, rf"(?P<close>\$\$)|\\.|{_BLANK}{_PROSE}|{_LINE}"),
    "environment": (DISPLAY, rf"\\(?:{_ENVIRONMENT}|[^A-Za-z])|{_BLANK}{_CAPITAL}"),
    "asy": (DISPLAY, r"(?P<close>\[/asy\])"),
    "round": (ROUND, rf"(?P<close>\\\))|\\[^)]|{_BLANK}(?=\S)"),
    "single": (FORMULA, rf"(?P<close>\$)|\\.|{_BLANK}(?=\S)|{_LINE}"),
    "price": (
        PRICE,
        r"(?P<break>[\r\n]|\$\$|(?<=\s)\$(?=[^\s$<.,;:!?)\]}*]))|(?P<close>\$)(?=\D)|\\.",
    ),
    "fence": (CODE, r"[\r\n][ \t]{0,12}(?P<close>`{3}|~{3})"),
    "listing": (CODE, rf"\\{_ENVIRONMENT}"),
    "row": (ROW, r"(?P<break>[\r\n])"),
}
_SPANS: Final = {sign: (kind, re.compile(inside)) for sign, (kind, inside) in _OPENERS.items()}
# The end of a piece that may begin a sign.
_UNREAD = re.compile(
    r"(?:\\(?:[a-z]{0,5}|(?:begin|end)\{[A-Za-z]{0,20}\*?)|\$|<(?:/?[a-z]{0,10})|\[/?[a-z]{0,3}"
    rf"|[\r\n](?:[ \t]{{0,12}}(?:`{{0,2}}|~{{0,2}}|#{{0,6}})|[^\S\r\n]{{0,80}}(?:{_LINE_END}"
    r"\s{0,40})?))\Z"
)
# What may follow the last mark that a reader sees in a display.
_BEHIND_MARK = re.compile(
    r"(?:\s|\\(?:qedhere|nonumber|notag|qquad|quad|right\.?|[,;:! \\])"
    r"|\\(?:label|tag\*?|end)\{[^{}]{0,40}\}|\})*\Z"
)
_MARK = 80
_GAP = 4  # line ends behind what opens a display
# At the end of a line: signs behind which a formula goes on, and signs and words that show that a
# dollar belongs to no formula.
_GO_ON, _STOPS = tuple("=+-*/<>,(^_&\\"), (".", "?", "!", ":")
_SEEN = 60  # characters of a line in front of its end, which are known in any pieces
_WORDS = re.compile(r"(?<![\\{\w])[A-Za-z]{2,}[,;]? [A-Za-z]{2,}")


_VISIBLE = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Span:
    """What is open from `start` to `end`, in characters of the whole text; `body`: its content."""

    start: int
    body: int
    end: int
    kind: str


@dataclass(slots=True)
class Found:
    """What a piece of a text holds, in order; places are asked for in order, too."""

    spans: list[Span] = field(default_factory=list)
    # Where displays and tags end, with the last mark of the display; "" for a tag. Formulas
    # in a line that end a sentence have the mark SENTENCE.
    ends: dict[int, str] = field(default_factory=dict)
    lists: list[tuple[int, int]] = field(default_factory=list)  # place, opened or closed
    place: int = 0
    listed: int = 0

    def open_at(self, place: int) -> Span | None:
        """Return the span around a place."""
        while self.place < len(self.spans) and self.spans[self.place].end <= place:
            self.place += 1
        span = self.spans[self.place] if self.place < len(self.spans) else None
        return span if span and span.start < place else None

    def lists_at(self, place: int, lists: int) -> int:
        """Return how many lists of LaTeX are open at a place, if `lists` are at the one before."""
        while self.listed < len(self.lists) and self.lists[self.listed][0] <= place:
            lists = max(0, lists + self.lists[self.listed][1])
            self.listed += 1
        return lists


@dataclass(slots=True, kw_only=True)
class Formulas:
    """Reads a text in pieces; the state is the same for any pieces."""

    size: int = 0  # characters read or waiting
    tail: str = "\n"  # the end of the text; a line starts with it
    waiting: int = 1  # characters at its end that are not read yet
    sign: str = ""  # what opened the span, a name of `_OPENERS`
    name: str = ""  # of its environment
    depth: int = 0  # of environments of that name
    start: int = 0
    body: int = 0
    below: bool = False  # a line of it has ended
    known: int = sys.maxsize  # where the first formula ends

    def read(self, text: str) -> tuple[str, Found]:
        """Read the next piece; return its shadow, with masked displays, and what it holds."""
        window, base = self.tail + text, self.size - len(self.tail)
        place = len(self.tail) - self.waiting
        found = Found()
        while place < len(window):
            kind, pattern = _SPANS.get(self.sign, ("", _TEXT))
            limit = self.start + _LONGEST.get(kind, sys.maxsize) - base
            if match := pattern.search(window, place, min(limit, len(window))):
                place = (self._inside if self.sign else self._open)(match, base, found)
            elif self.sign and limit <= len(window):
                place = self._close(limit, base, found, open_to=limit)
            else:
                break
        unread = _UNREAD.search(window, max(place, len(window) - _CONTEXT))
        self.waiting = len(window) - unread.start() if unread else 0
        self.size += len(text)
        if self.sign:
            found.spans.append(self._span(self.size + 1))
        self.tail = window[-_CONTEXT:]
        return _masked(text, self.size - len(text), found.spans), found

    def _open(self, match: re.Match[str], base: int, found: Found) -> int:
        """Read a sign in text; return where to continue."""
        sign, place = match.lastgroup, match.end()
        if sign == "tag":
            found.ends[base + place] = ""
        elif sign == "name":
            sign = self._environment(match, base, found)
        if sign in _SPANS:
            self.sign, self.depth = sign, 1
            # The line end before a fence is not of it.
            start = match.start(sign) if sign in ("fence", "row") else match.start()
            self.start, self.body, self.below = base + start, base + place, False
        return place

    def _environment(self, match: re.Match[str], base: int, found: Found) -> str | None:
        """Return what an environment opens in text, if it opens something."""
        name, opens = match["name"], match["which"] == "begin"
        if name in _LISTS:
            found.lists.append((base + match.end(), 1 if opens else -1))
        if not opens or name in _LISTS or name in _TEXTS:
            return None
        self.name = name
        return "listing" if name in _LISTINGS else "environment"

    def _inside(self, match: re.Match[str], base: int, found: Found) -> int:
        """Read a sign in a span; return where to continue."""
        group, place = match.lastgroup, match.end()
        kind, _ = _SPANS[self.sign]
        if group == "name" and match["name"] == self.name:
            self.depth += 1 if match["which"] == "begin" else -1
            group = None if self.depth else "close"
        if group == "close":
            if kind in (DISPLAY, ROUND, FORMULA):
                self.known = min(self.known, base + place)
            if kind == DISPLAY:
                found.ends[base + place] = self._mark(match, base)
            elif kind != CODE and match.string[match.start("close") - 1] in ".?":
                found.ends[base + place] = SENTENCE
        elif (
            group == "break"
            or (group == "blank" and not self._opens(match, base))
            or (group == "line" and not self._wraps(match, base))
        ):
            place = match.start()
        else:
            return place
        # Whether a dollar ends a price is known behind it, so the price is open in front of it.
        breaks = group == "break" and match[0][0] == "$"
        return self._close(place, base, found, open_to=place + breaks)

    def _opens(self, match: re.Match[str], base: int) -> bool:
        """Return whether there is nothing between what opened the span and a blank line."""
        gap = base + match.start() - self.body
        return gap <= _GAP and not match.string[self.body - base : match.start()].strip()

    def _wraps(self, match: re.Match[str], base: int) -> bool:
        """Return whether a formula goes on below its line, and is no sign without its other."""
        first = max(0, self.body - base)
        written = match.string[max(first, match.start() - _SEEN) : match.start()]
        if self.sign == "single":
            return written.rstrip()[-1:] in _GO_ON
        below, self.below = self.below, True
        if below or "=" in written or "\\" in written:
            return True
        written, whole = written.strip(), match.start() - first <= _SEEN
        is_price = whole and written[:1].isdigit()
        return not (is_price or written[-1:] in _STOPS or _WORDS.search(written))

    def _mark(self, match: re.Match[str], base: int) -> str:
        """Return the last character of a display that a reader sees."""
        first = max(self.body - base, match.start() - _MARK)
        window = match.string[first : match.start()]
        return _BEHIND_MARK.sub("", window, count=1)[-1:] or "$"

    def _span(self, end: int) -> Span:
        return Span(self.start, self.body, end, _SPANS[self.sign][0])

    def _close(self, place: int, base: int, found: Found, *, open_to: int) -> int:
        found.spans.append(self._span(base + open_to))
        self.sign = ""
        return place


def _masked(text: str, start: int, spans: list[Span]) -> str:
    """Return the text with a sign for each visible character of displays."""
    shadow, place = [], 0
    for span in spans:
        first, end = max(span.body - start, place), span.end - start
        if span.kind == DISPLAY and end > first:
            shadow.append(text[place:first])
            shadow.append(_VISIBLE.sub(lambda found: "$" * len(found[0]), text[first:end]))
            place = end
    return "".join((*shadow, text[place:])) if shadow else text
