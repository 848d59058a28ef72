"""Settles what the prover knows of a kernel's walks: integers that have one value, and loops that never run.

    most last = [1, floor((end + 63)/64)]        →   let last = 1        where end <= 64
    for t in 1..last                             →   (nothing)
      ...

One block may have all columns of scores; inside the loop over the others everything is proven, so that nothing would
use the names of its guards. A wait names no load of such a loop: where each CTA of a cluster has one step of the sum,
nobody fetches a further one.
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import ONE, ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.extremes import EXTREMES
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.gpu.walk import Visit, statements, visits, words_held
from ...ir.model import Model
from ...kit.groups import lists_of
from ...kit.records import replace

BLOCKS = ("body", "otherwise")  # of a statement


def with_settled(kernel: Kernel, model: Model) -> Kernel:
    """The kernel without each loop that no thread ever enters, and with the number itself for each extreme of one value
    and what is made of it. A statement may be part of several blocks: it changes where it would in all of them."""
    found = lists_of(
        (id(v.statement), _settled(v))
        for v in visits(kernel, model)
        if isinstance(v.statement, (nodes.For, nodes.Let, *EXTREMES))
    )
    others = {at: every[0] for at, every in found.items() if all(one == every[0] for one in every)}
    body = _changed(kernel.body, others)
    if lost := _tokens(kernel.body) - _tokens(body):
        body = _without(body, lost)
    return replace(kernel, body=body)


def _tokens(body: tuple[Statement, ...]) -> set[str]:
    """What the statements start that others wait for."""
    return {s.token for s in statements(body) if hasattr(s, "token")}


def _without(body: tuple[Statement, ...], lost: set[str]) -> tuple[Statement, ...]:
    """The statements, none of which names these tokens."""
    changed = []
    for s in body:
        named: dict[str, Any] = {word: _without(getattr(s, word), lost) for word in words_held(type(s), BLOCKS)}
        if lost & {*getattr(s, "tokens", ())}:
            named["tokens"] = tuple(t for t in s.tokens if t not in lost)
        changed.append(replace(s, **named) if any(getattr(s, word) != new for word, new in named.items()) else s)
    return tuple(changed)


def _settled(v: Visit) -> Statement | None:
    """What a statement is; None of a loop that never runs. Where no thread ever comes all may be proven, so that it
    stays as it is; that is asked last, since it takes all facts."""
    s, found = v.statement, v.statement
    if isinstance(s, nodes.For):
        found = None if v.facts.is_at_least(s.low, s.high) else s
    elif _has_extreme(s, v):
        facts = v.facts.with_let(s.name, s.value) if isinstance(s, nodes.Let) else v.facts.with_extreme(s)
        known = facts.ranges[s.name]
        found = nodes.Let(s.name, Expr.of(known.low)) if known.low is not None and known.low == known.high else s
    return s if found is not s and v.facts.is_at_least(ZERO, ONE) else found


def _has_extreme(s: Statement | None, v: Visit) -> bool:
    """Whether an integer is an extreme, or made of one."""
    if isinstance(s, nodes.Let):
        return any(_has_extreme(v.names.get(name), v) for name in s.value.names())
    return isinstance(s, EXTREMES)


def _changed(body: tuple[Statement, ...], others: dict[int, Statement | None]) -> tuple[Statement, ...]:
    kept = []
    for s in body:
        other = others.get(id(s), s)
        if other is not s:
            kept += [other] if other is not None else []
            continue
        blocks = {word: getattr(s, word) for word in words_held(type(s), BLOCKS)}
        made = {word: _changed(block, others) for word, block in blocks.items()}
        if blocks.get("body") and not made["body"]:  # a block has a line
            kept += [] if isinstance(s, (nodes.For, nodes.If)) and not any(made.values()) else [s]
            continue
        is_same = all(len(made[w]) == len(b) and all(x is y for x, y in zip(made[w], b)) for w, b in blocks.items())
        kept.append(s if is_same else replace(s, **made))
    return tuple(kept)
