"""Prefix folds of long rows: CTAs take tiles of the rows in turn, and each looks back at what those before it fold
to."""

from ..family import Family, cases_of, functions_of
from ..problem import Prefix

here = functions_of(__name__)

FAMILY = Family(
    algo="scan_look_back",
    problem=Prefix,
    needs=("threads",),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_look_back"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "look_back_clocks"),
    emit=here("emit", "look_back_kernel"),
    cases=cases_of(__name__, "scan_look_back"),
    before=here("emit", "before"),
    in_warps=True,
)
