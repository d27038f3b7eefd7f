"""Sentences of Coq (Rocq) vernacular, plain tactics and ssreflect.

A sentence ends at a period, or at the last of three, before white space or the end of the text,
outside of comments and strings; `..` ends nothing, because recursive notations hold it before white
space. Where a sentence may start, a bullet (a run of one of - + *), a brace and a selected goal
(`2:{`, `[name]:{`, `all:{`) are steps of their own. Comments nest, and hold strings, as in Coq's
lexer; a comment belongs to the sentence after it. A notation with its own period before white space
is not known. Sources: the reference manual of Coq, "Lexical conventions" and "Bullets, focus
braces", and the lexer of CoqIDE (coq_lex.mll), which cuts by the same rule.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from segmenters.base import Machine, SpacedMachine
from segmenters.proofs.items import Stepwise

# States of the reader. A sign that may begin a longer one has a state of its own.
_START, _RUN, _BODY, _STRING, _COMMENT, _QUOTED, _SELECTOR = range(7)
_PAREN, _DOT, _COMMENT_PAREN, _COMMENT_STAR = range(7, 11)

# Text that decides nothing, up to the next sign that may. A doubled quote in a string is read as
# the end of one string and the start of another, which cuts the same.
_SKIPPED: Final = {
    _START: re.compile(r"\s*+"),
    _BODY: re.compile(r'(?:[^(".]++|\((?!\*|\Z)|\.\.|\.(?![. \t\r\n\f]|\Z)|"[^"]*+")*+'),
    _STRING: re.compile(r'[^"]*+'),
    _COMMENT: re.compile(r'(?:[^(*"]++|\((?!\*|\Z)|\*(?!\)|\Z)|"[^"]*+")*+'),
    _QUOTED: re.compile(r'[^"]*+'),
}
# State and sign -> the next state, and whether the sign is consumed; then the same by state for any
# other sign.
_NEXT: Final = {
    (_BODY, "("): (_PAREN, True),
    (_BODY, '"'): (_STRING, True),
    (_BODY, "."): (_DOT, True),
    (_DOT, "."): (_BODY, True),
    (_COMMENT, "("): (_COMMENT_PAREN, True),
    (_COMMENT, "*"): (_COMMENT_STAR, True),
    (_COMMENT, '"'): (_QUOTED, True),
    (_COMMENT_STAR, ")"): (_COMMENT, True),
}
_OTHERWISE: Final = {
    **dict.fromkeys((_PAREN, _DOT), (_BODY, False)),
    **dict.fromkeys((_COMMENT_PAREN, _COMMENT_STAR), (_COMMENT, False)),
    _STRING: (_BODY, True),
    _QUOTED: (_COMMENT, True),
}
_ENDS_SENTENCE = frozenset(" \t\r\n\f")
_BULLETS = frozenset("-+*")
# A selected goal, `2, 4-6: {`, `[name]: {`, `all: {`: the signs that may follow in each state.
_SELECTED: Final = {
    state: tuple((re.compile(sign), then) for sign, then in follow)
    for state, follow in {
        "": ((r"\d", "7"), (r"\[", "["), ("a", "ll"), ("p", "ar"), ("!", "]")),
        "7": ((r"\d", "7"), (r"\s", "7 "), ("[-,]", ","), (":", ":")),
        "7 ": ((r"\s", "7 "), ("[-,]", ","), (":", ":")),
        ",": ((r"\s", ","), (r"\d", "7")),
        "[": ((r"\s", "["), (r"[\w']", "[x")),
        "[x": ((r"[\w']", "[x"), (r"\s", "[x "), (r"\]", "]")),
        "[x ": ((r"\s", "[x "), (r"\]", "]")),
        "ll": (("l", "l"),),
        "l": (("l", "]"),),
        "ar": (("a", "r"),),
        "r": (("r", "]"),),
        "]": ((r"\s", "]"), (":", ":")),
        ":": ((r"\s", ":"), (r"\{", "{")),
    }.items()
}


@dataclass(slots=True, kw_only=True)
class _CoqSteps(SpacedMachine):
    state: int = _START
    sign: str = ""  # the bullet or the part of a selected goal that is being read
    depth: int = 0  # open comments
    body: bool = False  # whether a sentence has begun

    def step_ends(self, text: str) -> list[int]:
        ends: list[int] = []
        place = 0
        while place < len(text):
            if skipped := _SKIPPED.get(self.state):
                match = skipped.match(text, place)
                assert match is not None
                place = match.end()
                if place == len(text):
                    break
            if self.state == _BODY and text[place] == "." and place + 1 < len(text):
                # Skipping stops only at a period before white space, so there is no need to wait.
                place += 1
                ends.append(place)
                self.state, self.body = _START, False
            elif self._take(text[place], ends, place):
                place += 1
        return ends

    def _take(self, char: str, ends: list[int], place: int) -> bool:
        """Read one sign; return whether it was consumed, else it is read again in the new state."""
        state = self.state
        if state == _START:
            return self._start(char, ends, place)
        if state == _SELECTOR:
            return self._select(char, ends, place)
        if state == _RUN:
            if char != self.sign:
                ends.append(place)
                self.state = _START
            return char == self.sign
        if state == _DOT and char in _ENDS_SENTENCE:
            ends.append(place)
            self.state, self.body = _START, False
            return False
        if state == _COMMENT_STAR and char == ")":
            self.depth -= 1
            if not self.depth:
                self.state = _BODY if self.body else _START
                return True
        if state in (_PAREN, _COMMENT_PAREN) and char == "*":
            self.depth += 1
            self.state = _COMMENT
            return True
        self.state, read = _NEXT.get((state, char)) or _OTHERWISE[state]
        self.body = self.body or self.state == _BODY
        return read

    def _start(self, char: str, ends: list[int], place: int) -> bool:
        if char.isupper():  # most sentences; a small letter may begin `all: {`
            self.state, self.body = _BODY, True
            return False
        if char == "(":
            self.state = _PAREN
        elif char in _BULLETS:
            self.state, self.sign = _RUN, char
        elif char in "{}":
            ends.append(place + 1)
        else:
            self.state, self.sign = _SELECTOR, ""
            return self._select(char, ends, place)
        return True

    def _select(self, char: str, ends: list[int], place: int) -> bool:
        then = next((then for sign, then in _SELECTED[self.sign] if sign.match(char)), None)
        self.sign = then or ""
        if then is None:
            # It was no selector; its signs mean nothing in the body of a sentence.
            self.state, self.body = _BODY, True
        elif then == "{":
            self.state, self.sign = _START, ""
            ends.append(place + 1)
        return then is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Coq(Stepwise):
    """Ends a segment after each vernacular sentence, bullet and brace. Causal."""

    dialect: ClassVar[str] = "coq"
    # White space stays with the sentence before: the next visible character shows the cut.
    lookahead = 1
    reader: ClassVar[type[Machine]] = _CoqSteps
