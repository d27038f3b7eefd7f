"""The machine of dialects of proofs that have tokens: it reads left to right, in any pieces.

Outside of hidden text (comments, strings, quotations) the pattern of the dialect finds the tokens
that matter; inside, that of what closes it. A token is read once so many characters (`reach`) are
known from its start on, which is more than any token reads, so batch and online cuts are equal by
construction. What is longer is hidden text, which has an opening and a closing token.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from array import array
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple

from segmenters.base import Machine, Ruling
from segmenters.places import SPACE, past

_LINE_ENDS = ("\n", "\r")
# The groups of `behind`, and of what opens hidden text.
_OWN = frozenset(("eol", "next", *(f"hides{rank}" for rank in range(8))))
_NEXT = re.compile(r"(?P<next>\S)")


class Hidden(NamedTuple):
    """Text without tokens: patterns of what opens and closes it, and of what does neither."""

    opens: str
    closes: str
    skips: str = r"(?!)"
    nests: bool = False

    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of what matters inside."""
        opens = f"|(?P<open>{self.opens})" if self.nests else ""
        return re.compile(f"(?:{self.skips})|(?P<close>{self.closes}){opens}", re.DOTALL)


class Rules(NamedTuple):
    """The compiled patterns of a dialect, and how many characters from its start a token reads."""

    outside: re.Pattern[str]
    inside: tuple[re.Pattern[str], ...]
    behind: re.Pattern[str]  # what may follow a step on its line
    reach: int
    lines: bool = False  # whether tokens begin with the line end in front of them

    @classmethod
    def of(
        cls,
        tokens: str,
        *,
        signs: str,
        hidden: tuple[Hidden, ...],
        reach: int,
        comments: int = 1,
        behind_sign: bool = False,
    ) -> Rules:
        """Compile them; `tokens`: patterns with named groups, tried before what hides text.

        `signs`: the characters with which all begin, which saves half of the time; the first rows
        of `hidden` are those of `comments`. `behind_sign`: the patterns, also of what opens hidden
        text (`hides0` ..), look back at the first sign, which saves half of what is left.
        """
        opens = [f"(?P<hides{rank}>{row.opens})" for rank, row in enumerate(hidden)]
        every = f"(?=[{signs}])(?:{'|'.join([tokens, *opens])})"
        return cls(
            re.compile(f"[{signs}](?:{tokens})" if behind_sign else every, re.DOTALL),
            tuple(row.pattern() for row in hidden),
            re.compile("|".join([r"(?P<eol>[\r\n])", *opens[:comments], r"(?P<next>\S)"])),
            reach,
        )


