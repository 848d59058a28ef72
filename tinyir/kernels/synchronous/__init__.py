"""A contraction on CUDA cores, any architecture, any maps: tiles in shared memory between two barriers, micro tiles of
accumulators (seed 002 section 6)."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction

here = functions_of(__name__)

FAMILY = Family(
    algo="synchronous",
    problem=Contraction,
    needs=("micro", "threads"),
    fields=("stages", "bind", "cache", "assume", "predicate", "epilogue"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_contraction"),
    declare=here("declare", "declare"),
    clocks=here("clocks", "synchronous_clocks"),
    emit=here("emit", "synchronous_kernel"),
    cases=cases_of(__name__, "synchronous"),
    has_static_smem=True,
)
