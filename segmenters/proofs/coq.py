"""Sentences of Coq (Rocq) vernacular, plain tactics and ssreflect.

A sentence ends at a period, or at the last of three, before white space or the end of the text,
outside of comments and strings; `..` ends nothing, because recursive notations hold it before white
space. Where a sentence may start, a bullet (a run of one of - + *), a brace and a selected goal
(`2:{`, `[name]:{`, `all:{`) are steps of their own. Comments nest, and hold strings, as in Coq's
lexer; a comment belongs to the sentence after it. Sources: the reference manual of Coq, "Lexical
conventions" and "Bullets, focus braces", and the lexer of CoqIDE (coq_lex.mll), which cuts by the
same rule.

Nothing is cut in quotations of other languages (`lp:{{ .. }}`, `ltac1:( .. )`), nor behind a sign
that a notation of the file declares with its period (`.*.`). A quote in a
comment that is not closed on the line of the `*)` behind it is odd: there the comment ends. What is
never closed is given up after so many characters, and counted (`tally`).
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from segmenters.base import UNCLOSED, Machine, SpacedMachine, tally
from segmenters.proofs.items import Stepwise

# States of the reader. A sign that may begin a longer one has a state of its own.
_START, _RUN, _BODY, _STRING, _COMMENT, _QUOTED, _SELECTOR = range(7)
_PAREN, _DOT, _COMMENT_PAREN, _COMMENT_STAR = range(7, 11)
_COLON, _QUOTATION, _QUOTED_STAR, _QUOTED_END = range(11, 15)
# What is open for more characters than any that people write is never closed.
_LONGEST: Final = 1 << 15
_HIDDEN: Final = frozenset(
    (
        *(_STRING, _COMMENT, _QUOTED, _COMMENT_PAREN, _COMMENT_STAR, _QUOTATION),
        *(_QUOTED_STAR, _QUOTED_END),
    )
)

# Text that decides nothing, up to the next sign that may. A doubled quote in a string is read as
# the end of one string and the start of another, which cuts the same.
_SKIPPED: Final = {
    _START: re.compile(r"\s*+"),
    _BODY: re.compile(
        r'(?:[^(".:]++|:(?![({]|\Z)|\((?!\*|\Z)|\.\.|\.(?![. \t\r\n\f]|\Z)|"[^".]*+")*+'
    ),
    _STRING: re.compile(r'[^"]*+'),
    _QUOTATION: re.compile(r"[^(){}]*+"),
    _COMMENT: re.compile(r'(?:[^(*"]++|\((?!\*|\Z)|\*(?!\)|\Z)|"[^"*]*+")*+'),
    _QUOTED: re.compile(r'[^"*]*+'),
    _QUOTED_END: re.compile(r'[^"\r\n]*+'),
}
# State and sign -> the next state, and whether the sign is consumed; then the same by state for any
# other sign.
_NEXT: Final = {
    (_BODY, "("): (_PAREN, True),
    (_BODY, '"'): (_STRING, True),
    (_BODY, "."): (_DOT, True),
    (_BODY, ":"): (_COLON, True),
    (_QUOTED, "*"): (_QUOTED_STAR, True),
    (_QUOTED_STAR, ")"): (_QUOTED_END, True),
    (_QUOTED_STAR, "*"): (_QUOTED_STAR, True),
    (_COMMENT, "("): (_COMMENT_PAREN, True),
    (_COMMENT, "*"): (_COMMENT_STAR, True),
    (_COMMENT, '"'): (_QUOTED, True),
}
_OTHERWISE: Final = {_QUOTED: (_COMMENT, True), _QUOTED_STAR: (_QUOTED, False)}
_ENDS_SENTENCE = frozenset(" \t\r\n\f")
# Languages whose text is quoted in brackets, behind a colon, and what closes which bracket.
_QUOTES: Final = re.compile(
    r"(?<![\w'])(?:lp|coq|elpi|ltac[12]?(?:val)?|(?:open_|u|pre)?(?:constr|term)|pattern|ident|ref):\Z"
)
_CLOSES: Final = {"(": ")", "{": "}"}
# A sign that a notation declares with a period at its end.
_DECLARED: Final = re.compile(
    r"(?<![^\s'\"])(?=[^\s\w]{0,8}[^\s\w.])[^\s\w'\"]{1,8}\.(?=[\s'\"]|\Z)"
)
_LAST_SIGN: Final = re.compile(r"[^\s\w'\"()]{1,9}\Z")
_KEPT = 24  # characters in front of a piece that are looked back at
_LONGEST_NOTATION = 200  # of a string that declares one
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
    sign: str = ""  # the bullet or the part of a selected goal that is being read, or a bracket
    depth: int = 0  # open comments, or brackets of a quotation
    body: bool = False  # whether a sentence has begun
    before: str = ""  # the end of the piece before
    opened: int = 0  # where the comment, string or quotation began that is open
    string: str = ""  # the beginning of the string that is open, as long as notations are
    notations: frozenset[str] = frozenset()  # signs that end with a period

    def step_ends(self, text: str) -> list[int]:
        ends: list[int] = []
        place = 0
        while place < len(text):
            stop = len(text)
            if self.state in _HIDDEN:
                limit = self.opened + _LONGEST - self.size
                if place >= limit:
                    self._give_up()
                    continue
                stop = min(stop, limit)
            if skipped := _SKIPPED.get(self.state):
                match = skipped.match(text, place, stop)
                assert match is not None
                if self.state == _STRING:
                    added = match.group()[:_LONGEST_NOTATION]
                    self.string = (self.string + added)[:_LONGEST_NOTATION]
                place = match.end()
                if place == stop:
                    continue
            if self.state == _BODY and text[place] == "." and place + 1 < len(text):
                # Skipping stops only at a period before white space, so there is no need to wait.
                place += 1
                self._dot(text, ends, place)
            elif self._take(text, ends, place):
                place += 1
        self.before = (self.before + text[-_KEPT:])[-_KEPT:]
        return ends

    def _give_up(self) -> None:
        """Read on as if what is open had been closed."""
        tally(UNCLOSED, _LONGEST)
        self.state, self.depth, self.body = _BODY, 0, True

    def _back(self, text: str, place: int) -> str:
        """Return the characters in front of a place, as far as they are looked back at."""
        if place >= _KEPT:
            return text[place - _KEPT : place]
        return (self.before + text[:place])[-_KEPT:]

    def _take(self, text: str, ends: list[int], place: int) -> bool:
        """Read one sign; return whether it was consumed, else it is read again in the new state."""
        state, char = self.state, text[place]
        if reader := _READERS.get(state):
            return reader(self, text, ends, place)
        self.state, read = _NEXT.get((state, char)) or _OTHERWISE[state]
        if self.state != state and state == _BODY:
            self.opened = self.size + place
        self.body = self.body or self.state == _BODY
        return read

    def _run(self, text: str, ends: list[int], place: int) -> bool:
        if text[place] != self.sign:
            ends.append(place)
            self.state = _START
        return text[place] == self.sign

    def _dot(self, text: str, ends: list[int], place: int) -> bool:
        """Read what follows a period of a sentence."""
        if text[place] == ".":
            self.state = _BODY
            return True
        sign = self.notations and _LAST_SIGN.search(self._back(text, place))
        if text[place] in _ENDS_SENTENCE and not (sign and sign.group() in self.notations):
            ends.append(place)
            self.state, self.body = _START, False
        else:
            self.state = _BODY
        return False

    def _colon(self, text: str, ends: list[int], place: int) -> bool:
        """Read what follows a colon: a bracket, in which another language may be quoted."""
        char = text[place]
        if char in _CLOSES and _QUOTES.search(self._back(text, place)):
            self.state, self.sign, self.depth = _QUOTATION, char, 1
            self.opened = self.size + place
            return True
        self.state = _BODY
        return False

    def _quotation(self, text: str, ends: list[int], place: int) -> bool:
        if text[place] == self.sign:
            self.depth += 1
        elif text[place] == _CLOSES[self.sign]:
            self.depth -= 1
            self.state = self.state if self.depth else _BODY
        return True

    def _string(self, text: str, ends: list[int], place: int) -> bool:
        """Read the end of a string, which may declare a notation."""
        if len(self.string) < _LONGEST_NOTATION:
            self.notations |= frozenset(_DECLARED.findall(self.string))
        self.state, self.string = _BODY, ""
        return True

    def _paren(self, text: str, ends: list[int], place: int) -> bool:
        if text[place] != "*":
            self.body = self.body or self.state == _PAREN
            self.state = _BODY if self.state == _PAREN else _COMMENT
            return False
        self.opened = self.opened if self.depth else self.size + place
        self.depth += 1
        self.state = _COMMENT
        return True

    def _comment_star(self, text: str, ends: list[int], place: int) -> bool:
        if text[place] != ")":
            self.state = _COMMENT
            return False
        self._close_comment()
        return True

    def _quoted_end(self, text: str, ends: list[int], place: int) -> bool:
        """Read the end of a string in a comment, or of a line, behind what would close that."""
        if text[place] == '"':
            self.state = _COMMENT
            return True
        tally(UNCLOSED, self.size + place - self.opened)
        self._close_comment()
        return False

    def _close_comment(self) -> None:
        self.depth -= 1
        self.state = _COMMENT if self.depth else _BODY if self.body else _START

    def _start(self, text: str, ends: list[int], place: int) -> bool:
        char = text[place]
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
            return self._select(text, ends, place)
        return True

    def _select(self, text: str, ends: list[int], place: int) -> bool:
        char = text[place]
        then = next((then for sign, then in _SELECTED[self.sign] if sign.match(char)), None)
        self.sign = then or ""
        if then is None:
            # It was no selector; its signs mean nothing in the body of a sentence.
            self.state, self.body = _BODY, True
        elif then == "{":
            self.state, self.sign = _START, ""
            ends.append(place + 1)
        return then is not None


_READERS: Final = {
    _START: _CoqSteps._start,
    _RUN: _CoqSteps._run,
    _SELECTOR: _CoqSteps._select,
    _DOT: _CoqSteps._dot,
    _COLON: _CoqSteps._colon,
    _QUOTATION: _CoqSteps._quotation,
    _STRING: _CoqSteps._string,
    _PAREN: _CoqSteps._paren,
    _COMMENT_PAREN: _CoqSteps._paren,
    _COMMENT_STAR: _CoqSteps._comment_star,
    _QUOTED_END: _CoqSteps._quoted_end,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Coq(Stepwise):
    """Ends a segment after each vernacular sentence, bullet and brace. Causal."""

    dialect: ClassVar[str] = "coq"
    version: ClassVar[int] = 3
    # White space stays with the sentence before: the next visible character shows the cut.
    lookahead = 1
    reader: ClassVar[type[Machine]] = _CoqSteps
