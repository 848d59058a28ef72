"""What a node of NodeId JSON gives: tiny's own ops (front.uops) under the looser rules of seeds 000 and 001, and their
shorthand.

Operands of one op are broadcast, aligned at the right. Floats are CAST to the wider of their dtypes where that is
exact, and integers likewise, with a remark (R3005): seed 000 section 5.2 adds a bias of [1, C, 1, 1] in fp16 to a sum
in fp32. Any other mixture of dtypes is refused (section 3). EXPAND may list only the axes that it does not repeat, an
axis of a REDUCE may be a word, PAD may be flat; POOL reads windows; CONTRACT is MUL and REDUCE SUM by index words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.accumulate import neutral_of
from ..ir.expr import ONE, Expr
from ..ir.ops import OPS, REDUCERS
from ..ir.rules import holds_product
from ..ir.types import DTYPES, DType, promote
from ..kit.diag import Diag, refuse
from ..kit.phrase import Listing, Phrase
from .builder import Builder, Operand, Ref, accumulator
from .ops import ELEMENTWISE
from .ops.contraction import acc_dtype, tensor
from .ops.folding import each_axis, sliding
from .ops.table import Attr, Attrs, FrontOp
from .uops import UOPS

Labels = tuple[str, ...]  # the word for each axis of a value, as the text writes it; empty where there is none


def _none(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    raise AssertionError("a shorthand is lowered by its own function")


def _shorthand(name: str, inputs: int, *attrs: Attr) -> FrontOp:
    return FrontOp(name, (inputs, inputs), (1, 1), attrs, _none)


SHORTHAND: dict[str, FrontOp] = {
    row.name: row
    for row in (
        _shorthand(
            "POOL",
            1,
            Attr("kernel", "dims", low=1),
            Attr("stride", "dims", None, low=1),
            Attr("dilation", "dims", None, low=1),
        ),
        FrontOp(
            "CONTRACT",
            (2, 2),
            (1, 1),
            (
                Attr("pattern", "string", ""),
                Attr("lhs_idx", "strings"),
                Attr("rhs_idx", "strings"),
                Attr("out_idx", "strings"),
                Attr("reduce_idx", "strings", None),
                Attr("strides", "dims", None, low=1),
                Attr("dilations", "dims", None, low=1),
                Attr("dtype", "dtype", None),
            ),
            _none,
        ),
        _shorthand(
            "LOAD", 1, Attr("tensor", "string", None), Attr("map", "dims", None), Attr("result_shape", "dims", None)
        ),
        _shorthand("STORE", 1, Attr("tensor", "string", None)),
    )
}
INLINE = {
    "gt": "greater",
    "lt": "less",
    "ge": "greater_equal",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "fdiv": "div",
    **{fn: fn for fn in ELEMENTWISE},
}


def row_of(uop: str) -> FrontOp | None:
    """The row of a uop: its number of operands and its attributes."""
    return SHORTHAND.get(uop) or UOPS.get(uop)


# --- operands


def agreed(b: Builder, uop: str, operands: Sequence[Operand]) -> tuple[Ref, ...]:
    """The operands of an elementwise op with one shape and one dtype. Raises Refused (E1001, E1002)."""
    condition, branches = ((operands[0],), operands[1:]) if uop == "WHERE" else ((), operands)
    dtypes = list(dict.fromkeys(o.dtype for o in branches if isinstance(o, Ref)))
    wanted = None
    for dtype in dtypes:
        wanted = dtype if wanted is None else promote(wanted, dtype)
    listed = Listing(dtypes, " and ")
    if len({(d.is_float, d.is_integer) for d in dtypes}) > 1:
        raise refuse(
            "E1002",
            fault=Phrase(
                "{uop} takes one dtype, not {listed}; a CAST between these is never put in", uop=uop, listed=listed
            ),
        )
    if wanted is not None and wanted not in dtypes:
        raise refuse(
            "E1002",
            fault=Phrase("{uop} takes one dtype, not {listed}, and a CAST would not be exact", uop=uop, listed=listed),
        )
    for o in branches:
        if isinstance(o, Ref) and o.dtype != wanted:
            b.notes.append(
                Diag("R3005", facts={"operand": o.tensor or o.name, "source": o.dtype, "target": wanted, "op": uop})
            )
    shape = b.broadcast_shape(*(o for o in operands if isinstance(o, Ref)))
    chosen = b.agree(*branches, dtype=wanted)
    refs = [o if isinstance(o, Ref) else b.const(o.value, DTYPES["bool"]) for o in condition]
    return tuple(b.expand(r, shape) for r in (*refs, *chosen))


def axis_labels(
    uop: str, operands: Sequence[Operand], words: dict[str, Labels], attrs: Attrs, labels: Sequence[Labels], rank: int
) -> Labels:
    """The words for the axes of what a node gives. `words` holds the lists of words that its attributes spell."""
    row = OPS.get(uop)
    own = labels[0] if labels else ()
    if uop in ("RESHAPE", "EXPAND") or uop == "VIEW" and attrs.get("result_shape") is not None:
        return words.get("result_shape", ())
    if uop == "CONTRACT":
        return words.get("out_idx", ())
    if uop == "POOL":
        kernel = words.get("kernel", ())
        return (*own[: rank - 2 * len(kernel)], *("",) * len(kernel), *kernel) if own else ()
    if uop == "PERMUTE" and own:
        return tuple(own[p] for p in attrs.perm)
    if uop == "REDUCE" and own:
        return tuple(word for axis, word in enumerate(own) if axis not in attrs.axes)
    if row is not None and row.is_elementwise:
        return next(
            (found for found, o in zip(labels, operands) if isinstance(o, Ref) and o.rank == rank and found), ()
        )
    return own if uop in ("LOAD", "STORE", "PAD", "SHRINK", "FLIP", "VALID", "VIEW", "SCAN") else ()


def axis_of_word(word: str, x: Ref, labels: Labels) -> int:
    """The one axis that a word names: by the words that the text writes, else by its size. Raises Refused (E1022)."""
    named = [axis for axis, label in enumerate(labels) if label == word] or [
        axis for axis, size in enumerate(x.shape) if size.name == word
    ]
    if len(named) != 1:
        raise refuse("E1022", axis=word, count=len(named), type=x.type)
    return named[0]


# --- uops of their own


def give(b: Builder, uop: str, operands: tuple[Operand, ...], attrs: Attrs, wide: DType | None) -> Ref:
    """The value of one node. `wide` is the dtype of the one sum that takes a MUL's product, which is then exact."""
    row = OPS.get(uop)
    if row is None or not row.is_elementwise:
        operands = tuple(tensor(o, uop, i) for i, o in enumerate(operands))
    if uop == "EXPAND":
        return _expand(b, operands[0], attrs)
    if uop in ("LOAD", "STORE") or uop == "VIEW" and attrs.get("index_map") is None:
        return _read(b, operands[0], attrs)
    if uop == "POOL":
        kernel = attrs.kernel
        return sliding(b, operands[0], kernel, *(each_axis(attrs[a], len(kernel), a) for a in ("stride", "dilation")))
    if uop == "CONTRACT":
        return _contract(b, *operands, attrs)
    if row is not None and row.is_elementwise:
        operands = agreed(b, uop, operands)
        if (
            uop == "MUL"
            and attrs.dtype is None
            and wide is not None
            and wide != operands[0].dtype
            and holds_product(wide, operands[0].dtype)
        ):
            attrs = Attrs(attrs, dtype=wide)
    if uop in ("PAD", "VALID") and attrs.value is not None and str(attrs.value) in ("0", "0.0"):
        attrs = Attrs(attrs, value=None)
    return UOPS[uop].lower(b, operands, attrs)


