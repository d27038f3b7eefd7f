r"""Sentence boundaries of a text that is still being written, by the rules of `sentence_rules`.

The rules are asked again from a place to resume at: no candidate for an end that starts before it
reaches beyond it. A letter is one, and nearly everything else, too: a candidate is a run of
terminators and closers, then a spaced quote, notes, emoji and white space, in this order. And they
are asked only where an end is conceivable: at a visible character behind white space, a terminator,
a closer or an emoji. So a push costs the same however long the text, the sentence or the run of
signs is. What is kept of the text is its end of a few thousand characters; a run of white space,
terminators or emoji beyond that is shortened in the middle, where the rules do not look. (Numbered
notes and spaced emoji without end are kept whole: memory, and a copy of it for each push.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from segmenters.prose.candidates import CLOSERS, DIVIDERS, EMOJI, PLAIN, STRONG
from segmenters.prose.rules import sentence_ends
from segmenters.streaming.machine import Machine

# No rule looks further back than this, in characters, from where a scan resumes.
_CONTEXT = 512
# The text is shortened when it is longer than this.
_LONGEST = 8 * _CONTEXT

_RUN, _DIVIDER = re.escape(PLAIN + STRONG + CLOSERS), re.escape(DIVIDERS)
# Where a scan may resume. Each look-behind is what a candidate can take no more of.
_RESUME = re.compile(
    rf"[^{_RUN}{EMOJI}{_DIVIDER}\s\u201c\d\[]"
    # Behind white space a candidate goes on with quotes, notes and emoji alone, and its white
    # space before a quote or note is a single one.
    rf"|(?<=\s)[^\s'\u00bb\[{EMOJI}]"
    r"|(?<=\s\s)['\u00bb\[]|(?<=[^\S \u00a0\u202f])['\u00bb\[]"
    rf"|(?<=[^\S \u00a0])[{EMOJI}]"
    # One doubled or angled quote at most, and no single one.
    rf"|(?<=\s')[^\s']|(?<=\s'')[^\s\[{EMOJI}]|(?<=\s\u00bb)[^\s\[{EMOJI}]"
    r"|(?<=\s''\s)['\u00bb]|(?<=\s['\u00bb]\s)['\u00bb]"
    # A note is a bracket and up to three digits; emoji come last; dividers mix with nothing.
    rf"|(?<![\[\d])\d|(?<=\d\d\d)\d|\[(?=\D)|(?<=[{EMOJI}])[^\s{EMOJI}]"
    rf"|(?<=[{_DIVIDER}])(?<!_)[^\s{_DIVIDER}]|(?!_)(?<![{_DIVIDER}])[{_DIVIDER}]"
)
# Where a sentence may start. What stands behind a single blank and can only go on is left out, and
# what prolongs a run of terminators, of emoji or of notes. (Some emoji are capital letters.)
_GOES_ON = rf"\[{EMOJI}{re.escape(PLAIN + STRONG)}"
_CAPITALS = "\U0001f100-\U0001f189"
# The low quotes that `_LATE` of the rules adds to a run, unless a strong terminator stands before.
_QUOTED_RUN = rf"{_RUN}\u201c"
_CONCEIVABLE = re.compile(
    rf"(?<=\s)[^\s{_GOES_ON}]|(?<=[^\S \u00a0])[{_GOES_ON}]|(?<=\s\s)[{_GOES_ON}]"
    rf"|(?<=\s)[{_CAPITALS}]"
    rf"|(?<=[{_QUOTED_RUN}{EMOJI}])[^\s\[{_QUOTED_RUN}{EMOJI}]|(?<=[{EMOJI}])[{_QUOTED_RUN}]"
    rf"|(?<![{_QUOTED_RUN}]{{3}})(?<=[{_QUOTED_RUN}])[{_QUOTED_RUN}]"
    rf"|(?<=[{re.escape(STRONG)}\u201d])\u201c"
)
_WEAK_RUN = re.escape("".join(sorted({*PLAIN, *CLOSERS, "\u201c"} - {"\u201d"})))
_ONE_KIND = re.compile(rf"\s++|[{_RUN}]++|[{_WEAK_RUN}]++|[{EMOJI}]++|[{_DIVIDER}]++")


@dataclass(slots=True, kw_only=True)
class SentenceMachine(Machine):
    """Follows the causal sentence rules.

    `text` is the end of the text, possibly shortened; `last`, where its sentence starts (None:
    nothing visible yet), and `resume` count in it.
    """

    text: str = ""
    last: int | None = None
    resume: int = 0

    def _read(self, text: str) -> list[int]:
        known = len(self.text)
        self.text += text
        ends: list[int] = []
        if self.last is None:
            start = len(self.text) - len(self.text.lstrip())
            if start < len(self.text):
                self.last = start
        if self.last is not None and _CONCEIVABLE.search(self.text, known):
            ends = sentence_ends(self.text, position=self.resume, last=self.last)
        if ends:
            self.last = ends[-1]
        # One back: a bracket is a place to resume at once the character behind it is known.
        for match in _RESUME.finditer(self.text, max(0, known - 1)):
            self.resume = match.start()
        moved = self.size - known
        if len(self.text) > _LONGEST:
            self._shorten()
        return [moved + end for end in ends]

    def _shorten(self) -> None:
        """Drop the text that no rule can read any more."""
        drop = max(0, self.resume - _CONTEXT)
        text = self.text[drop:]
        self.resume -= drop
        if self.last is not None:
            self.last -= drop
        last = self.last or 0
        run = len(text) - 6 * _CONTEXT
        if run > max(self.resume, last) and _ONE_KIND.fullmatch(text, run):
            # The rules ask which signs a run holds, and whether there is a second line end.
            middle = text[run + _CONTEXT : -_CONTEXT]
            kept = "".join(char * min(middle.count(char), 2) for char in dict.fromkeys(middle))
            text = text[: run + _CONTEXT] + kept + text[-_CONTEXT:]
        self.text = text
