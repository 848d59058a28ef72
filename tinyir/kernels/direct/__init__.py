"""Folds over windows, as they are: a thread computes a block of neighbouring results, for which registers hold a row of
the image at a time, with its halo.

    depthwise and grouped convolutions, convolutions of few channels, pools
"""

from ..family import Family, cases_of, functions_of
from ..windowed import Windowed

here = functions_of(__name__)

FAMILY = Family(
    algo="direct",
    problem=Windowed,
    needs=("micro", "threads"),
    fields=("stages", "bind", "cache", "load", "vectorize", "assume", "predicate", "async", "barrier"),
    accepts=here("fields", "fields"),
    space=here("space", "space"),
    declare=here("declare", "declare"),
    clocks=here("clocks", "clocks"),
    emit=here("emit", "emit"),
    cases=cases_of(__name__, "direct"),
)
