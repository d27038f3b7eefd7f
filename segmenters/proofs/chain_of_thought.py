"""Steps of natural-language proofs and chains of thought.

Each line end ends a step, blank lines with it; inside of a line each sentence is a step, by the
causal rules of `sentence_rules`. A label in front of a step ("Step 2.", "3.", "(b)", "Case 1:")
belongs to the step that it names. White space stays with the step before.

The rule asks no more than the next character that is not white space, so a step that starts in
the middle of a line with nothing that ends the one before ("so x = 2 Step 3: ...") is not seen.
Formulas are not read: one that is displayed over several lines is cut at its line ends
(`LaTeXProofs` keeps it whole).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters import sentence_rules
from segmenters.base import Segmenter

_LINE_END = re.compile(r"[\n\r\u2028\u2029]\s*+")
_LABEL = re.compile(
    r"[*_#>\s-]*(?:(?:step|case|claim|part|lemma|theorem|proposition|corollary|fact|remark|example"
    r"|exercise|problem|question|solution|proof|answer|definition|goal|stage|subgoal|substep)"
    r"(?: *\(?[\w.]{1,8}\)?)?|\(?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})\)?)"
    r"[*_]*[.:)][*_]*",
    re.IGNORECASE,
)
_LONGEST_LABEL = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainOfThought(Segmenter):
    """Ends a segment at each line end and behind each sentence; labels stay with their step."""

    @property
    def lookahead(self) -> int | None:
        return 1

    def versions(self) -> dict[str, str]:
        return {"tables": sentence_rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        return _step_ends(text)


def _step_ends(text: str) -> Iterator[int]:
    lines = {match.end() for match in _LINE_END.finditer(text)}
    first = start = len(text) - len(text.lstrip())  # white space in front starts no step
    for end in sorted(lines.union(sentence_rules.sentence_ends(text))):
        if end <= first:
            continue
        step = text[start:end].rstrip() if end - start <= _LONGEST_LABEL else None
        if end not in lines and step is not None and _LABEL.fullmatch(step.lstrip()):
            continue
        yield end
        start = end
