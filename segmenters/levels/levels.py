"""Which levels of a segmenter are kept, and how long a segment may be: `Levels`.

Levels(of=Sentences(), keep=2)                            sentences and paragraphs
Levels(of=Sentences(), keep=["paragraph", "section"])     a paragraph is the segment
Levels(of=Sentences(), longest=512)                       no sentence over 512 characters
Levels(of=Lines(), longest="128 tokens")                  no line over 128 tokens
"""

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from segmenters.base import Cuts, Machine, Meta, Ruling, Segmenter, SegmenterError, cuts_from_ends
from segmenters.checks import require_integer, require_type
from segmenters.levels.bounds import Anchors, Bound, BoundMachine, bounded, patterns_for


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Derived(Segmenter):
    """Base of segmenters that change the segments of another one, `of`."""

    of: Segmenter

    def __post_init__(self) -> None:
        require_type("of", self.of, Segmenter)

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        return self.around(self.of.choose(text=text, kind=kind, name=name, meta=meta))

    def around(self, chosen: Segmenter) -> Segmenter:
        """Return this segmenter around another one, that of one document."""
        return dataclasses.replace(self, of=chosen)

    def fingerprint(self) -> dict[str, Any]:
        inner = self.of.fingerprint()
        versions = {"of": {"version": inner["version"], **inner["versions"]}}
        return super(Derived, self).fingerprint() | {"versions": versions}


@dataclasses.dataclass(slots=True, kw_only=True)
class Never(Machine):
    """Machine of a level that cuts nothing."""

    def _read(self, text: str) -> list[int]:
        return []


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Levels(Derived):
    """Some levels of another segmenter, with a bound on the length of the finest of them.

    `keep`: how many of the finest levels, or their names, finest first; `cut` returns the first.
    `longest`: a number of characters, or "128 tokens"; longer segments are split (bounds.py). A
    bound in tokens is applied by `bound`, where the tokens are known. With one level and no bound,
    this is the segmenter itself, fingerprint included.
    """

    keep: int | Sequence[str] = 1
    longest: int | str | None = None
    # All levels of `of`; that of one document may have others, which count by their rank.
    names: tuple[str, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        super(Levels, self).__post_init__()
        require_type("keep", self.keep, int, Sequence)
        names = self.of.level_names
        object.__setattr__(self, "names", names)
        if isinstance(self.keep, int):
            require_integer("keep", self.keep, 1)
            if self.keep > len(names):
                raise ValueError(
                    f"levels to keep must be at most {len(names)}, since {type(self.of).__name__} "
                    f"has {', '.join(names)}, was: {self.keep}"
                )
        else:
            wished = [self.keep] if isinstance(self.keep, str) else [*self.keep]
            ranks = [names.index(name) for name in wished if name in names]
            if not ranks or len(ranks) < len(wished) or ranks != sorted({*ranks}):
                raise ValueError(
                    f"levels to keep must be a number or among {', '.join(names)}, finest first, "
                    f"each once, for {type(self.of).__name__}, was: {wished}"
                )
            object.__setattr__(self, "keep", tuple(wished))
        if self.longest is not None:
            Bound.of(self.longest)

    @property
    def lookahead(self) -> int | None:
        return self.of.lookahead if self._ranks == (0,) and self.longest is None else None

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(self.names[rank] for rank in self._ranks)

    @property
    def in_tokens(self) -> bool:
        """Return whether segments have a bound in tokens, which `bound` applies."""
        return self.longest is not None and Bound.of(self.longest).unit == "tokens"

    def around(self, chosen: Segmenter) -> Segmenter:
        if self.keep == 1:
            return super(Levels, self).around(chosen)
        twin = copy.copy(self)
        object.__setattr__(twin, "of", chosen)
        return twin

    def fingerprint(self) -> dict[str, Any]:
        if self.keep == 1 and self.longest is None:
            return self.of.fingerprint()
        return super(Levels, self).fingerprint()

    def levels(self, text: str) -> tuple[Cuts, ...]:
        """Return the cuts of each level that is kept; SegmenterError for a bound in tokens."""
        if self.in_tokens:
            raise SegmenterError(
                f"longest={self.longest!r} needs the tokens of the text: count characters, or call "
                "levels_of_tokens"
            )
        return self._bounded(text, None)

    def levels_of_tokens(self, text: str, anchors: Anchors) -> tuple[Cuts, ...]:
        """Return the cuts of each level of a text with tokens at these anchors (align.py)."""
        return self._bounded(text, anchors if self.in_tokens else None)

    def _why(self, text: str) -> Iterable[Ruling]:
        """Return the rules of the segmenter, and where the bound or the choice of levels does."""
        ends = self.cut(text)[1:].tolist()
        rules = {place: Ruling(place, True, f"longest={self.longest}") for place in ends}
        for ruling in self.of.why(text):
            chosen = ruling.place in rules
            if chosen or not ruling.ends:
                rules[ruling.place] = Ruling(ruling.place, chosen, ruling.rule)
            else:
                rules[ruling.place] = Ruling(ruling.place, False, "of a level that is left out")
        return rules.values()

    def _ends(self, text: str) -> Cuts:
        first = self._ranks[0] == 0 and self.longest is None
        return self.of.cut(text) if first else self.levels(text)[0]

    @property
    def _ranks(self) -> tuple[int, ...]:
        if isinstance(self.keep, int):
            return tuple(range(self.keep))
        return tuple(self.names.index(name) for name in self.keep)

    def _bounded(self, text: str, anchors: Anchors | None) -> tuple[Cuts, ...]:
        if self.keep == 1 and self.longest is None:
            return (self.of.cut(text),)
        ranks = self._ranks
        cuts = (self.of.cut(text),) if ranks == (0,) else self.of.levels(text)
        # The segmenter of this document may have fewer levels than `of`.
        if (missing := ranks[-1] + 1 - len(cuts)) > 0:
            cuts += (cuts_from_ends((), len(text)),) * missing
        levels = tuple(cuts[rank] for rank in ranks)
        if self.longest is None:
            return levels
        finest = bounded(
            text,
            levels[0],
            bound=Bound.of(self.longest),
            patterns=patterns_for(self.level_names[0]),
            lower=cuts[: ranks[0]][::-1],
            anchors=anchors,
        )
        return (finest, *levels[1:])

    def machine(self) -> Machine:
        first = self._ranks[0]
        inner = self._machine_of(first)
        if self.longest is None:
            return inner
        return BoundMachine(
            inner=inner,
            lower=[self._machine_of(rank) for rank in reversed(range(first))],
            bound=Bound.of(self.longest),
            patterns=patterns_for(self.level_names[0]),
        )

    def _coarser_machine(self, level: int) -> Machine:
        return self._machine_of(self._ranks[level])

    def _machine_of(self, rank: int) -> Machine:
        has_level = rank < len(self.of.level_names)
        return self.of.level_machine(rank) if has_level else Never()
