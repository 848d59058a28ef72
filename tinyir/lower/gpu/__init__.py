"""plan → gpu: each plan's template, filled in with the region's maps and values (spec section 11).

    plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...   →   kernel gemm : sm90 grid [...] block
      [16, 16] ...

The family and the algo name the template; tile, micro, threads and bind are obeyed; guards follow from what the tile
divides. Of plans that are alternatives the second makes a kernel called gemm.2. A plan that wants padded copies has a
kernel gemm.pad that makes them, launched before it, and gemm.keep for those of constants, made once; an operand that
must lie along the sum and does not has a kernel gemm.turn.b. A kernel whose CTAs wait for one another has scan.start,
which clears what they tell; one whose atomics fold updates has y.start, which writes what they fold onto. A plan of
siblings has one kernel for all of them. Kernels of sm90 that follow one another start early (`early`). What is not
shown to be inside has a guard (`guarded`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import gpu, plan
from ...ir.plan.words import STREAMING
from ...ir.region import Region, Tensor
from ...kernels.flash.emit import flash_kernel
from ...kernels.flash.legal import matched
from ...kernels.flash.match import Flash
from ...kernels.gemv.emit import gemv_kernel
from ...kernels.maps.emit import flat_kernel
from ...kernels.multistage.emit import multistage_kernel
from ...kernels.parts.padding import padding_kernel, workspaces_of
from ...kernels.parts.picks import region_of, with_picks
from ...kernels.parts.turning import turned_workspaces, turning_kernels
from ...kernels.plain import plain_kernel
from ...kernels.problem import Contraction, Kernel, Map, Prefix, kernel_of
from ...kernels.rows.emit import row_kernel
from ...kernels.scans.emit import scan_kernel
from ...kernels.scans.look_back import look_back_kernel, look_back_workspaces, start_kernel
from ...kernels.scatter_atomic.emit import base_kernel, scatter_atomic_kernel
from ...kernels.siblings import siblings_of
from ...kernels.streaming.emit import streaming_kernel
from ...kernels.streaming.match import Streaming, streaming_of
from ...kernels.synchronous.emit import synchronous_kernel
from ...kernels.transposed.emit import transposed_kernel
from ...kernels.warp_specialized.emit import warp_specialized_kernel
from ...kit.diag import Diag, Refused, refuse
from .early import with_early_starts
from .guarded import with_guards
from .unused import without_unused

TEMPLATES = {
    "synchronous": synchronous_kernel,
    "flat": flat_kernel,
    "transposed": transposed_kernel,
    "row_streamed": row_kernel,
    "row_resident": row_kernel,
    "scan_block": scan_kernel,
    "scan_thread": scan_kernel,
    "scan_look_back": look_back_kernel,
    "scatter_atomic": scatter_atomic_kernel,
    "plain": plain_kernel,
}
OF_CONTRACTIONS = {"warp_specialized": warp_specialized_kernel, "multistage": multistage_kernel, "gemv": gemv_kernel}


def lower(module: plan.Module) -> gpu.Module:
    """The module with a kernel for every plan. Raises Refused (E1610 an algo without a template yet, E1611 what a
    template cannot hold)."""
    return _lowered(module)[0]


def verdicts(module: plan.Module) -> list[Diag]:
    """R3601 for each access of a tensor that has a guard because nothing shows it to be inside."""
    return _lowered(module)[1]


def _lowered(module: plan.Module) -> tuple[gpu.Module, list[Diag]]:
    kernels, faults = [], []
    workspaces: dict[str, Tensor] = {}
    for number, one in enumerate(module.plans):
        earlier = sum(p.regions == one.regions for p in module.plans[:number])
        name = f"{one.name}.{earlier + 1}" if earlier else one.name
        try:
            main = _kernel(module, one)
            main = replace(main, name=name, body=without_unused(main.body))
            before = _in_front(module, one)
        except Refused as fault:
            faults.extend(fault.diags)
            continue
        kernels += [replace(made, name=name + made.name.removeprefix(one.name), serves=name) for made in before[0]]
        workspaces |= {t.name: t for t in before[1]}
        kernels.append(main)
    if faults:
        raise Refused(faults)
    buffers = tuple(workspaces.values())
    guarded, notes = with_guards(module, with_early_starts(kernels), buffers)
    return gpu.Module(module, guarded, buffers), notes


def _in_front(module: plan.Module, one: plan.Plan) -> tuple[tuple[gpu.Kernel, ...], tuple[Tensor, ...]]:
    """The kernels that a plan's kernel has in front of it, with the memory that they hand on: copies, made once or at
    each run, or what CTAs tell one another, cleared, or what atomics fold onto."""
    region = module.program.program.region(one.regions[0])
    kernel = kernel_of(region, one.family)
    if one.algo == "scan_look_back" and isinstance(kernel, Prefix):
        return (start_kernel(one, region, kernel),), look_back_workspaces(one, region, kernel)
    if one.algo == "scatter_atomic" and isinstance(kernel, Map):
        return (base_kernel(one, region, kernel),), ()
    if not one.layout or not isinstance(kernel, Contraction):
        return (), ()
    made = (padding_kernel(one, region, kernel, module.program.model, is_once) for is_once in (True, False))
    kernels = (*(k for k in made if k is not None), *turning_kernels(one, region, kernel, module.program.model))
    return kernels, (*workspaces_of(one, region, kernel), *turned_workspaces(one, region, kernel))


def _kernel(module: plan.Module, one: plan.Plan) -> gpu.Kernel:
    regions = [module.program.program.region(name) for name in one.regions]
    if one.algo in STREAMING and len(regions) == 2:
        streamed = streaming_of(*regions)
        flash = matched(streamed, tuple(regions)) if one.algo == "streaming_softmax" else None
        if isinstance(flash, Flash):
            return flash_kernel(one, *regions, flash, module.program.model)
        streamed = streamed if flash is None else flash
        if isinstance(streamed, Streaming):
            return streaming_kernel(one, *regions, streamed)
        raise refuse(
            "E1580", one.name, one.span_of("algo"), algo=one.algo, regions=", ".join(one.regions), reason=streamed
        )
    is_known = one.algo in TEMPLATES or one.algo in OF_CONTRACTIONS
    siblings = siblings_of(tuple(regions)) if is_known and len(regions) > 1 else None
    if isinstance(siblings, str):
        raise refuse("E1582", one.name, one.span_of("plan"), regions=", ".join(one.regions), reason=siblings)
    if siblings is None:
        return _template(module, one, regions[0], kernel_of(regions[0], one.family))
    return with_picks(_template(module, one, region_of(siblings), siblings.kernel), siblings)


def _template(module: plan.Module, one: plan.Plan, region: Region, kernel: Kernel | None) -> gpu.Kernel:
    """The kernel by the template that the plan names."""
    is_of_several = isinstance(kernel, Contraction) and kernel.siblings > 1
    is_copied = any(one.algo != "multistage" or one.is_turned(item.tensor) for item in one.layout)
    for word, is_asked in (
        ("split_k", one.parts > 1 and one.algo != "gemv"),
        ("swap_ab", one.swap_ab),
        ("layout", is_copied),
        ("store", any(s.by != "global" for s in one.store)),
    ):
        if is_asked and one.algo != "warp_specialized":
            raise refuse("E1611", one.name, one.span_of(word), what=f"`{word}` in algo {one.algo}", region=one.name)
    if one.math and one.algo not in ("multistage", "warp_specialized"):
        raise refuse("E1611", one.name, one.span_of("math"), what=f"`math` in algo {one.algo}", region=one.name)
    if is_of_several and one.layout:
        raise refuse("E1611", one.name, one.span_of("layout"), what="`layout` in a plan of siblings", region=one.name)
    if one.algo in OF_CONTRACTIONS and isinstance(kernel, Contraction):
        return OF_CONTRACTIONS[one.algo](one, region, kernel, module.program.model)
    template = TEMPLATES.get(one.algo)
    if template is None or kernel is None:
        raise refuse(
            "E1610", one.name, one.span_of("algo"), algo=one.algo, known=", ".join((*TEMPLATES, *OF_CONTRACTIONS))
        )
    return template(one, region, kernel)


__all__ = ["lower", "verdicts"]
