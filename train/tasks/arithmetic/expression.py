"""Expressions modulo a prime: their trees, spelling and reduction.

    (7+5)*3  ->  1*3  ->  3        modulo 11

Operators of equal precedence group to the left, and brackets appear only where they are needed, so
a spelling and its tree determine each other. a / b = a * b^-1, which does not exist for b = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from train.errors import DataError

OPERATORS = "+-*/"
_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2}


class ExpressionError(ValueError):
    """A text that is not an expression as `spell` writes it; names the place and the reason."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A number, or an operator with two operands; value: from 0 to modulus - 1."""

    value: int
    operator: str = ""
    parts: list[Node] = field(default_factory=list)


def require_prime(modulus: int) -> None:
    """Raise DataError unless the modulus is a prime: only then can every number but 0 divide."""
    if modulus < 2 or not all(modulus % d for d in range(2, int(modulus**0.5) + 1)):
        raise DataError(f"modulus must be a prime, so that division works, was: {modulus}")


def joined(operator: str, left: Node, right: Node, *, modulus: int) -> Node:
    """Return the operation over two operands, with its value."""
    a, b = left.value, right.value
    if operator in "+-":
        value = a + b if operator == "+" else a - b
    else:
        value = a * (b if operator == "*" else pow(b, -1, modulus))
    return Node(value=value % modulus, operator=operator, parts=[left, right])


def reducible(node: Node) -> Iterator[Node]:
    """Yield the operations whose operands are both numbers, left to right."""
    if node.parts and not any(part.parts for part in node.parts):
        yield node
    for part in node.parts:
        yield from reducible(part)


def reduce(node: Node) -> None:
    """Replace an operation by its value, in place."""
    node.operator, node.parts = "", []


def spell(node: Node) -> str:
    """Return the expression as text, without spaces or needless brackets."""
    if not node.parts:
        return str(node.value)
    left, right = node.parts
    first, second, level = spell(left), spell(right), _LEVEL[node.operator]
    if left.parts and _LEVEL[left.operator] < level:
        first = f"({first})"
    if right.parts and _LEVEL[right.operator] <= level:
        second = f"({second})"
    return first + node.operator + second


def parse(text: str, *, modulus: int) -> Node:
    """Return the tree of an expression; ExpressionError if `spell` would write it differently."""
    reader = _Reader(text, modulus)
    node = reader.sum()
    if reader.at < len(text):
        raise reader.fault("an operator or the end")
    if spell(node) != text:
        raise ExpressionError(f"{text!r} has more brackets or zeros than it needs: {spell(node)!r}")
    return node


class _Reader:
    """A recursive-descent parser: sums of products of numbers and brackets."""

    def __init__(self, text: str, modulus: int) -> None:
        self.text, self.modulus, self.at = text, modulus, 0

    def fault(self, wanted: str) -> ExpressionError:
        found = self.text[self.at : self.at + 1] or "the end"
        return ExpressionError(f"{self.text!r}: character {self.at} must be {wanted}, was: {found}")

    def sum(self) -> Node:
        return self._operations("+-", self._product)

    def _product(self) -> Node:
        return self._operations("*/", self._factor)

    def _operations(self, operators: str, operand) -> Node:  # type: ignore[no-untyped-def]
        node: Node = operand()
        while (operator := self.text[self.at : self.at + 1]) and operator in operators:
            self.at += 1
            right = operand()
            if operator == "/" and not right.value:
                raise ExpressionError(f"{self.text!r}: divides by 0 before character {self.at}")
            node = joined(operator, node, right, modulus=self.modulus)
        return node

    def _factor(self) -> Node:
        if self.text.startswith("(", self.at):
            self.at += 1
            node = self.sum()
            if not self.text.startswith(")", self.at):
                raise self.fault("')'")
            self.at += 1
            return node
        stop = self.at
        while stop < len(self.text) and self.text[stop] in "0123456789":
            stop += 1
        if stop == self.at:
            raise self.fault("a number or '('")
        value = int(self.text[self.at : stop])
        if value >= self.modulus:
            raise self.fault(f"a number below {self.modulus}")
        self.at = stop
        return Node(value=value)
