"""Causal sentence boundaries: the next visible character decides whether a sentence ends.

One regular expression, linear in the text, finds candidates: a run of terminators with the quotes,
brackets and emoji that close after it, a blank line, a bullet, a smiling face. Each is kept or
dropped according to the word before (abbreviation, initial, list number), searched in a bounded
window, and to the first visible character after it. Trailing white space stays with the sentence
before. The next word is read only by option (`ahead`). The rules pair only quotes that may face
either way (`quotes`), and know no language beyond lists of words. Thai and Lao are cut at white
space, coarsely.
"""

import hashlib
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence

from segmenters.base import Ruling
from segmenters.offsets import distinct
from segmenters.prose import candidate_pattern, word_lists
from segmenters.prose.candidates import LONG, Candidates, Places, candidates
from segmenters.prose.endings.doubt import (
    WINDOW,
    Doubt,
    Signs,
    Table,
    is_blank_line,
    is_inserted,
    ruling,
)
from segmenters.prose.endings.foresight import Foresight, foresight
from segmenters.prose.endings.habits import Habits
from segmenters.prose.endings.language import ANY
from segmenters.prose.endings.predicates import is_bracketed
from segmenters.prose.endings.table import ENDS
from segmenters.prose.openings import openings
from segmenters.prose.quotes import Quotes
from segmenters.prose.signs import BULLETS, ELLIPTIC, RARE, STRONG_SIGNS

# Fewer places than these are sorted faster without numpy.
_FEW = 256
# The rules of what the tables are not asked about.
_BLANK_LINE = "blank line"
_LINE_END = "line end"
_BULLET = "bullet"
_OPENING = "item, paragraph or phrase begins"


def tables() -> str:
    """Return a digest of the lists and patterns, for fingerprints."""
    data = [word_lists.LINES, candidate_pattern.PATTERNS[1].pattern, RARE.pattern]
    return hashlib.sha256(repr(data).encode()).hexdigest()[:16]


def sentence_ends(
    text: str,
    *,
    next_word: bool = False,
    language: str = ANY,
    position: int = 0,
    last: int | None = None,
    signs: str = "",
    starts: Sequence[int] = (),
    quoted: Sequence[tuple[str, int]] = (),
    thai: Callable[[str, Sequence[int]], list[int]] | None = None,
    log: list[Ruling] | None = None,
) -> list[int]:
    """Return character offsets, increasing, at which a sentence ends and another starts.

    `next_word`: read the next word where the next character leaves a doubt. `language`: its code,
    for its abbreviations; ANY: as far as the text shows it (`language`). A scan may resume at
    `position`, that of a letter, if the sentence there is known to start at `last`, behind ones of
    `signs` (`habits`); `quoted`: what is open there (`Quotes.open`). `starts`: where sentences
    start for another reason, increasing. `thai`: chooses from places behind white space of Thai
    those at which sentences start. `log` gets what decided at each candidate: then the tables are
    asked about all of them, without shortcuts, which is slower and cuts the same.
    """
    foreseen = foresight(next_word, language)
    scan = candidates(text, position, foreseen=foreseen, lanes=log is None)
    others = openings(
        scan.text, position, starts, next_word=next_word, pauses=scan.pauses, thai=thai
    )
    sure = _united(scan.sure, others)
    if last is None:
        last = len(text) - len(text.lstrip())  # leading white space belongs to the first sentence
    reader = _Reader(scan, sure, foreseen, last, signs, quoted, log)
    reader.read()
    return reader.ends


def is_one(text: str) -> bool:
    """Return True only for one sentence: a short line of ASCII without a candidate in it."""
    if len(text) >= LONG or not text.isascii() or "\n" in text or "\r" in text:
        return False
    match = candidate_pattern.PATTERNS[0].search(text)
    return match is None or (match.end() == len(text) and not match["spaced"])


