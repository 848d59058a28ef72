"""How the tile of an image comes in of which the channels are not contiguous: a thread takes neighbouring columns of 8,
turns these in registers, and stores 8 channels of each place at once.

    reg turned : fp16[4, 8, 4]
    for m in 0..4 unroll                                    all loads are on their way before the first store
      let item = thread.x + 128*m
      if item < 480
        let oct, stretch, down = ...                        6 stretches of 4 columns have a row of 18 places
        if 0 <= h < 56 and 0 <= w < 53
          for a in 0..8 unroll
            turned[m, a, v] over v: 4 = X[i0, 8*oct + a, h, w + v] vector 4
    for m in 0..4 unroll
      ...
        if 0 <= h < 56 and 0 <= w < 53
          for v in 0..4 unroll
            if 0 <= 4*stretch + v - 3 < 18                  a stretch begins on a multiple of 4
              store image[18*down + 4*stretch + v - 3, 8*oct + a] over a: 8 = turned[m, a, v] vector 8
        else the same of zeros

As many groups of channels as an access has columns are next to one another among the threads, so that those that store
at once meet different banks.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.accumulate import literal
from ...ir.body import Body, Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ..parts.fold import type_of
from ..parts.fresh import Fresh
from ..parts.point import below
from ..resources import threads_of
from .declare import rows_of
from .halo import DEPTH, OCT, Halo

AHEAD = 4  # stretches of 8 channels that a thread loads before it stores them
ReadAt = Callable[[Expr, Expr, Expr, int], tuple[tuple[Expr, ...], tuple[Bound, ...]]]


def filled_apart(plan: Plan, halo: Halo, fresh: Fresh, read_at: ReadAt, block: Expr) -> Statement:
    """A block of channels of all places that the tile covers; `read_at` tells where an access begins at a row and a
    column of the tile and a channel of the block, and under which guard all of its columns are there."""
    image, width = halo.image, plan.widest
    threads, pieces, high = threads_of(plan), halo.pieces(width), halo.high(rows_of(plan, halo)[0])
    item, rest, oct_, stretch, down, a, v = (
        fresh.expr(word) for word in ("item", "rest", "oct", "stretch", "down", "a", "v")
    )
    octs = DEPTH // OCT
    beside = max(1, min(octs, width // image.columns.step))
    skew = image.columns.low % width
    line = rest // pieces
    lets = {
        rest: item // beside,
        stretch: rest - pieces * line,
        down: line - high * (line // high),
        oct_: item - beside * rest + beside * (line // high),
    }
    first = width * stretch - skew
    held, dtype = fresh("turned"), image.read.dtype
    index, _ = read_at(down, first, OCT * oct_ + a, width)
    _, inside = read_at(down, first, OCT * oct_, width)  # groups have whole octs
    source = tuple(e + v if n == image.columns.dim else e for n, e in enumerate(index))
    count = octs * pieces * high
    turns = -(-count // threads)
    ahead = min(AHEAD, turns)
    m, number = fresh.expr("m"), fresh.expr("n")
    across = first + v
    to = Place(
        fresh("image"), (halo.wide * down + halo.at_column(across), OCT * oct_ + a), block if halo.blocks > 1 else None
    )

    def for_each(name: Expr, size: int, line: Statement) -> Statement:
        return nodes.For(str(name), ZERO, Expr.of(size), (line,), unroll=0)

    def put(value: Body) -> Statement:
        store = nodes.Store(to, value, ((str(a), Expr.of(OCT)),), OCT)
        return for_each(v, width, nodes.If((Bound(across, ZERO, Expr.of(halo.wide)),), (store,)))

    def filled(there: Statement, otherwise: tuple[Statement, ...] = ()) -> Statement:
        line = nodes.If(inside, (there,), otherwise) if inside else there
        body: tuple[Statement, ...] = (*(nodes.Let(str(name), e) for name, e in lets.items()), line)
        if ahead * threads * -(-turns // ahead) != count:
            body = (nodes.If(below(item, Expr.of(count)), body),)
        let = nodes.Let(str(item), Expr.of("thread.x") + threads * (ahead * number + m))
        return nodes.For(str(m), ZERO, Expr.of(ahead), (let, *body), unroll=0)

    load = nodes.Assign(
        Place(held, (m, a, v)), Read(image.read.tensor, source, dtype), ((str(v), Expr.of(width)),), width
    )
    lines = (
        nodes.Reg(held, type_of(dtype, ahead, OCT, width)),
        filled(for_each(a, OCT, load)),
        filled(put(Read(held, (m, a, v), dtype)), (put(literal(0, dtype)),)),
    )
    return nodes.For(str(number), ZERO, Expr.of(-(-turns // ahead)), lines)
