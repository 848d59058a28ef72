"""A prologue of a contraction as a kernel of its own, where the two kernels take less than the one: the contraction
then multiplies what is in memory, which tensor cores and copy engines ask for. So do windows, which no copy engine
fetches, as the rows or the columns of a matrix.

before: region y    %y = reduce sum (k0: K) { mul(relu(x[i0, k0]), w[k0, i1]) }
after:  region y.x  yield y.x[i0, i1] = relu(x[i0, i1])
        region y    %y = reduce sum (k0: K) { mul(y.x[i0, k0], w[k0, i1]) }

before: region y    %y = reduce sum (k0: C, k1: 3) { mul(x[k0, i1 + k1], w[i0, k0, k1]) }
after:  region y.x  yield y.x[i0, i1, i2] = x[i1, i0 + i2]
        region y    %y = reduce sum (k0: C, k1: 3) { mul(y.x[i1, k0, k1], w[i0, k0, k1]) }

The region stage knows no card: it moves work into a contraction for the round trip that this saves, as long as products
of halves lose less by it. Here the plans of both ways are there, and the cost model compares them; each side of the
product is asked for itself. What the new kernel computes is the work at every point of its operand's memory, read off
the indices alone, or of what no copy engine fetches, at every point of the factor's axes, in two orders; windows that
it fetches where channels are innermost are read of copies that are so (`channels_innermost`). Where indices cannot be
turned round, or a read of either kernel would not be proven to stay in bounds, that way is left out. Of equal work that
several contractions share one kernel is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from ...analysis.regions import analyse
from ...analysis.work import bytes_of
from ...ir import rules
from ...ir.alike import Alike
from ...ir.body import Axis, Body, Literal, Read, Reduce, Select, rebuild, substitute, walk
from ...ir.expr import ONE, ZERO, Expr
from ...ir.meet import met
from ...ir.prove_region import check_proofs
from ...ir.region import Module, Program, Region, Tensor, Yield
from ...ir.traits import axes_of, sizes_of
from ...ir.types import TensorType
from ...ir.verify_region import check_region
from ...kit.records import dataclass, replace
from ..candidate import holds_everywhere
from ..parts.boxes import View, view_of
from ..parts.windows import operand_views, windowed
from ..problem import Contraction, is_contraction, kernel_of, kernels_of
from .channels_innermost import Side, channels_innermost
from .lay_out_rows import lay_out_rows
from .parts import free_name, point_of
from .slid_image import slid_image

# of a matrix of windows, which takes memory that the model does not have: one of a large batch would not fit beside the
# weights
MOST_BYTES = 1 << 28
TimeOf = Callable[[Module, Region], float]


@dataclass(frozen=True, slots=True)
class Materialized:
    """One region that became several, and the microseconds of the one kernel and of the several, estimated."""

    region: Region
    parts: tuple[Region, ...]
    fused: float
    apart: float


def materialize_prologues(
    module: Module,
    time_of: TimeOf,
    has_engine: bool = False,
    least_of: TimeOf = lambda module, region: 0.0,
    wanted: Container[str] | None = None,
) -> tuple[Module, tuple[Materialized, ...]]:
    """The module with the prologues apart for which that is faster by `time_of` (microseconds of a region's kernel),
    and what was done. `has_engine`: the card has a copy engine, which fetches windows. `least_of` is what a kernel
    takes at the least, which costs nothing to ask for. `wanted` are the regions to look at (default: all)."""
    regions: list[Region] = []
    done: list[Materialized] = []
    made: dict[Region, Tensor] = {}  # the kernels that there are, without their names, and what they write
    constants = module.model.constants()
    whole: set[Hashable] = set()  # what is alike is asked once, but for copies that there are
    for one in module.program.regions:
        if wanted is not None and one.name not in wanted:
            regions.append(one)
            continue
        likeness = _likeness(one, constants)
        is_new = likeness not in whole or any(t in other.inputs for other in made for t in one.inputs)
        found = _cheapest(module, one, made, time_of, least_of, has_engine) if is_new else None
        whole |= {likeness} if found is None else set()
        regions += (one,) if found is None else found.parts
        done += () if found is None else (found,)
    buffers = (*module.program.buffers, *made.values())
    return replace(module, program=Program(module.program.name, buffers, tuple(regions))) if done else module, tuple(
        done
    )


def least_times(
    module: Module, wanted: Container[str], time_of: TimeOf, least_of: TimeOf, has_engine: bool = False
) -> Iterator[Mapping[str, float]]:
    """Microseconds below which the kernels of the wanted regions are not, their prologues apart or not, by name; nearer
    and nearer. Regions that read a tensor share the copies that are made of it, for all that is known. At first no plan
    of a contraction is asked for that need not be one kernel; then those of one contraction more each time, the longest
    first, of its ways those that may be the fastest. What is alike is asked once."""
    regions = [one for one in module.program.regions if one.name in wanted]
    left = [one for one in regions if _may_be_apart(module, one)]
    users = Counter(t.name for one in module.program.regions for t in one.inputs)
    constants = module.model.constants()
    ways: dict[Hashable, list[tuple[Region, ...]]] = {}
    known: dict[Hashable, float] = {}

    def least(one: Region, of_last: TimeOf) -> float:
        share = max(users[t.name] for t in one.inputs)
        likeness = _likeness(one, constants)
        if (key := (of_last, share, likeness)) not in known:
            if likeness not in ways:
                ways[likeness] = _ways(module, one, {}, has_engine)
            best = of_last(module, one)
            before = [sum(time_of(module, part) for part in parts[:-1]) / share for parts in ways[likeness]]
            for us, parts in sorted(zip(before, ways[likeness]), key=lambda way: way[0]):
                if us + least_of(module, parts[-1]) < best:
                    best = min(best, us + of_last(module, parts[-1]))
            known[key] = best
        return known[key]

    found = {one.name: 0.0 if one in left else time_of(module, one) for one in regions}
    found |= {one.name: least(one, least_of) for one in left}
    yield found
    for one in sorted(left, key=lambda one: -found[one.name]):
        found[one.name] = least(one, time_of)
        yield found


def _likeness(one: Region, constants: Container[str]) -> Hashable:
    """What a region has in common with those that are the same but for names."""
    return Alike.of(one), tuple(t.name in constants for t in one.inputs), bool(one.must_fuse)


def _may_be_apart(module: Module, one: Region) -> bool:
    """Whether a region is a contraction that need not be one kernel."""
    return (
        not one.must_fuse
        and is_contraction(one, sizes_of(module.model))
        and not any(t.attr("materialize") == "deferred" for t in one.inputs + one.outputs)
    )


def _cheapest(
    module: Module, one: Region, made: dict[Region, Tensor], time_of: TimeOf, least_of: TimeOf, has_engine: bool
) -> Materialized | None:
    """The region in its cheapest form; None where that is the one that it has, or where it must be one kernel."""
    ways = _ways(module, one, made, has_engine) if _may_be_apart(module, one) else []
    found = _least(module, ways, time_of(module, one), time_of, least_of) if ways else None
    if found is None:
        return None
    number, fused, apart = found
    best = Materialized(one, ways[number], fused, apart)
    made |= {_nameless(part): part.outputs[0] for part in best.parts[:-1]}
    return best


def _ways(module: Module, one: Region, made: dict[Region, Tensor], has_engine: bool) -> list[tuple[Region, ...]]:
    """The forms of a contraction with something of it apart: the kernels that are not there yet, then itself."""
    kernel = kernels_of(one, sizes_of(module.model))[0]
    assert isinstance(kernel, Contraction)
    names = {t.name for t in (*module.model.inputs, *module.model.outputs, *module.program.buffers, *made.values())} | {
        r.name for r in module.program.regions
    }
    free = frozenset(names)  # of ways of which one is taken each may have the same
    sides = [(None, *_sides(module, one, kernel, at, names)) for at in (0, 1)]
    ways = [
        _apart(one, [side for side in chosen if side is not None], made) for chosen in product(*sides) if any(chosen)
    ]
    fetched: list[tuple[Region, ...]] = []
    windows = channels_innermost(one, kernel, free)
    if windows is not None and all(_is_proven(module, side, free) for side in windows.sides):
        sides_ = tuple(replace(s, region=replace(s.region, analysis=analyse(s.region))) for s in windows.sides)
        fetched += [parts for parts in (windows.ordered(_apart(one, sides_, made)),) if parts]
        if windows.matrix and (windows.matrix != windows.sides or not fetched):  # the image as it is
            matrix = tuple(s for s in sides_ if s.read in {one.read for one in windows.matrix})
            ways.append(windows.ordered(_apart(one, matrix, made), is_image_copied=False))
        if windows.matrix != windows.sides and not fetched:  # other copies take whole vectors then
            ways.append(windows.ordered(_apart(one, sides_, made), is_image_copied=False))
    fetched += () if fetched else _slid(module, one, kernel, free, made)
    if has_engine and any(_is_fetched(module, parts) for parts in fetched):  # no matrix is worth its bytes beside it
        ways = [parts for parts in ways if all(map(_is_as_large, parts[:-1]))]
    ways += fetched
    rows = lay_out_rows(one, kernel, free)
    if rows is not None and all(_is_proven(module, side, free) for side in rows.sides):
        sides_ = tuple(replace(s, region=replace(s.region, analysis=analyse(s.region))) for s in rows.sides)
        ways.append(rows.ordered(_apart(one, sides_, made)))
    return ways


def _least(
    module: Module, ways: Sequence[tuple[Region, ...]], fused: float, time_of: TimeOf, least_of: TimeOf
) -> tuple[int, float, float] | None:
    """The number of the way that takes the least, the first of equals, with the time of the region as it is and its
    own; None where none takes less. The kernels before the contraction are asked for first: those of one way alone may
    take longer than another way, whose contraction they save the asking for."""
    sizes = sizes_of(module.model)
    before = [sum(time_of(module, part) for part in parts[:-1]) for parts in ways]
    moved = [bytes_of(parts[-1], sizes).evaluate(sizes) for parts in ways]
    best, limit = None, fused
    for number in sorted(range(len(ways)), key=lambda at: (before[at], moved[at])):
        is_first = best is not None and number < best
        if before[number] + least_of(module, ways[number][-1]) > limit:
            continue
        if any(d.is_error for d in check_proofs(module, ways[number][-1])):
            continue
        apart = before[number] + time_of(module, ways[number][-1])
        if apart < limit or apart == limit and is_first:
            best, limit = number, apart
    return None if best is None else (best, fused, limit)


def _is_fetched(module: Module, parts: tuple[Region, ...]) -> bool:
    """Whether the copy engine fetches windows of 16 bits at every shape set, and at a run only images are copied."""
    kernel = kernel_of(parts[-1], "contraction")
    views = operand_views(parts[-1], kernel)
    image = windowed(views)
    constants = module.model.constants() | {part.outputs[0].name for part in parts[:-1]}
    copied = [t.name for part in parts[:-1] for t in part.inputs if part.outputs[0].name != image.tensor.name]
    return (
        kernel.lhs.dtype.bytes == 2
        and set(copied) <= constants
        and all(isinstance(v, View) and holds_everywhere(v.needs(), module.model) for v in views)
    )


def _is_as_large(part: Region) -> bool:
    """Whether a kernel writes no more than it reads: a copy is, a matrix of windows is not."""
    (output,) = part.outputs
    wanted = [rules.product(t.type.shape) - rules.product(output.type.shape) for t in part.inputs]
    return any(more.constant is not None and more.constant >= 0 for more in wanted)


def _sides(module: Module, one: Region, kernel: Contraction, at: int, names: set[str]) -> Iterator[Side]:
    """The ways in which a factor may be computed apart: its work in the place of its operand, and what no copy engine
    fetches as a matrix, along the sum or along its own axes. Their names go to `names`."""
    made = (
        _work(one, kernel, at, names),
        *(_matrix(module, one, kernel, at, names, is_along) for is_along in (True, False)),
    )
    for side in made:
        if side is not None and _is_proven(module, side, names):
            names.add(side.read.tensor)
            yield replace(side, region=replace(side.region, analysis=analyse(side.region)))


def _is_proven(module: Module, side: Side, names: Container[str]) -> bool:
    """Whether the kernel of a side is one that the checks take, and whose axes are not called as memory is."""
    found = (*check_region(module, side.region), *check_proofs(module, side.region))
    return not any(d.is_error for d in found) and not any(a.name in names for a in side.region.iters)


def _work(one: Region, kernel: Contraction, at: int, names: set[str]) -> Side | None:
    """The work of a factor, in the place of its operand; None where it is a read alone, or its indices cannot be turned
    round."""
    work, operand = _inside(kernel.factors[at]), (kernel.lhs, kernel.rhs)[at]
    if isinstance(work, Read):
        return None
    tensor = next(t for t in one.inputs if t.name == operand.tensor)
    if not names.isdisjoint(f"i{n}" for n in range(tensor.type.rank)):  # memory that is called as an axis would be
        return None
    turned = _turned(operand, work, {a.name for a in (*one.iters, *kernel.sum)})
    if turned is None:
        return None
    iters, index = point_of(tensor.type.shape)
    body = met(turned, tuple(a.name for a in iters), {})
    return _side(
        one,
        kernel,
        work,
        body,
        iters,
        Read(free_name(f"{one.name}.{tensor.name}", names), operand.index, work.dtype),
        tensor.type.shape,
        index,
    )


def _matrix(module: Module, one: Region, kernel: Contraction, at: int, names: set[str], is_along: bool) -> Side | None:
    """A factor at all points of its own axes and of the sum's, which are innermost where `is_along`: the windows of a
    convolution as the rows or the columns of a matrix. None where the copy engine fetches its operand in place, whose
    rows are whole 16 bytes at every shape set, and where the matrix would take too much memory."""
    factor, operand, own = kernel.factors[at], (kernel.lhs, kernel.rhs)[at], (kernel.left, kernel.right)[at]
    view = view_of(one, operand.tensor, operand.index, kernel)
    if isinstance(view, View) and (factor is not operand or holds_everywhere(view.needs(), module.model)):
        return None
    used = axes_of(factor)
    every = [a for a in (*kernel.batch, *((*own, *kernel.sum) if is_along else (*kernel.sum, *own))) if a.name in used]
    axes = [a for a in every if a.size != ONE]
    shape = tuple(a.size for a in axes)
    if rules.product(shape).evaluate(sizes_of(module.model)) * factor.dtype.bytes > MOST_BYTES or not names.isdisjoint(
        f"i{n}" for n in range(len(shape))
    ):
        return None
    iters = tuple(Axis(f"i{n}", size) for n, size in enumerate(shape))
    point = {a.name: ZERO for a in every} | {a.name: i.name for a, i in zip(axes, iters)}
    body = met(substitute(factor, point), tuple(i.name for i in iters), {})
    if isinstance(body, Read) and body.index == tuple(Expr.of(i.name) for i in iters):
        return None  # a copy of the tensor as it is
    read = Read(free_name(f"{one.name}.{operand.tensor}", names), tuple(Expr.of(a.name) for a in axes), factor.dtype)
    return _side(one, kernel, factor, body, iters, read, shape, tuple(Expr.of(i.name) for i in iters))


def _slid(
    module: Module, one: Region, kernel: Contraction, free: frozenset[str], made: dict[Region, Tensor]
) -> Iterator[tuple[Region, ...]]:
    """The ways in which the image that windows slide over is made first, with its channels innermost, and the copy
    engine fetches the windows of that."""
    for at in (0, 1):
        slid = slid_image(kernel, at)
        if slid is None:
            continue
        shape = tuple(a.size for a in slid.axes)
        iters, index = point_of(shape)
        point = {a.name: e for a, e in zip(slid.axes, index)} | {a.name: ZERO for a in slid.taps}
        factor = kernel.factors[at]
        body = met(substitute(factor, point), tuple(a.name for a in iters), {})
        name = free_name(f"{one.name}.{(kernel.lhs, kernel.rhs)[at].tensor}", free)
        read = Read(name, slid.places, factor.dtype)
        side = _side(one, kernel, factor, body, iters, read, shape, index)
        if not _is_proven(module, side, free | {name}):
            continue
        side = replace(side, region=replace(side.region, analysis=analyse(side.region)))
        *before, last = _apart(one, [side], made)
        inner = kernel_of(last, "contraction")
        windows = channels_innermost(last, inner, free | {name}) if isinstance(inner, Contraction) else None
        if windows is None or not all(_is_proven(module, s, free | {name}) for s in windows.sides):
            continue
        packed = [replace(s, region=replace(s.region, analysis=analyse(s.region))) for s in windows.sides]
        fetched = windows.ordered(_apart(last, packed, made))
        if fetched:
            yield (*before, *fetched)


def _side(
    one: Region,
    kernel: Contraction,
    work: Body,
    body: Body,
    iters: tuple[Axis, ...],
    read: Read,
    shape: tuple[Expr, ...],
    index: tuple[Expr, ...],
) -> Side:
    """The work with the region that writes `body` at each point of `iters` to what is read."""
    used = dict.fromkeys(n.tensor for n in walk(body) if isinstance(n, Read))
    inputs = tuple(next(t for t in one.inputs if t.name == name) for name in used)
    output = Tensor(read.tensor, TensorType(work.dtype, shape))
    return Side(
        work,
        Region(
            read.tensor,
            inputs,
            (output,),
            iters,
            (),
            (Yield(read.tensor, index, body, (), one.let(kernel.value).origin),),
            span=one.span,
        ),
        read,
    )


def _inside(factor: Body) -> Body:
    """The factor without the guards that put 0 around it: what is padded stays so where it is read."""
    while isinstance(factor, Select) and isinstance(factor.other, Literal) and factor.other.value == 0:
        factor = factor.then
    return factor


def _turned(operand: Read, work: Body, axes: set[str]) -> Body | None:
    """The work with the axes i0, i1, ... of the operand's memory in the place of those of the region; None where an
    index does not say where it came from."""
    point: dict[str, Expr] = {}
    for number, index in enumerate(e for e in operand.index if e.constant != 0):
        here = index.substitute(point)
        unit = next((n for c, m in here.terms if len(m) == 1 and abs(c) == 1 and (n := m[0]) in axes), None)
        if unit is None:
            return None
        sign = next(c for c, m in here.terms if m == (unit,))
        solved = Expr.of(unit) + (Expr.of(f"@{number}") - here) * sign
        point = {n: e.substitute({unit: solved}) for n, e in point.items()} | {unit: solved}
    found = substitute(work, point)
    return None if axes_of(found) & axes else substitute(found, {f"@{n}": f"i{n}" for n in range(len(operand.index))})


def _apart(one: Region, sides: Iterable[Side], made: dict[Region, Tensor]) -> tuple[Region, ...]:
    """The kernels of these sides that are not there yet, then the contraction that reads what they write."""
    put: dict[Body, Read] = {}
    tensors: dict[str, Tensor] = {t.name: t for t in one.inputs}
    before: list[Region] = []
    for side in sides:
        known = made.get(_nameless(side.region)) or next(
            (r.outputs[0] for r in before if _nameless(r) == _nameless(side.region)), None
        )
        before += [] if known is not None else [side.region]
        output = known or side.region.outputs[0]
        tensors[output.name] = output
        put[side.work] = replace(side.read, tensor=output.name)

    def moved(body: Body) -> Body:
        return put[body] if body in put else rebuild(body, moved)

    lets = tuple(replace(let, expr=moved(let.expr)) if isinstance(let.expr, Reduce) else let for let in one.lets)
    read = dict.fromkeys(n.tensor for item in (*lets, *one.yields) for n in walk(item.expr) if isinstance(n, Read))
    rest = replace(one, inputs=tuple(map(tensors.__getitem__, read)), lets=lets)
    return (*before, replace(rest, analysis=analyse(rest)))


def _nameless(region: Region) -> Region:
    """What a kernel computes, whatever it is called."""
    (item,), (output,) = region.yields, region.outputs
    return replace(region, name="", outputs=(replace(output, name=""),), yields=(replace(item, output=""),))
