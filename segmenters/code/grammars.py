"""Syntax trees by tree-sitter; the only file that imports it.

A grammar is a wheel of its own (`tree-sitter-rust`). Work is bounded by counts, so that the same
text always gives the same tree: of reads and steps of the parser at each part of the text, and of
the depth of brackets and tags. The counts ignore what a step costs: in broken text it can be twenty
times the usual.
"""

import importlib
import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from math import inf

import numpy as np
import tree_sitter

# The parser asks for the text in chunks; a smaller chunk counts rereading more exactly.
_CHUNK = 512
# Reads of a chunk in a text of so many bytes. Some grammars look from many places to the end of the
# text (that of Julia from up to 40 in ordinary code), so they are bounded on the whole alone.
_READ_RATE, _MOST_READS = 64 / _CHUNK, 48
# Steps, calls of the progress callback, of a hundred operations each: each byte passed pays off a
# rate of debt, which may not exceed the most. Ordinary code owes 5 at most.
_STEP_RATE, _MOST_STEPS = 0.02, 24
# A text that owes so many, against the rate of its language, is suspect, and so many are owed for
# a step while all that the parser tries is in error.
_SUSPECT, _IN_ERROR = 5, 5
_LAST_RATE = 0.03  # steps per byte of the whole text, with the final building of the tree
_LITERAL_RATE = 512  # bytes per step
_DEEPEST = 250
# Tags of elements that need a closing tag; others close by themselves.
_TAG = re.compile(
    rb"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|p|li|d[td]|"
    rb"opt(?:ion|group)|t[rdh]|t(?:head|body|foot)|colgroup|rp|rt|html|head|body)\b)[\w:\-\x80-\xff]",
    re.IGNORECASE,
)
# The binding never frees what a read returns, so all reads of a parse return one buffer, and later
# parses use it again. For the same reason, and since buffers change, no text of a node is read.
_BUFFERS: list[bytearray] = []
_BRACKETS = list(b"([{)]}")
_STEPS = bytes.maketrans(b"([{)]}", b"\x01\x01\x01\xff\xff\xff")  # change of depth, as int8
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))


@lru_cache(maxsize=64)
def load(module: str, function: str) -> tree_sitter.Language:
    """Return the grammar of a wheel.

    Raises ModuleNotFoundError if it is not installed, ValueError if it was made for another version
    of tree-sitter.
    """
    grammar = getattr(importlib.import_module(module), function)()
    with warnings.catch_warnings():  # some wheels give a plain address
        warnings.simplefilter("ignore", DeprecationWarning)
        language = tree_sitter.Language(grammar)
    tree_sitter.Parser(language)  # which reads the version of the grammar
    return language


def parse(
    data: bytes,
    language: tree_sitter.Language,
    *,
    tags: bool = False,
    times: int = 1,
    tail: bytes = b"",
    passed_over: tuple[int, int] = (0, 0),
    usual: float = 0,
    look: Callable[[int], bool] | None = None,
) -> tuple[tree_sitter.Tree | None, int]:
    """Return the tree of the text, or None and the byte at which it is too hard to parse.

    `tags`: elements nest as brackets do; `times`: how often the usual reads are allowed; `tail`:
    put behind a text that does not end with it; `passed_over`: a stretch that the parser must pass
    in few steps, as one literal; `usual`: steps per byte of ordinary code, if any; beyond these
    `look` is called once with the bytes passed, and says whether to give up. Work is bounded at
    each place, not only on the whole.
    """
    if not data.endswith(tail):
        data += tail
    deep = _too_deep(data, tags)
    if deep is not None:
        return None, deep
    end, (first, last) = len(data.rstrip()), passed_over
    inside = (last - first) // _LITERAL_RATE  # steps
    reads = int(_MOST_READS + times * _READ_RATE * len(data))
    trust = min(_SUSPECT, 2 + len(data) / 1024) if usual else inf
    spent, debt, passed = 0, 0.0, 0  # steps, those not paid for by the bytes passed, and these
    suspicion = 0.0

    buffer = _BUFFERS.pop() if _BUFFERS else bytearray()

    def read(place: int, _: object) -> bytearray:
        nonlocal reads
        reads -= 1
        # Never an early end, even beyond the limit: two ends in one text crash the parser.
        buffer[:] = data[place : place + _CHUNK]
        return buffer

    def stop(place: int, failed: bool) -> bool:
        nonlocal spent, debt, passed, inside, suspicion, trust
        spent += 1
        if first < place < last:
            inside -= 1
        ahead = place - passed
        if ahead > 0:
            passed = place
            debt -= _STEP_RATE * ahead
            if debt < 0:
                debt = 0.0
            suspicion -= usual * ahead
            if suspicion < 0:
                suspicion = 0.0
        debt += 1
        suspicion += _IN_ERROR if failed else 1
        if suspicion > trust and place < end:
            trust = inf
            if look is not None and look(passed):
                return True
        # After the text has been read, the tree is balanced: those steps pass no byte.
        much = debt > _MOST_STEPS and place < end
        return much or reads < 0 or inside < 0 or spent > _MOST_STEPS + _LAST_RATE * passed

    parser = tree_sitter.Parser(language)
    try:
        tree = parser.parse(read, progress_callback=stop)
    except ValueError:  # cancelled
        return None, passed
    finally:
        _BUFFERS.append(buffer)
    return tree, passed


def errors(tree: tree_sitter.Tree) -> tuple[list[int], int]:
    """Return where the parser had to recover from an error, in bytes, and how many nodes it left.

    Each token of an error costs a parser more than one of a statement, if less than the error.
    """
    found, left, stack = [], 0, [tree.root_node] if tree.root_node.has_error else []
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(node.start_byte)
            left += node.child_count
        stack += [child for child in node.children if child.has_error]
    return found, left


def _too_deep(data: bytes, tags: bool) -> int | None:
    """Return where brackets or tags first nest too deep, those in strings and comments included."""
    if tags:
        found = list(_TAG.finditer(data))
        signs = np.array([-1 if match[1] else 1 for match in found], dtype=np.int32)
    else:
        signs = np.frombuffer(data.translate(_STEPS, _OTHERS), dtype=np.int8)
    if len(signs) <= _DEEPEST:
        return None
    depth = np.cumsum(signs, dtype=np.int32)
    if depth.max() - min(depth.min(), 0) <= _DEEPEST:  # as in nearly all texts
        return None
    depth -= np.minimum(np.minimum.accumulate(depth), 0)
    deep = depth > _DEEPEST
    if not deep.any():
        return None
    place = int(np.argmax(deep))
    if tags:
        return found[place].start()
    return int(np.flatnonzero(np.isin(np.frombuffer(data, dtype=np.uint8), _BRACKETS))[place])
