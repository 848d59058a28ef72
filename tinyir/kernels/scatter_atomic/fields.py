"""The fields of a plan of atomics: those of its base's map, and whether updates may be folded in any order."""

from __future__ import annotations

from ...ir.plan.words import UNORDERED
from ...ir.scatters import base_of, is_ordered, scatter_of
from ..accepts import Fields, only
from ..check.case import Case
from ..parts.element_fields import in_a_line, in_vectors


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    region = case.problem.region
    scatter = scatter_of(region)
    if isinstance(scatter, str):
        return in_a_line(case)  # `legal` says so
    return {
        **in_a_line(case),
        "vectorize": in_vectors(case.plan, base_of(region, scatter)),
        "atomics": only("", *((UNORDERED,) if is_ordered(scatter.op, scatter.dtype) else ())),
    }
