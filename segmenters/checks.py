"""Checks of parameters, whose errors name the parameter, the rule and the value."""

from __future__ import annotations

from collections.abc import Iterable


def require_type(name: str, value: object, *kinds: type) -> None:
    """Raise TypeError, naming the parameter, unless its value has one of these types."""
    # To Python a bool is an int; here it never counts as one.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        article = "an" if kinds[0] is int else "a"
        raise TypeError(
            f"{name} must be {article} {kinds[0].__name__}, was: {type(value).__name__} {value!r}"
        )


def require_text(text: object) -> None:
    """Raise TypeError unless a text is a string."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, was: {type(text).__name__}")


def require_integer(name: str, value: object, least: int) -> None:
    """Raise TypeError or ValueError, naming the parameter, unless it is an integer >= `least`."""
    require_type(name, value, int)
    if value < least:  # type: ignore[operator]
        raise ValueError(f"{name} must be at least {least}, was: {value}")


def require_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise ValueError, naming the parameter, unless its value is one of those known."""
    known = list(known)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, was: {value!r}")
