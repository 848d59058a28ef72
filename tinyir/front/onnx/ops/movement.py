"""Ops that only move."""

from __future__ import annotations

from typing import Any

from ....ir.expr import ONE, Expr
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op


def moved(node: Node, x: Term, found: Any) -> Any:
    """The result with the form of its operand: what only moves keeps it."""
    for term in found if isinstance(found, tuple) else (found,):
        term.form = x.form
    return found


@onnx_op("Reshape")
def reshape(node: Node) -> Any:
    """Another shape; 0 keeps a size, -1 is what is left."""
    x = node.input(0)
    return moved(node, x, node.op("Reshape", x, shape=node.ints(1, "shape"), allowzero=bool(node.attr("allowzero", 0))))


@onnx_op("Flatten")
def flatten(node: Node) -> Any:
    """Two axes."""
    x = node.input(0)
    axis = node.attr("axis", 1)
    return moved(node, x, node.op("Flatten", x, axis=axis)) if x.rank else node.reshape(x, [1, 1])


@onnx_op("Transpose")
def transpose(node: Node) -> Any:
    """The axes in another order."""
    x = node.input(0)
    return moved(node, x, node.op("Transpose", x, perm=node.attr("perm")))


@onnx_op("Expand")
def expand(node: Node) -> Any:
    """Repeated to the common shape."""
    x = node.input(0)
    return moved(node, x, node.op("Expand", x, shape=node.ints(1)))


@onnx_op("Tile")
def tile(node: Node) -> Any:
    """Repeated as a whole; in opset 5 and earlier along one axis."""
    x = node.input(0)
    repeats = node.ints(1)
    if len(node.inputs) == 3:
        axis, count = node.scalar(2), repeats[0]
        repeats = [count if a == axis else 1 for a in range(x.rank)]
    return moved(node, x, node.op("Tile", x, repeats=repeats))


@onnx_op("Squeeze")
def squeeze(node: Node) -> Any:
    """Without axes of size 1."""
    x = node.input(0)
    return moved(node, x, node.op("Squeeze", x, axes=node.ints(1, "axes")))


@onnx_op("Unsqueeze")
def unsqueeze(node: Node) -> Any:
    """With axes of size 1."""
    x = node.input(0)
    return moved(node, x, node.op("Unsqueeze", x, axes=node.ints(1, "axes")))


@onnx_op("Slice")
def slice_op(node: Node) -> Any:
    """x[start:end:step] along axes."""
    x = node.input(0)
    starts, ends = node.ints(1, "starts"), node.ints(2, "ends")
    axes, steps = node.ints(3, "axes"), node.ints(4)
    starts, ends = ([_near(n) for n in side] for side in (starts, ends))
    return moved(node, x, node.op("Slice", x, starts=starts, ends=ends, axes=axes, steps=steps))


def _near(bound: Any) -> Any:
    """A bound that means the end of the axis, within 32 bits."""
    far = 10**9  # tf2onnx writes this for the end
    return (
        bound if isinstance(bound, Expr) else -(1 << 31) if bound <= -far else (1 << 31) - 1 if bound >= far else bound
    )


@onnx_op("Pad")
def pad(node: Node) -> Any:
    """Grown at its ends, or cut where a pad is negative."""
    x = node.input(0)
    pads = node.ints(1, "pads") or list(node.attr("paddings", ()))
    axes = node.ints(3)
    value = node.scalar(2, "value", 0)
    mode = node.attr("mode", "constant")
    axes = None if axes is None else [a % x.rank for a in axes]
    if isinstance(value, Expr) or x.form:
        raise node.fault(
            Phrase("it pads with a size")
            if isinstance(value, Expr)
            else Phrase("its input has the form {form}", form=x.form)
        )
    return node.op("Pad", x, pads=pads, axes=axes, mode=mode, value=value)


@onnx_op("Concat")
def concat(node: Node) -> Any:
    """One after the other."""
    parts = [node.input(i) for i in range(len(node.inputs))]
    return moved(node, parts[0], node.op("Concat", *parts, axis=node.attr("axis", 1)))


@onnx_op("Split")
def split(node: Node) -> Any:
    """Pieces along an axis: of stated sizes, or one for each output."""
    x = node.input(0)
    sizes = node.ints(1, "split")
    count = len(sizes) if sizes is not None else node.attr("num_outputs", len(node.outputs))
    if not 0 < count == len(node.outputs):
        raise node.fault(Phrase("it has {count} outputs and gives {count2}", count=len(node.outputs), count2=count))
    found = node.op(
        "Split", x, outputs=count, axis=node.attr("axis", 0), sizes=sizes, parts=None if sizes is not None else count
    )
    return moved(node, x, found if isinstance(found, tuple) else (found,))


