"""Two contractions with a softmax between them on tensor cores by mma.sync, from sm80 on: scores, weights and sums stay
in the registers of warps, and the weights are the left operand of the second product.

It is sm80's form; on sm90 it takes what `flash` cannot fetch by boxes. `tile` is [rows of the query, columns of scores,
depth], of which a warp has `warp_tile` [rows, columns]; `stages` blocks of keys and values are in shared memory, all
but one on their way there.
"""

from ..attention import Streaming
from ..family import Family, cases_of, functions_of

here = functions_of(__name__)

FAMILY = Family(
    algo="streaming_mma",
    problem=Streaming,
    needs=("warp_tile", "threads"),
    fields=("stages", "bind", "order", "cache", "load", "assume", "predicate", "async", "barrier", "edge"),
    match=here("match", "two_regions_of_warps"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_warps"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "warps_clocks"),
    emit=here("emit", "warps_kernel"),
    why_none=here("space", "why_none"),
    cases=cases_of(__name__, "streaming_mma"),
    fills_sm=True,
)
