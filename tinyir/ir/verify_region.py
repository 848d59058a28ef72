"""The verifier of a region, but for its proofs: names, axes and forms, in the order that `ir.region.check` lists
them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ..kit.diag import Diag
from ..kit.phrase import Listing, Phrase
from ..kit.records import replace
from ..kit.work import count
from .accumulate import neutral_of
from .alike import Alike
from .body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Transpose,
    operands_of,
    walk,
)
from .ops import REDUCERS
from .present import AxesOf, axes_of_values, guard_names, is_scalar, names_in, present_axes
from .types import is_exact
from .verify_program import twice

FOLDS = {"update", *(r.lower() for r, row in REDUCERS.items() if row.fold)}


def check_region(module: Any, region: Any) -> list[Diag]:
    """Invariants 5 to 9 of `ir.region.check`, for one region."""
    symbols = frozenset(module.model.symbols())
    found = list(_check_own_names(region))
    if not found and _is_well_formed(Alike.of(region), region.analysis, symbols):
        return []
    found += [*_check_axes(symbols, region), *_check_ranks(region)]
    if any(d.is_error for d in found):
        return found
    return [*found, *_check_reductions(region), *_check_broadcasts(region)]


@functools.lru_cache(maxsize=4096)
def _is_well_formed(alike: Alike, analysis: Any, symbols: frozenset[str]) -> bool:
    """Whether a region whose own names are in order has no fault of another kind, which names decide nothing of."""
    count("regions checked")
    one = replace(alike.regions[0], analysis=analysis)
    checks = (_check_axes(symbols, one), _check_ranks(one), _check_reductions(one), _check_broadcasts(one))
    return not any(fault for check in checks for fault in check)


def expressions_of(region: Any) -> Iterator[tuple[Any, Body]]:
    """Every let and yield of a region with its expression."""
    for item in (*region.lets, *region.yields):
        yield item, item.expr


def _check_own_names(region: Any) -> Iterator[Diag]:
    yield from twice((*region.inputs, *region.outputs), region.name)
    yield from twice(region.lets, region.name)
    outputs = {t.name for t in region.outputs}
    for let in region.yields:
        if let.output not in outputs:
            yield Diag(
                "E1402",
                region.name,
                {"name": let.output, "fault": Phrase("it is yielded but is not an output of the region")},
                let.span,
            )
    yielded = {y.output for y in region.yields}
    for tensor in region.outputs:
        if tensor.name not in yielded:
            yield Diag(
                "E1402",
                region.name,
                {"name": tensor.name, "fault": Phrase("the region has no yield for it")},
                tensor.span,
            )
    for _item, body in expressions_of(region):
        for node in walk(body):
            if isinstance(node, Read) and node.tensor in outputs:
                yield Diag(
                    "E1402",
                    region.name,
                    {"name": node.tensor, "fault": Phrase("a region does not read what it writes")},
                    node.span,
                )


def _check_axes(symbols: frozenset[str], region: Any) -> Iterator[Diag]:
    """Indices and guards name axes in scope and symbols; the axes of a fold are new with a size, or the region's
    without one."""
    iters = tuple(a.name for a in region.iters)
    for at, axis in enumerate(region.iters):
        if axis.name in symbols or axis.name in iters[:at]:
            yield _axis_fault(region, axis.name, Phrase("it is the name of a symbol or of another axis"), region.span)
        for name in sorted(names_in((axis.size,)) - symbols):
            yield _axis_fault(
                region, name, Phrase("the size of {axis} names it, but it is not a symbol", axis=axis.name), region.span
            )
    for item, body in expressions_of(region):
        used = names_in(item.index) | guard_names(item.guard) if hasattr(item, "output") else frozenset()
        for name in sorted(used - symbols - set(iters)):
            yield _axis_fault(region, name, Phrase("it is neither an axis of the region nor a symbol"), item.span)
        yield from _check_scope(region, body, iters, symbols, frozenset(iters), item.span)
    if region.analysis is not None:
        nodes = [n for _, body in expressions_of(region) for n in walk(body)]
        inside = {a.name for n in nodes if isinstance(n, (Reduce, Scatter)) for a in n.axes} | {
            n.axis.name for n in nodes if isinstance(n, Gather)
        }
        found = region.analysis
        for name in (*found.parallel, *found.reduce, *found.tail, *(axis for axis, _ in found.halo)):
            if name not in iters and name not in inside:
                yield _axis_fault(
                    region, name, Phrase("the analysis names it, but it is not an axis of the region"), region.span
                )


def _axis_fault(region: Any, name: str, fault: str, span: Any) -> Diag:
    return Diag("E1407", region.name, {"axis": name, "fault": fault}, span)


def _own_names(node: Body) -> frozenset[str]:
    if isinstance(node, Read):
        return names_in(node.index)
    if isinstance(node, Ref) and node.index is not None:
        return names_in(node.index)
    if isinstance(node, Index):
        return names_in((node.expr,))
    if isinstance(node, Random):
        return names_in((node.index,))
    if isinstance(node, Select):
        return guard_names(node.guard)
    if isinstance(node, Scan):
        return frozenset((node.axis,))
    if isinstance(node, Scatter):
        return frozenset((node.axis,))
    if isinstance(node, BroadcastInDim) and node.axes is not None:
        return frozenset(node.axes)
    return frozenset()


def _check_scope(
    region: Any, body: Body, iters: tuple[str, ...], symbols: frozenset[str], scope: frozenset[str], place: Any
) -> Iterator[Diag]:
    place = body.span or place
    for name in sorted(_own_names(body) - scope - symbols):
        yield _axis_fault(region, name, Phrase("it is neither an axis in scope nor a symbol"), place)
    if isinstance(body, (Reduce, Scatter)):
        if not body.axes:
            yield _axis_fault(region, "", Phrase("the fold has no axis"), place)
        yield from _check_fold_axes(region, body.axes, iters, symbols, scope, place)
        scope = scope | {a.name for a in body.axes}
    if isinstance(body, Gather):
        yield from _check_scope(region, body.at, iters, symbols, scope, place)
        yield from _check_fold_axes(region, (body.axis,), iters, symbols, scope, place)
        yield from _check_scope(region, body.body, iters, symbols, scope | {body.axis.name}, place)
        return
    for inner in operands_of(body):
        yield from _check_scope(region, inner, iters, symbols, scope, place)


def _check_fold_axes(
    region: Any,
    axes: tuple[Axis, ...],
    iters: tuple[str, ...],
    symbols: frozenset[str],
    scope: frozenset[str],
    place: Any,
) -> Iterator[Diag]:
    for at, axis in enumerate(axes):
        if axis.size is None and axis.name not in iters:
            yield _axis_fault(region, axis.name, Phrase("it has no size and is not an axis of the region"), place)
        if (
            axis.size is not None
            and (axis.name in scope or axis.name in symbols)
            or axis.name in [a.name for a in axes[:at]]
        ):
            yield _axis_fault(region, axis.name, Phrase("it has this name in scope already"), place)
        if axis.size is not None and names_in((axis.size,)) - symbols:
            yield _axis_fault(
                region, axis.name, Phrase("its size {size} names more than symbols", size=axis.size), place
            )


def _check_ranks(region: Any) -> Iterator[Diag]:
    """An index has the rank of its tensor, or of its value's axes; there is no ring slot."""
    tensors = {t.name: t for t in region.inputs + region.outputs}
    axes_of = axes_of_values(region)
    for item, body in expressions_of(region):
        if hasattr(item, "output") and item.output in tensors:
            yield from _rank_fault(region, item.output, len(item.index), tensors[item.output].type.rank, item.span)
            if item.expr.dtype != tensors[item.output].type.dtype:
                fault = Phrase(
                    "{output} is {dtype}, but {dtype2} is yielded",
                    output=item.output,
                    dtype=tensors[item.output].type.dtype,
                    dtype2=item.expr.dtype,
                )
                yield Diag("E1002", region.name, {"fault": fault}, item.span)
        for node in walk(body):
            if isinstance(node, Read) and node.slot is not None:
                yield Diag("E1412", region.name, {"name": node.tensor}, node.span)
            elif isinstance(node, Read):
                yield from _rank_fault(region, node.tensor, len(node.index), tensors[node.tensor].type.rank, node.span)
            elif isinstance(node, Ref) and node.index is not None:
                yield from _rank_fault(region, f"%{node.name}", len(node.index), len(axes_of[node.name]), node.span)


