"""Faults planted by rule in the statements of gpu text, one a kernel: what orders something is dropped, comes once
more, or begins at another slot; what guards keep threads from is done by them.

A rule leaves alone what no thread can tell: a phase that nothing asks for. What is left that changes nothing is in
HARMLESS, each with its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tinyir.ir import gpu
from tinyir.ir.expr import ZERO, Bound, Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.dry import check_dry_runs
from tinyir.ir.gpu.nodes import Kernel
from tinyir.ir.gpu.verify import check_kernels, exprs_in
from tinyir.ir.gpu.walk import names_in, statements
from tinyir.ir.gpu.writes import check_writes

CHECKS = (check_kernels, check_dry_runs, check_writes)  # each is asked where those before it have found nothing
Rule = Callable[[Any, Kernel], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class Mutant:
    """A module with one fault: the rule, the statement as it was, the blocks around it, the statements beside it, and
    its kernel as it was."""

    rule: str
    statement: Any
    path: tuple[Any, ...]
    beside: tuple[Any, ...]
    kernel: Kernel
    module: gpu.Module

    def __str__(self) -> str:
        return f"{self.rule}: {type(self.statement).__name__} at {self.statement.span or self.statement}"

    @property
    def at(self) -> int:
        """The number of the statement among those beside it."""
        return next(n for n, s in enumerate(self.beside) if s is self.statement)

    @property
    def codes(self) -> set[str]:
        """What the checker says of it without looking at results."""
        found = next(filter(None, ([*check(self.module)] for check in CHECKS)), [])
        return {d.code for d in found}


def _dropped(*kinds: type, where: Callable[[Any, Kernel], bool] = lambda s, kernel: True) -> Rule:
    def rule(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
        if isinstance(s, kinds) and where(s, kernel):
            yield ()

    return rule


def _changed(kind: type, **fields: Callable[[Any], Any]) -> Rule:
    def rule(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
        if isinstance(s, kind):
            changed = replace(s, **{word: change(s) for word, change in fields.items()})
            if changed != s:
                yield (changed,)

    return rule


def _asks(kernel: Kernel, name: str) -> bool:
    """Whether something asks for a field of a cursor."""
    cursor, _, field = name.partition(".")
    every = list(statements(kernel.body))
    drained = field == "phase" and any(isinstance(s, nodes.Drain) and s.cursor == cursor for s in every)
    return drained or any(name in e.names() for s in every for e in exprs_in(s))


def _phase_turned(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
    if isinstance(s, nodes.Cursor) and _asks(kernel, f"{s.name}.phase"):
        yield (replace(s, phase=1 - s.phase),)


def _released_each_turn(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
    if isinstance(s, nodes.If) and any(isinstance(inner, nodes.Arrive) and not inner.expect for inner in s.body):
        yield s.body


def _zero(zero: Any) -> Rule:
    def rule(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
        if isinstance(s, nodes.Wgmma) and s.zero != zero:
            yield (replace(s, zero=zero),)

    return rule


def _shared(kernel: Kernel) -> set[str]:
    return {s.name for s in statements(kernel.body) if isinstance(s, nodes.Shared)}


def _fills_shared(s: Any, kernel: Kernel) -> bool:
    return s.to.name in _shared(kernel)


def _is_for_one(s: Any) -> bool:
    return isinstance(s, (nodes.TmaLoad, nodes.TmaStore)) or isinstance(s, nodes.Arrive) and s.expect > 0


def _started_by(*guard: Bound) -> Rule:
    """What one thread starts under another guard, or under none."""

    def rule(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
        if isinstance(s, nodes.If) and any(map(_is_for_one, statements(s.body))):
            if any(b.equals is not None and "thread" in b.expr.name for b in s.guard):
                yield (replace(s, guard=guard),) if guard else s.body

    return rule


def _stored_without_guard(s: Any, kernel: Kernel) -> Iterator[tuple[Any, ...]]:
    if isinstance(s, nodes.If) and not s.otherwise:
        if any(isinstance(inner, nodes.Store) and not _fills_shared(inner, kernel) for inner in s.body):
            yield s.body


FILLS = (nodes.Copy, nodes.CpAsync, nodes.Store)
RULES: dict[str, Rule] = {
    "advance dropped": _dropped(nodes.Advance),
    "one step instead of several": _changed(nodes.Advance, by=lambda s: nodes.Advance(s.cursor).by),
    "begins a slot later": _changed(nodes.Cursor, at=lambda s: (s.at + 1) % s.ring),
    "phase begins turned": _phase_turned,
    "wait dropped": _dropped(nodes.Wait),
    "waits for the other phase": _changed(nodes.Wait, phase=lambda s: 1 - s.phase),
    "arrival dropped": _dropped(nodes.Arrive),
    "arrival in this CTA alone": _changed(nodes.Arrive, cluster=lambda s: ()),
    "arrival in each turn": _released_each_turn,
    "one arrival more": _changed(nodes.Mbarrier, count=lambda s: s.count + 1),
    "drain dropped": _dropped(nodes.Drain),
    "barrier dropped": _dropped(nodes.Barrier),
    "commit dropped": _dropped(nodes.Commit),
    "wait for a group dropped": _dropped(nodes.WaitGroup),
    "waits for a group less": _changed(nodes.WaitGroup, pending=lambda s: s.pending + 1),
    "copy dropped": _dropped(nodes.TmaLoad, nodes.Send, nodes.Split),
    "fence of registers dropped": _dropped(nodes.Fence, where=lambda s, kernel: s.what == "wgmma"),
    "fence of shared memory dropped": _dropped(nodes.Fence, where=lambda s, kernel: s.what == "async_proxy"),
    "sum begun nowhere": _zero(None),
    "sum begun in each step": _zero(()),
    "operand not loaded": _dropped(nodes.Ldmatrix),
    "fill dropped": _dropped(*FILLS, where=_fills_shared),
    "guard of a store dropped": _stored_without_guard,
    "started by all threads": _started_by(),
    "started by a warp": _started_by(Bound(Expr.of("warp.index"), equals=ZERO)),
}


def every_mutant(module: gpu.Module, rules: dict[str, Rule] = RULES) -> Iterator[Mutant]:
    """All mutants of a module that a rule makes, kernel by kernel."""
    for n, kernel in enumerate(module.kernels):
        for rule, s, path, beside, body in _of_block(kernel.body, (), kernel, rules):
            changed = (*module.kernels[:n], replace(kernel, body=body), *module.kernels[n + 1 :])
            yield Mutant(rule, s, path, beside, kernel, with_kernels(module, changed))


def with_kernels(module: gpu.Module, kernels: Iterable[gpu.Kernel]) -> gpu.Module:
    """The module with other kernels in the places of those of their names."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return replace(module, launches=tuple(by_name.get(launch.name, launch) for launch in module.launches))


