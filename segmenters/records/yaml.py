r"""YAML by its indentation: an item is an entry of a mapping or of a list, with its scalar.

A value over several lines (block scalars, quoted and plain text, flow collections) belongs to its
key; an entry that holds others is a line of its own, and they are the items below. Levels: items,
entries at the margin, documents. "- name: x" is one item: an entry of a list with its first key.
Source: YAML 1.2.2, sections 6 to 9; a key is at most as long as a machine reads of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from segmenters.records.reading import Format, Literal, Reading

_KEY = (
    r"(?P<name>(?:\"(?:[^\"\\\r\n]|\\.){0,200}+\"|'[^'\r\n]{0,200}+'"
    r"|(?![\"'\[\]{}#|>%@`]|[&*!?-]\s)(?:[^:\r\n#]|:(?!\s|\Z)|(?<!\s)#){1,240}+)"
    r"[ \t]{0,9}+:(?=\s|\Z))"
)
_REST = 0  # the place of a comment among the literals, which serves for any rest of a line
# What may be in front of a value: anchors and tags; then what a value begins with.
_VALUE = re.compile(
    r"[ \t]*+(?:[!&][^\s,\[\]{}]*+[ \t]*+)*+"
    r"(?:(?P<block>[|>])|(?P<quote>[\"'])|(?P<flow>\[|\{(?![{%]))|(?P<plain>[^\s#]))?"
)


@dataclass(slots=True, kw_only=True)
class Yaml(Reading):
    """Reads YAML; columns are -1 for the margin of a document, -2 for none."""

    block: int = -2  # the column of the entry whose block scalar is open
    plain: int = -2  # the column of the entry that has a value, which deeper lines go on with
    top: str = ""  # the first sign of the document's first entry, if that is a dash

    def start(self, text: str, place: int, base: int) -> int:
        """Decide whether an item starts with the line at `place`; return where to read on."""
        if self.goes_on(text, place, base):
            return place
        match = self.patterns.starts.match(text, place, place + self.format.head)
        kind = (match.lastgroup or "") if match else ""
        if match is None or kind == "blank":
            self.above, self.blank = False, True
            return place
        column = len(text[place : match.end()]) - len(text[place : match.end()].lstrip(" "))
        if self.block > -2 and kind not in ("l3", "end"):
            if column > self.block:
                return self._rest(place)
            self.block = -2
        if kind == "comment":
            if not self.above:
                self.emit(base + place, 1)
            self.above = True
            return self._rest(place)
        if column > self.plain > -2 and kind == "entry":
            self.above = False
            return self._rest(place)
        return self._entry(text, place, base, match)

    def _rest(self, place: int) -> int:
        self.inside = _REST
        return place

    def _entry(self, text: str, place: int, base: int, match: re.Match[str]) -> int:
        """Read an entry, or the line where a document or a value below its key starts."""
        kind = match.lastgroup or ""
        dash, name = match["dash"], match["name"]
        if kind == "entry" and not dash and not name:
            return self._value(text, match.end(), base, -2, place)
        column = -1
        if kind == "entry":
            column = match.start("name" if name else "dash") - place
            margin = text[place] != " "
            if margin and not self.top:
                self.top = dash or "key"
            level = 2 if margin and not (dash and self.top == "key") else 1
        else:
            level = {"l3": 3, "tag": 3}.get(kind, 0)
            self.top = ""
        if level:
            self.emit(base + place, level)
        self.above, self.blank = kind == "tag", False
        return self._value(text, match.end(), base, column, place)

    def _value(self, text: str, place: int, base: int, column: int, line: int) -> int:
        """Read how the value at `place` begins, of an entry in a column."""
        match = _VALUE.match(text, place, line + self.format.head)
        kind = match.lastgroup if match else None
        self.plain = column if kind in ("plain", "quote") else -2
        self.block = column if kind == "block" else -2
        if match is None or kind not in ("quote", "flow"):
            return self._rest(place)
        self.opened = base + place
        if kind == "flow":
            self.depth = 1
        else:
            self.inside = 1 if match["quote"] == '"' else 2
        return match.end()


YAML: Final = Format(
    names=("item", "section", "document"),
    starts=r"(?P<blank>[ \t]{0,200}+(?:[\r\n]|\Z))|(?P<comment>[ \t]*+#)|(?P<tag>%[A-Z])"
    r"|(?P<l3>---(?=\s|\Z))|(?P<end>\.\.\.(?=\s|\Z))"
    rf"|(?P<entry>[ ]*+(?:(?P<dash>[-?])(?=\s|\Z)[ \t]*+)*+{_KEY}?+)",
    head=280,
    literals=(
        Literal(r"(?<=\s)#", lines=False),
        Literal(r'(?<=[\s,:\[{])"', '"', r"\\."),
        Literal(r"(?<=[\s,:\[{])'", "'", "''"),
    ),
    opens="[{",
    closes="]}",
    resets=r"[A-Za-z_][\w.-]{0,80}+:\s|---\s",
    reach=3,
    reading=Yaml,
)
