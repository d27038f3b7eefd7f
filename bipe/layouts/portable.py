"""One Python file for people without bipe: a model of transformers, from our own sources.

    of_decoder(encoding)                             BipeForCausalLM
    of_stock("LlamaForCausalLM", "LlamaConfig")      a class that bipe.hf.bilevel made

The file holds all definitions that the model needs, word for word, and needs torch and transformers
alone. `auto_map` in config.json names its classes, so that transformers reads the folder with
trust_remote_code=True; where bipe.hf is imported, the file is not run.

Names that mean two things in two files of ours get the name of their file at the end in all but the
first.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from bipe import __version__
from bipe.arguments import TARGET, nodes

FILE = "modeling_bipe.py"
DECODER = ("BipeForCausalLM", "BipeConfig")
_ROOT = Path(__file__).parents[2]
_OURS = "bipe"
Meaning = tuple[str, str | None]  # a module and a name in it; None: the module itself
_WIDEST = 100
_EXPLAINED = re.compile(r"^ *@explained\n", re.MULTILINE)  # needs more than what it explains
_SHAPES = "jaxtyping"  # which people without bipe do not have
_HEAD = '''"""{title} (BiPE: He et al., 2401.16421), for transformers without bipe.

    AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

Marks of segments come from the table of ids in config.json unless segment_marks are given; the
exact rule needs bipe, which reads the folder without this file.

Assembled by bipe {version} from its sources; Apache License 2.0. Do not edit: mend bipe instead.
"""

from __future__ import annotations

{imports}


class _Shaped:
    """An annotation such as Int[Tensor, "batch time"], which is its type here."""

    def __class_getitem__(cls, item: tuple[type, str]) -> type:
        return item[0]


{shapes} = _Shaped'''


def of_decoder(encoding: Mapping[str, Any]) -> str | None:
    """Return the file for a decoder with an encoding; None if that is not of bipe alone."""
    named = [*_named(encoding)]
    if not all(map(_is_ours, named)):
        return None
    return _assembled("A decoder with segments", [(f"{_OURS}.hf.decoder", DECODER[0]), *named])


def of_stock(model: str, config: str, *, stretch: Mapping[str, Any] | None = None) -> str:
    """Return the file for what bilevel makes of a class of transformers and its configuration."""
    tail = f"Bipe{model} = bilevel_class({model})\nBipe{config} = Bipe{model}.config_class"
    roots: list[Meaning] = [(f"{_OURS}.hf.mixin", "bilevel_class"), ("transformers", model)]
    return _assembled(f"{model} with BiPE-RoPE", [*roots, *_named(stretch)], tail)


def auto_map(model: str, config: str) -> dict[str, str]:
    """Return what config.json says of the file: its class of models, and that of configurations."""
    classes = {"AutoConfig": config, "AutoModelForCausalLM": model}
    return {auto: f"{Path(FILE).stem}.{name}" for auto, name in classes.items()}


class Handed:
    """A configuration of transformers that writes the file beside itself."""

    stock: ClassVar[type[Any] | None] = None  # the class that bilevel changed; None: our decoder

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the keys of a folder; those of the stock class are welcome, without a warning."""
        keys, rest = super().get_config_dict(*args, **kwargs)  # type: ignore[misc]
        if cls.stock and keys.get("model_type") == cls.stock.config_class.model_type:
            keys["model_type"] = cls.model_type  # type: ignore[attr-defined]
        return keys, rest

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Write the configuration, and the file unless its classes are of somebody else."""
        keys, text = vars(self), None
        if self.stock is None:
            names, text = DECODER, of_decoder(keys["encoding"])
        else:
            names = self.stock.__name__, self.stock.config_class.__name__
            if self.stock.__module__.startswith("transformers."):
                text = of_stock(*names, stretch=keys["stretch"])
            names = f"Bipe{names[0]}", f"Bipe{names[1]}"
        keys.pop("auto_map", None)
        if text is not None:
            keys["auto_map"] = auto_map(*names)
        super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]
        if text is not None:
            (Path(save_directory) / FILE).write_text(text, encoding="utf-8")


def plain(value: Any) -> Any:
    """Return what JSON has for the mappings and sequences of a description."""
    return dict(value) if isinstance(value, Mapping) else list(value)


class Bare:
    """A configuration of this file, which transformers copies to where it is saved."""


def build(description: Any, kind: Any = None, **_: Any) -> Any:
    """Return what a part of config.json describes, of the classes of this file."""
    if isinstance(description, Mapping):
        given = {key: build(value) for key, value in description.items()}
        if "_target_" not in given:
            return given
        name = str(given.pop("_target_"))
        target = globals().get(name.rpartition(".")[2])
        if not inspect.isclass(target) or target.__module__ != __name__:
            raise ValueError(f"this file has no {name}: load the folder with bipe.hf")
        return target(**given)
    return [build(item) for item in description] if isinstance(description, list) else description


# Definitions with another form in the file.
_INSTEAD: dict[Meaning, Meaning] = {
    ("bipe.build", "build"): (__name__, "build"),
    (__name__, "Handed"): (__name__, "Bare"),
}


@dataclass(frozen=True, kw_only=True)
class _Module:
    """The statements that define each name of a file of ours, and what its imports mean."""

    lines: list[str]
    defined: dict[str, list[ast.stmt]]
    imports: dict[str, Meaning]

    def meaning(self, name: str, here: str) -> Meaning | None:
        """Return what a name means in the module `here`; None for a name of Python's own."""
        return (here, name) if name in self.defined else self.imports.get(name)

    def others(self, here: str, called: Mapping[Meaning, str]) -> dict[str, str]:
        """Return new names of those that mean something else elsewhere in a file."""
        meant = {name: self.meaning(name, here) for name in (*self.defined, *self.imports)}
        finals = {name: called.get(_place(what)) for name, what in meant.items() if what}
        return {name: final for name, final in finals.items() if final and final != name}

    def parts(self, names: Iterable[str], called: Mapping[str, str]) -> Iterator[str]:
        """Yield definitions in their order, with the comments before them; assignments together.

        called: new names, see `others`.
        """
        chosen = {node.lineno: node for name in names for node in self.defined[name]}
        plain: list[str] = []
        for _, node in sorted(chosen.items()):
            start = min([node.lineno, *(decorator.lineno for decorator in _decorators(node))]) - 1
            text = _with_names(self.lines[: node.end_lineno], node, called)[start:]
            while self.lines[start - 1].startswith("#"):
                start -= 1
                text.insert(0, self.lines[start])
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield from ["\n".join(plain)] * bool(plain)
                plain = []
                yield "\n".join(text)
            else:
                plain += text
        yield from ["\n".join(plain)] * bool(plain)


