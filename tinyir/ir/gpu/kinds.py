"""The words that statements of gpu text may say, and what they need their names to be: a table of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...kit.phrase import Phrase
from ..body import show_body
from ..ops import REDUCERS
from ..plan.words import WORDS
from . import nodes
from .memory import Place
from .nodes import ENGINES, FENCES, KINDS, OPERAND_KINDS, PART_KINDS, ROUNDINGS, ROW_KINDS, WALKED_KINDS


class Kind(NamedTuple):
    """What a name must be: in words, and of what is declared under it."""

    what: str
    holds: Callable[[Any], bool]


def _matrix(*kinds: str, what: str) -> Kind:
    return Kind(what, lambda array: isinstance(array, nodes.Reg) and array.kind in kinds)


def _declared(kind: type, what: str) -> Kind:
    return Kind(what, lambda array: isinstance(array, kind))


def _is_plain(array: Any, shape: list[int] | None = None) -> bool:
    """Whether registers are of each thread, without a kind; of `shape` where it is given."""
    return (
        isinstance(array, nodes.Reg)
        and not array.kind
        and (shape is None or [e.constant for e in array.type.shape] == shape)
    )


_SHARED = Kind(Phrase("shared memory"), lambda a: isinstance(a, nodes.Shared) and not a.kind)
_ANY_SHARED = _declared(nodes.Shared, Phrase("shared memory"))
_SUM = _matrix("wgmma", what=Phrase("a matrix of kind wgmma"))
_SHARED_OR_SUM = Kind(Phrase("shared memory or a matrix of kind wgmma"), lambda a: _SHARED.holds(a) or _SUM.holds(a))
_LEFT = Kind(
    Phrase("shared memory or a matrix of kind wgmma or wgmma_a"),
    lambda a: _SHARED.holds(a) or isinstance(a, nodes.Reg) and a.kind in ("wgmma", "wgmma_a"),
)
_BARRIER = _declared(nodes.Mbarrier, Phrase("an mbarrier"))
_MAP = _declared(nodes.TensorMap, Phrase("a tensor_map"))
_REGISTERS = _declared(nodes.Reg, Phrase("registers; a tensor or shared memory is written by `store`"))
_ARRAY = Kind(Phrase("an array of each thread"), _is_plain)
_ONE = Kind(Phrase("one element of each thread"), lambda a: _is_plain(a, [1]))
_ROW = Kind(Phrase("elements of each thread in a row"), lambda a: _is_plain(a) and a.type.rank == 1)

# Of each kind of statement the fields that hold a name, or a place of one, and what it must be. A field may be empty.
_NEEDS: dict[type, tuple[tuple[str, Kind], ...]] = {
    nodes.Copy: (("to", _SHARED),),
    nodes.CpAsync: (("to", _SHARED),),
    nodes.TmaLoad: (("to", _SHARED), ("on", _BARRIER), ("source", _MAP)),
    nodes.TmaStore: (("source", _SHARED), ("to", _MAP)),
    nodes.Send: (("to", _ANY_SHARED), ("source", _SHARED_OR_SUM), ("on", _BARRIER)),
    nodes.StoreRows: (("source", _SHARED_OR_SUM),),
    nodes.Split: (("to", _SHARED), ("source", _SHARED)),
    nodes.Assign: (("to", _REGISTERS),),
    nodes.Wait: (("barrier", _BARRIER),),
    nodes.Arrive: (("barrier", _BARRIER),),
    nodes.Drain: (("barrier", _BARRIER),),
    nodes.Ldmatrix: (
        ("source", _SHARED),
        ("low", _matrix("wgmma_a", what=Phrase("a matrix of kind wgmma_a"))),
        ("to", _matrix("mma_a", "mma_b", "wgmma_a", what=Phrase("a matrix of kind mma_a, mma_b or wgmma_a"))),
    ),
    nodes.Mma: (
        ("acc", _matrix("mma", what=Phrase("a matrix of kind mma"))),
        ("a", _matrix("mma_a", what=Phrase("a matrix of kind mma_a"))),
        ("b", _matrix("mma_b", what=Phrase("a matrix of kind mma_b"))),
    ),
    nodes.Wgmma: (("acc", _SUM), ("a", _LEFT), ("b", _SHARED)),
    nodes.Resum: (("to", _matrix("wgmma", "mma", what=Phrase("a matrix in registers"))),),
    nodes.Each: (
        (
            "of",
            _matrix("wgmma", "mma", *OPERAND_KINDS, *WALKED_KINDS, *ROW_KINDS, what=Phrase("a matrix in registers")),
        ),
    ),
    nodes.RowReduce: (
        (
            "source",
            _matrix(
                "wgmma",
                "mma",
                *PART_KINDS,
                what=Phrase("an accumulator, or registers of kind {parts}", parts=", ".join(PART_KINDS)),
            ),
        ),
        ("to", _matrix(*ROW_KINDS, what=Phrase("registers of kind {rows}", rows=", ".join(ROW_KINDS)))),
    ),
    nodes.WarpReduce: (("name", _ARRAY),),
    nodes.BlockReduce: (("name", _ARRAY), ("via", _SHARED)),
    nodes.BlockScan: (("via", _SHARED), ("name", _ROW), ("carry", _ONE)),
    nodes.Ticket: (("via", _SHARED),),
    nodes.For: (("via", _SHARED), ("full", _BARRIER), ("empty", _BARRIER)),
    nodes.Publish: (("name", _ONE),),
    nodes.LookBack: (("via", _SHARED), ("name", _ONE)),
}

_REDUCERS = tuple(r.name.lower() for r in REDUCERS.values() if r.fold)
_FOLDS = (("reducer", lambda s: s.op, _REDUCERS),)
# Of each kind of statement what its words are, which of them it says, and those that are known.
_WORDS: dict[type, tuple[tuple[str, Callable[[Any], Any], tuple], ...]] = {
    nodes.Reg: (
        (Phrase("kind of registers"), lambda s: s.kind, ("", *KINDS)),
        (Phrase("start of a matrix in registers"), lambda s: _start(s), ("", "mma = 0.0")),
    ),
    nodes.Shared: (
        (Phrase("kind of shared memory"), lambda s: s.kind, ("", "wgmma")),
        ("swizzle", lambda s: s.swizzle, (0, 16, 32, 64, 128)),
    ),
    nodes.TensorMap: (
        ("swizzle", lambda s: s.swizzle, (0, 32, 64, 128)),
        ("rounding", lambda s: s.rounding, ROUNDINGS),
    ),
    nodes.Store: ((Phrase("way to store"), lambda s: s.by, ("", "stmatrix")),),
    nodes.Fence: (("fence", lambda s: s.what, FENCES),),
    nodes.WaitGroup: (("engine", lambda s: s.engine, ENGINES),),
    nodes.Barrier: (  # one of a number of threads has no scope
        ("barrier", lambda s: "cta" if s.threads else s.scope, ("cta", "cluster", "warpgroup", "warp")),
        (Phrase("barrier in halves"), lambda s: s.scope if s.half and not s.threads else "", ("", "cluster")),
    ),
    nodes.Mma: (
        ("shape", lambda s: s.shape, ("m16n8k16", "m16n8k8")),
        (Phrase("way to multiply fp32"), lambda s: s.math, ("", *WORDS["math"])),
    ),
    nodes.Wgmma: (("shape", lambda s: re.sub(r"n\d+", "n", s.shape), ("m64nk16", "m64nk8", "m64nk32")),),
    nodes.RowReduce: _FOLDS,
    nodes.WarpReduce: (*_FOLDS, (Phrase("number of lanes"), lambda s: s.width, (1, 2, 4, 8, 16, 32))),
    nodes.BlockReduce: _FOLDS,
    nodes.BlockScan: _FOLDS,
    nodes.LookBack: _FOLDS,
    nodes.Atomic: _FOLDS,
}


def _start(s: nodes.Reg) -> str:
    """What a matrix in registers starts from: its kind and the number; empty where it is none, or starts from none."""
    if s.init is None or not s.kind or s.kind in ROW_KINDS:
        return ""
    return f"{s.kind} = {'0.0' if s.is_zeroed else show_body(s.init)}"


def words_of(s: Any) -> Iterator[tuple[str, Any, tuple]]:
    """What a statement says in words: what of, which, and those that are known."""
    for what, said, known in _WORDS.get(type(s), ()):
        yield what, said(s), known


def kinds_of(s: Any) -> Iterator[tuple[str, Kind]]:
    """What a statement needs its names to be."""
    for word, kind in _NEEDS.get(type(s), ()):
        named = getattr(s, word)
        if named:
            yield named.name if isinstance(named, Place) else named, kind
