"""Ops beyond the standard that exporters and optimisers leave: those of onnxruntime's domain com.microsoft, and the
Scaler of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import operands, plain

MICROSOFT = "com.microsoft"


@onnx_op("Scaler", domain="ai.onnx.ml")
def scaler(node: Node) -> Any:
    """(x - offset) * scale in fp32; one of each for all, or one for each feature, the last axis."""
    x = plain(node, 0)
    wide = x if x.dtype.name == "fp64" else node.cast(x, "fp32")
    for key, fn in (("offset", "sub"), ("scale", "mul")):
        numbers = node.attr(key, ())
        if len(numbers) > 1 and (not x.rank or x.shape[-1].constant not in (None, len(numbers))):
            raise node.fault(
                Phrase(
                    "{key} has {count} numbers for the shape [{x}]",
                    key=key,
                    count=len(numbers),
                    x=", ".join(map(str, x.shape)),
                )
            )
        if numbers:
            wide = node.fn(fn, wide, known(list(numbers) if len(numbers) > 1 else numbers[0], wide.dtype))
    return node.cast(wide, "fp32")


@onnx_op("FastGelu", "Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(node: Node) -> Any:
    """GELU of x plus a bias; FastGelu by tanh."""
    terms = operands(node)
    x = node.fn("add", *terms) if len(terms) > 1 else terms[0]
    return node.fn("gelu", x, approximate="tanh" if node.proto.op_type == "FastGelu" else "none")


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Any:
    """x * sigmoid(alpha * x)."""
    return node.fn("silu", plain(node, 0), alpha=node.attr("alpha", 1.702))


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(node: Node) -> Any:
    """The normalisation of input + skip + bias along the last axis, and that sum."""
    total = _sum(node, 4)
    terms = [plain(node, i) for i in (2, 3) if node.has(i)]
    outputs = 3 if node.wants(2) else 2 if node.wants(1) else 1
    found = node.op("LayerNorm", total, *terms, axis=-1, eps=node.attr("epsilon", 1e-12), outputs=outputs)
    found = found if isinstance(found, tuple) else (found,)
    return (*found, *[None] * (3 - outputs), total)


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(node: Node) -> Any:
    """The same by the root of the mean square."""
    if node.wants(1) or node.wants(2):
        raise node.fault(Phrase("it gives statistics"))
    total = _sum(node, 3)
    return node.op("RMSNorm", total, plain(node, 2), axis=-1, eps=node.attr("epsilon", 1e-12)), None, None, total


def _sum(node: Node, bias: int) -> Term:
    """The input, what skips a layer, and a bias where there is one."""
    total = node.fn("add", plain(node, 0), plain(node, 1), part="skip")
    return node.fn("add", total, plain(node, bias), part="skip") if node.has(bias) else total


@onnx_op("FusedMatMul", domain=MICROSOFT)
def fused_matmul(node: Node) -> Any:
    """alpha * A' B'. `transA` exchanges the last two axes; `transBatchA` takes the first axis for the last but one,
    before that."""
    sides = []
    for position, word in enumerate("AB"):
        x = plain(node, position)
        if node.attr(f"transBatch{word}", 0) and x.rank > 2:
            x = node.transpose(x, [*range(1, x.rank - 1), 0, x.rank - 1])
        if node.attr(f"trans{word}", 0) and x.rank > 1:
            x = node.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
        sides.append(x)
    found, alpha = node.op("MatMul", *sides, gives=sides[0].dtype), node.attr("alpha", 1.0)
    return found if alpha == 1 else node.fn("mul", found, alpha, part="scaled")
