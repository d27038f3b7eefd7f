"""The base of all segmenters (text -> cuts), and of machines that cut text as it arrives.

Cuts are character offsets 0 = c_0 < c_1 < ... < c_n = len(text) (the empty text: [0]), so the
segments text[c_i:c_i+1] always join back to the text. However a text is split into pieces, a
machine gives the cuts of its segmenter.

A segmenter may cut on several levels, finest first (sentences, paragraphs, sections): it names them
in `level_names` and gives the ends of each in `_levels`; every cut of a level is one of the finer
level too (`nested`).
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from segmenters.checks import require_text
from segmenters.offsets import distinct
from segmenters.places import after_space

Meta = Mapping[str, Any] | None
Cuts = npt.NDArray[np.int64]


class SegmenterError(ValueError):
    """An error in cutting a text; `offset` is in characters, `in_document` adds the id."""

    def __init__(
        self, message: str, document: str | None = None, offset: int | None = None
    ) -> None:
        # The base gets all arguments, so that errors can be pickled and travel between processes.
        super().__init__(message, document, offset)
        self.message, self.document, self.offset = message, document, offset

    def __str__(self) -> str:
        places = (("document", self.document), ("character", self.offset))
        parts = (f"{name} {value!r}: " for name, value in places if value is not None)
        return "".join(parts) + self.message

    def in_document(self, document: str) -> SegmenterError:
        """Return the same error with the id of the document in which it arose."""
        return SegmenterError(self.message, document, self.offset)


_TALLY: ContextVar[Counter[str] | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Counter[str]]:
    """Count the characters that each rule cuts in the block, where rules `tally` them."""
    counts: Counter[str] = Counter()
    token = _TALLY.set(counts)
    try:
        yield counts
    finally:
        _TALLY.reset(token)


def tally(rule: str, characters: int) -> bool:
    """Report which rule cut some text, where that depends on the text or the installation.

    Returns whether somebody counts it.
    """
    counts = _TALLY.get()
    if counts is not None and characters:
        counts[rule] += characters
    return counts is not None


# What segmenters `tally` where they gave up on text that is never closed.
UNCLOSED: Final = "unclosed comment, string or quotation"


def shares_of(segmenter: Segmenter, rules: Mapping[str, int], length: int) -> dict[str, int]:
    """Return the characters by the rule that cut them; those of no rule are the segmenter's."""
    rest = length - sum(rules.values())
    return {**rules, **({type(segmenter).__name__: rest} if rest > 0 else {})}


# Fewer ends than these are sorted faster without numpy.
_FEW = 100


def cuts_from_ends(ends: Iterable[int] | npt.ArrayLike, length: int) -> Cuts:
    """Return the cuts of a text of `length` characters from the ends of its segments.

    Ends may repeat and come in any order; 0 and `length` are optional. Raises SegmenterError for an
    end outside of the text.
    """
    if isinstance(ends, list) and len(ends) < _FEW:
        if not ends:
            return np.array((0, length) if length else (0,))
        found = sorted({0, length, *ends})
        if found[0] == 0 and found[-1] == length:
            return np.array(found, np.int64)
    if isinstance(ends, np.ndarray | array):
        places = np.array(ends, dtype=np.int64)
    else:
        places = np.fromiter(ends, dtype=np.int64)  # type: ignore[arg-type]
    if places.size and not (places[1:] > places[:-1]).all():
        places = distinct(places)
    if places.size and places[0] == 0 and places[-1] == length:
        return places
    if places.size and (places[0] < 0 or places[-1] > length):
        wrong = int(places[0] if places[0] < 0 else places[-1])
        raise SegmenterError(
            f"an end must lie in the text, between 0 and {length}, was: {wrong}", offset=wrong
        )
    inner = places[np.searchsorted(places, 1) : np.searchsorted(places, length)]
    last = [length] if length else []
    return np.concatenate(([0], inner, last), dtype=np.int64, casting="unsafe")


def nested(ends: Iterable[Iterable[int] | Cuts], length: int, *, count: int) -> tuple[Cuts, ...]:
    """Return the cuts of `count` levels from the ends of each, finest first; missing ones cut none.

    An end moves to the next cut of the finer level: a segment belongs where it begins.
    """
    levels: list[Cuts] = []
    for level_ends in islice(chain(ends, repeat(())), count):
        cuts = cuts_from_ends(level_ends, length)
        if levels:
            finer = levels[-1]
            cuts = finer[np.searchsorted(finer, cuts)]
            cuts = np.concatenate((cuts[:1], cuts[1:][cuts[1:] > cuts[:-1]]))
        levels.append(cuts)
    return tuple(levels)


