"""Names of programming languages, and which of them a file name speaks of.

Names are lower case ("c++", "c#" and "js" are understood); a file name decides by its suffix, or
whole (`.bashrc`). A header `.h` counts as C. The contents of a file are not looked at, except for
the first line of a script ("#!/bin/sh").
"""

from __future__ import annotations

import difflib
import re
from pathlib import PurePath

_SUFFIXES = {
    "bash": ".sh .bash .zsh .ksh .bats .ebuild",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp .cu .cuh .ino",
    "csharp": ".cs .csx",
    "css": ".css",
    "go": ".go",
    "haskell": ".hs",
    "html": ".html .htm .xhtml",
    "java": ".java",
    "javascript": ".js .mjs .cjs .jsx",
    "json": ".json .jsonc .geojson .webmanifest",
    "julia": ".jl",
    "ocaml": ".ml",
    "ocaml_interface": ".mli",
    "php": ".php .phtml .php5 .inc",
    "python": ".py .pyi .pyw",
    "ruby": ".rb .rake .gemspec .ru",
    "rust": ".rs",
    "scala": ".scala .sc .sbt",
    "tsx": ".tsx",
    "typescript": ".ts .mts .cts",
}
_NAMES = {
    ".bashrc .bash_profile .profile .zshrc pkgbuild": "bash",
    "gemfile rakefile vagrantfile podfile": "ruby",
    "sconstruct sconscript": "python",
}
_ALIASES = {
    "c++": "cpp",
    "c#": "csharp",
    "c_sharp": "csharp",
    "golang": "go",
    "js": "javascript",
    "jsx": "javascript",
    "py": "python",
    "python3": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "shell": "bash",
    "ts": "typescript",
    "node": "javascript",
    "zsh": "bash",
}
LANGUAGES = tuple(sorted(_SUFFIXES))
_BY_SUFFIX = {suffix: name for name, row in _SUFFIXES.items() for suffix in row.split()}
_BY_NAME = {file: name for row, name in _NAMES.items() for file in row.split()}
_SCRIPT = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([a-z]+)")


def language_of(path: str | PurePath) -> str | None:
    """The language of a file of this name; None if the name does not tell."""
    name = PurePath(path).name.lower()
    return _BY_NAME.get(name) or _BY_SUFFIX.get(PurePath(name).suffix)


def language_named(name: str) -> str:
    """The language of this name or alias, in any case, as a data set may call it.

    Raises ValueError, with the nearest name, for a language that is not known.
    """
    known = name.strip().lower()
    known = _ALIASES.get(known, known)
    if known in LANGUAGES:
        return known
    near = difflib.get_close_matches(known, (*LANGUAGES, *_ALIASES), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(
        f"language must be 'auto' or one of {', '.join(LANGUAGES)}, was: {name!r}{hint}"
    )


def language_of_script(text: str) -> str | None:
    """The language that the first line of a script asks for ("#!/usr/bin/env python3")."""
    match = _SCRIPT.match(text) if text.startswith("#!") else None
    name = match[1] if match else ""
    name = _ALIASES.get(name, name)
    return name if name in LANGUAGES else None
