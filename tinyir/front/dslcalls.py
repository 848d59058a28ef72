"""The functions of the graph DSL, each an op of the front ends.

A function is the op of its name in snake case (`layer_norm(x, scale, axis=-1)`), for an elementwise function
(`gelu(x)`), or has a row here. As a method its receiver is the first operand. Tiny's own ops go by their own names:
`REDUCE(x, op=SUM, axes=[0], dtype=f32)`. An attribute that is a list may be given as one number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.expr import ONE, Expr
from ..ir.rules import product
from ..ir.types import TensorType
from ..ir.unknown import nearest
from ..kit.diag import Diag, Refused, refuse, refuse_all
from ..kit.phrase import Phrase
from .builder import Operand, Ref
from .dslexpr import Args, Evaluator, Outputs
from .ops import ELEMENTWISE, FRONT_OPS, check_attrs
from .ops.elementwise import as_ref
from .ops.movement import axis_of
from .ops.table import FrontOp
from .shorttypes import dtype_of
from .uops import UOPS


class Row(NamedTuple):
    """A function: its op, its number of operands, the attributes that may be given by place, and those that are
    settled."""

    op: str
    operands: int = 1
    placed: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = {}


_REDUCTIONS = ("sum", "prod", "mean", "var", "std", "l1", "l2", "argmax", "argmin", "any", "all", "max", "min")
_ALIASES = {
    "axis": ("axes",),
    "dim": ("axis", "axes"),
    "axes": ("axis",),
    "dims": ("axes", "broadcast_dimensions"),
    "padding": ("pad", "pads"),
    "dtype": ("acc_dtype", "to"),
    "strides": ("stride",),
    "kernel_size": ("kernel",),
    "output_size": ("size",),
}
FUNCTIONS = {
    "recip": "reciprocal",
    "idiv": "div",
    "cmplt": "less",
    "cmpeq": "equal",
    "cmpne": "not_equal",
    "shl": "shift_left",
    "shr": "shift_right",
}
ROWS: dict[str, Row] = {
    **{f"reduce_{op}": Row("Reduce", 1, ("axes", "keepdims"), {"op": op}) for op in _REDUCTIONS},
    **{
        op: Row("Reduce", 1, ("axes", "keepdims"), {"op": op}) for op in _REDUCTIONS if op not in ("max", "min", "mean")
    },
    "reduce_mul": Row("Reduce", 1, ("axes", "keepdims"), {"op": "prod"}),
    "mean": Row("Reduce", 1, ("axes", "keepdims"), {"op": "mean"}),
    "cumsum": Row("CumSum", 1, ("axis", "reverse", "exclusive")),
    "cumprod": Row("CumProd", 1, ("axis", "reverse", "exclusive")),
    "cummax": Row("CumMax", 1, ("axis", "reverse", "exclusive")),
    "cummin": Row("CumMin", 1, ("axis", "reverse", "exclusive")),
    "matmul": Row("MatMul", 2),
    "batch_matmul": Row("MatMul", 2),
    "unfold": Row("Unfold", 1, ("kernel", "stride", "dilation")),
    "fold": Row("Fold", 1, ("size", "stride", "dilation")),
    "max_pool": Row("Pool", 1, ("kernel", "stride", "pad", "dilation"), {"mode": "max"}),
    "avg_pool": Row("Pool", 1, ("kernel", "stride", "pad", "dilation"), {"mode": "average"}),
    "unsqueeze": Row("Unsqueeze", 1, ("axes",)),
    "squeeze": Row("Squeeze", 1, ("axes",)),
    "flip": Row("Flip", 1, ("axes",)),
    "roll": Row("Roll", 1, ("shifts", "axes")),
    "tile": Row("Tile", 1, ("repeats",)),
    "cast": Row("Cast", 1, ("to",)),
    "softmax": Row("Softmax", 1, ("axis",)),
    "log_softmax": Row("LogSoftmax", 1, ("axis",)),
    "take": Row("Gather", 2, ("axis",)),
    "one_hot": Row("OneHot", 1, ("depth", "axis")),
    "trilu": Row("Trilu", 1, ("k", "upper")),
}
SNAKE = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower(): op for op in FRONT_OPS}


def call(ev: Evaluator, name: str, args: Args, is_method: bool) -> Any:
    """The value, or values, of one call. Raises Refused (E0105 no such function, E0204, E01xx, and what the op
    raises)."""
    if name in UOPS:
        return _uop(ev, name, args)
    if (
        is_method
        and name in ("max", "min")
        and (len(args.placed) == 1 or args.named or args.placed[1].data in ("int", "prefix", "list"))
    ):
        name = f"reduce_{name}"
    special = _SPECIAL.get(name)
    if special is not None:
        return special(ev, args)
    row = ROWS.get(name)
    if row is not None:
        return _row(ev, name, FRONT_OPS[row.op], args, row)
    fn = FUNCTIONS.get(name, name)
    if fn in ELEMENTWISE:
        return _elementwise(ev, fn, args)
    if name in SNAKE:
        return _row(ev, name, FRONT_OPS[SNAKE[name]], args, Row(SNAKE[name], len(args.placed)))
    known = [*ev.graphs, *ROWS, *_SPECIAL, *ELEMENTWISE, *SNAKE, *UOPS]
    raise refuse(
        "E0105", name, op=name, near=", ".join(dict.fromkeys(nearest(name, known))) or Phrase("nothing like it")
    )


def reduced(ev: Evaluator, op: str, x: Ref, attrs: Mapping[str, Any]) -> Ref:
    """A reduction of the front ends."""
    return _lowered(ev, "reduce", FRONT_OPS["Reduce"], [x], {**attrs, "op": op})


def scanned(ev: Evaluator, op: str, x: Ref, attrs: Mapping[str, Any]) -> Ref:
    """A running fold of the front ends."""
    scan = {"sum": "CumSum", "prod": "CumProd", "max": "CumMax", "min": "CumMin"}.get(op)
    if scan is None:
        raise refuse("E0103", key="op", expected=Phrase("one of sum, prod, max, min"))
    return _lowered(ev, "scan", FRONT_OPS[scan], [x], attrs)


# --- binding arguments


def _row(ev: Evaluator, name: str, op: FrontOp, args: Args, row: Row) -> Any:
    operands = [as_ref(ev.b, ev.value(t)) for t in args.placed[: row.operands]]
    rest = args.placed[row.operands :]
    if len(rest) > len(row.placed) or len(operands) < op.inputs[0] or len(operands) > op.inputs[1]:
        raise refuse("E0204", name, op=name, given=len(args.placed), wanted=row.operands)
    attrs = {**row.fixed, **dict(zip(row.placed, (ev.plain(t) for t in rest)))}
    for key, tree in args.named.items():
        _put(attrs, key, ev.plain(tree), op, name)
    return _lowered(ev, name, op, operands, attrs)


def _put(attrs: dict[str, Any], key: str, item: Any, op: FrontOp, name: str) -> None:
    """An attribute by name, or by a name that is used for it elsewhere. Raises Refused (E0108 given twice)."""
    known = {a.name for a in op.attrs}
    key = key if key in known else next((k for k in _ALIASES.get(key, ()) if k in known), key)
    if key in attrs:
        raise refuse("E0108", name, key=key)
    attrs[key] = item


def _lowered(ev: Evaluator, name: str, op: FrontOp, operands: Sequence[Operand], attrs: Mapping[str, Any]) -> Any:
    kinds = {a.name: a.kind for a in op.attrs}
    checked, faults = check_attrs(op, {k: _fitted(v, kinds.get(k, "")) for k, v in attrs.items()}, name)
    refuse_all(faults)
    found = op.lower(ev.b, tuple(operands), checked)
    return Outputs(found) if isinstance(found, tuple) and op.leaves_outputs else found


def _fitted(item: Any, kind: str) -> Any:
    """One number as a list of one where a list is wanted, and a dtype in its long spelling."""
    if kind in ("ints", "dims", "floats") and not isinstance(item, list):
        return [item]
    if kind == "dtype" and isinstance(item, str) and dtype_of(item) is not None:
        return dtype_of(item).name
    return item


def _elementwise(ev: Evaluator, fn: str, args: Args) -> Ref:
    operands = [ev.value(t) for t in args.placed]
    low, high = ELEMENTWISE[fn].inputs
    if not low <= len(operands) <= high:
        raise refuse("E0204", fn, op=fn, given=len(operands), wanted=low)
    attrs = {key: ev.plain(tree) for key, tree in args.named.items()}
    return ev.elementwise(fn, operands, attrs)


def _uop(ev: Evaluator, name: str, args: Args) -> Ref:
    """One of tiny's own ops, its attributes by the names of tiny text."""
    operands = [ev.value(t) for t in args.placed]
    row = UOPS[name]
    if len(operands) != row.inputs[0]:
        raise refuse("E0204", name, op=name, given=len(operands), wanted=row.inputs[0])
    return _lowered(ev, name, row, operands, {key: ev.plain(tree) for key, tree in args.named.items()})


