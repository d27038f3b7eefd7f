"""Compare plain values with the declared types of a call: the signature is the schema."""

import collections.abc
import dataclasses
import difflib
import functools
import importlib
import inspect
import pkgutil
import re
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union

TARGET = "_target_"
P = ParamSpec("P")
T = TypeVar("T")
_HUGE = 1 << 63  # beyond the integers of torch and numpy
_MODULE = re.compile(r"\b(?:\w+\.)+(?=[A-Z])")


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a value in addition to its type: `Annotated[int, Rule("at least 1", ...)]`."""

    text: str
    holds: Callable[[Any], Any]


NOT_NEGATIVE = Rule("0 or more", lambda value: value >= 0)
Count = Annotated[int, Rule("at least 1", lambda value: value >= 1)]


def fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value fits a declared type.

    A description fits any class: what it may name is decided where it is built (build.py).
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
        if isinstance(value, bool) or not isinstance(value, number):
            return False
        return hint is float or abs(value) < _HUGE
    if isinstance(value, Mapping):
        return _mapping_fits(value, origin or hint, parts)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _sequence_fits(value, origin or hint, parts)
    if inspect.isclass(origin or hint) and isinstance(value, origin or hint):
        # An object, if the caller is Python. Of a string, what takes a sequence reads the letters.
        return not (isinstance(value, str) and _is(origin or hint, collections.abc.Iterable))
    # A scalar for a class: only paths are written so, as strings.
    return isinstance(value, str) and hasattr(hint, "__fspath__")


def explained(call: Callable[P, T]) -> Callable[P, T]:
    """Let a call that fails name the first argument that is not of its declared type.

    Nothing is checked before, so that it costs nothing and forbids nothing that works. A ValueError
    says what is wrong already.
    """

    @functools.wraps(call)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except (AttributeError, LookupError, RuntimeError, TypeError) as error:
            if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
                raise  # out of memory, for example, is no matter of types
            try:
                bound = inspect.signature(call).bind(*args, **kwargs).arguments
            except TypeError:  # too many arguments or too few
                raise error from None
            hints = hints_of(call)
            for name, value in bound.items():
                hint = hints.get(name, Any)
                described = isinstance(value, Mapping) and inspect.isclass(hint)
                if not (isinstance(value, hint) if described else fits(value, hint)):
                    message = f"{name} must be {readable(hint, value)}, was: {_seen(value)}"
                    raise TypeError(message) from error
            raise

    return made


@functools.cache
def hints_of(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the declared types of the parameters of a call; {} if they cannot be resolved."""
    if dataclasses.is_dataclass(target):
        call: Any = target  # each inherited field is resolved in the module of its own class
    else:
        call = target.__init__ if inspect.isclass(target) else target  # type: ignore[misc]
    try:
        return typing.get_type_hints(call, include_extras=True)
    except (NameError, TypeError):  # names that only a type checker imports
        return {}


def section_of(hint: Any) -> Any | None:
    """Return the dataclass in a declared type, which may be a union with None."""
    return next((kind for kind in members(hint) if dataclasses.is_dataclass(kind)), None)


def members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself; without annotations."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return members(parts[0])
    if origin in (Union, types.UnionType):
        return tuple(member for part in parts for member in members(part))
    return (hint,)


def readable(hint: Any, value: Any) -> str:
    """Return in words what a value must be: the rule that it breaks, or a type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        rule = _broken(value, parts[1:]) if fits(value, parts[0]) else None
        return rule or readable(parts[0], value)
    if origin is Literal:
        close = nearest(value, map(str, parts)) if isinstance(value, str) else ""
        return f"one of {', '.join(map(str, parts))}" + f" ({close})" * close.startswith("did")
    if origin in (Union, types.UnionType):
        return " or ".join(readable(part, value) for part in parts)
    if inspect.isclass(origin) and issubclass(origin, Mapping) and typing.get_origin(parts[-1]):
        return f"names, each with {readable(parts[-1], None)}"
    if hint is type(None):
        return "null"
    if hint is int and type(value) is int:
        return "below 2^63"
    return _MODULE.sub("", inspect.formatannotation(hint))


def nodes(description: Any, path: str) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the mappings in a description, each with its key, outermost first."""
    inner = description
    if isinstance(description, Mapping):
        yield path, description
    elif isinstance(description, list | tuple):
        inner = dict(enumerate(description))
    else:
        return
    for key, part in inner.items():
        yield from nodes(part, f"{path}.{key}" if path else str(key))


