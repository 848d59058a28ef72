"""What the streaming family needs of two regions beside the rule: factors whose places data do not choose."""

from __future__ import annotations

from ...ir.region import Region
from ...kit.phrase import Phrase
from ..attention import Streaming, two_regions


def two_regions_of_threads(regions: tuple[Region, ...]) -> Streaming | str:
    """The regions of a plan as one streaming kernel that this family computes, or why they are none."""
    kernel = two_regions(regions)
    return Phrase("a factor that data choose") if isinstance(kernel, Streaming) and kernel.is_chosen else kernel
