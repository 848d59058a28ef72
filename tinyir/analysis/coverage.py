"""Which sizes the plans of each kernel take, as text that a person can follow: of alternatives the first whose `assume`
holds runs, and together they must take every size that the signature allows.

    coverage of gemm_bias_relu
      gemm: 3 plans
        shown  every size has one: the last assumes nothing
      scores: 2 plans
        open   no plan takes these sizes
               isl: { [] : 50 <= M <= 59 }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.expr import Bound, Expr
from ..ir.model import Model
from ..ir.sets import bound_text, read_set, show_isl, symbol_params
from ..kit.groups import lists_of
from ..kit.records import dataclass

_MARGIN = " " * 11


@dataclass(frozen=True, slots=True)
class Taker:
    """One plan or launch: the regions that it computes, and what it assumes of the sizes, all of which must hold."""

    regions: tuple[str, ...]
    assumes: tuple[Bound, ...]


def takers_of(module: Any) -> tuple[Model, tuple[Taker, ...]]:
    """The signature of a plan, gpu or cu module, and what takes its sizes; launches that serve another ask what it
    does."""
    if hasattr(module, "plans"):
        plans = module.plans.plans if hasattr(module.plans, "plans") else module.plans
        program = module.plans.program if hasattr(module.plans, "plans") else module.program
        return program.model, tuple(Taker(p.regions, p.assume) for p in plans)
    launches = [launch for launch in module.launches if not launch.serves]
    parts = {one.name: [p for p in module.launches if p is one or p.serves == one.name] for one in launches}
    return module.region.model, tuple(
        Taker(one.regions, tuple(b for part in parts[one.name] for guard in part.assumes for b in guard))
        for one in launches
    )


def coverage_of(module: Any) -> str:
    """The proof for each kernel of a plan, gpu or cu module."""
    model, takers = takers_of(module)
    groups = lists_of((taker.regions, taker) for taker in takers)
    lines = [line for regions, group in groups.items() for line in _of_group(model, regions, group)]
    return "\n".join([f"coverage of {model.name}", *lines]) + "\n"


def _of_group(model: Model, regions: Sequence[str], group: Sequence[Taker]) -> Iterator[str]:
    yield f"  {', '.join(regions)}: {len(group)} plan{'s' * (len(group) > 1)}"
    if any(not t.assumes for t in group):
        yield "    shown  every size has one: " + ("the last" if len(group) > 1 else "it") + " assumes nothing"
        return
    left = uncovered(model, group)
    if left is None:
        yield "    open   isl cannot say: an assumption is not affine"
    elif left.is_empty():
        yield "    shown  every size has one"
        yield f"{_MARGIN}isl: what none of them takes is empty"
    else:
        yield "    open   no plan takes these sizes"
        yield f"{_MARGIN}isl: {show_isl(left.coalesce())}"


def uncovered(model: Model, group: Sequence[Taker]) -> Any:
    """The sizes that the signature allows and no plan of a kernel takes, as an isl set. Where an assumption is not
    affine, what is not is any number: the set is empty only where all sizes are taken, and None where isl
    cannot say."""
    symbols = tuple(model.symbols())
    params = symbol_params(symbols)
    bounds = [Bound(Expr.of(r.symbol), Expr.of(r.low), Expr.of(r.high + 1)) for r in map(model.range_of, symbols)]
    told = [[bound_text(b, params) for b in conditions] for conditions in (bounds, *(t.assumes for t in group))]
    own = tuple(dict.fromkeys([*(str(params.get(Expr.of(s), s)) for s in symbols), *params.values()]))
    left, *taken = (read_set(f"{{ [] : {' and '.join(each) or 'true'} }}", own) for each in told)
    for points in taken:
        left = left.subtract(points)
    sides = [e for t in group for b in t.assumes for e in (b.expr, b.lower, b.upper, b.equals) if e is not None]
    return left if left.is_empty() or all(e.is_affine() for e in sides) else None
