"""The verifier of plan text, of what holds whatever the families are: every region is planned, and every word is
known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.groups import lists_of
from ...target.arch import ARCHS
from .table import TABLE
from .words import WORDS


def fault_of(plan: Any, code: str, word: str, **facts: Any) -> Diag:
    """A fault of a plan, where the field `word` is."""
    return Diag(code, plan.name, facts, plan.span_of(word))


def check_coverage(module: Any) -> Iterator[Diag]:
    """Invariant 2."""
    program = module.program.program
    known = ", ".join(r.name for r in program.regions)
    plans: dict[str, list[Any]] = {}
    for plan in module.plans:
        for name in plan.regions:
            plans.setdefault(name, []).append(plan)
            if program.region(name) is None:
                yield fault_of(plan, "E1506", "plan", name=name, known=known)
            elif not _are_alternatives(plans[name]):
                yield fault_of(plan, "E1504", "plan", region=name, count=len(plans[name]))
        together = dict.fromkeys(n for r in map(program.region, plan.regions) if r is not None for n in r.must_fuse)
        if missing := [n for n in together if n not in plan.regions]:
            facts = {"regions": ", ".join(together), "planned": ", ".join(plan.regions), "missing": ", ".join(missing)}
            yield fault_of(plan, "E1425", "plan", **facts)
    makers = lists_of((tensor.name, region) for region in program.regions for tensor in region.outputs)
    for region in program.regions:
        own = plans.get(region.name, [])
        if not own:
            yield Diag("E1504", region.name, {"region": region.name, "count": 0}, region.span)
        for tensor in region.inputs:
            maker = next((r for r in makers.get(tensor.name, ()) if r.name != region.name), None)
            if maker and own and tensor.attr("materialize") == "deferred" and maker.name not in own[0].regions:
                yield fault_of(own[0], "E1521", "plan", buffer=tensor.name, maker=maker.name, user=region.name)


def _are_alternatives(plans: list[Any]) -> bool:
    """Whether plans of one region can be beside each other: they are of the same regions, and only the last is for
    all sizes."""
    return all(p.regions == plans[0].regions for p in plans) and all(p.assume for p in plans[:-1])


def check_words(plan: Any) -> Iterator[Diag]:
    """Invariant 3, of one plan."""
    given = [("arch", "plan", plan.arch, tuple(ARCHS))]
    for f in TABLE:
        given += [(kind, f.word, word, WORDS[kind]) for kind, word in f.unknown_words(plan)]
    for what, word, value, known in given:
        if value not in known:
            yield fault_of(plan, "E1503", word, what=what, given=value, known=", ".join(known))
