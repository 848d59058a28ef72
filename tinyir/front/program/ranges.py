"""Sizes of inputs as a caller states them: numbers, symbols, and symbols with the range that they keep to,
`L:1..512`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...kit.phrase import Phrase
from .sizes import unfit

_RANGED = re.compile(r"(?P<symbol>[^:]*):(?P<low>[^:]*?)\.\.(?P<high>[^:]*)")
MOST = (1 << 31) - 1


def without_ranges(shapes: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, tuple[int, int]]]:
    """The sizes by input, without ranges, and the range of each symbol that has one, bounds included. Raises Refused
    (E0128) for a range that is none, and for a symbol with two."""
    found: dict[str, list[str]] = {}
    ranges: dict[str, tuple[int, int]] = {}
    for name, sizes in shapes.items():
        found[name] = []
        for word in sizes:
            if ":" not in word:
                found[name].append(word)
                continue
            parts = _RANGED.fullmatch(word)
            symbol, low, high = (
                (parts[key].strip() for key in ("symbol", "low", "high")) if parts is not None else ("", "", "")
            )
            is_range = (
                symbol.isidentifier() and low.isdecimal() and high.isdecimal() and len(low) <= 10 and len(high) <= 10
            )
            if not is_range or not int(low) <= int(high) <= MOST:
                raise unfit(name, Phrase("{word} is not a symbol and its range, such as L:1..512", word=word))
            if ranges.setdefault(symbol, (int(low), int(high))) != (int(low), int(high)):
                own = "{}..{}".format(*ranges[symbol])
                fault = Phrase(
                    "{symbol} has two ranges, {own} and {low}..{high}", symbol=symbol, own=own, low=low, high=high
                )
                raise unfit(
                    name, fault, Phrase("give {symbol} one range, and write {symbol} alone elsewhere", symbol=symbol)
                )
            found[name].append(symbol)
    return found, ranges
