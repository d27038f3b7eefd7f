"""Rows of a corpus: which ones are read, which field is the text, and which fields are kept.

The `filter` of readers; all conditions must hold, and a null is in no range and matches nothing:

    {"meta.pile_set_name": ["ArXiv", "Github"],        one of these values
     "stars": {"at_least": 10, "at_most": 1000},       a range
     "path": {"matches": "\\.py$", "not": ["setup.py"]}}

Other fields take memory, so only those are kept that choose a segmenter (`segmenters.fields`), in
the row or in its `meta`, if they are short; those that `meta_keys` names are kept whole.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS, kept_fields
from train.data.reading.documents import BROKEN, Bad, Document, TolerantReader
from train.errors import DataError

Conditions = Mapping[str, Any]
_SHOWN = 400  # characters of the names of fields
_SOUGHT = frozenset((*KNOWN_FIELDS, *NESTING_FIELDS))
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "at_least": lambda value, least: _number(value) >= least,
    "at_most": lambda value, most: _number(value) <= most,
    "matches": lambda value, pattern: isinstance(value, str) and re.search(pattern, value),
    "not": lambda value, refused: not _is_among(value, refused),
}


@dataclass(frozen=True, kw_only=True)
class Rows(TolerantReader):
    """A reader of rows: objects with fields.

    text_key, id_key: dotted for nested fields; without id_key, the place names the document.
    meta_keys: fields to keep for the segmenter; by default those that `Auto` knows. filter: see the
    module. The text may be the messages of a conversation, or a list of texts or of objects with a
    `text`, which are joined by line ends.
    """

    text_key: str = "text"
    id_key: str | None = None
    meta_keys: Sequence[str] | None = None
    filter: Conditions | None = None

    @property
    def read_keys(self) -> list[str]:
        """Return the keys that decide which documents there are: not those of `meta_keys`."""
        return [self.text_key, *filter(None, [self.id_key]), *(self.filter or {})]

    def require_one(self, columns: Sequence[str], *, where: str) -> None:
        """Raise Bad for a wanted key that several columns have: a row would keep the last."""
        keys = [*self.read_keys, *(KNOWN_FIELDS if self.meta_keys is None else self.meta_keys)]
        if several := [key for key in keys if columns.count(key) > 1]:
            detail = f"several columns are named {several[0]}; rename all but one"
            raise Bad(where=where, rule="repeated column", detail=detail)

    def check(self) -> None:
        check_conditions(self.filter)
        super().check()

    def hint(self, rule: str) -> str:
        if other := super().hint(rule):
            return other
        key = "text_key or id_key to another field" if rule == "no text" else ""
        return key and f"Set {self.keys}{key}."

    def row(
        self, row: Any, *, where: str, id: str, replaced: int = 0, encoding: str = ""
    ) -> Document | Bad | None:
        """Return the document of a row, a `Bad` that is skipped, or None if the filter drops it."""
        if isinstance(row, UnicodeDecodeError):
            detail = f"not UTF-8: {row.reason}"
            return self.left_out(Bad(where=where, rule=BROKEN, detail=detail))
        if not isinstance(row, dict):
            detail = f"must be an object with keys, was: {type(row).__name__}"
            return self.left_out(Bad(where=where, rule="no object", detail=detail))
        if self.filter and not keeps(row, self.filter, where=where):
            return None
        try:
            text = text_of(row, self.text_key)
            if self.id_key is not None:
                if (found := dig(row, self.id_key, parameter="id_key")) is None:
                    raise DataError(f"id_key={self.id_key} must name the document, was: null")
                id = str(found)
        except DataError as fault:
            return self.left_out(Bad(where=where, rule="no text", detail=str(fault)))
        meta = kept_of(row, self.text_key, self.meta_keys)
        document = self.document(text, id=id, replaced=replaced, encoding=encoding, meta=meta)
        if self.on_bad == "skip" and document.broken:  # else its file is judged as a whole
            return self.too_broken(document.broken, len(document.text), where=where) or document
        return document


def dig(row: Mapping[str, Any], key: str, *, parameter: str, where: str = "") -> Any:
    """Return the value of a field, dotted if nested: ``meta.pile_set_name``. Raises DataError."""
    if key in row:
        return row[key]
    value: Any = row
    for place, part in enumerate(parts := key.split(".")):
        if place and value is None and parameter == "text_key":
            return None  # a null object has no text, as a null has none
        if place and not isinstance(value, Mapping):
            kind = "text, of which JSON is not read" if isinstance(value, str) else "no object"
            above = ".".join(parts[:place])
            raise DataError(f"{where}{parameter}={key} is not a field: {above} holds {kind}")
        if part not in value:
            named = map(str, filter(None, value))
            fields = shorten(", ".join(named), _SHOWN, placeholder=" ...") or "no fields"
            raise DataError(f"{where}{parameter}={key} is not a field; there are: {fields}")
        value = value[part]
    return value


def text_of(row: Mapping[str, Any], key: str) -> str:
    """Return the text in a field of a row; a null is empty, which `prepare` skips and counts."""
    value = dig(row, key, parameter="text_key")
    if isinstance(value, list):
        value = conversation(value)
        value = joined(value) if isinstance(value, list) else value
    if value is not None and not isinstance(value, str):
        raise DataError(f"text_key={key} must contain text, was: {type(value).__name__}")
    return value or ""


def conversation(messages: list[Any]) -> Any:
    """Return the messages of a conversation as one text in ChatML; anything else as it is.

    Messages have `role` and `content`, or `from` and `value`; of content in parts, the texts count,
    and null, as beside `tool_calls` (which are not read), is an empty text.
    """
    turns = []
    for message in messages:
        if not isinstance(message, Mapping):
            return messages
        role = message.get("role", message.get("from"))
        text = message.get("content", message.get("value"))
        if text is None and ("content" in message or "tool_calls" in message):
            text = ""
        elif isinstance(text, list):
            parts = (part.get("text") if isinstance(part, Mapping) else part for part in text)
            text = "".join(part for part in parts if isinstance(part, str))
        if not isinstance(role, str) or not isinstance(text, str):
            return messages
        turns.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
    return "".join(turns)


def joined(parts: list[Any]) -> Any:
    """Return texts, or objects with a `text`, as one text; anything else as it is."""
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    strings = [text for text in texts if isinstance(text, str)]
    return "\n".join(strings) if len(strings) == len(parts) else parts


def kept_of(row: Mapping[str, Any], text_key: str, keys: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields to keep beside the text: those named, or those that `Auto` knows."""
    if keys is None and _SOUGHT.isdisjoint(row):  # as of most rows
        return {}
    names = [key for key in KNOWN_FIELDS if key != text_key] if keys is None else keys
    return kept_fields(row, names, whole=keys is not None)


