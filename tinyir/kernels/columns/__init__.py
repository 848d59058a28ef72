"""Folds across rows: lanes along what is side by side, the other threads along the fold, which meet in shared
memory."""

from ..family import Family, cases_of, functions_of
from ..problem import Map

here = functions_of(__name__)

FAMILY = Family(
    algo="columns",
    problem=Map,
    needs=("micro", "threads"),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_columns"),
    declare=here("declare", "declare"),
    beyond=here("match", "beyond"),
    clocks=here("clocks", "columns_clocks"),
    emit=here("emit", "columns_kernel"),
    cases=cases_of(__name__, "columns"),
    in_warps=True,
)
