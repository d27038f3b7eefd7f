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
IS_SPACE = np.zeros(256, dtype=np.bool_)
IS_SPACE[list(b" \t\n\r\f\v")] = True


def closing(
    tree: Any, kinds: Kinds, data: _Bytes, ends: Cuts, functions: list[Any] | None = None
) -> npt.NDArray[np.bool_]:
    """Return which of the physical line ends [lines], in bytes, close a segment: bool [lines].

    Nodes of functions that are met are added to `functions`.
    """
    size = max(len(data), tree.root_node.end_byte)  # with what was put behind the text
    next_lines = _next_lines(size, ends)
    found, loose = _begins(tree, kinds, next_lines, functions)
    if tree.root_node.has_error:
        found += _broken(tree.root_node, kinds, next_lines)
    begins = np.zeros(size + 1, dtype=np.bool_)
    begins[found] = True
    begins[len(data) :] = True
    visible = np.flatnonzero(~IS_SPACE.take(data))
    # The first visible byte after each line end; after the last one there is none.
    closes = begins[np.append(visible, len(data))[np.searchsorted(visible, ends)]]
    for first, last in loose:
        closes |= (ends > first) & (ends <= last)
    return closes


def _next_lines(size: int, ends: Cuts) -> memoryview:
    """Return where the line after that of each byte starts; a node's row costs thrice as much."""
    starts = np.concatenate(([0], ends, [size + 1]))
    return np.repeat(starts[1:].astype(np.int32), np.diff(starts)).data


def _begins(
    tree: Any, kinds: Kinds, next_lines: memoryview, functions: list[Any] | None
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return where segments begin, and the spans in which every line is one; in bytes."""
    errors, marks = tree.root_node.has_error, kinds.marks
    found = [tree.root_node.start_byte]
    loose: list[tuple[int, int]] = []
    # A node keeps its children, so none is held for longer than it is looked at.
    stack = [(tree.root_node, True)]
    while stack:
        node, is_open = stack.pop()
        children = node.children
        if kinds.joins:
            children = [child for child in children if child.kind_id not in kinds.joins]
        if functions is not None:
            functions += [child for child in children if _is_one(child, kinds.methods, kinds)]
        if is_open:
            first = len(found)
            found += [child.start_byte for child in children]
            if children and _is_opening(children[0], node, kinds):
                found[first] = found[0]
        elif some := [child for child in children if child.kind_id in marks]:
            found += _begins_inside(node, some, kinds, next_lines)
        for child in children:
            end = child.end_byte
            if end < next_lines[child.start_byte]:
                continue
            kind = child.kind_id
            if kind in kinds.loose:
                loose.append((child.start_byte, end))
            elif kind not in kinds.leaves:
                wrong = errors and (child.is_error or child.is_missing)
                stack.append((child, wrong or kind in kinds.opens))
    return found, loose


def _is_one(node: Any, some: frozenset[int], kinds: Kinds) -> bool:
    """Return whether the node is of one of these kinds and begins with a word that they ask for."""
    return node.kind_id in some and (not kinds.words or node.child(0).text in kinds.words)


def _is_opening(child: Any, node: Any, kinds: Kinds) -> bool:
    """Return whether a first child opens the block, and so belongs to the segment before it."""
    return (
        not child.is_named
        and child.start_byte == node.start_byte
        and child.kind_id not in kinds.begins
        and node.kind_id not in kinds.firsts
    )


def _begins_inside(node: Any, some: list[Any], kinds: Kinds, next_lines: memoryview) -> list[int]:
    """Return where segments begin in a node that is no block, of whose children some have marks."""
    found: list[int] = []
    own = node.kind_id
    for child in some:
        kind, start, end = child.kind_id, child.start_byte, child.end_byte
        if kind in kinds.colons and own in kinds.labels:
            return found + [other.start_byte for other in node.children if other.start_byte > start]
        if (
            kind in kinds.begins
            or (kind in kinds.comments and own in kinds.compound)
            # The head of a `for` holds statements too; its body comes last.
            or (kind in kinds.bodies and (own not in kinds.heads or end == node.end_byte))
            # A block without braces, of one line: nothing else marks where its statement begins.
            or (kind in kinds.opens and end < next_lines[start] and _is_bare(child))
        ):
            found.append(start)
    return found


def _is_bare(node: Any) -> bool:
    return node.child_count > 0 and node.child(0).is_named


def _broken(root: Any, kinds: Kinds, next_lines: memoryview) -> list[int]:
    """Return where the children of nodes with an error begin, up to the block around each."""
    nodes = [(root, 0)]  # over several lines, each with the place of the node around it
    broken: set[int] = set()
    for place, (node, _) in enumerate(nodes):
        for child in node.children:
            if not child.has_error:
                continue
            if child.end_byte < next_lines[child.start_byte]:
                broken.add(place)
            elif child.kind_id not in kinds.loose:
                if child.is_error or child.is_missing:
                    broken.add(place)
                nodes.append((child, place))
    found: list[int] = []
    for place in range(len(nodes) - 1, 0, -1):
        node, above = nodes[place]
        if place in broken and not _is_open(node, kinds):
            found += [child.start_byte for child in node.children]
            broken.add(above)
    return found


def _is_open(node: Any, kinds: Kinds) -> bool:
    own = node.kind_id
    if own in kinds.opens or node.is_error or node.is_missing:
        return True
    return own in kinds.labels and any(child.kind_id in kinds.colons for child in node.children)


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
        if _is_one(node, kinds.defines, kinds):
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
        after, last = node.next_named_sibling, node.end_point.row
        if after is not None and after.start_point.row == last:  # a body apart from its header
            after, last = after.next_named_sibling, after.end_point.row
        if after is not None and after.start_point.row > last:
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
