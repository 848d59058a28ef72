"""The card that a bench plans for."""

from __future__ import annotations

import os

from tinyir.analysis.device import device_titled
from tinyir.runtime.cuda import find_gpu


def card_here() -> str | None:
    """The name of the GPU at hand where its figures are known (the variable BENCH_CARD instead, to compile for one that is elsewhere), else None:
    the usual card of the generation."""
    found = find_gpu()
    return os.environ.get("BENCH_CARD") or (device_titled(found[0]) if found else None)
