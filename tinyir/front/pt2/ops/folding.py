"""What nodes give whose tensors are all known: index tensors, masks and positions that exporters make of ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term, array_dtype
from ..call import Call
from ..table import fold

Compute = Callable[..., Any]

_BINARY: dict[str, Compute] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fmod": np.fmod,
    "remainder": np.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}
_UNARY: dict[str, Compute] = {
    "neg": np.negative,
    "abs": np.abs,
    "logical_not": np.logical_not,
    "sign": lambda x: np.sign(np.nan_to_num(x)),
}
_RESHAPED = (
    "view.default reshape.default _unsafe_view.default unsqueeze.default squeeze.dims squeeze.dim squeeze.default "
    "flatten.using_ints"
).split()
_SAME = (
    "alias.default clone.default detach.default contiguous.default lift_fresh_copy.default _to_copy.default to.dtype"
)


def _numbers(call: Call, key: str) -> Any:
    """An operand as NumPy has it, in the dtype that torch computes in."""
    found = call.operand(key)
    own = call.joint_dtype(call.operand("self"), call.operand("other"))
    dtype = array_dtype(own)
    if isinstance(found, Term):
        assert found.known is not None
        return found.known.astype(dtype)
    return np.asarray(found).astype(dtype)


def _binary(compute: Compute) -> Compute:
    def folded(call: Call) -> Any:
        if call.get("alpha", 1) != 1:
            return None
        x, y = _numbers(call, "self"), _numbers(call, "other")
        if x.dtype.kind not in "biu" or compute in (np.fmod, np.mod) and not np.all(y):
            return None  # floats are left to the program, which says how they round
        return compute(x, y)

    return folded


def _unary(compute: Compute) -> Compute:
    return lambda call: None if call.array("self").dtype.kind not in "biu" else compute(call.array("self"))


for _name, _compute in _BINARY.items():
    fold(f"{_name}.Tensor", f"{_name}.Scalar", f"{_name}.default")(_binary(_compute))
for _name, _compute in _UNARY.items():
    fold(f"{_name}.default")(_unary(_compute))


def _shape(call: Call) -> list[int]:
    found = [s.constant for s in call.shape]
    if any(n is None for n in found):
        raise ValueError(Phrase("its sizes are symbols"))
    return [n for n in found if n is not None]


@fold(*_RESHAPED)
def reshaped(call: Call) -> Any:
    """The same elements in another shape."""
    return call.array("self").reshape(_shape(call))


@fold(*_SAME.split())
def same(call: Call) -> Any:
    """The same elements, as another integer dtype or as bool."""
    x = call.array("self")
    if x.dtype.kind not in "biu" and call.dtype != call.tensor("self").dtype:
        return None
    return x.astype(bool) if call.dtype.kind == "b" else x


@fold("expand.default")
def expanded(call: Call) -> Any:
    """Repeated to a shape."""
    return np.broadcast_to(call.array("self"), _shape(call))


@fold("permute.default")
def permuted(call: Call) -> Any:
    """The axes in another order."""
    return np.transpose(call.array("self"), call.get("dims", []))


@fold("slice.Tensor")
def sliced(call: Call) -> Any:
    """x[start:end:step] along an axis."""
    x = call.array("self")
    bounds = [call.get(key) for key in ("start", "end", "step")]
    if any(isinstance(b, Expr) for b in bounds):
        return None
    at: list[Any] = [slice(None)] * x.ndim
    at[call.axis("dim", x.ndim, 0)] = slice(*bounds)
    return x[tuple(at)]


@fold("select.int")
def selected(call: Call) -> Any:
    """One place of an axis."""
    index = call.get("index", 0)
    return None if isinstance(index, Expr) else np.take(call.array("self"), index, axis=call.get("dim", 0))


@fold("cat.default")
def joined(call: Call) -> Any:
    """One after the other."""
    parts = [t.known for t in call.tensors("tensors")]
    return np.concatenate(parts, axis=call.get("dim", 0)) if len({p.dtype for p in parts}) == 1 else None


@fold("arange.start_step", "arange.start", "arange.default")
def arange(call: Call) -> Any:
    """start, start + step, ..., of integers."""
    start, end, step = call.get("start", 0), call.get("end", 0), call.get("step", 1)
    if call.dtype.is_float or any(isinstance(b, Expr) for b in (start, end, step)):
        return None
    return np.arange(start, end, step)


@fold(
    "full.default", "full_like.default", "scalar_tensor.default", "zeros.default", "ones.default", "zeros_like.default"
)
def full(call: Call) -> Any:
    """One number everywhere."""
    value = call.get("fill_value", call.get("s", 1 if call.target.startswith("ones") else 0))
    return None if isinstance(value, Expr) else np.full(_shape(call), value)


@fold("flip.default")
def flipped(call: Call) -> Any:
    """Read backwards along axes."""
    return np.flip(call.array("self"), call.get("dims", []))


@fold("where.self")
def where(call: Call) -> Any:
    """The second operand where the first is true, else the third."""
    x, y = call.array("self"), call.array("other")
    return np.where(call.array("condition"), x, y) if x.dtype == y.dtype else None


@fold("index_select.default")
def index_selected(call: Call) -> Any:
    """Places of an axis."""
    return np.take(call.array("self"), call.array("index"), axis=call.get("dim", 0))


@fold("index.Tensor")
def indexed(call: Call) -> Any:
    """NumPy's indexing by tensors of integers."""
    x, given = call.array("self"), call.tensors("indices")
    if any(t is not None and t.dtype.kind == "b" for t in given):
        return None
    return x[tuple(slice(None) if t is None else t.known for t in given)]


@fold("sum.dim_IntList", "cumsum.default")
def summed(call: Call) -> Any:
    """Sums of integers, whole or running."""
    x = call.array("self")
    if x.dtype.kind not in "biu":
        return None
    if call.target.startswith("cumsum"):
        return np.cumsum(x.astype(np.int64), axis=call.get("dim", 0))
    axes = call.axes("dim", x.ndim)
    return x.astype(np.int64).sum(axis=None if axes is None else tuple(axes), keepdims=bool(call.get("keepdim", False)))
