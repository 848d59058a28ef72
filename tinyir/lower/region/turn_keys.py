"""A buffer that only scores read, as the factor along their columns, is stored with the depth innermost: copy engines
and tensor cores take it as it is.

before: buffer kt : fp16[H, 64, N]; %s = reduce sum (k0: 64) { mul(q[i0, i1, k0], kt[i0, k0, i2]) }
after:  buffer kt : fp16[H, N, 64]; %s = reduce sum (k0: 64) { mul(q[i0, i1, k0], kt[i0, i2, k0]) }

Exporters scale keys after they transpose them, and what is computed is stored in the shape that it is computed in.
"""

from __future__ import annotations

from ...ir.body import Body, Read, Reduce, rebuild, walk
from ...ir.region import Program, Region, Tensor
from ...ir.traits import bodies_of
from ...ir.types import TensorType
from ...kit.groups import lists_of
from ...kit.records import replace


def turn_keys(program: Program) -> Program:
    """The program with such buffers turned, where they are written and where they are read."""
    aliased = {t.attr("alias") for t in program.buffers}
    readers = lists_of((tensor.name, region) for region in program.regions for tensor in region.inputs)
    turned = {
        t.name: Tensor(t.name, TensorType(t.type.dtype, _swapped(t.type.shape)), t.attrs)
        for t in program.buffers
        if not t.attrs
        and t.name not in aliased
        and len(t.type.shape) > 1
        and _is_turned(t.name, readers.get(t.name, []))
    }
    if not turned:
        return program
    regions = tuple(_of_region(region, turned) for region in program.regions)
    return replace(program, buffers=tuple(turned.get(t.name, t) for t in program.buffers), regions=regions)


def _is_turned(name: str, readers: list[Region]) -> bool:
    """Whether all reads of a buffer, which the `readers` read, are by sums of deferred regions, along its last dim but
    one."""
    for region in readers:
        if not any(t.attr("materialize") == "deferred" for t in region.outputs):
            return False
        summed = {
            node: {a.name for a in fold.axes if a.size is not None}
            for body in bodies_of(region)
            for fold in walk(body)
            if isinstance(fold, Reduce)
            for node in walk(fold.body)
            if isinstance(node, Read) and node.tensor == name
        }
        reads = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Read) and n.tensor == name]
        columns = {a.name for a in region.iters}
        if any(n.index[-2].name not in summed.get(n, ()) or n.index[-1].name not in columns for n in reads):
            return False
    return bool(readers)


def _swapped(items: tuple) -> tuple:
    return (*items[:-2], items[-1], items[-2])


def _of_region(region: Region, turned: dict[str, Tensor]) -> Region:
    if not any(t.name in turned for t in (*region.inputs, *region.outputs)):
        return region

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body.tensor in turned:
            return replace(body, index=_swapped(body.index))
        return rebuild(body, put)

    return replace(
        region,
        inputs=tuple(turned.get(t.name, t) for t in region.inputs),
        outputs=tuple(turned.get(t.name, t) for t in region.outputs),
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=tuple(
            replace(y, expr=put(y.expr), index=_swapped(y.index) if y.output in turned else y.index)
            for y in region.yields
        ),
    )