def _read(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    if attrs.get("map") is not None:
        return b.view(x, attrs.result_shape if attrs.result_shape is not None else x.shape, attrs.map)
    return x


def _expand(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    """EXPAND; `broadcast_dimensions` names where every axis goes, or only those that are not of size 1 (seed 000
    section 5.1)."""
    dims = attrs.broadcast_dimensions
    kept = [size for size in x.shape if size != ONE]
    if dims is not None and len(dims) != x.rank and len(dims) == len(kept):
        if x.rank == len(attrs.result_shape) and [a for a, size in enumerate(x.shape) if size != ONE] == list(dims):
            dims = None
        else:
            x = b.reshape(x, kept)
    if dims is not None and tuple(dims) == tuple(range(len(attrs.result_shape) - x.rank, len(attrs.result_shape))):
        dims = None
    return UOPS["EXPAND"].lower(b, (x,), Attrs(attrs, broadcast_dimensions=dims))


def _contract(b: Builder, x: Ref, y: Ref, attrs: Attrs) -> Ref:
    """The sum of products over the words that `out_idx` lacks. An operand with more words than axes is seen through a
    window: its last words are the window's places, one for each of its last axes. Raises Refused (E1023)."""
    sides = [attrs.lhs_idx, attrs.rhs_idx]
    summed = tuple(dict.fromkeys(w for side in sides for w in side if w not in attrs.out_idx))
    if attrs.reduce_idx is not None and set(attrs.reduce_idx) != set(summed):
        raise refuse(
            "E1023",
            fault=Phrase(
                "reduce_idx is {reduce_idx}, but out_idx lacks {summed}",
                reduce_idx=list(attrs.reduce_idx),
                summed=list(summed),
            ),
        )
    unknown = [w for w in attrs.out_idx if w not in (*sides[0], *sides[1])]
    if unknown or len(set(attrs.out_idx)) < len(attrs.out_idx):
        raise refuse(
            "E1023",
            fault=Phrase(
                "out_idx {out_idx} must name indices of lhs_idx and rhs_idx, each once", out_idx=list(attrs.out_idx)
            ),
        )
    sizes = {
        w: size
        for ref, side in ((x, sides[0]), (y, sides[1]))
        if len(side) == ref.rank
        for w, size in zip(side, ref.shape)
    }
    refs = [_windowed(b, ref, side, sizes, attrs) for ref, side in ((x, sides[0]), (y, sides[1]))]
    letters = {w: chr(0x3B1 + i) for i, w in enumerate(dict.fromkeys((*sides[0], *sides[1])))}
    spelled = ["".join(letters[w] for w in side) for side in (*sides, attrs.out_idx)]
    return b.contract(refs[0], spelled[0], refs[1], spelled[1], spelled[2], acc_dtype(b, x, y, attrs.dtype))


def _windowed(b: Builder, ref: Ref, side: Sequence[str], sizes: dict[str, Expr], attrs: Attrs) -> Ref:
    more = len(side) - ref.rank
    if len(set(side)) < len(side) or more < 0 or more > ref.rank or any(w not in sizes for w in side[ref.rank :]):
        raise refuse(
            "E1023",
            fault=Phrase(
                "{tensor} is {type}, but its indices are {side}",
                tensor=ref.tensor or Phrase("an operand"),
                type=ref.type,
                side=list(side),
            ),
        )
    if not more:
        return ref
    return sliding(
        b,
        ref,
        [sizes[w] for w in side[ref.rank :]],
        each_axis(attrs.strides, more, "strides"),
        each_axis(attrs.dilations, more, "dilations"),
    )


# --- attributes as they are written


def pairs_of(pad: Any, rank: int) -> Any:
    """PAD's pairs; a flat list holds the pairs of the last axes (seed 001 section 3.5.2)."""
    if not isinstance(pad, list) or any(isinstance(p, list) for p in pad) or len(pad) % 2 or len(pad) > 2 * rank:
        return pad
    pairs = [list(pad[i : i + 2]) for i in range(0, len(pad), 2)]
    return [[0, 0]] * (rank - len(pairs)) + pairs


def folded_init(b: Builder, x: Ref, op: str, init: float) -> Ref:
    """A reduction that starts from `init`: the reduction, and `init` folded into it."""
    fold = REDUCERS[op].fold_of(x.dtype.kind)
    if fold is None:
        raise refuse("E0102", key="init", known="op, axes, dtype")
    return x if init == neutral_of(op, x.dtype).value else b.emit(fold, x, b.const(init, x.dtype, x.shape))


def default_acc(x: Ref, op: str) -> DType:
    """The dtype that seed 001's dumps leave out for brevity."""
    return DTYPES["i64"] if op.startswith("ARG") else accumulator(x.dtype) if op in ("SUM", "PROD") else x.dtype
