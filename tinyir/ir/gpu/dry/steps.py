"""What a dry run does of a kernel: the statements that order something, those that touch shared memory or a matrix in
registers, and the integers that decide which of them run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....kit.records import dataclass
from ...body import Read
from ...expr import Expr
from .. import nodes
from ..across import LookBack, Ticket
from ..extremes import EXTREMES
from ..nodes import Kernel, Place, Statement
from ..walk import places_in, reads_in, statements

ENGINES = (nodes.TmaLoad, nodes.TmaStore, nodes.Send, nodes.Wgmma)  # what runs beside the threads
ORDERING = (
    nodes.Cursor,
    nodes.Advance,
    nodes.Wait,
    nodes.Arrive,
    nodes.Drain,
    nodes.WaitGroup,
    nodes.Barrier,
    nodes.Fence,
    nodes.BlockReduce,
    nodes.BlockScan,
    Ticket,
    LookBack,
    *ENGINES,
)
INTEGERS = (nodes.Let, *EXTREMES, nodes.Choose, nodes.Order)
ONE_THREAD = ("thread.index", "warpgroup.thread")  # which number one thread of a party has alone
BLOCKS = (nodes.For, nodes.If, nodes.Each, nodes.Role)


@dataclass(frozen=True, slots=True)
class Apart:
    """The statement of a step whose steps each have one thread, with waits of its own: any goes on while another
    waits."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement and what it holds; the shared memory and the matrices in registers that its threads read and write.
    What an engine reads and writes is not among these. `is_alike`: each turn of this loop does what its first does."""

    statement: Statement
    body: tuple[Step, ...] = ()
    otherwise: tuple[Step, ...] = ()
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    is_alike: bool = False


def steps_of(kernel: Kernel) -> tuple[Step, ...]:
    """The steps of a kernel, in order."""
    arrays = {
        s.name: s for s in statements(kernel.body) if isinstance(s, nodes.Shared) or isinstance(s, nodes.Reg) and s.kind
    }
    needed = {n for e in _asked_in(_kept(kernel.body, arrays, frozenset())) for n in e.names()}
    made = {name: exprs for s in statements(kernel.body) for name, exprs in _defined_by(s)}
    new = set(needed)
    while new:
        new = {n for name in new for e in made.get(name, ()) for n in e.names()} - needed
        needed |= new
    return _apart(_kept(kernel.body, arrays, frozenset(needed)))


def every_step(body: Iterable[Statement]) -> tuple[Step, ...]:
    """A step for each statement, for a run that computes. Nothing is said of what they read and write."""
    return _apart(Step(s, every_step(getattr(s, "body", ())), every_step(getattr(s, "otherwise", ()))) for s in body)


def inside(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, blocks before what they hold."""
    for step in steps:
        yield step
        yield from inside(step.body)
        yield from inside(step.otherwise)


