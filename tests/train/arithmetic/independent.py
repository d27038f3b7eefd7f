"""An evaluator that shares nothing with the one under test: Python's own parser and grammar."""

import ast

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def value(text, modulus):
    """The value of an expression modulo a prime; an inverse is searched for, not computed."""
    return _value(ast.parse(text, mode="eval").body, modulus)


def operators(text):
    """Number of operators of an expression."""
    return sum(isinstance(node, ast.BinOp) for node in ast.walk(ast.parse(text, mode="eval")))


def reductions(text, modulus):
    """Every tree that one reduction leads to, left to right, as Python dumps it."""
    tree = ast.parse(text, mode="eval").body
    return [ast.dump(made) for made in _reductions(tree, modulus)]


def dumped(text):
    return ast.dump(ast.parse(text, mode="eval").body)


def _reductions(node, modulus):
    if isinstance(node, ast.Constant):
        return
    if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        yield ast.Constant(value=_value(node, modulus))
    for left in _reductions(node.left, modulus):
        yield ast.BinOp(left=left, op=node.op, right=node.right)
    for right in _reductions(node.right, modulus):
        yield ast.BinOp(left=node.left, op=node.op, right=right)


def _value(node, modulus):
    if isinstance(node, ast.Constant):
        return node.value
    left, right = _value(node.left, modulus), _value(node.right, modulus)
    kind = _OPERATORS[type(node.op)]
    if kind == "/":
        (found,) = [n for n in range(modulus) if n * right % modulus == left]
        return found
    return {"+": left + right, "-": left - right, "*": left * right}[kind] % modulus
