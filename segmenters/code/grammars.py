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
# Reads of a chunk that a text may cost: a base and a rate per byte. Some grammars look from many
# places to the end of the text (that of Julia from up to 40 in ordinary code), so reads are bounded
# on the whole alone.
_READS, _READ_RATE = 48, 64 / _CHUNK
# A step is a call of the progress callback, for a hundred operations of the parser. It adds 1 to a
# debt, of which each byte that is passed pays off the rate. Ordinary code owes 5 steps at most.
_MOST_STEPS, _STEP_RATE = 24, 0.02
# A text is suspect with this debt by the rate of its language, to which a step adds more while all
# that the parser tries is in error.
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
    steps = _Steps(
        end=len(data.rstrip()),
        reads=int(_READS + times * _READ_RATE * len(data)),
        literal=passed_over,
        usual=usual,
        trust=min(_SUSPECT, 2 + len(data) / 1024) if usual else inf,
        look=look,
    )
    buffer = _BUFFERS.pop() if _BUFFERS else bytearray()

    def read(place: int, _: object) -> bytearray:
        steps.reads -= 1
        # Never an early end, even beyond the limit: two ends in one text crash the parser.
        buffer[:] = data[place : place + _CHUNK]
        return buffer

    parser = tree_sitter.Parser(language)
    try:
        tree = parser.parse(read, progress_callback=steps.count_step)
    except ValueError:  # cancelled
        return None, steps.passed
    finally:
        _BUFFERS.append(buffer)
    return tree, steps.passed


class _Steps:
    """The steps of one parse: each costs one, and each byte that is passed pays for some.

    at a place      few steps that are not paid for, by a rate that all ordinary code keeps
    in a literal    few at all, if a `literal` is to be passed in one
    in the text     a rate for each byte, and so many `reads` of chunks
    suspicion       at the rate of the language (`usual`), and more for steps in error: behind
                    `trust`, `look` is called once and may stop the parse
    """

    def __init__(
        self,
        *,
        end: int,
        reads: int,
        literal: tuple[int, int],
        usual: float,
        trust: float,
        look: Callable[[int], bool] | None,
    ) -> None:
        self.end, self.reads, self.literal = end, reads, literal
        self.inside = (literal[1] - literal[0]) // _LITERAL_RATE  # steps left in the literal
        self.usual, self.trust, self.look = usual, trust, look
        self.passed = 0  # bytes
        self.steps = 0
        self.owed = self.suspect = 0.0  # steps not paid for, by the rate of all code and the usual

    def count_step(self, place: int, failed: bool) -> bool:
        """Count a step at a place; return whether it was one too many, so that parsing stops."""
        self.steps += 1
        self.inside -= self.literal[0] < place < self.literal[1]
        ahead = max(0, place - self.passed)
        self.passed += ahead
        self.owed = max(0.0, self.owed - _STEP_RATE * ahead) + 1
        self.suspect = max(0.0, self.suspect - self.usual * ahead) + (_IN_ERROR if failed else 1)
        # After the text has been read, the tree is balanced: those steps pass no byte.
        is_reading = place < self.end
        if self.suspect > self.trust and is_reading:
            self.trust = inf
            if self.look is not None and self.look(self.passed):
                return True
        return (
            (self.owed > _MOST_STEPS and is_reading)
            or self.reads < 0
            or self.inside < 0
            or self.steps > _MOST_STEPS + _LAST_RATE * self.passed
        )


def errors(tree: tree_sitter.Tree) -> tuple[list[int], int]:
    """Return where the parser had to recover from an error, in bytes, and how many nodes it left.

    Each token of an error costs a parser more than one of a statement, if less than the error.
    """
    places, left, stack = [], 0, [tree.root_node] if tree.root_node.has_error else []
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            places.append(node.start_byte)
            left += node.child_count
        stack += [child for child in node.children if child.has_error]
    return places, left


def _too_deep(data: bytes, tags: bool) -> int | None:
    """Return where brackets or tags first nest too deep, those in strings and comments included."""
    if tags:
        marks = list(_TAG.finditer(data))
        signs = np.array([-1 if match[1] else 1 for match in marks], dtype=np.int32)
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
        return marks[place].start()
    return int(np.flatnonzero(np.isin(np.frombuffer(data, dtype=np.uint8), _BRACKETS))[place])
