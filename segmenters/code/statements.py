"""Logical lines and top-level definitions of a syntax tree.

A line end closes a segment if the next visible character begins one. Segments begin at the children
of a block (nodes in `Table.opens`), at a clause (`begins`), and at a statement in the place of a
block ("if (a)" without braces). So the header of a definition, a call over several lines and a
chain of methods are one segment each, and so is a comment or string of several lines; an opening
brace on a line of its own belongs to its header, and a closing one is a segment. In `loose` nodes
(text of a page) and in nodes with an error, up to the block around it, every line is a segment.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts
from segmenters.code.tables import WRAPPERS, Kinds

_Bytes = npt.NDArray[np.uint8]
_Captures = dict[str, list[Any]]
IS_SPACE = np.zeros(256, dtype=np.bool_)
IS_SPACE[list(b" \t\n\r\f\v")] = True


def closing(
    root: Any, found: _Captures, kinds: Kinds, data: _Bytes, ends: Cuts
) -> npt.NDArray[np.bool_]:
    """Return which of the physical line ends [lines], in bytes, close a segment: bool [lines].

    `found`: what the query of the kinds captures in the tree.
    """
    begins = np.zeros(len(data) + 1, dtype=np.bool_)
    begins[_begins(root, found, kinds, ends)] = True
    begins[-1] = True
    visible = np.flatnonzero(~IS_SPACE[data])
    # The first visible byte after each line end; after the last one there is none.
    closes = begins[np.append(visible, len(data))[np.searchsorted(visible, ends)]]
    for node in found.get("loose", ()):
        first, last = np.searchsorted(ends, [node.start_byte + 1, node.end_byte + 1])
        closes[first:last] = True
    return closes


def _begins(root: Any, found: _Captures, kinds: Kinds, ends: Cuts) -> list[int]:
    """Return where segments begin, in bytes, in any order."""
    heads = {
        child.start_byte
        for head in found.get("head", ())
        for child in head.children
        # The head of a `for` holds statements too; its body comes last.
        if child.kind_id in kinds.bodies and child.end_byte != head.end_byte
    }
    opens = {node.start_byte for node in found.get("open", ())}
    begins = [root.start_byte, *(node.start_byte for node in found.get("begin", ()))]
    for node in found.get("child", ()):
        start = node.start_byte
        # The brace or keyword that opens a block belongs to the segment before it.
        if start not in heads and (start not in opens or node.is_named):
            begins.append(start)
    if root.has_error:
        begins += _broken(root, kinds, ends)
    return begins


def _broken(root: Any, kinds: Kinds, ends: Cuts) -> list[int]:
    """Return where the children of nodes with an error begin, up to the block around each."""
    found: list[int] = []
    wrong: dict[int, bool] = {}  # nodes that are no block, by their place in `order`
    order: list[tuple[Any, int, list[Any]]] = [(root, -1, root.children)]
    for place, (node, _, children) in enumerate(order):
        is_open = place == 0 or node.is_error or node.kind_id in kinds.opens
        for child in children:
            if not child.has_error and not child.is_missing:
                continue
            first, last = np.searchsorted(ends, [child.start_byte, child.end_byte], side="right")
            if child.is_error or child.is_missing or first == last:
                wrong[place] = True
            if first != last and child.child_count:
                order.append((child, place, child.children))
        if node.is_error:
            found += [
                c.start_byte for c in children if c.is_named or c.start_byte != node.start_byte
            ]
        wrong[place] = wrong.get(place, False) and not is_open
    for place in range(len(order) - 1, 0, -1):
        node, parent, children = order[place]
        if wrong[place]:
            found += [child.start_byte for child in children]
            above = order[parent][0]
            if parent and not above.is_error and above.kind_id not in kinds.opens:
                wrong[parent] = True
    return found


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
