"""The fields of plans of a product of few rows: `tile [rows, columns, sum]`, of a row alone `[columns, sum]`; `threads
[32, warps along the columns, warps along the sum]`; `vectorize`: elements along the sum that a thread takes at once."""

from __future__ import annotations

from ...ir.plan import Vectorize
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..problem import Contraction
from .declare import FRAGMENT, STAGES, rows_of
from .match import pieces_of, product_of

WARP, MOST_WARPS = 32, 32


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, problem = case.plan, case.problem
    product = product_of(problem.region, case.kernel)
    if product is None:
        return {}
    beside, behind = plan.threads[1:] if len(plan.threads) == 3 else (1, 1)
    depth = 4 * plan.widest * behind
    rows = (rows_of(problem),) if isinstance(case.kernel, Contraction) else ()

    def fits(tile: tuple[int, ...]) -> bool:
        *head, columns, deep = tile
        return tuple(head) == rows and columns % (FRAGMENT * beside) == 0 and columns > 0 and deep == depth

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
        "vectorize": only(*((Vectorize(product.sum.name, piece),) for piece in pieces_of(problem.region, case.kernel))),
    }


__all__ = ["fields"]
