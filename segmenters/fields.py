"""Read the fields of a document: its file name, language and source.

The field names are those of the Stack, StarCoder data, proof-pile-2, CodeSearchNet, the Pile,
RedPajama, SlimPajama, Dolma and Common Pile.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

NAME_FIELDS: Final = (
    *("path", "file_path", "filepath", "file_name", "filename", "name"),
    *("max_stars_repo_path", "content_path"),
)
LANGUAGE_FIELDS: Final = ("language", "lang", "programming_language")
SUFFIX_FIELDS: Final = ("ext", "extension")
SET_FIELDS: Final = (
    *("pile_set_name", "redpajama_set_name", "set_name", "source", "subset", "dataset"),
)
KNOWN_FIELDS: Final = (*NAME_FIELDS, *LANGUAGE_FIELDS, *SUFFIX_FIELDS, *SET_FIELDS)
NESTING_FIELDS: Final = ("meta", "metadata")
# Longer values are no names and are dropped: some corpora put whole texts into other fields.
_LONGEST = 4096


def texts(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that hold text, nested ones included; of a list of names, the first."""
    flat: dict[str, Any] = {}
    for field in NESTING_FIELDS:
        flat |= _mapping(meta.get(field))
    values = {str(key): _text(value) for key, value in (flat | dict(meta)).items()}
    return {key: value for key, value in values.items() if value}


def kept_fields(row: Mapping[str, Any], keys: Sequence[str], *, whole: bool) -> dict[str, Any]:
    """Return the named fields of a row, nested ones nested.

    `keys`: dotted where they are nested ("repo.name"); plain ones count in NESTING_FIELDS, too.
    `whole`: also what is no short name.
    """
    kept: dict[str, Any] = {}
    for key in keys:
        outer, dot, inner = key.partition(".")
        if key in row:
            if whole or _is_short(row[key]):
                kept[key] = row[key]
        elif dot and (nested := kept_fields(_mapping(row.get(outer)), [inner], whole=whole)):
            kept[outer] = _merged(kept.get(outer), nested)
    for field in NESTING_FIELDS:
        fields = _mapping(row.get(field))
        if inside := {key: fields[key] for key in keys if _is_short(fields.get(key))}:
            kept[field] = _merged(kept.get(field), inside)
    return kept


def _merged(first: object, second: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested fields with further ones."""
    merged = dict(first) if isinstance(first, Mapping) else {}
    for key, value in second.items():
        merged[key] = _merged(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def language_of_fields(meta: Mapping[str, Any]) -> str | None:
    """Return the value of the first field that names a language."""
    fields = texts(meta)
    return next((fields[field] for field in LANGUAGE_FIELDS if fields.get(field)), None)


def path_of(
    name: str | None, meta: Mapping[str, Any], *, known: Callable[[str], object]
) -> str | None:
    """Return the first of the document's name and its fields that is `known`, else its name."""
    # Readers name rows like files ("part.jsonl:7"), so that not every suffix tells of the document.
    fields = texts(meta)
    suffix = suffix_of(fields)
    paths = (name, *(fields.get(field) for field in NAME_FIELDS), suffix and f"document{suffix}")
    return next((path for path in paths if path and known(path)), name)


def suffix_of(fields: Mapping[str, str]) -> str | None:
    """Return the file suffix among the fields, with its dot: ".py"."""
    suffix = next((fields[field] for field in SUFFIX_FIELDS if fields.get(field)), "")
    return "." + suffix.strip().lstrip(".").lower() if suffix.strip(" .") else None


def _mapping(value: object) -> Mapping[str, Any]:
    """Return a field of fields, which some data sets write as JSON; {} for other values."""
    if isinstance(value, str) and value[:1] == "{" and len(value) <= _LONGEST:
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and value:
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("name")
    return value if isinstance(value, str) else ""


def _is_short(value: object) -> bool:
    """Return whether a value may be a name: short text, or a short list or mapping with some."""
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST
    return isinstance(value, (list, tuple, dict)) and len(value) <= 100 and bool(_text(value))
