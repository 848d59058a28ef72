"""A scan of long rows that reads them once: tiles are taken in turn, and each looks back at what those before it fold
to (`ir.gpu.across`).

    ticket turn of y.ticket[0] below 64 via place
    let tile = turn                                   rows too, where there are several: turn = row*tiles + tile
    for u in 0..4 unroll
      let n = 1024*tile + 256*u + thread.x            the number of a vector
      let i0 = 4*n                                    its first element
      y.acc[u] = the neutral element
      if n < 65000
        for v in 0..4 unroll
          y.acc[u] = add(y.acc[u], X.v[v])
          y.own[u, v] = y.acc[u]
    block_scan sum exclusive y.acc after y.total via part
    publish y.total to y.status[0, tile]
    look_back sum y.total from y.status[0, tile] via y.before
    for u in 0..4 unroll
      the values at i0 + v, of which the scan is add(add(y.total[0], y.acc[u]), y.own[u, v]), and the stores

Where neighbours are not side by side, a thread takes one element a turn; of a row that does not begin or end with a
whole vector the first or last neighbours are taken one by one (`side_by_side`). A reversed scan counts the axis from
its end. Words are set to 0 by an earlier kernel, `y.start`.
"""

from __future__ import annotations

from ...ir.accumulate import cast, fold_word, literal, start_of, wide
from ...ir.body import Axis, Binary, Body, Read, Scan
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.intervals import LARGEST_SIZE
from ...ir.neighbours import is_multiple
from ...ir.plan import Plan
from ...ir.region import Region, Tensor
from ...ir.runs import Run, row_run
from ...ir.traits import extent_of, scans_of
from ...ir.types import DTYPES, TensorType
from ...kit.records import dataclass, field
from ...target.words import LEVELS, WORDS_OF
from ..family import Before, Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, below, divides, names_in, needed, split
from ..parts.prefixes import Prefixes, limits_of, name_of
from ..parts.side_by_side import SideBySide
from ..problem import Prefix
from .declare import PLACE, before_of, part_of

START_THREADS = 256


@dataclass(frozen=True, slots=True)
class _Words:
    """Where one scan tells what its tiles fold to: the memory of its words, and of values that have none of their
    own."""

    status: Tensor
    held: Tensor | None


def look_back_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `scan_look_back`."""
    region, kernel = problem.region, problem.kernel
    width = plan.width_of(kernel.row[0].name)
    turns = plan.tile[1] // (plan.threads[0] * width)
    run = row_run(region, kernel, width) if width > 1 else Run(kernel.row, 1)
    return _Writer(plan, region, kernel, run, turns).kernel_of_tiles()


def before(plan: Plan, problem: Problem) -> Before:
    """The kernel that clears what CTAs tell one another, and its memory."""
    region, kernel = problem.region, problem.kernel
    return Before((start_kernel(plan, region, kernel),), look_back_workspaces(plan, region, kernel))


def tiles_of(plan: Plan, kernel: Prefix) -> Expr:
    """Tiles of a row, the first vector of which may cover elements before it too."""
    width, size = plan.width_of(kernel.row[0].name), kernel.row[0].size
    return (size if is_multiple(size, width) else size + width - 1).ceildiv(plan.tile[1])


def words_of(plan: Plan, region: Region, kernel: Prefix) -> tuple[Tensor, dict[Scan, _Words]]:
    """The memory of the counter and of each scan's words."""
    fresh = Fresh({*names_in(region)})
    counter = Tensor(fresh.name(f"{plan.name}.ticket"), TensorType(DTYPES["u32"], (ONE,)))
    shape = (Expr.of(LEVELS), *((extent_of(kernel.rows),) if kernel.rows else ()), tiles_of(plan, kernel))
    found = {}
    for scan in dict.fromkeys(scans_of(region)):
        word, is_apart = WORDS_OF[wide(scan.dtype).bytes]
        held = Tensor(fresh.name(f"{plan.name}.held"), TensorType(wide(scan.dtype), shape)) if is_apart else None
        found[scan] = _Words(Tensor(fresh.name(f"{plan.name}.status"), TensorType(DTYPES[word], shape)), held)
    return counter, found


def look_back_workspaces(plan: Plan, region: Region, kernel: Prefix) -> tuple[Tensor, ...]:
    """The memory that the kernel has beside the program's."""
    counter, words = words_of(plan, region, kernel)
    return (counter, *(t for w in words.values() for t in (w.status, w.held) if t is not None))


