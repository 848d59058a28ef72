"""Two contractions with a softmax between them on sm90's tensor cores, where `streaming` has CUDA cores: the scores
stay in the registers of warpgroups, become weights there, and are the left operand of the second product.

It wins wherever the maps let the copy engine fetch what is read, depth and width are at most 256, and there are rows
enough to fill the card. `tile` is [64 rows for each consumer, columns of scores, depth], `stages` blocks of keys and
values on their way, `order group` heads that run together; with `async ... overlap epilogue` the next query is fetched
while a tile ends. Keys and values may be in pages that data name (`pages`), and columns may end where data say
(`limits`); the heads of a group are rows beside few queries (`rows`). What scores meet element by element (a bias, a
mask of truth values) comes in tiles: those of 16 bits go to registers while products run, others are read in place.
"""

from ..attention import Streaming
from ..family import Family, cases_of, functions_of

here, parts = functions_of(__name__), functions_of("tinyir.kernels.parts")

FAMILY = Family(
    algo="streaming_softmax",
    problem=Streaming,
    needs=("consumers",),
    fields=(
        "stages",
        "threads",
        "regs",
        "bind",
        "persistent",
        "order",
        "cache",
        "load",
        "store",
        "assume",
        "predicate",
        "async",
        "barrier",
        "edge",
    ),
    match=here("match", "two_regions_of_tensor_cores"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_flash"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "flash_clocks"),
    emit=here("emit", "flash_kernel"),
    before=parts("drawn", "before"),
    why_none=here("space", "why_none"),
    cases=cases_of(__name__, "streaming_softmax"),
)
