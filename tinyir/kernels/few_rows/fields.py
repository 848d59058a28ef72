"""The fields of plans of a product of few rows: `tile [rows, columns, sum]`, of a row alone `[columns, sum]`; `threads
[32, warps along the columns, warps along the sum]`; `vectorize`: elements along the sum that a thread takes at once, or
columns that it has side by side."""

from __future__ import annotations

from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..problem import Contraction
from .declare import EIGHT, FRAGMENT, STAGES, rows_of
from .match import patch_of, patches_of, product_of, vectorize_of

WARP, MOST_WARPS = 32, 32


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, problem = case.plan, case.problem
    product = product_of(problem.region, case.kernel)
    beside, behind = plan.threads[1:] if len(plan.threads) == 3 else (1, 1)
    patches = patches_of(problem.region, case.kernel)
    patch = patch_of(plan, product)
    depth = 4 * patch.piece * behind
    rows = (rows_of(problem),) if isinstance(case.kernel, Contraction) else ()

    def fits(tile: tuple[int, ...]) -> bool:
        *head, columns, deep = tile
        is_whole = columns % (FRAGMENT * beside) == 0 and patch.side in (0, columns // (EIGHT * beside))
        return tuple(head) == rows and is_whole and columns > 0 and deep == depth and patch in patches

    return {
        "tile": where(f"[{', '.join([*map(str, rows), f'{FRAGMENT * beside} * n', str(depth)])}]", fits),
        "stages": only(*STAGES),
        "threads": where(
            "[32, x, y], x * y <= 32",
            lambda given: len(given) == 3 and given[0] == WARP and given[1] * given[2] <= MOST_WARPS,
        ),
        "bind": bound(
            (parts_of_axes((product.right,), "o"), "cta.x"),
            (parts_of_axes((product.right,), "i"), "thread.y"),
            (parts_of_axes((product.sum,), "i"), "thread.z"),
        ),
        "vectorize": only(*dict.fromkeys(vectorize_of(product, patch) for patch in patches)),
    }
