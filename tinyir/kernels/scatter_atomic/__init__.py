"""Updates folded by atomics into a tensor that another kernel has written before."""

from ..family import Family, cases_of, functions_of
from ..problem import Map

here, parts = functions_of(__name__), functions_of("tinyir.kernels.parts")

FAMILY = Family(
    algo="scatter_atomic",
    problem=Map,
    needs=("micro", "threads"),
    fields=("atomics", "bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_scatter"),
    declare=parts("registers", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "scatter_atomic_clocks"),
    emit=here("emit", "scatter_atomic_kernel"),
    cases=cases_of(__name__, "scatter_atomic"),
    before=here("emit", "base_before"),
)
