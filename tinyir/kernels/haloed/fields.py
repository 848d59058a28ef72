"""The fields of a haloed plan: `tile [left, right, channels]`, of which the image's side is rows of 16 results, and
`stages` tiles of the other factor. Of expanded windows and of groups the tile has the whole sum, and one stage; of
groups it has what those make whose channels are side by side in a block."""

from __future__ import annotations

from ...ir.plan import Async, Load, Plan, Vectorize
from ...target.hopper import SWIZZLE_BYTES
from ..accepts import Accepts, Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.contraction_fields import cached, tensors_of
from ..problem import Contraction
from .declare import is_expanded, is_whole
from .halo import ALONG, DEPTH, STEP, Halo, halo_of

MOST_STAGES = 16


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel, region = case.plan, case.kernel, case.problem.region
    halo = halo_of(region, kernel)
    names = {r.tensor: r for r in (kernel.lhs, kernel.rhs)}
    image = halo.image.read.tensor if isinstance(halo, Halo) else ""
    depths, stages = depths_of(halo), stages_of(halo)
    is_alone = is_whole(plan)
    is_moved = not isinstance(halo, Halo) or not is_expanded(plan, halo)
    is_async = is_moved and (not isinstance(halo, Halo) or halo.beside > 1)
    loads = tuple(load_of(halo, tensor, tensor == image, is_async) for tensor in names)

    groups = halo if isinstance(halo, Halo) and halo.groups else None
    sides = [f"{ALONG}*n"] * 2
    if groups:
        sides[1 - groups.side] = str(groups.packed * groups.made_room)

    def is_tile(tile: tuple[int, ...]) -> bool:
        is_made = not groups or tile[1 - groups.side] == groups.packed * groups.made_room
        return tile[2] == depths[is_alone] and all(n % STEP == 0 for n in tile[:2]) and is_made

    def is_part(part: tuple[int, ...]) -> bool:
        is_cut = not groups or len(part) == 2 and is_of_groups(part[1 - groups.side], groups)
        return len(part) == 2 and all(n % STEP == 0 for n in part) and is_cut

    return {
        "tile": where(f"[{', '.join(sides)}, {depths[is_alone]}]", is_tile),
        "warp_tile": where(f"[{STEP}*n, {STEP}*n]", is_part),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "stages": only(*stages),
        "bind": bound(*binds(kernel)),
        "persistent": _persistent(plan, halo) if is_alone and isinstance(halo, Halo) else only(0),
        "cache": only(cached(kernel)),
        "load": only(loads) if isinstance(halo, Halo) else where(", ".join(tensors_of(kernel)), lambda _: False),
        "vectorize": only(*ways(halo)) if isinstance(halo, Halo) and is_moved else only(()),
        "async": only(*(Async(ahead) for ahead in range(1, plan.stages))) if plan.stages > 1 else only(None),
        "barrier": only(barrier_of(halo) if isinstance(halo, Halo) and is_moved else "cta"),
    }


def is_of_groups(part: int, halo: Halo) -> bool:
    """Whether a warp's part of what is made is whole groups, or a part of one."""
    return part % halo.made_room == 0 or halo.made_room % part == 0


def parts_of(plan: Plan, halo: Halo) -> int:
    """Parts of what is made, of one of which a CTA computes tiles."""
    return -(-(halo.slots.constant or 1) // plan.tile[1 - halo.side])


def _persistent(plan: Plan, halo: Halo) -> Accepts:
    parts = parts_of(plan, halo)
    return where(f"{parts}*n", lambda ctas: ctas > 0 and ctas % parts == 0)


def depths_of(halo: Halo | str) -> tuple[int, int]:
    """Elements of the sum that a tile has: of a ring, of expanded windows or groups."""
    return DEPTH, halo.depth if isinstance(halo, Halo) else 0


def stages_of(halo: Halo | str) -> tuple[int, ...]:
    """How many tiles of the other factor there may be: one of the whole sum, several of a ring."""
    ring = tuple(range(2, MOST_STAGES + 1))
    if not isinstance(halo, Halo):
        return ring
    return ((1,) if halo.depth else ()) + (() if halo.no_ring else ring)


def load_of(halo: Halo | str, tensor: str, is_image: bool, is_async: bool) -> Load:
    """How a factor is brought in."""
    if is_image:
        is_by_words = isinstance(halo, Halo) and halo.is_narrow
        return Load(tensor, "windows", 0 if is_by_words else SWIZZLE_BYTES, "halo")
    return Load(tensor, "cp_async" if is_async else "ld", SWIZZLE_BYTES)


def along(halo: Halo) -> tuple[Vectorize, ...]:
    """Channels that one copy of the image moves, or columns where channels are not contiguous."""
    if halo.along > 1:
        return (Vectorize(halo.columns.name, halo.along),)
    return (Vectorize(halo.channel.name, halo.width),) if halo.width > 1 else ()


def ways(halo: Halo) -> tuple[tuple[Vectorize, ...], ...]:
    """The ways in which the image may come in: along columns also by fewer of them, or one by one."""
    if halo.along == 1:
        return (along(halo),)
    return (*((Vectorize(halo.columns.name, n),) for n in range(2, halo.along + 1, 2)), ())


def barrier_of(halo: Halo) -> str:
    """What tells that a tile has been filled."""
    return "cp_async_group" if max(halo.width, halo.beside) > 1 else "cta"


def binds(kernel: Contraction) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The tiles, and a warp's part of one."""
    return (
        *(((f"{a.name}.o",), "cta.z") for a in kernel.batch),
        (parts_of_axes(kernel.left, "o"), "cta.y"),
        (parts_of_axes(kernel.right, "o"), "cta.x"),
        (parts_of_axes(kernel.left, "i"), "warp.y"),
        (parts_of_axes(kernel.right, "i"), "warp.x"),
    )
