"""R4: a fold that needs another's result waits for the whole of it; the values of each pass are together.

before: %m         = reduce max (k0: K) : fp32 { A[i0, k0] }
        %z         = reduce sum (k0: K) : fp32 { exp2(sub(A[i0, k0], %m)) }
        %n         = reduce sum (k0: K) : fp32 { A[i0, k0] }
        %s         = add(%z, %n)
after:  %m         = reduce max (k0: K) : fp32 { A[i0, k0] }
        %n         = reduce sum (k0: K) : fp32 { A[i0, k0] }
        %z         = reduce sum (k0: K) : fp32 { exp2(sub(A[i0, k0], %m)) }
        %s         = add(%z, %n)

Folds of different ops are never one fold (max, exp, sum): between them is a barrier (seed 001 section 6.6). Within a
pass the order stays.
"""

from __future__ import annotations

from ...ir.body import Reduce, Ref, Scan, walk
from ...ir.region import Let, Region
from ...kit.records import replace


def keep_barriers(region: Region) -> Region:
    """The region with its values ordered by the barriers before them."""
    before = _barriers_before(region)
    return replace(region, lets=tuple(sorted(region.lets, key=lambda let: before[let.name])))


def barriers(region: Region) -> tuple[tuple[str, str], ...]:
    """Pairs (earlier, later) of folds of which the later needs the earlier's result, directly or through values that
    fold nothing."""
    found: list[tuple[str, str]] = []
    last: dict[str, dict[str, None]] = {}  # the folds between which and a value there is no other
    for let in region.lets:
        below = dict.fromkeys(f for r in _refs(let) for f in last[r])
        if _is_fold(let):
            found += [(earlier, let.name) for earlier in below]
        last[let.name] = {let.name: None} if _is_fold(let) else below
    return tuple(found)


def _barriers_before(region: Region) -> dict[str, int]:
    """How many folds, one needing the other, each value waits for."""
    found: dict[str, int] = {}
    folds = {let.name for let in region.lets if _is_fold(let)}
    for let in region.lets:
        found[let.name] = max((found[r] + (r in folds) for r in _refs(let)), default=0)
    return found


def _refs(let: Let) -> list[str]:
    return [n.name for n in walk(let.expr) if isinstance(n, Ref)]


def _is_fold(let: Let) -> bool:
    return any(isinstance(n, (Reduce, Scan)) for n in walk(let.expr))
