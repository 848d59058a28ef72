"""The words of a plan that the families give: kinds of problem, algos, the fields that an algo cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from .. import FAMILIES, find

GONE = {"implicit_gemm": "multistage"}  # algos of older texts; what computes the same


def check_words(plan: Plan) -> Iterator[Diag]:
    """E1503 for a kind or an algo that is not known, E1610 for an algo of older texts, E1502 for a field that the algo
    cannot do without."""
    kinds = tuple(dict.fromkeys(family.kind for family in FAMILIES))
    algos = tuple(family.algo for family in FAMILIES if family.kind == plan.family)
    family = find(plan.algo)
    if plan.algo in GONE:
        yield fault_of(plan, "E1610", "algo", algo=plan.algo, instead=GONE[plan.algo])
        return
    for what, word, value, known in (("family", "plan", plan.family, kinds), ("algo", "algo", plan.algo, algos)):
        if value not in known:
            yield fault_of(plan, "E1503", word, what=what, given=value, known=", ".join(known))
            return
    for word in family.needs if family is not None else ():
        if not getattr(plan, word):
            yield fault_of(plan, "E1502", "plan", field=word)
