"""The fields of a warp-specialised plan: `tile [rows, columns, sum]` of a CTA, which `consumers` warpgroups sum."""

from __future__ import annotations

import math

from ...ir.plan import Async, Cluster, Consumers, Load, Plan, SplitK, Store
from ...kit.phrase import Phrase
from ...kit.records import replace
from ...target.arch import ARCHS
from ...target.hopper import HELD_COLUMNS, SWIZZLE_BYTES, WARPGROUP_ROWS
from ..accepts import ANYTHING, Accepts, Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.boxes import WGMMA_FACTORS, View, is_along_sum
from ..parts.contraction_fields import cached, copies, grouped, tensors_of
from ..parts.leaving import BY_COLUMNS, PIECE, STAGED_STORES, columns_beside, rows_fit
from ..parts.pairs import fits_pair, left_view, results_of
from ..parts.tile_reads import block_reads, blocks_of, may_read_tiles, reads_of, tile_reads
from ..parts.windows import operand_views, windowed
from ..problem import Contraction
from .declare import COLUMNS, LAID_ALONG, across_of, is_fetched_along, piece_of
from .fetched import load_of

MOST_STAGES = 16
MOST_CONSUMERS = 3
SPANS = (0, 32, 64, SWIZZLE_BYTES)
LAYOUTS = ("padded", "padded_once", "turned", "turned_once")


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel = case.plan, case.kernel
    shared = kernel.right if plan.swap_ab else kernel.left
    in_turn = () if plan.is_split or not plan.persistent else (Consumers(2, "pingpong"),)
    depth, ends_alone = plan.tile[2], plan.has_one_tile
    ways = [is_swapped for is_swapped in (False, True) if _can_be_fed(plan, kernel, is_swapped)]
    return {
        "tile": _tile(case),
        "threads": only(()),
        "stages": only(*range(_least_stages(plan), MOST_STAGES + 1)),
        "math": only(*(math for math, names in WGMMA_FACTORS.items() if kernel.lhs.dtype.name in names)),
        "promote": only(*(() if plan.is_split else (0,)), *(() if _is_turned_word(case) else (depth,))),
        "partials": only(
            1,
            *((2,) if plan.promote and not plan.is_split and plan.parts == 1 and not _is_windowed(case) else ()),
        ),
        "consumers": only(*(Consumers(count, "cooperative") for count in range(1, MOST_CONSUMERS + 1)), *in_turn),
        "cluster": _cluster(case),
        "regs": only(None) if ends_alone else where("- | producer 8*n consumer 8*n", lambda _: True),
        "bind": bound(
            (tuple(a.name for a in kernel.batch), "cta.z"),
            (parts_of_axes(kernel.left, "o"), "cta.y"),
            (parts_of_axes(kernel.right, "o"), "cta.x"),
            (() if plan.takes_turns else parts_of_axes(shared, "i"), "warpgroup"),
        ),
        "persistent": _persistent(case),
        "order": only(None) if ends_alone else grouped(),
        "split_k": _split_k(case),
        "swap_ab": only(*ways) if ways else ANYTHING,
        "cache": only(cached(kernel)),
        "load": _loads(case),
        "store": only(()) if ends_alone else _stores(case),
        "async": _async(case),
        "barrier": only("mbarrier"),
        "layout": _copies(case, bool(ways)),
    }


def _least_stages(plan: Plan) -> int:
    """Tiles that must be on the chip at once: a slot is given back when the product of the next one has begun, or where
    a sum is promoted at each step, when its own is done."""
    return 1 if plan.promote and plan.partials == 1 else 2


