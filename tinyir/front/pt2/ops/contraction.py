"""Sums of products."""

from __future__ import annotations

from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten

_SECOND = {"mm": "mat2", "bmm": "mat2", "matmul": "other", "mv": "vec", "dot": "tensor", "vdot": "other"}
_SECOND |= {"linalg_matmul": "other"}


@aten(*(f"{name}.default" for name in _SECOND), "mm.dtype", "bmm.dtype")
def matmul(call: Call) -> Any:
    """As NumPy's matmul."""
    second = call.tensor(_SECOND[call.target.partition(".")[0]])
    return call.op("MatMul", call.tensor("self"), second, gives=call.dtype)


@aten("linear.default")
def linear(call: Call) -> Any:
    """x @ weight' + bias, rounded once, as torch's kernels do it."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    weight = call.transpose(weight, [1, 0]) if weight.rank == 2 else weight
    if bias is None:
        return call.op("MatMul", x, weight, gives=call.dtype)
    found = call.op("MatMul", x, weight)
    return call.cast(call.fn("add", found, call.cast(bias, found.dtype)), call.dtype)


@aten("addmm.default", "addmv.default", "baddbmm.default", "addbmm.default", "addr.default", "addmm.dtype",
      "baddbmm.dtype")  # fmt: skip
def addmm(call: Call) -> Any:
    """beta * self + alpha * product. The sum is rounded once, as torch's kernels do it."""
    keys = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2")}
    word = call.target.partition(".")[0]
    x, y = (call.tensor(k) for k in keys.get(word, ("batch1", "batch2")))
    alpha, beta = (float(call.get(key, 1)) for key in ("alpha", "beta"))
    bias = call.tensor("self")
    if word == "addmm":
        given = (x, y) if beta == 0 else (x, y, bias)
        return call.op("GEMM", *given, alpha=alpha, **({} if beta == 0 else {"beta": beta}), gives=call.dtype)
    if word == "addr":
        column = call.reshape(x, [x.shape[0], 1])
        if call.dtype.kind == "b":
            return _of_truths(call, column, y)
        found = call.fn("mul", column, y)
    elif word == "addbmm":
        found = call.op("Einsum", x, y, equation="bij,bjk->ik", gives=call.dtype)
    else:
        found = call.op("MatMul", x, y, gives=call.dtype)
    found = _scaled(call, found, alpha)
    return found if beta == 0 else call.fn("add", found, _scaled(call, bias, beta))


def _of_truths(call: Call, x: Term, y: Term) -> Term:
    """What has a factor that is true, or was true."""
    bias, found = call.tensor("self"), call.fn("and", x, y)
    found = found if call.get("alpha", 1) else call.fn("and", found, False)
    return call.fn("or", found, bias) if call.get("beta", 1) else call.expand(found, call.shape)


def _scaled(call: Call, x: Term, factor: float) -> Term:
    return x if factor == 1 else call.fn("mul", x, factor)


@aten("einsum.default")
def einsum(call: Call) -> Any:
    """A sum of products in letters."""
    terms = call.tensors("tensors")
    return call.op("Einsum", *terms, equation=call.get("equation", "").replace(" ", ""), gives=terms[0].dtype)


@aten("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(call: Call) -> Any:
    """Of the rows of a group, or of its columns, the product with the group's own matrix; of groups of the axis of the
    sum a product for each. `offs` are the ends of the groups. What no group has is 0."""
    keys = ("input", "weight") if "input" in call.args else ("self", "mat2")
    (x, y), ends = (call.tensor(key) for key in keys), call.optional("offs")
    if call.args.get("bias") is not None:
        raise call.fault(Phrase("it has a bias"))
    if ends is None:
        return call.op("MatMul", x, y, gives=call.dtype)
    groups, length = ends.shape[0], x.shape[-1] if x.rank == y.rank else x.shape[0] if x.rank == 2 else y.shape[1]
    places = call.op("Iota", shape=[1, length], axis=1, part="place")
    over = call.fn("less_equal", call.reshape(call.cast(ends, "i64"), [groups, 1]), places, part="over")
    group = call.op("Reduce", call.cast(over, "i64"), op="sum", axes=[0], part="group")
    if x.rank == y.rank:
        own = call.op("Iota", shape=[groups, 1, 1], axis=0, part="own")
        is_own = call.expand(call.fn("equal", own, group), [groups, *x.shape])
        x = call.fn("where", is_own, call.expand(x, [groups, *x.shape]), 0.0, part="of_group")
        return call.op("MatMul", x, y, gives=call.dtype)
    is_some = call.reshape(call.fn("less", group, call.known(groups, "i64"), part="some"), [length, 1])
    if x.rank == 2:
        matrices = call.op("Gather", y, group, axis=0)
        found = call.op("MatMul", call.reshape(x, [length, 1, x.shape[1]]), matrices, gives=call.dtype)
    else:
        matrices, columns = call.op("Gather", x, group, axis=0), call.transpose(y, [1, 0])
        found = call.op("MatMul", matrices, call.reshape(columns, [length, y.shape[0], 1]), gives=call.dtype)
    lines = call.reshape(found, [length, call.shape[1] if x.rank == 2 else call.shape[0]])
    lines = call.fn("where", call.expand(is_some, lines.shape), lines, 0.0, part="lines")
    return lines if x.rank == 2 else call.transpose(lines, [1, 0])


@aten("outer.default", "ger.default")
def outer(call: Call) -> Any:
    """Each element times each."""
    x, y = call.promoted(call.tensor("self"), call.tensor("vec2"))
    return call.fn("and" if call.dtype.kind == "b" else "mul", call.reshape(x, [x.shape[0], 1]), y)
