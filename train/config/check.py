"""Check the composed configuration against the signatures that it will call.

A node with `_target_` is a call: its keys are keyword arguments, so the signature is the schema.
"""

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

from bipe.build import PARTIAL, TARGET, find
from train.errors import ConfigError, nearest


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a value in addition to its type: `Annotated[int, Rule("at least 1", ...)]`."""

    text: str
    holds: Callable[[Any], Any]


def check(
    config: Mapping[str, Any], *, schema: Callable[..., Any], allowed: tuple[str, ...]
) -> None:
    """Raise `ConfigError` with all faults; the top level is the argument list of `schema`."""
    faults = list(_call_faults(schema, config, path="", partial=False))
    faults += _nested_faults(config, path="", allowed=allowed)
    if len(faults) == 1:
        raise ConfigError(faults[0])
    if faults:
        raise ConfigError(f"{len(faults)} faults:\n" + "\n".join(f"  {f}" for f in faults))


def _nested_faults(node: Any, *, path: str, allowed: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, Mapping):
        if TARGET in node:
            try:
                target = find(node[TARGET], allowed=allowed)
            except ValueError as error:
                yield f"{_join(path, TARGET)}: {error}"
            else:
                arguments = {k: v for k, v in node.items() if k not in (TARGET, PARTIAL)}
                partial = bool(node.get(PARTIAL, False))
                yield from _call_faults(target, arguments, path=path, partial=partial)
        for key, value in node.items():
            yield from _nested_faults(value, path=_join(path, key), allowed=allowed)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for i, value in enumerate(node):
            yield from _nested_faults(value, path=f"{path}[{i}]", allowed=allowed)


def _call_faults(
    target: Callable[..., Any], arguments: Mapping[str, Any], *, path: str, partial: bool
) -> Iterator[str]:
    parameters = inspect.signature(target).parameters
    hints = _hints(target)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    name = getattr(target, "__name__", str(target)) if path else "the configuration"
    for key, value in arguments.items():
        where = _join(path, key)
        if key in parameters:
            hint = hints.get(key, Any)
            if not fits(value, hint):
                yield f"{where} must be {_readable(hint, value)}, was: {value!r}"
            elif isinstance(value, Mapping) and TARGET not in value:
                section = section_of(hint)
                if section is not None:
                    yield from _call_faults(section, value, path=where, partial=False)
        elif not takes_any:
            yield f"{where}: {name} has no such key; {nearest(key, parameters)}"
    missing = [
        p.name
        for p in parameters.values()
        if p.default is p.empty
        and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.name not in arguments
    ]
    if missing and not partial:
        yield f"{path}: {name} also needs {', '.join(missing)}".removeprefix(": ")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value fits a declared type.

    A mapping fits any class: it is a call, whose result is checked when it is made.
    """
    if hint is Any or hint is inspect.Parameter.empty:
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return fits(value, parts[0]) and _broken(value, parts[1:]) is None
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if value is None:
        return hint is None or hint is type(None)
    if hint is bool or hint is str:
        return isinstance(value, hint)
    if hint is int or hint is float:
        number = int if hint is int else (int, float)
        return isinstance(value, number) and not isinstance(value, bool)
    if isinstance(value, Mapping):
        return _mapping_fits(value, origin or hint, parts)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _sequence_fits(value, origin or hint, parts)
    # A scalar for a class: only paths are written so, as strings.
    return isinstance(value, str) and hasattr(hint, "__fspath__")


def section_of(hint: Any) -> Any | None:
    """Return the dataclass in a declared type, which may be a union with None."""
    union = typing.get_origin(hint) in (Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    return next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)


def _mapping_fits(value: Mapping[str, Any], kind: Any, parts: tuple[Any, ...]) -> bool:
    if TARGET in value:
        return kind not in (int, float, str, bool, list, tuple)
    if not _is(kind, collections.abc.Mapping):
        return dataclasses.is_dataclass(kind)
    return len(parts) < 2 or all(fits(item, parts[1]) for item in value.values())


def _sequence_fits(value: Sequence[Any], kind: Any, parts: tuple[Any, ...]) -> bool:
    if not _is(kind, collections.abc.Iterable) or _is(kind, collections.abc.Mapping):
        return False
    if kind is tuple and parts and parts[-1] is not Ellipsis:
        return len(parts) == len(value) and all(map(fits, value, parts))
    return not parts or all(fits(item, parts[0]) for item in value)


def _is(kind: Any, abstract: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, abstract) and kind is not str


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    function = target.__init__ if inspect.isclass(target) else target  # type: ignore[misc]
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # names that only a type checker imports
        return {}


def _broken(value: Any, rules: Sequence[Any]) -> str | None:
    """Return the first rule that a value of the right type breaks."""
    texts = (rule.text for rule in rules if isinstance(rule, Rule) and not rule.holds(value))
    return next(texts, None)


def _readable(hint: Any, value: Any) -> str:
    """Return in words what a value must be: the rule that it breaks, or a type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        rule = _broken(value, parts[1:]) if fits(value, parts[0]) else None
        return rule or _readable(parts[0], value)
    if origin is Literal:
        return "one of " + ", ".join(map(str, parts))
    if origin in (Union, types.UnionType):
        return " or ".join(_readable(part, value) for part in parts)
    return "null" if hint is type(None) else inspect.formatannotation(hint)


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
