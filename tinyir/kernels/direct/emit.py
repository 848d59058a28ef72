"""The direct template: a thread folds the windows of a block of results, an image's row after the other.

    let i1 = 8*rows + 2*thread.z, i2 = 28*columns + 7*thread.y, i3 = 64*planes + 8*thread.x
    if i3 < C
      reg y.acc : fp32[2, 7, 8] = 0.0
      for r in 0..4 unroll                                    the rows that the block's windows cover
        reg X.row : fp16[9, 8]
        for c in 0..9 unroll                                  and of each the places, or 16 bytes at a time
          if 0 <= i1 + r - 1 < H and 0 <= i2 + c - 1 < W
            X.row[c, v] over v: 8 = X[i0, i1 + r - 1, i2 + c - 1, i3 + v] vector 8
          else
            X.row[c, v] over v: 8 = 0.0
        for p in 0..2 unroll                                  each row of results takes the row as one of its taps
          if 0 <= r - p < 3
            let k0 = r - p
            for k1 in 0..3 unroll
              W.v[v] over v: 8 = W[0, k0, k1, i3 + v] vector 8
              for q in 0..7 unroll, v in 0..8 unroll
                y.acc[p, q, v] = add(y.acc[p, q, v], mul(X.row[q + k1, v], W.v[v]) : fp32)
      for p in 0..2 unroll, q in 0..7 unroll
        what follows the fold, and the stores, at i1 + p, i2 + q

A row is fetched once for all results of the block, whatever their taps. What is outside of the image is what the guard
puts there, so that the sums have no guards. Where columns are innermost, a row is fetched in accesses that begin on
multiples of their size, from the one that holds the first tap on; since guards begin and end on such multiples too, an
access is inside or outside as a whole. With `cache X -> reg at i1.i` a thread walks down its rows (`walking`),
with `cache X -> smem at i1.i` down rows that come ahead (`staged`).
"""

from __future__ import annotations

from ...ir.gpu import nodes
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..family import Problem
from ..parts.point import Fresh, names_in
from .block import Block
from .declare import declare, is_held, rows_of
from .grid import Grid
from .staged import Staged
from .thread import Thread
from .walking import Walking


def emit(plan: Plan, problem: Problem) -> nodes.Kernel:
    """The kernel of a plan."""
    region, kernel = problem.region, problem.kernel
    fresh = Fresh(names_in(region))
    block = Block.of(plan, kernel)
    grid = Grid.of(plan, kernel, block, fresh)
    rows = rows_of(plan, kernel)
    if rows is not None:
        body = Staged(region, kernel, fresh, block, grid, rows=rows).statements()
    else:
        body = (Walking if block.walk > 1 else Thread)(region, kernel, fresh, block, grid).statements()
    guard = grid.guard()
    return nodes.Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (extent_of(grid.numbers),),
        plan.threads,
        (*grid.lets(), *((nodes.If(guard, body),) if guard else body)),
        regs=declare(plan, problem).registers if is_held(block) else 0,
    )
