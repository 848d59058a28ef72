"""Each output element on its own, a few neighbours for each thread."""

from __future__ import annotations

from ..family import Family, cases_of, functions_of
from ..problem import Map

here = functions_of(__name__)

FAMILY = Family(
    algo="flat",
    problem=Map,
    needs=("micro", "threads"),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_flat"),
    declare=here("declare", "declare"),
    clocks=here("clocks", "flat_clocks"),
    emit=here("emit", "flat_kernel"),
    cases=cases_of(__name__, "flat"),
)

__all__ = ["FAMILY"]
