"""Boundaries that others have found: in a field of the row (`Given`), or by a function (`Called`).

    Given(field="sentences")                        ["He left. ", "She stayed."], or in order
    Given(field="ends")                             [9, 20]: offsets in characters, starts or ends
    Given(field="spans", form="spans")              [[0, 8], [9, 20]]
    Given(field="p", names=["sentence", "paragraph"])       [["He left.", "She stayed."], ["It"]]
    Called(function="pysbd:Segmenter", method="segment", options={"language": "en"})
    Called(function="spacy:blank", method="__call__", options=..., take="sents")

Texts may be objects with a `text`, as the sentences of spaCy and stanza are. A segment begins at
each given start. White space between two of them stays with the one before; other text between or
around spans and texts is a segment of its own. Lists in lists are levels: with two names, each
inner list (of starts, if of offsets) begins a segment of the second level.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module, metadata
from inspect import signature
from itertools import takewhile
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from segmenters.base import Meta, Segmenter, SegmenterError
from segmenters.checks import require_choice, require_type
from segmenters.places import SPACE, past

Form = Literal["auto", "spans"]
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Stated(Segmenter):
    """Base of segmenters that read boundaries; `names`: of the levels, `form`: see the module."""

    names: Sequence[str] = ("segment",)
    form: Form = "auto"
    lookahead = None

    def __post_init__(self) -> None:
        require_choice("form", self.form, get_args(Form))
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        if not names or len({*names}) < len(names):
            raise ValueError(f"names must be one or more distinct names, was: {self.names!r}")
        object.__setattr__(self, "names", names)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(self.names)

    def _ends(self, text: str) -> Iterable[int]:
        return next(iter(self._levels(text)))

    def _places(self, value: Any, text: str, said: str) -> list[list[int]]:
        """Return the cuts of each level; SegmenterError, with `said` in front, for wrong ones."""
        levels: list[list[int]] = [[] for _ in self.names]
        end, is_span = 0, False
        for leaf, opens in _leaves(value, len(levels) - 1, said, form=self.form):
            is_span = not _is_integer(leaf)
            start, stop = _span(leaf, text, end, said)
            if is_span and (shown := past(SPACE, text, end)) < start:
                levels[0].append(shown)  # text that is in no segment
            for level in levels[: opens + 1]:
                level.append(start)
            end = stop
        return [[*levels[0], past(SPACE, text, end)] if is_span else levels[0], *levels[1:]]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given(_Stated):
    """Cuts at boundaries from a field of the row, which `meta_keys` of the reader keeps."""

    field: str

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        if self.field not in (meta or {}):
            raise SegmenterError(
                f"this document has no field {self.field!r} with boundaries (its fields: "
                f"{', '.join(meta or {}) or 'none'}); set meta_keys=[{self.field}] of the reader"
            )
        assert meta is not None
        return _OfDocument(
            field=self.field, names=self.names, form=self.form, value=meta[self.field]
        )

    def _levels(self, text: str) -> list[list[int]]:
        raise SegmenterError(
            "boundaries are given per document: call choose(text=..., "
            f"meta={{{self.field!r}: ...}})"
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _OfDocument(Given):
    """The boundaries of one document."""

    value: Any = dataclasses.field(repr=False)

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        return self

    def _levels(self, text: str) -> list[list[int]]:
        return self._places(self.value, text, f"field {self.field!r}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Called(_Stated):
    """Cuts at boundaries from a function: `function` is "module:name", and gets the text.

    `method`: `function` makes an object from `options`, once per process, and this method of it
    gets the text; without it, the function gets each text as its first argument, and the options.
    `take`: the attribute of the result with the boundaries ("sents"); in a result that is one
    string, each line is a segment. A description in a file may name a
    function only if its package is allowed (docs/trust.md).
    """

    function: str
    method: str | None = None
    take: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # What names code: `bipe.build` asks for the permission of the user.
    names_code: ClassVar[tuple[str, ...]] = ("function",)

    def __post_init__(self) -> None:
        super(Called, self).__post_init__()
        require_type("function", self.function, str)
        require_type("options", self.options, Mapping)
        if not _FUNCTION.fullmatch(self.function):
            raise ValueError(f"function must have the form 'module:name', was: {self.function!r}")

    def versions(self) -> dict[str, str]:
        """Return the version of the package that holds the function, if it is installed by pip."""
        package = self.function.partition(":")[0].partition(".")[0]
        packages = metadata.packages_distributions().get(package, [])
        return {name: metadata.version(name) for name in sorted({*packages})}

    def _levels(self, text: str) -> list[list[int]]:
        options = dict(sorted(self.options.items()))
        try:
            value = _loaded(self.function, self.method, options)(text)
            value = getattr(value, self.take) if self.take else value
        except Exception as fault:  # whatever the function raises
            raise SegmenterError(f"{self.function}: {type(fault).__name__}: {fault}") from fault
        if isinstance(value, str):
            value = value.split("\n")
        return self._places(value, text, self.function)


# By repr: options may hold what has no hash.
_LOADED: dict[str, Callable[[str], Any]] = {}


def _loaded(*call: Any) -> Callable[[str], Any]:
    """Return the function of a text, loaded once per process."""
    if (key := repr(call)) not in _LOADED:
        _LOADED[key] = _load(*call)
    return _LOADED[key]


def _load(function: str, method: str | None, options: dict[str, Any]) -> Callable[[str], Any]:
    module, _, name = function.partition(":")
    target: Any = import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    options = dict(options)
    if method is not None:
        bound: Callable[[str], Any] = getattr(target(**options), method)
        return bound
    try:
        names = [*signature(target).parameters]
    except ValueError:  # a function of C may not tell its parameters
        names = []
    first = [options.pop(name) for name in [*takewhile(options.__contains__, names)]]
    return lambda text: target(*first, text, **options)


def _leaves(value: Any, depth: int, said: str, *, form: Form) -> Iterator[tuple[Any, int]]:
    """Yield each boundary with the coarsest level that it opens, in order."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise SegmenterError(
            f"{said}: boundaries must be lists nested {depth + 1} deep, was: {value!r}"
        )
    for inner in value:
        inner = inner["text"] if isinstance(inner, Mapping) and "text" in inner else inner
        inner = getattr(inner, "text", inner)
        inner = inner.tolist() if isinstance(inner, np.ndarray) else inner
        if depth:
            first = True
            for leaf, opens in _leaves(inner, depth - 1, said, form=form):
                yield leaf, depth if first else opens
                first = False
        elif isinstance(inner, str):
            if stripped := inner.strip():
                yield stripped, 0
        elif form == "spans" or _is_integer(inner):
            yield inner, 0
        else:
            rule = "must be texts or offsets in characters; set form=spans for pairs"
            raise SegmenterError(f"{said}: boundaries {rule}, was: {inner!r}")


def _span(leaf: Any, text: str, end: int, said: str) -> tuple[int, int]:
    """Return start and end of a boundary that follows what ends at `end` (characters)."""
    if isinstance(leaf, str):
        place = text.find(leaf, end)
        if place < 0:
            shown = leaf if len(leaf) <= 60 else f"{leaf[:60]}..."
            raise SegmenterError(
                f"{said}: texts must occur in the document in order, was: {shown!r}", offset=end
            )
        return place, place + len(leaf)
    pair = [leaf, leaf] if _is_integer(leaf) else leaf
    if not (isinstance(pair, Sequence) and len(pair) == 2 and all(map(_is_integer, pair))):
        raise SegmenterError(f"{said}: spans must be pairs of a start and an end, was: {leaf!r}")
    start, stop = map(int, pair)
    if not end <= start <= stop <= len(text):
        raise SegmenterError(
            f"{said}: offsets must increase and be from {end} to {len(text)} here, was: {leaf!r}",
            offset=start,
        )
    return start, stop


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
