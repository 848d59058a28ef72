"""A state of which a run replaces the elements at places that the data give: those alone are written, in place.

    let e = 128*cta.x + thread.x
    if e < H*D
      let i0 = floor(e/D)
      let i2 = e - D*floor(e/D)
      for k0 in 0..S
        choose k0.at = at[k0] below L
        if 0 <= k0.at
          store new[i0, k0.at, i2] = rows[i0, k0, i2]          new is the memory of the state

A thread takes all updates of its places along the axis of the scatter, in their order: of several updates of one
element the last stays, as in every other form. What no update finds is not touched.

Fields: `tile [T]`, the threads of a CTA, and `threads [T]`, the same number. `bind` and `predicate` are those of a map:
the axis of the scatter is among the others, though the data say where along it a thread writes."""

from ..family import Family, cases_of, functions_of
from ..problem import Map

here, parts = functions_of(__name__), functions_of("tinyir.kernels.parts")

FAMILY = Family(
    algo="scatter_in_place",
    problem=Map,
    needs=("threads",),
    fields=("bind", "assume", "predicate"),
    accepts=here("fields", "fields"),
    space=here("space", "propose_in_place"),
    declare=parts("registers", "declare"),
    legal=here("legal", "legal"),
    clocks=here("clocks", "in_place_clocks"),
    emit=here("emit", "in_place_kernel"),
    cases=cases_of(__name__, "scatter_in_place"),
)
