"""What torch runs in our place, counted and said once."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable

_COUNTS: Counter[tuple[str, str]] = Counter()


class CutWarning(UserWarning):
    """A graph was cut: torch runs some of its ops."""


def tell(found: Iterable[tuple[str, str]], programs: int) -> None:
    """Count the ops that torch runs, with the reason, and warn of those that are new."""
    own = Counter(found)
    new = {key: count for key, count in own.items() if key not in _COUNTS}
    _COUNTS.update(own)
    if new:
        warnings.warn(
            f"tinyir cuts this graph into {programs} programs; torch runs {_listed(new)}", CutWarning, stacklevel=2
        )


def lines() -> list[str]:
    """All that was counted, the most frequent first."""
    return [f"{op} ({count}): {reason}" for (op, reason), count in _COUNTS.most_common()]


def _listed(counts: dict[tuple[str, str], int]) -> str:
    return "; ".join(f"{op} ({count}): {reason}" for (op, reason), count in counts.items())
