"""Plans of the flash family: 64 rows for each warpgroup, as many columns of scores as registers hold beside the
output's sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.expr import Bound, Floor
from ...ir.model import Model
from ...ir.plan import Async, Cache, Consumers, Edge, Load, Order, Plan, Regs, Store
from ...ir.traits import extent_of, sizes_of
from ...kit.phrase import Phrase
from ...kit.records import replace
from ...target.device import Device
from ...target.hopper import WARPGROUP_ROWS
from ..attention import Streaming
from ..attention.ahead import assumptions, needs_of
from ..attention.score import blocks_split
from ..candidate import holds_everywhere
from ..family import Problem, Proposal
from ..parts.boxes import STRIDE_BYTES
from ..parts.drawn import is_drawn
from ..parts.guards import guarded_axes
from ..parts.touched import walked_share
from ..resources import taken_by
from .declare import ADDRESSING, STEP, STREAMED, declare, most_registers, registers_of, span_of
from .legal import bind_of, threads_of_one_warp
from .match import Flash, flash_of

CONSUMERS = (2, 3, 1)
COLUMNS = (128, 64, 96, 80, 112, 144, 160, 176, 192, 48, 32)
STAGES = (4, 3, 2)
REGS = {2: Regs(24, 240), 3: Regs(32, 160)}
REGS_OF_TILES = {**REGS, 2: Regs(40, 232)}  # where the producer fetches what scores meet besides, with 24 it spills
SHARE_OF_L2 = 32 << 20  # bytes of keys and values that heads which run together may have
MOST_STREAMED = 4 * SHARE_OF_L2  # measured on an H200: 34 to 134 MB are faster, 268 MB slower
LEAST_STAGED = 16  # rows of a warp: an output of fewer leaves from registers, and takes no shared memory
MOST_ORDER = 256
MOST_DRAWN = 128  # columns of a head: of 256, tiles that are drawn are slower than those that take turns
MOST_STARTED = 2  # tiles for each SM, where the CTA of one starts as that of another ends
LEAST_DRAWN = (
    40_000  # elements of keys that a tile meets: measured on an H200, with 37,000 it is slower, with 41,000 faster
)


def propose_flash(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Every tile that registers and shared memory hold; none where the copy engine or the tensor cores cannot serve."""
    kernel, found = problem.kernel, _found(problem, card)
    if isinstance(found, str):
        return ()
    ways, proposals = tuple(_ways(found, problem.model)), []
    height, shorter = found.height.constant, (STEP,) if found.block % COLUMNS[-1] else ()
    for count in (c for c in CONSUMERS if height is None or c <= -(-max(height, 1) // WARPGROUP_ROWS)):
        for columns in (c for c in (*COLUMNS, *shorter) if found.block % c == 0):
            for ahead, (tiles, assume) in itertools.product((True, False), ways):
                if not all(span_of(read, columns) for read, _ in found.tiles if read.tensor in tiles):
                    continue
                plan = _largest(found, problem, card, count, columns, ahead, tiles, assume)
                plans = (plan,) if ahead else (plan, *_at_once(found, plan, problem, card))
                proposals += [Proposal(one, _refused(one, kernel)) for one in plans]
    return tuple(proposals)


def _ways(found: Flash, model: Model) -> Iterator[tuple[tuple[str, ...], tuple[Bound, ...]]]:
    """The tensors that scores meet whose tiles the copy engine fetches, and what plans assume: first all that it can,
    then none of them."""
    always = found.needs(model)
    tiles = [(read, box) for read, box in found.tiles if holds_everywhere(box.needs, model)]
    if tiles:
        others = needs_of(found.streaming, [read for read, _ in tiles])
        needs = (*always, *(b for _, box in tiles for b in box.needs), *others)
        if holds_everywhere(others, model):
            yield tuple(read.tensor for read, _ in tiles), tuple(dict.fromkeys(needs))
    for assume in assumptions(found.streaming, model, always):
        yield (), assume


def _refused(plan: Plan, kernel: Streaming) -> str:
    """Why a plan is not one to take, in words; empty where it is."""
    held, most = registers_of(plan, kernel) + ADDRESSING, most_registers(plan)
    if held > most:
        return Phrase("{held} registers a thread, over {most}", held=held, most=most)
    return blocks_split(kernel, plan.tile[0])


def why_none(problem: Problem, card: Device) -> str:
    """Why the family proposes nothing for the problem on this card, in words; empty where it proposes plans."""
    found = _found(problem, card)
    return found if isinstance(found, str) else ""


def _found(problem: Problem, card: Device) -> Flash | str:
    """The problem as the family computes it on this card, or why it does not."""
    if not card.arch.has_tma:
        return Phrase("{arch} has no copy engine", arch=card.arch.name)
    found = flash_of(problem.kernel)
    if isinstance(found, str):
        return found
    model = problem.model
    narrow = [box.tensor.name for box in found.boxes if not holds_everywhere(box.needs, model)]
    if narrow:
        return Phrase(
            "rows of {narrow} are not whole {stride_bytes} bytes at every shape set",
            narrow=", ".join(narrow),
            stride_bytes=STRIDE_BYTES,
        )
    if not holds_everywhere(found.needs(model), model):
        return Phrase("an axis may be empty")
    return found


def _largest(
    found: Flash,
    problem: Problem,
    card: Device,
    count: int,
    columns: int,
    ahead: bool,
    tiles: tuple[str, ...],
    assume: tuple,
) -> Plan:
    """The plan with as long a ring as fits, of two slots at least. Where three warpgroups' tiles of what scores meet
    take the memory through which outputs leave, these leave from registers."""
    plan = _plan(found, problem, card, count, columns, STAGES[0], ahead, tiles, assume)
    for stores, stages in itertools.product((plan.store, ()) if tiles and count > 2 else (plan.store,), STAGES):
        plan = _with_stages(replace(plan, store=stores), stages)
        if declare(plan, problem).smem <= card.arch.smem_per_cta:
            break
    return plan


def _with_stages(plan: Plan, stages: int) -> Plan:
    overlap = plan.asynchrony.overlap if plan.asynchrony else ""
    return replace(plan, stages=stages, asynchrony=Async(stages, overlap))


def _at_once(found: Flash, plan: Plan, problem: Problem, card: Device) -> Iterator[Plan]:
    """Plans with a CTA for each tile, where there are few at the first shape set: CTAs of one consumer and of a warp
    that fetches, which an SM has several of, so that all run at once; and where rows see columns of different number,
    CTAs that start as others end, the longest first."""
    kernel, sizes = found.streaming, sizes_of(problem.model)
    count = -(-found.height.evaluate(sizes) // plan.tile[0]) * extent_of(found.outer).evaluate(sizes)
    alone = replace(plan, persistent=0, order=plan.order and replace(plan.order, by="group"))
    if plan.consumers.count == 1:
        thin = replace(alone, threads=(threads_of_one_warp(1),))
        for one in (_with_stages(thin, stages) for stages in STAGES):
            ctas = taken_by(one, declare(one, problem)).occupancy
            if ctas > 1 and count <= ctas * card.sms:
                yield one
                break
    is_uneven = walked_share(problem.region, kernel, plan.tile[:2], sizes) < 1
    if card.sms < count <= MOST_STARTED * card.sms and is_uneven and not is_drawn(plan):
        yield alone


def _plan(
    found: Flash,
    problem: Problem,
    card: Device,
    count: int,
    columns: int,
    stages: int,
    ahead: bool,
    tiles: tuple[str, ...],
    assume: tuple,
) -> Plan:
    kernel, (first, second) = found.streaming, problem.regions
    row, column = kernel.row, kernel.column
    rows = WARPGROUP_ROWS * count
    reads, way = found.fetched, STREAMED if _is_read_once(found, problem.model, rows) else ""
    few = found.height.constant is not None and found.height.constant < LEAST_STAGED
    stores = tuple(
        Store(y.output, "tma") for y, box in zip(second.yields, found.outputs) if box is not None and not few
    )
    return Plan(
        regions=(first.name, second.name),
        arch=card.arch.name,
        family="contraction",
        algo="streaming_softmax",
        tile=(rows, columns, kernel.sizes[0]),
        stages=stages,
        consumers=Consumers(count, "cooperative"),
        regs=(REGS_OF_TILES if tiles else REGS).get(count),
        bind=bind_of(found),
        persistent=card.sms,
        order=_order(found, problem, card, (rows, columns)) if found.outer else None,
        cache=tuple(Cache(tensor, "smem", f"{axis}.o") for tensor, axis in reads.items()),
        load=(
            *(Load(tensor, "tma", 128, way if axis == column.name else "") for tensor, axis in reads.items()),
            *(Load(tensor, "tma") for tensor in tiles),
        ),
        store=stores,
        assume=assume,
        predicate=(*guarded_axes((row,), rows), *guarded_axes((column,), columns)),
        asynchrony=Async(stages, "epilogue" if ahead else ""),
        barrier="mbarrier",
        edge=(Edge(first.yields[0].output, kernel.output, "reg", 1),),
    )


def _order(found: Flash, problem: Problem, card: Device, tile: tuple[int, int]) -> Order:
    """Groups of heads; drawn where rows see more columns than others do, CTAs have several tiles, and a tile has work
    enough to hide a draw. What makes a row long does not matter then, and the CTAs that end last have short tiles."""
    kernel, sizes = found.streaming, sizes_of(problem.model)
    tiles = -(-found.height.evaluate(sizes) // tile[0]) * extent_of(found.outer).evaluate(sizes)
    share, depth = walked_share(problem.region, kernel, tile, sizes), max(kernel.sizes)
    met = kernel.column.size.evaluate(sizes) * share * depth
    draws = share < 1 and tiles > card.sms and met >= LEAST_DRAWN and depth <= MOST_DRAWN
    return Order("drawn" if draws else "group", _together(found, problem.model))


def _is_read_once(found: Flash, model: Model, rows: int) -> bool:
    """Whether one CTA alone reads a key and its value at the first shape set, and they are more together than stay in
    L2 beside what else is there, and not so much more that what it keeps does not matter."""
    height, outer = found.height.constant, {a.name for a in found.outer}
    if height is None or height > rows:
        return False
    for box in (found.key, found.value):
        atoms = [atom for e in box.first for _, monomial in e.terms for atom in monomial]
        shared = any(isinstance(atom, Floor) and outer & atom.num.vocabulary for atom in atoms)  # by heads of a group
        if shared or not outer <= {*atoms}:
            return False
    heads = extent_of(found.outer).evaluate(sizes_of(model))
    return SHARE_OF_L2 <= heads * _bytes_of_head(found, model) <= MOST_STREAMED


def _bytes_of_head(found: Flash, model: Model) -> int:
    """Bytes of the keys and values of a head."""
    kernel = found.streaming
    return kernel.column.size.evaluate(sizes_of(model)) * sum(kernel.sizes) * found.key.dtype.bytes


def _together(found: Flash, model: Model) -> int:
    """Heads whose keys and values stay in L2 at the first shape set, as many in each group: in a short last group CTAs
    are left without a tile."""
    heads = extent_of(found.outer).evaluate(sizes_of(model))
    most = max(1, min(SHARE_OF_L2 // max(_bytes_of_head(found, model), 1), heads, MOST_ORDER))
    return max(1, -(-heads // -(-heads // most)))
