"""Python modules with one docstring cut out, whose first paragraph is the summary to write.

Modules of installed packages are read, never imported; examples depend on the packages' versions.
"""

import ast
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from train.data.reading.corpora import PackageCode
from train.data.reading.documents import Document
from train.tasks.scrolls.examples import Metric, Unprompted
from train.tasks.scrolls.synthetic.drawn import Synthetic

_SUMMARY = (30, 400)  # characters of a first paragraph that is asked for
_Documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocstringSummary(Synthetic):
    """The summary of a function or a class.

    packages: "stdlib" is the standard library. characters: maximum per module.
    """

    packages: Sequence[str]
    characters: int | None
    metric: ClassVar[Metric] = "rouge"

    def generated(self, split: str) -> Iterator[Unprompted]:
        """Yield one docstring per module, then a second of each, and so on."""
        reader = PackageCode(packages=list(self.packages), max_characters=self.characters)
        places = [(package, path) for package in self.packages for path in reader.paths(package)]
        left: list[tuple[Document, list[Docstring]]] = []
        for package, path in self.share_of(places, split):
            for document in reader.read_file(package, path):
                docstrings = list(docstrings_of(document.text))
                self.generator("order", document.id).shuffle(docstrings)
                if docstrings:
                    left.append((document, docstrings))
                    yield _example(document, docstrings.pop())
        while left := [(document, docstrings) for document, docstrings in left if docstrings]:
            for document, docstrings in left:
                yield _example(document, docstrings.pop())


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The first paragraph of a docstring, and its lines from `first` to `last` - 1 (from 0).

    stand_in: what replaces it where the owner would have no body.
    """

    name: str
    summary: str
    first: int
    last: int
    stand_in: str

    def cut_out_of(self, text: str) -> str:
        lines = text.split("\n")
        stand_in = [self.stand_in] if self.stand_in else []
        return "\n".join(lines[: self.first] + stand_in + lines[self.last :])


def _example(document: Document, found: Docstring) -> Unprompted:
    return Unprompted(
        id=f"{document.id}:{found.name}",
        question=f"What does {found.name} do?",
        document=found.cut_out_of(document.text),
        output=found.summary,
    )


def docstrings_of(text: str) -> Iterator[Docstring]:
    """Yield the docstrings of functions and classes that can be cut out of a module.

    Such a docstring fills whole lines, and its first paragraph occurs nowhere else in the module.
    """
    tree = _parsed(text)
    if tree is None:
        return
    lines, flat = text.split("\n"), " ".join(text.split())
    for name, node in _documented(tree, prefix=""):
        docstring = ast.get_docstring(node, clean=False)
        if not docstring:
            continue
        summary = " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())
        place = node.body[0]
        first, last = place.lineno - 1, place.end_lineno or place.lineno
        head = lines[first].encode()[: place.col_offset].decode()  # ast counts columns in bytes
        tail = lines[last - 1].encode()[place.end_col_offset or 0 :]
        fits = _SUMMARY[0] <= len(summary) <= _SUMMARY[1]
        if fits and not head.strip() and not tail.strip() and flat.count(summary) == 1:
            stand_in = "" if len(node.body) > 1 else f"{head}pass"
            yield Docstring(name=name, summary=summary, first=first, last=last, stand_in=stand_in)


def _parsed(text: str) -> ast.Module | None:
    if "\r" in text or "\f" in text:  # ast counts lines and columns differently here
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes and the like in the module
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _documented(
    node: ast.AST, *, prefix: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Documented):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _documented(child, prefix=f"{name}.")
