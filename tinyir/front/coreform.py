"""The canonical form of Core IR (seed 004, "Canonicalisation").

Inputs come first; constants are folded where nothing is undefined; the operands of Add and Mul come in ascending
order; what no output needs is gone, but for inputs; ids count up from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.expr import Expr
from ..ir.types import DType, TensorType
from ..kit.diag import refuse_all
from ..kit.records import replace
from .coreir import CoreModule, Instruction, check
from .coreops import CORE, from_attrs
from .shorttypes import short

MOST_ELEMENTS = 64  # of a tensor that is folded
_SCALARS = {"i64": "ConstI64", "fp32": "ConstF32", "fp64": "ConstF64"}


def canonical(module: CoreModule) -> CoreModule:
    """The canonical form. Raises Refused when the module does not hold."""
    faults = check(module)
    refuse_all(faults)
    inputs = [i for i in module.instructions if i.opcode == "Input"]
    others = [i for i in module.instructions if i.opcode != "Input"]
    found = _numbered(replace(module, instructions=(*inputs, *others)))
    return _numbered(_pruned(replace(found, instructions=tuple(_ordered(_folded(found.instructions))))))


def _numbered(module: CoreModule) -> CoreModule:
    """Ids from 0 in the order of the instructions."""
    ids = {i.id: n for n, i in enumerate(module.instructions)}
    instructions = tuple(
        replace(i, id=ids[i.id], operands=tuple(ids[o] for o in i.operands)) for i in module.instructions
    )
    return CoreModule(instructions, tuple(replace(o, id=ids[o.id]) for o in module.outputs))


def _ordered(instructions: Iterable[Instruction]) -> Iterable[Instruction]:
    for i in instructions:
        is_commutative = i.opcode == "BinOp" and str(i.attr("op")) in ("Add", "Mul")
        yield replace(i, operands=tuple(sorted(i.operands))) if is_commutative else i


def _pruned(module: CoreModule) -> CoreModule:
    needed = {o.id for o in module.outputs}
    for i in reversed(module.instructions):
        if i.id in needed:
            needed.update(i.operands)
    return replace(module, instructions=tuple(i for i in module.instructions if i.id in needed or i.opcode == "Input"))


def _folded(instructions: Iterable[Instruction]) -> Iterable[Instruction]:
    constants: dict[int, tuple[TensorType, Any]] = {}
    for i in instructions:
        if i.opcode == "BinOp" and all(o in constants for o in i.operands):
            found = _evaluated(str(i.attr("op")).upper(), [constants[o] for o in i.operands], i.type)
            i = i if found is None else constant(i, found)
        if i.opcode.startswith("Const"):
            attrs, _ = from_attrs(CORE[i.opcode], i.attrs, "")
            constants[i.id] = (i.type, attrs.get("data", attrs.get("value")))
        yield i


def _evaluated(op: str, operands: list[tuple[TensorType, Any]], type: TensorType) -> Any:
    """The folded literal; None where it is too big, or an integer would wrap."""
    sizes = [[d.constant for d in t.shape] for t in (type, *(t for t, _ in operands))]
    if any(None in shape for shape in sizes):
        return None
    import numpy as np

    from ..ir.evaluate import elementwise, literal
    from ..ir.types import round_to

    if int(np.prod(sizes[0], dtype=object)) > MOST_ELEMENTS:
        return None
    if type.dtype.is_integer:
        wide = [np.broadcast_to(np.array(value, object), sizes[0]) for _, value in operands]
        exact = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[op](*wide)
        return (
            None if any(round_to(type.dtype, n) != n for n in np.ravel(exact)) else _nested(np.asarray(exact).tolist())
        )
    arrays = [np.broadcast_to(literal(_round(value, t.dtype), t.dtype), sizes[0]) for t, value in operands]
    return _nested(elementwise(op, arrays, type.dtype).tolist())


def _round(value: Any, dtype: DType) -> Any:
    from ..ir.types import round_to

    return tuple(_round(v, dtype) for v in value) if isinstance(value, tuple) else round_to(dtype, value)


def _nested(item: Any) -> Any:
    return tuple(_nested(i) for i in item) if isinstance(item, list) else item


def constant(i: Instruction, data: Any) -> Instruction:
    """The instruction `i` as the constant that `data` is: a number, or nested tuples of numbers."""
    opcode = _SCALARS.get(i.type.dtype.name) if not i.type.shape else None
    item = _item(data)
    attrs: tuple[tuple[str, Any], ...] = (("value", item),)
    if opcode is None:
        opcode, attrs = (
            "ConstTensor",
            (("data", item), ("dtype", Expr.of(short(i.type.dtype))), ("shape", i.type.shape)),
        )
    return replace(i, opcode=opcode, operands=(), attrs=attrs)


def _item(data: Any) -> Any:
    """Numbers as attributes hold them: integers and truth values as Exprs."""
    if isinstance(data, tuple):
        return tuple(_item(d) for d in data)
    if isinstance(data, bool):
        return Expr.of("true" if data else "false")
    return Expr.of(data) if isinstance(data, int) else data