def _tensor(ev: Evaluator, args: Args, name: str, least: int, most: int, named: Sequence[str] = ()) -> Ref:
    """The first operand of a function of its own; from `least` to `most` arguments by place, and the `named` ones."""
    given = len(args.placed)
    if not least <= given <= most:
        raise refuse("E0204", name, op=name, given=given, wanted=least if given < least else most)
    for key in args.named:
        if key not in named:
            facts = {"at": name, "key": key, "known": ", ".join(named) or Phrase("none")}
            raise Refused([Diag("E0102", name, facts)])
    return as_ref(ev.b, ev.value(args.placed[0]))


def _dims(items: Any, name: str, key: str) -> list[Expr]:
    from .ops.table import read_dim

    try:
        return [
            read_dim(i)
            for i in (items if isinstance(items, list) else [items])
            if not isinstance(i, (float, bool, list))
        ]
    except (ValueError, TypeError, AttributeError):
        raise refuse("E0103", name, key=key, expected=Phrase("a list of sizes")) from None


def _ints(item: Any, name: str, key: str) -> list[int]:
    items = item if isinstance(item, list) else [item]
    if not all(type(i) is int for i in items):
        raise refuse("E0103", name, key=key, expected=Phrase("an integer, or a list of integers"))
    return items


def _listed(ev: Evaluator, trees: Sequence[Any]) -> list[Any]:
    """A list in brackets, or its items one by one."""
    items = [ev.plain(t) for t in trees]
    return items[0] if len(items) == 1 and isinstance(items[0], list) else items


