"""A map that reads along one axis and writes along another: tiles through shared memory, blocks of whole accesses where
they are known to be whole."""

from ..family import Family, cases_of, functions_of
from ..problem import Map

here = functions_of(__name__)

FAMILY = Family(
    algo="transposed",
    problem=Map,
    needs=("micro", "threads"),
    fields=("bind", "cache", "vectorize", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_transposed"),
    declare=here("declare", "declare"),
    beyond=here("blocks", "beyond"),
    clocks=here("clocks", "transposed_clocks"),
    emit=here("emit", "transposed_kernel"),
    cases=cases_of(__name__, "transposed"),
)
