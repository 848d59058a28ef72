"""The card that a bench plans for, and with what it measures."""

from __future__ import annotations

import os
import platform

from tinyir.runtime.compile import find_compiler
from tinyir.runtime.cuda import find_gpu
from tinyir.target.device import device_titled


def card_here() -> str | None:
    """The name of this machine's GPU where its figures are known (the variable BENCH_CARD instead, to compile for one
    that is elsewhere), else None: the usual card of the generation."""
    found = find_gpu()
    return os.environ.get("BENCH_CARD") or (device_titled(found[0]) if found else None)


def versions_here() -> dict[str, str]:
    """What results beside torch's are stored with."""
    import torch

    return {
        "python": platform.python_version(),
        "compiler": find_compiler().name,
        "torch": torch.__version__,
        "cuda_of_torch": torch.version.cuda,
    }