# --- functions of their own


def _reshape(ev: Evaluator, args: Args) -> Ref:
    """reshape(x, [2, -1]): -1 is what is left."""
    x = _tensor(ev, args, "reshape", 1, 65)
    shape = _dims(_listed(ev, args.placed[1:]), "reshape", "shape")
    free = [i for i, d in enumerate(shape) if d.constant is not None and d.constant < 0]
    if len(free) > 1 or free and shape[free[0]].constant != -1:
        raise refuse("E1013", shape=shape)
    if free:
        rest = product([d for i, d in enumerate(shape) if i != free[0]])
        shape[free[0]] = Expr.of(0) if rest == Expr.of(0) else product(x.shape) // rest
    return _lowered(ev, "reshape", UOPS["RESHAPE"], [x], {"result_shape": shape})


def _permute(ev: Evaluator, args: Args) -> Ref:
    x = _tensor(ev, args, "permute", 1, 65)
    perm = _ints(_listed(ev, args.placed[1:]), "permute", "perm") or list(reversed(range(x.rank)))
    return _lowered(ev, "permute", UOPS["PERMUTE"], [x], {"perm": [p + x.rank if p < 0 else p for p in perm]})


def _expand(ev: Evaluator, args: Args) -> Ref:
    """expand(x, [M, N], dims=[0]): aligned at the right, or with each axis of x at its place of `dims`."""
    x = _tensor(ev, args, "expand", 1, 65, ("dims",))
    shape = _dims(_listed(ev, args.placed[1:]), "expand", "shape")
    stated = {"broadcast_dimensions": ev.plain(args.named["dims"])} if "dims" in args.named else {}
    return _lowered(ev, "expand", UOPS["EXPAND"], [x], {"result_shape": shape, **stated})


def _repeat(ev: Evaluator, args: Args) -> Ref:
    """repeat(x, axis, times): an axis of size 1, times long (seed 003)."""
    x = _tensor(ev, args, "repeat", 1, 3, ("axis", "times"))
    given = [ev.plain(t) for t in args.placed[1:]]
    stated = {**dict(zip(("axis", "times"), given)), **{k: ev.plain(t) for k, t in args.named.items()}}
    if len(stated) != 2:
        raise refuse("E0104", "repeat", key=Phrase("axis and times"), kind="int")
    axis = axis_of(_ints(stated["axis"], "repeat", "axis")[0], x.rank)
    if x.shape[axis] != ONE:
        raise refuse("E1014", axis=axis, size=x.shape[axis])
    (times,) = _dims(stated["times"], "repeat", "times")
    return ev.b.expand(x, [times if a == axis else d for a, d in enumerate(x.shape)])


