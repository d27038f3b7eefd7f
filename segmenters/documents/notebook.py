r"""Notebooks (.ipynb), kept as JSON -> parts: cells, each read as Markdown or as code.

The strings of a cell's source are read unescaped, with the place of each character in the JSON:
cuts fall after the "\n" of a line, two characters there. Strings of outputs are read the same way,
as lines; all other JSON is cut into physical lines. A string that begins its line begins a segment
there, indentation included, and its closing signs stay with it. The language of code is that of the
kernel or of a cell magic (%%bash). Formats 3 and 4 of nbformat, also if the JSON breaks off.
"""

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


# The most objects and lists around a string of an output inside of its cell: the list of outputs,
# an output, its data, the list of lines.
_DEPTH = 4
_OUTPUT = -1  # in the place of the number of a cell


@dataclass(frozen=True, slots=True)
class _Text:
    """Strings that follow each other in one source or output."""

    cell: int  # the number of the cell whose source it is, or `_OUTPUT`
    spans: list[tuple[int, int]] = field(default_factory=list)  # of each string, without quotes


@dataclass(slots=True)
class _Open:
    """An object or list around the place that is read."""

    sign: str
    owner: str = ""  # the key of its own place
    cell: int | None = None  # its number if it is a cell
    key: str = ""  # of the value that is next
    text: _Text | None = None  # to which its last string belongs


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a notebook, in order."""
    texts, kinds, language = _read(text)
    place = 0
    for found in texts:
        start, view, end = _view(text, found.spans, place)
        if start > place:
            yield Part(end=start, kind="lines", paragraph=False)
        is_cell = found.cell != _OUTPUT
        kind = _KINDS.get(kinds[found.cell], "lines") if is_cell else "lines"
        magic = _MAGIC.match(view.text) if kind == "code" else None
        name = magic[1] if magic else language
        yield Part(end=end, kind=kind, language=name, view=view, section=is_cell)
        place = end
    if place < len(text):
        yield Part(end=len(text), kind="lines")


def _read(text: str) -> tuple[list[_Text], list[str], str | None]:
    """Return the texts of cells and outputs in order, the type of each cell, and the language.

    A type is known when all of the cell is read: keys come in any order.
    """
    stack = [_Open("")]
    texts: list[_Text] = []
    kinds: list[str] = []
    language: str | None = None
    last = ""
    for token in _TOKEN.finditer(text):
        sign, top = token.group()[0], stack[-1]
        if sign == '"':
            string = token["string"]
            if top.sign == "{" and not top.key:
                last = string
            elif top.cell is not None and top.key == "cell_type":
                kinds[top.cell] = string
            elif (top.owner, top.key) in (("language_info", "name"), ("kernelspec", "language")):
                language = _VERSION.sub("", string) or None
            elif (cell := _cell_of(stack)) is not None:
                # One text per value, and a new one behind a text inside of a list.
                if top.sign == "{" or top.text is None or top.text is not texts[-1]:
                    top.text = _Text(cell)
                    texts.append(top.text)
                top.text.spans.append(token.span("string"))
        elif sign == ":":
            top.key = last
        elif sign == ",":
            top.key = top.key if top.sign == "[" else ""
        elif sign in "{[":
            opened = _Open(sign, owner=top.key if top.sign == "{" else top.owner)
            if sign == "{" and top.sign == "[" and top.owner == "cells":
                opened.cell = len(kinds)
                kinds.append("")
            stack.append(opened)
        elif sign in "}]" and len(stack) > 1:
            stack.pop()
    return texts, kinds, language


def _cell_of(stack: list[_Open]) -> int | None:
    """Return the number of the cell whose source a string is in, or `_OUTPUT`; None elsewhere."""
    top = stack[-1]
    holder, key = (top, top.key) if top.sign == "{" else (stack[-2:][0], top.owner)
    if holder.sign != "{":
        return None
    if holder.cell is not None and key in _SOURCES:
        return holder.cell
    near = stack[-_DEPTH - 1 :]
    return _OUTPUT if key in _OUTPUTS and any(place.cell is not None for place in near) else None


def _view(text: str, spans: list[tuple[int, int]], least: int) -> tuple[int, View, int]:
    """Return where the strings begin, their view, and where they end."""
    quote = spans[0][0] - 1
    line = max(text.rfind("\n", least, quote) + 1, least)
    begin = end = line if text[line:quote].isspace() else quote
    seen: list[str] = []
    places: list[np.ndarray] = []
    for start, stop in spans:
        first = len(places)
        for piece in _PIECE.finditer(text, start, stop):
            shown = piece.group()
            if piece["plain"] or piece["broken"]:
                row = np.arange(piece.start(), piece.end(), dtype=np.int64)
            else:
                shown = json.loads(f'"{shown}"')
                row = np.full(len(shown), piece.start(), dtype=np.int64)
            seen.append(shown)
            places.append(row)
        if stop > start:  # a string begins where its line does, or where the one before it ends
            places[first][0] = end
        end = past(_BEHIND, text, min(stop + 1, len(text)))
    return begin, view_of(seen, places), end
