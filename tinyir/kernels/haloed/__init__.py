"""A contraction over windows on tensor cores by mma.sync, from sm80 on: a tile of the image with its edge once in
shared memory, a ring of the other factor's tiles, one for each tap; of few channels the windows as a matrix there."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction

here = functions_of(__name__)

FAMILY = Family(
    algo="haloed",
    problem=Contraction,
    needs=("warp_tile", "threads"),
    fields=(
        "stages",
        "bind",
        "persistent",
        "cache",
        "load",
        "vectorize",
        "assume",
        "predicate",
        "epilogue",
        "async",
        "barrier",
    ),
    accepts=here("fields", "fields"),
    space=here("space", "space"),
    declare=here("declare", "declare"),
    beyond=here("halo", "beyond"),
    clocks=here("clocks", "clocks"),
    emit=here("emit", "emit"),
    cases=cases_of(__name__, "haloed"),
    in_warps=True,
)
