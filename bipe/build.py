"""Build objects from plain data that names a class and its keyword arguments.

    build({"_target_": "bipe.encodings.RoPE", "head_width": 64}, Encoding)

The format is that of conf/, but needs no Hydra. A description may come with a downloaded model or
data set, so each use states which kind of class it expects, and nested descriptions follow the
types of the parameters. What may be named (docs/trust.md):

- a class, by a public name or where it is defined; never a function, a method or a private name;
- a subclass of the expected kind, from the same package (bipe, segmenters or train), or from
  the same package of torch or lightning (for Lightning's kinds, also from train);
- from packages of the user's own only if the caller allows them: importing a module runs it. The
  same holds for a function by which a class cuts text (`NAMES_CODE`).
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Union

from bipe import arguments
from bipe.arguments import (
    TARGET,
    fits,
    hints_of,
    members,
    nearest,
    readable,
    section_of,
    within,
)

PARTIAL = "_partial_"
# A class attribute: the parameters that name functions of others ("module:name").
NAMES_CODE = "names_code"
ALLOWED: tuple[str, ...] = ()  # packages of the user's own, as prefixes: ("yours.",)
_ROOMS = ("bipe", "segmenters", "train")
_LIBRARIES = ("torch", "lightning")
# Of a description, the type that it stands for and its key: what it becomes.
Later = Callable[[Mapping[str, Any], Any, str], Any]
# Behind the fault of a text that holds what is asked for.
_OF_TEXT = ", a text: remove the quotes; a variable is read by '${oc.decode:${oc.env:NAME}}'"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+")


@dataclasses.dataclass(frozen=True, slots=True)
class Of:
    """What a place asks for, where its type alone does not say so: `Annotated[Call, Of(...)]`.

    kinds: classes, or their dotted names, which are imported on use. names: what else may be named,
    such as our factories. partial: `_partial_: true` is allowed, for a function of the missing
    arguments.
    """

    kinds: tuple[type | str, ...]
    names: tuple[str, ...] = ()
    partial: bool = False

    def __str__(self) -> str:
        names = (k.rpartition(".")[2] if isinstance(k, str) else k.__name__ for k in self.kinds)
        return " or ".join(names)


# What a description may name where the caller does not say what is asked for.
ANY_KIND = Of(
    (
        "bipe.encodings.Encoding",
        "bipe.encodings.Scheme",
        "bipe.encodings.rope.Stretch",
        "bipe.encodings.far.Far",
        "bipe.extension.Retrofit",
        "bipe.random_positions.Draw",
        "segmenters.Segmenter",
    ),
    partial=True,
)


def build(
    description: Any, kind: Any = ANY_KIND, *, allowed: tuple[str, ...] = ALLOWED, path: str = ""
) -> Any:
    """Build what a description names, innermost first; return anything else unchanged.

    kind: what is asked for: a class, a union, or `Of`. allowed: prefixes of the user's own
    packages. path: the key of the description, for messages. Raises ValueError with all faults;
    an error of a constructor gets the key of its description as `place`.
    """
    faults, make = planned(description, kind, allowed=allowed, path=path)
    if faults:
        raise ValueError("; ".join(faults))
    return make()


def planned(
    description: Any, kind: Any = ANY_KIND, *, allowed: tuple[str, ...] = ALLOWED, path: str = ""
) -> tuple[list[str], Callable[[], Any]]:
    """Return all faults of a description, and the function that builds what it names.

    Arguments are those of `build`. The function is for a description without faults.
    """
    plan = _Plan(allowed)
    try:
        make = plan.value(description, kind, path)
    except RecursionError:
        return [f"{path or 'a description'} is nested too deeply"], lambda: None
    return plan.faults, make


def describe(value: Any) -> Any:
    """Return plain data that `build` turns into an equal value; TypeError if there is none.

    Plain data, dataclasses, and functools.partial of what a module defines can be described.
    """
    if isinstance(value, functools.partial) and not value.args:
        arguments = {name: describe(part) for name, part in value.keywords.items()}
        return {TARGET: _named(value.func), PARTIAL: True, **arguments}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return {TARGET: _named(type(value)), **{n: describe(getattr(value, n)) for n in names}}
    if isinstance(value, Mapping):
        return {str(key): describe(part) for key, part in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str):
        return [describe(part) for part in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    if callable(value) and hasattr(value, "__qualname__"):
        return {TARGET: _named(value), PARTIAL: True}
    raise TypeError(f"{value!r} is neither plain data nor a dataclass, nor a function or class")


def _named(value: Any) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name or _imported(name) is not value:
        raise TypeError(f"{name} cannot be imported by its name")
    return name


def find(name: Any, kind: Any = ANY_KIND, *, allowed: tuple[str, ...] = ALLOWED) -> Any:
    """Return the class that a dotted name means where a `kind` is asked for, or raise ValueError.

    Nothing outside of the rooms and of `allowed` is imported.
    """
    asked = _asked(kind, allowed)
    if asked is None:
        raise ValueError(f"{TARGET} is not allowed where a plain value is expected, was: {name!r}")
    if isinstance(name, str) and name in asked.names:
        return _imported(name)
    prefixes = _own(allowed)
    homes = tuple(dict.fromkeys(home for kind in asked.kinds for home in _homes(kind)))
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or not name.startswith(homes + prefixes)
    ):
        choices = ", ".join((*homes, *prefixes, *asked.names))
        raise ValueError(f"{TARGET} must start with one of {choices}, was: {name!r}{_cure(name)}")
    if name.startswith(prefixes):
        reach(name.partition(".")[0])
    try:
        obj = _imported(name)
    except (ImportError, AttributeError) as error:
        message = f"{TARGET}: {name!r} cannot be imported ({error}){arguments.instead(name, error)}"
        raise ValueError(message) from error
    if not inspect.isclass(obj):
        raise ValueError(f"{TARGET} must name a class ({asked}), was: {name!r}")
    if not name.startswith(prefixes) and not _is_public(obj, name, homes):
        raise ValueError(
            f"{TARGET} must name a class by the module that defines or exports it, was: {name!r}, "
            f"which is {obj.__module__}.{obj.__qualname__}"
        )
    kinds = (kind for kind in asked.kinds if name.startswith(_homes(kind) + prefixes))
    if not any(_is_a(obj, _class(kind)) for kind in kinds):
        raise ValueError(f"{TARGET} must name a subclass of {asked}, was: {name!r}")
    if inspect.isabstract(obj) or getattr(obj, "_is_protocol", False):
        lacks = " and ".join(sorted(getattr(obj, "__abstractmethods__", ())))
        lacks = f", but this one lacks {lacks}" if lacks else ""
        raise ValueError(f"{TARGET} must name a class that is not abstract, was: {name!r}{lacks}")
    return obj


def faults_of(
    arguments: Mapping[Any, Any],
    schema: Callable[..., Any],
    *,
    allowed: tuple[str, ...],
    name: str,
) -> list[str]:
    """Return all faults of the arguments of a call, and of the calls inside them.

    A mapping that `schema` does not say the kind of may hold any of ANY_KIND. name: of the call.
    """
    plan = _Plan(allowed)
    try:
        plan.arguments(schema, arguments, "", name=name, loose=ANY_KIND)
    except RecursionError:
        plan.faults.append("a value is nested too deeply")
    return plan.faults


def sectioned(
    arguments: Mapping[Any, Any], schema: Callable[..., Any], *, name: str, later: Later
) -> Any:
    """Return what a schema of sections makes of plain values; nothing is imported for it.

    Dataclasses in its types are built; a description of anything else becomes what `later` makes of
    it, its type and its key. Raises Faults.
    """
    plan = _Plan((), later=later)
    try:
        parts = plan.arguments(schema, arguments, "", name=name)
    except RecursionError:
        plan.faults.append("a value is nested too deeply")
    if plan.faults:
        raise Faults(plan.faults)
    return schema(**{key: make() for key, make in parts.items()})


class Faults(ValueError):
    """All faults of a description, as `args`."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(*faults)


