"""Prefix folds: a CTA for each row, whose threads share what they fold, or a thread for each row."""

from ..family import Family, cases_of, functions_of
from ..problem import Prefix

here = functions_of(__name__)

BLOCK = Family(
    algo="scan_block",
    problem=Prefix,
    needs=("threads",),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "of_block"),
    space=here("space", "propose_block"),
    declare=here("declare", "declare_block"),
    clocks=here("clocks", "block_clocks"),
    emit=here("emit", "block_kernel"),
    cases=cases_of(__name__, "scan_block"),
    in_warps=True,
)
THREAD = Family(
    algo="scan_thread",
    problem=Prefix,
    needs=("threads",),
    fields=("bind", "vectorize", "assume", "predicate"),
    accepts=here("fields", "of_thread"),
    space=here("space", "propose_thread"),
    declare=functions_of("tinyir.kernels.parts")("registers", "declare"),
    clocks=here("clocks", "thread_clocks"),
    emit=here("emit", "thread_kernel"),
    cases=cases_of(__name__, "scan_thread"),
)
