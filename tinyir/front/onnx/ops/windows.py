"""Sums of products and ops that slide a window."""

from __future__ import annotations

from typing import Any

from ....kit.phrase import Phrase
from ..node import Node
from ..table import onnx_op
from .elementwise import operands, plain

_AUTO = {"NOTSET": "explicit", "": "explicit", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid"}


def window(node: Node) -> dict[str, Any]:
    """The attributes that all windows share."""
    auto = node.attr("auto_pad", "NOTSET")
    if auto not in _AUTO:
        raise node.fault(Phrase("auto_pad is {auto}", auto=auto))
    pads = node.attr("pads") if auto in ("NOTSET", "") else None
    return {
        "stride": node.attr("strides"),
        "pad": pads if pads and any(pads) else None,
        "dilation": node.attr("dilations"),
        "auto_pad": _AUTO[auto],
    }


@onnx_op("MatMul")
def matmul(node: Node) -> Any:
    """As NumPy's matmul."""
    x, y = operands(node)
    return node.op("MatMul", x, y, gives=x.dtype)


@onnx_op("Gemm")
def gemm(node: Node) -> Any:
    """alpha * A' B' + beta * C."""
    terms = [plain(node, i) for i in range(3 if node.has(2) else 2)]
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    flags = {"transA": bool(node.attr("transA", 0)), "transB": bool(node.attr("transB", 0))}
    return node.op("GEMM", *terms, alpha=alpha, beta=beta if len(terms) == 3 else None, gives=terms[0].dtype, **flags)


@onnx_op("Einsum")
def einsum(node: Node) -> Any:
    """A sum of products in letters."""
    terms = operands(node)
    return node.op("Einsum", *terms, equation=node.attr("equation"), gives=terms[0].dtype)


@onnx_op("Conv")
def conv(node: Node) -> Any:
    """Weights [Co, C/group, *K] slid over an image."""
    terms = [plain(node, i) for i in range(3 if node.has(2) else 2)]
    return node.op("Conv", *terms, groups=node.attr("group", 1), gives=terms[0].dtype, **window(node))


@onnx_op("ConvTranspose")
def conv_transpose(node: Node) -> Any:
    """The transpose of Conv's map."""
    terms = [plain(node, i) for i in range(3 if node.has(2) else 2)]
    attrs = {
        "groups": node.attr("group", 1),
        "output_padding": node.attr("output_padding"),
        "output_shape": node.attr("output_shape"),
    }
    if attrs["output_shape"] is not None:
        attrs["output_shape"] = attrs["output_shape"][-(terms[0].rank - 2) :]
    return node.op("ConvTranspose", *terms, gives=terms[0].dtype, **attrs, **window(node))


def _pool(node: Node, mode: str, outputs: int = 1, **attrs: Any) -> Any:
    return node.op(
        "Pool",
        plain(node, 0),
        mode=mode,
        kernel=node.attr("kernel_shape"),
        ceil_mode=bool(node.attr("ceil_mode", 0)),
        outputs=outputs,
        **attrs,
        **window(node),
    )


@onnx_op("MaxPool")
def max_pool(node: Node) -> Any:
    """The maximum of each window, and where it is."""
    return _pool(
        node,
        "max",
        2 if node.wants(1) else 1,
        column_major=bool(node.attr("storage_order", 0)) if node.wants(1) else None,
    )


@onnx_op("AveragePool")
def average_pool(node: Node) -> Any:
    """The mean of each window."""
    return _pool(node, "average", count_include_pad=bool(node.attr("count_include_pad", 0)))


@onnx_op("LpPool")
def lp_pool(node: Node) -> Any:
    """The p-norm of each window."""
    return _pool(node, "lp", p=int(node.attr("p", 2)))


@onnx_op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: Node) -> Any:
    """A window as large as the image."""
    mode = {"GlobalAveragePool": "average", "GlobalMaxPool": "max", "GlobalLpPool": "lp"}[node.proto.op_type]
    return node.op("Pool", plain(node, 0), mode=mode, p=int(node.attr("p", 2)) if mode == "lp" else None)
