"""Plans of a row kernel: a row is shared by a few lanes of a warp, by a CTA or by a cluster; kept in registers where it
always fits, else read again each pass, some accesses of a thread on their way at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import is_plain, wide
from ...ir.body import Reduce, walk
from ...ir.plan import Bind, Cluster, Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import Run, row_runs
from ...ir.traits import bodies_of, extent_of
from ...kit.records import dataclass
from ...target.device import Device
from ..candidate import over_registers, parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes, most_of
from ..parts.kept import bytes_beside, read_twice, words_beside, words_resident
from ..problem import Row
from ..resources import WALK
from .declare import each_of, stays_as_read

THREADS = (32, 64, 128, 256, 512, 1024)
LANES = (1, 2, 4, 8, 16, 32)  # of a warp that share a row with no other warp
OF_ROWS = (128, 512)  # threads of a CTA that has several rows
CLUSTERS = (2, 4, 8)
OF_CLUSTER = (256, 512, 1024)
LONG = 4096  # elements of a row that is worth a cluster
HELD = 16  # elements of a row that a thread keeps in registers,
HELD_ALONE = 32  # and in a CTA of some warps
HELD_AS_READ = 64  # and as they were read in 16 bits,
MOST_AS_READ = 2  # of at most this number of tensors
OF_LONG = (128, 256, 512)  # threads of a CTA that keeps a row as it was read
HELD_OF_CLUSTER = 64  # and where each CTA has an SM to itself
OF_WARPS = (128, 256, 512, 1024)  # threads of a CTA that keeps as many
PIECE_BYTES = 64  # that lanes which share a row should move together
SHORT_BYTES = 32  # of a row that a lane has alone, element by element
AT_ONCE = (2, 4, 8)  # vectors of a streamed row that a thread has on their way at once,
MOST_AT_ONCE = 256  # and bytes of them at most: of more the compiler spills some


def propose_resident(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each team of threads where the row's longest length fits their registers. A cluster has the rows that no CTA
    keeps."""
    kernel, region = problem.kernel, problem.region
    row = {a.name for a in kernel.row if a in region.iters}
    words, read = words_resident(region, kernel), len(read_twice(region, row))
    for plans in _ways(problem, card):
        found = [
            plan
            for threads in THREADS
            for plan in plans.resident((threads,), HELD_ALONE if threads in OF_WARPS else HELD)
        ]
        for threads in OF_ROWS if kernel.rows else ():
            for lanes in LANES:
                found += plans.resident((lanes, threads // lanes), HELD_ALONE)
        long = [p for threads in OF_LONG for p in plans.resident((threads,), HELD_AS_READ)]
        long = [p for p in long if read <= MOST_AS_READ and stays_as_read(p, region, kernel)]
        is_long = plans.longest is not None and plans.longest >= LONG and not long
        found += long
        for ctas in CLUSTERS if card.arch.has_tma and is_long and _is_of_fp32(region) else ():
            for threads in OF_CLUSTER:
                found += plans.resident((threads,), HELD_OF_CLUSTER if threads < OF_CLUSTER[-1] else HELD, ctas)
        for p in found:
            held = read if stays_as_read(p, region, kernel) else words
            yield Proposal(p, over_registers(plans.beside + (each_of(p) + 1) * held, card))


def propose_streamed(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each team of threads with several accesses at once."""
    for plans in _ways(problem, card):
        found = [plan for threads in THREADS for many in plans.at_once for plan in plans.streamed((threads,), many)]
        found += plans.streamed((LANES[-1], OF_ROWS[0] // LANES[-1]), AT_ONCE[1]) if problem.kernel.rows else ()
        yield from (Proposal(p, over_registers(plans.beside, card)) for p in found)


def _ways(problem: Problem, card: Device) -> Iterator[_Plans]:
    """In vectors of each width in which neighbours are known to be side by side, and element by element."""
    kernel, region = problem.kernel, problem.region
    longest = most_of(extent_of(kernel.row), problem.model)
    runs = tuple(row_runs(region, kernel))
    for run in (*runs, None):
        beside = run.width * words_beside(region, {a.name for a in run.axes}, True) if run else 0
        yield _Plans(kernel, region, card.arch.name, longest, run, beside, not runs)


def _is_of_fp32(region: Region) -> bool:
    """Whether all folds are in fp32, which the CTAs of a cluster can read from one another."""
    folds = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Reduce)]
    return all(is_plain(fold.op) and wide(fold.dtype).name == "fp32" for fold in folds)


@dataclass(frozen=True, slots=True)
class _Plans:
    """The plans of one kernel in one way to move its elements, which takes registers `beside` what is held; whether
    that is the only way."""

    kernel: Row
    region: Region
    arch: str
    longest: int | None
    run: Run | None
    beside: int
    is_alone: bool

    @property
    def width(self) -> int:
        """Elements of an access."""
        return self.run.width if self.run else 1

    @property
    def at_once(self) -> tuple[int, ...]:
        """Accesses of a streamed row that a thread has on their way at once."""
        if self.run is None:
            return (WALK,)
        each = self.width * bytes_beside(self.region, {a.name for a in self.run.axes})
        return tuple(many for many in AT_ONCE if many * each <= MOST_AT_ONCE)

    def resident(self, threads: tuple[int, ...], most: int, ctas: int = 1) -> Iterator[Plan]:
        """The row in registers, where a thread has at most this number of elements, and every thread some."""
        team = threads[0] * ctas
        each = -(-(self.longest or 0) // (team * self.width)) * self.width
        is_busy = ctas == 1 and len(threads) == 1 or team * self.width < 2 * (self.longest or 0)
        # the guards of many elements take registers, one by one
        is_even = self.run is not None or self.is_alone or each < HELD or each * team == self.longest
        if (
            self.longest is not None
            and each <= most
            and is_busy
            and is_even
            and self._has_ends(team)
            and self._is_even(threads, each)
        ):
            yield self._plan("row_resident", threads, max(each, self.width) * team, ctas)

    def _is_even(self, threads: tuple[int, ...], each: int) -> bool:
        """Whether what neighbouring lanes move at once is together: a row in one access each, pieces of lines, or rows
        of a few elements of a lane each, some of which share a line."""
        least = min(t.type.dtype.bytes for t in (*self.region.inputs, *self.region.outputs))
        together = threads[0] * self.width * least
        is_few = self.run is None and threads[0] == 1 and each * least <= SHORT_BYTES
        return len(threads) == 1 or each <= self.width or together >= PIECE_BYTES or is_few

    def streamed(self, threads: tuple[int, ...], many: int) -> Iterator[Plan]:
        """The row read again at each pass, several accesses of a thread at once."""
        if self._has_ends(threads[0]):
            yield self._plan("row_streamed", threads, threads[0] * many * self.width, 1)

    def _has_ends(self, team: int) -> bool:
        return self.run is None or self.run.most_left <= team

    def _plan(self, algo: str, threads: tuple[int, ...], length: int, ctas: int) -> Plan:
        rows = threads[1] if len(threads) > 1 else 1
        binds = [Bind(parts_of_axes(self.kernel.rows, "o"), "cta.x")] if self.kernel.rows else []
        binds += [Bind(parts_of_axes(self.kernel.rows, "i"), "thread.y")] if rows > 1 else []
        return Plan(
            regions=(self.region.name,),
            arch=self.arch,
            family="row",
            algo=algo,
            tile=(rows, length),
            threads=threads,
            cluster=Cluster((1, ctas)) if ctas > 1 else None,
            bind=(*binds, Bind(parts_of_axes(self.kernel.row, "i"), "thread.x")),
            vectorize=(Vectorize("*".join(a.name for a in self.run.axes), self.run.width),) if self.run else (),
            predicate=(
                *(guarded_axes(self.kernel.rows, rows) if rows > 1 else ()),
                *guarded_axes(self.kernel.row, length),
            ),
        )
