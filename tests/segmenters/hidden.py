r"""Texts that hide what would end a statement: in comments, strings, here-documents and addresses.

A form is a segmenter with templates of its statements; each statement is one segment. In them are
strings (\1), comments that go on in the line (\2) or end it (\3), and here-documents (\4), which
hold terminators, line ends, and the signs that open and close the other kinds. A segment starts at
each `\0` of a template as well. The same seed gives the same text.
"""

import random
import re
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from segmenters import Segmenter

# What ends, opens and closes something in one format or another.
_SIGNS = r"""; } { [ ] ( ) # // /* */ -- (* *) {- -} /- -/ ' " ` $$ \ \\ <!-- --> <a> </a> ]]>
    , @a{ % $ | <<E E a tea END; :: ;; *"""
_ATOMS = (
    *("; ", ". Then ", "? So ", "! ", "# ", "-- ", " ", "  ", ": ", "= ", "::= ", "So it is"),
    *("end. ", "proof ", "qed ", "by ", "BEGIN ", "- a", "http://a.b/?c=d. "),
    *_SIGNS.split(),
    *("''", '""', "'''", '"""', "```", "\u2018", "\u201d", "\u3002"),
)
_LINES = ("\n", "\n\n", "\n  ", "\n#", "\n- ", "\n;", "\n.", "\nE\n")


@dataclass(frozen=True)
class Hidden:
    """A kind of hidden text: its signs, and what may not be in it.

    `bans`: what is not in it, apart by spaces, besides what closes it; `doubles`, `escapes`: what
    is doubled or gets a backslash. `lines`: whether it holds line ends; `nests`: its signs nest.
    """

    opens: str
    closes: str
    bans: str = ""
    doubles: str = ""
    escapes: str = ""
    lines: bool = True
    nests: bool = False

    def write(self, draw: random.Random) -> str:
        atoms = _ATOMS + _LINES if self.lines else _ATOMS
        while True:
            inner = "".join(draw.choices(atoms, k=draw.randint(0, 5)))
            for sign in self.doubles:
                inner = inner.replace(sign, 2 * sign)
            for sign in self.escapes:
                inner = inner.replace(sign, "\\" + sign)
            if any(ban in inner for ban in self.bans.split()):
                continue
            if self.nests and draw.random() < 0.3:
                first, last = draw.choices((" ", "; ", " tea. So ", "\n.\n"), k=2)
                inner += " " + self.opens + first + self.closes + last
            if self._holds(inner):
                return self.opens + inner + self.closes

    def _holds(self, inner: str) -> bool:
        """Whether the text closes where it should, and nowhere before."""
        closing = self.closes.strip("\n") or self.closes
        if self.doubles or self.escapes == "\\" + self.closes:
            return True
        if self.nests:
            return self._nests(self.opens + inner + self.closes)
        both = self.opens[-1:] + inner + closing
        return both.find(closing, 1 if self.opens else 0) == len(both) - len(closing)

    def _nests(self, text: str) -> bool:
        """Whether the signs of a text close for the first time where it ends."""
        opens, closes = self.opens.strip(), self.closes.strip()
        depth = 0
        for match in re.finditer(f"{re.escape(opens)}|{re.escape(closes)}", text):
            depth += 1 if match[0] == opens else -1
            if depth == 0:
                return match.end() == len(text)
        return False


@dataclass(frozen=True)
class Form:
    """A format: its segmenter, kinds of strings and comments, and statements."""

    segmenter: Segmenter
    statements: tuple[str, ...]
    strings: tuple[Hidden, ...] = ()
    comments: tuple[Hidden, ...] = ()
    ends: tuple[Hidden, ...] = ()
    docs: tuple[Hidden, ...] = ()
    first: str = ""
    last: str = ""


inline = partial(Hidden, lines=False)


def string(sign: str, bans: str = "", **more: bool) -> Hidden:
    return Hidden(sign, sign, bans, escapes="\\" + sign, **{"lines": False, **more})


def line_comment(sign: str, bans: str = "") -> Hidden:
    return inline(sign, "\n", bans)


def hidden(form: Form, seed: int) -> tuple[str, list[int]]:
    """Return a text of a form, and where its segments start (characters)."""
    draw = random.Random(f"{form.segmenter!r} {seed}")
    kinds = {"\1": form.strings, "\2": form.comments, "\3": form.ends, "\4": form.docs}
    parts = form.first.split("\0")
    for _ in range(draw.randint(1, 5)):
        statement = draw.choice(form.statements)
        if parts[-2:-1] and parts[-2][-1] != "\n":  # a comment would belong to what is before
            statement = statement.lstrip("\2\3")
        for sign in statement:
            if sign == "\0":
                parts.append("")
            elif sign in kinds:
                chosen = kinds[sign]
                optional = sign in "\2\3" and draw.random() < 0.4
                written = "" if optional or not chosen else draw.choice(chosen).write(draw)
                before, *more = written.split("\0")
                parts[-1] += before
                parts += more
                parts[-1] += "\n" if sign == "\3" and parts[-1] and parts[-1][-1] != "\n" else ""
            else:
                parts[-1] += sign
        parts.append("")
    last = form.last.split("\0")
    parts = [part for part in parts if part]
    parts = [*parts[:-1], parts[-1] + last[0], *last[1:]]
    return "".join(parts), [0, *accumulate(map(len, parts[:-1]))]
