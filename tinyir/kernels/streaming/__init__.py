"""Two contractions with a softmax between them on CUDA cores: rows are never whole (seed 001 section 15.3)."""

from ..attention import Streaming
from ..family import Family, cases_of, functions_of

here = functions_of(__name__)

FAMILY = Family(
    algo="streaming",
    problem=Streaming,
    needs=("micro", "threads"),
    fields=("bind", "cache", "assume", "predicate", "edge"),
    match=here("match", "two_regions_of_threads"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_streaming"),
    declare=here("declare", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "streaming_clocks"),
    emit=here("emit", "streaming_kernel"),
    cases=cases_of(__name__, "streaming"),
)
