"""Work that a test can bound on any machine: calls, which no other process has a part in, where seconds grow with the
load and with the caches."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any


def counted(function: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    """How many functions, of Python and of its libraries, `function(*arguments)` calls, and what it returns."""
    profile = cProfile.Profile()
    result = profile.runcall(function, *arguments)
    return sum(row[1] for row in pstats.Stats(profile).stats.values()), result
