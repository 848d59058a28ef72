"""Sums of products."""

from __future__ import annotations

from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten


@aten("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def matmul(call: Call) -> Any:
    """As NumPy's matmul."""
    keys = {"mm": "mat2", "bmm": "mat2", "matmul": "other", "mv": "vec", "dot": "tensor"}
    x = call.tensor("self")
    return call.op("MatMul", x, call.tensor(keys[call.target.partition(".")[0]]), gives=x.dtype)


@aten("linear.default")
def linear(call: Call) -> Any:
    """x @ weight' + bias."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    weight = call.transpose(weight, [1, 0]) if weight.rank == 2 else weight
    found = call.op("MatMul", x, weight, gives=x.dtype)
    return found if bias is None else call.fn("add", found, bias)


@aten("addmm.default", "addmv.default", "baddbmm.default", "addbmm.default")
def addmm(call: Call) -> Any:
    """beta * self + alpha * product. The sum is rounded once, as torch's kernels do it."""
    keys = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "baddbmm": ("batch1", "batch2")}
    word = call.target.partition(".")[0]
    if word not in keys:
        raise call.fault(Phrase("it sums over the batch"))
    x, y = (call.tensor(k) for k in keys[word])
    alpha, beta = float(call.get("alpha", 1)), float(call.get("beta", 1))
    bias = call.tensor("self")
    if word == "addmm":
        if beta == 0:
            return call.op("GEMM", x, y, alpha=alpha, gives=x.dtype)
        return call.op("GEMM", x, y, bias, alpha=alpha, beta=beta, gives=x.dtype)
    found = _scaled(call, call.op("MatMul", x, y, gives=x.dtype), alpha)
    return found if beta == 0 else call.fn("add", found, _scaled(call, bias, beta))


def _scaled(call: Call, x: Term, factor: float) -> Term:
    return x if factor == 1 else call.fn("mul", x, factor)


@aten("einsum.default")
def einsum(call: Call) -> Any:
    """A sum of products in letters."""
    terms = call.tensors("tensors")
    return call.op("Einsum", *terms, equation=call.get("equation", "").replace(" ", ""), gives=terms[0].dtype)


@aten("outer.default")
def outer(call: Call) -> Any:
    """Each element times each."""
    x, y = call.tensor("self"), call.tensor("vec2")
    return call.fn("mul", call.reshape(x, [x.shape[0], 1]), y)
