"""The verifier of gpu text: heads, names, indices, words and resources. What waits for what is `order.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ...kit.work import count, span
from ...target.arch import ARCHS
from ..body import Index, Read, Ref, Select
from ..expr import Bound, Expr
from ..verify import nearest
from . import nodes
from .accesses import check_vectors
from .across import ACROSS
from .atomics import check_atomics
from .bounds import check_bounds
from .counts import check_counts
from .early import check_early
from .elected import check_elected
from .extremes import EXTREMES
from .in_turn import check_turns
from .kinds import kinds_of, words_of
from .launches import check_launches
from .misfits import misfits
from .nodes import Kernel
from .order import ORDER_CHECKS
from .picks import check_picks
from .replay import check_copies
from .replay_products import check_products
from .resources import check_resources
from .rows import check_rows
from .walk import Visit, places_in, reads_in, statements, tensor_of, tensors_of, visits, words_held


def check_kernels(module: Any) -> list[Diag]:
    """Invariants 2 to 16 and 18 of `ir.gpu.check`. A kernel whose head or names are wrong is not looked at further; a
    further launch of it is only compared with it."""
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

    named = said((_check_names, check_counts, _check_words, _check_indices, check_rows))
    return named or said((*_CHECKS, *ORDER_CHECKS, check_copies, check_products))


def _check_regions(module: Any) -> Iterator[Diag]:
    computed = {name for one in module.launches if not one.serves for name in one.regions}
    for region in module.plans.program.program.regions:
        if region.name not in computed:
            yield Diag("E1604", region.name, {"region": region.name}, region.span)


def _check_head(kernel: Kernel, module: Any) -> Iterator[Diag]:
    def fault(words: str) -> Diag:
        return Diag("E1603", kernel.name, {"fault": words}, kernel.span)

    program = module.plans.program.program
    if kernel.serves and not any(
        k.name == kernel.serves and k.regions == kernel.regions and not k.serves for k in module.kernels
    ):
        yield fault(Phrase("is for {serves}, which is not a kernel of the same regions", serves=kernel.serves))
    constants = module.plans.program.model.constants()
    taken = (
        {n.tensor for s in statements(kernel.body) for n in reads_in(s) if isinstance(n, Read)}
        & set(tensors_of(kernel, module)) - constants
        if kernel.is_once
        else set()
    )
    for name in sorted(taken):
        yield fault(Phrase("is made once, and reads {name}, which is not a constant of the model", name=name))
    kept = {t.name for t in program.buffers if t.attr("materialize") != "deferred"}
    for one in map(program.region, kernel.regions if kernel.is_once and not kernel.serves else ()):
        for name in sorted({t.name for t in one.outputs} - kept if one else ()):
            yield fault(Phrase("is made once, and writes {name}, which is not a buffer of the program", name=name))
    for name in kernel.regions:
        if program.region(name) is None:
            yield fault(Phrase("computes {name}, which is not a region of the program", name=name))
    if kernel.arch not in ARCHS:
        yield fault(Phrase("is for {arch}, not for one of {archs}", arch=kernel.arch, archs=", ".join(ARCHS)))
    for word, shape in (("grid", kernel.grid), ("block", kernel.block)):
        if not 1 <= len(shape) <= 3:
            yield fault(Phrase("has a {word} of {count} axes, not 1 to 3", word=word, count=len(shape)))
    if (
        not 1 <= kernel.threads <= 1024
        or min(kernel.block, default=1) < 1
        or len(kernel.block) == 3
        and kernel.block[2] > 64
    ):
        yield fault(Phrase("has a block of {threads} threads, not 1 to 1024 (64 along z)", threads=kernel.threads))
    if kernel.cluster and kernel.arch in ARCHS:
        count = 1
        for size in kernel.cluster:
            count *= size
        if not 1 <= count <= ARCHS[kernel.arch].ctas_per_cluster:
            yield fault(
                Phrase(
                    "has a cluster of {count} CTAs, {ctas_per_cluster} at most on {arch}",
                    count=count,
                    ctas_per_cluster=ARCHS[kernel.arch].ctas_per_cluster,
                    arch=kernel.arch,
                )
            )
    symbols = set(module.plans.program.model.symbols())
    for unknown in sorted({n for e in kernel.grid for n in e.names()} - symbols):
        yield fault(Phrase("has a grid of {unknown}, which is not a symbol of the signature", unknown=unknown))


# --- names


def _check_names(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    tensors = tensors_of(kernel, module)
    for v in walked:
        s = v.statement
        own = dict.fromkeys(n for n, _ in (*getattr(s, "over", ()), *getattr(s, "lets", ())))
        for name in dict.fromkeys(n for e in exprs_in(s) for n in e.names()):
            if name not in v.names and name not in own:
                yield _unknown(kernel, s, name, {**v.names, **own})
        for node in reads_in(s):
            if isinstance(node, Ref) and node.name not in v.values:
                yield _unknown(kernel, s, f"%{node.name}", {f"%{n}" for n in v.values})
            if isinstance(node, Read) and node.tensor not in v.arrays and node.tensor not in tensors:
                yield _unknown(kernel, s, node.tensor, {**v.arrays, **tensors})
        for name in [p.name for _, p in places_in(s)] + _array_names(s):
            if name not in v.arrays and name not in tensors:
                yield _unknown(kernel, s, name, {**v.arrays, **tensors})
        for name in [getattr(s, w) for w in ("cursor",) if hasattr(s, w)]:
            if f"{name}.slot" not in v.names:
                yield _unknown(kernel, s, name, {n.removesuffix(".slot") for n in v.names if n.endswith(".slot")})
        for name in _defined(s):
            earlier = v.names.get(name, v.arrays.get(name)) if name in v.names or name in v.arrays else None
            if (
                name in v.names
                or name in v.arrays
                or (
                    name in tensors
                    and not isinstance(
                        s, (nodes.Let, *EXTREMES, nodes.Choose, nodes.For, nodes.Each, nodes.Order, nodes.Ticket)
                    )
                )
            ):
                labels = (
                    (Label(earlier.span, Phrase("first defined here")),) if earlier is not None and earlier.span else ()
                )
                yield Diag("E1606", kernel.name, {"name": name}, s.span, labels)


def _unknown(kernel: Kernel, s: Any, name: str, known: Any) -> Diag:
    return Diag(
        "E1605",
        kernel.name,
        {"name": name, "near": ", ".join(nearest(name, known)) or Phrase("nothing like it")},
        s.span,
    )


def _defined(s: Any) -> tuple[str, ...]:
    if isinstance(
        s,
        (
            nodes.Let,
            *EXTREMES,
            nodes.Choose,
            nodes.For,
            nodes.Ticket,
            nodes.Shared,
            nodes.Reg,
            nodes.Mbarrier,
            nodes.TensorMap,
            nodes.Pick,
        ),
    ):
        return (s.name,)
    if isinstance(s, nodes.Cursor):
        return (f"{s.name}.slot",)
    names = s.names if isinstance(s, (nodes.Each, nodes.Order)) else ()
    return (*names, *(n for n, _ in (*getattr(s, "over", ()), *getattr(s, "lets", ()))))


def _array_names(s: Any) -> list[str]:
    """Arrays and barriers that a statement names without a place."""
    words = {
        nodes.Each: ("of",),
        nodes.Mma: ("acc",),
        nodes.Wgmma: ("acc",),
        nodes.RowReduce: ("source", "to"),
        nodes.WarpReduce: ("name",),
        nodes.BlockReduce: ("name", "via"),
        nodes.BlockScan: ("name", "carry", *(("via",) if getattr(s, "via", "") else ())),
        nodes.Stmatrix: ("source",),
        nodes.Drain: ("barrier",),
        nodes.TensorMap: ("tensor",),
        nodes.Ticket: ("via",),
        nodes.Publish: ("name",),
        nodes.LookBack: ("name", "via"),
    }
    return [
        *(s.of if isinstance(s, nodes.Pick) else ()),
        *filter(None, (getattr(s, "held", ""),)),
        *(getattr(s, w) for w in words.get(type(s), ())),
    ]


def exprs_in(s: Any) -> Iterator[Expr]:
    """Every integer expression that a statement itself holds, guards and indices too."""
    more = ("by",) if isinstance(s, nodes.Advance) else ("at",) if isinstance(s, nodes.Pick) else ()
    for word in words_held(type(s), ("low", "high", "step", "tile", "phase", "extent", "cta", *more)):
        e = getattr(s, word)
        if isinstance(e, Expr):
            yield e
    if isinstance(s, nodes.Let):
        yield s.value
    if isinstance(s, nodes.TensorMap) and s.windows:
        yield from s.windows.counts
    if isinstance(s, nodes.Order):
        yield from s.extents
    if isinstance(s, EXTREMES):
        yield from s.of
    for bound in (*(getattr(s, "guard", None) or ()), *(getattr(s, "zero", None) or ())):
        yield from bound_exprs(bound)
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
                yield from bound_exprs(bound)


def bound_exprs(bound: Bound) -> Iterator[Expr]:
    """The expressions of one guard."""
    yield from (e for e in (bound.expr, bound.lower, bound.upper, bound.equals) if e is not None)


# --- words and kinds


def _check_words(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    for v in walked:
        s = v.statement
        for what, given, known in words_of(s):
            if given not in known:
                yield Diag(
                    "E1602",
                    kernel.name,
                    {
                        "name": given,
                        "fault": Phrase("is not a {what}; known: {known}", what=what, known=", ".join(map(str, known))),
                    },
                    s.span,
                )
        for name, wanted, what in kinds_of(s):
            array = v.arrays.get(name)
            if array is None or not wanted(array):
                yield Diag("E1602", kernel.name, {"name": name, "fault": Phrase("is not {what}", what=what)}, s.span)
        for name, fault in misfits(s, v, tensors_of(kernel, module)):
            yield Diag("E1602", kernel.name, {"name": name, "fault": fault}, s.span)
        if isinstance(s, nodes.BlockScan) and not s.via and kernel.threads > 32:
            yield Diag(
                "E1602",
                kernel.name,
                {"name": s.name, "fault": Phrase("is scanned over several warps, which takes `via` shared memory")},
                s.span,
            )
        via, own = (
            (v.arrays.get(name) for name in (s.via, s.name))
            if isinstance(s, (nodes.BlockReduce, nodes.BlockScan)) and s.via
            else (None, None)
        )
        each = (
            own.type.shape[0].constant
            if isinstance(s, nodes.BlockScan) and isinstance(own, nodes.Reg) and own.type.rank == 1
            else 1
        )
        if (
            isinstance(via, nodes.Shared)
            and via.bytes // via.ring < each * -(-kernel.threads // 32) * via.type.dtype.bytes
        ):
            yield Diag(
                "E1602",
                kernel.name,
                {"name": s.via, "fault": Phrase("has fewer elements than the block has warps")},
                s.span,
            )
        needs = (
            s
            if isinstance(
                s,
                (
                    nodes.TensorMap,
                    nodes.Mbarrier,
                    nodes.TmaLoad,
                    nodes.Send,
                    nodes.TmaStore,
                    nodes.Wgmma,
                    nodes.Stmatrix,
                    *nodes.EARLY,
                ),
            )
            else None
        )
        if needs is not None and not ARCHS[kernel.arch].has_tma:
            yield Diag(
                "E1602",
                kernel.name,
                {"name": type(s).__name__, "fault": Phrase("is not on {arch}", arch=kernel.arch)},
                s.span,
            )


# --- indices


def _check_indices(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    tensors = tensors_of(kernel, module)
    for v in walked:
        s = v.statement
        used = [
            (
                p.name,
                p.index,
                p.slot,
                not isinstance(
                    s, (nodes.Assign, nodes.Store, nodes.Copy, nodes.CpAsync, nodes.Atomic, nodes.Resum, *ACROSS)
                ),
            )
            for _, p in places_in(s)
        ]
        used += [(n.tensor, n.index, n.slot, False) for n in reads_in(s) if isinstance(n, Read)]
        for name, index, slot, may_be_whole in used:
            item = (
                tensors[tensor_of(name, v)]
                if tensor_of(name, v) in tensors and name not in tensors
                else v.arrays.get(name, tensors.get(name))
            )
            if item is None:  # named already (E1605)
                continue
            if isinstance(s, nodes.StoreRows) and name == s.to.name and s.dims:
                rank, ring = len(s.dims), 1
            elif isinstance(item, nodes.TensorMap):
                rank, ring = len(item.box), 1
            elif isinstance(item, nodes.Mbarrier):
                rank, ring = 0, item.ring
            else:
                rank, ring = item.type.rank, max(getattr(item, "ring", 1), getattr(item, "cluster", 0))
            if len(index) != rank and not (may_be_whole and not index):
                yield Diag(
                    "E1607", kernel.name, {"name": name, "given": len(index), "wanted": rank, "what": "indices"}, s.span
                )
            elif (ring > 1) != (slot is not None):
                yield Diag(
                    "E1607",
                    kernel.name,
                    {
                        "name": name,
                        "given": int(slot is not None),
                        "wanted": int(ring > 1),
                        "what": Phrase("ring slots"),
                    },
                    s.span,
                )


_CHECKS = (
    check_bounds,
    check_vectors,
    check_resources,
    check_picks,
    check_turns,
    check_atomics,
    check_early,
    check_elected,
)
