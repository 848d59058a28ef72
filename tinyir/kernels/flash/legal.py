"""What the flash family asks of a plan beside what any plan must hold."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Bind, Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.hopper import WARPGROUP, WARPGROUP_ROWS
from ..attention.score import blocks_split
from ..family import Problem
from ..parts.drawn import WARP, is_drawn
from .declare import ADDRESSING, STEP, most_registers, registers_of, span_of, tiles_of
from .match import WIDEST, Flash, flash_of

MOST_CONSUMERS = 3
LEAST_STAGES = 2


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1581 for each field that the template cannot obey, E1523 for what the copy engine cannot move."""
    kernel = flash_of(problem.kernel)
    for field, given, wanted in unmet_by(kernel, plan):
        yield fault_of(plan, "E1581", field, field=field, given=given, algo=plan.algo, wanted=wanted)
    for word, tensor, fault in unmoved(kernel, plan, problem):
        yield fault_of(plan, "E1523", word, tensor=tensor, fault=fault)


def unmet_by(kernel: Flash, plan: Plan) -> Iterator[tuple[str, object, str]]:
    """The fields of a plan that the template cannot obey: the field, what it is, and what is needed."""
    count, streaming = plan.consumers.count, kernel.streaming
    if plan.consumers.mode != "cooperative" or not 1 <= count <= MOST_CONSUMERS:
        yield "consumers", f"{count} {plan.consumers.mode}", Phrase("1 to {most} cooperative", most=MOST_CONSUMERS)
        return
    rows, columns, depth = plan.tile
    if rows != WARPGROUP_ROWS * count or depth != streaming.sizes[0] or columns % STEP or not STEP <= columns <= WIDEST:
        wanted = Phrase(
            "[{warpgroup_rows}, columns in steps of {step} up to {widest}, {sizes}]",
            warpgroup_rows=WARPGROUP_ROWS * count,
            step=STEP,
            widest=WIDEST,
            sizes=streaming.sizes[0],
        )
        yield "tile", list(plan.tile), wanted
        return
    if split := blocks_split(streaming, rows):
        yield "tile", list(plan.tile), split
    if kernel.block % columns:
        wanted = Phrase("columns that divide {block}: the values go on beyond them", block=kernel.block)
        yield "tile", list(plan.tile), wanted
    if plan.stages < LEAST_STAGES:
        yield "stages", plan.stages, Phrase("{least} or more", least=LEAST_STAGES)
    for box in (kernel.query, kernel.key, kernel.value):
        load = plan.load_of(box.tensor.name)
        if load.by != "tma" or load.swizzle != 128:
            yield "load", f"{box.tensor.name} {load.by} swizzle {load.swizzle}", f"{box.tensor.name} tma swizzle 128"
    for read, _ in tiles_of(plan, streaming):
        if not span_of(read, columns):
            span = 32 if read.dtype.bytes < 4 else 16
            wanted = Phrase("columns in steps of {span}, as the rows of {tensor}", span=span, tensor=read.tensor)
            yield "tile", list(plan.tile), wanted
    if plan.threads and plan.regs:
        yield "regs", "stated", Phrase("no `{word}`: registers are handed on by whole warpgroups", word="regs")
    if plan.threads and is_drawn(plan):
        yield "order", plan.order.by, Phrase("a producer of a warpgroup, which draws: no `{word}`", word="threads")
    if plan.micro or plan.warp_tile or plan.cluster or plan.split_k or plan.swap_ab or plan.layout:
        word = next(w for w in ("micro", "warp_tile", "cluster", "split_k", "swap_ab", "layout") if getattr(plan, w))
        yield word, "stated", Phrase("no `{word}`", word=word)
    wanted = bind_of(kernel)
    if set(plan.bind) != set(wanted):
        yield "bind", show_bind(plan.bind), show_bind(wanted)
    if is_drawn(plan) and not plan.persistent:
        yield "order", plan.order.by, Phrase("CTAs that walk over the tiles, so that one is left to draw")
    held = registers_of(plan, streaming) + ADDRESSING
    if held > most_registers(plan):
        yield (
            "tile",
            list(plan.tile),
            Phrase(
                "{held} registers a thread where {most_registers} are: fewer columns",
                held=held,
                most_registers=most_registers(plan),
            ),
        )


def threads_of_one_warp(consumers: int) -> int:
    """Threads of a CTA whose producer is one warp, and not a warpgroup."""
    return WARPGROUP * consumers + WARP


def bind_of(kernel: Flash) -> tuple[Bind, ...]:
    """Tiles of rows of all heads are counted along x, rows by warpgroups."""
    outer, packed = tuple(a.name for a in kernel.outer), kernel.packed
    if packed is not None:
        rows = Bind((packed.major.name, packed.minor.name), "warpgroup")
        return (Bind(outer, "cta.x"), rows) if outer else (rows,)
    row = kernel.streaming.row.name
    return Bind((*outer, f"{row}.o"), "cta.x"), Bind((f"{row}.i",), "warpgroup")


def show_bind(bind: tuple[Bind, ...]) -> str:
    """As the plan's text has it."""
    return ", ".join(f"{'*'.join(b.axes)} -> {b.place}" for b in bind)


def unmoved(kernel: Flash, plan: Plan, problem: Problem) -> Iterator[tuple[str, str, str]]:
    """What the copy engine cannot move as a plan says: the field, the tensor, why."""
    for item, box in zip(problem.regions[1].yields, kernel.outputs):
        by = plan.store_of(item.output).by
        if by not in ("tma", "global"):
            yield "store", item.output, Phrase("{output} leaves by {by}", output=item.output, by=by)
        elif by == "tma" and box is None:
            yield "store", item.output, Phrase("{output} does not take the tile as it is", output=item.output)
    tiles = tiles_of(plan, problem.kernel)
    wanted = (*kernel.needs(problem.model), *(b for _, box in tiles for b in box.needs))
    for need in wanted:
        if need not in plan.assume:
            yield "load", plan.name, Phrase("nothing assumes {need}", need=need)
