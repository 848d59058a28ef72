"""The cost of a haloed contraction: the image's tiles are brought in, then a step for each tap and block of channels.
Worked out from what the multistage template takes, and held to 20 timings on an H200 of two layers: 0.65 to 1.0 of what
was measured. Expanded windows were held to 12 of two first layers: of the plans chosen 0.8 to 1.0 of what was measured,
groups to 52 of two layers: 0.8 to 1.05 of it where channels are innermost.
"""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..family import Clocks, Conditions, Problem
from ..parts.tile_clocks import worked_clocks
from ..resources import threads_of
from .declare import WARP, deep_of, is_apart, is_expanded, is_whole, piece_of, rows_of, tiles_of
from .halo import ALONG, DEPTH, OCT, STEP, Halo, halo_of

SHARED_BYTES = 128  # a clock, of an SM
BANK = 8  # channels of a place that neighbouring places have in other banks
COPY_ISSUE = 24  # clocks of a scheduler for 32 elements of the image that are copied one by one
ASYNC_ISSUE = 16  # and for 32 copies of several
TURN_ISSUE = 60  # for 32 threads that turn columns of 8 channels: addresses, guards, loads
TURN_ISSUE_OF_COLUMN = 8  # and for each column, which takes four words apart and stores them
TURN_WAIT = 800  # of a thread for these
COLD_WAIT = 2400  # more with the first taps on their way: one image of 28, 56 and 112 rows takes 1.4 to 3 us more
APART_WAIT = 210  # of a thread for an element that it copies by itself
COPY_WAIT = 900  # clocks until the image's tile is there
STEP_CLOCKS = 160  # a step's barrier, and the latency of its first fragments
PLACED = 11.5  # clocks for 32 elements of an image whose windows are expanded: place, guards, fill,
MOVED = 4.5  # and for 32 elements of these
ENDED_CLOCKS = 0.1  # of an element of the tile, for what follows the sum
APART_ENDED = 0.02  # and for each further group of its fragment
GATHERED = 1.45  # times the clocks of products whose fragments come by words: 6 timings of groups of 4 and 8
ISSUE = 0.65  # share of the instruction's ceiling that the products reach


def clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what may bound it."""
    kernel, sizes, device = problem.kernel, at.sizes, at.device
    halo = halo_of(problem.region, kernel)
    rows, _ = rows_of(plan, halo)
    made = plan.tile[1 - halo.side]
    mine = -(-tiles_of(plan, halo, sizes) // device.sms)
    resident = min(max(1, at.occupancy), mine)
    way = _packed if halo.groups else _expanded if is_whole(plan) else _ring
    busy, alone = way(plan, problem, at)
    moved = (halo.beside, ASYNC_ISSUE) if halo.groups and halo.beside > 1 else (1, COPY_ISSUE)
    copied = made * plan.tile[2] / moved[0] * moved[1] / WARP / device.arch.schedulers
    is_apart = is_whole(plan) and (halo.beside == 1 or is_expanded(plan, halo))
    waited = made * plan.tile[2] / threads_of(plan) * APART_WAIT if is_apart else 0.0
    once = copied * resident + waited if is_whole(plan) else 0.0
    ended = ENDED_CLOCKS + APART_ENDED * (halo.at_once - 1) + worked_clocks(problem.region, kernel)
    turn = resident * (busy + plan.tile[0] * plan.tile[1] * ended) + alone
    compute = (-(-mine // resident) * turn + once) / device.clock_ghz / 1e3
    again = at.work.bytes * halo.places(rows) / (rows * ALONG * halo.image.rows.step * halo.image.columns.step)
    memory = max(at.work.bytes / device.dram_bytes_per_us, again / device.l2_bytes_per_us)
    return Clocks({"compute": compute, "memory": memory})


def _ring(plan: Plan, problem: Problem, at: Conditions) -> tuple[float, float]:
    """Clocks that a tile takes of the SM, and those in which it only waits."""
    halo, device = halo_of(problem.region, problem.kernel), at.device
    steps = extent_of(halo.taps).evaluate(at.sizes) * halo.blocks
    copied, waited = _image(plan, halo, halo.blocks, device.arch.schedulers)
    products, fragments = _multiplied(plan, problem, at, DEPTH)
    waited += COLD_WAIT if is_apart(plan, halo) else 0
    return copied + steps * max(products, fragments), waited + steps * STEP_CLOCKS


def _image(plan: Plan, halo: Halo, blocks: int, schedulers: int) -> tuple[float, float]:
    """Clocks in which an SM's schedulers bring in the tile of the image, and those in which a CTA waits for it."""
    rows, threads = rows_of(plan, halo)[0], threads_of(plan)
    if is_apart(plan, halo):
        count = DEPTH // OCT * halo.pieces(plan.widest) * halo.high(rows) * blocks
        issued = count * (TURN_ISSUE + TURN_ISSUE_OF_COLUMN * plan.widest) / WARP
        return issued / schedulers, -(-count // threads) * TURN_WAIT
    image = halo.places(rows) * DEPTH * blocks
    copied = image / halo.width * (ASYNC_ISSUE if halo.width > 1 else COPY_ISSUE) / WARP / schedulers
    return copied, image / threads * APART_WAIT if halo.width == 1 else COPY_WAIT


def _expanded(plan: Plan, problem: Problem, at: Conditions) -> tuple[float, float]:
    """The same of expanded windows, each element of which moves from and to shared memory."""
    halo, depth = halo_of(problem.region, problem.kernel), plan.tile[2]
    image = halo.places(rows_of(plan, halo)[0]) * deep_of(plan, halo)
    moved = (image * PLACED + plan.tile[halo.side] * depth * MOVED) / WARP
    return moved + max(_multiplied(plan, problem, at, depth)), 2 * COPY_WAIT + depth / STEP * STEP_CLOCKS / 2


def _packed(plan: Plan, problem: Problem, at: Conditions) -> tuple[float, float]:
    """The same of groups."""
    halo, device = halo_of(problem.region, problem.kernel), at.device
    copied, waited = _image(plan, halo, 1, device.arch.schedulers)
    worked = max(_multiplied(plan, problem, at, plan.tile[2])) * (GATHERED if halo.is_narrow else 1)
    return copied + worked, waited + plan.tile[2] / STEP * STEP_CLOCKS / 2


def _multiplied(plan: Plan, problem: Problem, at: Conditions, depth: int) -> tuple[float, float]:
    """Clocks of the products of a tile along this many elements of the sum, and of what they read."""
    halo, device = halo_of(problem.region, problem.kernel), at.device
    peak = device.peak[f"mma_{problem.kernel.lhs.dtype.name}"] * device.reached["mma_sync"] * ISSUE
    computed = plan.tile[0] * plan.tile[1] * halo.at_once
    products = 2 * computed * depth / (peak / device.sms * 1e3 / device.clock_ghz)
    part, piece, results = plan.warp_tile[1 - halo.side], piece_of(plan, halo), plan.warp_tile[halo.side]
    if halo.is_narrow:  # rows of the image are read once, and by words; of four channels two lanes meet in each bank
        results = halo.high(results // ALONG) * ALONG * (2 if halo.channel.size.constant < BANK else 1)
        depth = halo.line
    fragments = part // piece * (piece + halo.at_once * results)
    return products, threads_of(plan) // WARP * fragments * depth * 2 / SHARED_BYTES