class _Plan:
    """A walk over a description that collects its faults, and functions that build its parts."""

    def __init__(self, allowed: tuple[str, ...], *, later: Later | None = None) -> None:
        self.allowed, self.later, self.faults = allowed, later, list[str]()

    def value(self, value: Any, hint: Any, path: str, loose: Of | None = None) -> Callable[[], Any]:
        if (later := self.later) is not None and isinstance(value, Mapping):
            kind = section_of(hint)  # a mapping if it holds a description
            if (kind is None or issubclass(kind, Mapping)) and _asked(hint, self.allowed):
                return lambda: later(value, hint, path)
            if TARGET in value:  # where plain data may be anything
                return lambda: value
        if isinstance(value, Mapping) and TARGET in value:
            return self._call(value, _asked(hint, self.allowed) or loose, path)
        if isinstance(value, Mapping):
            if (section := section_of(hint)) is not None:
                parts = self.arguments(section, value, path)
                if later is not None:
                    return lambda: section(**{key: make() for key, make in parts.items()})
            else:
                inner, parts = _inner(hint, Mapping), {}
                # Beside calls, what is none and has a fault is probably a misspelt name of one.
                full = [k for k, v in value.items() if isinstance(v, Mapping) and TARGET in v]
                for key, part in value.items():
                    place, before = _join(path, key), len(self.faults)
                    parts[key] = self.value(part, inner, place)
                    if full and key not in full and self.faults[before:]:
                        said = f"{place} does not exist (a new one needs {TARGET})"
                        self.faults[before:] = [f"{said}; {nearest(key, full)}"]
            return lambda: {key: make() for key, make in parts.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            inner = _inner(hint, Sequence)
            items = [self.value(v, inner, f"{path}[{i}]") for i, v in enumerate(value)]
            return lambda: [make() for make in items]
        return lambda: value

    def _call(self, node: Mapping[Any, Any], asked: Of | None, path: str) -> Callable[[], Any]:
        given = {key: value for key, value in node.items() if key not in (TARGET, PARTIAL)}
        partial = bool(node.get(PARTIAL, False))
        if partial and asked is not None and not asked.partial:
            self.faults.append(f"{_join(path, PARTIAL)} cannot be set: nothing is left open here")
        try:
            target = find(node[TARGET], asked, allowed=self.allowed)
        except ValueError as error:
            self.faults.append(_join(path, error))  # which begins with the key
            return lambda: None
        for key in getattr(target, NAMES_CODE, ()):
            self._permitted(given.get(key), _join(path, key))
        cure = f", or {PARTIAL}: true, and the caller adds them" * (
            asked is not None and asked.partial
        )
        parts = self.arguments(target, given, path, partial=partial, cure=cure)

        def make() -> Any:
            arguments = {key: make() for key, make in parts.items()}
            try:
                return functools.partial(target, **arguments) if partial else target(**arguments)
            except Exception as error:
                vars(error).setdefault("place", path)  # the innermost
                raise

        return make

    def _permitted(self, name: Any, path: str) -> None:
        """Note a fault for a function whose package is not among those allowed."""
        package = str(name).partition(":")[0].partition(".")[0]
        if str(name).replace(":", ".").startswith(_own(self.allowed)):
            reach(package)
        else:
            self.faults.append(
                f"{path} names code that is not allowed, was: {name!r}; if you trust it, add "
                f"{_allowing(package)}"
            )

    def arguments(
        self,
        target: Callable[..., Any],
        given: Mapping[Any, Any],
        path: str,
        *,
        name: str | None = None,
        partial: bool = False,
        loose: Of | None = None,
        cure: str = "",
    ) -> dict[str, Callable[[], Any]]:
        """Check the arguments of a call; return functions that make them. cure: of missing ones."""
        name = name or str(getattr(target, "__name__", target))
        try:
            parameters = inspect.signature(target).parameters
        except ValueError:  # such as datetime.timedelta
            cannot = f"{name} is written in C, and its arguments cannot be checked"
            self.faults.append(f"{path}: {cannot}; name a function of your own that calls it")
            return {}
        hints, parts = hints_of(target), {}
        self.faults += _misnamed(
            given, parameters, hints, name=name, path=path, partial=partial, cure=cure
        )
        for key, value in given.items():
            hint = hints.get(key, Any)
            if not fits(value, hint):
                must = readable(hint, value)
                text = _OF_TEXT * _is_quoted(value, hint)
                self.faults.append(f"{_join(path, key)} must be {must}, was: {value!r}{text}")
            else:
                open_kind = loose if _asked(hint, self.allowed) is None else None
                parts[key] = self.value(value, hint, _join(path, key), open_kind)
        return parts


def _misnamed(
    given: Mapping[Any, Any],
    parameters: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
    *,
    name: str,
    path: str,
    partial: bool,
    cure: str,
) -> Iterator[str]:
    """Yield a fault for each unknown argument, and one for all that are missing."""
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in given:
        if str(key).startswith("_") or not (key in parameters or takes_any):
            meant = nearest(str(key), parameters)
            if inner := within(str(key), given, hints):
                meant = f"did you mean {_join(path, inner)}?"
            yield f"{_join(path, key)}: {name} has no such key; {meant}"
    missing = [
        p.name
        for p in parameters.values()
        if p.default is p.empty
        and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.name not in given
    ]
    if missing and not partial:
        if all(type(None) in members(hints.get(key)) for key in missing):
            cure += f"; for none, set {' '.join(f'{_join(path, key)}=null' for key in missing)}"
        yield f"{path}: {name} also needs {', '.join(missing)}{cure}".removeprefix(": ")


def _asked(hint: Any, allowed: tuple[str, ...]) -> Of | None:
    if isinstance(hint, Of):
        return hint
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        said = next((part for part in parts[1:] if isinstance(part, Of)), None)
        return said or _asked(parts[0], allowed)
    if origin in (Union, types.UnionType):
        kinds = [wanted for part in parts if (wanted := _asked(part, allowed)) is not None]
        return Of(
            tuple(kind for wanted in kinds for kind in wanted.kinds),
            tuple(name for kind in kinds for name in kind.names),
            any(kind.partial for kind in kinds),
        ) if kinds else None  # fmt: skip
    if not inspect.isclass(hint):
        return None
    room, _, inside = hint.__module__.partition(".")
    is_ours = room in _ROOMS or (room in _LIBRARIES and inside)
    return Of((hint,)) if is_ours or f"{hint.__module__}.".startswith(_own(allowed)) else None


def _own(allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the prefixes of the user's own packages, which no room of ours is."""
    prefixes = (f"{package.rstrip('.')}." for package in allowed)
    return tuple(prefix for prefix in prefixes if prefix.partition(".")[0] not in _ROOMS)


def _inner(hint: Any, container: type) -> Any:
    for kind in members(hint):
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if inspect.isclass(origin) and parts:
            maps = issubclass(origin, Mapping)
            if maps and container is Mapping:
                return parts[1]
            if not maps and container is Sequence:
                return Union[parts]  # noqa: UP007 (a tuple of types)
    return Any


def _homes(kind: type | str) -> tuple[str, ...]:
    """Return the prefixes of the names of a kind's subclasses: its room, or its own package.

    Only `train` knows Lightning, so a model or a data set cannot ask for a kind of Lightning's.
    """
    room = str(kind if isinstance(kind, str) else kind.__module__).partition(".")[0]
    if room not in _LIBRARIES:
        return (f"{room}.",)
    package = f"{_class(kind).__module__.rpartition('.')[0]}."
    return (package, "train.") if room == "lightning" else (package,)


def _class(kind: type | str) -> type:
    cls: type = _imported(kind) if isinstance(kind, str) else kind
    return cls


def _is_public(kind: type, name: str, homes: tuple[str, ...]) -> bool:
    """Return whether a class is defined at a name, or published there by its own package."""
    module, _, attribute = name.rpartition(".")
    published = attribute in getattr(sys.modules[module], "__all__", ())
    defined = f"{kind.__module__}.{kind.__qualname__}" == name
    return (defined or published) and f"{kind.__module__}.".startswith(homes)


def _is_a(found: type, kind: type) -> bool:
    try:
        return issubclass(found, kind)
    except TypeError:  # a protocol that is not for run time
        return kind in found.__mro__


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def reach(package: str, folder: str | None = None) -> None:
    """Let Python find a package in a folder, by default the working directory, if nowhere else."""
    folder = folder or str(Path.cwd())
    if package not in sys.modules and folder not in sys.path and find_spec(package) is None:
        sys.path.append(folder)


def _cure(name: Any) -> str:
    """Return the words that let a package of the user's in, for a name that could be one."""
    package = str(name).partition(".")[0]
    taken = (*_ROOMS, *_LIBRARIES, *sys.stdlib_module_names)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or package in taken:
        return ""
    return f"; to allow a class of your own package, add {_allowing(package)}"


def _allowing(package: str) -> str:
    return f'allowed_targets=[{package}] to the command line, or allowed=("{package}.",) in Python'


def _is_quoted(value: Any, hint: Any) -> bool:
    """Return whether a value is a text of what a type asks for, such as a number."""
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(value, str) and fits(json.loads(value), hint)
    return False


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
