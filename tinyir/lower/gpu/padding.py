"""Copies of operands in which every row begins on a line: what the copy engine needs of rows of odd lengths, and what L2 likes of others.

    kernel gemm.pad of gemm for gemm        a warp copies eight lines of a row, neighbours in lanes; behind a row's end it writes zeros
      if cta.x < ctas.a
        let piece = 8*cta.x + warp.index
        if piece < pieces.a
          let row = floor(piece/in_row)
          for u in 0..2 unroll
            let line = 8*(piece - in_row*row) + 4*u + floor(lane/8)
            if line < width
              let col = 64*line + 8*(lane - 8*floor(lane/8))
              store gemm.A.padded[row, col + v] over v: 8 = A[row, col + v] where col + v < K else 0.0 vector 8

A lane writes 16 bytes at once, and reads them so wherever the row begins: two aligned accesses, shifted together.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.body import Axis, Read
from ...ir.boxes import LINE_BYTES, View, padded, view_of
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.intervals import LARGEST_SIZE
from ...ir.kernels import Contraction, extent_of
from ...ir.model import Model
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region, Tensor
from .fresh import Fresh
from .point import below, guarded, split

THREADS = 256
LANES = 32
WARPS = THREADS // LANES
LINES = 8  # of a row, that a warp has on their way at once: a piece


@dataclass(frozen=True, slots=True)
class Copied:
    """An operand with its view, and the view of its copy."""

    read: Read
    view: View
    copy: View

    @property
    def width(self) -> Expr:
        """Lines of a row."""
        return self.view.dims[-1].size.ceildiv(LINE_BYTES // self.read.dtype.bytes)

    @property
    def in_row(self) -> Expr:
        """Pieces of a row."""
        return self.width.ceildiv(LINES)

    @property
    def pieces(self) -> Expr:
        """Pieces of all rows."""
        rows = ONE
        for dim in self.view.dims[:-1]:
            rows = rows * dim.size
        return rows * self.in_row


def padded_operands(plan: Plan, region: Region, kernel: Contraction) -> tuple[Copied, ...]:
    """The operands of which the plan wants padded copies, each tensor once."""
    found: dict[str, Copied] = {}
    for read in (kernel.lhs, kernel.rhs):
        view = view_of(region, read.tensor, read.index, kernel)
        if plan.is_padded(read.tensor) and isinstance(view, View):
            found.setdefault(read.tensor, Copied(read, view, padded(view, region)))
    return tuple(found.values())


def workspaces_of(plan: Plan, region: Region, kernel: Contraction) -> tuple[Tensor, ...]:
    """The memory of the copies."""
    return tuple(c.copy.tensor for c in padded_operands(plan, region, kernel))


def padding_kernel(plan: Plan, region: Region, kernel: Contraction, model: Model, is_once: bool) -> Kernel | None:
    """One kernel that makes all the copies of a plan that are made once, or at each run; None where there are none."""
    copied = tuple(c for c in padded_operands(plan, region, kernel) if plan.is_kept(c.read.tensor) == is_once)
    if not copied:
        return None
    fresh = Fresh(model, region)
    body: list[Statement] = [nodes.Assume((Bound(c.pieces, upper=Expr.of(LARGEST_SIZE + 1)),)) for c in copied]
    body += [nodes.Let(fresh(f"pieces.{letter}"), c.pieces) for letter, c in zip("ab", copied)]
    cta, grid = Expr.of("cta.x"), sum((c.pieces.ceildiv(WARPS) for c in copied), ZERO)
    if len(copied) == 1:
        body += _block(copied[0], "a", cta, fresh)
    else:
        before = fresh.expr("ctas.a")
        body.append(nodes.Let(str(before), copied[0].pieces.ceildiv(WARPS)))
        body.append(nodes.If((Bound(cta, upper=before),), _block(copied[0], "a", cta, fresh)))
        body.append(nodes.If((Bound(cta, lower=before),), _block(copied[1], "b", cta - before, fresh)))
    return Kernel(f"{plan.name}.{'keep' if is_once else 'pad'}", plan.regions, plan.arch, (grid,), (THREADS,), tuple(body), is_once=is_once)


def _block(one: Copied, letter: str, cta: Expr, fresh: Fresh) -> tuple[Statement, ...]:
    piece, row, line, col = (fresh.expr(f"{word}.{letter}") for word in ("piece", "row", "line", "col"))
    vector = ACCESS_BYTES // one.read.dtype.bytes
    elements = LINE_BYTES // one.read.dtype.bytes
    outer = [Axis(str(n), d.size) for n, d in enumerate(one.view.dims[:-1])]
    at = tuple(split(row, outer).values())
    inner = one.view.dims[-1]
    place = col + fresh.expr("v")
    point = split(place, inner.axes)
    for dim, e in zip(one.view.dims, reversed(at)):
        point |= split(e, dim.axes)
    source = Read(one.read.tensor, tuple(e.substitute(point) for e in one.read.index), one.read.dtype)
    value = guarded(below(place, extent_of(inner.axes)), source)
    store = nodes.Store(Place(one.copy.tensor.name, (*reversed(at), place)), value, ((fresh("v"), Expr.of(vector)),), vector)
    lines = vector * LANES // elements  # that the lanes copy at once
    turn = (
        nodes.Let(str(line), LINES * (piece - one.in_row * row) + lines * fresh.expr("u") + Expr.of("lane") // (LANES // lines)),
        nodes.If((Bound(line, upper=one.width),), (nodes.Let(str(col), elements * line + vector * Expr.of("lane") - elements * (Expr.of("lane") // (LANES // lines))), store)),
    )
    loop = nodes.For(fresh("u"), ZERO, Expr.of(LINES // lines), turn, unroll=0)
    inside = (nodes.Let(str(row), piece // one.in_row), loop)
    return nodes.Let(str(piece), WARPS * cta + Expr.of("warp.index")), nodes.If((Bound(piece, upper=fresh.expr(f"pieces.{letter}")),), inside)


__all__ = ["padded_operands", "padding_kernel", "workspaces_of"]