@dataclasses.dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule decided about a place where a segment ends or could have ended."""

    place: int  # characters from the start of the text
    ends: bool
    rule: str  # its name, in words


END_OF_TEXT = "end of text"  # the rule at the end of every text


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Segmenter(ABC):
    """Cuts text; subclasses, frozen keyword-only dataclasses, define `lookahead` and `_ends`.

    One that knows coarser levels also defines `level_names` and `_levels`.
    """

    # Raise it in a subclass whose rule changes: shards made by the old rule no longer match.
    version: ClassVar[int] = 1
    # The name of the only rule of a subclass, for `why`; its class is named by default.
    rule: ClassVar[str] = ""

    @property
    @abstractmethod
    def lookahead(self) -> int | None:
        """Return how many characters after a position decide about a cut; None: the whole text.

        Whether p is a cut depends only on text[: p + lookahead], for every p before the end of the
        text. For a rule that reads the next visible character it is 1: white space stays with the
        segment before.
        """

    @abstractmethod
    def _ends(self, text: str) -> Iterable[int] | Cuts:
        """Return where segments end (characters), in any order; 0 and len(text) are optional."""

    def cut(self, text: str) -> Cuts:
        """Return the cuts of the text: int64 [segments + 1] character offsets from 0 to len(text).

        Raises TypeError if `text` is not a string.
        """
        require_text(text)
        return cuts_from_ends(self._ends(text), len(text))

    def why(self, text: str) -> list[Ruling]:
        """Return the rule at each place where a segment ends or could have ended, in order.

        The places of those that end one are `cut(text)[1:]`. Raises TypeError as `cut` does.
        """
        require_text(text)
        rulings = {ruling.place: ruling for ruling in self._why(text)}
        rulings[len(text)] = Ruling(len(text), True, END_OF_TEXT)
        return [rulings[place] for place in sorted(rulings) if 0 < place <= len(text)]

    def _why(self, text: str) -> Iterable[Ruling]:
        """Return what `why` does, in any order; of those of one place the last counts.

        0 and len(text) are optional. By default one rule made all cuts.
        """
        rule = self.rule or type(self).__name__
        return [Ruling(place, True, rule) for place in self.cut(text).tolist()]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Return the names of the levels, finest first: ("sentence", "paragraph"), for example."""
        return ("segment",)

    def levels(self, text: str) -> tuple[Cuts, ...]:
        """Return the cuts of each of `level_names`; those of the first are `cut(text)`.

        Every cut of a level is a cut of the one before. A level that the text does not have is one
        segment. Raises TypeError if `text` is not a string.
        """
        if len(self.level_names) == 1:
            return (self.cut(text),)
        require_text(text)
        if type(self)._levels is Segmenter._levels:
            raise SegmenterError(
                f"{type(self).__name__} has the levels {', '.join(self.level_names)}, so it must "
                "define _levels(text), the ends of each"
            )
        return nested(self._levels(text), len(text), count=len(self.level_names))

    def levels_of_tokens(self, text: str, anchors: npt.NDArray[np.int64]) -> tuple[Cuts, ...]:
        """Return `levels` of a text with tokens at these anchors (align.py), which may count."""
        return self.levels(text)

    def _levels(self, text: str) -> Iterable[Iterable[int] | Cuts]:
        """Return the ends of each level, finest first (as `_ends`); the last may be missing."""
        return (self._ends(text),)

    def machine(self) -> Machine:
        """Return a machine that cuts a text as it arrives; ValueError if that is impossible."""
        raise self.refusal("it needs the whole text")

    def level_machine(self, level: int) -> Machine:
        """Return a machine of one level, by its rank in `level_names`; ValueError without one."""
        if level == 0:
            return self.machine()
        return Nested(finer=self.level_machine(level - 1), own=self._coarser_machine(level))

    def _coarser_machine(self, level: int) -> Machine:
        """Return a machine of the ends that `_levels` gives a coarser level, or raise `refusal`."""
        name = self.level_names[level]
        raise self.refusal(f"its level {name!r} needs the whole text")

    def refusal(self, reason: str) -> ValueError:
        """Return the error for a segmenter that does not work during generation."""
        return ValueError(
            f"segmenter must be one that works during generation, was: {self!r}; {reason}"
        )

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        """Return the segmenter for one document: this one, unless it decides per document.

        `kind`: "prose", "code", "proof" ...; `name`: a file name or id; `meta`: other fields.
        """
        return self

    def versions(self) -> dict[str, str]:
        """Return the versions and tables, other than parameters, that determine the cuts."""
        return {}

    def fingerprint(self) -> dict[str, Any]:
        """Return all that determines the cuts, as JSON-able values."""
        return {
            "segmenter": public_name(type(self)),
            "version": self.version,
            "parameters": {
                f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.init
            },
            "versions": self.versions(),
        }


def _plain(value: Any) -> Any:
    """Return a parameter, or the call that makes it if it is a segmenter."""
    if not isinstance(value, Segmenter):
        return value
    inner = value.fingerprint()
    return {"_target_": inner["segmenter"], **inner["parameters"]}


def public_name(kind: type) -> str:
    """Return the name by which users import a class, so that prepared data match when it moves."""
    room = sys.modules[__name__.partition(".")[0]]
    exported = getattr(room, kind.__qualname__, None) is kind
    return f"{room.__name__ if exported else kind.__module__}.{kind.__qualname__}"


