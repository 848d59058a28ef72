"""Sizes as an archive writes them: SymPy expressions, spelled by srepr (`Mul(Integer(2), Symbol('s0', ...))`) or as
arithmetic (`2*s0`)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ...ir.expr import Expr
from ...kit.phrase import Phrase
from ..limits import MOST as LARGEST

MOST = 4096  # characters of an expression
_CALLS: dict[str, Callable[..., Expr]] = {
    "Add": lambda *terms: sum(terms, Expr.of(0)),
    "Mul": lambda *terms: _product(terms),
    "FloorDiv": lambda x, y: x // y,
    "CleanDiv": lambda x, y: x // y,
    "Mod": lambda x, y: x - y * (x // y),
    "PythonMod": lambda x, y: x - y * (x // y),
    "CeilToInt": lambda x: x,
    "CeilDiv": lambda x, y: x.ceildiv(y),
    "floor": lambda x: x,
}


def size_of(entry: Any) -> Expr:
    """A SymInt of the schema. Raises ValueError for one that no Expr says, KeyError and TypeError for what is none."""
    if "as_int" in entry:
        return Expr.of(int(entry["as_int"]))
    return expression(entry["as_expr"]["expr_str"])


def expression(text: str) -> Expr:
    """An expression as SymPy spells it. Raises ValueError."""
    if len(text) > MOST:
        raise ValueError(Phrase("an expression that is too long"))
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, ZeroDivisionError, TypeError) as fault:
        raise ValueError(Phrase("{text} is not a size: {name}", text=text[:80], name=type(fault).__name__)) from None


def _read(node: ast.expr) -> Expr:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Expr.of(node.value)
    if isinstance(node, ast.Name):
        return Expr.of(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand)
    if isinstance(node, ast.BinOp):
        return _arithmetic(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        word, first = node.func.id, node.args[0] if node.args else None
        if word == "Symbol" and isinstance(first, ast.Constant) and str(first.value).isidentifier():
            return Expr.of(str(first.value))
        if word == "Integer" and first is not None:
            return _read(first)
        if word == "Pow" and len(node.args) == 2:
            return _power(node.args[0], node.args[1])
        if word in _CALLS:
            return _CALLS[word](*map(_read, node.args))
    raise ValueError(Phrase("{unparse} is not a size", unparse=ast.unparse(node)[:80]))


def _arithmetic(node: ast.BinOp) -> Expr:
    if isinstance(node.op, ast.Pow):
        return _power(node.left, node.right)
    left, right = _read(node.left), _read(node.right)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.FloorDiv):
        return left // right
    if isinstance(node.op, ast.Mod):
        return left - right * (left // right)
    raise ValueError(Phrase("{unparse} is not a size", unparse=ast.unparse(node)[:80]))


def _power(base: ast.expr, exponent: ast.expr) -> Expr:
    count = _read(exponent).constant
    if count is None or not 0 <= count <= 8:
        raise ValueError(Phrase("a power of a size"))
    return _product((_read(base),) * count)


def _product(factors: tuple[Expr, ...]) -> Expr:
    found = Expr.of(1)
    for factor in factors:
        found = found * factor
    return found


def bound_of(value: Any, end: int) -> int:
    """A bound of a range; the end of all sizes where there is none."""
    if not isinstance(value, (int, float)) or value != value or abs(value) > LARGEST:
        return end
    return max(0, int(value))
