"""Regions that write the new value of a state over the old one, which they may still read.

    buffer new : fp32[N] {alias=s}                  the state s is an input; new is its memory
    region new   in s : fp32[N]   out new : fp32[N] {alias=s}
      yield new[i0] = add(mul(s[i0], 0.9), x[i0])

The points of a region run in any order, so that one may read no element of a state that another writes: an element is
read at the point that writes it alone, where the read comes first because what is written is made of it, or is yielded
before. What is folded along an axis of the region, or wanted at another point of it, would be read at several points.
Where the new value lacks axes of the region, one of the points along them writes it; what the others read goes into
nothing, so long as nothing else is made of the old value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from ..kit.diag import Diag
from ..kit.phrase import Phrase
from .body import Body, Gather, Read, Reduce, Ref, Scan, Scatter, Transpose, operands_of, show_body, walk
from .expr import ONE, Expr
from .present import guard_names, names_in


def homes_of(module: Any, name: str) -> tuple[str, ...]:
    """A tensor, what its alias leads to, and so on; the last is the tensor in whose memory it is, a state where it is
    the new value of one."""
    found = [name]
    for _ in range(len(module.program.buffers) + 1):
        buffer = module.program.buffer(found[-1])
        target = buffer.attr("alias") if buffer is not None else module.model.memory_of(found[-1])
        if target is None or target == found[-1]:
            break
        found.append(target)
    return tuple(found)


def owner_of(module: Any, name: str) -> str:
    """The tensor in whose memory `name` is: itself, what its alias leads to, or the state that it updates."""
    return homes_of(module, name)[-1]


def renewed_by(module: Any, region: Any) -> dict[str, str]:
    """The outputs of a region that are states under another name, each with the state."""
    states = module.model.states()
    if not states:
        return {}
    found = {t.name: owner_of(module, t.name) for t in region.outputs}
    return {name: owner for name, owner in found.items() if owner in states and owner != name}


def may_be_read_later(module: Any, region: Any) -> bool:
    """Whether what a region reads may be read by any later one as well: it is not the old value of a state that some
    region
    writes over."""
    new = {t.name for one in module.program.regions for t in one.outputs if t.attr("alias") is not None}
    renewed = {owner_of(module, name) for name in new}
    return all(owner_of(module, t.name) not in renewed or new & {*homes_of(module, t.name)} for t in region.inputs)


def check_in_place(module: Any, region: Any) -> Iterator[Diag]:
    """Invariant 12 of `ir.region.check`: E1428 of each output that is written where another point may read it."""
    for name, state in renewed_by(module, region).items():
        own = {t.name for t in region.inputs if owner_of(module, t.name) == state}
        if own and (fault := _fault(region, module.model.symbols(), name, own)):
            facts = {"region": region.name, "state": state, "output": name, "fault": fault}
            yield Diag("E1428", region.name, facts, region.span)


def _fault(region: Any, symbols: Collection[str], output: str, own: set[str]) -> str:
    """Why a region that reads a memory under its `own` names may not write it as this output; empty when it may."""
    places = [at for at, item in enumerate(region.yields) if item.output == output]
    if len(places) != 1:
        return Phrase("it is written by several yields")
    item = region.yields[places[0]]
    is_all = _goes_nowhere_else(region, item, own)

    def is_own(read: Read) -> bool:
        return is_all and read.index == item.index or _is_own_point(region, symbols, read.index, item)

    tainted: set[str] = set()  # values that are made of the old value
    for let in region.lets:
        if (odd := _read_elsewhere(let.expr, own, tainted, is_own)) is not None:
            return Phrase("{read} is read at other points than the one that writes it", read=show_body(odd))
        if _touches(let.expr, own, tainted):
            tainted.add(let.name)
    for at, other in enumerate(region.yields):
        if (odd := _read_elsewhere(other.expr, own, tainted, is_own)) is not None:
            return Phrase("{read} is read at other points than the one that writes it", read=show_body(odd))
        if at > places[0] and _touches(other.expr, own, tainted):
            return Phrase("{output} is yielded after it and reads the old value", output=other.output)
    return ""


def _goes_nowhere_else(region: Any, item: Any, own: set[str]) -> bool:
    """Whether one yield alone is made of the old value."""
    tainted: set[str] = set()
    for let in region.lets:
        if _touches(let.expr, own, tainted):
            tainted.add(let.name)
    return not any(_touches(other.expr, own, tainted) for other in region.yields if other is not item)


def _touches(body: Body, own: set[str], tainted: set[str]) -> bool:
    return any(isinstance(n, Read) and n.tensor in own or isinstance(n, Ref) and n.name in tainted for n in walk(body))


def _read_elsewhere(body: Body, own: set[str], tainted: set[str], is_own: Callable[[Read], bool]) -> Body | None:
    """The first form that reads the old value at another point than its own; None without one."""
    if isinstance(body, Read):
        return body if body.tensor in own and not is_own(body) else None
    if isinstance(body, Ref):
        return body if body.name in tainted and body.index is not None else None
    folded = isinstance(body, Reduce) and any(a.size is None for a in body.axes)
    if (folded or isinstance(body, (Scan, Transpose))) and _touches(body, own, tainted):
        return body
    apart: tuple[Body, ...] = ()
    if isinstance(body, Scatter):
        apart = (body.update, body.at)
    elif isinstance(body, Gather):
        apart = (body.body,)
    for inner in operands_of(body):
        if inner in apart and _touches(inner, own, tainted):
            return inner
        if (found := _read_elsewhere(inner, own, tainted, is_own)) is not None:
            return found
    return None


def _is_own_point(region: Any, symbols: Collection[str], index: tuple[Expr, ...], item: Any) -> bool:
    """Whether an element that a point of the region reads is written by that point, if by any."""
    iters = {a.name: a.size for a in region.iters}
    if index == item.index:
        bare = {e.name for e in index}
        if all(size == ONE or name in bare for name, size in iters.items()):
            return True
    is_settled = names_in(index) <= {*iters, *symbols}  # by the point alone, and not by an axis of a fold
    return is_settled and _is_own_by_isl(iters, index, item)


def _is_own_by_isl(iters: dict[str, Expr], index: tuple[Expr, ...], item: Any) -> bool:
    from .sets import as_affine, bound_text, domain_text, is_representable, read_map

    if not all(is_representable(e, iters) for e in (*index, *item.index)):
        return False
    params: dict[Expr, str] = {}
    domain = domain_text(tuple(iters.items()), params)
    guard = [bound_text(b, params) for b in item.guard]

    def relation(place: tuple[Expr, ...], given: list[str]) -> str:
        shown = ", ".join(str(as_affine(e, params)) for e in place)
        return f"{{ [{', '.join(iters)}] -> [{shown}] : {' and '.join(given) or 'true'} }}"

    texts = relation(index, domain), relation(item.index, domain + guard)
    named = names_in((*iters.values(), *index, *item.index)) | guard_names(item.guard)
    symbols = tuple(sorted((named - set(iters)) | set(params.values())))
    read, written = (read_map(text, symbols) for text in texts)
    met = read.apply_range(written.reverse())
    return met.is_subset(met.identity(met.get_space()))