def _tile(case: Case) -> Accepts:
    plan, kernel = case.plan, case.kernel
    count, width = plan.sharers, SWIZZLE_BYTES // kernel.lhs.dtype.bytes
    down, across = WARPGROUP_ROWS * count, HELD_COLUMNS if plan.swap_ab and plan.has_one_tile else PIECE
    sides = [f"{down}*n", f"{across}*n <= {COLUMNS}"]

    # of windows those of one tap, and of words that threads turn those of one row of the swizzle
    is_row = _is_windowed(case) or _is_turned_word(case)
    depths = (width,) if is_row else range(width, 1 << 24, width)

    def takes(tile: tuple[int, ...]) -> bool:
        rows, columns = tile[1::-1] if plan.swap_ab else tile[:2]
        is_whole = fits_pair(kernel, plan.swap_ab, rows // count, columns)
        return is_whole and rows % down == 0 and columns % across == 0 and columns <= COLUMNS and tile[2] in depths

    depth = f"{width}" if is_row else f"{width}*n"
    return where(f"[{', '.join(sides[::-1] if plan.swap_ab else sides)}, {depth}]", takes)


def _is_turned_word(case: Case) -> bool:
    """Whether threads turn words of the left factor, whose rows run across the sum, on their way to the product."""
    plan, kernel = case.plan, case.kernel
    left = kernel.rhs if plan.swap_ab else kernel.lhs
    is_along = is_fetched_along(plan, kernel, int(plan.swap_ab))
    return not plan.is_split and left.dtype.bytes == 4 and not is_along


def _can_be_fed(plan: Plan, kernel: Contraction, is_swapped: bool) -> bool:
    """Whether wgmma takes the operands so, the right one as the left where they are swapped."""
    along = [is_fetched_along(plan, kernel, side) for side in (0, 1)]
    places = enumerate(along[::-1] if is_swapped else along)
    return all(is_so or (kernel.lhs.dtype.bytes, place) not in LAID_ALONG for place, is_so in places)


def _copies(case: Case, is_fed: bool) -> Accepts:
    """Copies of the factors; one whose rows run across the sum must be turned where wgmma takes them neither way."""
    kernel = case.kernel
    if _is_windowed(case):
        return only(())
    across = [r.tensor for side, r in enumerate((kernel.lhs, kernel.rhs)) if not is_along_sum(kernel, side)]
    ways = dict.fromkeys(tensors_of(kernel), LAYOUTS)
    return copies(ways, kernel.siblings) if is_fed else where(", ".join(f"{t} turned" for t in across), lambda _: False)


def _loads(case: Case) -> Accepts:
    """Each factor by the copy engine, in swizzled rows of any length, or without a swizzle; both in the longest where
    the left one goes through registers. And what the epilogue reads at every place of the tile, which otherwise each
    thread reads for itself."""
    plan, kernel = case.plan, case.kernel
    is_held = plan.is_split or _is_turned_word(case)
    spans = (SWIZZLE_BYTES,) if is_held or _is_windowed(case) else SPANS
    ways_ = {
        tensor: (load.by, load.way)
        for tensor in tensors_of(kernel)
        for load in (load_of(case.problem.region, kernel, tensor, 0),)
    }

    result = results_of(plan, kernel)[0]
    is_read = may_read_tiles(result)
    found = [read for read, _ in tile_reads(case.problem.region, kernel.results)]
    found += [one.read for one in block_reads(case.problem.region, kernel.results) if one.fits(plan.tile[0])]
    readable = list(dict.fromkeys(r.tensor for r in found))
    read = readable if is_read else []

    def takes(given: tuple[Load, ...]) -> bool:
        factors = [item for item in given if item.tensor in ways_]
        others = [item for item in given if item.tensor not in ways_]
        return (
            sorted(item.tensor for item in factors) == sorted(tensors_of(kernel))
            and all((item.by, item.way) == ways_[item.tensor] for item in factors)
            and all(item.swizzle in spans for item in factors)
            and len({item.tensor for item in others}) == len(others)
            and all(item in (Load(item.tensor, "tma"), Load(item.tensor, "ld")) for item in others)
            and {item.tensor for item in others} <= set(read)
        )

    ways = [f"swizzle {'|'.join(str(span) for span in spans if span)}", *(("-",) if 0 in spans else ())]
    told = [f"{tensor} {' '.join(filter(None, ways_[tensor]))} ({' | '.join(ways)})" for tensor in tensors_of(kernel)]
    told += [f"{tensor} tma | ld" for tensor in read]
    words, at = ", ".join(told), int(plan.swap_ab)
    if readable and not is_read and result.tile[at] != (rows := WARPGROUP_ROWS * plan.sharers):
        words = Phrase(
            "{ways}, and {tensors} only where tile[{at}] is {rows}",
            ways=words,
            tensors=", ".join(readable),
            at=at,
            rows=rows,
        )
    return where(words, takes)


def _is_windowed(case: Case) -> bool:
    """Whether one of the factors is fetched as windows."""
    return windowed(operand_views(case.problem.region, case.kernel)) is not None


def _cluster(case: Case) -> Accepts:
    """CTAs along the rows share the right operand, along the columns the left; a multicast goes to all of them."""
    plan, kernel = case.plan, case.kernel
    if plan.parts > 1:
        return only(None)
    most, ends = ARCHS[plan.arch].ctas_per_cluster, (kernel.lhs.tensor, kernel.rhs.tensor)

    def takes(given: Cluster | None) -> bool:
        if given is None:
            return True
        if len(given.shape) != 2 or min(given.shape) != 1 or not 1 < max(given.shape) <= most:
            return False
        shared, apart = ends if given.shape[0] == 1 else ends[::-1]
        return given.multicast in ((), (shared,)) and (not given.multicast or shared != apart)

    ways = (f"{shape}  multicast [] | [{end}]" for shape, end in zip(("[1, n]", "[n, 1]"), ends))
    return where(f"- | {' | '.join(ways)}, 2 <= n <= {most}", takes)


def _persistent(case: Case) -> Accepts:
    count = math.prod(across_of(case.plan))
    least = int(case.kernel.pair is not None)  # whose sums end where the CTAs stay
    if case.plan.has_one_tile and not least:
        return only(0)
    return where(f"{count}*n", lambda ctas: ctas % count == 0 and ctas >= least)


def _split_k(case: Case) -> Accepts:
    plan = case.plan
    if case.kernel.pair is not None:
        return only(None)
    rows, most = plan.tile[0], ARCHS[plan.arch].ctas_per_cluster

    def takes(given: SplitK | None) -> bool:
        return given is None or given.by == "cluster" and 1 < given.parts <= most and rows % given.parts == 0

    return where(f"- | n cluster, 2 <= n <= {most}, {rows} = n * m", takes)


def _stores(case: Case) -> Accepts:
    """Each output from registers, or through shared memory where it takes the tile untransposed and rows of a piece are
    whole swizzled rows."""
    plan, region, kernel = case.plan, case.problem.region, case.kernel
    dtypes = {t.name: t.type.dtype for t in region.outputs}
    views = {y: left_view(region, kernel, y)[0] for y in region.yields}

    def takes(given: tuple[Store, ...]) -> bool:
        names = [item.tensor for item in given]
        if kernel.pair is not None and (set(names) != set(dtypes) or any(item.by != "tma" for item in given)):
            return False
        if any(item.by == BY_COLUMNS for item in given):
            is_of_all = set(names) == set(dtypes) and all(item.by == BY_COLUMNS for item in given)
            return is_of_all and columns_beside(region, kernel.right) is not None
        return len(set(names)) == len(names) and set(names) <= set(dtypes) and all(fits(given, i) for i in given)

    def fits(given: tuple[Store, ...], item: Store) -> bool:
        if item.by not in STAGED_STORES:
            return True
        sides = piece_of(replace(plan, store=given), region, kernel)
        columns = results_of(plan, kernel)[0].tile[0 if plan.swap_ab else 1]
        is_view = all(isinstance(view, View) for y, view in views.items() if y.output == item.tensor)
        return is_view and rows_fit(plan, dtypes[item.tensor], item.by, sides, columns)

    ways = {n: [by for by in STAGED_STORES if takes((Store(n, by),))] for n in dtypes}
    if kernel.pair is None and columns_beside(region, kernel.right) is not None:
        ways = {name: [*found, f"{BY_COLUMNS} (all)"] for name, found in ways.items()}
    return where(", ".join(f"{name} {'|'.join(('global', *found))}" for name, found in ways.items()), takes)


def _async(case: Case) -> Accepts:
    """How far the ring runs ahead, and whether it does beside the epilogue, where CTAs walk over tiles."""
    plan = case.plan
    kernel = case.kernel.results
    read = (*reads_of(plan, case.problem.region, kernel), *blocks_of(plan, case.problem.region, kernel))
    reads_ahead = bool(read)  # beside the epilogue of the tile before
    ways = ("epilogue",) if plan.takes_turns or reads_ahead else ("", "epilogue")
    ahead = range(_least_stages(plan), plan.stages + 1)
    if not ahead:
        return ANYTHING  # the stages are too few, and that is said of them
    if not plan.persistent:
        words = Phrase(
            "prefetch {least} to {most}, and no overlap, where persistent is 0", least=ahead.start, most=plan.stages
        )
        return where(words, lambda given: given is not None and not given.overlap and given.prefetch in ahead)
    return only(*(Async(number, overlap) for overlap in ways for number in ahead))
