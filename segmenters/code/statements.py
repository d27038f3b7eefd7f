"""Logical lines and top-level definitions of a syntax tree.

A line end closes a segment if the next visible character begins one. Segments begin at the children
of a block (nodes in `Table.opens`), at a clause (`begins`), and at a statement in the place of a
block ("if (a)" without braces). So the header of a definition, a call over several lines and a
chain of methods are one segment each, and so is a comment or string of several lines; an opening
brace on a line of its own belongs to its header, and a closing one is a segment. In `loose` nodes
(text of a page) and in nodes with an error, up to the block around it, every line is a segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts
from segmenters.code.tables import WRAPPERS, Kinds

_Bytes = npt.NDArray[np.uint8]
IS_SPACE = np.zeros(256, dtype=np.bool_)
IS_SPACE[list(b" \t\n\r\f\v")] = True


@dataclass(slots=True)
class _Frame:
    """A node over several lines whose children are being walked."""

    node: Any
    is_open: bool
    children: Iterator[Any]
    begins: list[int] = field(default_factory=list)  # children, if the node turns out broken
    broken: bool = False


def closing(
    root: Any, kinds: Kinds, data: _Bytes, ends: Cuts, functions: list[Any] | None = None
) -> npt.NDArray[np.bool_]:
    """Return which of the physical line ends [lines], in bytes, close a segment: bool [lines].

    Nodes of functions that are met are added to `functions`.
    """
    found, loose = _begins(root, kinds, _rows(len(data), ends), functions)
    begins = np.zeros(len(data) + 1, dtype=np.bool_)
    begins[found] = True
    begins[-1] = True
    visible = np.flatnonzero(~IS_SPACE[data])
    # The first visible byte after each line end; after the last one there is none.
    closes = begins[np.append(visible, len(data))[np.searchsorted(visible, ends)]]
    for first, last in loose:
        closes |= (ends > first) & (ends <= last)
    return closes


def _rows(size: int, ends: Cuts) -> memoryview:
    """Return the line number of each byte; reading it costs a third of reading a node's row."""
    rows = np.zeros(size + 1, dtype=np.int32)
    rows[ends] = 1
    return np.cumsum(rows, dtype=np.int32).data


def _begins(
    root: Any, kinds: Kinds, rows: memoryview, functions: list[Any] | None
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return where segments begin, and the spans in which every line is one; in bytes."""
    errors = root.has_error
    found = [root.start_byte]
    loose: list[tuple[int, int]] = []
    stack = [_Frame(root, True, iter(root.children))]
    while stack:
        frame = stack[-1]
        child = next(frame.children, None)
        if child is None:
            stack.pop()
            if frame.broken and not frame.is_open:
                found += frame.begins
                stack[-1].broken = True
            continue
        kind = child.kind_id
        into = found if _begins_one(child, kind, frame, kinds) else frame.begins
        start = child.start_byte
        into.append(start)
        if functions is not None and kind in kinds.methods:
            functions.append(child)
        frame.is_open |= kind in kinds.colons and frame.node.kind_id in kinds.labels
        wrong = errors and (child.is_error or child.is_missing)
        if rows[start] == rows[child.end_byte]:
            frame.broken |= wrong or (errors and child.has_error)
            # A block without braces, of one line: nothing else marks where its statement begins.
            if kind in kinds.opens and child.child_count and child.child(0).is_named:
                found.append(start)
        elif kind in kinds.loose:
            loose.append((start, child.end_byte))
        else:
            frame.broken |= wrong
            is_open = wrong or kind in kinds.opens
            stack.append(_Frame(child, is_open, iter(child.children)))
    return found, loose


def _begins_one(child: Any, kind: int, frame: _Frame, kinds: Kinds) -> bool:
    if kind in kinds.begins:
        return True
    if frame.is_open:
        # The brace or keyword that opens a block belongs to the segment before it.
        own = child.is_named or child.start_byte != frame.node.start_byte
        return own or frame.node.kind_id in kinds.firsts
    if kind in kinds.comments:
        return frame.node.kind_id in kinds.compound
    if kind not in kinds.bodies:
        return False
    # The head of a `for` holds statements too; its body comes last.
    return frame.node.kind_id not in kinds.heads or child.end_byte == frame.node.end_byte


def definitions(root: Any, kinds: Kinds) -> list[int]:
    """Return where top-level definitions begin, in bytes (the rule is in `lines.py`)."""
    found: list[int] = []
    stack = [iter(root.children)]
    above, above_row, last = -1, -1, False  # comments directly above, and where they end
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        kind = node.kind_id
        if kind in kinds.contains:
            found.append(node.start_byte)
            stack.append(iter(node.children))
            above, last = -1, False
            continue
        joined = above >= 0 and node.start_point.row <= above_row + 1
        start = above if joined else node.start_byte
        if kind in kinds.comments:
            above, above_row = start, _last_row(node)
            continue
        above = -1
        if kind in kinds.defines:
            found.append(start)
            last = True
        elif node.is_named and last:
            found.append(start)
            last = False
    return found


def methods(nodes: list[Any], kinds: Kinds) -> list[int]:
    """Return where functions begin, with what is directly above them, and what follows each."""
    found: list[int] = []
    for node in nodes:
        while (above := node.parent) is not None and above.type in WRAPPERS:
            node = above
        after = node.next_named_sibling
        if after is not None and after.start_point.row > node.end_point.row:
            found.append(after.start_byte)
        while (
            (above := node.prev_sibling) is not None
            and above.kind_id in kinds.comments
            and node.start_point.row <= _last_row(above) + 1
        ):
            node = above
        found.append(node.start_byte)
    return found


def _last_row(node: Any) -> int:
    """Return the last row that holds part of the node; some comments include their line end."""
    row, column = node.end_point
    return int(row) - (column == 0 and row > node.start_point.row)
