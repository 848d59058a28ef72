"""The fields of a flat plan: `tile [elements of a CTA]`, `micro [of a thread]`, in vectors or one by one."""

from __future__ import annotations

from ..accepts import Fields
from ..check.case import Case
from ..parts.element_fields import in_a_line, in_vectors


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    return {**in_a_line(case), "vectorize": in_vectors(case.plan, case.problem.region)}
