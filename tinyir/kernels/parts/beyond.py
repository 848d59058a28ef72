"""What the template of a family has no place for (E1611): refusals for emission to raise."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.region import Region
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ...kit.span import Span


def beyond(plan: Plan, word: str, what: str) -> Refused:
    """What a plan asks for, by its field `word`."""
    return refuse("E1611", plan.name, plan.span_of(word), what=what, region=plan.regions[0])


def beyond_in(region: Region, span: Span | None, what: str) -> Refused:
    """What a region computes, at `span`."""
    return refuse("E1611", region.name, span, what=what, region=region.name)


def tile_beyond(plan: Plan, word: str = "tile") -> Refused:
    """A tile that these threads do not share."""
    what = Phrase("tile {tile} on {threads} threads", tile=list(plan.tile), threads=list(plan.threads))
    return beyond(plan, word, what)


def apart(plan: Plan, width: int) -> Refused:
    """Neighbours in a vector that nothing shows to be side by side in memory."""
    return beyond(plan, "vectorize", Phrase("{width} neighbours that are not known to be contiguous", width=width))
