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
is here a region for each, with buffers between them: one with several contractions, since no template keeps
several accumulators, one whose prologue is better a kernel apart, and one that no family of kernels covers as a whole.
It names regions, axes, tensors and values of the regions above it, and decides no meaning. A plan of several regions is
one kernel: of regions that a deferred buffer joins, or of siblings, contractions that are the same but for their
tensors; it speaks of the first of them, and the axis `sibling` counts them. Several plans of the same regions are
alternatives: at each run the first whose `assume` holds of the symbols is taken. A hand-made plan is checked, then
obeyed. `algo`, `tile` and `stages` are always written; another field is written when it differs from its default.

Axes are written whole (`i0`), as the tile's number (`i0.o`) or the place inside the tile (`i0.i`); `i0.o*i2.o` is one
number made of both, the first outermost. The tile of a contraction is [left, right, sum], of a row kernel [rows, row
length], of a map [elements]; several axes of one kind are cut as their product. `threads` and `cta` count in CUDA's
order x, y, z; `micro` in the tile's order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...kit.diag import Diag, collecting, refuse_all
from ...kit.held import once
from ...kit.records import dataclass
from ...kit.text import Grammar, body_of, header
from .. import region as region_text
from ..model import show_name
from ..read import line_span, name_of
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
from .table import BY_WORD, TABLE, show_microseconds

STAGE = "plan"
VERSION = "1.1"  # 1.1: every field is obeyed or refused, and tiles of `synchronous` have the dtype of their operands
GRAMMAR = Grammar("plan", "plan_text")


@dataclass(frozen=True, slots=True)
class Module:
    """A plan text: the region module, and a plan for each kernel in the order of the program."""

    program: region_text.Module
    plans: tuple[Plan, ...]


def parse(text: str) -> Module:
    """The Module of a plan text. Raises Refused (E00xx text, E01xx words, E1501 a field given twice)."""
    body_of(text, STAGE, VERSION)
    _, program, *plans = GRAMMAR.parse(text).children
    return Module(region_text.program_of(program, text), plans_of(plans, text))


def plans_of(trees: Iterable[Any], whole: str) -> tuple[Plan, ...]:
    """The Plans of trees of rule `plan`, all faults in one Refused; later stages read theirs through this."""
    plans, faults = [], []
    for tree in trees:
        with collecting(faults):
            plans.append(_plan_of(tree, whole))
    refuse_all(faults)
    return tuple(plans)


def _plan_of(tree: Any, whole: str) -> Plan:
    first = [part for part in tree.children if getattr(part, "data", "") == "name"]
    arch, family = (str(t) for t in tree.children[len(first) : len(first) + 2])
    given: dict[str, Any] = {}
    spans = [("plan", line_span(tree, whole))]
    faults = []
    regions = tuple(_name(n) for n in first)
    for part in tree.children[len(first) + 2 :]:
        word = part.data.removesuffix("_field")
        span = line_span(part, whole)
        if word in given:
            faults.append(Diag("E1501", ".".join(regions), {"field": word}, span))
        given[word] = BY_WORD[word].read(part.children)
        spans.append((word, span))
    for word in [w for w in ("algo", "tile") if w not in given]:
        faults.append(Diag("E1502", ".".join(regions), {"field": word}, spans[0][1]))
    refuse_all(faults)
    values = {BY_WORD[word].name: value for word, value in given.items()}
    return Plan(regions, arch, family, spans=tuple(spans), **values)


def _name(tree: Any) -> str:
    return name_of(tree.children[0])


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE, VERSION) + "\n" + show_plans(module)


def show_plans(module: Module) -> str:
    """The region program and the plans, without the header; later stages print them too."""
    return region_text.show_program(module.program) + "".join("\n" + show_plan(p) for p in module.plans)


def show_plan(plan: Plan) -> str:
    """One plan's section, ending in a line break."""
    lines = [f"plan {', '.join(map(show_name, plan.regions))} : {plan.arch} {plan.family}"]
    lines += [f"  {f.word:<10} {f.show(f.of(plan))}" for f in TABLE if f.is_shown or not f.is_default(plan)]
    return "\n".join(lines) + "\n"


@once
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
