"""Logical lines and top-level definitions of a syntax tree.

A line end closes a segment if the next visible character begins one. Segments begin at the children
of a block (nodes in `Table.opens`), at a clause (`begins`), and at a statement in the place of a
block ("if (a)" without braces). So the header of a definition, a call over several lines and a
chain of methods are one segment each, and so is a comment or string of several lines; an opening
brace on a line of its own belongs to its header, and a closing one is a segment. In `loose` nodes
(text of a page) and in nodes with an error, up to the block around it, every line is a segment.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts
from segmenters.code.tables import WRAPPERS, Kinds

VISIBLE = bytes(code not in b" \t\n\r\f\v" for code in range(256))  # for bytes.translate
_NEVER = sys.maxsize


def closing(
    tree: Any, kinds: Kinds, data: bytes, ends: Cuts, functions: list[Any] | None = None
) -> npt.NDArray[np.bool_]:
    """Return which of the physical line ends [lines], in bytes, close a segment: bool [lines].

    Nodes of functions that are met are added to `functions`.
    """
    size = max(len(data), tree.root_node.end_byte)  # with what was put behind the text
    next_lines = _next_lines(size, ends)
    visible = data.translate(VISIBLE) + bytes(size + 1 - len(data))
    begins = bytearray(size + 1)
    loose = _mark_begins(tree, kinds, data, next_lines, visible, begins, functions)
    if tree.root_node.has_error:
        for place in _broken(tree.root_node, kinds, next_lines):
            begins[place] = True
    begins[len(data) :] = b"\1" * (size + 1 - len(data))
    # The first visible byte after each line end starts a word; after the last one there is none.
    codes = np.frombuffer(visible, dtype=np.int8)
    words = np.append((codes[1:] > codes[:-1]).nonzero()[0] + 1, len(data))
    closes = np.frombuffer(begins, dtype=np.bool_)[words[words[:-1].searchsorted(ends)]]
    for first, last in ends.searchsorted(loose, side="right").tolist() if loose else ():
        closes[first:last] = True
    return closes


def _next_lines(size: int, ends: Cuts) -> memoryview:
    """Return where the line after that of each byte starts; a node's row costs thrice as much."""
    starts = np.concatenate(([0], ends, [size + 1]), dtype=np.int32, casting="unsafe")
    return starts[1:].repeat(starts[1:] - starts[:-1]).data


def _mark_begins(
    tree: Any,
    kinds: Kinds,
    data: bytes,
    next_lines: memoryview,
    visible: bytes,
    begins: bytearray,
    functions: list[Any] | None,
) -> list[tuple[int, int]]:
    """Mark the bytes where segments begin; return the spans in which every line is a segment.

    Only what begins a line can begin a segment, so a node behind another of its line is looked at
    only if it goes on in the next.
    """
    root, leaves, marks = tree.root_node, kinds.leaves, kinds.marks
    errors = root.has_error
    begins[root.start_byte] = True
    loose: list[tuple[int, int]] = []
    # A node keeps its children, so none is held for longer than it is looked at.
    stack = [(root, True)]
    while stack:
        node, is_open = stack.pop()
        children = node.children
        if kinds.joins:
            children = [child for child in children if child.kind_id not in kinds.joins]
        if functions is not None:
            some = kinds.methods
            functions += [child for child in children if _is_one(child, some, kinds, data)]
        if is_open:
            after = -1  # the place behind which all children begin a segment
            if children and _is_opening(children[0], node, kinds):
                children = children[1:]
        else:
            after = _label_end(node, children, kinds) if node.kind_id in kinds.labels else _NEVER
        next_line = 0
        for child in children:
            end = child.end_byte
            if end < next_line:
                continue
            start, kind = child.start_byte, child.kind_id
            if start > after or (
                kind in marks and start < after and _is_begin(child, node, kinds, next_lines)
            ):
                begins[start] = True
            if end < next_lines[start]:
                if start < end and visible[start]:
                    next_line = next_lines[start]
            elif kind in kinds.loose:
                loose.append((start, end))
            elif kind not in leaves and not (
                kind in kinds.braced
                and data.find(b"{", start + 1, end) < 0
                and data.find(b"/", start + 1, end) < 0
                and not (errors and child.has_error)
            ):
                wrong = errors and (child.is_error or child.is_missing)
                stack.append((child, wrong or kind in kinds.opens))
    return loose


