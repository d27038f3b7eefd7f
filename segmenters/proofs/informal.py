"""Steps of natural-language proofs, chains of thought and arithmetic derivations.

`ChainOfThought`: a step ends at each line end, with the blank lines after it, and after each
sentence by the causal rules of `prose.rules`. A label ("Step 2.", "3.", "(b)", "Case 1:") belongs
to the step that it names. The rule reads only the next visible character, so a step in a line after
unfinished text ("so x = 2 Step 3: ...") is missed, and formulas over several lines are cut at their
line ends (`LaTeXProofs` keeps them whole).

`ArithmeticSteps`: one reduction of `expr = expr' = ... = answer` per step. '=' ends the step before
it and belongs to it, as in the arithmetic task of BiPE (He et al., arXiv 2401.16421, after Feng et
al., arXiv 2305.15408); so does a line end. The '=' of a comparison or an assignment ('==', '<=',
'>=', '!=', ':=') ends nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from segmenters.base import Machine, Segmenter, Window
from segmenters.prose import rules
from segmenters.prose.sentences import SentenceMachine

_LINE_END = re.compile(r"[\n\r\u2028\u2029]\s*+")
_LABEL = re.compile(
    r"[*_#>\s-]*(?:(?:step|case|claim|part|lemma|theorem|proposition|corollary|fact|remark|example"
    r"|exercise|problem|question|solution|proof|answer|definition|goal|stage|subgoal|substep)"
    r"(?: *\(?[\w.]{1,8}\)?)?|\(?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})\)?)"
    r"[*_]*[.:)][*_]*",
    re.IGNORECASE,
)
_LONGEST_LABEL = 48
_STEP_END = re.compile(r"(?<![=<>!:])=(?!=)|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainOfThought(Segmenter):
    """Ends a segment at each line end and after each sentence; labels stay with their step."""

    lookahead = 1

    def versions(self) -> dict[str, str]:
        return {"tables": rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        return _step_ends(text)

    def machine(self) -> Machine:
        return _Steps()


def _step_ends(text: str) -> Iterator[int]:
    lines = {match.end() for match in _LINE_END.finditer(text)}
    first = start = len(text) - len(text.lstrip())  # white space in front starts no step
    for end in sorted(lines.union(rules.sentence_ends(text))):
        if end > first and (end in lines or not _is_label(text, start, end)):
            yield end
            start = end


def _is_label(text: str, start: int, end: int) -> bool:
    return end - start <= _LONGEST_LABEL and bool(_LABEL.fullmatch(text[start:end].strip()))


@dataclass(slots=True, kw_only=True)
class _Steps(Machine):
    sentences: SentenceMachine = field(default_factory=SentenceMachine)
    tail: str = ""  # the end of the text, as long as a label
    start: int | None = None  # of the current step; None: nothing visible yet
    broken: bool = False  # whether the white space at the end holds a line end

    def copy(self) -> _Steps:
        twin = copy.copy(self)
        twin.sentences = self.sentences.copy()
        return twin

    def _read(self, text: str) -> list[int]:
        lines = self._line_starts(text)
        ends = sorted(lines.union(self.sentences.push(text)))
        if self.start is None:
            space = len(text) - len(text.lstrip())
            if space == len(text):
                return []
            self.start = self.size + space
        first = self.start
        before = self.size - len(self.tail)
        self.tail += text
        cuts = []
        for end in ends:
            label = end not in lines and _is_label(self.tail, self.start - before, end - before)
            if end > first and not label:
                cuts.append(end)
                self.start = end
        self.tail = self.tail[-_LONGEST_LABEL:]
        return cuts

    def _line_starts(self, text: str) -> set[int]:
        """Return where visible text follows a line end, in characters of the whole text."""
        # Put back a line end of the previous piece.
        found = "\n" * self.broken + text
        starts = {match.end() for match in _LINE_END.finditer(found)}
        moved = self.size - self.broken
        self.broken = len(found) in starts
        return {moved + start for start in starts if start < len(found)}


@dataclass(frozen=True, kw_only=True, slots=True)
class ArithmeticSteps(Segmenter):
    """Ends a segment after each '=' that is an equality of the chain, and after each newline."""

    # The next character distinguishes '=' from '=='.
    lookahead = 1

    def _ends(self, text: str) -> Iterable[int]:
        return (match.end() for match in _STEP_END.finditer(text))

    def machine(self) -> Machine:
        return Window(segmenter=self, before=2, triggers="\n=")
