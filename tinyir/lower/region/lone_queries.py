"""Attention whose keys meet one query each, as a decoder has it: neither of its contractions has reuse on both sides,
but together they are one kernel, so they are cut as those of attention are, and their rows become an axis of one point.

before: region s  for i0: H, i1: N         %s = reduce sum (k0: D) { mul(Q[i0, 0, k0], K[i0, i1, k0]) } ...
                  yield P[i0, 0, i1] = %p
after:  region s  for i0: H, i1: N, i2: 1  ...   yield P[i0, i2, i1] = %p
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ...ir.body import Axis, Body, BroadcastInDim, Read, rebuild
from ...ir.expr import ONE, ZERO, Expr
from ...ir.region import Program, Region, Tensor
from ...ir.types import TensorType
from ...kernels.attention import LONE_ROW, streaming_of
from ...kit.records import replace
from .graph import Graph, is_exponential
from .write import free_axes


def mark_lone_queries(graph: Graph) -> Graph:
    """The graph with the two contractions of such an attention marked as those of any other (`Node.is_heavy`)."""
    blocks = graph.module.block_of()
    light = {
        name
        for name, node in graph.nodes.items()
        if node.is_contraction and not node.is_heavy and bool(blocks[name].left) != bool(blocks[name].right)
    }
    found = {name for first in sorted(light) for name in _pairs(first, graph, light)}
    if not found:
        return graph
    nodes = {n: replace(node, is_heavy=node.is_heavy or n in found) for n, node in graph.nodes.items()}
    return replace(graph, nodes=nodes)


def _pairs(first: str, graph: Graph, light: Container[str]) -> Iterator[str]:
    """A contraction, and those that it leads to by way of an exponential and of no contraction."""
    seen: set[tuple[str, bool]] = set()
    pending, seconds = [(first, False)], set()
    while pending:
        name, is_weight = pending.pop()
        for user in graph.users.get(name, ()):
            node = graph.nodes[user]
            if node.is_contraction:
                seconds |= {user} if is_weight and user in light else set()
            elif (user, is_weight) not in seen:
                seen.add((user, is_weight))
                pending.append((user, is_weight or is_exponential(node)))
    if seconds:
        yield from (first, *seconds)


def give_rows(program: Program) -> Program:
    """The program with an axis of one point in each first region of attention that has no rows."""
    makers = {t.name: r for r in program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    pairs = [(makers[t.name], r, t) for r in program.regions for t in r.inputs if t.name in makers]
    changed: dict[str, Region] = {}
    buffers = {t.name: t for t in program.buffers}
    for first, second, handed in pairs:
        if streaming_of(first, second) != LONE_ROW:
            continue
        (item,) = (y for y in first.yields if y.output == handed.name)
        at = next((n for n, (e, s) in enumerate(zip(item.index, handed.type.shape)) if e == ZERO and s == ONE), None)
        if at is None:
            shape = (ONE, *handed.type.shape)
            buffers[handed.name] = replace(handed, type=TensorType(handed.type.dtype, shape))
            changed[second.name] = _along_a_new_dim(second, buffers[handed.name])
        changed[first.name] = _with_row(first, buffers[handed.name], at)
    if not changed:
        return program
    regions = tuple(changed.get(r.name, r) for r in program.regions)
    return replace(program, buffers=tuple(buffers.values()), regions=regions)


def _with_row(region: Region, tensor: Tensor, at: int | None) -> Region:
    """The region with one more axis, at which the handed tensor is written along dim `at`, or along a new first one."""
    axes = tuple(a.name for a in region.iters)
    symbols = {n for t in (*region.inputs, *region.outputs) for e in t.type.shape for n in e.names()}
    name = next(free_axes("i", {*axes, *symbols, *(t.name for t in (*region.inputs, *region.outputs))}))

    def put(body: Body) -> Body:
        inner = rebuild(body, put)
        return replace(inner, axes=axes) if isinstance(inner, BroadcastInDim) and inner.axes is None else inner

    def moved(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (Expr.of(name), *index) if at is None else (*index[:at], Expr.of(name), *index[at + 1 :])

    return replace(
        region,
        outputs=tuple(tensor if t.name == tensor.name else t for t in region.outputs),
        iters=(*region.iters, Axis(name, ONE)),
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=tuple(
            replace(y, expr=put(y.expr), index=moved(y.index) if y.output == tensor.name else y.index)
            for y in region.yields
        ),
    )


def _along_a_new_dim(region: Region, tensor: Tensor) -> Region:
    """The region with the handed tensor read at 0 along a new first dim."""

    def put(body: Body) -> Body:
        inner = rebuild(body, put)
        if isinstance(inner, Read) and inner.tensor == tensor.name:
            return replace(inner, index=(ZERO, *inner.index))
        return inner

    return replace(
        region,
        inputs=tuple(tensor if t.name == tensor.name else t for t in region.inputs),
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=tuple(replace(y, expr=put(y.expr)) for y in region.yields),
    )