@onnx_op("Trilu")
def trilu(node: Node) -> Any:
    """A triangle of the last two axes."""
    return node.op("Trilu", node.input(0), upper=bool(node.attr("upper", 1)), k=node.scalar(1, "", 0))


def _blocks(node: Node) -> tuple[Term, int]:
    """The image and the size of its blocks."""
    x, block = node.input(0), node.attr("blocksize", 0)
    if x.rank < 3 or block < 1:
        raise node.fault(
            Phrase("its input has {rank} axes, its blocks have {block} elements a side", rank=x.rank, block=block)
        )
    return x, block


@onnx_op("DepthToSpace")
def depth_to_space(node: Node) -> Any:
    """Blocks of channels become blocks of the image: [N, C, *S] to [N, C/b**n, *(S*b)]."""
    x, block = _blocks(node)
    batch, channels, *sizes = x.shape
    n = len(sizes)
    each = channels // block**n
    is_depth_first = node.attr("mode", "DCR") == "DCR"
    split = [batch, *([*[block] * n, each] if is_depth_first else [each, *[block] * n]), *sizes]
    blocks = list(range(1, n + 1)) if is_depth_first else list(range(2, n + 2))
    own = n + 1 if is_depth_first else 1
    perm = [0, own, *(a for pair in zip(range(n + 2, 2 * n + 2), blocks) for a in pair)]
    turned = node.transpose(node.reshape(x, split), perm)
    return moved(node, x, node.reshape(turned, [batch, each, *(s * block for s in sizes)]))


@onnx_op("SpaceToDepth")
def space_to_depth(node: Node) -> Any:
    """Blocks of the image become blocks of channels."""
    x, block = _blocks(node)
    batch, channels, *sizes = x.shape
    n = len(sizes)
    for axis, size in enumerate(sizes, 2):
        if size // block * block != size:
            raise node.fault(
                Phrase(
                    "axis {axis} has {size} elements, which blocks of {block} do not divide",
                    axis=axis,
                    size=size,
                    block=block,
                )
            )
    split = [batch, channels, *(part for s in sizes for part in (s // block, Expr.of(block)))]
    inner, outer = [3 + 2 * a for a in range(n)], [2 + 2 * a for a in range(n)]
    perm = [0, 1, *inner, *outer] if node.attr("mode", "DCR") == "CRD" else [0, *inner, 1, *outer]
    turned = node.transpose(node.reshape(x, split), perm)
    return moved(node, x, node.reshape(turned, [batch, channels * block**n, *(s // block for s in sizes)]))


@onnx_op("CenterCropPad")
def center_crop_pad(node: Node) -> Any:
    """Cut or padded with 0 about the middle, to a shape."""
    x = node.input(0)
    wanted = node.ints(1)
    axes = [a % x.rank for a in node.attr("axes", tuple(range(x.rank)))]
    lows, highs, pads = [], [], []
    for axis, want in zip(axes, wanted):
        have = x.shape[axis].constant
        if have is None or isinstance(want, Expr):
            raise node.fault(Phrase("axis {axis} has a size that is not known", axis=axis))
        more, less = max(0, want - have), max(0, have - want)
        lows.append(less // 2)
        highs.append(less // 2 + min(want, have))
        pads.append((more // 2, more - more // 2))
    found = node.op("Slice", x, starts=lows, ends=highs, axes=axes)
    return node.op("Pad", found, pads=[p[0] for p in pads] + [p[1] for p in pads], axes=axes)


@onnx_op("ReverseSequence")
def reverse_sequence(node: Node) -> Any:
    """The first elements of each row read backwards, each row having its own number."""
    x, lengths = node.input(0), node.cast(node.input(1), "i64")
    batch, time = node.attr("batch_axis", 1) % x.rank, node.attr("time_axis", 0) % x.rank
    shape = [Expr.of(1)] * x.rank
    line = node.op("Iota", shape=[x.shape[time] if a == time else ONE for a in range(x.rank)], axis=time)
    shape[batch] = x.shape[batch]
    long = node.reshape(lengths, shape)
    mirrored = node.fn("sub", node.fn("sub", long, known(1, "i64")), line)
    place = node.fn("where", node.fn("less", line, long), mirrored, line)
    index = node.op("Expand", place, shape=list(x.shape))
    return node.op("GatherElements", x, index, axis=time)
