"""What is computed from values that are known: the chains of Shape, Gather, Concat and arithmetic that exporters leave.

Values are NumPy arrays; sizes that are symbols are held in arrays of Exprs, on which the same arithmetic works. A
folding that would have to know more than it does gives None, and the node is translated as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ...limits import Limits
from ...program.terms import MAX_KNOWN, Term, known
from ..elements import element_of
from ..node import Node
from ..table import fold

Array = np.ndarray


def _like(node: Node, value: Any, position: int = 0) -> Term | None:
    return known(value, node.input(position).dtype) if np.size(value) <= MAX_KNOWN else None


def _sign(limits: Limits, x: Any, y: Any) -> tuple[bool | None, bool | None]:
    """Whether x < y, and whether x = y; None where it depends on symbols."""
    difference = Expr.of(x) - y
    if difference.constant is not None:
        return difference.constant < 0, difference.constant == 0
    if limits.shows(difference):
        return False, False if limits.shows(difference - 1) else None
    if limits.shows(-difference):
        return (True, False) if limits.shows(-difference - 1) else (None, None)
    return None, None


def _arithmetic(numbers: Callable[..., Any], sizes: Callable[[Limits, Any, Any], Any] | None) -> Callable[..., Any]:
    """A binary op, by one function on arrays of numbers and one on pairs of sizes; None from either declines."""

    def compute(node: Node, x: Array, y: Array) -> Any:
        if x.dtype != object and y.dtype != object:
            with np.errstate(all="ignore"):
                found = numbers(x, y)
            return None if found is None else _like(node, found)
        x, y = np.broadcast_arrays(x, y)
        limits = node.program.builder.limits
        pairs = [sizes(limits, a, b) if sizes else None for a, b in zip(x.reshape(-1).tolist(), y.reshape(-1).tolist())]
        if any(p is None for p in pairs):
            return None
        found = np.empty(len(pairs), object)
        found[:] = [Expr.of(p) for p in pairs]
        return _like(node, found.reshape(x.shape))

    return compute


def _divide(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return x / y
    if (y == 0).any():
        return None
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)) if x.dtype.kind == "i" else x // y


def _divide_sizes(limits: Limits, x: Any, y: Any) -> Any:
    return Expr.of(x) // y if limits.shows(Expr.of(x)) and limits.shows(Expr.of(y) - 1) else None


def _modulo_sizes(limits: Limits, x: Any, y: Any) -> Any:
    return Expr.of(x) - Expr.of(y) * (Expr.of(x) // y) if limits.shows(Expr.of(y) - 1) else None


def _chosen(is_greatest: bool) -> Callable[[Limits, Any, Any], Any]:
    def choose(limits: Limits, x: Any, y: Any) -> Any:
        (less, same), (more, _) = _sign(limits, x, y), _sign(limits, y, x)
        if less is None or more is None:
            if same is None or less is not False and more is not False:
                return None
        return (y if less else x) if is_greatest else (x if less or same else y)

    return choose


def _integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of integers only: of floats the division by zero and the rounding are not NumPy's to say."""
    return lambda x, y: None if (y == 0).any() else function(x, y)


fold("Add")(_arithmetic(np.add, lambda _, x, y: Expr.of(x) + y))
fold("Sub")(_arithmetic(np.subtract, lambda _, x, y: Expr.of(x) - y))
fold("Mul")(_arithmetic(np.multiply, lambda _, x, y: Expr.of(x) * y))
fold("Div")(_arithmetic(_divide, _divide_sizes))
fold("Pow")(
    _arithmetic(lambda x, y: np.power(x, y.astype(x.dtype)) if x.dtype.kind == "f" or (y >= 0).all() else None, None)
)
fold("And")(_arithmetic(np.logical_and, None))
fold("Or")(_arithmetic(np.logical_or, None))
_MODULO = _arithmetic(_integers(np.mod), _modulo_sizes)


@fold("Mod")
def modulo(node: Node, x: Array, y: Array) -> Any:
    """The remainder with the divisor's sign."""
    return None if node.attr("fmod", 0) or x.dtype.kind == "f" else _MODULO(node, x, y)


@fold("Max", "Min")
def extreme(node: Node, *arrays: Array) -> Any:
    """The greatest or the least of each place."""
    is_greatest = node.proto.op_type == "Max"
    found = node.input(0)
    for array in arrays[1:]:
        found = _arithmetic(np.maximum if is_greatest else np.minimum, _chosen(is_greatest))(node, found.known, array)
        if found is None:
            return None
    return found


