"""Which way quotes face, by what is open before them and by what is beside them.

The same sign opens a quotation in one language and closes one in another, and a straight quote does
both. Where there are spaces, they tell: a quote faces the text that it touches. Between ideographs,
and apart from the text at both sides, what is open tells: a sign closes the quotation that it can
close, else it opens one. Quotations end at a blank line at the latest. Signs behind many others are
not read, so that a long run of them can be shortened.
"""

import re
from collections.abc import Sequence

from segmenters.prose import signs

# What closes a quotation, by what opens it; the second of two commas or back-quotes is both.
_PAIRS = {
    **{"\u201e": "\u201c\u201d", "\u201a": "\u2018\u2019", "\u201c": "\u201d", "\u2018": "\u2019"},
    **{"\u201d": "\u201d", "\u2019": "\u2019", "\u00ab": "\u00bb", "\u2039": "\u203a"},
    **{"\u00bb": "\u00ab\u00bb", "\u203a": "\u2039\u203a", '"': '"', "'": "'", "\uff02": "\uff02"},
    **{"\u300c": "\u300d", "\u300e": "\u300f", "\u300a": "\u300b", "\u3008": "\u3009"},
    **{"\uff62": "\uff63", "\u301d": "\u301e\u301f", "\ufe41": "\ufe42", "\ufe43": "\ufe44"},
    **{"''": ("''",), "`": ("''",), ",": ("''",)},
}
_SIGNS = tuple(dict.fromkeys([*_PAIRS, *(sign for closers in _PAIRS.values() for sign in closers)]))
_OPENS_OF = {s: tuple(o for o, closers in _PAIRS.items() if s in closers) for s in _SIGNS}
_OPEN = frozenset(sign for sign, opens in _OPENS_OF.items() if not opens)
_APOSTROPHES = frozenset("'\u2019")
# What opens only where a space before it says so, if ever; and not where spaces are on both sides.
_CLOSE = frozenset(_SIGNS) - frozenset(_PAIRS) | frozenset("\u201d\u2019")
_CLOSE_APART = frozenset("\u2019\u00bb\u203a")
# What opens a quotation with a space behind it has that space in `Quotes.open`; these close others
# of their kind only if both are apart.
_ALIKE = frozenset(('"', "\u201d", "'", "''"))
_RUN = re.escape(signs.PLAIN + signs.STRONG + signs.CLOSERS + signs.GERMAN_CLOSERS)
# How many signs of a run are read.
MOST = 16
_SINGLE = re.escape("".join(sign for sign in _SIGNS if sign not in ("`", ",", "''")))
# A quote, but no apostrophe within a word of ASCII, or a blank line.
QUOTE = re.compile(
    rf"[\n`,{_SINGLE}](?!(?<=[A-Za-z0-9]['\u2019])[A-Za-z0-9])(?:(?<=\n)[ \t]*+(?P<blank>\n)"
    rf"|(?<![{_RUN}]{{{MOST}}}.)(?:(?<=[{_SINGLE}])|(?<=``)|(?<=,,)))"
)
_LEADS = frozenset("([{:\u2014\u2013-/\uff08\uff1a\u3010")
_FOLLOWS = frozenset(",.;:!?)]}\uff0c\u3002\u3001\uff1b\uff1a\uff01\uff1f\uff09\u2026")
_APART, _BEHIND_SPACE = re.compile(r"''|\S"), re.compile(r"\s++(.)")
_DEEPEST = 8
# A quotation that closes between spaces is no longer than this, in characters: else its end was
# left out. (Of a long run of signs, text that is still being written keeps more than this.)
_LONGEST = 500
# How far back characters without spaces are looked for.
_WINDOW = 24
# What may open a quotation or bracket right behind a terminator, between ideographs.
OPENERS = frozenset(_PAIRS) - {*",`"} | frozenset("(\uff08\u3010\u3014")


def is_wide(text: str, place: int) -> bool:
    """Return whether the text before a place is of a script written without spaces (CJK)."""
    return signs.WIDE.search(text, max(0, place - _WINDOW), place) is not None


def _closed_by(sign: str) -> tuple[str, ...]:
    """Return what a sign may close; a single mark may be the first half of a doubled one."""
    return _OPENS_OF["'"] + _OPENS_OF["''"] if sign[0] == "'" else _OPENS_OF[sign]


