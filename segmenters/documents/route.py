"""Which kind of segmenter a document asks for: `route`, a plain function, and `decide`, with why.

What is said about a document decides before what it looks like: its kind, if that names one; its
file name, or one among its fields; the programming language among its fields; the data set that
it comes from (`sets`); then its text (`sniff`); then its kind in general. "prose" is what readers
say by default, so as a kind it decides last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from segmenters.code.fields import LANGUAGE_FIELDS, NAME_FIELDS, SET_FIELDS, suffix_of, texts
from segmenters.code.languages import language_of, language_of_script
from segmenters.documents.languages import route_of_language
from segmenters.documents.sets import LOOKED_INTO, route_of_set
from segmenters.documents.sniff import sniff

ROUTES: Final = (
    *("arithmetic", "chain_of_thought", "code", "coq", "diff", "email", "html", "isabelle"),
    *("latex", "lean", "lines", "markdown", "metamath", "mizar", "notebook", "prose", "rst"),
)
# By general kinds of documents; each is what is left if nothing tells more.
_KINDS: Final = {
    "code": "code",
    "proof": "chain_of_thought",
    "proofs": "chain_of_thought",
    "text": "prose",
}
_SUFFIXES: Final = {
    "coq": ".v",
    "diff": ".diff .patch",
    "email": ".eml .mbox .mbx",
    "html": ".html .htm .xhtml .shtml",
    "isabelle": ".thy",
    "latex": ".tex .ltx .latex",
    "lean": ".lean",
    "lines": ".csv .tsv .log .jsonl .ndjson .srt .vtt .po .pot .typed",
    "markdown": ".md .markdown .mdown .mkd .mdx .qmd .rmd",
    "metamath": ".mm",
    "mizar": ".miz .abs",
    "notebook": ".ipynb",
    "rst": ".rst .rest",
    "code": ".svg .csproj .lock"
    " .ada .adb .ads .agda .asm .awk .bas .bat .bib .cfg .clj .cljs .cls .cmake .cmd .cob"
    " .coffee .conf .cr .cu .cuh .d .dart .dtd .ebuild .el .elm .erl .ex .exs .f .f90 .f95 .for"
    " .fs .fsi .fsx .gd .glsl .gradle .groovy .hlsl .hrl .hx .idr .ini .in .ipp .jinja .j2 .kt .kts"
    " .less .lhs .lisp .lua .m .m4 .mak .map .ml .mli .nim .nix .pas .pl .pm .pp .ps1 .pro"
    " .properties .proto .purs .pxd .pyx .qml .r .rkt .s .sass .scm .scss .sed .sol .sparql .spec"
    " .sql .ss .sty .sv .svh .swift .tcl .tf .thrift .toml .vala .vb .vba .vert .vhd .vhdl .vim"
    " .vue .wat .xml .xsd .xsl .xslt .yaml .yml .zig .pc .ac .am .service .desktop .plist .cjs"
    " .mjs .cts .mts .editorconfig .gitignore .gitattributes .npmrc .opam .nimble .gemspec",
}
_BY_SUFFIX: Final = {s: route for route, suffixes in _SUFFIXES.items() for s in suffixes.split()}
_NAMES: Final = {
    "code": "makefile gnumakefile dockerfile containerfile cmakelists.txt gemfile rakefile procfile"
    " jenkinsfile vagrantfile podfile brewfile justfile build build.bazel workspace configure"
    " meson.build sconstruct sconscript requirements.txt constraints.txt entry_points.txt"
    " .gitignore .gitattributes .dockerignore .editorconfig .npmrc .npmignore .eslintrc .babelrc"
    " .bashrc .profile .vimrc .prettierrc pkgbuild pipfile _coqproject go.mod go.sum",
    "email": "metadata pkg-info wheel",
    "lines": "record sources.txt top_level.txt installed-files.txt installer py.typed",
    "prose": "license licence license.txt licence.txt copying copying.txt copyright notice"
    " notice.txt unlicense authors thanks contributors maintainers credits",
}
_BY_NAME: Final = {name: route for route, names in _NAMES.items() for name in names.split()}
# What must be in a text besides its suffix, which others use as well, and what else it is then:
# Verilog, Objective-C++, a page of which only the text is kept.
_NEEDS: Final[dict[str, tuple[str, str | None]]] = {"metamath": ("$.", "code"), "html": ("<", None)}
_FORBIDS: Final = {"coq": ("endmodule", "code")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A route, what it was decided by ("name", "looks", ...) and what that said."""

    route: str
    by: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.route} (by {self.by}{f': {self.said}' if self.said else ''})"