def _of_block(
    body: tuple[Any, ...], path: tuple[Any, ...], kernel: Kernel, rules: dict[str, Rule]
) -> Iterator[tuple[str, Any, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    for n, s in enumerate(body):
        for name, rule in rules.items():
            for new in rule(s, kernel):
                yield name, s, path, body, (*body[:n], *new, *body[n + 1 :])
        for part in ("body", "otherwise"):
            if inner := getattr(s, part, ()):
                for name, found, inside, beside, changed in _of_block(inner, (*path, s), kernel, rules):
                    yield name, found, inside, beside, (*body[:n], replace(s, **{part: changed}), *body[n + 1 :])


# --- what changes nothing


def _is_slot_of_its_own_ring(m: Mutant) -> bool:
    """A ring that one block fills and empties in each turn may begin at any slot."""
    if m.rule != "begins a slot later":
        return False
    slot = f"{m.statement.name}.slot"
    users = [s for s in statements(m.kernel.body) if any(slot in e.names() for e in exprs_in(s))]
    return all(isinstance(s, (nodes.Store, nodes.TmaStore)) for s in users)


def _is_never_filled_again(m: Mutant) -> bool:
    """What is given back behind all loops nobody waits for, unless a drain does."""
    return (
        m.rule == "arrival dropped"
        and not m.statement.expect
        and not any(isinstance(s, nodes.For) for s in m.path)
        and not any(isinstance(s, nodes.Drain) for s in statements(m.kernel.body))
    )


def _is_filled_too_seldom(m: Mutant) -> bool:
    """Causal attention of sizes that are numbers: of a CTA's tiles only the last two have a masked block that is not
    their first, and the rings do not come round again."""
    loop = next((s for s in reversed(m.path) if isinstance(s, nodes.For)), None)
    symbols = m.module.plans.program.model.symbols()
    return m.rule == "arrival dropped" and not symbols and loop is not None and str(loop.high) == "cut"


def _is_told_by_another(m: Mutant) -> bool:
    """A wait that passes at once, where the wait behind it is for a role that has waited for the same."""
    if m.rule != "waits for the other phase":
        return False
    following = m.beside[m.at + 1 :][:1]
    return all(isinstance(s, nodes.Wait) and not s.tokens for s in following) and bool(following and m.statement.tokens)


def _is_last_group(m: Mutant) -> bool:
    """The last steps of the loop copy nothing, and it has waited for all that was copied."""
    s = m.statement
    return isinstance(s, nodes.WaitGroup) and s.engine == "cp_async" and not s.pending and not m.path


def _is_met_twice(m: Mutant) -> bool:
    """Between this barrier and the one before nothing is read or written that threads share."""
    if m.rule != "barrier dropped":
        return False
    at = m.at
    while at and isinstance(m.beside[at - 1], (nodes.Arrive, nodes.Let)):
        at -= 1
    return at > 0 and m.beside[at - 1] == m.statement


def _is_before_the_first_use(m: Mutant) -> bool:
    """Of a warp's barrier, between the one before, or the kernel's begin, and the one after it: what shared memory is
    touched before it is not touched after it."""
    if m.rule != "barrier dropped" or m.statement.scope != "warp":
        return False
    before, after = m.beside[: m.at], m.beside[m.at + 1 :]
    is_in_turns = any(isinstance(s, nodes.For) for s in m.path)
    if not all(any(isinstance(s, nodes.Barrier) for s in part) for part in (before if is_in_turns else after, after)):
        return False
    shared = {s.name for s in statements(m.kernel.body) if isinstance(s, nodes.Shared)}

    def touched(some: Iterable[Any]) -> set[str]:
        near = itertools.takewhile(lambda s: not isinstance(s, nodes.Barrier), some)
        return {n for s in statements(near) if not isinstance(s, nodes.Shared) for n in names_in(s)} & shared

    return not touched(reversed(before)) & touched(after)


def _is_fenced_already(m: Mutant) -> bool:
    """Since the fence before this one threads have touched no register that a product works on."""
    between = list(itertools.takewhile(lambda s: s != m.statement, reversed(m.beside[: m.at])))
    told = (nodes.Wgmma, nodes.Wait, nodes.Advance)
    return m.rule == "fence of registers dropped" and len(between) < m.at and all(isinstance(s, told) for s in between)


def _is_never_reached(m: Mutant) -> bool:
    """Of a chunk of columns no block but the first is cut."""
    loop = next((s for s in reversed(m.path) if isinstance(s, nodes.For)), None)
    plan = next(p for p in m.module.plans.plans if p.regions == m.kernel.regions)
    is_chunk = any(axis.startswith("c0") for bind in plan.bind for axis in bind.axes)
    return is_chunk and loop is not None and str(loop.high) == "cut"


def _is_order_alone(m: Mutant) -> bool:
    """Whose turn it is at the tensor cores: two groups whose products are beside each other give what they give."""
    if m.rule == "waits for the other phase":
        return m.statement.barrier.name == "turn"
    if m.rule != "phase begins turned":
        return False
    phase = f"{m.statement.name}.phase"
    users = [s for s in statements(m.kernel.body) if any(phase in e.names() for e in exprs_in(s))]
    return all(isinstance(s, nodes.Wait) and s.barrier.name == "turn" for s in users)


HARMLESS = (
    _is_never_reached,
    _is_order_alone,
    _is_fenced_already,
    _is_slot_of_its_own_ring,
    _is_never_filled_again,
    _is_filled_too_seldom,
    _is_told_by_another,
    _is_last_group,
    _is_met_twice,
    _is_before_the_first_use,
)


def is_for_values(m: Mutant) -> bool:
    """Whether a fault leaves other numbers, and everything in its order: what a statement does not fill another has
    filled before; of a sum that threads scale between products the checker cannot tell where it begins; and of a ring
    that threads copy to, which slot is whose."""
    s, every = m.statement, list(statements(m.kernel.body))
    if m.rule in ("fill dropped", "operand not loaded"):
        kinds = FILLS if m.rule == "fill dropped" else (nodes.Ldmatrix,)
        return any(isinstance(o, kinds) and o.to.name == s.to.name and o is not s for o in every)
    if m.rule == "begins a slot later":
        read = {o.source.name for o in every if isinstance(o, nodes.Ldmatrix) and f"{s.name}.slot" in str(o)}
        return any(isinstance(o, nodes.Copy) and o.to.name in read for o in every)
    if m.rule in ("sum begun nowhere", "sum begun in each step"):
        return any(isinstance(o, nodes.Assign) and s.acc == o.to.name for o in every)
    return False


def is_harmless(m: Mutant) -> bool:
    """Whether a fault changes nothing that a result could show."""
    return any(is_it(m) for is_it in HARMLESS)
