"""Schedule Plan: how each kernel is made (seed 001 section 8; spec section 10). The region text, then one `plan` a
kernel.

    plan gemm : sm90 contraction
      algo       synchronous
      tile       [128, 128, 16]
      micro      [8, 8]
      threads    [16, 16]
      stages     1
      bind       i0.o -> cta.y, i1.o -> cta.x, i0.i -> thread.y, i1.i -> thread.x
      cache      A -> smem at k0.o, B -> smem at k0.o
      predicate  [i0, i1, k0]
      epilogue   [bias_add, relu]
      estimate   66.1 us  bound compute  smem 8192 B  regs 128  occupancy 2 CTA/SM

What the region had and this text does not have: nothing; a plan only adds, but that a region which is several kernels
stands here as a region for each, with buffers between them: one with several contractions, since no template keeps
several accumulators, one whose prologue is better a kernel apart, and one that no family of kernels covers as a whole.
It names regions, axes, tensors and values of the regions above it, and decides no meaning. A plan of several regions is
one kernel: of regions that a deferred buffer joins, or of siblings, contractions that are the same but for their
tensors; it speaks of the first of them, and the axis `sibling` counts them. Several plans of the same regions are
alternatives: at each run the first whose `assume` holds of the symbols is taken. A hand-made plan is checked, then
obeyed. `algo`, `tile` and `stages` always stand; another field stands when it differs from its default.

Axes are written whole (`i0`), as the tile's number (`i0.o`) or the place inside the tile (`i0.i`); `i0.o*i2.o` is one
number made of both, the first outermost. The tile of a contraction is [left, right, sum], of a row kernel [rows, row
length], of a map [elements]; several axes of one kind are cut as their product. `threads` and `cta` count in CUDA's
order x, y, z; `micro` in the tile's order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...kit.diag import Diag, Refused
from ...kit.span import Span
from ...kit.text import Grammar, body_of, header
from .. import region as region_text
from ..expr import show_guard
from ..model import show_name
from ..read import guard_of, name_of
from .fields import (
    Async,
    Bind,
    Cache,
    Cluster,
    Consumers,
    Edge,
    Estimate,
    Layout,
    Load,
    Order,
    Plan,
    Regs,
    SplitK,
    Store,
    Vectorize,
)

STAGE = "plan"
GRAMMAR = Grammar("plan", "plan_text")


@dataclass(frozen=True, slots=True)
class Module:
    """A plan text: the region module, and a plan a kernel in the order of the program."""

    program: region_text.Module
    plans: tuple[Plan, ...]


def parse(text: str) -> Module:
    """The Module of a plan text. Raises Refused (E00xx text, E01xx words, E1501 a field given twice)."""
    body_of(text, STAGE)
    _, program, *plans = GRAMMAR.parse(text).children
    return Module(region_text.program_of(program, text), plans_of(plans, text))


def plans_of(trees: Iterable[Any], whole: str) -> tuple[Plan, ...]:
    """The Plans of trees of rule `plan`, all faults in one Refused; later stages read theirs through this."""
    plans, faults = [], []
    for tree in trees:
        try:
            plans.append(_plan_of(tree, whole))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    return tuple(plans)


def _plan_of(tree: Any, whole: str) -> Plan:
    first = [part for part in tree.children if getattr(part, "data", "") == "name"]
    arch, family = (str(t) for t in tree.children[len(first) : len(first) + 2])
    given: dict[str, Any] = {}
    spans = [("plan", _line_span(tree, whole))]
    faults = []
    regions = tuple(_name(n) for n in first)
    for part in tree.children[len(first) + 2 :]:
        word = part.data.removesuffix("_field")
        span = _line_span(part, whole)
        if word in given:
            faults.append(Diag("E1501", ".".join(regions), {"field": word}, span))
        given[word] = _READ[word](part.children)
        spans.append((word, span))
    for word in [w for w in ("algo", "tile") if w not in given]:
        faults.append(Diag("E1502", ".".join(regions), {"field": word}, spans[0][1]))
    if faults:
        raise Refused(faults)
    given = {_ATTRIBUTE.get(word, word): value for word, value in given.items()}
    return Plan(regions, arch, family, spans=tuple(spans), **given)


def _line_span(tree: Any, whole: str) -> Span:
    meta = tree.meta
    end = whole.find("\n", meta.start_pos)
    line = whole[meta.start_pos : end if end >= 0 else len(whole)]
    return Span(meta.start_pos, meta.start_pos + len(line.split("#", 1)[0].rstrip()), meta.line, meta.column)


def _name(tree: Any) -> str:
    return name_of(tree.children[0])


def _names(tree: Any) -> tuple[str, ...]:
    return tuple(_name(n) for n in tree.children if n is not None)


def _counts(tree: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in tree.children)


def _only(read: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda parts: read(parts[0])


def _each(read: Callable[..., Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda items: tuple(read(*item.children) for item in items)


_ATTRIBUTE = {"async": "asynchrony"}  # a word of Python's own
_READ: dict[str, Callable[[list[Any]], Any]] = {
    "algo": _only(str),
    "tile": _only(_counts),
    "warp_tile": _only(_counts),
    "micro": _only(_counts),
    "threads": _only(_counts),
    "stages": _only(int),
    "math": _only(str),
    "promote": _only(int),
    "partials": _only(int),
    "atomics": _only(str),
    "consumers": lambda p: Consumers(int(p[0]), str(p[1])),
    "cluster": lambda p: Cluster(_counts(p[0]), _names(p[1]) if p[1] is not None else ()),
    "regs": lambda p: Regs(int(p[0]), int(p[1])),
    "bind": _each(lambda *p: Bind(tuple(map(str, p[:-1])), str(p[-1]))),
    "persistent": _only(int),
    "order": lambda p: Order(str(p[0]), int(p[1] or 0)),
    "split_k": lambda p: SplitK(int(p[0]), str(p[1])),
    "swap_ab": lambda p: p[0] == "true",
    "cache": _each(lambda tensor, where, at: Cache(_name(tensor), str(where), str(at))),
    "load": _each(lambda tensor, by, swizzle: Load(_name(tensor), str(by), int(swizzle or 0))),
    "store": _each(lambda tensor, by: Store(_name(tensor), str(by))),
    "vectorize": _each(lambda *p: Vectorize("*".join(map(str, p[:-1])), int(p[-1]))),
    "assume": lambda p: guard_of(p[0]),
    "predicate": _only(_names),
    "epilogue": _only(_names),
    "async": lambda p: Async(int(p[0]), str(p[1] or "")),
    "barrier": _only(str),
    "layout": _each(lambda tensor, hint: Layout(_name(tensor), str(hint))),
    "edge": _each(lambda source, target, buffer, depth: Edge(_name(source), _name(target), str(buffer), int(depth))),
    "estimate": lambda p: Estimate(float(p[0]), str(p[1]), *(int(n) for n in p[2:] if n is not None)),
}


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE) + "\n" + show_plans(module)


def show_plans(module: Module) -> str:
    """The region program and the plans, without the header; later stages print them too."""
    return region_text.show_program(module.program) + "".join("\n" + show_plan(p) for p in module.plans)


def show_plan(plan: Plan) -> str:
    """One plan's section, ending in a line break."""
    lines = [f"plan {', '.join(map(show_name, plan.regions))} : {plan.arch} {plan.family}"]
    defaults = {f.name: f.default for f in dataclasses.fields(Plan)}
    for word, write in _SHOW.items():
        value = getattr(plan, _ATTRIBUTE.get(word, word))
        if word in ALWAYS or value != defaults[_ATTRIBUTE.get(word, word)]:
            lines.append(f"  {word:<10} {write(value)}")
    return "\n".join(lines) + "\n"


