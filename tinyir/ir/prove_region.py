"""What is proven of a region: every read in bounds under its guards, every output element written exactly once.

A read's obligations are linear facts about its index at every point of its axes where the guards around it hold;
`ir.scope` shows them. A write's obligation is that the yields of an output, as maps from points to elements, are
together a bijection onto it: seen at once when an index is the axes themselves, else shown by isl. Of a state that is
written over its old value (`ir.in_place`) what no yield writes keeps that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ..kit.diag import Diag
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.span import Span
from ..kit.work import count
from .alike import Alike
from .body import Body, Gather, Read, Reduce, Ref, Scatter, Select, operands_of, show_body
from .expr import ONE, ZERO, Bound, Expr
from .in_place import renewed_by
from .present import axes_of_values, guard_names, names_in, present_axes
from .scope import Scope, halves_of

Ranges = tuple[tuple[str, int, int], ...]
MANY = 64  # cases of a chain of guards beyond which an earlier guard is no longer taken as known false


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing to prove: what it says, and whether it was shown. `code` is E1403 (`subject` is a read, which keeps
    within `axis`: `bound` holds at every point of the `scopes`) or E1404 (`subject` is an output; `fault` says why it
    may not be written once)."""

    code: str
    region: str
    subject: Any
    is_shown: bool
    span: Span | None = None
    axis: int = 0
    bound: Bound | None = None
    scopes: tuple[Scope, ...] = ()
    fault: str = ""

    def diag(self) -> Diag:
        """The diagnostic of what is not shown."""
        if self.bound is None:
            return Diag(self.code, self.region, {"output": self.subject.name, "fault": self.fault}, self.span)
        return Diag(
            self.code,
            self.region,
            {"read": show_body(self.subject), "axis": self.axis, "bound": str(self.bound)},
            self.span,
        )


def check_proofs(module: Any, region: Any) -> list[Diag]:
    """Invariants 10 and 11 of `ir.region.check`: a diagnostic for each obligation that nothing shows."""
    ranges, kept = _ranges_of(module), _kept_in(module, region)
    if _is_proven(Alike.of(region), ranges, kept):
        return []
    return [o.diag() for o in _obligations(region, ranges, kept) if not o.is_shown]


@functools.lru_cache(maxsize=4096)
def _is_proven(alike: Alike, ranges: Ranges, kept: tuple[bool, ...]) -> bool:
    count("regions proven")
    return all(o.is_shown for one in alike.regions for o in _obligations(one, ranges, kept))


def obligations_of(module: Any, region: Any) -> Iterator[Obligation]:
    """Everything to prove of one region."""
    return _obligations(region, _ranges_of(module), _kept_in(module, region))


def _ranges_of(module: Any) -> Ranges:
    return tuple((r.symbol, r.low, r.high) for r in map(module.model.range_of, module.model.symbols()))


def _kept_in(module: Any, region: Any) -> tuple[bool, ...]:
    """Of each output whether it keeps its old value where nothing writes it."""
    kept = renewed_by(module, region)
    return tuple(t.name in kept for t in region.outputs)


def _obligations(region: Any, ranges: Ranges, kept: tuple[bool, ...]) -> Iterator[Obligation]:
    scope = Scope(tuple((a.name, a.size) for a in region.iters), ranges)
    axes_of = axes_of_values(region)
    shapes = {t.name: t.type.shape for t in region.inputs + region.outputs}
    size_of = {a.name: a.size for a in region.iters}
    extents = {f"%{name}": tuple(size_of[a] for a in axes) for name, axes in axes_of.items()} | shapes
    for let in region.lets:
        yield from _reads(region.name, let.expr, [scope], extents, let.span)
    for item in region.yields:
        yield from _reads(region.name, item.expr, [scope.with_given(item.guard)], extents, item.span)
    for output, is_kept in zip(region.outputs, kept):
        yield _writes(region, output, ranges, axes_of, is_kept)


def _reads(
    name: str, body: Body, scopes: list[Scope], extents: dict[str, tuple[Expr, ...]], place: Span | None
) -> Iterator[Obligation]:
    place = body.span or place
    if isinstance(body, Read) or isinstance(body, Ref) and body.index is not None:
        yield from _read(name, body, scopes, extents, place)
    if isinstance(body, Select):
        yield from _reads(name, body.then, [s.with_given(body.guard) for s in scopes], extents, place)
        yield from _reads(name, body.other, _outside(scopes, body.guard), extents, place)
        return
    if isinstance(body, (Reduce, Scatter)):
        inner = [_widen(s, body.axes) for s in scopes]
        for _at, operand in enumerate(operands_of(body)):
            is_base = isinstance(body, Scatter) and operand is body.base
            yield from _reads(name, operand, scopes if is_base else inner, extents, place)
        return
    if isinstance(body, Gather):
        yield from _reads(name, body.at, scopes, extents, place)
        yield from _reads(name, body.body, [_widen(s, (body.axis,)) for s in scopes], extents, place)
        return
    for inner_body in operands_of(body):
        yield from _reads(name, inner_body, scopes, extents, place)


def _widen(scope: Scope, axes: tuple) -> Scope:
    """The scope with the new axes of a fold. An axis of the region that is folded again runs free of the guards outside
    of the fold."""
    again = {a.name for a in axes if a.size is None}
    given = tuple(f for f in scope.given if not again & set(f.names()))
    return Scope(scope.axes + tuple((a.name, a.size) for a in axes if a.size is not None), scope.ranges, given)