def check_conditions(conditions: Conditions | None) -> None:
    """Raise DataError with the key of an invalid condition."""
    for field, condition in (conditions or {}).items():
        if not isinstance(condition, Mapping):
            _require_list(f"filter.{field}", condition)
            continue
        for kind, value in condition.items():
            key = f"filter.{field}.{kind}"
            if kind not in _TESTS:
                allowed = f"one of {', '.join(_TESTS)}, or a list of allowed values"
                raise DataError(f"filter.{field} must be {allowed}, was: {kind}")
            if kind == "not":
                _require_list(key, value)
            elif kind == "matches":
                try:
                    re.compile(value)
                except (re.error, TypeError) as fault:
                    message = f"must be a regular expression, was: {value!r} ({fault})"
                    raise DataError(f"{key} {message}") from None
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise DataError(f"{key} must be a number, was: {value!r}")


def keeps(row: Mapping[str, Any], conditions: Conditions, *, where: str) -> bool:
    """Return whether all conditions hold for a row; DataError names a missing field."""
    return all(
        _holds(dig(row, field, where=f"{where}: ", parameter="filter"), condition)
        for field, condition in conditions.items()
    )


def _holds(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return _is_among(value, condition)
    return all(_TESTS[kind](value, asked) for kind, asked in condition.items())


def _number(value: Any) -> float:
    """Return a number, also of the text that a CSV has for it; NaN, in no range, for the rest."""
    try:
        return value if isinstance(value, int | float) else float(str(value))
    except ValueError:
        return math.nan


def _is_among(value: Any, values: Sequence[Any]) -> bool:
    """Return whether a value is one of some, or the text that a CSV has for a number of them."""
    numbers = [each for each in values if isinstance(each, int | float)]
    return value in values or (isinstance(value, str) and _number(value) in numbers)


def _require_list(key: str, values: Any) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DataError(f"{key} must be a list of values, was: {values!r}")
