"""Clocks of waits and instructions that rows, scans and maps have in common."""

from __future__ import annotations

BARRIER_CLOCKS = 40
SHUFFLE_CLOCKS = 30
LINE_LOSS = 4  # sectors moved for the bytes used where neighbouring threads read different rows
WAITING_SHARPNESS = 4.0  # of bandwidth and latency, the nearer to one another the slower
MAP_ISSUE = 12  # warp instructions an element of a map takes beside its arithmetic

__all__ = ["BARRIER_CLOCKS", "LINE_LOSS", "MAP_ISSUE", "SHUFFLE_CLOCKS", "WAITING_SHARPNESS"]
