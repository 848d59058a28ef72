"""Plans of a contraction for sm90's tensor cores: TMA, mbarriers, wgmma, clusters.

Proposed where the access maps let the copy engine fetch both operands. What that needs of the sizes (rows of whole 16
bytes) is proven, or holds at every shape set and is then assumed by the plan; at other sizes an alternative plan is
taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ...ir.expr import Bound
from ...ir.model import Model
from ...ir.plan import Async, Bind, Cache, Cluster, Consumers, Load, Order, Plan, Regs, SplitK, Store
from ...ir.plan.words import LEAST_SUM, least_sum
from ...ir.region import Region
from ...ir.traits import extent_of, sizes_of
from ...kit.numbers import Number, entry, least, most
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ...target.device import Device
from ...target.hopper import HELD_COLUMNS, WARPGROUP_ROWS
from ..candidate import batch_bind, guarded, holds_everywhere, layout_of, math_of, parts_of_axes
from ..family import Problem
from ..parts.boxes import (
    LINE_BYTES,
    WGMMA_FACTORS,
    View,
    multiple_of,
    operand_needs,
    padded,
    turned,
)
from ..parts.leaving import LEAST_SWIZZLE, STAGED_STORES, column_stores
from ..parts.pairs import fits_pair, left_view
from ..parts.tile_reads import block_reads, tile_reads
from ..parts.windows import operand_views, windowed
from ..problem import Contraction
from ..resources import MAX_STAGES
from ..sheet import Sheet, columns_of, rows_of
from .declare import OPERAND_DEPTH, OPERAND_SETS, ending_arrays, ends_held, ends_held_of, piece_of, smem_by_stages
from .fetched import load_of, product_fault
from .tiles import IN_TURNS, SWAPPED_TILES, TILES

WORD_COLUMNS = 160  # at most, of a warpgroup that has 128 rows and takes or leaves words
ROWS_COLUMNS = 160  # at most, of one that has 128 rows and whose outputs leave along their rows: with 176 plans spill
DEPTH_BYTES = 128  # along the sum: one swizzled row
ORDERS = (8, 16)  # rows of tiles that are taken together
REGS = {
    2: Regs(40, 232),
    3: Regs(32, 160),
}  # what this number of consumers leaves of an SM's registers to a producer, in steps of eight
SPLIT_REGS = {1: Regs(40, 232), 2: Regs(40, 216)}  # and to one more warpgroup, that splits words
SPLIT_COLUMNS = 144  # at most, of warpgroups of 64 rows: with 160 transposed plans spill
LEAST_STAGES = 3
# where all SMs fetch, as with a sum that is cut: what comes out of its turn holds up fewer steps at the end than in a
# longer ring
ENOUGH_STAGES = 8
PARTIALS = (1, 2)  # sums of a promoted accumulator that are held
PARTS = (2, 4, 8)  # of a sum that a cluster shares
MOST_CONSUMERS = 3  # warpgroups of a tile
RESIDENT = (1, 2)  # CTAs that end a sum in shared memory, on an SM: two hide one another's start and end
SPLIT_TILES = ((64, 64, 1), (64, 128, 1), (64, 256, 1), (128, 64, 2), (128, 128, 2))  # rows, columns, warpgroups
FEW_TILES = (
    (128, 64, 1),
    (64, 128, 2),
)  # of the transposed product, where tiles are few: rows at most, columns, warpgroups
FEW_CLUSTERS = (
    (1, 1),
    (2, 1),
    (1, 2),
)  # of CTAs that have a tile each: along the rows they share B, which is dear to fetch twice, along the columns A
FEW_ROWS = 128  # at most, for which tiles may be many; with more, none of the 64 of a product need be empty


def propose_warp_specialized(problem: Problem, card: Device) -> tuple[Sheet, ...]:
    """Every tile with its clusters and orders, each with as many stages as fit; none where the tensor cores or the copy
    engine cannot serve."""
    kernel, region, model = problem.kernel, problem.region, problem.model
    math = math_of(kernel, card)
    if not card.arch.has_tma or math not in WGMMA_FACTORS or product_fault(region, kernel, WGMMA_FACTORS[math]):
        return ()
    views = [v for v in operand_views(region, kernel) if isinstance(v, View)]
    if len(views) < 2:
        return ()
    found: list[Sheet] = []
    place = 0  # the number of a way's first one among all
    for way in _ways(kernel, model, region, views):
        if holds_everywhere(way.needs(kernel, model, LEAST_SUM[math]), model):
            of_way = _Proposed(kernel, region, model, card, way)
            for sheets in (of_way.staying(), of_way.shared() if math != "tf32x3" and kernel.pair is None else ()):
                several = [replace(sheet, places=[place + at for at in sheet.places]) for sheet in sheets]
                place = max((at + 1 for sheet in several for at in sheet.places), default=place)
                found += several
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Way:
    """How tensors are moved: which operands are padded first, how outputs leave, and the views for which something must
    hold; what the epilogue reads by tiles."""

    padded: tuple[str, ...]
    turned: tuple[str, ...]
    stores: tuple[Store, ...]
    views: tuple[View, ...]
    operands: tuple[View, ...]
    read: tuple[str, ...] = ()  # tensors whose tiles the copy engine brings to the epilogue

    def takes(self, is_swapped: bool) -> bool:
        """Whether wgmma takes the operands so: of 16 bits in either order; others along the sum, but for a left one of
        words, which may come from registers."""
        size = self.operands[0].tensor.type.dtype.bytes
        left, right = (v.inner == "sum" for v in (self.operands[::-1] if is_swapped else self.operands))
        return size == 2 or right and (left or size == 4)

    def needs(self, kernel: Contraction, model: Model, least: int, with_stores: bool = True) -> tuple[Bound, ...]:
        """What must hold of the symbols."""
        return operand_needs(kernel, model, (*self.operands, *(self.views if with_stores else ())), least)


def _ways(kernel: Contraction, model: Model, region: Region, views: list[View]) -> Iterator[Way]:
    """With operands turned whose rows must run along the sum: as the tensors are, where the copy engine takes them at
    every shape set; with the operands padded that it does not take; with those whose rows do not begin on lines; and
    with all, which assumes nothing of the rows of any tensor."""
    across = _across(kernel, views)
    is_windowed = any(v.windows for v in views)
    views = [turned(v, region) if v.tensor.name in across else v for v in views]
    needy = tuple(dict.fromkeys(v.tensor.name for v in views if v.needs()))
    unfit = tuple(n for n in needy if not holds_everywhere(next(v for v in views if v.tensor.name == n).needs(), model))
    astray = tuple(
        n for n in needy if not holds_everywhere(_lines(next(v for v in views if v.tensor.name == n)), model)
    )
    if is_windowed and (across or unfit):
        return  # a copy of windows is the matrix of them
    for names, is_free in (
        [((), False)] if is_windowed else dict.fromkeys([(unfit, False), (astray, False), (needy, True)])
    ):
        stores, stored = [], []
        for item in region.yields:
            view, _ = left_view(region, kernel, item)
            if not isinstance(view, View):
                continue
            by_engine = _is_movable(view, model, is_free)
            stores.append(Store(item.output, "tma" if by_engine else "rows"))
            stored += [view] if by_engine else []
        if kernel.pair is not None and len(stored) < len(region.yields):
            continue
        reads = [view for _, view in tile_reads(region, kernel.results)]
        reads += [one.view for one in block_reads(region, kernel.results)]
        read = [view for view in reads if stored and _is_movable(view, model, is_free)]
        yield Way(
            names,
            across,
            tuple(dict.fromkeys(stores)) or column_stores(region, kernel.right),
            (*stored, *read),
            tuple(padded(v, region) if v.tensor.name in names else v for v in views),
            tuple(dict.fromkeys(view.tensor.name for view in read)),
        )


def _is_movable(view: View, model: Model, is_free: bool) -> bool:
    """Whether the copy engine takes a tensor as it is in memory, at every shape set; of what assumes nothing
    (`is_free`), at every size."""
    return not view.needs() or not is_free and holds_everywhere(view.needs(), model)


def _across(kernel: Contraction, views: list[View]) -> tuple[str, ...]:
    """The operands that wgmma takes only along the sum, and whose rows run across it: bytes, and of words one where
    both do. None where they are one tensor, which then runs both ways."""
    found = tuple(v.tensor.name for v in views if v.inner != "sum")
    size = kernel.lhs.dtype.bytes
    if size == 2 or kernel.lhs.tensor == kernel.rhs.tensor or size == 4 and len(found) < 2:
        return ()
    return found[-1:] if size == 4 else found


def _lines(view: View) -> tuple[Bound, ...]:
    """The guard that every row begins on a line."""
    return multiple_of(view.dims[-1].size, LINE_BYTES // view.tensor.type.dtype.bytes)


@dataclass(frozen=True, slots=True)
class _Proposed:
    """The plans of one way."""

    kernel: Contraction
    region: Region
    model: Model
    card: Device
    way: Way

    @property
    def math(self) -> str:
        """How tensor cores multiply the factors."""
        return math_of(self.kernel, self.card)

    def staying(self) -> Iterator[Sheet]:
        """Those whose CTAs stay and walk over the tiles: every tile with its clusters, orders and partial sums. The
        operands of a transposed product change sides, and its outputs may leave otherwise."""
        sizes, place = {t.name: t.type.dtype.bytes for t in self.region.outputs}, 0
        is_staged = all(sizes[s.tensor] == 2 for s in self.way.stores)
        found = _tiles(self.way, is_staged, max(self.kernel.lhs.dtype.bytes, *sizes.values()))
        for (is_swapped, reads), several in itertools.groupby(found, key=lambda tile: (tile[4], self._reads(tile))):
            stores = () if is_swapped and not is_staged else self.way.stores
            tiles = [tile for tile in several if self._holds(tile, stores)]
            if tiles:
                sheet = self._staying(tiles, stores, is_swapped, reads, place)
                place += sheet.count
                yield sheet
        is_whole = self._holds((*IN_TURNS, False), self.way.stores)
        if is_whole and is_staged and self.kernel.lhs.dtype.bytes == 2 and self.way.takes(False) and not self.way.read:
            yield self._staying([(*IN_TURNS, False)], self.way.stores, False, (), place, "pingpong")

    def _reads(self, tile: tuple) -> tuple[str, ...]:
        """The tensors that the copy engine brings to the epilogue of a tile."""
        rows, columns, consumers, _, is_swapped = tile
        columns = columns // 2 if self.kernel.pair else columns
        if (columns if is_swapped else rows) != WARPGROUP_ROWS * consumers:
            return ()
        found = block_reads(self.region, self.kernel.results)
        apart = {one.read.tensor for one in found if not one.fits(rows)}
        return tuple(name for name in self.way.read if name not in apart)

    def _holds(self, tile: tuple, stores: tuple[Store, ...]) -> bool:
        """Whether registers hold what a warpgroup needs of a tile beside its sums."""
        rows, columns, consumers, _, is_swapped = tile
        down, across = (columns, rows) if is_swapped else (rows, columns)
        is_tall = down > WARPGROUP_ROWS * consumers
        if not fits_pair(self.kernel, is_swapped, down // consumers, across):
            return False
        if self.math == "tf32x3" and (consumers not in SPLIT_REGS or is_tall or across > SPLIT_COLUMNS):
            return False
        return not (is_tall and across > ROWS_COLUMNS and any(s.by == "rows" for s in stores))

    def _staying(
        self,
        tiles: list[tuple],
        stores: tuple[Store, ...],
        is_swapped: bool,
        reads: tuple[str, ...],
        place: int,
        mode: str = "cooperative",
    ) -> Sheet:
        """The sheet of some tiles, all of them swapped or none, and all with the same tensors that are read by
        tiles."""
        kernel, region, card = self.kernel, self.region, self.card
        rows, columns, consumers = columns_of(tile[:3] for tile in tiles)
        base = self._base(rows, columns, consumers, is_swapped)
        if mode != base.consumers.mode:  # each warpgroup has a tile
            binds = tuple(bind for bind in base.bind if bind.place != "warpgroup")
            base = replace(base, consumers=replace(base.consumers, mode=mode), bind=binds)
        read = reads if any(store.by == "tma" for store in stores) else ()
        base = replace(
            base,
            load=(*base.load, *(Load(tensor, "tma") for tensor in read)),
            persistent=card.sms,  # a cluster's CTAs together, as `_whole` rounds it
            store=stores,
            assume=self.way.needs(kernel, self.model, LEAST_SUM[self.math], with_stores=bool(stores)),
        )
        (fitting,) = _stages(base, region, kernel, card)
        partials = _partials(base, region, kernel)
        of_tile, down, across, width, sums = columns_of(
            (number, *shape, order, held)
            for number, tile in enumerate(tiles)
            for shape in tile[3]
            for order, held in itertools.product(ORDERS, partials)
        )
        fitting = fitting[of_tile]
        stages = most(fitting, 1)
        plan = replace(
            rows_of(base, of_tile),
            partials=sums,
            stages=stages,
            cluster=Cluster((down, across), (kernel.lhs.tensor, kernel.rhs.tensor)),
            order=Order("group", width),
            asynchrony=Async(stages, "epilogue"),
        )
        stops = _too_narrow(plan, region, kernel) | _too_few(fitting)
        return Sheet(plan, len(of_tile), range(place, place + len(of_tile)), stops, self._whole)

    def shared(self) -> Iterator[Sheet]:
        """Those whose sum ends in shared memory: cut in parts, where there are as many steps at every shape set, or
        transposed, where there are few rows or no more CTAs than SMs."""
        found = [(tile, parts, (1, 1), False) for tile in SPLIT_TILES for parts in PARTS if self.way.takes(False)]
        found += (
            [(*how, True) for how in _few_tiles(self.kernel, self.model, self.card)] if self.way.takes(True) else []
        )
        assumed = {parts: self._assumed(parts) for parts in (1, *PARTS)}
        alike: dict[tuple, list[tuple]] = {}  # what rows of a sheet have in common
        for number, (tile, parts, shape, is_swapped) in enumerate(found):
            if holds_everywhere(assumed[parts], self.model):
                key = is_swapped, parts > 1, ends_held_of(parts, is_swapped, tile[1]), assumed[parts]
                alike.setdefault(key, []).append((number, *tile, parts, *shape))
        for (is_swapped, is_cut, _, assume), several in alike.items():
            yield self._shared(several, is_swapped, is_cut, assume)

    def _assumed(self, parts: int) -> tuple[Bound, ...]:
        """What a sum that is cut in parts assumes."""
        depth = DEPTH_BYTES // self.kernel.lhs.dtype.bytes
        return self.way.needs(self.kernel, self.model, least_sum(depth, parts, self.math), with_stores=False)

    def _shared(self, tiles: list[tuple], is_swapped: bool, is_cut: bool, assume: tuple[Bound, ...]) -> Sheet:
        """The sheet of some tiles whose sum ends in shared memory: with as long a ring as fits, alone on an SM or
        beside another CTA, where the sum is whole, and with one that is long enough."""
        kernel, region, card, both = self.kernel, self.region, self.card, len(RESIDENT) * 2
        numbers, rows, columns, consumers, parts, down, across = columns_of(tiles)
        base = replace(
            self._base(rows, columns, consumers, is_swapped),
            regs=None,
            split_k=SplitK(parts, "cluster") if is_cut else None,
            cluster=Cluster((down, across), (kernel.lhs.tensor, kernel.rhs.tensor)),
            assume=assume,
        )
        longest = [stages.tolist() for stages in _stages(base, region, kernel, card, RESIDENT)]
        found = [
            (tile, stages, number * both + at * 2 + of_ring)
            for tile, number in enumerate(numbers.tolist())
            for at, (resident, fitting) in enumerate(zip(RESIDENT, longest))
            if resident == 1 or fitting[tile] >= LEAST_STAGES
            for of_ring, stages in enumerate(
                dict.fromkeys((*(() if is_cut else (fitting[tile],)), min(fitting[tile], ENOUGH_STAGES)))
            )
        ]
        of_tile, fitting, places = columns_of(found)
        stages = most(fitting, 1)
        plan = replace(rows_of(base, of_tile), stages=stages, asynchrony=Async(stages))
        stops = _too_many_held(plan, region, kernel, card) | _too_few(fitting)
        return Sheet(plan, len(found), places.tolist(), stops, self._whole)

    def _base(self, rows: Number, columns: Number, consumers: Number, is_swapped: bool) -> Plan:
        """What all plans of these tiles have in common."""
        kernel, region, card = self.kernel, self.region, self.card
        shared = kernel.right if is_swapped else kernel.left
        depth = DEPTH_BYTES // kernel.lhs.dtype.bytes
        outermost = f"{kernel.sum[0].name}.o"
        cached = tuple(dict.fromkeys((kernel.lhs.tensor, kernel.rhs.tensor)))
        binds = (
            *batch_bind(kernel),
            Bind(parts_of_axes(kernel.left, "o"), "cta.y"),
            Bind(parts_of_axes(kernel.right, "o"), "cta.x"),
            Bind(parts_of_axes(shared, "i"), "warpgroup"),
        )
        no_regs = Regs(0, card.arch.registers_per_thread)  # as many as there are
        regs = [self._regs.get(count, no_regs) for count in range(MOST_CONSUMERS + 1)]
        return Plan(
            regions=(region.name,),
            arch=card.arch.name,
            family="contraction",
            algo="warp_specialized",
            tile=(rows, columns, depth),
            math=self.math,
            promote=depth if kernel.lhs.dtype.bytes == 1 or self.math == "tf32x3" else 0,
            consumers=Consumers(consumers, "cooperative"),
            regs=Regs(
                entry([one.producer for one in regs], consumers), entry([one.consumer for one in regs], consumers)
            ),
            bind=binds,
            swap_ab=is_swapped,
            cache=tuple(Cache(tensor, "smem", outermost) for tensor in cached),
            load=tuple(load_of(region, kernel, tensor, DEPTH_BYTES) for tensor in cached),
            epilogue=tuple(let.name for let in region.lets if let.name not in kernel.values),
            layout=layout_of(self.way.padded, self.way.turned, self.model),
            barrier="mbarrier",
        )

    @property
    def _regs(self) -> dict[int, Regs]:
        return SPLIT_REGS if self.math == "tf32x3" else REGS

    def _whole(self, plan: Plan) -> Plan:
        """The plan of a row: one CTA alone is not a cluster, whole clusters stay, what a tile may hang over is
        guarded."""
        kernel, (down, across) = self.kernel, plan.cluster.shape
        return replace(
            guarded(plan, self.region, kernel),
            cluster=_cluster(kernel, (down, across)),
            persistent=plan.persistent // (down * across) * down * across,
            regs=plan.regs and self._regs.get(plan.consumers.count),
        )


def _few_tiles(
    kernel: Contraction, model: Model, card: Device
) -> Iterator[tuple[tuple[int, int, int], int, tuple[int, int]]]:
    """Tiles of the transposed product, each with the parts of its sum and its cluster: for each number of tiles along
    the rows as few rows as do, so that few are beyond the end, which the copy engine is slow to fill. With more than a
    few rows one warpgroup was the faster wherever both were timed."""
    rows, columns, batch = (
        extent_of(group).evaluate(sizes_of(model)) for group in (kernel.left, kernel.right, kernel.batch)
    )
    is_few = rows <= FEW_ROWS
    sides = dict.fromkeys(
        -(-rows // (HELD_COLUMNS * count)) * HELD_COLUMNS
        for count in range(1, 1 + min(card.sms, -(-rows // HELD_COLUMNS)))
    )
    for (highest, width, consumers), side in itertools.product(FEW_TILES, sides):
        down = -(-rows // side)
        # that a tile may have; where a size is 0 no tile takes any
        ctas = max(PARTS) if is_few else card.sms // max(1, batch * down * -(-columns // width))
        if side <= highest and ctas and (is_few or consumers == 1):
            yield from (((side, width, consumers), parts, (1, 1)) for parts in PARTS if parts <= ctas)
            yield from (
                ((side, width, consumers), 1, shape) for shape in FEW_CLUSTERS if not is_few or shape[0] == min(2, down)
            )


def _cluster(kernel: Contraction, shape: tuple[int, int]) -> Cluster | None:
    """CTAs along the rows share the right operand, along the columns the left; one alone is not a cluster."""
    shared = {(2, 1): kernel.rhs.tensor, (1, 2): kernel.lhs.tensor}.get(shape)
    return Cluster(shape, (shared,)) if shared else None


def _partials(base: Plan, region: Region, kernel: Contraction) -> tuple[int, ...]:
    """How many sums of a promoted accumulator may be held; of windows one, since there is no step behind the last."""
    is_one = not base.promote or base.is_split or windowed(operand_views(region, kernel)) is not None
    return (1,) if is_one else PARTIALS


def _too_narrow(plan: Plan, region: Region, kernel: Contraction) -> dict[int, str]:
    """By row why an output cannot leave through shared memory in pieces of these columns, in words."""
    staged = [t for t in region.outputs if plan.store_of(t.name).by in STAGED_STORES]
    pieces = piece_of(plan, region, kernel)[not plan.swap_ab] if staged else ()
    columns = np.broadcast_to(pieces, plan.tile[0].shape).tolist() if staged else []
    return {
        row: Phrase("{name} leaves in rows of {columns} bytes", name=narrow.name, columns=wide)
        for row, wide in enumerate(columns)
        for narrow in staged[::-1]
        if wide * narrow.type.dtype.bytes < LEAST_SWIZZLE
    }


def _too_many_held(plan: Plan, region: Region, kernel: Contraction, card: Device) -> dict[int, str]:
    """By row why registers do not hold all outputs of a cut sum that ends there, in words."""
    if not ends_held(plan):
        return {}
    limit = card.arch.registers_per_thread
    held = np.broadcast_to(ending_arrays(plan, region, kernel), plan.tile[0].shape).tolist()
    return {row: Phrase("over {most} registers a thread", most=limit) for row, one in enumerate(held) if one > limit}


def _too_few(stages: Number) -> dict[int, str]:
    """By row why a ring that has this number of stages is too short."""
    return {
        row: Phrase("only {stages} stages fit", stages=count)
        for row, count in enumerate(stages.tolist())
        if count < LEAST_STAGES
    }


def _tiles(way: Way, is_staged: bool, widest: int) -> Iterator[tuple]:
    """Tiles with their warpgroups and clusters, and whether they are swapped: where outputs leave transposed through
    shared memory (`is_staged`), or where wgmma takes the operands in no other way; outputs then leave from registers,
    whose neighbours along a row are eight lanes apart. Of factors and outputs the `widest` has this number of bytes:
    words take registers beside the accumulators."""
    found = [(*tile, False) for tile in TILES if way.takes(False)]
    if way.takes(True) and not found:
        found = [
            (columns, rows, count, tuple(c[::-1] for c in clusters), True) for rows, columns, count, clusters in TILES
        ]
    found += [(*tile, True) for tile in SWAPPED_TILES if way.takes(True) and (is_staged or not way.takes(False))]
    for tile in found:
        rows, columns = tile[1::-1] if tile[4] else tile[:2]
        left = way.operands[tile[4]]
        # as many registers as these columns
        held = OPERAND_DEPTH * OPERAND_SETS if left.inner != "sum" and left.tensor.type.dtype.bytes == 4 else 0
        is_tall = rows // tile[2] > WARPGROUP_ROWS
        if not is_tall or widest <= 2 or columns + held <= WORD_COLUMNS and (is_staged or not tile[4]):
            yield tile


def _stages(
    plan: Plan, region: Region, kernel: Contraction, card: Device, residents: tuple[int, ...] = (1,)
) -> list[Number]:
    """As many as fit in shared memory, or in that of an SM where several CTAs are to be resident: a column for each
    number of these."""
    arch, taken = card.arch, smem_by_stages(plan, region, kernel)
    one = taken(1)
    each = taken(2) - one
    found = []
    for resident in residents:
        room = min(arch.smem_per_cta, arch.smem_per_sm // resident - arch.smem_reserved)
        stages = least(MAX_STAGES, most(0, 1 + (room - one) // each))
        while (more := (stages < MAX_STAGES) & (taken(stages + 1) <= room)).any():
            stages = stages + more  # what leaves takes less room where there is less
        found.append(stages)
    return found
