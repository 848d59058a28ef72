"""Names of an imported model as texts spell them."""

from __future__ import annotations

import re


def bare(name: str) -> str:
    """A name that texts spell without quotes: slashes and colons become dots, other marks underscores."""
    words = [re.sub(r"\W", "_", w, flags=re.A) for w in re.split(r"[/:.]+", name) if w]
    found = ".".join(words) or "x"
    return found if re.match(r"[A-Za-z_]", found) else f"x{found}"
