r"""Logical lines of Python while they are read: a machine of brackets and strings.

A line end closes a segment unless it lies inside of brackets or of a string, or follows a
backslash: where the standard library's `tokenize` says NEWLINE, or NL outside of a statement. So a
blank line and a line of comment are segments of their own.

Broken code: a string without its closing quote ends with its line, closing brackets without an
opening one are ignored, and a line inside of brackets that starts with a word which only starts
statements (`def`, `return` ...) shows that a bracket was never closed: the brackets are forgotten,
and the segment ends with that line. It does not start one: that would ask for the whole word before
its first letter is placed, and every line inside of brackets would have to wait while it is being
written. Until such a line, and after triple quotes that never close, the rest is one segment:
whoever reads from left to right cannot know better.

Nothing is parsed, and nested quotes of one kind inside of an f-string (PEP 701) are not followed.
"""

import re
from dataclasses import dataclass

from segmenters.base import Machine
from segmenters.places import past

# An indentation deeper than this is not looked through for a word that starts a statement.
_INDENT = 20
_WORDS = (
    "assert|async def|break|class|continue|def|del|elif|except|finally|global|import|nonlocal|"
    "pass|raise|return|try|while|with"
)
_STATEMENT = re.compile(rf"[ \t]{{0,{_INDENT}}}+(?:{_WORDS})(?!\w)")
# What may yet become such a start of a line when more text comes.
_MAYBE_STATEMENT = re.compile(rf"[ \t]{{0,{_INDENT}}}+[a-z ]{{0,9}}\Z")
# Whether "\r" ends the line, or the "\n" behind it does, is known one character later.
LOOKAHEAD = 1

_LONG = {
    # A quote belongs to the string if two more do not follow; at the end of the text, who knows.
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
# What is read inside of a string or comment that the text before left open.
_INSIDE = {
    opening: re.compile(inside, re.DOTALL)
    for opening, inside in {**_LONG, **_SHORT, "#": _COMMENT}.items()
}


@dataclass(slots=True, kw_only=True)
class PythonLines(Machine):
    """Cuts Python that arrives in pieces of any size into logical lines.

    `rest` is what was read and is not understood yet, a few dozen characters at most; `depth`
    counts open brackets; `inside` is the opening of the string or comment that we are in.
    """

    rest: str = ""
    depth: int = 0
    inside: str = ""

    def close(self) -> list[int]:
        return self._scan(self.rest, final=True)

    def read_all(self, text: str) -> list[int]:
        """`push` and `close` in one; the end of the text itself is not among the cuts."""
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
        """Read on in a string or comment; return where it ended, or how far it is certain."""
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
