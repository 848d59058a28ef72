"""A piece of an output whose elements take long is computed into registers before its place in shared memory is waited
for, so that it hides what the pieces before take to leave:

    reg c.held : fp32[64, 64]
    each r, n of acc[0, 64*j] size [64, 64]
      c.held[r, n] = %gelu
    wait until the piece before the last has left shared memory; barrier
    each r, n of c.held
      store c[...][r, n] = cast(c.held[r, n]) : fp16 by stmatrix
"""

from __future__ import annotations

from ...ir.body import Read, Unary, walk
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.region import Region
from ...ir.traits import bodies_of
from ...ir.types import DType

# A tanh takes 1 % longer where it is computed early, and is left out.
LONG = frozenset({"erf", "exp", "exp2", "log", "log2", "sin", "cos", "div", "sqrt", "rsqrt", "pow"})


def takes_long(region: Region) -> bool:
    """Whether the values of a region have ops that take long."""
    return any(getattr(node, "op", "") in LONG for body in bodies_of(region) for node in walk(body))


def put_out(held: Read, to: Place, dtype: DType) -> Statement:
    """What was computed early into shared memory: each element of the registers that hold it, in the output's dtype."""
    point = tuple(map(str, held.index))
    return nodes.Each(point, held.tensor, (nodes.Store(to, Unary("cast", held, dtype), by="stmatrix"),))
