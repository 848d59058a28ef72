"""A constant that a kernel reads along another axis than the one along which its threads are neighbours, read of a copy
whose dims follow the kernel's axes. The copy is made once.

before: region y    for i0: N, i1: C    %y = reduce sum (k0: 3) { mul(x[i0 + k0, i1], w[i1, k0]) }
after:  region y.w  yield y.w[i0, i1] = w[i1, i0]
        region y    for i0: N, i1: C    %y = reduce sum (k0: 3) { mul(x[i0 + k0, i1], y.w[k0, i1]) }

Whole vectors are then read of both. Products on tensor cores take operands as they are, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...analysis.regions import analyse
from ...ir.body import Body, Gather, Read, Scatter, rebuild, walk
from ...ir.expr import Expr
from ...ir.region import Module, Region, Tensor, Yield
from ...ir.traits import bodies_of, sizes_of
from ...ir.types import TensorType
from ...kit.records import dataclass, replace
from ..problem import is_contraction
from .parts import free_name, point_of

TimeOf = Callable[[Module, Region], float]


@dataclass(frozen=True, slots=True)
class Turned:
    """A region whose constants were turned, the regions that it became, and the microseconds of its kernel at each run,
    before and after, estimated."""

    region: Region
    parts: tuple[Region, ...]
    before: float
    after: float


def turn_constants(module: Module, time_of: TimeOf) -> tuple[Module, tuple[Turned, ...]]:
    """The module with the constants turned by which a region's kernel takes less by `time_of`, and what was done."""
    constants = module.model.constants()
    names = {t.name for t in (*module.model.inputs, *module.model.outputs, *module.program.buffers)}
    names |= {r.name for r in module.program.regions} | set(module.model.symbols())
    sizes = sizes_of(module.model)
    regions: list[Region] = []
    done: list[Turned] = []
    for one in module.program.regions:
        is_left = one.must_fuse or is_contraction(one, sizes)
        orders = {} if is_left else dict(_orders(one, constants))
        parts = _parts(one, orders, names) if orders else (one,)
        found = Turned(one, parts, time_of(module, one), time_of(module, parts[-1])) if orders else None
        if found is None or found.after >= found.before:
            regions.append(one)
            continue
        names |= {part.name for part in parts[:-1]}
        regions += parts
        done.append(found)
    if not done:
        return module, ()
    buffers = (*module.program.buffers, *(part.outputs[0] for one in done for part in one.parts[:-1]))
    return replace(module, program=replace(module.program, buffers=buffers, regions=tuple(regions))), tuple(done)


def _orders(one: Region, constants: set[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The constants that the region reads across its innermost axis, each with the order of its dims in which it reads
    them along that: other axes first, as they are in the region."""
    reads: dict[str, set[tuple[Expr, ...]]] = {}
    nodes = [n for body in bodies_of(one) for n in walk(body)]
    if not one.iters or any(isinstance(n, (Gather, Scatter)) for n in nodes):
        return
    for node in nodes:
        if isinstance(node, Read) and node.tensor in constants:
            reads.setdefault(node.tensor, set()).add(node.index)
    places = {a.name: at for at, a in enumerate(one.iters)}
    for name, indices in reads.items():
        if len(indices) > 1:
            continue
        (index,) = indices
        alone = [e.name for e in index if e.name]
        is_plain = all(e.name or e.constant == 0 for e in index) and len(set(alone)) == len(alone)
        if is_plain and one.iters[-1].name in alone[:-1]:
            order = sorted(range(len(index)), key=lambda at: (places.get(index[at].name or "", -1), at))
            yield name, tuple(order)


def _parts(one: Region, orders: dict[str, tuple[int, ...]], names: set[str]) -> tuple[Region, ...]:
    """The regions that make the copies, then the region that reads these."""
    copies: dict[str, Tensor] = {}
    made: list[Region] = []
    taken = set(names)
    for name, order in orders.items():
        tensor = next(t for t in one.inputs if t.name == name)
        shape = tuple(tensor.type.shape[at] for at in order)
        iters, index = point_of(shape)
        source = tuple(index[order.index(at)] for at in range(len(order)))
        copies[name] = Tensor(free_name(f"{one.name}.{name}", taken), TensorType(tensor.type.dtype, shape))
        taken.add(copies[name].name)
        item = Yield(copies[name].name, index, Read(name, source, tensor.type.dtype), (), one.yields[0].origin)
        region = Region(copies[name].name, (tensor,), (copies[name],), iters, (), (item,), span=one.span)
        made.append(replace(region, analysis=analyse(region)))

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body.tensor in orders:
            index = tuple(body.index[at] for at in orders[body.tensor])
            return replace(body, tensor=copies[body.tensor].name, index=index)
        return rebuild(body, put)

    rest = replace(
        one,
        inputs=tuple(copies.get(t.name, t) for t in one.inputs),
        lets=tuple(replace(let, expr=put(let.expr)) for let in one.lets),
        yields=tuple(replace(y, expr=put(y.expr)) for y in one.yields),
    )
    return (*made, replace(rest, analysis=analyse(rest)))