def require(holds: Any, rule: str, **value: Any) -> None:
    """Raise ValueError, naming the parameter, the rule and the value, unless the rule holds."""
    if not holds:
        ((name, given),) = value.items()
        was = given.__name__ if isinstance(given, type) else repr(given)
        if "\n" in was:  # of an optimizer, a module, an array
            was = f"an object of {type(given).__name__}"
        raise ValueError(f"{name} must be {rule}, was: {was}")


def require_at_least(least: float | int, **values: float | int | None) -> None:
    """Raise ValueError, naming the parameter, for a value below `least` or NaN; None is allowed."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, was: {type(value).__name__}")
        if not value >= least:
            raise ValueError(f"{name} must be at least {least}, was: {value}")


def at_least(least: float | int) -> dict[str, Any]:
    """Return the metadata of a dataclass field with a minimum; see `Bounded`."""
    return {"least": least}


class Bounded:
    """Checks dataclass fields such as ``x: int = field(metadata=at_least(1))``; None is allowed."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for part in dataclasses.fields(self):  # type: ignore[arg-type]
            if "least" in part.metadata:
                require_at_least(part.metadata["least"], **{part.name: getattr(self, part.name)})


def _seen(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} {value.dtype} {[*value.shape]}"
    return f"{type(value).__name__} {reprlib.repr(value)}"


def instead(name: str, error: Exception) -> str:
    """Return what to do about a class that cannot be imported, or nothing."""
    home, _, last = name.rpartition(".")
    package = name.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return f"; run bipe in the folder of {package}.py, or move it to the folder of --config-dir"
    module = sys.modules.get(home)
    ours = package in ("bipe", "segmenters")
    public = () if ours else getattr(module, "__all__", ())
    found = {name.lower(): f"{home}.{name}" for name in public}
    for part in pkgutil.iter_modules(getattr(module, "__path__", ())) if ours else ():
        inner = importlib.import_module(f"{home}.{part.name}")
        classes = (x for x in vars(inner).values() if inspect.isclass(x))
        names = (x.__name__ for x in classes if x.__module__ == inner.__name__)
        found |= {name.lower(): f"{inner.__name__}.{name}" for name in names}
    close = difflib.get_close_matches(last.lower(), found, n=1)
    return "".join(f"; did you mean {found[match]!r}?" for match in close)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean ...' with the closest known name, or the list of known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"


def within(name: str, given: Mapping[Any, Any], hints: Mapping[str, Any]) -> str:
    """Return the argument of this name inside an argument, dotted; empty if there is none."""
    for outer, part in given.items():
        if isinstance(part, Mapping) and name in part:
            return f"{outer}.{name}"
    for outer, hint in hints.items():
        for kind in members(hint):
            if dataclasses.is_dataclass(kind) and name in hints_of(kind):  # type: ignore[arg-type]
                return f"{outer}.{name}"
    return ""


def _mapping_fits(value: Mapping[Any, Any], kind: Any, parts: tuple[Any, ...]) -> bool:
    if TARGET in value:
        return kind not in (int, float, str, bool, list, tuple, None, type(None))
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


def _broken(value: Any, rules: Sequence[Any]) -> str | None:
    texts = (rule.text for rule in rules if isinstance(rule, Rule) and not rule.holds(value))
    return next(texts, None)
