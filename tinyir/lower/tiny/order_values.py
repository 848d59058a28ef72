"""Values come in the order in which the outputs need them, which the graph alone settles.

    in x : fp32[N]
    in z : fp32[N]
    %b = NEG(z) : fp32[N]
    %a = ABS(x) : fp32[N]
    %y = ADD(%b, %a) : fp32[N]
->
    in x : fp32[N]
    in z : fp32[N]
    %a = ABS(x) : fp32[N]
    %b = NEG(z) : fp32[N]
    %y = ADD(%b, %a) : fp32[N]

The operands of an op come before it, each with what it needs: in their order, but those of a commutative op in an order
that does not depend on how they are written: by the first input that each reads, constants last; the longer chain
first; and then by a digest of what each computes.
"""

from __future__ import annotations

from hashlib import sha256

from ...ir.ops import OPS
from ...ir.tiny import Module, Value, likeness
from .graph import with_values

Key = tuple[int, int, str]  # first input read, depth (negative), digest


def order_values(module: Module) -> Module:
    """Depth first from the outputs, in the order of the signature; what no output needs comes last."""
    keys = _keys(module)
    values = module.value_of()
    place = {t.name: i for i, t in enumerate(module.model.outputs)}
    roots = [r.value for r in sorted(module.results, key=lambda r: place[r.output])]
    ordered: dict[str, Value] = {}
    for root in [*roots, *values]:
        stack = [(root, False)]
        while stack:
            name, is_ready = stack.pop()
            if name in ordered or name not in values:
                continue
            if is_ready:
                ordered[name] = values[name]
                continue
            stack.append((name, True))
            stack += [(o, False) for o in reversed(_visited(values[name], keys))]
    return with_values(module, ordered.values())


def _visited(value: Value, keys: dict[str, Key]) -> tuple[str, ...]:
    """The operands in the order in which they are visited."""
    return tuple(sorted(value.operands, key=keys.__getitem__)) if OPS[value.op].is_commutative else value.operands


def _keys(module: Module) -> dict[str, Key]:
    last = len(module.model.inputs)
    keys: dict[str, Key] = {t.name: (i, 0, "") for i, t in enumerate(module.model.inputs)}
    for value in module.values:
        operands = [keys[o] for o in _visited(value, keys)]
        digest = sha256(repr((likeness(value), operands)).encode()).hexdigest()
        keys[value.name] = (
            min((k[0] for k in operands), default=last),
            min((k[1] for k in operands), default=0) - 1,
            digest,
        )
    return keys
