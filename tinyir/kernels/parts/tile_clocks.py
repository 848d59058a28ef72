"""What the tiles of a contraction take from memory, and what is computed of their elements."""

from __future__ import annotations

import functools

from ...analysis.traffic import SLOW
from ...ir.body import Binary, Ternary, Unary, walk
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.numbers import Number, least, most
from ..family import Conditions
from ..problem import Contraction

INSTRUCTIONS, SPECIALS = 114, 33  # that an SM's warpgroups get done in a clock for an element each behind products
MADE_OF = {"ERF": (9, 2), "TANH": (2, 2)}  # instructions that an op adds, and exponentials and reciprocals
MADE_OF_ROUNDED = {"ERF": (4, 1)}  # the same where what leaves is rounded to 16 bits
FREE_OPS = 4  # of an element, which the clocks of its way out have: its casts, a bias, a maximum


def dram_bytes(plan: Plan, kernel: Contraction, at: Conditions, tiles: Number, resident: Number) -> Number:
    """Bytes from memory: everything once, or what each wave of tiles reads anew when the operands do not stay in L2."""
    sizes, device, moved = at.sizes, at.device, at.work.bytes
    rows, columns, depth = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    batch = extent_of(kernel.batch).evaluate(sizes)
    operands = batch * depth * (rows * kernel.lhs.dtype.bytes + columns * kernel.rhs.dtype.bytes)
    if operands <= device.l2_useful_bytes:
        return moved
    bm, bn, _ = plan.tile
    across = -(-columns // bn)
    wave = least(tiles, device.sms * resident)
    down = -(-wave // across)
    one_wave = depth * (
        least(down * bm, rows) * kernel.lhs.dtype.bytes + least(wave * bn, columns) * kernel.rhs.dtype.bytes
    )
    return most(moved, one_wave * -(-tiles // wave))


@functools.lru_cache(maxsize=4096)
def worked_clocks(region: Region, kernel: Contraction) -> float:
    """Clocks that an SM takes for the arithmetic behind the sum of an element. Behind 4096x3072x768 and 8192x3072x768
    on an H200 a GELU that leaves in fp16 takes 0.094 more than a maximum, one in fp32 0.17 to 0.19, a SiLU 0.085; here
    it is 0.092, 0.166 and 0.087."""
    is_rounded = all(t.type.dtype.is_float and t.type.dtype.bytes == 2 for t in region.outputs)
    known = MADE_OF | MADE_OF_ROUNDED if is_rounded else MADE_OF
    bodies = [let.expr for let in region.lets if let.name != kernel.value] + [y.expr for y in region.yields]
    ops = [n.op.upper() for body in bodies for n in walk(body) if isinstance(n, (Unary, Binary, Ternary))]
    made = [known.get(op, (0, 1)) for op in ops if op in SLOW]
    plain = len(ops) - len(made) + sum(instructions for instructions, _ in made)
    return max(plain - FREE_OPS, 0) / INSTRUCTIONS + sum(specials for _, specials in made) / SPECIALS
