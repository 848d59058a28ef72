"""Plans of a contraction for sm90's tensor cores: TMA, mbarriers, wgmma, clusters.

Proposed where the access maps let the copy engine fetch both operands. What that needs of the sizes (rows of whole 16 bytes) is proven, or
holds at every shape set and is then assumed by the plan; at other sizes an alternative plan is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

from ...analysis.device import Device
from ...ir import resources
from ...ir.body import Axis
from ...ir.boxes import View, misfit, operand_needs, store_view, view_of
from ...ir.expr import Bound
from ...ir.kernels import Contraction
from ...ir.model import Model
from ...ir.plan import Async, Bind, Cache, Cluster, Consumers, Load, Order, Plan, Regs, Store
from ...ir.region import Region
from ...ir.verify_plan import MAX_STAGES, guarded_axes
from .candidate import Proposal

# Rows and columns of a tile, warpgroups that share it, and the clusters worth trying: CTAs along the rows share B, along the columns A.
TILES = (
    (128, 256, 2, ((2, 1), (1, 1))),
    (256, 128, 2, ((1, 2), (1, 1))),
    (128, 192, 2, ((2, 1), (1, 1))),
    (128, 128, 2, ((2, 1), (1, 1))),
    (256, 64, 2, ((1, 1),)),
    (128, 64, 2, ((1, 1),)),
    (64, 256, 1, ((1, 1),)),
    (64, 128, 1, ((1, 1),)),
    (64, 64, 1, ((1, 1),)),
)
DEPTH_BYTES = 128  # along the sum: one swizzled row
ORDERS = (8, 16)  # rows of tiles that are taken together
REGS = Regs(40, 232)  # what two consumers leave of an SM's registers to a producer, in steps of eight
LEAST_STAGES = 3


def propose_warp_specialized(kernel: Contraction, model: Model, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Every tile with its clusters and orders, each with as many stages as fit; none where the tensor cores or the copy engine cannot serve."""
    if not card.arch.has_tma or misfit(region, kernel):
        return ()
    operands = [view_of(region, r.tensor, r.index, kernel) for r in (kernel.lhs, kernel.rhs)]
    views = [v for v in operands if isinstance(v, View)]
    assume = operand_needs(region, kernel, model, views)
    if len(views) < len(operands) or not _hold(assume, model):
        return ()
    stores = []
    for item in region.yields:
        view = store_view(region, kernel, item)
        if isinstance(view, View) and _hold(view.needs(), model):
            views.append(view)
            stores.append(Store(item.output, "tma"))
    assume = operand_needs(region, kernel, model, views)
    return tuple(_proposals(kernel, region, card, tuple(stores), assume))


def _hold(bounds: tuple[Bound, ...], model: Model) -> bool:
    """Whether the guards hold at every shape set; without one nothing is known of the symbols."""
    return not bounds or bool(model.shape_sets) and all(b.holds(dict(s.sizes)) for b in bounds for s in model.shape_sets)


def _proposals(kernel: Contraction, region: Region, card: Device, stores: tuple[Store, ...], assume: tuple[Bound, ...]) -> Iterator[Proposal]:
    depth = DEPTH_BYTES // kernel.lhs.dtype.bytes
    outermost = f"{kernel.sum[0].name}.o"
    cached = tuple(dict.fromkeys((kernel.lhs.tensor, kernel.rhs.tensor)))
    batch = (Bind(tuple(a.name for a in kernel.batch), "cta.z"),) if kernel.batch else ()
    binds = (*batch, Bind(_parts(kernel.left, "o"), "cta.y"), Bind(_parts(kernel.right, "o"), "cta.x"), Bind(_parts(kernel.left, "i"), "warpgroup"))
    for rows, columns, consumers, clusters in TILES:
        tile = (rows, columns, depth)
        guarded = {name for group, size in zip(kernel.groups, tile) for name in guarded_axes(group, size)}
        base = Plan(
            regions=(region.name,),
            arch=card.arch.name,
            family="contraction",
            algo="warp_specialized",
            tile=tile,
            consumers=Consumers(consumers, "cooperative"),
            regs=REGS if consumers > 1 else None,
            bind=binds,
            cache=tuple(Cache(tensor, "smem", outermost) for tensor in cached),
            load=tuple(Load(tensor, "tma", DEPTH_BYTES) for tensor in cached),
            store=stores,
            assume=assume,
            predicate=tuple(a.name for a in (*region.iters, *kernel.sum) if a.name in guarded),
            epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
            barrier="mbarrier",
        )
        stages = _stages(base, region, kernel, card)
        for shape in clusters:
            shared = {(2, 1): kernel.rhs.tensor, (1, 2): kernel.lhs.tensor}.get(shape)
            count = shape[0] * shape[1]
            for width in ORDERS:
                plan = replace(
                    base,
                    stages=max(stages, 1),
                    cluster=Cluster(shape, (shared,)) if shared else None,
                    persistent=card.sms // count * count,
                    order=Order("group", width),
                    asynchrony=Async(max(stages, 1), "epilogue"),
                )
                yield Proposal(plan, f"only {stages} stages fit" if stages < LEAST_STAGES else "")


def _stages(plan: Plan, region: Region, kernel: Contraction, card: Device) -> int:
    """As many as fit in shared memory."""
    sizes = [resources.smem_of(replace(plan, stages=n), region, kernel) for n in range(1, MAX_STAGES + 1)]
    return sum(size <= card.arch.smem_per_cta for size in sizes)


def _parts(axes: tuple[Axis, ...], part: str) -> tuple[str, ...]:
    return tuple(f"{a.name}.{part}" for a in axes)
