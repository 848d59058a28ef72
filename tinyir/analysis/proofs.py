"""What there is to prove of a region text, and what shows it, as text that a person can follow.

    proofs of conv3x3: 7 obligations, 7 shown
    for H in 0..2147483647, ...

    region conv for i0: N, i1: Co, ...
      reduce sum (k0: Ci, k1: 3) : fp32
        shown  it starts at 0.0, the neutral element of sum
        shown  fp32 holds every fp32
      X[i0, k0, 2*i2 + k1 - 1]
        shown  0 <= i0 < N: an axis of this size
        shown  0 <= 2*i2 + k1 - 1 < H
               isl: { [i2, k1] : 0 <= i2 < floor((H + 1)/2) and 0 <= k1 < 3 and 2*i2 + k1 - 1 >= 0 and ... } is empty
      yield Y[i0, i1]
        shown  no element is written twice
               isl: { [i0, i1] -> [i0, i1] : 0 <= i0 < N and 0 <= i1 < Co } is injective
        shown  every element is written
               isl: its range is { [o0, o1] : 0 <= o0 < N and 0 <= o1 < Co }

A read's proof is that the points of its axes, under the guards around it, at which its index leaves the tensor are
none; where a chain of guards covers what is left in pieces, isl is asked for each. What is `open` is refused, and a
point is named at which it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..ir.accumulate import neutral_of
from ..ir.body import Body, Reduce, Ref, Scan, show_body, walk
from ..ir.expr import Bound, Expr, show_guard
from ..ir.model import Model
from ..ir.prove_region import Obligation, box_of, is_axis, obligations_of, symbols_of, write_map
from ..ir.region import Module, Region, Tensor
from ..ir.scope import Scope, halves_of
from ..ir.sets import as_affine, domain_text, is_representable, read_map, read_set, symbol_params
from ..ir.types import is_exact, show_number
from ..ir.verify_region import expressions_of

PROVEN = ("E1403", "E1404", "E1405", "E1406")  # codes of what is proven here
MARGIN = " " * 11


def proofs_of(module: Module) -> str:
    """The proofs of every region of a module whose names, axes and forms hold."""
    lines = [line for region in module.program.regions for line in ("", *_of_region(module, region))]
    shown, left = (sum(line.startswith(f"    {word}") for line in lines) for word in ("shown", "open"))
    head = [f"proofs of {module.program.name}: {shown + left} obligations, {shown} shown", *_symbols(module.model)]
    return "\n".join([*head, *lines, ""])


def _symbols(model: Model) -> Iterator[str]:
    ranges = [model.range_of(s) for s in model.symbols()]
    if ranges:
        yield "for " + ", ".join(f"{r.symbol} in {r.low}..{r.high}" for r in ranges)


def _of_region(module: Module, region: Region) -> Iterator[str]:
    yield f"region {region.name}" + (f" for {', '.join(map(str, region.iters))}" if region.iters else "")
    for _, body in expressions_of(region):
        for node in walk(body):
            if isinstance(node, (Reduce, Scan)):
                yield from _of_fold(node)
    last: Any = None
    for obligation in obligations_of(module, region):
        if obligation.bound is None:
            yield from _of_write(module, region, obligation)
        else:
            if obligation.subject is not last:
                yield f"  {_read_text(obligation.subject)}"
            last = obligation.subject
            yield from _of_read(obligation)


def _read_text(body: Body) -> str:
    return f"%{body.name}[{', '.join(map(str, body.index))}]" if isinstance(body, Ref) else show_body(body)


def _word(is_shown: bool) -> str:
    return "    shown  " if is_shown else "    open   "


# --- folds


def _of_fold(node: Reduce | Scan) -> Iterator[str]:
    along = node.axis if isinstance(node, Scan) else ", ".join(map(str, node.axes))
    yield f"  {'scan' if isinstance(node, Scan) else 'reduce'} {node.op} ({along}) : {node.dtype}"
    neutral = neutral_of(node.op, node.dtype).value
    start = neutral if getattr(node, "init", None) is None else node.init
    other = "" if start == neutral else f"; {show_number(neutral)} is"
    if node.op in ("argmax", "argmin"):
        yield f"{_word(node.dtype.is_integer)}{node.dtype} is an integer, as a place is"
        return
    yield f"{_word(start == neutral)}it starts at {show_number(start)}, the neutral element of {node.op}{other}"
    yield f"{_word(is_exact(node.body.dtype, node.dtype))}{node.dtype} holds every {node.body.dtype}"


# --- reads


def _of_read(obligation: Obligation) -> Iterator[str]:
    bound = obligation.bound
    index, size = bound.expr, bound.upper
    if is_axis(index, size, obligation.scopes):
        yield f"{_word(True)}{show_guard((bound,))}: an axis of this size"
        return
    yield f"{_word(obligation.is_shown)}{show_guard((bound,))}"
    for scope in obligation.scopes:
        yield from (f"{MARGIN}{line}" for line in _asked(scope, bound, obligation.is_shown))


def _asked(scope: Scope, bound: Bound, is_shown: bool) -> Iterator[str]:
    """The points at which the bound fails, and isl's answer: for each side of it that needs more than arithmetic."""
    for half in halves_of(bound):
        broken = -half - 1
        facts = (*scope.given, broken)
        if not all(is_representable(f, dict(scope.axes)) for f in facts):
            yield f"linear bounds {'show' if is_shown else 'do not show'} {half} >= 0; isl cannot hold it"
            continue
        named = {n for f in facts for n in f.names()}
        axes = tuple(a for a in scope.axes if a[0] in named) if is_shown else scope.axes
        text, points = _points(axes, scope.ranges, facts)
        if not points.is_empty() and is_shown:  # an axis that it does not name has no point
            text, points = _points(scope.axes, scope.ranges, facts)
        yield f"isl: {text} is empty" if points.is_empty() else f"isl: {text} holds {_sample(points)}"


