"""The fields of a plain plan: `tile [T]`, the results of a CTA, and as many threads."""

from __future__ import annotations

from ..accepts import Fields, only
from ..check.case import Case


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    return {"threads": only(case.plan.tile)}