def _is_one(node: Any, some: frozenset[int], kinds: Kinds, data: bytes) -> bool:
    """Return whether the node is of one of these kinds and begins with a word that they ask for."""
    if node.kind_id not in some or not kinds.first_words:
        return node.kind_id in some
    first = node.child(0)
    return data[first.start_byte : first.end_byte] in kinds.first_words


def _is_opening(child: Any, node: Any, kinds: Kinds) -> bool:
    """Return whether a first child opens the block, and so belongs to the segment before it."""
    return (
        not child.is_named
        and child.start_byte == node.start_byte
        and child.kind_id not in kinds.begins
        and node.kind_id not in kinds.firsts
    )


def _label_end(node: Any, children: list[Any], kinds: Kinds) -> int:
    """Return where the token starts behind which the children of a node are segments."""
    return next((child.start_byte for child in children if child.kind_id in kinds.colons), _NEVER)


def _is_begin(child: Any, node: Any, kinds: Kinds, next_lines: memoryview) -> bool:
    """Return whether a child of a node that is no block begins a segment."""
    kind, outer = child.kind_id, node.kind_id
    return (
        kind in kinds.begins
        or (kind in kinds.comments and outer in kinds.compound)
        # The head of a `for` holds statements too; its body comes last.
        or (kind in kinds.bodies and (outer not in kinds.heads or child.end_byte == node.end_byte))
        # A block without braces, of one line: nothing else marks where its statement begins.
        or (
            kind in kinds.opens
            and child.end_byte < next_lines[child.start_byte]
            and child.child_count > 0
            and child.child(0).is_named
        )
    )


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
    places: list[int] = []
    for place in range(len(nodes) - 1, 0, -1):
        node, above = nodes[place]
        if place in broken and not _is_open(node, kinds):
            places += [child.start_byte for child in node.children]
            broken.add(above)
    return places


def _is_open(node: Any, kinds: Kinds) -> bool:
    kind = node.kind_id
    if kind in kinds.opens or node.is_error or node.is_missing:
        return True
    return kind in kinds.labels and any(child.kind_id in kinds.colons for child in node.children)


def definitions(root: Any, kinds: Kinds, data: bytes) -> list[int]:
    """Return where top-level definitions begin, in bytes (the rule is in `lines.py`)."""
    places: list[int] = []
    stack = [iter(root.children)]
    above, above_row, last = -1, -1, False  # comments directly above, and where they end
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        kind = node.kind_id
        if kind in kinds.contains:
            places.append(node.start_byte)
            stack.append(iter(node.children))
            above, last = -1, False
            continue
        joined = above >= 0 and node.start_point.row <= above_row + 1
        start = above if joined else node.start_byte
        if kind in kinds.comments:
            above, above_row = start, _last_row(node)
            continue
        above = -1
        if _is_one(node, kinds.defines, kinds, data):
            places.append(start)
            last = True
        elif node.is_named and last:
            places.append(start)
            last = False
    return places


def methods(nodes: list[Any], kinds: Kinds) -> list[int]:
    """Return where functions begin, with what is directly above them, and what follows each."""
    places: list[int] = []
    for node in nodes:
        while (above := node.parent) is not None and above.type in WRAPPERS:
            node = above
        after, last = node.next_named_sibling, node.end_point.row
        if after is not None and after.start_point.row == last:  # a body apart from its header
            after, last = after.next_named_sibling, after.end_point.row
        if after is not None and after.start_point.row > last:
            places.append(after.start_byte)
        while (
            (above := node.prev_sibling) is not None
            and above.kind_id in kinds.comments
            and node.start_point.row <= _last_row(above) + 1
        ):
            node = above
        places.append(node.start_byte)
    return places


def _last_row(node: Any) -> int:
    """Return the last row that holds part of the node; some comments include their line end."""
    row, column = node.end_point
    return int(row) - (column == 0 and row > node.start_point.row)
