"""Steps of natural-language proofs, chains of thought and arithmetic derivations.

`ChainOfThought`: a step ends at each line end, with the blank lines after it, and after each
sentence by the causal rules of `prose.rules`. A label ("Step 2.", "**3.**", "(b)", "Case 1:")
belongs to the step that it names, also over a line end. A display is never cut and stays with its
sentence: with the text above unless that has ended, and with a small letter or a comma below; of
two displays in a row each is a step. Lines of code, tables and headings are whole, and so are the
tags of models that reason (`<think>`). A formula in a line is not cut unless it turns out to be a
price. What is open is found by `formulas`, and the next visible character is all that is read. So a
step in a line after unfinished text ("so x = 2 Step 3: ...") is missed.

`ArithmeticSteps`: one reduction of `expr = expr' = ... = answer` per step. '=' ends the step before
it and belongs to it, as in the arithmetic task of BiPE (He et al., arXiv 2401.16421, after Feng et
al., arXiv 2305.15408); so does a line end. The '=' of a comparison or an assignment ('==', '<=',
'>=', '!=', ':=') ends nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from segmenters.base import Machine, Ruling, Segmenter, Window
from segmenters.places import SPACE, past
from segmenters.proofs.formulas import CODE, DISPLAY, PRICE, ROUND, ROW, SENTENCE, Formulas, Span
from segmenters.proofs.items import Kinds, Stepwise
from segmenters.prose import rules
from segmenters.prose.sentences import SentenceMachine

_LINE_END = re.compile(r"[\n\r\u2028\u2029]\s*+")
_LABEL = re.compile(
    r"[*_#>\s-]*(?:(?:step|case|claim|part|lemma|theorem|proposition|corollary|fact|remark|example"
    r"|exercise|problem|question|solution|proof|answer|definition|goal|stage|subgoal|substep)"
    # Its number; before a colon, any short word. "Problem solved." is a sentence.
    r"(?: *\(?(?:\d[\w.]{0,7}|[a-z](?:\.?\d[\d.]{0,5})?|[ivx]{1,6}|[\w.]{1,8}(?=\)?[*_]*:)"
    r"|one|two|three|four|five|six|seven|eight|nine|ten)\)?)?"
    r"|\(?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})\)?)"
    r"[*_]*[.:)][*_]*",
    re.IGNORECASE,
)
_LONGEST_LABEL = 48
# What follows a display in its sentence, what pauses at its end, and what ends a line for good.
_STOPS = (".", "?", "!", SENTENCE)
_GOES_ON, _PAUSES, _CLOSED = ",;:.)]}%", ",;:", ".!?*|`\u3002\uff01\uff1f"
# What starts a section at the start of a line, and how much white space before it is read.
_SECTION = re.compile(
    r"#{1,6}[ \t]|\*\*[^*\n]{1,80}\*\*:?[ \t]{0,9}+\r?\n"
    r"|</?(?:think|thought|reasoning|answer)\w*>"
    r"|\\(?:sub){0,2}section\b"
    r"|[*_]{0,3}(?:step|case|part|phase|stage)[ \t]{1,2}\(?(?:\d|(?-i:[A-Z])\b)",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"</(?:think|thought|reasoning|answer)\w*>\s*\Z")
_BLANK = re.compile(r"(?:\n[^\S\n]*\n|\r[^\S\r\n]*\r|\u2029|\r\n[^\S\n]*\r\n)\s*\Z")
_GAP = 40
_HEAD, _BEGIN_SECTION = 104, "#*<\\_SsCcPp"
_STEP_END = re.compile(r"(?<![=<>!:])=(?!=)|\n")


@dataclass(slots=True, kw_only=True)
class _Steps(Machine):
    sentences: SentenceMachine = field(default_factory=SentenceMachine)
    formulas: Formulas = field(default_factory=Formulas)
    tail: str = ""  # the end of the text, as long as a label
    start: int | None = None  # of the current step; None: nothing visible yet
    broken: bool = False  # whether the white space at the end holds a line end
    ended: str | None = None  # the mark of a display that ended before the white space at the end
    behind: str = ""  # the last visible character
    line: str = ""  # the first visible character of the last line
    lists: int = 0  # open lists of LaTeX

    def copy(self) -> Self:
        twin = super(_Steps, self).copy()
        twin.formulas = copy.copy(self.formulas)
        return twin

    def _read(self, text: str) -> list[int]:
        shadow, formulas = self.formulas.read(text)
        lines, after = self._line_starts(text), self._after(text, formulas.ends)
        ends = sorted(lines.union(self.sentences.push(shadow), after))
        if self.start is None:
            space = len(text) - len(text.lstrip())
            if space == len(text):
                return []
            self.start, self.line = self.size + space, text[space]
        first, before = self.start, self.size - len(self.tail)
        self.tail += text
        cuts = []
        for end in ends:
            span = formulas.open_at(end)
            self.lists = formulas.lists_at(end, self.lists)
            if end > first and self._ruling(end, before, span, end in lines, after.get(end))[0]:
                cuts.append(end)
                self.start = end
            if end in lines and not (span and span.kind == DISPLAY):
                self.line = self.tail[end - before]
        self.lists = formulas.lists_at(self.size + len(text), self.lists)
        self.behind = text.rstrip()[-1:] or self.behind
        self.tail = self.tail[-_LONGEST_LABEL:]
        return cuts

    def _after(self, text: str, displays: dict[int, str]) -> dict[int, str]:
        """Return where visible text follows a display or tag, with the mark of the display."""
        states = {}
        first = past(SPACE, text)
        if self.ended is not None and first < len(text):
            states[self.size + first] = self.ended
            self.ended = None
        for end, mark in displays.items():
            place = past(SPACE, text, end - self.size)
            if place < len(text):
                states[self.size + place] = mark
            else:
                self.ended = mark
        return states

    def _ruling(
        self, end: int, before: int, span: Span | None, line: bool, display: str | None
    ) -> tuple[bool, str]:
        """Return whether a step ends where a line, a sentence or a display does, and the rule."""
        assert self.start is not None
        following = self.tail[end - before]
        if span and span.kind in (CODE, ROW):
            return line, "line of code, a table or a heading"
        if span and span.kind in (DISPLAY, ROUND):
            return False, "in a display or formula"
        if span and self.start <= span.start:
            return self._ends_in_formula(end - before, span, line=line), "in a formula or price"
        if display == "":
            return True, "tag"
        if display is not None and not (line and display == SENTENCE):
            goes_on = following.islower() or following in _GOES_ON
            return not goes_on and (
                line or display in _STOPS or (display not in _PAUSES and following.isupper())
            ), "behind a display"
        if _is_label(self.tail, self.start - before, end - before, line=line):
            return False, "label of a step"
        if line and following in "\\$" and self._joins(end, before):
            return False, "formula goes on with the line above"
        return True, "line end" if line else "sentence"

    def _ends_in_formula(self, place: int, span: Span, *, line: bool) -> bool:
        """Return whether a step ends in what looks like a formula, but holds a sentence."""
        if line or not self.tail[place].isupper():
            return False
        return span.kind == PRICE or self._behind(place) in ".?"

    def _behind(self, place: int) -> str:
        """Return the last visible character before a place of the tail."""
        while place and self.tail[place - 1].isspace():
            place -= 1
        return self.tail[place - 1] if place else self.behind

    def _joins(self, end: int, before: int) -> bool:
        """Return whether a line that starts with a formula goes on with the sentence above."""
        behind = self._behind(end - before)
        if behind in ":,":
            return True
        if self.line in "\\$#|" or behind in _CLOSED or self.lists:
            return False
        if self.tail[end - before] == "\\" or self.formulas.known <= end:
            return True
        gap = self.tail[max(0, end - before - _GAP) : end - before]
        return gap.count("\n", len(gap.rstrip())) > 1  # a line with a price follows its sentence

    def _line_starts(self, text: str) -> set[int]:
        """Return where visible text follows a line end, in characters of the whole text."""
        # Put back a line end of the previous piece.
        lines = "\n" * self.broken + text
        starts = {match.end() for match in _LINE_END.finditer(lines)}
        moved = self.size - self.broken
        self.broken = len(lines) in starts
        return {moved + start for start in starts if start < len(lines)}


class _ToldSteps(_Steps):
    """Notes which rule decided about each place."""

    rulings: list[Ruling]

    def _ruling(self, end: int, *known: Any) -> tuple[bool, str]:  # type: ignore[override]
        ends, rule = _Steps._ruling(self, end, *known)
        self.rulings.append(Ruling(end, ends, rule))
        return ends, rule


def _part(text: str, start: int, end: int) -> tuple[str, int]:
    """Return what a step begins, a section, a paragraph or neither; the rule is a `Kinds`."""
    before = max(0, start - _GAP)
    line = _LINE_END.search(text, before, start) is not None
    if line and (
        _SECTION.match(text, start, min(end, start + _HEAD)) or _THOUGHT.search(text, before, start)
    ):
        return "theory", start + _HEAD
    blank = _BLANK.search(text, before, start)
    return "lemma" if blank else "", start + (_HEAD if text[start] in _BEGIN_SECTION else 1)


def _is_label(text: str, start: int, end: int, *, line: bool) -> bool:
    """Return whether text[start:end] only names a step; a heading that does is a line."""
    return (
        end - start <= _LONGEST_LABEL
        and bool(_LABEL.fullmatch(text[start:end].strip()))
        and not (line and text[start] == "#")
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainOfThought(Stepwise):
    """Ends a segment at each line end and after each sentence; labels stay with their step."""

    version: ClassVar[int] = 5
    lookahead = 1
    reader: ClassVar[type[Machine]] = _Steps
    level_names = ("step", "paragraph", "section")

    @property
    def kinds(self) -> Kinds:
        return _part

    def versions(self) -> dict[str, str]:
        return {"tables": rules.tables()}

    def _why(self, text: str) -> list[Ruling]:
        """Return the rule at each place where a line, a sentence or a display ends."""
        telling = _ToldSteps()
        telling.rulings = []
        telling.push(text)
        telling.close()
        return telling.rulings


@dataclass(frozen=True, kw_only=True, slots=True)
class ArithmeticSteps(Segmenter):
    """Ends a segment after each '=' that is an equality of the chain, and after each newline."""

    rule = "equals sign or line end"
    # The next character distinguishes '=' from '=='.
    lookahead = 1

    def _ends(self, text: str) -> Iterable[int]:
        return (match.end() for match in _STEP_END.finditer(text))

    def machine(self) -> Machine:
        return Window(segmenter=self, before=2, triggers="\n=")
