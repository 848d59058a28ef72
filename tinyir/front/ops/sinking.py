"""A gather of a few elements of what is computed element by element, as the same computation of a few elements that are
gathered: the log softmax at one place of each row is one number of the row less what is the same all along it.

before: gather(sub(x, expand(m)), at)
after:  where(at is inside, sub(gather(x, at), expand(m)), 0)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Expr
from ...ir.ops import OPS
from ...ir.rules import product
from ...ir.types import TensorType
from ...kit.records import dataclass, field
from ..builder import Builder, Ref

FEWER = 8  # times fewer elements are worth it
MOST = 64  # ops that are done once more
MOST_GATHERS = 4


def is_sparse(x: Ref, shape: Sequence[Expr], axis: int) -> bool:
    """Whether a gather from x of this shape takes a few elements along the axis, of what is computed element by
    element: of all places along the others."""
    if any(a != axis and size != x.shape[a] for a, size in enumerate(shape)):
        return False
    few, many = shape[axis].constant, x.shape[axis].constant
    if few is None or many is not None and FEWER * few > many or many is None and few > 1:
        return False
    ops, gathers = _counted(x, axis)
    return OPS[x.op].is_elementwise and ops <= MOST and gathers <= MOST_GATHERS if x.op else False


def _counted(x: Ref, axis: int) -> tuple[int, int]:
    """Ops above what is gathered, and gathers."""
    seen: set[int] = set()
    ops = gathers = 0
    stack = [x]
    while stack and ops <= MOST:
        ref = stack.pop()
        if id(ref) in seen:
            continue
        seen.add(id(ref))
        if ref.op and OPS[ref.op].is_elementwise:
            ops += 1
            stack += ref.operands
        elif not _is_same_along(ref, axis):
            gathers += 1
    return ops, gathers


def _is_same_along(ref: Ref, axis: int) -> bool:
    """Whether a value is the same at all places along the axis: a number, or one that is repeated along it."""
    attrs = dict(ref.attrs)
    if ref.op == "CONST":
        return not isinstance(attrs["value"], tuple)
    if ref.op != "EXPAND":
        return False
    (inner,) = ref.operands
    dims = _dims_of(ref)
    return axis not in dims or inner.shape[dims.index(axis)].constant == 1


def _dims_of(ref: Ref) -> tuple[int, ...]:
    """Which axes of an EXPAND its operand has."""
    (inner,) = ref.operands
    return dict(ref.attrs).get("broadcast_dimensions", tuple(range(ref.rank - inner.rank, ref.rank)))


@dataclass
class Sunk:
    """The values of a step at the places that are gathered: `place` counts them in memory, `shape` along `axis` and
    the others."""

    builder: Builder
    place: Ref
    shape: tuple[Expr, ...]
    axis: int
    done: dict[int, Ref] = field(default_factory=dict)

    def picked(self, ref: Ref) -> Ref:
        """The value at the places."""
        if id(ref) not in self.done:
            self.done[id(ref)] = self._picked(ref)
        return self.done[id(ref)]

    def _picked(self, ref: Ref) -> Ref:
        b = self.builder
        if ref.op and OPS[ref.op].is_elementwise:
            attrs = dict(ref.attrs)
            stated = TensorType(ref.dtype, self.shape) if ref.op in ("CAST", "BITCAST") else None
            return b.emit(ref.op, *map(self.picked, ref.operands), type=stated, **attrs)
        if ref.op == "CONST" and _is_same_along(ref, self.axis):
            return b.const(dict(ref.attrs)["value"], ref.dtype, self.shape)
        if _is_same_along(ref, self.axis):
            return b.spread(ref.operands[0], self.shape, _dims_of(ref))
        return b.emit("GATHER", b.reshape(ref, [product(ref.shape)]), self.place, axis=0)
