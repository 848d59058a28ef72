"""The families of kernels, and all that they share. `FAMILIES` lists them in the order in which their plans are
proposed; who asks about a plan or about regions asks here, and gets a `Family` (`family.py`).

A family is a folder with one object, `FAMILY`, or one for each form of the same kernel; `parts/` holds what several of
them share. No family imports another."""

from __future__ import annotations

import functools

from ..ir.alike import Alike
from ..ir.plan.fields import Plan
from ..ir.plan.verify import fault_of
from ..ir.region import Region
from ..kit.diag import Refused
from ..kit.phrase import Listing, Phrase
from ..kit.work import count
from . import (
    columns,
    direct,
    few_rows,
    flash,
    gemv,
    haloed,
    look_back,
    maps,
    multistage,
    plain,
    rows,
    scans,
    scatter_atomic,
    scatter_in_place,
    streaming,
    streaming_mma,
    synchronous,
    transposed,
    warp_specialized,
)
from .family import Family
from .problem import Kernel, kernels_of

FAMILIES: tuple[Family, ...] = (
    warp_specialized.FAMILY,
    multistage.FAMILY,
    haloed.FAMILY,
    few_rows.FEW,
    gemv.FAMILY,
    synchronous.FAMILY,
    flash.FAMILY,
    streaming_mma.FAMILY,
    streaming.FAMILY,
    few_rows.ONE,
    rows.RESIDENT,
    rows.STREAMED,
    scans.BLOCK,
    scans.THREAD,
    look_back.FAMILY,
    direct.FAMILY,
    columns.FAMILY,
    maps.FAMILY,
    transposed.FAMILY,
    scatter_atomic.FAMILY,
    scatter_in_place.FAMILY,
    plain.FAMILY,
)

_BY_ALGO = {family.algo: family for family in FAMILIES}


def find(algo: str) -> Family | None:
    """The family whose plans say `algo`."""
    return _BY_ALGO.get(algo)


def family_of(plan: Plan) -> Family:
    """The family of a plan. Raises Refused (E1503 an algo that no family has)."""
    found = find(plan.algo)
    if found is None:
        raise Refused([fault_of(plan, "E1503", "algo", what="algo", given=plan.algo, known=", ".join(_BY_ALGO))])
    return found


def families_for(kernel: Kernel) -> tuple[Family, ...]:
    """The families that compute this kind of problem."""
    is_pair = getattr(kernel, "pair", None) is not None
    return tuple(f for f in FAMILIES if type(kernel) is f.problem and (f.takes_pairs or not is_pair))


def can_hold(regions: tuple[Region, ...]) -> bool:
    """Whether a family other than the one that holds everything can compute the regions in one kernel."""
    return _can_hold(Alike.of(*regions))


@functools.lru_cache(maxsize=4096)
def _can_hold(alike: Alike) -> bool:
    count("regions matched")
    if len(alike.regions) > 1:
        return any(not isinstance(family.match(alike.regions), str) for family in FAMILIES if family.match is not None)
    return any(families_for(kernel) for kernel in kernels_of(alike.regions[0]))


def why_not_held(first: Region, second: Region) -> str:
    """Why no family computes two regions in one kernel, in words."""
    found = ((family.algo, family.match((first, second))) for family in FAMILIES if family.match is not None)
    return Listing(Phrase("{algo}: {reason}", algo=a, reason=reason) for a, reason in found if isinstance(reason, str))