def start_kernel(plan: Plan, region: Region, kernel: Prefix) -> Kernel:
    """The earlier kernel, which sets the counter and all words to 0."""
    counter, words = words_of(plan, region, kernel)
    fresh = Fresh(names_in(region))
    word, shape = fresh.name("word"), next(iter(words.values())).status.type.shape
    axes = tuple(
        Axis(fresh.name(name), size)
        for name, size in zip(("level", "row", "tile") if kernel.rows else ("level", "tile"), shape)
    )
    at, total, zero = split(Expr.of(word), axes), extent_of(axes), {t: literal(0, DTYPES[t]) for t in ("u32", "u64")}
    place = tuple(at[a.name] for a in axes)
    stores = tuple(nodes.Store(Place(w.status.name, place), zero[w.status.type.dtype.name]) for w in words.values())
    body = (
        *_fits(total),
        nodes.Let(word, START_THREADS * Expr.of("cta.x") + "thread.x"),
        nodes.If((Bound(Expr.of(word), upper=total),), stores),
        nodes.If((Bound(Expr.of(word), equals=ZERO),), (nodes.Store(Place(counter.name, (ZERO,)), zero["u32"]),)),
    )
    return Kernel(
        f"{plan.name}.start", plan.regions, plan.arch, (total.ceildiv(START_THREADS),), (START_THREADS,), body
    )


def _fits(total: Expr) -> tuple[Statement, ...]:
    """That words are counted in an int."""
    guard = below(total, Expr.of(LARGEST_SIZE + 1))
    return (nodes.Assume(guard),) if guard else ()


