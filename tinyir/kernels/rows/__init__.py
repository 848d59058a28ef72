"""Folds along rows: a team of threads for each row, which stays in registers or is read again in each pass."""

from ..family import Family, cases_of, functions_of
from ..problem import Row

here = functions_of(__name__)

RESIDENT = Family(
    algo="row_resident",
    problem=Row,
    needs=("threads",),
    fields=("cluster", "bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "of_resident"),
    space=here("space", "propose_resident"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal_resident"),
    clocks=here("clocks", "resident_clocks"),
    emit=here("emit", "resident_kernel"),
    cases=cases_of(__name__, "row_resident"),
    in_warps=True,
)
STREAMED = Family(
    algo="row_streamed",
    problem=Row,
    needs=("threads",),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "of_streamed"),
    space=here("space", "propose_streamed"),
    declare=here("declare", "declare_streamed"),
    clocks=here("clocks", "streamed_clocks"),
    emit=here("emit", "streamed_kernel"),
    cases=cases_of(__name__, "row_streamed"),
    in_warps=True,
)
