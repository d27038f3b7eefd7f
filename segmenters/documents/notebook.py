r"""Notebooks (.ipynb), kept as JSON -> parts: cells, each read as Markdown or as code.

The strings of a cell's source are read unescaped, with the place of each character in the JSON:
cuts fall after the "\n" of a line, two characters there. Strings of outputs are read the same way,
as lines; all other JSON is cut into physical lines. A string that begins its line begins a segment
there, indentation included, and its closing signs stay with it. The language of code is that of the
kernel or of a cell magic (%%bash). Formats 3 and 4 of nbformat, also if the JSON breaks off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from segmenters.documents.parts import Part, View, view_of
from segmenters.places import past

_TOKEN = re.compile(r'"(?P<string>(?:[^"\\]++|\\.)*+)"?|[{}\[\]:,]|[^\s"{}\[\]:,]++', re.DOTALL)
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_PIECE = re.compile(
    rf"(?P<plain>[^\\]++)|\\u[dD][89abAB][0-9a-fA-F]{{2}}{_LOW}|\\u[0-9a-fA-F]{{4}}"
    r'|\\["\\/bfnrt]|(?P<broken>\\)',
    re.DOTALL,
)
# What follows a string on its line, the line end included.
_BEHIND = re.compile(r"[ \t]*+,?[ \t]*+(?:\r\n?|\n)?")
_MAGIC = re.compile(r"\s*%%(?:script[ \t]+)?(\w+)")
_VERSION = re.compile(r"[\d.]+\Z")
_SOURCES: Final = ("source", "input")
_OUTPUTS: Final = ("text", "text/plain", "traceback")
_KINDS: Final = {"markdown": "markdown", "heading": "markdown", "code": "code"}


@dataclass(slots=True)
class _Strings:
    """Strings that form one source or output; `spans`: start and end of each, without quotes."""

    cell: _Open | None = None  # its kind is known when all of it is read: keys come in any order
    spans: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """An open object or list; `strings` are those that it holds as one text."""

    sign: str
    key: str = ""  # of the value that is next
    owner: str = ""  # the key of its own place
    is_cell: bool = False
    kind: str = ""
    source: _Strings | None = None
    strings: _Strings | None = None


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a notebook, in order."""
    cells, language = _read(text)
    place = 0
    for strings in sorted(cells, key=lambda strings: strings.spans[0]):
        start, view, end = _view(text, strings.spans, place)
        if start > place:
            yield Part(end=start, kind="lines", paragraph=False)
        kind = _KINDS.get(strings.cell.kind, "lines") if strings.cell else "lines"
        magic = _MAGIC.match(view.text) if kind == "code" else None
        name, is_cell = magic[1] if magic else language, strings.cell is not None
        yield Part(end=end, kind=kind, language=name, view=view, section=is_cell)
        place = end
    if place < len(text):
        yield Part(end=len(text), kind="lines")


def _read(text: str) -> tuple[list[_Strings], str | None]:
    """Return the texts of cells and outputs, and the language of the kernel."""
    stack = [_Open("")]
    cells: list[_Strings] = []
    language: str | None = None
    last = ""
    for token in _TOKEN.finditer(text):
        sign, top = token.group()[0], stack[-1]
        if sign == '"':
            string = token["string"]
            if top.sign == "{" and not top.key:
                last = string
                continue
            if top.is_cell and top.key == "cell_type":
                top.kind = string
            elif (top.owner, top.key) in (("language_info", "name"), ("kernelspec", "language")):
                language = _VERSION.sub("", string) or None
            strings = _strings_of(stack, cells)
            if strings is not None:
                strings.spans.append(token.span("string"))
        elif sign == ":":
            top.key = last
        elif sign == ",":
            top.key = top.key if top.sign == "[" else ""
        elif sign in "{[":
            owner = top.key if top.sign == "{" else top.owner
            is_cell = sign == "{" and top.sign == "[" and top.owner == "cells"
            stack.append(_Open(sign, owner=owner, is_cell=is_cell))
        elif sign in "}]" and len(stack) > 1:
            stack.pop()
    return [strings for strings in cells if strings.spans], language


def _strings_of(stack: list[_Open], found: list[_Strings]) -> _Strings | None:
    """Return the text that a string value belongs to; None outside of cells and outputs."""
    if len(stack) < 2:
        return None
    top = stack[-1]
    holder, key = (top, top.key) if top.sign == "{" else (stack[-2], top.owner)
    if holder.sign != "{":
        return None
    if holder.is_cell and key in _SOURCES:
        if holder.source is None:
            holder.source = _Strings(cell=holder)
            found.append(holder.source)
        return holder.source
    if key not in _OUTPUTS or not any(place.is_cell for place in stack[-5:]):
        return None
    if top.strings is None or top.sign == "{":
        top.strings = _Strings()
        found.append(top.strings)
    return top.strings


def _view(text: str, spans: list[tuple[int, int]], least: int) -> tuple[int, View, int]:
    """Return where the strings begin, their view, and where they end."""
    first = spans[0][0] - 1
    line = max(text.rfind("\n", least, first) + 1, least)
    begin = end = line if text[line:first].isspace() else first
    seen: list[str] = []
    places: list[np.ndarray] = []
    for start, stop in spans:
        for piece in _PIECE.finditer(text, start, stop):
            shown = piece.group()
            if piece["plain"] or piece["broken"]:
                row = np.arange(piece.start(), piece.end(), dtype=np.int64)
            else:
                shown = json.loads(f'"{shown}"')
                row = np.full(len(shown), piece.start(), dtype=np.int64)
            row[0] = max(end, least) if piece.start() == start else row[0]
            seen.append(shown)
            places.append(row)
        end = past(_BEHIND, text, min(stop + 1, len(text)))
    return begin, view_of(seen, places), end