class Quotes:
    """Follows the quotations of a text.

    `open`: of those before `place`, the outermost first, each as its sign and where that is.
    """

    __slots__ = ("half", "open", "place", "text")

    def __init__(self, text: str, place: int, open: Sequence[tuple[str, int]]) -> None:
        self.text, self.place, self.open = text, place, [*open]
        self.half = -1  # a single mark before another, if they do not close and open

    def read(self, place: int) -> None:
        """Read up to a place."""
        blank = self.text.rfind("\n\n", self.place, place)
        for match in QUOTE.finditer(self.text, max(self.place, blank), place):
            if match["blank"]:
                self.open.clear()
            else:
                self._meet(match[0], match.start())
        self.place = max(self.place, place)

    def opening(self, start: int, stop: int, *, wide: bool) -> int:
        """Return the first sign of a run of terminators that opens a quotation, -1 if none does.

        Where words are between spaces, only what may also open one right behind a terminator.
        `wide`: whether there may be Chinese or Japanese before it.
        """
        strong = self.text[start] in signs.STRONG_SIGNS
        opening = signs.GERMAN_CLOSERS if strong else ""
        if wide and is_wide(self.text, start):
            opening = _SINGLE
        for match in QUOTE.finditer(self.text, start, stop) if opening else ():
            self.read(match.start())
            if (
                match[0] in opening
                and self.half != match.start() - 1
                and not self._closes(match[0])
            ):
                return match.start()
        return -1

    def opening_apart(self, start: int, stop: int) -> int:
        """Return the first of some quotes, each behind a space, that closes none; else -1."""
        for match in _APART.finditer(self.text, start, stop):
            self.read(match.start())
            if not self._closes_apart(match[0], match.end()):
                return match.start()
        return -1

    def _closes(self, sign: str) -> bool:
        """Return whether a sign right behind others closes a quotation."""
        return sign in _CLOSE or bool(self.open and self.open[-1][0].rstrip() in _closed_by(sign))

    def _closes_apart(self, sign: str, end: int) -> bool:
        """Return whether a sign between spaces, up to `end`, closes a quotation."""
        near = [opened for opened, start in self.open if end - start <= _LONGEST]
        return any(
            (opened + " " if opened in _ALIKE else opened) in near
            for opened in _closed_by(sign)
            if opened in _ALIKE or opened != sign
        )

    def _meet(self, sign: str, place: int) -> None:
        """Read a sign, of which both neighbours are known; two single marks are one double."""
        before, after = self.text[place - 1 : place] or " ", self.text[place + 1 : place + 2]
        if sign == "'" and 0 <= self.half == place - 1:
            sign, before = "''", self.text[place - 2 : place - 1] or " "
        elif sign == after == "'" and not (self.open and self.open[-1][0] == "'"):
            self.half = place
            return
        self.half = -1
        self._read(sign, place, before, after)

    def _read(self, sign: str, place: int, before: str, after: str) -> None:
        ranks = [rank for rank, one in enumerate(self.open) if one[0].rstrip() in _OPENS_OF[sign]]
        # Behind ideographs (from U+2E80 on) the same sign is a quote.
        in_word = sign in _APOSTROPHES and before.isalnum() and before < "\u2e80"
        if in_word and (after.isalnum() or not ranks):
            return
        apart = not after or after.isspace()
        begins = before.isspace() or before in _LEADS or (self.open and before == self.open[-1][0])
        closes = ranks and after in _FOLLOWS
        if sign in _OPEN or (begins and not (apart or closes) and sign in _PAIRS):
            self._push(sign, place)
        elif before.isspace() and apart:
            self._read_apart(sign, place)
        elif apart or closes or sign in _CLOSE:
            del self.open[ranks[-1] if ranks else len(self.open) :]
        elif ranks and ranks[-1] == len(self.open) - 1:
            self.open.pop()
        elif is_wide(self.text, place + 1):
            self._push(sign, place)

    def _read_apart(self, sign: str, place: int) -> None:
        behind = _BEHIND_SPACE.match(self.text, place + 1)
        follows = behind is not None and behind[1] in _FOLLOWS
        alike = sign in _ALIKE and self.open and self.open[-1][0] == sign
        if follows or alike or self._closes_apart(sign, place + 1):
            while self.open and self.open.pop()[0].rstrip() not in _closed_by(sign):
                pass
        elif sign in _PAIRS and sign not in _CLOSE_APART:
            self._push(sign + " " * (sign in _ALIKE), place)

    def _push(self, sign: str, place: int) -> None:
        bare = sign.rstrip()
        if self.open and self.open[-1][0].rstrip() == bare in _PAIRS[bare]:
            self.open.pop()  # it was never closed
        del self.open[: len(self.open) + 1 - _DEEPEST]
        self.open.append((sign, place))
