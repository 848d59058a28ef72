"""Numbers for the expressions of a region: two that compute the same from the same have one number.

Values are looked through, and so are casts between floats, since the rule of attention may leave roundings out, and
broadcasts that leave every axis where it is. A fold is a leaf of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.body import Binary, Body, BroadcastInDim, Literal, Reduce, Ref, Select, Ternary, Unary, walk
from ...ir.region import Region
from ...kit.records import dataclass
from ..parts.point import free_axes

SYMMETRIC = frozenset(("add", "mul", "max", "min", "cmpeq", "cmpne", "and", "or"))
ONE = -1  # the atom of the constant part of a linear form
ROUNDED = 2.0**-22  # two products of numbers of fp32 that are one in exact arithmetic differ by less


@dataclass(frozen=True, slots=True)
class Node:
    """An expression with its operands by number. `kind` is an op's word, `literal`, `select`, `fold` (of the value
    `name`) or `leaf`; `body` is the first expression that had this number."""

    kind: str
    operands: tuple[int, ...]
    body: Body
    name: str = ""


class Numbering:
    """The expressions of one region by number; `nodes[n]` is expression n."""

    def __init__(self, region: Region):
        self.region = region
        self.nodes: list[Node] = []
        self._numbers: dict[object, int] = {}
        self._of_value: dict[str, int] = {}
        self._axes: dict[int, frozenset[str]] = {}
        self._below: dict[int, frozenset[int]] = {}

    def of(self, body: Body) -> int:
        """The number of an expression."""
        body = self._looked_through(body)
        if isinstance(body, Ref) and body.index is None:
            if body.name not in self._of_value:
                inner = self.region.let(body.name).expr
                self._of_value[body.name] = (
                    self._number(("fold", body.name), "fold", (), body, body.name)
                    if isinstance(inner, Reduce)
                    else self.of(inner)
                )
            return self._of_value[body.name]
        if isinstance(body, Literal):
            value = body.value if body.value == body.value else "nan"
            sign = math.copysign(1, body.value) if isinstance(body.value, float) else 1
            return self._number(("literal", body.dtype.is_float, value, sign), "literal", (), body)
        if isinstance(body, Select):
            inner = (self.of(body.then), self.of(body.other))
            return self._number(("select", body.guard, inner), "select", inner, body)
        if isinstance(body, (Unary, Binary, Ternary)):
            parts = {Unary: ("x",), Binary: ("left", "right"), Ternary: ("first", "second", "third")}[type(body)]
            inner = tuple(self.of(getattr(body, part)) for part in parts)
            key = tuple(sorted(inner)) if body.op in SYMMETRIC else inner
            kind = None if body.dtype.is_float else body.dtype
            return self._number((body.op, kind, key), body.op, inner, body)
        return self._number(("leaf", body), "leaf", (), body)

    def _number(self, key: object, kind: str, operands: tuple[int, ...], body: Body, name: str = "") -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.nodes)
            self.nodes.append(Node(kind, operands, body, name))
        return self._numbers[key]

    def _looked_through(self, body: Body) -> Body:
        while True:
            if isinstance(body, Unary) and body.op == "cast" and body.dtype.is_float and body.x.dtype.is_float:
                body = body.x
            elif isinstance(body, BroadcastInDim) and self._stays(body):
                body = body.x
            else:
                return body

    def _stays(self, body: BroadcastInDim) -> bool:
        """Whether each axis of the operand is the same axis of the result."""
        axes = body.axes if body.axes is not None else tuple(a.name for a in self.region.iters)
        return free_axes(self.region, body.x) == tuple(axes[d] for d in body.dims)

    # --- questions

    def axes(self, number: int) -> frozenset[str]:
        """The region's axes that an expression varies along; what a fold folds away is none of them."""
        if number not in self._axes:
            self._axes[number] = frozenset(free_axes(self.region, self.nodes[number].body))
        return self._axes[number]

    def below(self, number: int) -> frozenset[int]:
        """The expressions that one is made of, itself too; folds are not looked into."""
        if number not in self._below:
            node = self.nodes[number]
            inside = {number}.union(*(self.below(n) for n in node.operands))
            if node.kind == "leaf":
                inside |= {m for n in walk(node.body) if isinstance(n, Ref) for m in self._of_ref(n)}
            self._below[number] = frozenset(inside)
        return self._below[number]

    def _of_ref(self, ref: Ref) -> frozenset[int]:
        return self.below(self.of(Ref(ref.name, ref.dtype)))

    def folds(self, number: int) -> frozenset[str]:
        """The folds that an expression uses."""
        return frozenset(self.nodes[n].name for n in self.below(number) if self.nodes[n].kind == "fold")

    def literal(self, number: int) -> float | None:
        """The number that an expression is, if it is one."""
        node = self.nodes[number]
        return float(node.body.value) if node.kind == "literal" else None

    def linear(self, number: int) -> dict[int, float]:
        """An expression as a sum of atoms times numbers, in exact arithmetic; the constant part is that of ONE."""
        node = self.nodes[number]
        inner = node.operands
        known = self.literal(number)
        if known is not None and math.isfinite(known):
            return {ONE: known}
        if node.kind == "add":
            return _sum(self.linear(inner[0]), self.linear(inner[1]), 1.0)
        if node.kind == "sub":
            return _sum(self.linear(inner[0]), self.linear(inner[1]), -1.0)
        if node.kind == "neg":
            return _sum({}, self.linear(inner[0]), -1.0)
        if node.kind in ("mul", "fdiv"):
            for scaled, by in (inner, inner[::-1])[: 2 if node.kind == "mul" else 1]:
                factor = self.literal(by)
                if factor is not None and math.isfinite(factor) and factor != 0:
                    return _sum({}, self.linear(scaled), factor if node.kind == "mul" else 1 / factor)
        return {number: 1.0}

    def values(self) -> Iterator[tuple[str, int]]:
        """The values that are no folds, with their numbers."""
        return ((let.name, self.of(let.expr)) for let in self.region.lets if not isinstance(let.expr, Reduce))


def _sum(left: dict[int, float], right: dict[int, float], by: float) -> dict[int, float]:
    """left + by * right."""
    found = dict(left)
    for atom, factor in right.items():
        found[atom] = found.get(atom, 0.0) + by * factor
    return {atom: factor for atom, factor in found.items() if factor != 0}


def is_same(left: dict[int, float], right: dict[int, float]) -> bool:
    """Whether two linear forms are one, but for the rounding of their factors."""
    return left.keys() == right.keys() and all(math.isclose(left[a], right[a], rel_tol=ROUNDED) for a in left)
