"""Choose the segmenter of each document: `segmenter: auto`.

What is stated about a document decides before what it looks like: its kind, if specific; its file
name, or one among its fields; the programming language among its fields; its data set; then its
text (`detection`); then its kind in general. "prose", which readers state by default, decides last.
Without `choose`, only the text decides. Each decision is logged at level DEBUG.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Final, NamedTuple

from segmenters import registry
from segmenters.base import Cuts, Machine, Meta, Ruling, Segmenter
from segmenters.checks import require_choice, require_text
from segmenters.code.lines import Lines
from segmenters.documents.detection import detect, kind_of_paper, looks_like
from segmenters.documents.detection_table import HOL, TPTP
from segmenters.documents.mixed import FORMATS, GRANULARITIES, Mixed, versions_of
from segmenters.fields import LANGUAGE_FIELDS, NAME_FIELDS, SET_FIELDS, suffix_of, texts
from segmenters.registry import ROUTES, of_kind

_LOG = logging.getLogger(__name__)
# Routes of general kinds of documents, used if nothing more specific is known.
_KINDS: Final = {
    "code": "code",
    "proof": "chain_of_thought",
    "proofs": "chain_of_thought",
    "text": "prose",
}
# Suffixes that others share (Objective-C++, OCaml, Pascal, Verilog, pages of which only the text is
# kept): what the text must or must not hold, and its route otherwise.
_NEEDS: Final[dict[str, tuple[re.Pattern[str], str | None]]] = {
    "metamath": (re.compile(r"\$\."), "code"),
    "html": (re.compile("<"), None),
    "coq": (re.compile(r"\A(?!.*endmodule)", re.DOTALL), "code"),
    "hol": (HOL, "code"),
    "manual page": (re.compile(r"\n\.S"), None),
    "tptp": (TPTP, "code"),
}
_SHARED: Final = ("hol", "tptp")  # without a text, their suffixes mean the others
_OF_MANUAL_PAGES: Final = re.compile(r"\.(?:[1-9]\w{0,2}|man|mdoc|roff)\Z")  # their suffixes


class Decision(NamedTuple):
    """A route, what decided it ("name", "looks", ...) and the value or the rule that did."""

    route: str
    by: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.route} (by {self.by}{f': {self.said}' if self.said else ''})"


_DEFAULT: Final = Decision("prose", "default")


@dataclass(frozen=True, kw_only=True, slots=True)
class Auto(Segmenter):
    """Cuts each document by the segmenter of its kind; `granularity` of code as in `Mixed`.

    Levels are those of the chosen segmenter, by rank and not by name.
    """

    granularity: str = "physical"
    version: ClassVar[int] = 13
    lookahead = None
    level_names = ("segment", "block", "part")

    def __post_init__(self) -> None:
        require_choice("granularity", self.granularity, GRANULARITIES)

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        decision = decide(kind=kind, name=name, meta=meta, text=text)
        _LOG.debug("document %s of kind %s: %s", name, kind, decision)
        return self.of_route(decision.route, name=name, meta=meta)

    def of_route(self, route: str, *, name: str | None = None, meta: Meta = None) -> Segmenter:
        """Return the segmenter of a route; name and fields give the language of code and prose."""
        if route == "code":
            code = Lines(granularity=self.granularity, fallback=True)
            return code.choose(text="", name=name, meta=meta)
        if route in FORMATS:
            return Mixed(format=route, granularity=self.granularity)
        return of_kind(route).choose(text="", name=name, meta=meta)

    def machine(self) -> Machine:
        raise self.refusal("name the document first: segmenter.choose(text=..., kind=...)")

    def versions(self) -> dict[str, str]:
        kinds = ("code", *FORMATS)
        others = {route: of_kind(route) for route in ROUTES if route not in kinds}
        return versions_of({**others, "mixed": Mixed(granularity=self.granularity)})

    def cut(self, text: str) -> Cuts:
        require_text(text)
        return self.choose(text=text).cut(text)

    _ends = cut

    def _levels(self, text: str) -> tuple[Cuts, ...]:
        return self.choose(text=text).levels(text)

    def _why(self, text: str) -> list[Ruling]:
        return self.choose(text=text).why(text)


def route(
    *, kind: str | None = None, name: str | None = None, meta: Meta = None, text: str = ""
) -> str:
    """Return the route of a document, one of ROUTES; `meta` are the fields of its row."""
    return decide(kind=kind, name=name, meta=meta, text=text).route


def decide(
    *, kind: str | None = None, name: str | None = None, meta: Meta = None, text: str = ""
) -> Decision:
    """Return the route of a document, with its reason: the most decisive is asked first."""
    kind, fields = (kind or "prose").lower(), texts(meta) if meta else {}
    if kind not in ("prose", "code") and kind in ROUTES:
        return Decision(kind, "kind", kind)
    if name and (named := _of_name(name, text)):
        return Decision(named, "name", PurePosixPath(name).name)
    for route, by, said in _of_fields(fields, text, is_code=kind == "code") if fields else ():
        if route:
            return Decision(route, by, said)
    if language := registry.language_of_script(text):
        return Decision("code", "first line", f"#! {language}")
    if kind == "code":
        return Decision(_looked_into(text), "kind", kind)
    if seen := detect(text):
        return Decision(seen.kind, "looks", str(seen))
    return Decision(_KINDS[kind], "kind", kind) if kind in _KINDS else _DEFAULT


def _of_fields(
    fields: Mapping[str, str], text: str, *, is_code: bool
) -> Iterator[tuple[str | None, str, str]]:
    """Yield route or None, what decides and its value, of the fields of a document."""
    for field in NAME_FIELDS:
        if known := fields.get(field):
            yield _of_name(known, text), f"field {field}", known
    if suffix := suffix_of(fields):
        yield _of_name(f"document{suffix}", text), "field ext", suffix
    for field in LANGUAGE_FIELDS:
        if known := fields.get(field):
            found = registry.route_of_language(known, is_code=is_code)
            yield found, f"field {field}", known
    for field in SET_FIELDS:
        if known := fields.get(field):
            yield _of_set(known, text), f"field {field}", known


def _of_set(name: str, text: str) -> str | None:
    route = registry.route_of_set(name)
    if route == registry.LOOKED_INTO:
        return _looked_into(text)
    return kind_of_paper(text) if route == registry.PAPERS else route


def _looked_into(text: str) -> str:
    kind = looks_like(text)
    return "code" if kind in (None, "arithmetic", "chain_of_thought", "prose") else kind


def _of_name(name: str, text: str) -> str | None:
    name = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    stem, dot, suffix = name.rpartition(".")
    suffix = dot + suffix if stem.strip(".") else ""
    route = registry.route_of_file(name, suffix)
    if route is None:  # as of most rows
        return None
    need = "manual page" if _OF_MANUAL_PAGES.match(suffix) else route
    if need in _NEEDS and (text or need in _SHARED):
        sign, otherwise = _NEEDS[need]
        return route if sign.search(text) else otherwise
    return route