@dataclass
class _Writer:
    """Writes the kernel: `turns` vectors of a run for each thread and tile."""

    plan: Plan
    region: Region
    kernel: Prefix
    run: Run
    turns: int
    done: dict[Scan, Body] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fresh = Fresh(
            {*names_in(self.region), *(t.name for t in look_back_workspaces(self.plan, self.region, self.kernel))}
        )
        self.counter, self.words = words_of(self.plan, self.region, self.kernel)
        self.tile = self.fresh.name("tile")
        self.row = self.kernel.rows[0].name if len(self.kernel.rows) == 1 else self.fresh.name("row")
        self.turn, self.number = self.fresh.name("u"), self.fresh.name("n")
        self.skew = Expr.of(self.fresh.name("skew")) if self.run.start != ZERO else ZERO
        self.place = (ZERO, *((Expr.of(self.row),) if self.kernel.rows else ()), Expr.of(self.tile))
        self.head: list[Statement] = []
        self.body: list[Statement] = []

    def kernel_of_tiles(self) -> Kernel:
        """The kernel."""
        tiles, rows = tiles_of(self.plan, self.kernel), extent_of(self.kernel.rows)
        first = self._in_turn(tiles, tiles * rows)
        for scan in self.words:
            self._scan(scan)
        self.body.append(self._each_turn([], self._stores()))
        body = (*_fits(LEVELS * tiles * rows), *first, *self.head, *self.body)
        return Kernel(self.plan.name, self.plan.regions, self.plan.arch, (tiles * rows,), self.plan.threads, body)

    def _in_turn(self, tiles: Expr, ctas: Expr) -> list[Statement]:
        """The ticket, and the tile and rows whose number it is."""
        place, taken = self.fresh.name("place"), self.fresh.name("turn") if self.kernel.rows else self.tile
        found: list[Statement] = [
            shared(place, PLACE),
            nodes.Ticket(taken, Place(self.counter.name, (ZERO,)), ctas, place),
        ]
        if self.kernel.rows:
            in_row, turn = Expr.of(self.fresh.name("tiles")), Expr.of(taken)
            found += [
                nodes.Let(str(in_row), tiles),
                nodes.Let(self.row, turn // in_row),
                nodes.Let(self.tile, turn - in_row * (turn // in_row)),
            ]
        if len(self.kernel.rows) > 1:
            found += [nodes.Let(name, e) for name, e in split(Expr.of(self.row), self.kernel.rows).items()]
        if self.skew != ZERO:
            found.append(nodes.Let(str(self.skew), self.run.skew))
        return found

    def _scan(self, scan: Scan) -> None:
        """One scan: what this thread holds of it, of the CTA, and of the tiles before."""
        dtype, base, words = wide(scan.dtype), name_of(self.region, scan), self.words[scan]
        names = {word: self.fresh.name(f"{base}.{word}") for word in ("acc", "total", "own", "before")}
        meets = part_of(self.plan, self.kernel, scan)
        part = self.fresh.name("part") if meets else ""
        self.head += [
            *(shared(part, array) for array in meets),
            shared(names["before"], before_of(scan)),
            nodes.Reg(names["acc"], type_of(dtype, self.turns)),
        ]
        self.head.append(nodes.Reg(names["total"], type_of(dtype, 1), init=start_of(scan.op, scan.dtype)))
        at = (Expr.of(self.turn),)
        mine = Read(names["acc"], at, dtype)
        neutral = nodes.Assign(Place(names["acc"], at), start_of(scan.op, scan.dtype))
        before = Binary(fold_word(scan.op, dtype), Read(names["total"], (ZERO,), dtype), mine, dtype)
        if self.run.width > 1:
            writer, neighbours = self._side_by_side()
            lines, element = writer.element(scan)
            here = (*at, Expr.of(neighbours.turn))
            self.head.append(nodes.Reg(names["own"], TensorType(dtype, (Expr.of(self.turns), Expr.of(self.run.width)))))
            step = [
                nodes.Assign(Place(names["acc"], at), Binary(fold_word(scan.op, dtype), mine, element, dtype)),
                nodes.Assign(Place(names["own"], here), mine),
            ]
            before = Binary(fold_word(scan.op, dtype), before, Read(names["own"], here, dtype), dtype)
            inside = neighbours.loop([*lines, *(reversed(step) if scan.exclusive else step)], limits_of(self.run))
        else:
            lines, element = Prefixes(self.region, self.fresh, done=self.done).element(scan)
            inside = [*lines, nodes.Assign(Place(names["acc"], at), element)]
        self.body.append(self._each_turn([neutral], inside))
        held = words.held.name if words.held else ""
        self.body.append(
            nodes.BlockScan(scan.op, scan.exclusive or self.run.width > 1, names["acc"], names["total"], part)
        )
        self.body.append(nodes.Publish(names["total"], Place(words.status.name, self.place), held))
        self.body.append(
            nodes.LookBack(scan.op, names["total"], Place(words.status.name, self.place), names["before"], held)
        )
        self.done[scan] = cast(before, scan.dtype)

    def _stores(self) -> list[Statement]:
        """Every value that the outputs need, and the stores."""
        if self.run.width == 1:
            return Prefixes(self.region, self.fresh, done=self.done).at_point(self.region.yields)
        writer, neighbours = self._side_by_side()
        lines = writer.values(needed(self.region, (y.expr for y in self.region.yields)))
        for item in self.region.yields:
            body, before = writer.body(item.expr)
            lines += before
            neighbours.store(item, body, writer.point, self.region.iters, lines)
        return neighbours.loop(lines, limits_of(self.run))

    def _side_by_side(self) -> tuple[Prefixes, SideBySide]:
        axis = self.kernel.row[0].name
        lets = {axis: self.run.width * Expr.of(self.number) - self.run.skew}
        neighbours = SideBySide(self.region, self.fresh, self.run, Expr.of(axis), lets)
        writer = Prefixes(self.region, self.fresh, done=self.done)
        writer.point[axis] = neighbours.place
        return writer, neighbours

    def _each_turn(self, first: list[Statement], inside: list[Statement]) -> Statement:
        """The statements for each vector of this thread, those `inside` where it is in the row."""
        threads, axis = self.plan.threads[0], self.kernel.row[0]
        count, number = self.run.covering(self.skew), Expr.of(self.number)
        taken = threads * self.turns * Expr.of(self.tile) + threads * Expr.of(self.turn) + "thread.x"
        place = self.run.width * number - self.skew
        lets = (
            nodes.Let(self.number, taken),
            nodes.Let(axis.name, axis.size - 1 - place if self.kernel.reverse else place),
        )
        guard = () if divides(threads * self.turns, count) else below(number, count)
        within = (nodes.If(guard, tuple(inside)),) if guard else tuple(inside)
        return nodes.For(self.turn, ZERO, Expr.of(self.turns), (*lets, *first, *within), unroll=0)
