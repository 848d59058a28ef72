"""The verifier of tiny text: one function an invariant, in the order that `ir.tiny.check` lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..kit.diag import Diag, Label, Refused
from ..kit.phrase import Phrase
from .expr import ONE, Bound, Expr
from .model import is_fixed
from .ops import OPS
from .rules import infer
from .unknown import unknown_name


def chain_of(name: str, values: Mapping[str, Any]) -> list[str]:
    """A value and what it is a movement of, one after another, down to the nearest that is not a movement."""
    found = [name]
    while found[-1] in values and OPS[values[found[-1]].op].is_movement and values[found[-1]].operands:
        moved = values[found[-1]].operands[0]
        if moved in found:  # a circle, which is a fault of its own
            break
        found.append(moved)
    return found


def computed_of(module: Any) -> set[str]:
    """The values that a kernel computes, and the movements of such: an output needs the value, and it is not a
    constant; an output that is a movement is computed whatever it moves."""
    results = {r.value for r in module.results}
    needed = set(results)
    for value in reversed(module.values):
        if value.name in needed:
            needed.update(value.operands)
    computed: set[str] = set()
    for value in module.values:
        group = OPS[value.op].group
        moves = group == "movement" and value.operands and value.operands[0] in computed
        if moves or value.name in results or value.name in needed and group not in ("movement", "leaf"):
            computed.add(value.name)
    return computed


def values_of_op(module: Any, name: str) -> tuple[str, ...]:
    """What kernels compute of the values that came from the op `name` of the model: without its movements, where it is
    more than those. Empty where no op is called so, or no output needs it."""
    computed = computed_of(module)
    made = [v for v in module.values if v.origin is not None and v.origin.name == name and v.name in computed]
    return tuple(v.name for v in made if not OPS[v.op].is_movement) or tuple(v.name for v in made)


def check_tiny(module: Any) -> list[Diag]:
    """Invariants 2 to 11 of `ir.tiny.check`. Typing stops at a value whose operands are unknown, so that one fault is
    one message."""
    definitions = [*_check_definitions(module), *_check_uses(module)]
    return [
        *definitions,
        *_check_types(module),
        *_check_names(module),
        *_check_results(module),
        *check_must_fuse(module),
        *_check_inputs_used(module),
        *_check_order(module),
    ]


def _check_definitions(module: Any) -> Iterator[Diag]:
    first: dict[str, Any] = {t.name: t for t in module.model.inputs}
    for value in module.values:
        if value.name in first:
            earlier = first[value.name]
            labels = (Label(earlier.span, Phrase("first defined here")),) if earlier.span else ()
            yield Diag("E0201", value.name, {"name": value.name}, value.span, labels)
        first.setdefault(value.name, value)


def _check_uses(module: Any) -> Iterator[Diag]:
    later = {v.name: v for v in module.values}
    known = dict.fromkeys(t.name for t in module.model.inputs)
    for value in module.values:
        for operand in value.operands:
            if operand in known:
                continue
            if operand in later:
                yield Diag(
                    "E0203",
                    value.name,
                    {"name": operand},
                    value.span,
                    (Label(later[operand].span, Phrase("defined here")),) if later[operand].span else (),
                )
            else:
                yield Diag("E0202", value.name, unknown_name(operand, known), value.span)
        known[value.name] = None


def _check_types(module: Any) -> Iterator[Diag]:
    types = module.type_of()
    place = {v.name: v.span for v in module.values} | {t.name: t.span for t in module.model.inputs}
    for value in module.values:
        if any(o not in types for o in value.operands):
            continue
        try:
            wanted = infer(OPS[value.op], [types[o] for o in value.operands], dict(value.attrs), value.type, value.name)
        except Refused as fault:
            for d in fault.diags:
                labels = tuple(
                    Label(place[o], Phrase("{o} is {types}", o=o, types=types[o]))
                    for o in value.operands
                    if place.get(o)
                )
                yield Diag(d.code, d.at, d.facts, value.span, labels)
            continue
        if wanted != value.type:
            yield Diag("E1010", value.name, {"stated": value.type, "wanted": wanted}, value.span)


def _check_names(module: Any) -> Iterator[Diag]:
    symbols = module.model.symbols()
    for value in module.values:
        axes = [f"i{axis}" for axis in range(value.type.rank)]
        used = [*value.type.shape, *_exprs_in(tuple(item for _, item in value.attrs))]
        for name in dict.fromkeys(n for e in used for n in e.names()):
            if _AXIS.fullmatch(name) and name not in axes:
                yield Diag(
                    "E1205",
                    value.name,
                    {"name": name, "known": ", ".join(axes) or Phrase("no axis, since the value is a scalar")},
                    value.span,
                )
            elif name not in symbols and name not in axes:
                facts = {
                    "left": Phrase("{name} in {value}", name=name, value=value.name),
                    "right": Phrase("a size made of {symbols}", symbols=", ".join(symbols) or Phrase("no symbol")),
                }
                yield Diag("E1304", value.name, facts, value.span)


def _exprs_in(item: Any) -> Iterator[Expr]:
    """The expressions of an attribute."""
    if isinstance(item, Expr):
        yield item
    elif isinstance(item, Bound):
        yield from (e for e in (item.expr, item.lower, item.upper, item.equals) if e is not None)
    elif isinstance(item, tuple):
        for inner in item:
            yield from _exprs_in(inner)


_AXIS = re.compile(r"[iko]\d+")


def _check_results(module: Any) -> Iterator[Diag]:
    types = module.type_of()
    given: dict[str, str] = {}
    for result in module.results:
        if module.model.output(result.output) is None:
            yield Diag(
                "E1305",
                result.output,
                {"fault": Phrase("{output} is not an output of the signature", output=result.output)},
            )
        elif result.output in given:
            yield Diag("E1305", result.output, {"fault": Phrase("{output} is given twice", output=result.output)})
        elif result.value not in types:
            yield Diag("E0202", result.output, unknown_name(result.value, types))
        elif types[result.value] != module.model.output(result.output).type:
            declared = module.model.output(result.output)
            yield Diag(
                "E1305",
                result.output,
                {
                    "fault": Phrase(
                        "{output} is declared {type} but %{value} is {types}",
                        output=result.output,
                        type=declared.type,
                        value=result.value,
                        types=types[result.value],
                    )
                },
                declared.span,
            )
        given[result.output] = result.value
        yield from _check_fixed(module, result)
    for output in module.model.outputs:
        if output.name not in given:
            yield Diag(
                "E1305",
                output.name,
                {"fault": Phrase("no value is given for {output}", output=output.name)},
                output.span,
            )


def _check_fixed(module: Any, result: Any) -> Iterator[Diag]:
    """A weight that is an output under its own name is given on as it is."""
    weight, output = module.model.input(result.output), module.model.output(result.output)
    if weight is not None and output is not None and is_fixed(weight) and result.value != weight.name:
        fault = Phrase("{state} is a constant of the model", state=weight.name)
        facts = {"output": output.name, "state": weight.name, "fault": fault}
        yield Diag("E1316", output.name, facts, output.span)


def check_must_fuse(module: Any) -> Iterator[Diag]:
    """What must share a kernel is a value that is computed, and that an output needs."""
    types = module.type_of() if module.must_fuse else {}
    computed = computed_of(module) if module.must_fuse else {}
    for one in module.must_fuse:
        for name in dict.fromkeys(one.values):
            if name not in types:
                yield Diag("E0202", name, unknown_name(name, types), one.span)
            elif name not in computed:
                yield Diag("E1421", name, {"name": name, "moved": chain_of(name, module.value_of())[-1]}, one.span)


def _check_inputs_used(module: Any) -> Iterator[Diag]:
    used = {o for v in module.values for o in v.operands} | {r.value for r in module.results}
    for tensor in module.model.inputs:
        if tensor.name not in used:
            yield Diag("W2001", tensor.name, {"name": tensor.name}, tensor.span)


def _check_order(module: Any) -> Iterator[Diag]:
    types = module.type_of()
    for value in module.values:
        source = types.get(value.operands[0]) if value.op == "RESHAPE" and value.operands else None
        if source is not None and reorders_symbols(source.shape, value.type.shape):
            yield Diag("W2102", value.name, {"source": source, "result": value.type}, value.span)


def reorders_symbols(source: Sequence[Expr], result: Sequence[Expr]) -> bool:
    """Whether a RESHAPE changes nothing but the order of symbols, beside axes of size 1: it looks like a transposition
    and is none."""
    left, right = ([d for d in shape if d != ONE] for shape in (source, result))
    moved = [a for a, b in zip(left, right) if a != b]
    return (
        bool(moved)
        and sorted(map(str, left)) == sorted(map(str, right))
        and len(set(moved)) == len(moved)
        and all(d.name is not None for d in moved)
    )
