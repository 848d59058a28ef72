"""Which inputs a program takes roots and logarithms of: variances and the like, which random numbers must not make
negative. Found from what the program does with them, not from their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..ir import region, tiny
from ..ir.body import Binary, Body, BroadcastInDim, Literal, Read, Ref, Select, Transpose, Unary, walk
from ..ir.ops import OPS

OF_POSITIVE = ("sqrt", "rsqrt", "log2")  # NaN below 0
_BY_CONSTANT = ("add", "mul", "fdiv", "max")  # what such a number may pass with a constant beside it


def positive_inputs(program: Any) -> frozenset[str]:
    """The inputs of a tiny, index or region module whose elements come under a root or a logarithm as they are, or with
    constants added or multiplied."""
    module = getattr(program, "tiny", program)
    if isinstance(module, tiny.Module):
        return frozenset(_of_values(module))
    return frozenset(_of_regions(module))


def _of_values(module: tiny.Module) -> Iterator[str]:
    values, inputs = module.value_of(), {t.name for t in module.model.inputs}

    def is_constant(name: str) -> bool:
        value = values.get(name)
        if value is None:
            return False
        return value.op == "CONST" or OPS[value.op].is_movement and is_constant(value.operands[0])

    def operands(name: str) -> Iterable[str]:
        value = values[name]
        if OPS[value.op].is_movement or value.op == "CAST":
            return value.operands[:1]
        if value.op.lower() in _BY_CONSTANT and any(map(is_constant, value.operands)):
            return [o for o in value.operands if not is_constant(o)]
        return ()

    roots = [v.operands[0] for v in module.values if v.op.lower() in OF_POSITIVE]
    return iter(_reached(roots, lambda name: operands(name) if name in values else (), inputs))


def _of_regions(module: region.Module) -> Iterator[str]:
    inputs = {t.name for t in module.model.inputs}
    written = {y.output: (r, y.expr) for r in module.program.regions for y in r.yields}

    def followed(place: tuple[region.Region, Body] | str) -> Iterable[Any]:
        if isinstance(place, str):
            return [written[place]] if place in written else []
        here, body = place
        if isinstance(body, Read):
            return [body.tensor]
        if isinstance(body, Ref):
            return [(here, let.expr) for let in here.lets if let.name == body.name]
        if isinstance(body, (BroadcastInDim, Transpose)) or isinstance(body, Unary) and body.op == "cast":
            return [(here, body.x)]
        if isinstance(body, Select) and isinstance(body.other, Literal):
            return [(here, body.then)]
        if isinstance(body, Binary) and body.op in _BY_CONSTANT and Literal in map(type, (body.left, body.right)):
            return [(here, side) for side in (body.left, body.right) if not isinstance(side, Literal)]
        return []

    roots = [
        (r, node.x)
        for r in module.program.regions
        for body in (*(let.expr for let in r.lets), *(y.expr for y in r.yields))
        for node in walk(body)
        if isinstance(node, Unary) and node.op in OF_POSITIVE
    ]
    return iter(_reached(roots, followed, inputs))


def _reached(roots: Iterable[Any], followed: Callable[[Any], Iterable[Any]], wanted: set[str]) -> list[str]:
    """What of `wanted` is reached from the roots, each place visited once."""
    seen: set[Any] = set()
    left, found = list(roots), []
    while left:
        place = left.pop()
        key = place if isinstance(place, str) else (place[0].name, id(place[1]))
        if key in seen:
            continue
        seen.add(key)
        if isinstance(place, str) and place in wanted:
            found.append(place)
        left += followed(place)
    return found