def _outside(scopes: list[Scope], guard: tuple[Bound, ...]) -> list[Scope]:
    """Scopes that cover the points where the guard fails: one for each side of it, the sides before it holding."""
    halves = [half for bound in guard for half in halves_of(bound)]
    if len(scopes) * len(halves) > MANY:
        return scopes
    return [
        Scope(s.axes, s.ranges, (*s.given, *halves[:at], -half - 1)) for s in scopes for at, half in enumerate(halves)
    ]


def _read(
    region: str, body: Read | Ref, scopes: list[Scope], extents: dict[str, tuple[Expr, ...]], place: Span | None
) -> Iterator[Obligation]:
    name = f"%{body.name}" if isinstance(body, Ref) else body.tensor
    for axis, (index, size) in enumerate(zip(body.index, extents[name])):
        bound = Bound(index, ZERO, size)
        is_shown = is_axis(index, size, scopes) or all(s.proves_bound(bound) for s in scopes)
        yield Obligation("E1403", region, body, is_shown, place, axis, bound, tuple(scopes))


def is_axis(index: Expr, size: Expr, scopes: Iterable[Scope]) -> bool:
    """True when the index is an axis of this very size, so that nothing is left to show."""
    return index.name is not None and all((index.name, size) in s.axes for s in scopes)


def _writes(region: Any, output: Any, ranges: tuple, axes_of: dict[str, tuple[str, ...]], is_kept: bool) -> Obligation:
    yields = [y for y in region.yields if y.output == output.name]
    size_of = {a.name: a.size for a in region.iters}
    fault = _write_fault(output, yields, size_of, ranges, axes_of, is_kept)
    return Obligation("E1404", region.name, output, not fault, yields[0].span if yields else output.span, fault=fault)


def _write_fault(
    output: Any, yields: list, size_of: dict[str, Expr], ranges: tuple, axes_of: dict, is_kept: bool
) -> str:
    """Why the yields do not write every element once; empty when they are shown to. What is `kept` where no yield
    writes it need not be written."""
    iters = tuple(size_of)
    for item in yields:
        used = present_axes(item.expr, iters, axes_of) | guard_names(item.guard)
        loose = [n for n in iters if n in used and not any(n in e.names() for e in item.index)]
        if loose:
            return Phrase(
                "the value varies along {loose}, which the index of the yield does not name", loose=", ".join(loose)
            )
    if len(yields) == 1 and not yields[0].guard:
        names = [e.name for e in yields[0].index]
        named = [n for n in names if n]
        is_own = all(
            n in size_of and size_of[n] == d or e == ZERO and d == ONE
            for n, e, d in zip(names, yields[0].index, output.type.shape)
        )
        if is_own and len(set(named)) == len(named):
            return ""
    return _fault_by_isl(output, yields, size_of, ranges, is_kept)


def _fault_by_isl(output: Any, yields: list, size_of: dict[str, Expr], ranges: tuple, is_kept: bool) -> str:
    from .sets import is_representable, read_map, read_set

    exprs = [e for y in yields for e in y.index]
    if not all(is_representable(e, size_of) for e in exprs):
        return Phrase("an index of it is not affine, so that nothing shows it")
    params: dict[Expr, str] = {}
    maps = [write_map(y, size_of, params) for y in yields]
    box = box_of(output.type.shape, params)
    symbols = symbols_of(output, yields, size_of, params)
    known = " and ".join(f"{low} <= {s} <= {high}" for s, low, high in ranges if s in symbols)
    given = read_set(f"{{ : {known or 'true'} }}", symbols).params()
    images = []
    for text in maps:
        written = read_map(text, symbols).intersect_params(given)
        if not written.is_injective():
            return Phrase("two points write one element")
        images.append(written.range())
    whole = read_set(box, symbols).intersect_params(given)
    union = images[0]
    for image in images[1:]:
        if not union.is_disjoint(image):
            return Phrase("two yields write one element")
        union = union.union(image)
    if not union.is_subset(whole):
        return Phrase("an index of it leaves the output")
    return "" if is_kept or whole.is_subset(union) else Phrase("an element of it is never written")


def symbols_of(output: Any, yields: list, size_of: dict[str, Expr], params: dict[Expr, str]) -> tuple[str, ...]:
    """The parameters of the maps of an output's yields."""
    named = names_in((*size_of.values(), *output.type.shape))
    for item in yields:
        named |= {n for n in names_in(item.index) | guard_names(item.guard) if n not in size_of}
    return tuple(sorted(named | set(params.values())))


def write_map(item: Any, size_of: dict[str, Expr], params: dict[Expr, str]) -> str:
    """The isl map from the points of a yield, along the axes that its index names, to the elements that it writes."""
    from .sets import as_affine, bound_text, domain_text

    axes = tuple((n, s) for n, s in size_of.items() if any(n in e.names() for e in item.index))
    guards = domain_text(axes, params) + [bound_text(b, params) for b in item.guard]
    index = ", ".join(str(as_affine(e, params)) for e in item.index)
    return f"{{ [{', '.join(n for n, _ in axes)}] -> [{index}] : {' and '.join(guards) or 'true'} }}"


def box_of(shape: tuple[Expr, ...], params: dict[Expr, str]) -> str:
    """The isl set of all elements of a shape."""
    from .sets import domain_text

    axes = tuple((f"o{at}", size) for at, size in enumerate(shape))
    return f"{{ [{', '.join(n for n, _ in axes)}] : {' and '.join(domain_text(axes, params)) or 'true'} }}"
