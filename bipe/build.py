"""Build objects from plain data that names a class and its keyword arguments.

    build({"_target_": "bipe.encodings.RoPE", "head_width": 64})

`_partial_: true` gives a function of the missing arguments instead. The form is that of conf/, but
needs no Hydra. A description may come with a downloaded model: only allowed classes are built.
"""

import dataclasses
import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

TARGET = "_target_"
PARTIAL = "_partial_"
ALLOWED = ("bipe.", "segmenters.", "train.")


def build(description: Any, *, allowed: tuple[str, ...] = ALLOWED) -> Any:
    """Build what a description names, innermost first; return anything else unchanged.

    allowed: prefixes of the dotted names that may be built; your own encodings need theirs.
    Raises ValueError for a name that is not allowed or does not exist.
    """
    if isinstance(description, Mapping):
        parts = {
            key: build(value, allowed=allowed)
            for key, value in description.items()
            if key not in (TARGET, PARTIAL)
        }
        if TARGET not in description:
            return parts
        target = find(description[TARGET], allowed=allowed)
        return functools.partial(target, **parts) if description.get(PARTIAL) else target(**parts)
    if isinstance(description, Sequence) and not isinstance(description, str):
        return [build(item, allowed=allowed) for item in description]
    return description


def find(name: str, *, allowed: tuple[str, ...] = ALLOWED) -> Any:
    """Return the class or function of a dotted name; raise ValueError as `build` does."""
    if not name.startswith(allowed):
        raise ValueError(
            f"{TARGET} must start with one of {', '.join(allowed)}, was: {name!r}; a class of your "
            f"own needs its package among the allowed prefixes (allowed_targets)"
        )
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{TARGET} names nothing that can be imported: {name!r} ({error})"
        ) from error


def at_least(least: float | int) -> dict[str, Any]:
    """Return the metadata of a dataclass field with a minimum; see `Bounded`."""
    return {"least": least}


class Bounded:
    """Checks dataclass fields such as ``x: int = field(metadata=at_least(1))``; None is allowed."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            if "least" in each.metadata:
                require_at_least(each.metadata["least"], **{each.name: getattr(self, each.name)})


def require_at_least(least: float | int, **values: float | int | None) -> None:
    """Raise ValueError, naming the parameter, for a value below `least` or NaN; None is allowed."""
    for name, value in values.items():
        if value is not None and not value >= least:
            raise ValueError(f"{name} must be at least {least}, was: {value}")
