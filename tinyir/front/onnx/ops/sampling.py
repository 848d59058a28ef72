"""Ops that sample an image at other places."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..node import Node
from ..table import onnx_op
from .elementwise import plain

_COORDINATES = {"tf_crop_and_resize": "crop", "tf_half_pixel_for_nn": None}


@onnx_op("Resize")
def resize(node: Node) -> Any:
    """To sizes, or by scales, which must be known."""
    x = plain(node, 0)
    if node.opset < 11:
        return _scaled(node, x, node.value(1).reshape(-1).tolist())
    axes = node.attr("axes")
    if axes is not None and not all(-x.rank <= a < x.rank for a in axes):
        raise node.fault(Phrase("axes are {axes} for {rank} axes", axes=list(axes), rank=x.rank))
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel")
    coordinates = _COORDINATES.get(coordinates, coordinates)
    if coordinates is None:
        raise node.fault(Phrase("coordinate_transformation_mode is tf_half_pixel_for_nn"))
    scales = node.value(2).reshape(-1).tolist() if node.has(2) and node.input(2).shape != (Expr.of(0),) else None
    sizes = node.ints(3) if node.has(3) and scales is None else None
    roi = node.value(1).reshape(-1).tolist() if coordinates == "crop" else None
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and policy != "stretch":
        have = [x.shape[a].constant for a in (axes if axes is not None else range(x.rank))]
        if None in have or 0 in have or any(isinstance(n, Expr) for n in sizes):
            raise node.fault(Phrase("it keeps the ratio of sizes that are not known"))
        scale = (min if policy == "not_larger" else max)(want / n for want, n in zip(sizes, have))
        sizes, scales = [int(scale * n + 0.5) for n in have], [scale] * len(have)
    attrs = {
        "rounding": node.attr("nearest_mode", "round_prefer_floor"),
        "cubic_coeff": node.attr("cubic_coeff_a", -0.75),
    }
    flags = {key: bool(node.attr(key, 0)) for key in ("exclude_outside", "antialias")}
    return _resized(
        node,
        x,
        sizes,
        scales,
        axes,
        coordinates=coordinates,
        roi=roi,
        extrapolation=node.attr("extrapolation_value", 0.0),
        **attrs,
        **flags,
    )


@onnx_op("Upsample")
def upsample(node: Node) -> Any:
    """By scales: each element repeated, or lines drawn between elements."""
    x = plain(node, 0)
    if "height_scale" in node.attrs:  # opset 1
        scales = [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    else:
        scales = list(node.attr("scales")) if "scales" in node.attrs else node.value(1).reshape(-1).tolist()
    return _scaled(node, x, scales)


def _scaled(node: Node, x: Term, scales: list[float]) -> Term:
    """By scales as opset 10 and earlier do: a place is its number over the scale. The nearest element is the one before
    it, or along an axis that shrinks the one after it, as the standard's tests of opset 10 have it."""
    for axis, scale in enumerate(scales):
        if scale != 1:
            rounding = "ceil" if scale < 1 else "floor"
            x = _resized(node, x, None, [scale], [axis], coordinates="asymmetric", rounding=rounding)
    return x


def _resized(node: Node, x: Term, sizes: Any, scales: Any, axes: Any, **attrs: Any) -> Term:
    """The op along the axes whose size changes: the others may be of any size."""
    mode = node.attr("mode", "nearest")
    mode = {"bilinear": "linear"}.get(mode, mode)
    all_axes = [a % x.rank for a in (axes if axes is not None else range(x.rank))]
    roi = attrs.pop("roi", None)
    count = len(all_axes)
    if not sizes and not scales:
        raise node.fault(Phrase("neither sizes nor scales are given"))
    if len(sizes or scales) != count or roi and len(roi) != 2 * count:
        given = Phrase("{count} sizes or scales are given for {axes} axes", count=len(sizes or scales), axes=count)
        raise node.fault(Phrase("{given}, and a roi of {count}", given=given, count=len(roi)) if roi else given)

    def is_changed(i: int, axis: int) -> bool:
        is_cut = bool(roi) and (roi[i], roi[i + count]) != (0, 1)
        is_same = not sizes or Expr.of(sizes[i]) == x.shape[axis]
        return is_cut or not is_same or bool(scales) and scales[i] != 1

    kept = [i for i, axis in enumerate(all_axes) if is_changed(i, axis)]
    if not kept:
        return x
    parts = {
        "sizes": [sizes[i] for i in kept] if sizes else None,
        "scales": [scales[i] for i in kept] if scales else None,
    }
    if parts["sizes"] and any(isinstance(n, Expr) for n in parts["sizes"]):
        times = [Expr.of(n) // x.shape[all_axes[i]] for n, i in zip(parts["sizes"], kept)]
        if any(t.constant is None or t * x.shape[all_axes[i]] != n for t, n, i in zip(times, parts["sizes"], kept)):
            raise node.fault(Phrase("its sizes are symbols"))
        parts = {"sizes": None, "scales": [float(t.constant) for t in times]}
    region = [roi[i] for i in kept] + [roi[i + count] for i in kept] if roi else None
    return node.op("Resize", x, axes=[all_axes[i] for i in kept], mode=mode, roi=region, **parts, **attrs)
