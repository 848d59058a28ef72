"""What a CTA of a row kernel takes: where its warps and the CTAs of a cluster meet, and the elements of a row that a
thread has at once."""

from __future__ import annotations

import functools
import math

from ...ir.accumulate import is_plain, wide
from ...ir.body import Binary, Body, BroadcastInDim, Read, Reduce, walk
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...ir.present import names_in
from ...ir.region import Region
from ...ir.runs import row_run
from ...ir.traits import bodies_of, extent_of, nodes_of
from ...ir.types import DTYPES, DType
from ...kit.records import dataclass
from ...target.arch import ARCHS
from ..family import Array, Needs, Problem
from ..parts.kept import bytes_beside, read_late, read_twice, reads_along, words_held
from ..parts.point import free_axes, needed
from ..problem import Row
from ..resources import allotted, filled, threads_of

ADDRESSING = 24  # registers, with those of one access
FEW = 8  # fewer of them where one tensor is read and folded once, and nothing is written along the row
HOLDING = 23  # of a row that stays from pass to pass
FOLDING = 16  # of a row that is folded several times and not written, with
MOST_PARTS = 16  # of the warps' parts that are added at once
ALONE = 128  # of a thread of a large CTA that leaves its SM no other
MOST_PASSES = 3  # of a row that is held to its number: the compiler keeps less of one with more, as of top-k
ON_THEIR_WAY = 16  # elements of a row that is read once
WALKING = 48  # of a walk along rows, with
MANY = 32  # elements at once
LATE = 4  # of a row kept as it was read, for each tensor that is read behind all folds
EARLY_BYTES = 64  # of a thread, that it asks for before the folds and needs behind them
HELD_COMPUTED = 32  # elements of a row that a thread keeps in the type of arithmetic, at most
WARP = 32


@dataclass(frozen=True, slots=True)
class Counted:
    """What decides the registers of a row's threads: bytes of one of its elements, of all that is read there, and how
    many reads that are; words that stay of it from pass to pass; whether it is one tensor's, folded once and not
    written; whether several passes fold it and none writes it; whether something is divided slowly."""

    bytes: int
    reads: int
    held: int
    is_one: bool
    is_folded: bool
    is_slow: bool


@functools.lru_cache(maxsize=4096)
def counted(region: Region, kernel: Row) -> Counted:
    """What decides the registers of a row's threads."""
    folds = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Reduce)]
    along = {a.name for a in kernel.row} | {a.name for fold in folds for a in fold.axes}
    reads = reads_along(region, along)
    is_slow = divides_slowly(region, kernel)
    is_one = reads + len(folds) <= 2 and kernel.passes == 1 and not is_slow
    row = {a.name for a in kernel.row if a in region.iters}
    is_written = any(row & names_in(y.index) for y in region.yields)
    is_folded = 1 < kernel.passes <= MOST_PASSES and bool(read_twice(region, along)) and not is_written and not is_slow
    read = bytes_beside(region, row)
    return Counted(read, reads, words_held(region, kernel), is_one, is_folded, is_slow)


