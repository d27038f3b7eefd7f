"""The fields of a row besides its text, by which a segmenter may be chosen for its document.

Only fields that are asked for are kept, so that a row costs no more memory than its text: by
default those that routing knows (`segmenters.fields`), in the row or in its `meta`. Of a
Parquet file only the columns of these fields are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS, kept_fields


def fields_of(
    row: Mapping[str, Any], text_key: str, keys: Sequence[str] | None = None
) -> dict[str, Any]:
    """The fields of these names, those in `meta` or `metadata` in their places."""
    names = [key for key in (KNOWN_FIELDS if keys is None else keys) if key != text_key]
    return kept_fields(row, names)


def columns_of(schema: Any, keys: Sequence[str] | None = None) -> list[str]:
    """The columns of a Parquet file (its Arrow schema) that hold these fields, dotted if nested."""
    wanted = frozenset(KNOWN_FIELDS if keys is None else keys)
    found = []
    for column in schema:
        if column.name in wanted:
            found.append(column.name)
        elif column.name in NESTING_FIELDS:
            inner = [child.name for child in column.type] if _is_struct(column.type) else []
            found += [f"{column.name}.{name}" for name in inner if name in wanted]
            if not inner:  # spelled as JSON
                found.append(column.name)
    return found


def _is_struct(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_struct(kind))
