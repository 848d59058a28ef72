"""Names that nobody wrote are numbered anew, in the order of the values.

    in x : fp32[N]
    from act : Elementwise
    %act.k3 = CONST() {value=1.0} : fp32[N]
    %act = ADD(x, %act.k3) : fp32[N]
    from v7 : BinOp
    %v7 = MUL(%act, x) : fp32[N]
->
    in x : fp32[N]
    from act : Elementwise
    %k = CONST() {value=1.0} : fp32[N]
    %act = ADD(x, %k) : fp32[N]
    from v7 : BinOp
    %v0 = MUL(%act, x) : fp32[N]

Nobody wrote `step.part2`, a value inside a step (front.builder), nor `v7`, a value of a language that only counts. A
part that is called after its op is called after the op that it has become. A constant is of no step: `k`, `k2`. Names
that came from the model stay.
"""

from __future__ import annotations

import re

from ...ir.ops import OPS
from ...ir.tiny import Module, Value
from ...kit.records import replace
from .graph import with_operands, with_values

_COUNTED = re.compile(r"v\d+(?=\.|$)")
PART = {
    "RESHAPE": "r",
    "PERMUTE": "t",
    "EXPAND": "x",
    "CAST": "c",
    "CONST": "k",
}  # as the builder calls what has no other name
_MECHANICAL = {*PART.values(), *map(str.lower, OPS)}
_WORDS = {op.lower() for op in OPS if op[-1].isdigit()}  # `exp2` is not a second `exp`


def number_values(module: Module) -> Module:
    """The same values under their canonical names."""
    taken = {t.name for t in module.model.inputs} | {
        v.name for v in module.values if _word(v) is None and not _COUNTED.match(v.name)
    }
    counted: dict[str, str] = {}
    names: dict[str, str] = {}
    for value in module.values:
        found = _COUNTED.match(value.name)
        word = _word(value)
        if found is None and word is None:
            continue
        wanted = word or value.name
        if value.op == "CONST":
            wanted = PART["CONST"]
        elif found is not None:
            if found[0] not in counted:
                counted[found[0]] = _free_number(len(counted), taken)
            wanted = counted[found[0]] + wanted[found.end() :]
        names[value.name] = _claim(wanted, taken)
    values = tuple(replace(with_operands(v, names), name=names.get(v.name, v.name)) for v in module.values)
    return with_values(module, values, names)


def _word(value: Value) -> str | None:
    """`step.part` of a value inside a step, without its number; None for any other."""
    step = value.origin.name if value.origin is not None else ""
    if not step or not value.name.startswith(step + "."):
        return None
    word = value.name[len(step) + 1 :]
    while word not in _WORDS and word[-1:].isdigit() and word.rstrip("0123456789").rstrip("_"):
        word = re.sub(r"_?\d+$", "", word)
    own = PART.get(value.op, value.op.lower())
    return f"{step}.{own if word in _MECHANICAL else word}"


def _free_number(number: int, taken: set[str]) -> str:
    while f"v{number}" in taken:
        number += 1
    return f"v{number}"


def _claim(name: str, taken: set[str]) -> str:
    """As the builder numbers them: `mul`, `mul2`, and `k2_2` where the word ends in a digit."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}{'_' if name[-1:].isdigit() else ''}{count}"
    taken.add(free)
    return free
