"""Steps of an arithmetic derivation: `expr = expr' = ... = answer`, one reduction a step.

'=' ends the step before it and belongs to it, as in the arithmetic task of BiPE (He et al., arXiv
2401.16421, after Feng et al., arXiv 2305.15408); so does a line end. The '=' of a comparison or an
assignment ('==', '<=', '>=', '!=', ':=') ends nothing. Expressions are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter

_STEP_END = re.compile(r"(?<![=<>!:])=(?!=)|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class ArithmeticSteps(Segmenter):
    """Ends a segment after each '=' that is an equality of the chain, and after each newline."""

    @property
    def lookahead(self) -> int | None:
        # The next character tells '=' from '=='.
        return 1

    def _ends(self, text: str) -> Iterable[int]:
        return (match.end() for match in _STEP_END.finditer(text))
