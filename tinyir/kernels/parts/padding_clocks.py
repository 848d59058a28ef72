"""What copies of operands take that are made at each run, by earlier kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.plan import Plan
from ...ir.region import Region
from ...target.device import Device
from ..problem import Contraction

TURNED = 5  # times the bytes of a turned copy, read and written; worked out, not measured


def padding_us(plan: Plan, region: Region, kernel: Contraction, sizes: Mapping[str, int], device: Device) -> float:
    """Microseconds of the kernels that make copies at each run: each byte read and written once."""
    reads = {r.tensor: r for r in (kernel.lhs, kernel.rhs) if plan.is_copied(r.tensor) and not plan.is_kept(r.tensor)}
    if not reads:
        return 0.0
    types = {tensor.name: tensor.type for tensor in region.inputs}
    copied = sum(
        (TURNED if plan.is_turned(name) else 2)
        * math.prod(e.evaluate(sizes) for e in types[name].shape)
        * types[name].dtype.bytes
        for name in reads
    )
    return device.padding["us"] + copied / device.padding["bytes_per_us"]