def _pad(ev: Evaluator, args: Args) -> Ref:
    """pad(x, [(1, 1), (0, 2)], 0.0): a pair for each axis."""
    x = _tensor(ev, args, "pad", 2, 3, ("value",))
    if len(args.placed) == 3 and "value" in args.named:
        raise refuse("E0204", "pad", op="pad", given=len(args.placed), wanted=2)
    value = args.placed[2] if len(args.placed) == 3 else args.named.get("value")
    stated = {} if value is None else {"value": ev.plain(value)}
    return _lowered(ev, "pad", UOPS["PAD"], [x], {"pad": ev.plain(args.placed[1]), **stated})


def _slice(ev: Evaluator, args: Args) -> Ref:
    """slice(x, [(0, 4), (1, 9, 2)]): the start, the end and the step of each axis, as Python has them."""
    x = _tensor(ev, args, "slice", 1, 2)
    ranges = ev.plain(args.placed[1]) if len(args.placed) == 2 else None
    if not isinstance(ranges, list) or not all(isinstance(r, list) and 2 <= len(r) <= 3 for r in ranges):
        raise refuse("E0103", "slice", key="ranges", expected=Phrase("a list of (start, end) or (start, end, step)"))
    attrs = {
        "starts": [r[0] for r in ranges],
        "ends": [r[1] for r in ranges],
        "steps": [r[2] if len(r) == 3 else 1 for r in ranges],
    }
    return _lowered(ev, "slice", FRONT_OPS["Slice"], [x], attrs)


def _concat(ev: Evaluator, args: Args) -> Ref:
    """concat([a, b], axis)."""
    axis = args.placed[1] if len(args.placed) == 2 else args.named.get("axis")
    if not args.placed or len(args.placed) > 2:
        raise refuse("E0204", "concat", op="concat", given=len(args.placed), wanted=2)
    if args.placed[0].data != "list":
        raise refuse("E0103", "concat", key="parts", expected=Phrase("a list of tensors, such as [x, y]"))
    if axis is None:
        raise refuse("E0104", "concat", key="axis", kind=Phrase("an integer"))
    parts = [as_ref(ev.b, ev.value(t)) for t in args.placed[0].children if t is not None]
    if not parts:
        raise refuse("E0204", "concat", op="concat", given=0, wanted=1)
    return _lowered(ev, "concat", FRONT_OPS["Concat"], parts, {"axis": ev.plain(axis)})


def _split(ev: Evaluator, args: Args) -> tuple[Ref, ...]:
    """split(x, axis, 2) or split(x, axis, [3, 5]): pieces, one variable each."""
    x = _tensor(ev, args, "split", 3, 3)
    parts = ev.plain(args.placed[2])
    return _lowered(
        ev,
        "split",
        FRONT_OPS["Split"],
        [x],
        {"axis": ev.plain(args.placed[1]), "sizes" if isinstance(parts, list) else "parts": parts},
    )


def _indirect(name: str, op: str, count: int) -> Callable[[Evaluator, Args], Ref]:
    """gather(x, dim, index), of the element at each place the one at `index` along `dim`, and scatter(x, dim, index,
    updates, reduction=add), as PyTorch's (seed 003)."""

    def lower(ev: Evaluator, args: Args) -> Ref:
        trees = list(args.placed)
        if "dim" in args.named or "axis" in args.named:
            trees.insert(1, args.named.get("dim") or args.named.get("axis"))
        if len(trees) != count:
            raise refuse("E0204", name, op=name, given=len(trees), wanted=count)
        operands = [as_ref(ev.b, ev.value(t)) for t in (trees[0], *trees[2:])]
        attrs = {key: ev.plain(tree) for key, tree in args.named.items() if key not in ("dim", "axis")}
        return _lowered(ev, name, FRONT_OPS[op], operands, {"axis": ev.plain(trees[1]), **attrs})

    return lower


_CONV = ("stride", "dilation", "groups")  # in the order of seed 003


