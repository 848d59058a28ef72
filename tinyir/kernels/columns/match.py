"""Which maps fold across rows: each of their folds, all over axes of one length, is of what is side by side along the
last axis of what is written."""

from __future__ import annotations

import functools

from ...ir.accumulate import is_plain
from ...ir.body import Gather, Reduce, Ref, Scan, Scatter, Transpose, walk
from ...ir.expr import Expr
from ...ir.region import Let, Region
from ...ir.runs import WIDTHS, Run, column_run
from ...ir.traits import axes_of, bodies_of, extent_of, reads_apart
from ...kit.phrase import Phrase
from ..family import Problem

INSIDE = (Reduce, Ref, Gather)  # of a fold nothing that another value needs


def beyond(problem: Problem) -> str:
    """Why a map is none of these, in words; empty where it is one."""
    return "" if folds_of_columns(problem.region) else Phrase("a map that does not fold columns alone")


@functools.lru_cache(maxsize=4096)
def folds_of_columns(region: Region) -> tuple[Let, ...]:
    """The folds of a map across its rows; empty where it is none, or does something else as well."""
    nodes = [n for body in bodies_of(region) for n in walk(body)]
    lets = tuple(let for let in region.lets if isinstance(let.expr, Reduce))
    whole = [let.expr for let in lets]
    if not region.iters or not lets or sum(isinstance(n, Reduce) for n in nodes) != len(lets):
        return ()
    if any(
        isinstance(n, (Gather, Scan, Scatter, Transpose)) or isinstance(n, Ref) and n.index is not None for n in nodes
    ):
        return ()
    if any(not is_plain(f.op) or any(a.size is None for a in f.axes) for f in whole):
        return ()
    if len({extent_of(f.axes) for f in whole}) > 1:
        return ()
    last = region.iters[-1].name
    is_across = all(last in axes_of(f.body) and not any(isinstance(n, INSIDE) for n in walk(f.body)) for f in whole)
    return lets if is_across and reads_apart(region) else ()


def runs_of_columns(region: Region) -> tuple[Run | None, ...]:
    """The vectors along the last axis that are worth a plan: the widest, and single elements."""
    widest = next((run for width in WIDTHS if (run := column_run(region, width)) is not None), None)
    return (widest, None) if widest is not None else (None,)


def length_of(region: Region) -> Expr:
    """Elements of each fold."""
    return extent_of(folds_of_columns(region)[0].expr.axes)


def is_slanted(run: Run) -> bool:
    """Whether rows of the fold begin elsewhere between two whole accesses each."""
    return run.start.constant is None


def covered_of(run: Run, tile: int) -> int:
    """Columns that a CTA has in all its rows."""
    return tile - run.width if is_slanted(run) else tile


def tiles_of(run: Run, tile: int) -> Expr:
    """CTAs along the columns."""
    size = run.extent if is_slanted(run) else run.extent + run.skew
    return size.ceildiv(covered_of(run, tile))