def route(
    *,
    kind: str | None = None,
    name: str | None = None,
    meta: Mapping[str, Any] | None = None,
    text: str = "",
) -> str:
    """One of ROUTES: which kind of segmenter a document asks for.

    `meta` are the fields of the document's row; those of a field `meta` in it count as well.
    """
    return decide(kind=kind, name=name, meta=meta, text=text).route


def decide(
    *,
    kind: str | None = None,
    name: str | None = None,
    meta: Mapping[str, Any] | None = None,
    text: str = "",
) -> Decision:
    """The route of a document, as `route` gives it, and why."""
    kind = (kind or "prose").lower()
    if kind in ROUTES and kind not in ("prose", "code"):
        return Decision(route=kind, by="kind", said=kind)
    fields = texts(meta or {})
    return (
        _by_names(name, fields, text)
        or _by_languages(fields, is_code=kind == "code")
        or _by_sets(fields, text)
        or _by_text(kind, text)
    )


def _by_names(name: str | None, fields: Mapping[str, str], text: str) -> Decision | None:
    if name and (found := _of_name(name, text)):
        return Decision(route=found, by="name", said=PurePosixPath(name).name)
    for field in NAME_FIELDS:
        if (known := fields.get(field)) and (found := _of_name(known, text)):
            return Decision(route=found, by=f"field {field}", said=known)
    suffix = suffix_of(fields)
    if suffix and (found := _of_name(f"document{suffix}", text)):
        return Decision(route=found, by="field ext", said=suffix)
    return None


def _by_languages(fields: Mapping[str, str], *, is_code: bool) -> Decision | None:
    for field in LANGUAGE_FIELDS:
        known = fields.get(field, "")
        if found := route_of_language(known, is_code=is_code):
            return Decision(route=found, by=f"field {field}", said=known)
    return None


def _by_sets(fields: Mapping[str, str], text: str) -> Decision | None:
    for field in SET_FIELDS:
        known = fields.get(field, "")
        found = route_of_set(known, text)
        if found == LOOKED_INTO:
            found = _looked_into(text)
        if found:
            return Decision(route=found, by=f"field {field}", said=known)
    return None


def _by_text(kind: str, text: str) -> Decision:
    if language := language_of_script(text):
        return Decision(route="code", by="first line", said=f"#! {language}")
    if kind == "code":
        return Decision(route=_looked_into(text), by="kind", said=kind)
    if found := sniff(text):
        return Decision(route=found, by="looks")
    if kind in _KINDS:
        return Decision(route=_KINDS[kind], by="kind", said=kind)
    return Decision(route="prose", by="default")


def _looked_into(text: str) -> str:
    """Code, unless it is a proof, a paper, a page or the like."""
    found = sniff(text)
    return "code" if found in (None, "arithmetic", "chain_of_thought", "prose") else found


def _of_name(name: str, text: str) -> str | None:
    path = PurePosixPath(name.replace("\\", "/").lower())
    if found := _BY_NAME.get(path.name):
        return found
    found = _BY_SUFFIX.get(path.suffix) or ("code" if language_of(path.name) else None)
    if text and found in _NEEDS and _NEEDS[found][0] not in text:
        return _NEEDS[found][1]
    if found in _FORBIDS and _FORBIDS[found][0] in text:
        return _FORBIDS[found][1]
    return found
