"""A contraction on sm90: a producer warp fills a ring by TMA, warpgroups multiply by wgmma."""

from ..family import Family, cases_of, functions_of
from ..problem import Contraction

here = functions_of(__name__)

FAMILY = Family(
    algo="warp_specialized",
    problem=Contraction,
    needs=("consumers",),
    fields=(
        "stages",
        "math",
        "promote",
        "partials",
        "cluster",
        "regs",
        "bind",
        "persistent",
        "order",
        "split_k",
        "swap_ab",
        "cache",
        "load",
        "store",
        "assume",
        "predicate",
        "epilogue",
        "async",
        "barrier",
        "layout",
    ),
    accepts=here("fields", "fields"),
    space=here("space", "propose_warp_specialized"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "warp_specialized_clocks"),
    emit=here("emit", "warp_specialized_kernel"),
    cases=cases_of(__name__, "warp_specialized"),
    before=functions_of("tinyir.kernels.parts")("copies", "copies_before"),
    takes_pairs=True,
)
