"""Clocks of waits and instructions that rows, scans and maps have in common."""

from __future__ import annotations

from ...kit.numbers import Number

BARRIER_CLOCKS = 40
SHUFFLE_CLOCKS = 30
LINE_LOSS = 4  # sectors moved for the bytes used where neighbouring threads read different rows
WAITING_SHARPNESS = 4.0  # of bandwidth and latency, the nearer to one another the slower
# Until the next CTA is handed out, all SMs together: 2^20 CTAs of a warp take 635 us on an H200 whatever they do.
CTA_NS = 0.61
CTAS_SHARPNESS = 8.0  # of a launch's bytes and the handing out of its CTAs, many of which an SM has at once
LEAST_THREADS = 128  # of a CTA; of larger ones the last ends
LATE = 0.015  # later, as a share of the whole, for each time as many
MAP_ISSUE = 12  # warp instructions an element of a map takes beside its arithmetic


def handed_out_us(ctas: Number) -> Number:
    """Microseconds until the last CTA of a launch has begun, were all SMs free."""
    return ctas * CTA_NS / 1e3
