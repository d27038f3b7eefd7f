"""A part of a document: where it ends, what kind of text it is, and in which language."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The text from the end of the part before up to `end` (characters).

    `kind`: "prose", "code", "latex", "tagged" (prose between tags), or "line", one segment.
    `language`: what the document calls the language of its code, such as "python" or "c++".
    """

    end: int
    kind: str
    language: str | None = None