def _apart(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, those as one that come one after another and of which each is for a thread of its own."""
    found: list[Step] = []
    several: list[Step] = []
    for step in (*steps, None):
        thread = step and _thread_of(step)
        if several and (not thread or any(thread == _thread_of(other) for other in several)):
            found.append(Step(Apart(), tuple(several)) if len(several) > 1 else several[0])
            several = []
        if thread:
            several.append(step)
        elif step:
            found.append(step)
    return tuple(found)


def _thread_of(step: Step) -> tuple[Expr, Expr] | None:
    """Which thread alone a step is for that waits; None for any other."""
    s = step.statement
    if not isinstance(s, nodes.If) or step.otherwise or len(s.guard) != 1 or s.guard[0].equals is None:
        return None
    is_one = s.guard[0].expr.name in ONE_THREAD and s.guard[0].equals.constant is not None
    waits = any(isinstance(inner.statement, (nodes.Wait, nodes.Drain)) for inner in inside(step.body))
    return (s.guard[0].expr, s.guard[0].equals) if is_one and waits else None


def _kept(body: Iterable[Statement], arrays: Mapping[str, Any], needed: frozenset[str]) -> Iterator[Step]:
    for s in body:
        if isinstance(s, BLOCKS):
            inner, otherwise = (_apart(_kept(part, arrays, needed)) for part in (s.body, getattr(s, "otherwise", ())))
            if inner or otherwise:
                yield from _block(s, inner, otherwise)
            continue
        step = Step(s, reads=_named(_read_by(s), arrays), writes=_named(_written_by(s), arrays))
        if step.reads or step.writes or isinstance(s, ORDERING) or needed & {name for name, _ in _defined_by(s)}:
            yield step


def _block(s: Any, body: tuple[Step, ...], otherwise: tuple[Step, ...]) -> Iterator[Step]:
    """A block; `each` goes, where all that it holds is the same for each element."""
    if not isinstance(s, nodes.Each):
        yield Step(s, body, otherwise, is_alike=isinstance(s, nodes.For) and _is_alike(s, body))
    elif any(isinstance(step.statement, (*ORDERING, *BLOCKS, *INTEGERS)) for step in body):
        yield Step(s, body)
    else:
        yield from body


def _named(places: Iterable[Place], arrays: Mapping[str, Any]) -> tuple[Place, ...]:
    return tuple(p for p in dict.fromkeys(places) if p.name in arrays)


def _read_by(s: Statement) -> Iterator[Place]:
    """The places that the threads of a statement read."""
    for node in reads_in(s):
        if isinstance(node, Read):
            yield Place(node.tensor, node.index, node.slot)
    if isinstance(s, nodes.Mma):
        yield from (s.a, s.b, Place(s.acc))
    elif isinstance(s, nodes.Resum):
        yield s.to
    elif isinstance(s, nodes.RowReduce):
        yield from (Place(s.source), Place(s.to))
    elif not isinstance(s, ENGINES):
        source = getattr(s, "source", None)
        if source is not None:
            yield Place(source) if isinstance(source, str) else source


def _written_by(s: Statement) -> Iterator[Place]:
    """The places that the threads of a statement write."""
    if isinstance(s, nodes.Reg):
        if s.init is not None:
            yield from (Place(s.name, (), Expr.of(n) if s.ring > 1 else None) for n in range(s.ring))
    elif isinstance(s, nodes.Mma):
        yield Place(s.acc)
    elif isinstance(s, nodes.RowReduce):
        yield Place(s.to)
    elif not isinstance(s, ENGINES):
        yield from (place for word, place in places_in(s) if word in ("to", "low"))


def _defined_by(s: Statement) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """The integers that a statement defines, each with what it is made of."""
    kind = type(s)
    if kind is nodes.Let:
        yield s.name, (s.value,)
    elif kind in EXTREMES:
        yield s.name, s.of
    elif kind is nodes.For:
        yield s.name, (s.low, s.high, s.step)
    elif kind is nodes.Order:
        yield from ((name, (s.tile, *s.extents)) for name in s.names)
    elif kind is nodes.Choose or kind is Ticket:
        yield s.name, ()


def _asked_in(steps: Iterable[Step]) -> Iterator[Expr]:
    """The integers that decide which of the steps run, and where."""
    for step in inside(steps):
        s = step.statement
        if isinstance(s, nodes.For):
            yield from (s.low, s.high, s.step)
        for bound in (*(getattr(s, "guard", None) or ()), *(getattr(s, "zero", None) or ())):
            yield from bound.exprs
        places = [*step.reads, *step.writes]
        if isinstance(s, ORDERING):
            places += [place for _, place in places_in(s)]
            yield from (e for word in ("phase", "by", "cta") if isinstance(e := getattr(s, word, None), Expr))
        if isinstance(s, nodes.Send):
            yield from s.to.index
        yield from (place.slot for place in places if place.slot is not None)


def is_uneven(steps: Iterable[Step]) -> bool:
    """Whether a loop's turns depend on which tile it is for."""
    of_tile: set[str] = set()
    for step in inside(steps):
        for name, of in _defined_by(step.statement):
            if isinstance(step.statement, nodes.Order) or any(of_tile & set(e.names()) for e in of):
                of_tile.add(name)
    return any(of_tile & {step.statement.name} for step in inside(steps) if isinstance(step.statement, nodes.For))


def _is_alike(loop: nodes.For, body: tuple[Step, ...]) -> bool:
    """Whether nothing in a loop orders anything, and no guard or slot in it depends on the turn."""
    if any(isinstance(step.statement, ORDERING) for step in inside(body)):
        return False
    changing = {loop.name}
    for step in inside(body):
        changing |= {name for name, of in _defined_by(step.statement) if any(changing & set(e.names()) for e in of)}
    return not any(changing & set(e.names()) for e in _asked_in(body))
