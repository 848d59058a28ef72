"""The plans of the family: one, which fits every card."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.region import Region

THREADS = 256


def propose_plain(region: Region, arch: str) -> Plan:
    """The plan of a region for an architecture: a thread for each result of a CTA."""
    return Plan((region.name,), arch, "plain", "plain", (THREADS,), threads=(THREADS,))


__all__ = ["propose_plain"]
