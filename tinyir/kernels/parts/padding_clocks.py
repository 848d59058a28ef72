"""What copies of operands take that are made at each run, by earlier kernels."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.rules import product
from ...target.device import Device
from ..problem import Contraction
from .padding import padded_operands

TURNED = 5  # times the bytes of a turned copy, read and written; worked out, not measured


def padding_us(plan: Plan, region: Region, kernel: Contraction, sizes: Mapping[str, int], device: Device) -> float:
    """Microseconds of the kernels that make copies at each run: each byte read, and each line written, once."""
    turned = {
        r.tensor: product(region.tensor(r.tensor).type.shape).evaluate(sizes) * r.dtype.bytes
        for r in (kernel.lhs, kernel.rhs)
        if plan.is_turned(r.tensor) and not plan.is_kept(r.tensor)
    }
    padded = [one for one in padded_operands(plan, region, kernel) if not plan.is_kept(one.read.tensor)]
    moved = TURNED * sum(turned.values()) + sum(one.bytes_moved(sizes) for one in padded)
    return device.padding["us"] + moved / device.padding["bytes_per_us"] if moved else 0.0
