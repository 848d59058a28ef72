"""The family that can hold any region: one thread for each result, which computes all that the result needs.

    let e = 256*cta.x + thread.x
    if e < M*N
      let i0 = floor(e/N)
      let i1 = e - N*floor(e/N)
      y.acc[0] = -inf
      for k in 0..N
        y.acc[0] = max(y.acc[0], X[i0, k])
      store Y[i0, i1] = sub(X[i0, i1], y.acc[0])

Folds are loops of the thread, over the region's own axes too; a scan folds up to its point; a value at another point is
computed there; a gather is a guarded read. It runs on every arch, and shares nothing between threads: no shared memory,
no barrier. It is right and slow, so the planner takes it only where no other family holds a region or none of their
plans fits the card.

Fields: `tile [T]`, the results of a CTA, and `threads [T]`, the same number.
"""

from ..family import Family, cases_of, functions_of
from ..problem import Plain

here, parts = functions_of(__name__), functions_of("tinyir.kernels.parts")

FAMILY = Family(
    algo="plain",
    problem=Plain,
    needs=("threads",),
    fields=("assume",),
    accepts=here("fields", "fields"),
    space=here("space", "propose_plain"),
    declare=parts("registers", "declare"),
    clocks=here("clocks", "plain_clocks"),
    emit=here("emit", "plain_kernel"),
    cases=cases_of(__name__, "plain"),
    is_fallback=True,
)
