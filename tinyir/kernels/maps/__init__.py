"""Each output element on its own, a few neighbours for each thread."""

from ..family import Family, cases_of, functions_of
from ..problem import Map

here, parts = functions_of(__name__), functions_of("tinyir.kernels.parts")

FAMILY = Family(
    algo="flat",
    problem=Map,
    needs=("micro", "threads"),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=parts("element_plans", "element_plans"),
    declare=parts("registers", "declare"),
    clocks=parts("element_clocks", "element_clocks"),
    emit=parts("elements", "element_kernel"),
    cases=cases_of(__name__, "flat"),
)
