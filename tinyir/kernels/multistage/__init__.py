"""A contraction on tensor cores by mma.sync, from sm80 on: a ring of tiles filled by cp.async, fragments by
ldmatrix."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction

here = functions_of(__name__)

FAMILY = Family(
    algo="multistage",
    problem=Contraction,
    needs=("warp_tile", "threads"),
    fields=(
        "stages",
        "math",
        "bind",
        "order",
        "cache",
        "load",
        "vectorize",
        "assume",
        "predicate",
        "epilogue",
        "async",
        "barrier",
        "layout",
    ),
    accepts=here("fields", "fields"),
    space=here("space", "propose_multistage"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "multistage_clocks"),
    emit=here("emit", "multistage_kernel"),
    cases=cases_of(__name__, "multistage"),
    before=functions_of("tinyir.kernels.parts")("copies", "copies_before"),
)
