"""plan → gpu: each plan's template, filled in with the region's maps and values (spec section 11).

    plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...   →   kernel gemm : sm90 grid [...] block [16, 16] ...

The family and the algo name the template; tile, micro, threads and bind are obeyed; guards follow from what the tile divides.
"""

from __future__ import annotations

from ...ir import gpu, plan
from ...ir.kernels import Contraction, kernel_of
from ...kit.diag import Refused, refuse
from .contraction import synchronous_kernel


def lower(module: plan.Module) -> gpu.Module:
    """The module with a kernel for every plan. Raises Refused (E1610 an algo without a template yet, E1611 what a template cannot hold)."""
    kernels, faults = [], []
    for one in module.plans:
        try:
            kernels.append(_kernel(module, one))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    return gpu.Module(module, tuple(kernels))


def _kernel(module: plan.Module, one: plan.Plan) -> gpu.Kernel:
    region = module.program.program.region(one.regions[0])
    kernel = kernel_of(region, one.family)
    if len(one.regions) == 1 and one.algo == "synchronous" and isinstance(kernel, Contraction):
        return synchronous_kernel(one, region, kernel)
    raise refuse("E1610", one.name, one.span_of("algo"), algo=one.algo, known="synchronous")


__all__ = ["lower"]
