"""A product of a few rows whose large factor goes from memory straight into the operands of tensor cores, computed on
its way: `few_rows` of several, `one_row` of a row alone, which is a fold of each column."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction, Row

here = functions_of(__name__)
OF_BOTH = {
    "needs": ("threads", "vectorize"),
    "accepts": here("fields", "fields"),
    "declare": here("declare", "declare"),
    "beyond": here("match", "beyond"),
    "clocks": here("clocks", "few_rows_clocks"),
    "emit": here("emit", "few_rows_kernel"),
    "in_warps": True,
}

FEW = Family(
    algo="few_rows",
    problem=Contraction,
    fields=("stages", "bind", "epilogue", "assume", "predicate"),
    space=here("space", "propose"),
    cases=cases_of(__name__, "few_rows"),
    **OF_BOTH,
)
ONE = Family(
    algo="one_row",
    problem=Row,
    fields=("stages", "bind", "assume", "predicate"),
    space=here("space", "propose"),
    cases=cases_of(__name__, "one_row"),
    **OF_BOTH,
)
