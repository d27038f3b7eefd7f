r"""Conversations: turns of templates, of labels at line starts, of transcripts and of chat logs.

A turn starts at what opens one: `<|im_start|>role` (ChatML, Qwen), `<|start_header_id|>` (Llama 3),
`[INST]` and what follows `[/INST]` (Llama 2, Mistral), `<start_of_turn>` (Gemma), `<|user|>` (Phi,
Zephyr, GLM), `<\uff5cUser\uff5c>` (DeepSeek), and behind what closes one (`<|im_end|>`, `</s>`);
also at "User:", "Assistant:", "Human:", "AI:", "System:", "### Response:" at the start of a line.
With `names`, for transcripts and logs, at "NAME:" and "[10:15] <nick>" at the start of a line, too.
The head of a template is a segment of its own, a label belongs to the first sentence, and what
closes a turn to its last segment. The text of a turn is cut as if it were alone. Sources: the chat
templates that the models are published with.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from segmenters.base import Machine, Ruling, Segmenter
from segmenters.checks import require_type
from segmenters.documents.detection import looks_like
from segmenters.documents.mixed import Mixed, versions_of
from segmenters.places import SPACE, WORD, past
from segmenters.registry import of_kind

_ROLES = ("User", "USER", "Assistant", "ASSISTANT", "Human", "AI", "System", "SYSTEM", "Bot")
_RESPONSES = ("Instruction", "Response", "Input", *_ROLES)
_PLACED = "system|user|assistant|tool|observation|developer|model|function"
_ENDS = "im_end|eot_id|eom_id|end|end_of_text|endoftext|return|call|END_OF_TURN_TOKEN"
_TEMPLATE = (
    r"(?P<head>(?:<\|begin_of_text\|>|<bos>)?(?:<\|im_start\|>[^\n<]{0,40}\n?|<\|start_header_id\|>[^\n<]{0,40}<\|end_header_id\|>"
    r"|<start_of_turn>[^\n<]{0,40}\n?|(?:<s>[ \t]?)?\[INST\]|<\uff5c(?:User|Assistant)\uff5c>"
    rf"|<\|(?:{_PLACED})\|>|<\|start\|>[a-z]{{1,20}}(?:<\|channel\|>[a-z]{{1,20}})?<\|message\|>))"
    rf"|(?P<closed><\|(?:{_ENDS})\|>|<end_of_turn>|<eos>|</s>|\[/INST\]"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>)"
)
_LINE = r"[\r\n][ \t]{0,8}"
_ROLE = rf"(?:\*\*)?(?:{'|'.join(_ROLES)})(?:\*\*)?:|\#{{2,4}}[ ](?:{'|'.join(_RESPONSES)}):"
_TIME = (
    r"\[?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4},?[ T]{1,2})?\d{1,2}:\d\d(?::\d\d)?"
    r"(?:[ \u202f]?[AaPp][Mm])?\]?(?:[ ]-)?"
)
_NAME = (
    rf"[^\W\d_a-z][{WORD}.'()&\u2019-]{{0,30}}(?:[ ][{WORD}.'()&/\u2019-]{{1,20}}){{0,3}}"
    r"(?::(?!\S)|\uff1a)"
)
_NICK = r"<[\w@+~%&\[\]|` -]{1,30}>"
_NAMED = rf"{_TIME}[ \t]{{1,4}}(?=[^\s-])|{_NICK}|{_NAME}"
# The end of a piece that may begin a mark.
_HEAD_WAITS = (
    r"<[^<>\n]{0,40}|<\|start_header_id\|>[^\n<]{0,40}(?:<[^<>\n]{0,16})?"
    r"|(?:<\|begin_of_text\|>|<bos>)(?:[<\[][^\n<]{0,60}){0,2}"
    r"|<s>[ \t]?(?:\[[A-Z]{0,5})?|\[/?[A-Z]{0,5}|<\|start\|>[a-z]{0,20}(?:<[^\n]{0,40})?"
)
_LONGEST = 160


def _begun(words: Iterable[str]) -> str:
    """Return a pattern of the beginnings of words."""
    return "|".join("(?:".join(word) + ")?" * (len(word) - 1) for word in words)


_ROLE_WAITS = rf"\*{{0,2}}(?:{_begun(_ROLES)})?\*{{0,2}}|\#{{1,4}}(?:[ ](?:{_begun(_RESPONSES)})?)?"
_MARKS = {
    False: re.compile(rf"{_TEMPLATE}|{_LINE}(?P<label>{_ROLE})"),
    True: re.compile(rf"{_TEMPLATE}|{_LINE}(?P<label>{_ROLE}|{_NAMED})"),
}
_WAITS = re.compile(rf"(?:{_HEAD_WAITS}|{_LINE}(?:{_ROLE_WAITS})?)\Z")
# What a turn of unknown kind may look like; anything else is prose.
_KINDS = ("chain_of_thought", "markdown", "prose")


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns(Segmenter):
    """Cuts each turn of a conversation by a segmenter of its own.

    `of`: the segmenter of all turns; None: chosen for each turn by its text, among chains of
    thought, Markdown and prose. `names`: whether "NAME:", nicks and times start turns, as in
    transcripts.
    """

    of: Segmenter | None = None
    names: bool = False
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        require_type("names", self.names, bool)
        if self.of is not None:
            require_type("of", self.of, Segmenter)

    @property
    def lookahead(self) -> int | None:
        inner = self.of.lookahead if self.of else None
        return None if inner is None else max(inner, _LONGEST)

    level_names = ("segment", "turn")

    def versions(self) -> dict[str, str]:
        kinds = {"of": self.of} if self.of else {kind: _of_kind(kind) for kind in _KINDS}
        return versions_of(kinds)

    def _ends(self, text: str) -> array[int]:
        return self._levels(text)[0]

    def _levels(self, text: str) -> tuple[array[int], array[int]]:
        turns, ends = array("q"), array("q")  # both as good as sorted, which saves copies
        body, first = 0, past(SPACE, text)
        for mark in chain(_MARKS[self.names].finditer("\n" + text), [None]):
            kind, start, end = _read(mark) if mark else ("", len(text) + 1, len(text) + 1)
            shown = text[body : start - 1]
            inner = self.of or _of_kind(looks_like(shown))
            _add(ends, (body + inner.cut(shown)[1:-1]).tolist(), first)
            body = end - 1
            if kind == "closed":
                body = start = past(SPACE, text, body)
            elif kind:
                start -= 1
            place = start if kind else len(text)
            _add(turns, [place], first)
            _add(ends, [place, past(SPACE, text, body)] if kind == "head" else [place], first)
        return ends, turns

    def _why(self, text: str) -> Iterable[Ruling]:
        """Return the rules of the turns, and where turns begin."""
        ends, turns = self.cut(text)[1:].tolist(), set(self._levels(text)[1])
        rules = {place: Ruling(place, True, "head of a turn") for place in ends}
        body = 0
        for mark in chain(_MARKS[self.names].finditer("\n" + text), [None]):
            _, start, end = _read(mark) if mark else ("", len(text) + 1, len(text) + 1)
            shown = text[body : start - 1]
            for ruling in (self.of or _of_kind(looks_like(shown))).why(shown):
                place = body + ruling.place
                if ruling.place < len(shown) and (not ruling.ends or place in rules):
                    rules[place] = Ruling(place, place in rules, ruling.rule)
            body = end - 1
        rules |= {place: Ruling(place, True, "turn") for place in turns if place in rules}
        return rules.values()

    def machine(self) -> Machine:
        if self.names:
            raise self.refusal("names are known only later in the text: set names=false")
        if self.of is None:
            raise self.refusal(
                "kinds of turns are known only later in the text: set of=chain_of_thought or "
                "another"
            )
        return _TurnMachine(of=self.of, inner=self.of.machine())

    def _coarser_machine(self, level: int) -> Machine:
        return _TurnMachine()


def _add(found: array[int], places: Iterable[int], first: int) -> None:
    """Add the places behind the first visible character, the last known place left out."""
    for place in places:
        if place > first and not (found and found[-1] == place):
            found.append(place)


def _read(mark: re.Match[str]) -> tuple[str, int, int]:
    """Return what a mark does, and where it starts and ends."""
    kind = mark.lastgroup or ""
    return kind, mark.start(kind), mark.end()


def _of_kind(kind: str | None) -> Segmenter:
    return Mixed() if kind == "markdown" else of_kind(kind if kind in _KINDS else "prose")


@dataclass(slots=True, kw_only=True)
class _TurnMachine(Machine):
    of: Segmenter | None = None  # None: only turns are cut
    inner: Machine | None = None  # of the current turn
    held: str = "\n"  # the end of the text that may begin a mark; a line starts with it
    body: int = 0  # where the text of the turn starts
    # What has ended, "closed" a turn or a "head", before the next visible character.
    waits: str = ""
    first: int = -1  # the first visible character
    edge: bool = False  # whether the inner machine cut at the end of what it read

    @property
    def decided(self) -> int:
        size = self.size - 1 - len(self.held)
        return min(self.body + self.inner.decided, size) if self.inner else size

    def close(self) -> list[int]:
        return [*self._scan("", final=True), *self._inner_ends()]

    def _read(self, text: str) -> list[int]:
        return self._scan(text, final=False)

    def _scan(self, text: str, *, final: bool) -> list[int]:
        window, base = self.held + text, self.size - len(self.held)
        skip, place, cuts = max(0, -base), 0, list[int]()  # the first line end is not of the text
        while True:
            mark = _MARKS[False].search(window, place)
            waits = None
            if not final:
                waits = _WAITS.search(window, max(place, len(window) - _LONGEST))
            if not mark or (waits and waits.start() < mark.start()):
                break
            if mark.end() == len(window) and not final:
                break
            kind, start, end = _read(mark)
            cuts += self._text(window[max(place, skip) : start], base + max(place, skip))
            cuts += self._turn(kind, base + start, base + end)
            place = end
        places = (sign.start() for sign in (waits, None if final else mark) if sign)
        held = min(places, default=len(window))
        cuts += self._text(window[max(place, skip) : held], base + max(place, skip))
        self.held = window[held:]
        return sorted({cut for cut in cuts if 0 <= self.first < cut})

    def _text(self, text: str, start: int) -> list[int]:
        """Read text of the turn at `start`; return the cuts that it decides."""
        visible = past(SPACE, text)
        cuts: list[int] = []
        if visible < len(text):
            self.first = start + visible if self.first < 0 else self.first
            if self.waits == "closed":
                self._open(start + visible)
                text = text[visible:]
            if self.waits and (self.of or self.waits == "closed"):
                cuts.append(start + visible)
            self.waits = ""
        elif self.waits == "closed":
            return []
        if self.inner and text:
            cuts += [self.body + self.inner.size] if self.edge else []
            ends = self.inner.push(text)
            self.edge = self.inner.size in ends
            cuts += [self.body + cut for cut in ends if cut < self.inner.size]
        return cuts

    def _turn(self, kind: str, start: int, end: int) -> list[int]:
        """Read a mark; return the cuts that it decides."""
        cuts = self._inner_ends()
        self.first = start if self.first < 0 else self.first
        if kind != "closed" or self.waits == "closed" or (self.waits and self.of):
            cuts.append(start)
        self.waits = kind if kind != "label" else ""
        self._open(end)
        return cuts

    def _open(self, body: int) -> None:
        self.body, self.edge = body, False
        self.inner = self.of.machine() if self.of else None

    def _inner_ends(self) -> list[int]:
        """Return the cuts that the end of the turn's text decides."""
        if self.inner is None:
            return []
        return [self.body + cut for cut in self.inner.close() if cut < self.inner.size]