def _rank_fault(region: Any, name: str, given: int, rank: int, span: Any) -> Iterator[Diag]:
    if given != rank:
        yield Diag("E1410", region.name, {"name": name, "given": given, "rank": rank}, span)


def _check_reductions(region: Any) -> Iterator[Diag]:
    """The fold is known, starts from its neutral element, and its accumulator holds what is folded."""
    for _item, body in expressions_of(region):
        for node in walk(body):
            if isinstance(node, (Reduce, Scan)):
                known = REDUCERS if isinstance(node, Reduce) else {r: row for r, row in REDUCERS.items() if row.fold}
                if node.op.upper() not in known:
                    yield Diag(
                        "E0106",
                        region.name,
                        {"given": node.op, "known": ", ".join(r.lower() for r in known)},
                        node.span,
                    )
                    continue
                yield from _check_accumulator(region, node)
            elif isinstance(node, Scatter) and node.op not in FOLDS:
                yield Diag("E0106", region.name, {"given": node.op, "known": ", ".join(sorted(FOLDS))}, node.span)
            elif isinstance(node, Scatter) and (node.update.dtype != node.base.dtype or not node.at.dtype.is_integer):
                fault = Phrase(
                    "scatter of {dtype} at {dtype2} onto {dtype3}",
                    dtype=node.update.dtype,
                    dtype2=node.at.dtype,
                    dtype3=node.base.dtype,
                )
                yield Diag("E1002", region.name, {"fault": fault}, node.span)
            elif isinstance(node, Gather) and not node.at.dtype.is_integer:
                yield Diag(
                    "E1002",
                    region.name,
                    {"fault": Phrase("gather takes an integer place, not {dtype}", dtype=node.at.dtype)},
                    node.span,
                )


