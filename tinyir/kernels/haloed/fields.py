"""The fields of a haloed plan: `tile [left, right, channels]`, of which the image's side is rows of 16 results, and
`stages` tiles of the other factor."""

from __future__ import annotations

from ...ir.plan import Async, Load, Vectorize
from ...target.hopper import SWIZZLE_BYTES
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.contraction_fields import cached, tensors_of
from ..problem import Contraction
from .halo import ALONG, DEPTH, Halo, halo_of

MOST_STAGES = 16
STEP = 16


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel, region = case.plan, case.kernel, case.problem.region
    halo = halo_of(region, kernel)
    names = {r.tensor: r for r in (kernel.lhs, kernel.rhs)}
    image = halo.image.read.tensor if isinstance(halo, Halo) else ""
    is_async = not isinstance(halo, Halo) or halo.beside > 1
    loads = tuple(load_of(tensor, tensor == image, is_async) for tensor in names)

    def is_tile(tile: tuple[int, ...]) -> bool:
        return tile[2] == DEPTH and all(n % STEP == 0 for n in tile[:2])

    def is_part(part: tuple[int, ...]) -> bool:
        return len(part) == 2 and all(n & (n - 1) == 0 and n >= STEP for n in part)

    return {
        "tile": where(f"[{ALONG}*n, {ALONG}*n, {DEPTH}]", is_tile),
        "warp_tile": where(f"[2^n, 2^n], {STEP} <= 2^n", is_part),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "stages": only(*range(2, MOST_STAGES + 1)),
        "bind": bound(*binds(kernel)),
        "cache": only(cached(kernel)),
        "load": only(loads) if isinstance(halo, Halo) else where(", ".join(tensors_of(kernel)), lambda _: False),
        "vectorize": only(along(halo)) if isinstance(halo, Halo) else only(()),
        "async": only(*(Async(ahead) for ahead in range(1, plan.stages))),
        "barrier": only(barrier_of(halo) if isinstance(halo, Halo) else "cta"),
    }


def load_of(tensor: str, is_image: bool, is_async: bool) -> Load:
    """How a factor is brought in."""
    way = Load(tensor, "cp_async" if is_async else "ld", SWIZZLE_BYTES)
    return Load(tensor, "windows", SWIZZLE_BYTES, "halo") if is_image else way


def along(halo: Halo) -> tuple[Vectorize, ...]:
    """Channels that one copy of the image moves."""
    return (Vectorize(halo.channel.name, halo.width),) if halo.width > 1 else ()


def barrier_of(halo: Halo) -> str:
    """What tells that a tile has been filled."""
    return "cp_async_group" if max(halo.width, halo.beside) > 1 else "cta"


def binds(kernel: Contraction) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The tiles, and a warp's part of one."""
    return (
        (parts_of_axes(kernel.left, "o"), "cta.y"),
        (parts_of_axes(kernel.right, "o"), "cta.x"),
        (parts_of_axes(kernel.left, "i"), "warp.y"),
        (parts_of_axes(kernel.right, "i"), "warp.x"),
    )


__all__ = ["along", "barrier_of", "binds", "fields", "load_of"]
