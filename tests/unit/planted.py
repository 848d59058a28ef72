"""Faults planted in regions: each is one wrong word of one expression, guard or index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinyir.ir.body import Binary, Body, Literal, Read, Reduce, Scan, Select, Unary, rebuild, walk
from tinyir.ir.expr import Expr
from tinyir.ir.region import Module
from tinyir.kit.records import replace

OTHERS = {"add": "sub", "sub": "add", "mul": "add", "fdiv": "mul", "max": "min", "min": "max", "sum": "max"}


def planted(module: Module) -> Iterator[tuple[str, Module]]:
    """(what was changed, the module with it)."""
    program = module.program
    for at, one in enumerate(program.regions):
        for field in ("lets", "yields"):
            items = getattr(one, field)
            for number, item in enumerate(items):
                for said, body in _changed(item.expr):
                    changed = (*items[:number], replace(item, expr=body), *items[number + 1 :])
                    region = replace(one, **{field: changed})
                    regions = (*program.regions[:at], region, *program.regions[at + 1 :])
                    yield f"{one.name}: {said}", replace(module, program=replace(program, regions=regions))


def _changed(body: Body) -> Iterator[tuple[str, Body]]:
    for node in walk(body):
        for other in _others(node):
            yield f"{type(node).__name__} {getattr(node, 'op', '')}", _put(body, node, other)


def _put(body: Body, node: Body, other: Any) -> Body:
    return other if body is node else rebuild(body, lambda inner: _put(inner, node, other))


def _others(node: Any) -> Iterator[Body]:
    if isinstance(node, Literal) and node.dtype.is_float and node.value - node.value == 0:
        yield replace(node, value=1.25 * node.value + 0.5)
    if isinstance(node, (Binary, Reduce, Scan)) and node.op in OTHERS and node.dtype.is_float:
        yield replace(node, op=OTHERS[node.op])
    if isinstance(node, Binary) and node.left.dtype == node.dtype and node.op != "mul":
        yield node.left
    if isinstance(node, Unary) and node.x.dtype == node.dtype:
        yield node.x
    if isinstance(node, Read):
        for dim, e in enumerate(node.index):
            if e.vocabulary:
                yield replace(node, index=(*node.index[:dim], Expr.of(0), *node.index[dim + 1 :]))
    if isinstance(node, Select):
        first, *rest = node.guard
        if first.lower is not None:
            yield replace(node, guard=(replace(first, lower=first.lower + 1), *rest))
        if first.upper is not None:
            yield replace(node, guard=(replace(first, upper=first.upper - 1), *rest))
        yield node.then
