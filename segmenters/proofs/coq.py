r"""Sentences of Coq (Rocq) vernacular, plain tactics and ssreflect.

A sentence ends at a period, or at the last of three, that is followed by white space or the end
of the text, outside of comments and strings; `..` ends nothing, because recursive notations hold
it before white space. Where a sentence may start, a bullet (a run of one of - + *), a brace and a
selected goal (`2:{`, `[name]:{`, `all:{`) are steps of their own. Comments nest, and hold strings,
as in Coq's lexer; a comment belongs to the sentence behind it.

Source: the reference manual of Coq, "Lexical conventions" and "Bullets, focus braces", and the
lexer of CoqIDE (coq_lex.mll), which cuts by the same rule. Nothing is parsed: a notation that
writes its own period before white space is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.proofs.scanning import after_space, nested_end

_COMMENT = re.compile(r'(?P<open>\(\*)|(?P<close>\*\))|"[^"]*+"?')
# A doubled quote inside of a string closes it and opens the next: the same to us.
_TOKEN = re.compile(r'(?P<comment>\(\*)|"[^"]*+"?|\.\.|(?P<end>\.(?=[ \t\r\n\f]|\Z))')
_START = re.compile(
    r"\s*+(?:(?P<comment>\(\*)"
    r"|(?P<step>-++|\+++|\*++|\}|\{"
    r"|(?:\d++(?:\s*+[-,]\s*+\d++)*+|\[\s*+[\w']++\s*+\]|all|par|!)\s*+:\s*+\{))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Coq(Segmenter):
    """Ends a segment after each vernacular sentence, bullet and brace. Causal."""

    @property
    def lookahead(self) -> int | None:
        # White space stays behind, so a cut is known at the first character of the next sentence.
        return 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, _sentence_ends(text))


def _sentence_ends(text: str) -> list[int]:
    ends: list[int] = []
    place = _opening(text, 0, ends)
    while match := _TOKEN.search(text, place):
        place = match.end()
        if match.lastgroup == "comment":
            place = nested_end(text, match.start(), _COMMENT)
        elif match.lastgroup == "end":
            ends.append(place)
            place = _opening(text, place, ends)
    return ends


def _opening(text: str, place: int, ends: list[int]) -> int:
    """Take the comments, bullets and braces at the start of a sentence; return where it goes on."""
    while True:
        match = _START.match(text, place)
        assert match is not None
        if match["comment"]:
            place = nested_end(text, match.start("comment"), _COMMENT)
        elif match["step"]:
            place = match.end()
            ends.append(place)
        else:
            return match.end()
