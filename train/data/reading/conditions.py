"""Which rows of a corpus are read, by their fields: the `filter` of readers.

    {"meta.pile_set_name": ["ArXiv", "Github"],        one of these values
     "stars": {"at_least": 10, "at_most": 1000},       a range
     "path": {"matches": "\\.py$", "not": ["setup.py"]}}

Every condition must hold. A field is dotted for a field inside a field; a null is in no range and
matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from train.data.reading.documents import dig
from train.errors import DataError

Conditions = Mapping[str, Any]
_KINDS = ("at_least", "at_most", "matches", "not")


def check_conditions(conditions: Conditions | None) -> None:
    """Raise DataError, naming the key, for conditions that cannot be asked."""
    for field, condition in (conditions or {}).items():
        if not isinstance(condition, Mapping):
            _require_list(f"filter.{field}", condition)
            continue
        for kind, value in condition.items():
            if kind not in _KINDS:
                raise DataError(
                    f"filter.{field} must say one of {', '.join(_KINDS)}, or list allowed values, "
                    f"was: {kind}"
                )
            if kind == "not":
                _require_list(f"filter.{field}.not", value)
            elif kind == "matches":
                try:
                    re.compile(value)
                except (re.error, TypeError) as fault:
                    raise DataError(
                        f"filter.{field}.matches must be a regular expression, was: {value!r} "
                        f"({fault})"
                    ) from None
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise DataError(f"filter.{field}.{kind} must be a number, was: {value!r}")


def keeps(row: Mapping[str, Any], conditions: Conditions | None, *, where: str) -> bool:
    """Whether every condition holds for a row; DataError names a field that is not there."""
    return all(
        _holds(dig(row, field, where=where, parameter="filter"), condition)
        for field, condition in (conditions or {}).items()
    )


def _holds(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return value in condition
    if "not" in condition and value in condition["not"]:
        return False
    if "matches" in condition and not (
        isinstance(value, str) and re.search(condition["matches"], value)
    ):
        return False
    if "at_least" not in condition and "at_most" not in condition:
        return True
    return isinstance(value, int | float) and (
        condition.get("at_least", value) <= value <= condition.get("at_most", value)
    )


def _require_list(key: str, values: Any) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DataError(f"{key} must be a list of values, was: {values!r}")
