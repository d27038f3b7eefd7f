"""The names of segmenters, and of the languages, files and data sets of documents.

Classes are looked up by name when a segmenter is made, so this file is below all of them. The words
that mean a programming language, or a route (a kind of documents that `Auto` knows), are rows of
registry.txt.
"""

import difflib
import re
from collections.abc import Mapping
from configparser import ConfigParser
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path, PurePath
from typing import Any, Final

from segmenters.base import Segmenter, SegmenterError

# Names of conf/segmenter, and some more, that differ from those of their classes only in capitals.
_ALIKE = (
    *("agda", "coq", "hol", "isabelle", "lean", "lines", "metamath", "mixed", "mizar", "newline"),
    *("official", "pattern", "sentences", "tptp", "turns"),
)
_OTHERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "arithmetic": ("ArithmeticSteps", {}),
    "auto": ("Auto", {"granularity": "logical"}),
    "chain_of_thought": ("ChainOfThought", {}),
    "clauses": ("Clauses", {"of": "sentences"}),
    "latex": ("LaTeXProofs", {}),
    "logical": ("Lines", {"granularity": "logical"}),
    "matched": ("Matched", {"of": "sentences", "kind": "shuffled"}),
    "next_word": ("Sentences", {"next_word": True}),
    "random": ("RandomCuts", {"mean": 100, "seed": 0}),
    "repository": ("Repository", {"of": "auto"}),
    "spacy": ("Sentences", {"backend": "spacy"}),
    "stride": ("Stride", {"length": 100}),
    "transcript": ("Turns", {"names": True}),
}
# Class and parameters of each name.
SEGMENTERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = dict(
    sorted([*((name, (name.capitalize(), {})) for name in _ALIKE), *_OTHERS.items()])
)
# Kinds of text whose segmenter has another name: routes, parts of documents, fenced code.
_KINDS: Final = {"prose": "sentences", "tex": "latex", "lean4": "lean", "rocq": "coq"}
# Languages of code whose segments are steps of proofs, cut by segmenters of their own.
PROOFS: Final = (
    *("agda", "coq", "hol", "isabelle", "lean", "lean4", "metamath", "mizar", "rocq", "tptp"),
)


def segmenter_class(name: str) -> type[Segmenter]:
    """Return the class that SEGMENTERS names."""
    kind: type[Segmenter] = getattr(import_module("segmenters"), SEGMENTERS[name][0])
    return kind


def make(name: str, **parameters: Any) -> Segmenter:
    """Return the segmenter that SEGMENTERS names; `parameters` override those in it."""
    arguments = {**SEGMENTERS[name][1], **parameters}
    if isinstance(arguments.get("of"), str):
        arguments["of"] = make(arguments["of"])
    return segmenter_class(name)(**arguments)


@lru_cache(maxsize=64)
def of_kind(kind: str) -> Segmenter:
    """Return the segmenter for a route or for the kind of a document's part."""
    if kind == "markup":  # a line end may end a heading or an item
        return make("sentences", line_ends="auto")
    return make(_KINDS.get(kind, kind))


_TABLES = ConfigParser(interpolation=None, delimiters="=")
_TABLES.read_string(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))


def _rows(kind: str) -> dict[str, Mapping[str, str]]:
    return {
        section.removeprefix(kind): row
        for section, row in _TABLES.items()
        if section.startswith(kind)
    }


def _by(rows: Mapping[str, Mapping[str, str]], field: str) -> dict[str, str]:
    """Return the language or route that each word of a field means."""
    return {word: name for name, row in rows.items() for word in row.get(field, "").split()}


_LANGUAGES, _ROUTES = _rows("language "), _rows("route ")
LANGUAGES: Final = tuple(sorted(_LANGUAGES))
# Not routes: the text decides. Repositories hold all kinds; papers of the Pile went through pandoc
# and are Markdown with formulas, others are LaTeX.
LOOKED_INTO, PAPERS = "looked into", "papers"
ROUTES: Final = tuple(route for route in _ROUTES if route not in (LOOKED_INTO, PAPERS))
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
_LANGUAGE_BY_SUFFIX, _LANGUAGE_BY_FILE, _ALIASES = (
    _by(_LANGUAGES, field) for field in ("suffixes", "files", "names")
)
_BY_SUFFIX, _BY_FILE, _BY_NAME = (_by(_ROUTES, field) for field in ("suffixes", "files", "names"))
_BY_SUFFIX = dict.fromkeys(_LANGUAGE_BY_SUFFIX, "code") | _BY_SUFFIX
_BY_FILE = dict.fromkeys(_LANGUAGE_BY_FILE, "code") | _BY_FILE
_BY_SET = {_NOT_A_NAME.sub("", name): route for name, route in _by(_ROUTES, "sets").items()}
# Behind the name of a data set: its owner or configuration, or the buckets of CCNet
# ("c4/en", "cc_en_head").
_SEPARATOR = re.compile(r"[/:]|_(?=head|middle|tail|en_|all\b)")
# ISO 639 codes of natural languages that are also names of programming languages.
_BOTH: Final = frozenset(
    ("cs", "pl", "sh", "sl", "ml", "mk", "kt", "hs", "ts", "tr", "ro", "io", "hy")
)
_SCRIPT = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([a-z]+)")


def language_of(path: str | PurePath) -> str | None:
    """Return the language that a file name shows, or None."""
    name = PurePath(path).name.lower()
    return _LANGUAGE_BY_FILE.get(name) or _LANGUAGE_BY_SUFFIX.get(PurePath(name).suffix)


def known_language(name: str) -> str | None:
    """Return the language of a name or alias in any case, or None."""
    language = name.strip().lower()
    language = _ALIASES.get(language, language)
    return language if language in LANGUAGES else None


def language_named(name: str) -> str:
    """Return the language of a name; raise ValueError, with the nearest name, if it is unknown."""
    if language := known_language(name):
        return language
    near = difflib.get_close_matches(name.strip().lower(), (*LANGUAGES, *_ALIASES), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(
        f"language must be 'auto' or one of {', '.join(LANGUAGES)}, was: {name!r}{hint}"
    )


def language_of_script(text: str) -> str | None:
    """Return the language that the first line of a script names ("#!/usr/bin/env python3")."""
    match = _SCRIPT.match(text)
    return known_language(match[1]) if match else None


def route_of_file(name: str, suffix: str) -> str | None:
    """Return the route of a file name in lower case, by the whole name or by its suffix."""
    return _BY_FILE.get(name) or _BY_SUFFIX.get(suffix)


def route_of_language(name: str, *, is_code: bool) -> str | None:
    """Return the route of a programming language by its name in a data set."""
    # Codes of natural languages ("en") have none; those that name both ("cs") count only in code.
    words = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if not words or (words in _BOTH and not is_code and name.islower()):
        return None
    return _BY_NAME.get(words) or ("code" if known_language(name) else None)


def route_of_set(name: str) -> str | None:
    """Return the route of a data set, `LOOKED_INTO` or `PAPERS`; only letters and digits count."""
    lower = name.lower()
    plain = (_NOT_A_NAME.sub("", word) for word in (lower, _SEPARATOR.split(lower)[0]))
    return next((route for word in plain if (route := _BY_SET.get(word))), None)


def installed(*packages: str) -> dict[str, str]:
    """Return the versions of packages on which cuts depend; SegmenterError if one is not known."""
    numbers = {}
    for name in packages:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise SegmenterError(
                f"cuts depend on the version of {name}, which has no package metadata: "
                f"pip install --force-reinstall {name}"
            ) from None
    return numbers