@dataclasses.dataclass(slots=True, kw_only=True)
class Machine(ABC):
    """Cuts text in pieces; machines in the same state are equal, and can be pickled."""

    size: int = 0  # characters read

    def push(self, text: str) -> list[int]:
        """Read the next piece; return the cuts that it decides, in characters of the whole text.

        The end of what was read may be among them, the start of the text never is.
        """
        if not text:
            return []
        cuts = self._read(text)
        self.size += len(text)
        return cuts

    def close(self) -> list[int]:
        """End the text and return the undecided cuts; nothing may be pushed afterwards."""
        return []

    def anchored(self, place: int) -> list[int]:
        """Count a token whose anchor is at `place`; return the cuts that it decides."""
        return []

    @property
    def decided(self) -> int:
        """Return the character up to which every cut is known: by default the last one read."""
        return self.size - 1

    def copy(self) -> Self:
        """Return an independent machine in the same state."""
        twin = copy.copy(self)
        for name in _changing(type(self)):
            setattr(twin, name, _copied(getattr(self, name)))
        return twin

    @abstractmethod
    def _read(self, text: str) -> list[int]:
        """Return the cuts that `text`, not empty, decides; `size` does not count it yet."""


@lru_cache(maxsize=256)
def _changing(kind: type[Machine]) -> tuple[str, ...]:
    """Return the fields that may change in place; by far the most hold numbers and text."""
    fixed = ("int", "str", "bool", "str | None", "int | None")
    types = ((f.name, getattr(f.type, "__name__", f.type)) for f in dataclasses.fields(kind))
    return tuple(name for name, type_of in types if type_of not in fixed)


def _copied(value: Any) -> Any:
    """Return the value of a field for a copy, with all that may change in place copied."""
    if isinstance(value, Machine):
        return value.copy()
    if isinstance(value, list):
        return [*map(_copied, value)]
    # Other values, such as segmenters and tuples, are never changed.
    return copy.copy(value) if isinstance(value, deque | array) else value


_PIECE = 1 << 16  # characters


def in_pieces(machine: Machine, text: str) -> Iterator[int]:
    """Yield the cuts of a whole text by a machine, which holds a piece of it at a time."""
    for start in range(0, len(text), _PIECE):
        yield from machine.push(text[start : start + _PIECE])
    yield from machine.close()


@dataclasses.dataclass(slots=True, kw_only=True)
class Window(Machine):
    """Machine of a rule that reads `before` characters before a place and the one at it."""

    segmenter: Segmenter
    before: int
    triggers: str  # characters after which the rule may cut
    tail: str = ""

    def _read(self, text: str) -> list[int]:
        window = self.tail + text
        size, start = len(self.tail), self.size - len(self.tail)
        self.tail = window[-self.before :]
        if not any(trigger in window for trigger in self.triggers):
            return []
        cuts = self.segmenter.cut(window)[1:-1].tolist()
        return [start + cut for cut in cuts if cut >= size]


@dataclasses.dataclass(slots=True, kw_only=True)
class Nested(Machine):
    """Machine of a coarser level: its `own` ends, moved to the next cut of the finer level."""

    finer: Machine
    own: Machine
    # What is known of both beyond the places that are decided.
    cuts: list[int] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)

    @property
    def decided(self) -> int:
        return min(self.finer.decided, self.own.decided)

    def anchored(self, place: int) -> list[int]:
        return self._judged(self.finer.anchored(place), self.own.anchored(place), self.decided)

    def close(self) -> list[int]:
        return self._judged(self.finer.close(), self.own.close(), self.size)

    def _read(self, text: str) -> list[int]:
        cuts, ends = self.finer.push(text), self.own.push(text)
        return self._judged(cuts, ends, self.decided)

    def _judged(self, cuts: list[int], ends: list[int], known: int) -> list[int]:
        """Return the cuts up to `known` at which, or before which, an end of the level lies."""
        self.cuts += cuts
        self.ends += ends
        verdicts: list[int] = []
        count, past = bisect_right(self.cuts, known), 0
        for cut in self.cuts[:count]:
            first = past
            # Several ends may move to one cut, and a cut without an end is of the finer level only.
            while past < len(self.ends) and self.ends[past] <= cut:
                past += 1
            if past > first:
                verdicts.append(cut)
        del self.cuts[:count], self.ends[:past]
        return verdicts


@dataclasses.dataclass(slots=True, kw_only=True)
class SpacedMachine(Machine):
    """Machine whose steps keep the white space after them."""

    ended: bool = False  # a step has ended; its cut is in front of the next visible character

    @abstractmethod
    def step_ends(self, text: str) -> list[int]:
        """Return where steps end in the next piece, in its characters; 0 if in the piece before."""

    def _read(self, text: str) -> list[int]:
        ends = self.step_ends(text)
        cuts = list(after_space(text, [0, *ends] if self.ended else ends))
        self.ended = bool(cuts) and cuts[-1] == len(text)
        return [self.size + cut for cut in dict.fromkeys(cuts) if cut < len(text)]