def _points(
    axes: tuple[tuple[str, Expr], ...], ranges: tuple[tuple[str, int, int], ...], facts: Iterable[Expr]
) -> tuple[str, Any]:
    """The points of the axes at which every fact is >= 0: as a text, and as an isl set with the symbols in their
    ranges."""
    facts = tuple(facts)
    names = {n for e in (*(size for _, size in axes), *facts) for n in e.names()} - {n for n, _ in axes}
    params = symbol_params(sorted(names))
    parts = [*domain_text(axes, params), *(f"{as_affine(f, params)} >= 0" for f in facts)]
    text = f"{{ [{', '.join(n for n, _ in axes)}] : {' and '.join(parts)} }}"
    symbols = tuple(sorted({str(as_affine(Expr.of(n), params)) for n in names} | set(params.values())))
    return text, read_set(text, symbols).intersect_params(_given(ranges, symbols))


def _given(ranges: tuple[tuple[str, int, int], ...], symbols: tuple[str, ...]) -> Any:
    known = " and ".join(f"{low} <= {s} <= {high}" for s, low, high in ranges if s in symbols)
    return read_set(f"{{ : {known or 'true'} }}", symbols).params()


def _sample(points: Any) -> str:
    """A point of a set with its symbols: `M=1, i0=0`."""
    import islpy as isl

    point = points.sample_point()
    kinds = ((kind, n) for kind in (isl.dim_type.param, isl.dim_type.set) for n in range(points.dim(kind)))
    return ", ".join(f"{points.get_dim_name(kind, n)}={point.get_coordinate_val(kind, n)}" for kind, n in kinds)


# --- writes


def _of_write(module: Module, region: Region, obligation: Obligation) -> Iterator[str]:
    output: Tensor = obligation.subject
    yields = [y for y in region.yields if y.output == output.name]
    for item in yields:
        guard = f" if {show_guard(item.guard)}" if item.guard else ""
        yield f"  yield {output.name}[{', '.join(map(str, item.index))}]{guard}"
    if not obligation.is_shown:
        yield f"{_word(False)}every element is written once: {obligation.fault}"
        return
    size_of = {a.name: a.size for a in region.iters}
    params: dict[Expr, str] = {}
    maps = [write_map(item, size_of, params) for item in yields]
    box = box_of(output.type.shape, params)
    symbols = symbols_of(output, yields, size_of, params)
    given = _given(
        tuple((r.symbol, r.low, r.high) for r in map(module.model.range_of, module.model.symbols())), symbols
    )
    found = [read_map(text, symbols).intersect_params(given) for text in maps]
    yield f"{_word(True)}no element is written twice"
    for text, relation in zip(maps, found):
        yield f"{MARGIN}isl: {text} is {'' if relation.is_injective() else 'not '}injective"
    if len(found) > 1:
        are_apart = all(a.range().is_disjoint(b.range()) for at, a in enumerate(found) for b in found[:at])
        yield f"{MARGIN}isl: their ranges have {'no' if are_apart else 'an'} element in common"
    union = found[0].range()
    for relation in found[1:]:
        union = union.union(relation.range())
    yield f"{_word(True)}every element is written"
    is_whole = union.is_equal(read_set(box, symbols).intersect_params(given))
    yield f"{MARGIN}isl: {'its range is' if len(found) == 1 else 'together they are'} {'' if is_whole else 'not '}{box}"
