"""Text -> syntax tree by tree-sitter; the one file that imports it.

A grammar is a wheel of its own (`tree-sitter-rust`). Work is bounded, and by counting, so that the
same text always gives the same tree: the parser may read the text only so many times over and take
only so many steps, and texts whose brackets nest beyond anything that people write are not parsed.
Characters that grammars stumble over (NUL, lone surrogates, exotic white space) are replaced by
others that take their place; line ends stay where they are.

The counts do not see the time between two calls: broken text can still take seconds a piece.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache

import numpy as np
import tree_sitter

# The parser asks for the text in chunks; a smaller chunk counts rereading more exactly.
_CHUNK = 512
_READS = 8  # how many times over the text may be read
_STEPS = 0.5  # calls of the parser's progress callback for each byte, and
_FREE = 2000  # what any text may use of both
_DEEPEST = 250
_ODD_SPACE = re.compile(
    "[\0\x1a\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_OPEN, _CLOSE = b"([{", b")]}"


@lru_cache(maxsize=64)
def load(module: str, function: str) -> tree_sitter.Language:
    """The grammar of a wheel. Raises ModuleNotFoundError if it is not installed."""
    return tree_sitter.Language(getattr(importlib.import_module(module), function)())


def encode(text: str) -> bytes:
    """UTF-8 that grammars can read, with the line ends of the text."""
    return _ODD_SPACE.sub(" ", text).encode("utf-8", "replace")


def parse(data: bytes, language: tree_sitter.Language) -> tree_sitter.Tree | None:
    """The tree of the text, or None if it would take too much work."""
    if _depth(data) > _DEEPEST:
        return None
    reads = int(_READS * len(data) / _CHUNK) + _FREE
    steps = int(_STEPS * len(data)) + _FREE
    spent = [0, 0]

    def read(place: int, _: object) -> bytes:
        spent[0] += 1
        # Whoever reads on behind the limit finds the end of the text.
        return data[place : place + _CHUNK] if spent[0] <= reads else b""

    def stop(*_: object) -> bool:
        spent[1] += 1
        return spent[1] > steps or spent[0] > reads

    try:
        tree = tree_sitter.Parser(language).parse(read, progress_callback=stop)
    except ValueError:  # cancelled
        return None
    return None if spent[0] > reads or spent[1] > steps else tree


def _depth(data: bytes) -> int:
    """How deep brackets nest, strings and comments not told apart."""
    codes = np.frombuffer(data, dtype=np.uint8)
    steps = _bracket_table()[codes].astype(np.int32)
    depth = np.cumsum(steps)
    return int((depth - np.minimum(np.minimum.accumulate(depth), 0)).max(initial=0))


@lru_cache(maxsize=1)
def _bracket_table() -> np.ndarray:
    table = np.zeros(256, dtype=np.int8)
    table[list(_OPEN)] = 1
    table[list(_CLOSE)] = -1
    return table
