"""A contraction of a few rows, bound by the bytes of the other operand: wide loads, sums in registers, folded over the
CTA. On every arch, for at most four rows, where tensor cores or the copy engine cannot serve."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction

here = functions_of(__name__)

FAMILY = Family(
    algo="gemv",
    problem=Contraction,
    needs=("micro", "threads"),
    fields=("bind", "order", "split_k", "vectorize", "assume", "predicate", "epilogue"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_gemv"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "gemv_clocks"),
    emit=here("emit", "gemv_kernel"),
    cases=cases_of(__name__, "gemv"),
    fills_sm=True,
)
