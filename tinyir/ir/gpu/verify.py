"""The verifier of gpu text: heads, names, indices, words and resources. What waits for what is `order.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ...kit.work import count, span
from ...target.arch import ARCHS
from ..body import Binary, Index, Literal, Random, Read, Ref, Select, Ternary, Unary, show_body
from ..expr import Expr
from ..unknown import unknown_name
from . import nodes
from .accesses import check_vectors
from .across import ACROSS
from .atomics import check_atomics
from .bounds import check_bounds
from .counts import check_counts
from .drawn import check_drawn
from .early import check_early
from .elected import check_elected
from .extremes import EXTREMES
from .in_turn import check_turns
from .kinds import kinds_of, words_of
from .launches import check_launches
from .misfits import misfits
from .nodes import Kernel
from .operands import check_operands
from .order import ORDER_CHECKS
from .picks import check_picks
from .replay import check_copies
from .replay_products import check_products
from .resources import check_resources
from .rows import check_rows
from .walk import Visit, places_in, reads_in, statements, tensor_of, tensors_of, visits, words_held

# What a thread computes of one element. Folds and moves are of regions: a kernel has statements and indices for them.
OF_ONE_ELEMENT = (Read, Ref, Literal, Index, Random, Unary, Binary, Ternary, Select)


def check_kernels(module: Any) -> list[Diag]:
    """Invariants 2 to 16 and 18 of `ir.gpu.check`. A kernel whose head, whose names and counts, or whose words are
    wrong is not looked at further; a further launch of it is only compared with it."""
    diags = [*_check_regions(module), *check_launches(module)]
    for kernel in module.kernels:
        with span("kernel", kernel.name):
            diags += _check_kernel(kernel, module)
    return diags


def _check_kernel(kernel: Kernel, module: Any) -> list[Diag]:
    count("kernels checked")
    heads = [*_check_head(kernel, module)]
    if heads:
        return heads
    with span("walk"):
        walked = list(visits(kernel, module.plans.program.model))

    def said(checks: Iterable[Any]) -> list[Diag]:
        found = []
        for check in checks:
            with span(check.__name__.removeprefix("_").removeprefix("check_").replace("_", " ")):
                found += check(kernel, walked, module)
        return found

    names, words = (_check_names, check_counts), (_check_words, _check_indices)
    return (
        said(names)
        or said(words)
        or said((check_rows, check_operands, check_resources))
        or said((*_CHECKS, *ORDER_CHECKS, check_copies, check_products))
    )


def _check_regions(module: Any) -> Iterator[Diag]:
    computed = {name for one in module.launches if not one.serves for name in one.regions}
    for region in module.plans.program.program.regions:
        if region.name not in computed:
            yield Diag("E1604", region.name, {"region": region.name}, region.span)


def _check_head(kernel: Kernel, module: Any) -> Iterator[Diag]:
    """Its regions first: the rest asks what they are."""
    faults = [*_unknown_regions(kernel, module)] or (
        *_head_faults(kernel, module),
        *_once_faults(kernel, module),
        *_size_faults(kernel, module),
    )
    for words in faults:
        yield Diag("E1603", kernel.name, {"fault": words}, kernel.span)


def _unknown_regions(kernel: Kernel, module: Any) -> Iterator[str]:
    for name in kernel.regions:
        if module.plans.program.program.region(name) is None:
            yield Phrase("computes {name}, which is not a region of the program", name=name)


def _head_faults(kernel: Kernel, module: Any) -> Iterator[str]:
    """What a kernel is for and on."""
    served = [k for k in module.kernels if k.name == kernel.serves and k.regions == kernel.regions and not k.serves]
    if kernel.serves and not served:
        yield Phrase("is for {serves}, which is not a kernel of the same regions", serves=kernel.serves)
    if kernel.arch not in ARCHS:
        yield Phrase("is for {arch}, not for one of {archs}", arch=kernel.arch, archs=", ".join(ARCHS))


def _once_faults(kernel: Kernel, module: Any) -> Iterator[str]:
    """What is made once is made of constants of the model, and kept in buffers."""
    if not kernel.is_once:
        return
    program = module.plans.program
    taken = {n.tensor for s in statements(kernel.body) for n in reads_in(s) if isinstance(n, Read)}
    for name in sorted(taken & set(tensors_of(kernel, module)) - program.model.constants()):
        yield Phrase("is made once, and reads {name}, which is not a constant of the model", name=name)
    if kernel.serves:
        return
    kept = {t.name for t in program.program.buffers if t.attr("materialize") != "deferred"}
    for one in map(program.program.region, kernel.regions):
        for name in sorted({t.name for t in one.outputs} - kept):
            yield Phrase("is made once, and writes {name}, which is not a buffer of the program", name=name)


def _size_faults(kernel: Kernel, module: Any) -> Iterator[str]:
    """How many CTAs and threads there are."""
    for word, shape in (("grid", kernel.grid), ("block", kernel.block)):
        if not 1 <= len(shape) <= 3:
            yield Phrase("has a {word} of {count} axes, not 1 to 3", word=word, count=len(shape))
    is_deep = len(kernel.block) == 3 and kernel.block[2] > 64
    if not 1 <= kernel.threads <= 1024 or min(kernel.block, default=1) < 1 or is_deep:
        yield Phrase("has a block of {threads} threads, not 1 to 1024 (64 along z)", threads=kernel.threads)
    most = ARCHS[kernel.arch].registers_per_thread if kernel.arch in ARCHS else kernel.regs
    if kernel.regs > most:
        yield Phrase(
            "holds a thread to {regs} registers, {most} at most on {arch}",
            regs=kernel.regs,
            most=most,
            arch=kernel.arch,
        )
    if kernel.cluster and kernel.arch in ARCHS:
        count, most = math.prod(kernel.cluster), ARCHS[kernel.arch].ctas_per_cluster
        if not 1 <= count <= most:
            yield Phrase(
                "has a cluster of {count} CTAs, {ctas_per_cluster} at most on {arch}",
                count=count,
                ctas_per_cluster=most,
                arch=kernel.arch,
            )
    symbols = set(module.plans.program.model.symbols())
    for unknown in sorted({n for e in kernel.grid for n in e.names()} - symbols):
        yield Phrase("has a grid of {unknown}, which is not a symbol of the signature", unknown=unknown)


# --- names


def _check_names(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    tensors, sizes = tensors_of(kernel, module), dict.fromkeys(module.plans.program.model.symbols())
    for v in walked:
        s = v.statement
        for name, known in _unknown_names(s, v, tensors, sizes):
            yield Diag("E1605", kernel.name, unknown_name(name, known), s.span)
        own: set[str] = set()
        for name in _defined(s):
            if name in own:
                yield Diag("E1606", kernel.name, {"name": name}, s.span)
            own.add(name)
            earlier = v.names[name] if name in v.names else v.arrays.get(name)
            is_taken = name in v.names or name in v.arrays or name in tensors and not isinstance(s, _OF_INTEGERS)
            if is_taken:
                span = earlier.span if earlier is not None else None
                labels = (Label(span, Phrase("first defined here")),) if span else ()
                yield Diag("E1606", kernel.name, {"name": name}, s.span, labels)


def _unknown_names(
    s: Any, v: Visit, tensors: Mapping[str, Any], sizes: Mapping[str, Any]
) -> Iterator[tuple[str, Iterable[str]]]:
    """Names that nothing defines at a statement, each with those of its kind that are known there. The host, which
    launches, knows `sizes` alone."""
    own = dict.fromkeys(n for n, _ in (*getattr(s, "over", ()), *getattr(s, "lets", ())))
    integers = sizes if isinstance(s, (nodes.Assume, nodes.TensorMap)) else {**v.names, **own}
    for name in dict.fromkeys(n for e in exprs_in(s) for n in e.names()):
        if name not in integers:
            yield name, integers
    for node in reads_in(s):
        if isinstance(node, Ref) and node.name not in v.values:
            yield f"%{node.name}", [f"%{n}" for n in v.values]
        if isinstance(node, Read) and node.tensor not in v.arrays and node.tensor not in tensors:
            yield node.tensor, {**v.arrays, **tensors}
    for name in [p.name for _, p in places_in(s)] + _array_names(s):
        if name not in v.arrays and name not in tensors:
            yield name, {**v.arrays, **tensors}
    cursor = getattr(s, "cursor", None)
    if cursor is not None and f"{cursor}.slot" not in v.names:
        yield cursor, [n.removesuffix(".slot") for n in v.names if n.endswith(".slot")]


# What defines integers, whose names may be those of tensors, and arrays, whose may not.
_OF_INTEGERS = (nodes.Let, *EXTREMES, nodes.Choose, nodes.For, nodes.Each, nodes.Order, nodes.Ticket)
_OF_ONE_NAME = (
    *(nodes.Let, *EXTREMES, nodes.Choose, nodes.For, nodes.Ticket),
    *(nodes.Shared, nodes.Reg, nodes.Mbarrier, nodes.TensorMap, nodes.Pick),
)


def _defined(s: Any) -> tuple[str, ...]:
    if isinstance(s, _OF_ONE_NAME):
        return (s.name,)
    if isinstance(s, nodes.Cursor):
        return (f"{s.name}.slot",)
    names = s.names if isinstance(s, (nodes.Each, nodes.Order)) else ()
    return (*names, *(n for n, _ in (*getattr(s, "over", ()), *getattr(s, "lets", ()))))


# The fields in which a statement names arrays and barriers without a place.
_ARRAYS_NAMED: dict[type, tuple[str, ...]] = {
    nodes.Each: ("of",),
    nodes.Mma: ("acc",),
    nodes.Wgmma: ("acc",),
    nodes.RowReduce: ("source", "to"),
    nodes.WarpReduce: ("name",),
    nodes.BlockReduce: ("name", "via"),
    nodes.BlockScan: ("name", "carry", "via"),
    nodes.Drain: ("barrier",),
    nodes.TensorMap: ("tensor",),
    nodes.Ticket: ("via",),
    nodes.For: ("via", "full", "empty"),
    nodes.Publish: ("held", "name"),
    nodes.LookBack: ("held", "name", "via"),
}


def _array_names(s: Any) -> list[str]:
    """Arrays and barriers that a statement names without a place."""
    if isinstance(s, nodes.Pick):
        return list(s.of)
    return [name for word in _ARRAYS_NAMED.get(type(s), ()) if (name := getattr(s, word))]


def exprs_in(s: Any) -> Iterator[Expr]:
    """Every integer expression that a statement itself holds, guards and indices too."""
    kind = type(s)
    more = ("by",) if kind is nodes.Advance else ("at",) if kind is nodes.Pick else ()
    for word in words_held(kind, ("low", "high", "step", "tile", "phase", "extent", "cta", *more)):
        e = getattr(s, word)
        if isinstance(e, Expr):
            yield e
    if kind is nodes.Let:
        yield s.value
    if kind is nodes.TensorMap and s.windows:
        yield from s.windows.counts
    if kind is nodes.Order:
        yield from s.extents
    if kind in EXTREMES:
        yield from s.of
    for bound in (*(getattr(s, "guard", None) or ()), *(getattr(s, "zero", None) or ())):
        yield from bound.exprs
    for _, place in places_in(s):
        yield from place.index
        yield from (place.slot,) if place.slot is not None else ()
    for _, size in (*getattr(s, "over", ()), *getattr(s, "lets", ())):
        yield size
    for node in reads_in(s):
        if isinstance(node, Read):
            yield from node.index
            yield from (node.slot,) if node.slot is not None else ()
        elif isinstance(node, Index):
            yield node.expr
        elif isinstance(node, Select):
            for bound in node.guard:
                yield from bound.exprs


# --- words and kinds


def _check_words(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    tensors, has_tma = tensors_of(kernel, module), ARCHS[kernel.arch].has_tma
    for v in walked:
        s = v.statement
        faults = [
            (given, Phrase("is not a {what}; known: {known}", what=what, known=", ".join(map(str, known))))
            for what, given, known in words_of(s)
            if given not in known
        ]
        for name, kind in kinds_of(s):
            array = v.arrays.get(name)
            if array is None or not kind.holds(array):
                faults.append((name, Phrase("is not {what}", what=kind.what)))
        faults += misfits(s, v, kernel, tensors)
        for body in reads_in(s):
            if not isinstance(body, OF_ONE_ELEMENT):
                faults.append((show_body(body), Phrase("is of a region: a kernel computes element by element")))
        if not has_tma and (isinstance(s, _OF_COPY_ENGINES) or getattr(s, "scope", "") == "cluster"):
            faults.append((type(s).__name__, Phrase("is not on {arch}", arch=kernel.arch)))
        for name, fault in faults:
            yield Diag("E1602", kernel.name, {"name": name, "fault": fault}, s.span)


# --- indices


def _check_indices(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    tensors = tensors_of(kernel, module)

    def fault(s: Any, **facts: Any) -> Diag:
        return Diag("E1607", kernel.name, facts, s.span)

    for v in walked:
        s = v.statement
        may_be_whole = not isinstance(s, _OF_ELEMENTS)
        used = [(p.name, p.index, p.slot, may_be_whole) for _, p in places_in(s)]
        used += [(n.tensor, n.index, n.slot, False) for n in reads_in(s) if isinstance(n, Read)]
        for name, index, slot, is_maybe_whole in used:
            rank, ring = _brackets_of(name, v, tensors)
            if rank is None:  # named already (E1605)
                continue
            if isinstance(s, nodes.StoreRows) and name == s.to.name and s.dims:
                rank, ring = len(s.dims), 1
            is_whole = is_maybe_whole and not index and not _has_a_corner(v.arrays.get(name), s)
            if len(index) != rank and not is_whole:
                yield fault(s, name=name, given=len(index), wanted=rank, what="indices")
            elif (ring > 1) != (slot is not None):
                slots = Phrase("ring slots")
                yield fault(s, name=name, given=int(slot is not None), wanted=int(ring > 1), what=slots)


def _has_a_corner(array: Any, s: Any) -> bool:
    """Whether a box of it is always said with its corner: of a tensor, and of a matrix in registers that is sent."""
    is_map = isinstance(array, nodes.TensorMap) and not isinstance(s, (nodes.TensorMap, nodes.Pick))
    return is_map or isinstance(s, nodes.Send) and isinstance(array, nodes.Reg)


def _brackets_of(name: str, v: Visit, tensors: Mapping[str, Any]) -> tuple[int | None, int]:
    """How many indices a place of this name has, and how many slots; None where nothing is called so."""
    picked = tensor_of(name, v)
    item = tensors[picked] if picked in tensors and name not in tensors else v.arrays.get(name, tensors.get(name))
    if item is None:
        return None, 1
    if isinstance(item, nodes.TensorMap):
        return len(item.box), 1
    if isinstance(item, nodes.Mbarrier):
        return 0, item.ring
    return item.type.rank, max(getattr(item, "ring", 1), getattr(item, "cluster", 0))


_OF_ELEMENTS = (nodes.Assign, nodes.Store, nodes.Copy, nodes.CpAsync, nodes.Atomic, nodes.Resum, *ACROSS)
_OF_COPY_ENGINES = (  # what is on cards with a copy engine alone
    nodes.TensorMap,
    nodes.Mbarrier,
    nodes.TmaLoad,
    nodes.Send,
    nodes.TmaStore,
    nodes.Wgmma,
    *nodes.EARLY,
)
_CHECKS = (
    check_bounds,
    check_vectors,
    check_picks,
    check_turns,
    check_drawn,
    check_atomics,
    check_early,
    check_elected,
)
