"""Which kind of segmenter a document asks for: `route`, a plain function.

What is said about a document decides before what it looks like: its kind, if that names one; its
file name, or one among its fields; the programming language among its fields; the data set that
it comes from (`pile_set_name` of the Pile, `redpajama_set_name`); then its text (`sniff`); then
its kind in general. "prose" is what readers say by default, so as a kind it decides last.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from segmenters.code.fields import LANGUAGE_FIELDS, NAME_FIELDS, texts
from segmenters.mixed.sniff import sniff

ROUTES: Final = (
    *("arithmetic", "chain_of_thought", "code", "coq", "html", "isabelle", "latex", "lean"),
    *("markdown", "metamath", "mizar", "notebook", "prose"),
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
    "html": ".html .htm .xhtml",
    "isabelle": ".thy",
    "latex": ".tex .ltx .latex",
    "lean": ".lean",
    "markdown": ".md .markdown .mdown .mkd .qmd .rmd",
    "metamath": ".mm",
    "mizar": ".miz .abs",
    "notebook": ".ipynb",
    "code": ".py .pyi .c .h .cc .cpp .cxx .hh .hpp .hxx .cs .css .d .dart .el .erl .ex .exs .f .f90"
    " .go .gradle .groovy .hs .java .jl .js .jsx .json .kt .lisp .lua .m .ml .mli .mjs .nim .php"
    " .pl .pm .ps1 .r .rb .rs .sass .scala .scm .scss .sh .bash .sql .sty .cls .bib .swift .tcl"
    " .toml .ts .tsx .vb .vhd .sv .xml .yaml .yml .zig .cmake .proto .asm .s .ini .cfg .bat",
}
_BY_SUFFIX: Final = {s: route for route, suffixes in _SUFFIXES.items() for s in suffixes.split()}
_NAMES: Final = frozenset(("makefile", "dockerfile", "cmakelists.txt", "gemfile", "rakefile"))
# What must be in a text besides its suffix, which others use as well: Verilog, Objective-C++.
_NEEDS: Final = {"metamath": "$."}
_FORBIDS: Final = {"coq": "endmodule"}
_PROGRAMMING: Final = """
    bash c# c++ cpp csharp css dart elixir erlang fortran go haskell java javascript json julia
    kotlin lua matlab ocaml objective-c perl php powershell python r ruby rust scala scheme shell
    sql swift tcl typescript vhdl verilog xml yaml
"""
_LANGUAGES: Final = {
    "c": "code",
    "coq": "coq",
    "rocq": "coq",
    "html": "html",
    "isabelle": "isabelle",
    "jupyter notebook": "notebook",
    "jupyter-notebook": "notebook",
    "latex": "latex",
    "lean": "lean",
    "markdown": "markdown",
    "tex": "latex",
    "text": "prose",
} | dict.fromkeys(_PROGRAMMING.split(), "code")
_SETS: Final = {
    "arxiv": "latex",
    "redpajamaarxiv": "latex",
    "dm mathematics": "chain_of_thought",
    "github": "code",
    "redpajamagithub": "code",
    "pubmed central": "markdown",
    "stackexchange": "markdown",
    "redpajamastackexchange": "markdown",
    "ubuntu irc": "code",
} | dict.fromkeys(
    (
        *("gutenberg (pg-19)", "pg-19", "pg19", "books3", "bookcorpus2", "wikipedia (en)"),
        *("openwebtext2", "pile-cc", "freelaw", "pubmed abstracts", "opensubtitles", "europarl"),
        *("hackernews", "nih exporter", "philpapers", "youtubesubtitles", "enron emails"),
        *("uspto backgrounds", "redpajamac4", "redpajamacommoncrawl", "redpajamawikipedia"),
        *("redpajamabook",),
    ),
    "prose",
)
# Where a set holds files of all kinds, its documents are looked at before the set decides.
_LOOKED_INTO: Final = frozenset(("github", "redpajamagithub"))
_SET_FIELDS: Final = ("pile_set_name", "redpajama_set_name", "set_name", "subset", "source")


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
    kind = (kind or "prose").lower()
    if kind in ROUTES and kind not in ("prose", "code"):
        return kind
    fields = texts(meta or {})
    for known in (name, *(fields.get(field) for field in NAME_FIELDS)):
        if known and (found := _by_name(known, text)):
            return found
    for field in LANGUAGE_FIELDS:
        if found := _LANGUAGES.get(fields.get(field, "").lower()):
            return found
    sets = [fields.get(field, "").lower() for field in _SET_FIELDS]
    for known in sets:
        if known in _SETS and known not in _LOOKED_INTO:
            return _SETS[known]
    if any(known in _LOOKED_INTO for known in sets):
        return _looked_into(text)
    if kind == "code":
        return _looked_into(text)
    return sniff(text) or _KINDS.get(kind, "prose")


def _looked_into(text: str) -> str:
    """Code, unless it is a proof, a paper, a page or the like."""
    found = sniff(text)
    return "code" if found in (None, "arithmetic", "chain_of_thought", "prose") else found


def _by_name(name: str, text: str) -> str | None:
    path = PurePosixPath(name.replace("\\", "/").lower())
    if path.name in _NAMES:
        return "code"
    found = _BY_SUFFIX.get(path.suffix)
    if found is None:
        return None
    if _NEEDS.get(found, "") not in text or (found in _FORBIDS and _FORBIDS[found] in text):
        return "code"
    return found