@functools.cache
def _module(name: str) -> _Module:
    path = _ROOT.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    source = _EXPLAINED.sub("", path.read_text(encoding="utf-8"))
    defined: dict[str, list[ast.stmt]] = {}
    imports: dict[str, Meaning] = {}
    body = ast.parse(source).body
    if path.stem == "__init__":  # a checker of types reads there what is imported on first use
        inner = (node.body if isinstance(node, ast.If) else [node] for node in body)
        body = [*chain.from_iterable(inner)]
    for node in body:
        if isinstance(node, ast.Import):
            imports |= {alias.asname or alias.name: (alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = str(node.module)
            imports |= {alias.asname or alias.name: (origin, alias.name) for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            # What registers itself with a name belongs to that: @name.register_fake.
            hosts = (
                _root(decorator)
                for decorator in _decorators(node)
                if not isinstance(decorator, ast.Name)
            )
            for name in (node.name, *(host for host in hosts if host in defined)):
                defined.setdefault(name, []).append(node)
        elif isinstance(node, ast.Expr):
            defined.get(_root(node.value), []).append(node)
        else:
            for name in _names(node, ast.Store):
                defined.setdefault(name, []).append(node)
    return _Module(lines=source.splitlines(), defined=defined, imports=imports)


def _place(what: Meaning) -> Meaning:
    """Return where a name is defined that a module of ours has or imports."""
    while _is_ours(what) and what[1] not in _module(what[0]).defined:
        origin = _module(what[0]).imports.get(str(what[1]))
        if origin is None:  # a module
            break
        what = origin
    return _INSTEAD.get(what, what)


def _closure(roots: Iterable[Meaning]) -> set[Meaning]:
    """Return all that definitions need, themselves among it."""
    todo, done = [*roots], set[Meaning]()
    while todo:
        what = todo.pop()
        if what in done:
            continue
        done.add(what)
        todo += _needed(what) if _is_ours(what) else ()
    return done


@functools.cache
def _needed(what: Meaning) -> list[Meaning]:
    """Return what a definition of ours needs directly."""
    here, name = what
    module = _module(here)
    used = (used_name for node in module.defined[str(name)] for used_name in _names(node, ast.Load))
    meant = (module.meaning(used_name, here) for used_name in used)
    return [_place(meaning) for meaning in meant if meaning is not None]


def _named(description: Any) -> Iterator[Meaning]:
    """Yield the classes that a description names."""
    for _, node in nodes(description, ""):
        if TARGET in node:
            module, _, name = str(node[TARGET]).rpartition(".")
            yield _place((module, name))


def _assembled(title: str, roots: Iterable[Meaning], tail: str = "") -> str:
    """Return a file of all that roots need."""
    meanings = _closure(roots)
    inside = {what for what in meanings if _is_ours(what)}
    modules = _in_order({module for module, _ in inside})
    names = {
        here: sorted(str(name) for module, name in inside if module == here) for here in modules
    }
    called: dict[Meaning, str] = {}
    ordered: list[Meaning] = [(module, name) for module in modules for name in names[module]]
    for what in [*ordered, *sorted(meanings - inside, key=str)]:
        name = _local(what, modules)
        free = name not in called.values()
        called[what] = name if free else f"{name}_{what[0].rpartition('.')[2]}"
    parts = [
        part
        for here in modules
        for part in _module(here).parts(names[here], _module(here).others(here, called))
    ]
    outside = {what: called[what] for what in meanings - inside}
    head = _HEAD.format(
        title=title,
        version=__version__,
        imports="\n".join(_imports(outside)),
        shapes=" = ".join(sorted(called[what] for what in outside if what[0] == _SHAPES)),
    )
    return "\n\n\n".join([head, *parts, *([tail] if tail else [])]) + "\n"


def _in_order(modules: set[str]) -> list[str]:
    """Return modules of ours after those that they import."""
    ordered: list[str] = []

    def visit(module: str) -> None:
        if module not in ordered:
            for what in _module(module).imports.values():
                origin = _place(what)[0]
                if origin in modules and origin != module:
                    visit(origin)
            ordered.append(module)

    for module in sorted(modules):
        visit(module)
    return ordered


def _local(what: Meaning, modules: Iterable[str]) -> str:
    """Return the name of something in our files: np."""
    names = (
        name
        for here in modules
        for name, meaning in _module(here).imports.items()
        if meaning == what
    )
    return str(what[1]) if _is_ours(what) else next(names, str(what[1]))


def _with_names(lines: list[str], node: ast.AST, called: Mapping[str, str]) -> list[str]:
    """Return lines with other names in a definition; LookupError if one has an argument's."""
    lines = [*lines]
    places = []
    for inner in ast.walk(node) if called else ():
        if isinstance(inner, ast.Name) and inner.id in called:
            places.append((inner.lineno - 1, inner.col_offset, inner.id))
        elif isinstance(inner, ast.arg) and inner.arg in called:
            raise LookupError(f"line {inner.lineno}: rename the argument {inner.arg}")
        elif isinstance(inner, ast.ClassDef | ast.FunctionDef) and inner.name in called:
            before = re.split(rf"\b{inner.name}\b", lines[inner.lineno - 1])[0]
            places.append((inner.lineno - 1, len(before), inner.name))
    for line, at, name in sorted(places, reverse=True):
        text = lines[line]
        lines[line] = text[:at] + called[name] + text[at + len(name) :]
    return lines


def _names(node: ast.AST, use: type[ast.expr_context]) -> Iterator[str]:
    """Yield the names that a definition reads or sets."""
    read = (name_node for name_node in ast.walk(node) if isinstance(name_node, ast.Name))
    yield from sorted({name_node.id for name_node in read if isinstance(name_node.ctx, use)})


def _decorators(node: ast.stmt) -> list[ast.expr]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return decorators


def _root(node: ast.expr) -> str:
    """Return the name on which an attribute or a call stands."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _is_ours(what: Meaning) -> bool:
    return what[0].partition(".")[0] == _OURS


def _imports(outside: Mapping[Meaning, str]) -> Iterator[str]:
    """Yield the lines that import names, but those of shapes."""
    for (module, inner), name in sorted(outside.items(), key=str):
        if inner is None:
            yield f"import {module}" + (f" as {name}" if name != module else "")
    froms: dict[str, list[str]] = {}
    for (module, inner), name in sorted(outside.items(), key=str):
        if inner is not None and module != _SHAPES:
            froms.setdefault(module, []).append(inner if inner == name else f"{inner} as {name}")
    for module, names in sorted(froms.items()):
        line = f"from {module} import {', '.join(names)}"
        if len(line) > _WIDEST:
            line = (
                "\n    ".join([f"from {module} import (", *(f"{name}," for name in names)]) + "\n)"
            )
        yield line
