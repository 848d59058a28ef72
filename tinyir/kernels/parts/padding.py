"""Copies of operands in which every row begins on a line: what the copy engine needs of rows of odd lengths, and what
L2 likes of others.

    kernel gemm.pad of gemm for gemm        a CTA copies eight lines of eight rows, each warp one row, lane by lane;
                                            behind a row's end it writes zeros
      if cta.x < ctas.a
        let row = 8*floor(cta.x/in_row) + warp.index
        let first = 8*(cta.x - in_row*floor(cta.x/in_row))
        if row < M
          if 64*first + 511 < K             all copies of a lane are on their way at once
            for u in 0..2 unroll
              let col = 64*(first + 4*u + floor(lane/8)) + 8*(lane - 8*floor(lane/8))
              store gemm.A.padded[row, col + v] over v: 8 = A[row, col + v] vector 8
          else
            for u in 0..2 unroll
              if first + 4*u + floor(lane/8) < width
                let col = ...
                store gemm.A.padded[row, col + v] over v: 8 = A[row, col + v] where col + v < K else 0.0 vector 8

A lane writes 16 bytes at once, and reads them so wherever the row begins: two aligned accesses, shifted together.
Rows of fewer than eight lines, as images of 49 pixels have them, are copied line by line, whichever row these are of:

      for u in 0..2 unroll
        let nth = 64*cta.x + 8*warp.index + 4*u + floor(lane/8)
        if nth < 4*M                        rows of four lines
          let row = floor(nth/4), line = nth - 4*row
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.body import Axis, Body, Read
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.intervals import LARGEST_SIZE
from ...ir.model import Model
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region, Tensor
from ...ir.rules import product
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..problem import Contraction
from .boxes import LINE_BYTES, View, padded, view_of
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
    def rows(self) -> Expr:
        """Rows of all outer dims together."""
        return math.prod((dim.size for dim in self.view.dims[:-1]), start=ONE)

    def bytes_moved(self, sizes: Mapping[str, int]) -> int:
        """Of what is read, and of the lines that are written."""
        read = product(self.view.tensor.type.shape).evaluate(sizes) * self.read.dtype.bytes
        return read + (self.rows * self.width).evaluate(sizes) * LINE_BYTES

    @property
    def is_short(self) -> bool:
        """Whether a row has fewer lines than a piece."""
        return self.width.constant is not None and self.width.constant < LINES

    @property
    def ctas(self) -> Expr:
        """CTAs, each for a piece of as many rows as it has warps, or for as many lines."""
        if self.is_short:
            return (self.rows * self.width).ceildiv(WARPS * LINES)
        return self.rows.ceildiv(WARPS) * self.in_row


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
    cta, grid = Expr.of("cta.x"), sum((c.ctas for c in copied), ZERO)
    body: list[Statement] = [
        nodes.Assume((Bound(count, upper=Expr.of(LARGEST_SIZE + 1)),))
        for count in dict.fromkeys((*(c.ctas for c in copied), grid))
    ]
    if len(copied) == 1:
        body += _block(copied[0], "a", cta, fresh)
    else:
        before = fresh.expr("ctas.a")
        body.append(nodes.Let(str(before), copied[0].ctas))
        body.append(nodes.If((Bound(cta, upper=before),), _block(copied[0], "a", cta, fresh)))
        body.append(
            nodes.If(
                (Bound(cta, lower=before),),
                (nodes.Let(fresh("cta.b"), cta - before), *_block(copied[1], "b", fresh.expr("cta.b"), fresh)),
            )
        )
    return Kernel(
        f"{plan.name}.{'keep' if is_once else 'pad'}",
        plan.regions,
        plan.arch,
        (grid,),
        (THREADS,),
        tuple(body),
        is_once=is_once,
    )


def _block(one: Copied, letter: str, cta: Expr, fresh: Fresh) -> tuple[Statement, ...]:
    row, first, line, col = (fresh.expr(f"{word}.{letter}") for word in ("row", "first", "line", "col"))
    vector, elements = ACCESS_BYTES // one.read.dtype.bytes, LINE_BYTES // one.read.dtype.bytes
    outer = [Axis(str(n), d.size) for n, d in enumerate(one.view.dims[:-1])]
    at = tuple(split(row, outer).values())
    inner = one.view.dims[-1]
    place = col + fresh.expr("v")
    point = split(place, inner.axes)
    for dim, e in zip(one.view.dims, reversed(at)):
        point |= split(e, dim.axes)
    source = Read(one.read.tensor, tuple(e.substitute(point) for e in one.read.index), one.read.dtype)
    width, lines = extent_of(inner.axes), vector * LANES // elements  # that the lanes copy at once
    along = Expr.of("lane") // (LANES // lines)
    nth = fresh.expr(f"nth.{letter}")
    let_line = nodes.Let(str(line), first + lines * fresh.expr("u") + along)
    let_col = nodes.Let(str(col), elements * line + vector * Expr.of("lane") - elements * along)

    def stored(value: Body) -> Statement:
        return nodes.Store(
            Place(one.copy.tensor.name, (*reversed(at), place)), value, ((fresh("v"), Expr.of(vector)),), vector
        )

    def turns(*body: Statement) -> tuple[Statement, ...]:
        return (nodes.For(fresh("u"), ZERO, Expr.of(LINES // lines), (let_line, *body), unroll=0),)

    ended = (let_col, stored(guarded(below(place, width), source)))
    if one.is_short:
        of_row = (nodes.Let(str(row), nth // one.width), nodes.Let(str(line), nth - one.width * row))
        let_line = nodes.Let(str(nth), first + lines * fresh.expr("u") + along)
        inside = nodes.If((Bound(nth, upper=one.rows * one.width),), (*of_row, *ended))
        return nodes.Let(str(first), LINES * (WARPS * cta + Expr.of("warp.index"))), *turns(inside)
    at_end = nodes.If((Bound(line, upper=one.width),), ended)
    is_whole = Bound(elements * first + (elements * LINES - 1), upper=width)
    copy = nodes.If((is_whole,), turns(let_col, stored(source)), turns(at_end))
    number = cta // one.in_row
    lets = (
        nodes.Let(str(row), WARPS * number + Expr.of("warp.index")),
        nodes.Let(str(first), LINES * (cta - one.in_row * number)),
    )
    return *lets, nodes.If((Bound(row, upper=one.rows),), (copy,))