ALWAYS = ("algo", "tile", "stages")


def show_microseconds(value: float) -> str:
    """A time as the text has it: no fraction where there is none, else the shortest that reads back the same."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def _list(items: Iterable[Any]) -> str:
    return "[" + ", ".join(map(str, items)) + "]"


def _name_list(names: Iterable[str]) -> str:
    return _list(map(show_name, names))


def _joined(write: Callable[[Any], str]) -> Callable[[Iterable[Any]], str]:
    return lambda items: ", ".join(write(i) for i in items)


def _show_cluster(c: Cluster) -> str:
    return _list(c.shape) + (f"  multicast {_name_list(c.multicast)}" if c.multicast else "")


def _show_estimate(e: Estimate) -> str:
    stack = f"  stack {e.stack} B" if e.stack else ""
    return (
        f"{show_microseconds(e.microseconds)} us  bound {e.bound}  smem {e.smem} B  regs {e.regs}  occupancy "
        f"{e.occupancy} CTA/SM{stack}"
    )


_SHOW: dict[str, Callable[[Any], str]] = {
    "algo": str,
    "tile": _list,
    "warp_tile": _list,
    "micro": _list,
    "threads": _list,
    "stages": str,
    "math": str,
    "promote": str,
    "partials": str,
    "atomics": str,
    "consumers": lambda c: f"{c.count} {c.mode}",
    "cluster": _show_cluster,
    "regs": lambda r: f"producer {r.producer} consumer {r.consumer}",
    "bind": _joined(lambda b: f"{'*'.join(b.axes)} -> {b.place}"),
    "persistent": str,
    "order": lambda o: f"{o.by} {o.width}" if o.width else o.by,
    "split_k": lambda s: f"{s.parts} {s.by}",
    "swap_ab": lambda swapped: "true" if swapped else "false",
    "cache": _joined(lambda c: f"{show_name(c.tensor)} -> {c.where} at {c.at}"),
    "load": _joined(
        lambda item: f"{show_name(item.tensor)} {item.by}" + (f" swizzle {item.swizzle}" if item.swizzle else "")
    ),
    "store": _joined(lambda s: f"{show_name(s.tensor)} {s.by}"),
    "vectorize": _joined(lambda v: f"{v.axis} width {v.width}"),
    "assume": show_guard,
    "predicate": _list,
    "epilogue": _name_list,
    "async": lambda a: f"prefetch {a.prefetch}" + (f" overlap {a.overlap}" if a.overlap else ""),
    "barrier": str,
    "layout": _joined(lambda item: f"{show_name(item.tensor)} {item.hint}"),
    "edge": _joined(lambda e: f"{show_name(e.source)} -> {show_name(e.target)} {e.buffer} depth {e.depth}"),
    "estimate": _show_estimate,
}


def check(module: Module) -> list[Diag]:
    """Invariants of plan text, whatever the families are, in this order; `kernels.check` holds those that each family
    asks for, and what reads a text asks both:

    1. the region program holds its own invariants                                                        (E13xx, E14xx)
    2. every region is planned once or by alternatives, and deferred neighbours and what must share
       a kernel together                                                               (E1425, E1504, E1506, E1521)
    3. the architecture and every word of a field are known                                               (E1503)
    """
    from .verify import check_coverage, check_words

    words = [fault for one in module.plans for fault in check_words(one)]
    return [*region_text.check(module.program), *check_coverage(module), *words]


__all__ = [
    "Async",
    "Bind",
    "Cache",
    "Cluster",
    "Consumers",
    "Edge",
    "Estimate",
    "Layout",
    "Load",
    "Module",
    "Order",
    "Plan",
    "Regs",
    "SplitK",
    "Store",
    "Vectorize",
    "check",
    "parse",
    "plans_of",
    "show",
    "show_microseconds",
    "show_plan",
    "show_plans",
]