@fold("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def compare(node: Node, x: Array, y: Array) -> Any:
    """Comparison, of sizes where every size that the symbols allow gives the same answer."""
    op = node.proto.op_type
    if x.dtype != object and y.dtype != object:
        functions = {
            "Equal": np.equal,
            "Less": np.less,
            "Greater": np.greater,
            "LessOrEqual": np.less_equal,
            "GreaterOrEqual": np.greater_equal,
        }
        return known(functions[op](x, y), "bool")
    x, y = np.broadcast_arrays(x, y)
    found = []
    for a, b in zip(x.reshape(-1).tolist(), y.reshape(-1).tolist()):
        if op in ("Greater", "LessOrEqual"):
            a, b = b, a
        less, same = _sign(node.program.builder.limits, a, b)
        answer = same if op == "Equal" else less
        if answer is None:
            return None
        found.append(answer if op in ("Equal", "Less", "Greater") else not answer)
    return known(np.array(found, bool).reshape(x.shape), "bool")


@fold("Not")
def negation(node: Node, x: Array) -> Any:
    """Not."""
    return known(np.logical_not(x), "bool")


@fold("Where")
def where(node: Node, condition: Array, x: Array, y: Array) -> Any:
    """One or the other."""
    if object in (x.dtype, y.dtype):
        x, y = x.astype(object), y.astype(object)
    chosen = np.where(condition, x, y)
    return _like(node, chosen, 1)


def _function(function: Callable[..., Any], kinds: str) -> Callable[..., Any]:
    def compute(node: Node, x: Array) -> Any:
        with np.errstate(all="ignore"):
            return _like(node, function(x)) if x.dtype.kind in kinds else None

    return compute


for _name, _numpy, _kinds in (
    ("Neg", np.negative, "ifO"),
    ("Abs", np.abs, "if"),
    ("Floor", np.floor, "f"),
    ("Ceil", np.ceil, "f"),
    ("Sqrt", np.sqrt, "f"),
    ("Reciprocal", np.reciprocal, "f"),
    ("Relu", lambda x: np.maximum(x, x.dtype.type(0)), "if"),
):
    fold(_name)(_function(_numpy, _kinds))


@fold("Cast")
def cast(node: Node, x: Array) -> Any:
    """Another dtype, where nothing is out of its range."""
    to = node.attr("to")
    if isinstance(to, str):
        return None
    dtype, form = element_of(to, node.name)
    if form or x.dtype == object and not dtype.is_integer:
        return None
    if x.dtype == object or not dtype.is_integer:
        return known(x, dtype) if dtype.bits > 8 or dtype.kind == "b" else None
    limits = np.iinfo(dtype.numpy)
    wide = x.astype(np.float64)
    return (
        known(x, dtype)
        if np.isfinite(wide).all() and (wide >= limits.min).all() and (wide <= limits.max).all() and x.size <= MAX_KNOWN
        else None
    )


# --- movement


@fold("Identity")
def identity(node: Node, x: Array) -> Any:
    """The value itself."""
    return node.input(0)


@fold("Gather")
def gather(node: Node, x: Array, index: Array) -> Any:
    """Elements by their places."""
    if index.dtype == object:
        return None
    axis = node.axis(x.ndim)
    found = np.take(x, index.astype(np.int64), axis)
    return _like(node, found if isinstance(found, np.ndarray) else _boxed(found))


def _boxed(value: Any) -> Array:
    found = np.empty((), object)
    found[()] = value
    return found if isinstance(value, Expr) else np.asarray(value)


@fold("Concat")
def concat(node: Node, *arrays: Array) -> Any:
    """One after the other."""
    return _like(
        node,
        np.concatenate(
            [a.astype(object) if any(b.dtype == object for b in arrays) else a for a in arrays],
            node.axis(arrays[0].ndim, 1),
        ),
    )


@fold("Squeeze")
def squeeze(node: Node, x: Array, _: Array | None = None) -> Any:
    """Without axes of size 1."""
    axes = node.ints(1, "axes")
    return _like(
        node,
        x.reshape(
            [n for a, n in enumerate(x.shape) if (a not in {i % x.ndim for i in axes} if axes is not None else n != 1)]
        ),
    )


@fold("Unsqueeze")
def unsqueeze(node: Node, x: Array, _: Array | None = None) -> Any:
    """With axes of size 1."""
    return _like(node, np.expand_dims(x, tuple(node.ints(1, "axes"))))


@fold("Reshape")
def reshape(node: Node, x: Array, _: Array | None = None) -> Any:
    """Another shape."""
    wanted = node.ints(1, "shape")
    if any(isinstance(n, Expr) for n in wanted):
        return None
    return _like(
        node, x.reshape([x.shape[i] if n == 0 and not node.attr("allowzero", 0) else n for i, n in enumerate(wanted)])
    )


@fold("Flatten")
def flatten(node: Node, x: Array) -> Any:
    """Two axes."""
    axis = node.attr("axis", 1)
    return _like(node, x.reshape(int(np.prod(x.shape[:axis])), -1)) if x.size else None


@fold("Transpose")
def transpose(node: Node, x: Array) -> Any:
    """The axes in another order."""
    return _like(node, x.transpose(node.attr("perm")))


@fold("Expand")
def expand(node: Node, x: Array, _: Array) -> Any:
    """Repeated to a shape."""
    wanted = node.ints(1)
    if any(isinstance(n, Expr) for n in wanted):
        return None
    shape = np.broadcast_shapes(x.shape, tuple(wanted))
    return _like(node, np.broadcast_to(x, shape)) if np.prod(shape, dtype=np.float64) <= MAX_KNOWN else None


@fold("Tile")
def tile(node: Node, x: Array, repeats: Array) -> Any:
    """Repeated as a whole."""
    if repeats.dtype == object or x.size * np.prod(repeats, dtype=np.float64) > MAX_KNOWN:
        return None
    return _like(node, np.tile(x, repeats.reshape(-1)))


@fold("Slice")
def slice_op(node: Node, x: Array, *_: Array) -> Any:
    """x[start:end:step]."""
    starts, ends = node.ints(1, "starts"), node.ints(2, "ends")
    axes, steps = node.ints(3, "axes") or list(range(len(starts))), node.ints(4) or [1] * len(starts)
    if any(isinstance(n, Expr) for n in (*starts, *ends, *axes, *steps)):
        return None
    taken = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        taken[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return _like(node, x[tuple(taken)])


@fold("Split")
def split(node: Node, x: Array, _: Array | None = None) -> Any:
    """Pieces along an axis."""
    sizes, axis = node.ints(1, "split"), node.axis(x.ndim)
    parts = len(node.outputs)
    if sizes is None and x.shape[axis] % parts == 0:
        sizes = [x.shape[axis] // parts] * parts
    if sizes is None or any(isinstance(n, Expr) for n in sizes) or sum(sizes) != x.shape[axis]:
        return None
    return tuple(_like(node, piece) for piece in np.split(x, np.cumsum(sizes)[:-1], axis))


# --- reduction and what is seldom left


@fold("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce(node: Node, x: Array, _: Array | None = None) -> Any:
    """The fold over axes: of sizes their product and sum."""
    op, axes = node.proto.op_type, node.ints(1, "axes")
    if x.dtype == object and op in ("ReduceMax", "ReduceMin") or x.dtype.kind not in "iuO" or not x.size:
        return None
    if axes is not None and not len(axes) or axes is None and node.attr("noop_with_empty_axes", 0):
        return None if not node.attr("noop_with_empty_axes", 0) else node.input(0)
    function = {"ReduceProd": np.multiply, "ReduceSum": np.add, "ReduceMax": np.maximum, "ReduceMin": np.minimum}[op]
    found = function.reduce(x, None if axes is None else tuple(axes), keepdims=bool(node.attr("keepdims", 1)))
    return _like(node, found if isinstance(found, np.ndarray) else _boxed(found))


@fold("NonZero")
def non_zero(node: Node, x: Array) -> Any:
    """The places of what is not zero."""
    return None if x.dtype == object else known(np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1), "i64")


@fold("CumSum")
def cumulative_sum(node: Node, x: Array, axis: Array) -> Any:
    """Running sums."""
    return (
        None
        if x.dtype == object or node.attr("exclusive", 0) or node.attr("reverse", 0) or x.dtype.kind not in "iu"
        else _like(node, np.cumsum(x, int(axis), x.dtype))
    )


@fold("ScatterND")
def scatter_nd(node: Node, x: Array, index: Array, update: Array) -> Any:
    """Elements put at places."""
    if index.dtype == object or node.attr("reduction", "none") != "none":
        return None
    found = x.astype(object) if object in (x.dtype, update.dtype) else x.copy()
    for place in np.ndindex(index.shape[:-1]):
        found[tuple(index[place])] = update[place]
    return _like(node, found)


@fold("OneHot")
def one_hot(node: Node, index: Array, depth: Array, values: Array) -> Any:
    """The second value at the index along an axis, the first elsewhere: repeats that an exporter counts so."""
    count = depth.reshape(-1)[0] if depth.size == 1 and depth.dtype.kind in "iu" else -1
    axis = node.attr("axis", -1)
    if index.dtype == object or values.shape != (2,) or not 0 <= count * index.size <= MAX_KNOWN or axis < -1:
        return None
    places = np.where(index < 0, index + count, index)
    hits = np.expand_dims(places, axis) == np.arange(count).reshape(-1, *[1] * (index.ndim - axis if axis >= 0 else 0))
    return _like(node, np.where(hits, values[1], values[0]), 2)
