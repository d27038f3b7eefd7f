"""Logical lines of Python while they are read: a machine of brackets and strings.

A line end closes a segment unless it is inside of brackets or of a string, or follows a backslash:
where the standard library's `tokenize` has NEWLINE, or NL outside of a statement. So blank lines
and comment lines are segments of their own.

In broken code a string without its closing quote ends with its line, and unmatched closing brackets
are ignored. A line in brackets that starts with a word which only starts statements (`def`,
`return` ...) shows that a bracket was never closed: the brackets are forgotten, and the segment
ends with that line. It cannot end before it, or each line in brackets would wait for its whole
first word. Until such a line, and after triple quotes that never close, the rest is one segment.
Nested quotes of one kind inside of an f-string (PEP 701) are not followed.
"""

import re
from dataclasses import dataclass

from segmenters.base import Machine
from segmenters.places import past

# Deeper indentation is not searched for a word that starts a statement.
_INDENT = 20
_WORDS = (
    "assert|async def|break|class|continue|def|del|elif|except|finally|global|import|nonlocal|"
    "pass|raise|return|try|while|with"
)
_STATEMENT = re.compile(rf"[ \t]{{0,{_INDENT}}}+(?:{_WORDS})(?!\w)")
# The start of a line that may become such a word when more text comes.
_MAYBE_STATEMENT = re.compile(rf"[ \t]{{0,{_INDENT}}}+[a-z ]{{0,9}}\Z")
# Only the next character shows whether "\r" ends the line or "\r\n" does.
LOOKAHEAD = 1

_LONG = {
    # A quote belongs to the string unless two more follow; at the end of the text it is undecided.
    q: rf"[^{q[0]}\\]*+(?:(?:\\.|{q[0]}(?={q[0]}?[^{q[0]}]))[^{q[0]}\\]*+)*+"
    for q in ("'''", '"""')
}
_SHORT = {q: rf"[^{q}\\\r\n]*+(?:\\(?:\r\n|\r(?!\Z)|[^\r])[^{q}\\\r\n]*+)*+" for q in ("'", '"')}
_COMMENT = r"[^\r\n]*+"
_PLAIN = r"[^'\"#()\[\]{}\\\r\n]"
_SKIPPED = "|".join(
    (
        rf"{_PLAIN}++",
        rf"[(\[{{]{_PLAIN}*+[)\]}}]",
        *(rf"{quotes}{inside}{quotes}" for quotes, inside in _LONG.items()),
        *(
            rf"{quote}(?!{quote}{quote}|{quote}?\Z){inside}(?:{quote}|(?=[\r\n]))"
            for quote, inside in _SHORT.items()
        ),
        rf"\#{_COMMENT}(?=[\r\n])",
        r"\\(?:\r\n|\r(?!\Z)|\n)",
    )
)
_TOKEN = re.compile(
    rf"(?:{_SKIPPED})*+(?:(\r\n?|\n)|([(\[{{])|([)\]}}])|('''|\"\"\"|['\"#\\])|\Z)", re.DOTALL
)
_LINE_END, _OPEN, _CLOSE, _OPENING = 1, 2, 3, 4
# The rest of a string or comment that the previous text left open.
_INSIDE = {
    opening: re.compile(inside, re.DOTALL)
    for opening, inside in {**_LONG, **_SHORT, "#": _COMMENT}.items()
}


@dataclass(slots=True, kw_only=True)
class PythonLines(Machine):
    """Cuts Python that arrives in pieces of any size into logical lines."""

    rest: str = ""  # read but undecided, a few dozen characters at most
    depth: int = 0  # open brackets
    inside: str = ""  # the opening of the current string or comment

    def close(self) -> list[int]:
        return self._scan(self.rest, final=True)

    def read_all(self, text: str) -> list[int]:
        """Push and close at once; the end of the text itself is not among the cuts."""
        return self._scan(text, final=True)

    def _read(self, text: str) -> list[int]:
        return self._scan(self.rest + text, final=False)

    def _scan(self, text: str, *, final: bool) -> list[int]:
        ends: list[int] = []
        before = self.size - len(self.rest)
        place = self._leave(text) if self.inside else 0
        if not self.inside:
            place = self._scan_code(text, place, ends, final)
        self.rest = text[place:]
        return [before + end for end in ends] if before else ends

    def _leave(self, text: str) -> int:
        """Read on in a string or comment; return its end, or how far it is certain."""
        place = past(_INSIDE[self.inside], text)
        if text.startswith(self.inside, place) and self.inside != "#":
            place += len(self.inside)
            self.inside = ""
        elif text[place : place + 1] in ("\r", "\n"):
            self.inside = ""
        return place

    def _scan_code(self, text: str, place: int, ends: list[int], final: bool) -> int:
        """Collect line ends outside of strings from `place` on; return how far they are certain."""
        depth = self.depth
        size = len(text)
        for match in _TOKEN.finditer(text, place):
            kind = match.lastindex
            place = match.end()
            if kind == _LINE_END:
                if place == size and not final and text[-1] == "\r":
                    place -= 1
                    break
                if not depth:
                    ends.append(place)
                elif (word := _STATEMENT.match(text, place)) and (final or word.end() < size):
                    depth = 0
                elif not final and _MAYBE_STATEMENT.match(text, place):
                    place = match.start(_LINE_END)
                    break
            elif kind == _OPEN:
                depth += 1
            elif kind == _CLOSE:
                depth -= depth > 0
            elif kind == _OPENING:
                opening = match[4]
                left = size - match.start(4)
                if opening == "\\":
                    if not final and left <= 2 and text[place:] in ("", "\r"):
                        place -= 1
                        break
                    continue
                if left <= 2 and opening != "#":
                    place -= len(opening)
                    break
                self.inside = opening
                place = past(_INSIDE[opening], text, place)
                break
        self.depth = depth
        return place