@dataclass(slots=True, kw_only=True)
class Scanner(Machine):
    """Reads the tokens of a dialect; a subclass has its rules, and decides where steps start."""

    rest: str = ""  # what is known and not read, behind so many characters of context
    context: int = 0
    hidden: int = -1  # what is open, by its rank in the rules, and how deep
    depth: int = 0
    first: int = -1  # the first visible character of the text; then where the last step starts
    # A step has ended: the next visible character starts one, on a line below also a comment.
    ended: bool = False
    below: bool = False
    # Cuts of this piece; a whole text may have millions, and a list takes five times the memory.
    found: array[int] = field(default_factory=lambda: array("q"))

    rules: ClassVar[Rules]
    looks_back: ClassVar[int] = 4  # characters before a token that it may read

    @property
    def decided(self) -> int:
        return self.size - 1 - len(self.rest) + self.context

    def close(self) -> list[int]:
        return self.scan("", final=True).tolist()

    def _read(self, text: str) -> list[int]:
        return self.scan(text, final=False).tolist()

    def scan(self, text: str, *, final: bool) -> array[int]:
        """Read the next piece; return the cuts that it decides."""
        base, text = self.size - len(self.rest), self.rest + text
        place, size = self.context, len(text)
        if self.first < 0 and (visible := past(SPACE, text, place)) < size:
            self.first = base + visible
        last = size if final else size - self.rules.reach
        while (after := self._run(self.pattern(), text, place, last, base)) >= 0:
            place = after
        place = min(max(~after, last + 1), size)
        self.context = min(place, self.looks_back)
        self.rest = text[place - self.context :]
        cuts, self.found = self.found, array("q")
        return cuts

    def _run(self, pattern: re.Pattern[str], text: str, place: int, last: int, base: int) -> int:
        """Follow matches of a pattern up to `last`; return where another is to go on.

        Without another match, return ~place, which is negative.
        """
        for match in pattern.finditer(text, place):
            if match.start() > last:
                break
            place = match.end()
            kind = match.lastgroup
            if kind is None:
                continue
            if kind in _OWN or self.hidden >= 0:
                after = self._take(kind, match, base)
            else:
                start = match.start()
                after = self.token(kind, match, base + start) - base
                if after < start:
                    after = start
            if after != place or self.pattern() is not pattern:
                return after
        return ~place

    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of what is looked for in this state."""
        if self.hidden >= 0:
            return self.rules.inside[self.hidden]
        if self.ended:
            return _NEXT if self.below else self.rules.behind
        return self.rules.outside

    def _take(self, kind: str, match: re.Match[str], base: int) -> int:
        """Follow a match that is no token; return where to read on."""
        if self.hidden >= 0:
            self.depth += 1 if kind == "open" else -1
            if not self.depth:
                self.hidden = -1
        elif kind.startswith("hides"):
            self.hidden, self.depth = int(kind[5:]), 1
            self.hide(match, base + match.start())
        elif kind == "eol":
            self.below = True
        else:
            self.cut(base + match.start())
            self.ended = self.below = False
            return self.line_start(match)
        return match.end()

    def cut(self, place: int) -> None:
        """Start a step at a place, unless only white space is before it."""
        if place > self.first:
            self.found.append(place)
            self.first = place

    def line_start(self, match: re.Match[str]) -> int:
        """Return where a match starts, or the line end in front of it if tokens begin with that."""
        start = match.start()
        return start - (self.rules.lines and match.string[max(0, start - 1) : start] in _LINE_ENDS)

    def hide(self, match: re.Match[str], place: int) -> None:
        """Follow what opens hidden text."""

    @abstractmethod
    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        """Follow a token at a place, by the name of its group; return where to read on."""


# What the groups of tokens are, where their names do not say it.
_NAMES: Final = {
    "word": "command",
    "end": "end of a step",
    "code": "indentation of a line",
    "line": "indentation of a line",
    "alone": "line of its own",
    "item": "declaration",
    "ml": "declaration",
    "leads": "tactical before a line",
    "tactic": "tactical",
    "link": "link of equalities",
    "starts": "formula at the margin",
    "comma": "comma behind a statement",
    "margin": "comment at the margin",
}


class _ToldScanner:
    """Notes for each cut of the scanner beside it which token decided it."""

    rule: str
    rulings: list[Ruling]

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        sign = " ".join(match[0].split())
        name = _NAMES.get(kind, kind)
        self.rule = f"{name} {sign!r}" if sign else name
        return super().token(kind, match, place)  # type: ignore[misc,no-any-return]

    def cut(self, place: int) -> None:
        before = len(self.found)  # type: ignore[attr-defined]
        super().cut(place)  # type: ignore[misc]
        if len(self.found) > before:  # type: ignore[attr-defined]
            self.rulings.append(Ruling(place, True, self.rule))


def told(reader: type[Scanner], machine: Machine, text: str) -> list[Ruling]:
    """Return which token decided each cut of a text by a scanner."""
    telling: Any = object.__new__(type(reader.__name__, (_ToldScanner, reader), {}))
    for one in fields(machine):
        setattr(telling, one.name, getattr(machine, one.name))
    telling.rule, telling.rulings = "beginning of a step", []
    telling.push(text)
    telling.close()
    rulings: list[Ruling] = telling.rulings
    return rulings
