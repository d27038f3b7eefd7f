"""What the fields of a document say about it: its file name and its programming language.

The names of the fields are those of the data sets of code that are in use: the Stack, StarCoder
data, proof-pile-2, CodeSearchNet, the Pile, RedPajama.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

NAME_FIELDS: Final = (
    *("path", "file_path", "filepath", "file_name", "filename", "name"),
    *("max_stars_repo_path", "content_path"),
)
LANGUAGE_FIELDS: Final = ("language", "lang", "programming_language")


def texts(meta: Mapping[str, Any]) -> dict[str, str]:
    """The fields that hold text, those of a field `meta` in it included."""
    nested = meta.get("meta")
    flat = {**(nested if isinstance(nested, Mapping) else {}), **meta}
    return {str(key): value for key, value in flat.items() if isinstance(value, str)}


def language_of_fields(meta: Mapping[str, Any]) -> str | None:
    """What the first field that names a language says."""
    fields = texts(meta)
    return next((fields[field] for field in LANGUAGE_FIELDS if fields.get(field)), None)


def path_of(name: str | None, meta: Mapping[str, Any]) -> str | None:
    """The first of the document's name and of its fields that looks like the name of a file."""
    fields = texts(meta)
    names = (name, *(fields.get(field) for field in NAME_FIELDS))
    return next((known for known in names if known and PurePath(known).suffix), name)
