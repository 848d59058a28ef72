"""The words that statements of gpu text may say, and what they need their names to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...kit.phrase import Phrase
from ..ops import REDUCERS
from ..plan.words import WORDS
from . import nodes
from .nodes import ENGINES, FENCES, KINDS, OPERAND_KINDS, PART_KINDS, ROUNDINGS, ROW_KINDS, WALKED_KINDS


def words_of(s: Any) -> Iterator[tuple[str, Any, tuple]]:
    """What a statement says in words: what of, which, and those that are known."""
    if isinstance(s, nodes.Reg):
        yield Phrase("kind of registers"), s.kind, ("", *KINDS)
    if isinstance(s, nodes.Shared):
        yield Phrase("kind of shared memory"), s.kind, ("", "wgmma")
    if isinstance(s, (nodes.Shared, nodes.TensorMap)):
        yield "swizzle", s.swizzle, (0, *((16,) if isinstance(s, nodes.Shared) else ()), 32, 64, 128)
    if isinstance(s, nodes.TensorMap):
        yield "rounding", s.rounding, ROUNDINGS
    if isinstance(s, nodes.Store):
        yield Phrase("way to store"), s.by, ("", "stmatrix")
    if isinstance(s, nodes.Fence):
        yield "fence", s.what, FENCES
    if isinstance(s, nodes.WaitGroup):
        yield "engine", s.engine, ENGINES
    if isinstance(s, nodes.Barrier) and not s.threads:
        yield "barrier", s.scope, ("cta", "cluster", "warpgroup", "warp")
        yield Phrase("barrier in halves"), s.scope if s.half else "", ("", "cluster")
    if isinstance(
        s, (nodes.RowReduce, nodes.WarpReduce, nodes.BlockReduce, nodes.BlockScan, nodes.LookBack, nodes.Atomic)
    ):
        yield "reducer", s.op, tuple(r.name.lower() for r in REDUCERS.values() if r.fold)
    if isinstance(s, nodes.Mma):
        yield "shape", s.shape, ("m16n8k16", "m16n8k8")
        yield Phrase("way to multiply fp32"), s.math, ("", *WORDS["math"])
    if isinstance(s, nodes.Wgmma):
        yield "shape", re.sub(r"n\d+", "n", s.shape), ("m64nk16", "m64nk8", "m64nk32")


def _is(*types: type, kind: tuple[str, ...] | None = None) -> Any:
    return lambda array: isinstance(array, types) and (kind is None or array.kind in kind)


def kinds_of(s: Any) -> Iterator[tuple[str, Any, str]]:
    """What a statement needs its names to be."""
    shared, barrier = _is(nodes.Shared, kind=("",)), _is(nodes.Mbarrier)
    if isinstance(s, (nodes.Copy, nodes.CpAsync, nodes.TmaLoad, nodes.Stmatrix, nodes.Split)):
        yield s.to.name, shared, Phrase("shared memory")
    if isinstance(s, nodes.Send):
        yield s.to.name, _is(nodes.Shared), Phrase("shared memory")
    if isinstance(s, (nodes.Ldmatrix, nodes.TmaStore, nodes.Split)):
        yield s.source.name, shared, Phrase("shared memory")
    if isinstance(s, (nodes.Send, nodes.StoreRows)):
        yield (
            s.source.name,
            lambda a: shared(a) or _is(nodes.Reg, kind=("wgmma",))(a),
            Phrase("shared memory or a matrix of kind wgmma"),
        )
    if isinstance(s, nodes.Assign):
        yield s.to.name, _is(nodes.Reg), Phrase("registers; a tensor or shared memory is written by `store`")
    if isinstance(s, (nodes.Wait, nodes.Arrive)):
        yield s.barrier.name, barrier, Phrase("an mbarrier")
    if isinstance(s, nodes.Drain):
        yield s.barrier, barrier, Phrase("an mbarrier")
    if isinstance(s, (nodes.TmaLoad, nodes.Send)):
        yield s.on.name, barrier, Phrase("an mbarrier")
    if isinstance(s, nodes.TmaLoad):
        yield s.source.name, _is(nodes.TensorMap), Phrase("a tensor_map")
    if isinstance(s, nodes.TmaStore):
        yield s.to.name, _is(nodes.TensorMap), Phrase("a tensor_map")
    if isinstance(s, nodes.Ldmatrix):
        for place in (s.low,) if s.low else ():
            yield place.name, _is(nodes.Reg, kind=("wgmma_a",)), Phrase("a matrix of kind wgmma_a")
        yield (
            s.to.name,
            _is(nodes.Reg, kind=("mma_a", "mma_b", "wgmma_a")),
            Phrase("a matrix of kind mma_a, mma_b or wgmma_a"),
        )
    if isinstance(s, nodes.Mma):
        yield s.acc, _is(nodes.Reg, kind=("mma",)), Phrase("a matrix of kind mma")
        yield s.a.name, _is(nodes.Reg, kind=("mma_a",)), Phrase("a matrix of kind mma_a")
        yield s.b.name, _is(nodes.Reg, kind=("mma_b",)), Phrase("a matrix of kind mma_b")
    if isinstance(s, nodes.Wgmma):
        yield s.acc, _is(nodes.Reg, kind=("wgmma",)), Phrase("a matrix of kind wgmma")
        yield (
            s.a.name,
            lambda a: shared(a) or isinstance(a, nodes.Reg) and a.kind in ("wgmma", "wgmma_a"),
            Phrase("shared memory or a matrix of kind wgmma or wgmma_a"),
        )
        yield s.b.name, shared, Phrase("shared memory")
    if isinstance(s, nodes.Resum):
        yield s.to.name, _is(nodes.Reg, kind=("wgmma", "mma")), Phrase("a matrix in registers")
    if isinstance(s, nodes.Each):
        kinds = dict.fromkeys(("wgmma", "mma", *OPERAND_KINDS, *WALKED_KINDS, *ROW_KINDS))
        yield s.of, _is(nodes.Reg, kind=tuple(kinds)), Phrase("a matrix in registers")
    if isinstance(s, nodes.RowReduce):
        parts, rows = ", ".join(PART_KINDS), ", ".join(ROW_KINDS)
        kinds = ("wgmma", "mma", *PART_KINDS)
        yield s.source, _is(nodes.Reg, kind=kinds), Phrase("an accumulator, or registers of kind {parts}", parts=parts)
        yield s.to, _is(nodes.Reg, kind=tuple(ROW_KINDS)), Phrase("registers of kind {rows}", rows=rows)
    if isinstance(s, (nodes.WarpReduce, nodes.BlockReduce)):
        yield s.name, _is(nodes.Reg, kind=("",)), Phrase("an array of each thread")
    if isinstance(s, (nodes.BlockReduce, nodes.Ticket, nodes.LookBack)) or isinstance(s, nodes.BlockScan) and s.via:
        yield s.via, shared, Phrase("shared memory")
    if isinstance(s, nodes.BlockScan):
        yield (
            s.name,
            lambda a: isinstance(a, nodes.Reg) and not a.kind and a.type.rank == 1,
            Phrase("elements of each thread in a row"),
        )
    if isinstance(s, (nodes.BlockScan, nodes.Publish, nodes.LookBack)):
        yield (
            getattr(s, "carry", s.name),
            lambda a: isinstance(a, nodes.Reg) and not a.kind and [e.constant for e in a.type.shape] == [1],
            Phrase("one element of each thread"),
        )


__all__ = ["kinds_of", "words_of"]
