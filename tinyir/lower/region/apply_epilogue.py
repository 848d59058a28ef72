"""R3: a fold is a value of its own, and what is done to its result follows, on the accumulator (seed 001 section 6.6).

before: %s         = relu(add(reduce sum (k0: K) : fp32 { A[i0, k0] }, S[i0]))
after:  %s.acc     = reduce sum (k0: K) : fp32 { A[i0, k0] }
        %s         = relu(add(%s.acc, S[i0]))

So every fold reads `let acc = reduce(body)`, whatever form it came in. What is under a guard stays there.
"""

from __future__ import annotations

from ...ir.body import Body, Gather, Reduce, Ref, Scan, Scatter, Select, rebuild
from ...ir.present import is_scalar, present_axes
from ...ir.region import Let, Region, Yield
from ...kit.records import replace
from .share_values import free_name


def apply_epilogue(region: Region) -> Region:
    """The region with a line for each of its folds."""
    taken = {v.name for v in region.lets}
    iters = tuple(a.name for a in region.iters)
    lets: list[Let] = []

    def shown(body: Body, item: Let | Yield, is_inside: bool) -> Body:
        if isinstance(body, (Select, Scan, Gather, Scatter)):
            return body
        if isinstance(body, Reduce):
            if not is_inside or is_scalar(body) and not present_axes(body, iters, {}) & set(iters):
                return (
                    body  # a number that reads nothing meets operands of any axes where it is, and would not as a value
                )
            name = free_name(f"{item.name if isinstance(item, Let) else item.output}.acc", taken)
            lets.append(Let(name, body, item.origin))
            return Ref(name, body.dtype)
        return rebuild(body, lambda inner: shown(inner, item, True))

    for let in region.lets:
        lets.append(replace(let, expr=shown(let.expr, let, False)))
    yields = tuple(replace(y, expr=shown(y.expr, y, True)) for y in region.yields)
    return replace(region, lets=tuple(lets), yields=yields)