def _conv(op: str, more: tuple[str, ...] = ()) -> Callable[[Evaluator, Args], Ref]:
    def lower(ev: Evaluator, args: Args) -> Ref:
        """conv(x, w, stride, dilation, groups, padding=1, bias=b): in as many dimensions as w has beyond two; x may
        lack the batch."""
        name = "conv" if op == "Conv" else "conv_transpose"
        x = _tensor(ev, args, name, 2, 5, (*_CONV, "padding", "pad", "bias", "acc_dtype", "dtype", "auto_pad", *more))
        w = as_ref(ev.b, ev.value(args.placed[1]))
        is_bare = x.rank == w.rank - 1
        operands = [ev.b.reshape(x, [ONE, *x.shape]) if is_bare else x, w]
        if "bias" in args.named:
            operands.append(as_ref(ev.b, ev.value(args.named["bias"])))
        attrs = dict(zip(_CONV, (ev.plain(t) for t in args.placed[2:])))
        for key, tree in args.named.items():
            if key != "bias":
                _put(attrs, key, ev.plain(tree), FRONT_OPS[op], name)
        operands[0].tensor = operands[0].tensor or x.tensor
        found = _lowered(ev, name, FRONT_OPS[op], operands, attrs)
        return ev.b.reshape(found, found.shape[1:]) if is_bare else found

    return lower


def _typed(name: str, placed: tuple[str, ...], op: str) -> Callable[[Evaluator, Args], Ref]:
    """A leaf, its type among its arguments: const(0.5, f32[M, N]), iota(i64[N], axis=0), random(f32[N], seed=1)."""

    def lower(ev: Evaluator, args: Args) -> Ref:
        if len(args.placed) > len(placed):
            raise refuse("E0204", name, op=name, given=len(args.placed), wanted=len(placed))
        stated = {
            **dict(zip(placed, (ev.plain(t) for t in args.placed))),
            **{k: ev.plain(t) for k, t in args.named.items()},
        }
        type = stated.pop("type", None)
        kind = Phrase("a type, such as f32[M, N]")
        if type is None:
            raise refuse("E0104", name, key="type", kind=kind)
        if not isinstance(type, TensorType):
            raise refuse("E0103", name, key="type", expected=kind)
        return _lowered(ev, name, UOPS[op], [], {**stated, "dtype": type.dtype.name, "shape": list(type.shape)})

    return lower


def _view(ev: Evaluator, args: Args) -> Ref:
    """view(x, [shape], [index_map]): element i0, i1, ... is x at the map's expressions."""
    x = _tensor(ev, args, "view", 3, 3)
    return _lowered(
        ev, "view", UOPS["VIEW"], [x], {"result_shape": ev.plain(args.placed[1]), "index_map": ev.plain(args.placed[2])}
    )


def _valid(ev: Evaluator, args: Args) -> Ref:
    """valid(x, "0 <= i0 < M", value): x where the guard holds."""
    x = _tensor(ev, args, "valid", 2, 3, ("value",))
    value = args.placed[2] if len(args.placed) == 3 else args.named.get("value")
    return _lowered(
        ev,
        "valid",
        UOPS["VALID"],
        [x],
        {"guard": ev.plain(args.placed[1]), **({} if value is None else {"value": ev.plain(value)})},
    )


_SPECIAL: dict[str, Callable[[Evaluator, Args], Any]] = {
    "reshape": _reshape,
    "permute": _permute,
    "transpose": _permute,
    "expand": _expand,
    "repeat": _repeat,
    "pad": _pad,
    "slice": _slice,
    "concat": _concat,
    "split": _split,
    "gather": _indirect("gather", "GatherElements", 3),
    "scatter": _indirect("scatter", "Scatter", 4),
    "conv": _conv("Conv"),
    "view": _view,
    "valid": _valid,
    "conv_transpose": _conv("ConvTranspose", ("output_padding", "output_shape")),
    "const": _typed("const", ("value", "type"), "CONST"),
    "iota": _typed("iota", ("type", "axis"), "IOTA"),
    "random": _typed("random", ("type", "seed", "offset"), "RANDOM"),
}


def own_functions() -> tuple[str, ...]:
    """The functions that are spelt otherwise than the op that they are, or take their arguments otherwise."""
    return (*_SPECIAL, *(name for name in ROWS if name not in _SPECIAL))
