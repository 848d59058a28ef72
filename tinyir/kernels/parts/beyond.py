"""What the template of a family has no place for in a region (E1611): a refusal for emission to raise. What it takes in
a plan the plan checker has asked by then."""

from __future__ import annotations

from ...ir.region import Region
from ...kit.diag import Refused, refuse
from ...kit.span import Span


def beyond_in(region: Region, span: Span | None, what: str) -> Refused:
    """What a region computes, at `span`."""
    return refuse("E1611", region.name, span, what=what, region=region.name)