class _Reader:
    """Decides about the candidates of a text in turn.

    `ends`: where sentences end so far; `last`: the last of them, or where the text starts; `sure`:
    where others end beyond doubt, in order, of which `next` is the next one and `passed` its index.
    """

    __slots__ = (
        *("begun", "ends", "foreseen", "has_brackets", "last", "length", "log", "next", "passed"),
        *("quoted", "scan", "signs", "sure", "text", "_habits", "_quotes"),
    )

    def __init__(
        self,
        scan: Candidates,
        sure: Places,
        foreseen: Foresight,
        last: int,
        signs: str,
        quoted: Sequence[tuple[str, int]],
        log: list[Ruling] | None,
    ) -> None:
        self.scan, self.text, self.length = scan, scan.text, len(scan.text)
        self.foreseen, self.last, self.log = foreseen, last, log
        self.ends: list[int] = []
        self.sure, self.passed = sure, 0
        self.next = sure[0] if sure else self.length
        self.has_brackets = "(" in self.text or "[" in self.text
        # Most texts need neither.
        self.begun, self.signs, self.quoted = last, signs, quoted
        self._habits: Habits | None = None
        self._quotes: Quotes | None = None

    @property
    def habits(self) -> Habits:
        if self._habits is None:
            self._habits = Habits(self.text, self.ends, self.begun, self.signs)
        return self._habits

    @property
    def quotes(self) -> Quotes:
        if self._quotes is None:
            self._quotes = Quotes(self.text, self.scan.position, self.quoted)
        return self._quotes

    def read(self) -> None:
        """Decide about all candidates, each behind the one before."""
        if self.scan.starts is None:
            self._search(self.scan.position)
        else:
            self._look_at(self.scan.starts)
        if self.next < self.length:
            self.advance(self.length)

    def _search(self, place: int) -> None:
        decide, meet, resumed = self.decide, self.meet, place
        while resumed >= 0:
            place, resumed = resumed, -1
            for match in self.scan.pattern.finditer(self.text, place):
                kind = match.lastgroup
                if kind == "simple":
                    decide(*match.span())
                elif kind != "never" and (place := meet(match)):
                    resumed = place
                    break

    def _look_at(self, starts: Places) -> None:
        match_at, meet, decide, text = self.scan.pattern.match, self.meet, self.decide, self.text
        end = 0
        for start, place in zip(starts, self.scan.places, strict=True):
            if start < end:
                continue
            if place:
                decide(start, place)
                end = place
            elif match := match_at(text, start):
                end = match.end()
                if match.lastgroup == "simple":
                    decide(start, end)
                elif match.lastgroup != "never":
                    end = meet(match) or end

    def advance(self, place: int) -> None:
        """Add the sure ends before a place."""
        sure, first = self.sure, self.passed
        self.passed = last = bisect_left(sure, place, first)
        while first < last and sure[first] <= self.last:
            first += 1
        if first < last:
            self.ends.extend(sure[first:last])
            self.last = self.ends[-1]
            if self.log is not None:
                self.log.extend(Ruling(end, True, _OPENING) for end in sure[first:last])
        self.next = sure[last] if last < len(sure) else self.length

    def decide(self, start: int, place: int) -> None:
        """Decide about a terminator with what closes behind it, and white space, up to a place."""
        if self.next < place:
            self.advance(place)
        if not self.last < place < self.length:
            return
        text, last = self.text, self.last
        tail = text[start - WINDOW if start > WINDOW else 0 : start]
        word, signs = tail.rsplit(None, 1)[-1:], text[start : place + 1]
        if not word or tail[-1].isspace():  # apart, as in tokenised text
            word = ["".join((*word, " "))]
        ends = self.foreseen.ends(signs, word[0]) if start else ENDS
        if ends is False:
            return
        if self.has_brackets:
            first = start - 2 * WINDOW if start > 2 * WINDOW else 0
            if (text.find("(", first, start) >= 0 or text.find("[", first, start) >= 0) and (
                is_inserted(text, start, place, last)
            ):
                ends = ENDS
        if ends is not True:
            ends = self.ruling(self.foreseen[signs].signs, start, place, ends)[1]
        if ends:
            self.ends.append(place)
            self.last = place

    def ruling(self, signs: Signs, start: int, place: int, table: Table) -> tuple[str, bool]:
        doubt = Doubt(
            signs,
            self.text,
            start,
            place,
            self.last,
            next_word=self.foreseen.next_word,
            habits=self.habits,
            language=self.foreseen.language,
        )
        return ruling(doubt, table)

    def meet(self, match: re.Match[str]) -> int:
        """Decide about a match; return where to go on in it, if something opens there, else 0."""
        kind, text = match.lastgroup, self.text
        start, place = match.span()
        resumed = 0
        if kind == "gap":
            run, spaced = match.span("spaced")
            several = run > start + 1 and (self.scan.wide or text[start] in STRONG_SIGNS)
            if spaced > run or several:
                place = self._opening(start, run, spaced) or place
            if place < match.end():  # what opens there may end at once
                resumed = place
                near = place <= run + 1 and text[place] != "\u201d"
            else:
                near = match.start("gap") == run
            if near and self.log is None:
                self.decide(start, place)
                return resumed
        elif kind is None and text[place - 1] in BULLETS:
            place -= 1
        if self.next < place:
            self.advance(place)
        if self.last < place < self.length:
            self.judge(match, kind, place)
        return resumed

    def _opening(self, start: int, run: int, spaced: int) -> int:
        """Return where the first quote or ellipsis among some signs opens, 0 if none does.

        `run`, `spaced`: where the signs end, and those between spaces behind them.
        """
        if run > start + 1:
            if self.text[start + 1] == "\u2026" and self.text[start] in ELLIPTIC:
                return start + 1
            opening = self.quotes.opening(start, run, wide=self.scan.wide)
            if opening > 0:
                return opening
        return max(0, self.quotes.opening_apart(run, spaced)) if spaced > run else 0

    def judge(self, match: re.Match[str], kind: str | None, place: int) -> None:
        """Decide about a match of a kind that nothing is foreseen of."""
        start = match.start()
        if kind == "always":  # a full stop beyond doubt, if it is in no bracket
            rule = ""
            end = not is_bracketed(self.text, start, self.last) or is_blank_line(match["always"])
        elif kind == "lines":
            end = is_blank_line(match[0])
            rule = _BLANK_LINE if end else _LINE_END
        elif kind is None:
            rule, end = _BULLET, True
        else:
            rule, end = self.ruling(_signs(self.text, match, place), start, place, ENDS)
        if self.log is not None:
            self.log.append(Ruling(place, end, rule))
        if end:
            self.ends.append(place)
            self.last = place


def _signs(text: str, match: re.Match[str], place: int) -> Signs:
    """Return the signs of a match, up to a place."""
    start = match.start()
    following = text[place]
    if match["gap"] is None:
        return Signs(match[0], match["unmarked"] or "", following, unmarked=True)
    run = text[start : min(place, match.start("spaced"))]
    gap = match["gap"] if place == match.end() else text[start + len(run) : place]
    return Signs(run, gap, following, match["spaced"], match["emoji"])


def _united(first: Places, second: Places) -> Places:
    """Return the places of both, once and in order."""
    if not (first or second):
        return first
    if len(first) + len(second) < _FEW:
        return array("q", sorted({*first, *second}))
    return array("q", distinct(first, second).tobytes())