def _check_accumulator(region: Any, node: Reduce | Scan) -> Iterator[Diag]:
    chooses = node.op in ("argmax", "argmin")
    if chooses and not node.dtype.is_integer or not chooses and not is_exact(node.body.dtype, node.dtype):
        yield Diag("E1406", region.name, {"op": node.op, "acc": node.dtype, "body": node.body.dtype}, node.span)
    init = getattr(node, "init", None)
    if init is not None and init != neutral_of(node.op, node.dtype).value:
        yield Diag(
            "E1405",
            region.name,
            {"op": node.op, "given": init, "neutral": neutral_of(node.op, node.dtype).value, "dtype": node.dtype},
            node.span,
        )


def _check_broadcasts(region: Any) -> Iterator[Diag]:
    """Operands outside of folds have equal free axes; inside a fold nothing is broadcast (C-CON1)."""
    meeting = _Meeting(region, tuple(a.name for a in region.iters), axes_of_values(region))
    for _item, body in expressions_of(region):
        yield from meeting.check(body)


class _Meeting:
    """Where the values of a region meet."""

    def __init__(self, region: Any, iters: tuple[str, ...], axes_of: AxesOf):
        self.region, self.iters, self.axes_of = region, iters, axes_of
        self.size_of = {a.name: a.size for a in region.iters}

    def check(self, body: Body) -> Iterator[Diag]:
        """The faults of an expression, from the outside in."""
        if isinstance(body, (Reduce, Scan)):
            yield from _check_contraction(self.region, body.body)
        elif isinstance(body, Scatter):
            updates = (body.update, body.at)
            if any(body.axis in present_axes(inner, self.iters, self.axes_of) for inner in updates):
                fault = Phrase("an update varies along the axis on which it is scattered")
                yield _axis_fault(self.region, body.axis, fault, body.span)
            for inner in updates:
                yield from _check_contraction(self.region, inner)
            yield from self.check(body.base)
        elif isinstance(body, Gather):
            yield from self.check(body.at)
            yield from _check_contraction(self.region, body.body)
        else:
            if isinstance(body, BroadcastInDim):
                yield from self._broadcast(body)
            elif isinstance(body, Transpose):
                yield from self._transpose(body)
            elif isinstance(body, (Binary, Ternary, Select)):
                yield from self._operands(body)
            for inner in operands_of(body):
                yield from self.check(inner)

    def _axes(self, node: Body) -> tuple[str, ...]:
        present = present_axes(node, self.iters, self.axes_of)
        return tuple(n for n in self.iters if n in present)

    def _fault(self, node: Body, fault: str) -> Diag:
        return Diag("E1408", self.region.name, {"fault": fault}, node.span)

    def _broadcast(self, body: BroadcastInDim) -> Iterator[Diag]:
        wide, own = self.iters if body.axes is None else body.axes, self._axes(body.x)
        rises = all(a < b for a, b in zip(body.dims, body.dims[1:])) and all(d < len(wide) for d in body.dims)
        if not rises or tuple(wide[d] for d in body.dims) != own:
            fault = Phrase(
                "dims {dims} do not place the axes {axes} among {wide}",
                dims=list(body.dims),
                axes=list(own),
                wide=list(wide),
            )
            yield self._fault(body, fault)

    def _transpose(self, body: Transpose) -> Iterator[Diag]:
        own = self._axes(body.x)
        if sorted(body.perm) != list(range(len(own))):
            yield Diag("E1004", self.region.name, {"perm": list(body.perm), "rank": len(own)}, body.span)
        elif any(self.size_of[own[p]] != self.size_of[name] for p, name in zip(body.perm, own)):
            yield self._fault(body, Phrase("transpose exchanges axes of different sizes among {own}", own=list(own)))

    def _operands(self, body: Binary | Ternary | Select) -> Iterator[Diag]:
        varying = [axes for o in operands_of(body) for axes in (self._axes(o),) if axes or not is_scalar(o)]
        if len(set(varying)) > 1:
            word = "where" if isinstance(body, Select) else body.op
            shown = Listing((str(list(axes)) for axes in varying), " and ")
            yield self._fault(body, Phrase("the operands of {word} vary along {shown}", word=word, shown=shown))


def _check_contraction(region: Any, body: Body) -> Iterator[Diag]:
    for node in walk(body):
        if isinstance(node, (BroadcastInDim, Transpose)):
            yield Diag(
                "E1409",
                region.name,
                {"word": "broadcast_in_dim" if isinstance(node, BroadcastInDim) else "transpose"},
                node.span,
            )