def declare_streamed(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes that reads a row again: the compiler asks for as much of it at once as there are registers."""
    region, kernel = problem.region, problem.kernel
    row, wanted = counted(region, kernel), _on_their_way(plan, problem, each_of(plan))
    if not row.is_slow:
        several = FEW * ((each_of(plan) >= MANY) + max(0, row.reads - 1))
        wanted = min(wanted, WALKING + several + 3 * beside_of(plan, row) // 2)
    return Needs(meeting_arrays(plan, region, kernel), registers=allotted(plan, wanted))


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes whose rows are resident: of a row that is read once, not all is there at once."""
    region, kernel, each = problem.region, problem.kernel, each_of(plan)
    row, most = counted(region, kernel), ARCHS[plan.arch].registers_per_sm // threads_of(plan)
    if stays_as_read(plan, region, kernel):
        read = _read(region, kernel)
        held = sum(one.dtype.bytes for one in read) * each // 4 + FEW * (len(read) > 1)
        held += LATE * len(_late(region, kernel)) + ADDRESSING
        return filled(plan, Needs(meeting_arrays(plan, region, kernel), registers=held))
    least = max(8 * row.held, 9) * each // 8 + HOLDING
    if row.is_folded:  # the compiler keeps what several folds read, where the text reads it again too
        wanted = max(1, row.held) * each + min(plan.threads[0] // WARP, MOST_PARTS) + FOLDING
    elif row.held and not row.is_slow:
        # an element beside whole vectors, and a guard of each
        is_guarded = bool(plan.predicate and (plan.vectorize or row.held > 1))
        late = asked_ahead(plan, row)
        wanted = least + FEW * (each >= ON_THEIR_WAY and is_guarded) + late
        if late and plan.cluster is not None and wanted < most <= min(ALONE, 2 * wanted):
            wanted = most  # a large CTA alone on its SM asks for much ahead
    else:
        wanted = _on_their_way(plan, problem, each if row.is_slow else min(each, ON_THEIR_WAY))
        if row.is_slow and each > HELD_COMPUTED:  # what is read late is asked for several vectors ahead
            wanted += 2 * beside_of(plan, row)
    if row.held:  # less is on its way where a CTA of many threads leaves no more
        wanted = min(wanted, max(least, most))
    early = asked_first(plan, region, kernel)
    if early and row.is_slow:
        wanted -= beside_of(plan, row)
    wanted += sum(read.dtype.bytes for read in early) * each // 4
    return Needs(meeting_arrays(plan, region, kernel), registers=allotted(plan, wanted))


def _on_their_way(plan: Plan, problem: Problem, each: int) -> int:
    """Registers of a thread that has this number of elements at once."""
    row = counted(problem.region, problem.kernel)
    return 5 * each // 4 + beside_of(plan, row) + ADDRESSING - FEW * row.is_one


def beside_of(plan: Plan, row: Counted) -> int:
    """Registers of what a thread reads at once of all tensors, beside an access."""
    return max(0, row.bytes * plan.widest - ACCESS_BYTES) // 4


def asked_ahead(plan: Plan, row: Counted) -> int:
    """Registers of what a thread of a resident row reads late, several vectors ahead."""
    return beside_of(plan, row) * (row.reads > row.held and each_of(plan) >= MANY)


def asked_first(plan: Plan, region: Region, kernel: Row) -> tuple[Read, ...]:
    """What a thread whose row is resident asks for in the first pass though it needs it in a later one, so that it is
    on its way while the folds wait: gains and biases, where a few registers hold them, of rows that are whole
    vectors."""
    late = _late(region, kernel)
    is_few = each_of(plan) * sum(read.dtype.bytes for read in late) <= EARLY_BYTES
    is_apart = has_ends(plan, region, kernel) or stays_as_read(plan, region, kernel)
    return late if is_few and not is_apart else ()


def stays_as_read(plan: Plan, region: Region, kernel: Row) -> bool:
    """Whether the threads of a resident row keep it as it was read, in 16 bits, and compute again what several passes
    need of it: the row is long, whole vectors, and written. One that a cluster shares fits in the type of
    arithmetic."""
    if each_of(plan) <= HELD_COMPUTED or plan.widest == 1 or has_ends(plan, region, kernel):
        return False
    read = _read(region, kernel)
    is_one = len(read) == 1 and plan.cluster is not None
    row = {a.name for a in kernel.row if a in region.iters}
    is_written = any(row & names_in(y.index) for y in region.yields)
    halves = bool(read) and all(n.dtype.is_float and n.dtype.bytes == 2 for n in read)
    return halves and is_written and not is_one


@functools.lru_cache(maxsize=4096)
def _late(region: Region, kernel: Row) -> tuple[Read, ...]:
    return tuple(read_late(region, {a.name for a in kernel.row if a in region.iters}))


@functools.lru_cache(maxsize=4096)
def _read(region: Region, kernel: Row) -> tuple[Body, ...]:
    return tuple(read_twice(region, {a.name for a in kernel.row if a in region.iters}))


def has_ends(plan: Plan, region: Region, kernel: Row) -> bool:
    """Whether a row has elements beside its whole vectors, which are read behind them."""
    runs = (row_run(region, kernel, item.width) for item in plan.vectorize)
    return any(run is not None and not run.is_whole for run in runs)


def meeting_arrays(plan: Plan, region: Region, kernel: Row) -> tuple[Array, ...]:
    """Where a CTA's warps meet, two arrays of each dtype that take turns; then where the CTAs of a cluster do, a number
    for each fold."""
    lanes, ctas = plan.threads[0], team_of(plan) // plan.threads[0]
    if lanes <= WARP and ctas == 1:
        return ()
    dtypes = tuple(map(wide, folded(region, kernel)))
    turns = dict.fromkeys((dtype, number % 2) for number, dtype in enumerate(dtypes)) if lanes > WARP else ()
    warps = tuple(Array("part", dtype, (lanes // WARP,)) for dtype, _ in turns)
    return warps + (tuple(Array("all", dtype, (1,), cluster=ctas) for dtype in dtypes) if ctas > 1 else ())


def folded(region: Region, kernel: Row) -> tuple[DType, ...]:
    """The dtypes of what a row's threads fold together, in the order in which `passes` does it: the best element of
    argmax and argmin, then its place."""
    row = {a.name for a in kernel.row if a in region.iters}
    values = (region.let(name).expr for name in needed(region, (y.expr for y in region.yields)))
    bodies = [body for body in values if not row & set(free_axes(region, body))]
    bodies += [y.expr for y in region.yields if not row & {n for e in y.index for n in e.names()}]
    folds = (n for body in bodies for n in walk(body) if isinstance(n, Reduce))
    return tuple(
        d
        for f in folds
        for d in ((f.dtype,) if is_plain(f.op) else (f.body.dtype, place_dtype(f, extent_of(kernel.row))))
    )


def place_dtype(fold: Reduce, extent: Expr) -> DType:
    """In what argmax and argmin count the places of a row: 32 bits where they are known to be enough."""
    is_short = extent.constant is not None and extent.constant < 1 << 31
    return DTYPES["i32"] if is_short and fold.dtype.bits > 32 else fold.dtype


def divides_slowly(region: Region, kernel: Row) -> bool:
    """Whether something is divided but elements of the row by a number of the row, whose reciprocal is found once. A
    slow division is a call, around which ptxas spills where nothing limits it; elsewhere it spills under a limit."""
    row, names = {a.name for a in kernel.row}, tuple(a.name for a in region.iters)

    def varies(body: Body) -> bool:
        if isinstance(body, BroadcastInDim):
            return any((body.axes or names)[d] in row for d in body.dims)
        return not row.isdisjoint(free_axes(region, body))

    divisions = (n for n in nodes_of(region) if isinstance(n, Binary) and n.op == "fdiv")
    return not all(varies(n.left) and not varies(n.right) for n in divisions)


def team_of(plan: Plan) -> int:
    """Threads that share a row."""
    return plan.threads[0] * (math.prod(plan.cluster.shape) if plan.cluster else 1)


def each_of(plan: Plan) -> int:
    """Elements of a row that a thread has at once."""
    return plan.tile[1] // team_of(plan)
