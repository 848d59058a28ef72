"""Neighbours of a run that move together: their loads before a loop over them, and their stores behind it.

    X.v[v] over v: 8 = X[i0, i1 + v] vector 8         i1 names the first of them
    for v in 0..8 unroll
      the values at i1 + v, from X.v[v]; Y.v[v] = ...
    store Y[i0, i1 + v] over v: 8 = cast(Y.v[v]) : fp16 vector 8

What is read under a guard moves at once where that holds for all of them; else they are taken one by one, as where not
all are within the run:

    if 0 <= i1 < C - 7
      loads, the loop, stores
    else
      for v in 0..8
        if 0 <= i1 + v < C
          the values at i1 + v, and the stores
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...ir.accumulate import neutral_of, wide
from ...ir.body import Axis, Body, Index, Literal, Random, Read, Select, Unary, rebuild, substitute, walk
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.present import guard_names
from ...ir.region import Region, Yield
from ...ir.runs import Run, offset_of
from ...ir.scope import has_floor
from ...ir.traits import axes_of
from ...kit.records import dataclass, field, replace
from .fold import type_of
from .point import Fresh, Point, element_store, split

BYTES = ("i8", "u8")  # to which neighbours are rounded four at a time


@dataclass
class SideBySide:
    """Neighbours along a run, of which `first` names the first one's number in the run; `lets` write out that name, and
    those that it is made of. `loads` are the reads that move at once, and random numbers that are made so, with the
    registers that hold them; `shared` says how many neighbours share each of its elements; `held` puts into registers
    what is stored at once. What a guard says of all neighbours alike is asked around the whole, or where it
    `keeps_guards` at each load (`guards`; `around` are those around what is looked at) and of each value: a condition
    around the whole holds back the loads of what follows."""

    region: Region
    fresh: Fresh
    run: Run
    first: Expr
    lets: Mapping[str, Expr] = field(default_factory=dict)
    loads: dict[Read | Random, str] = field(default_factory=dict)
    registers: list[Statement] = field(default_factory=list)
    held: list[Statement] = field(default_factory=list)
    stores: list[Statement] = field(default_factory=list)
    singles: list[Statement] = field(default_factory=list)
    inside: dict[Bound, None] = field(default_factory=dict)
    shared: dict[Read, int] = field(default_factory=dict)
    keeps_guards: bool = False
    guards: dict[Read | Random, tuple[Bound, ...]] = field(default_factory=dict)
    around: tuple[Bound, ...] = ()

    def __post_init__(self) -> None:
        self.turn = self.fresh.of("v")
        self.over = ((self.turn, Expr.of(self.run.width)),)

    @property
    def place(self) -> Expr:
        """The number of the current neighbour."""
        return self.first + self.turn

    def point(self, axes: tuple[Axis, ...]) -> dict[str, Expr]:
        """The current neighbour by the run's axes, under the names that these give them."""
        return split(self.place, axes)

    def store(self, item: Yield, body: Body, point: Point, axes: Iterable[Axis], lines: Iterable[Statement]) -> None:
        """An output that varies along the run: registers for what is stored at once, behind the loop; a store each for
        what is not, and in the loop of what does not vary. The loop is around these `lines`: places that data choose
        there are not known behind it."""
        axes = tuple(axes)
        self.singles.append(element_store(item, body, point, axes))
        if not any(self.turn in e.substitute(point).names() for e in item.index):
            self.held.append(self.singles[-1])
            return
        kept = []
        for bound in item.guard:
            ends = self._ends(bound.substitute(point))
            self.inside |= dict.fromkeys(ends or ())
            kept += [] if ends else [bound]
        if not self.moves_whole(body) or axes_of(body) & {s.name for s in lines if isinstance(s, nodes.Choose)}:
            body = self._held(item, body)
        self.stores.append(
            element_store(replace(item, guard=tuple(kept)), body, point, axes, over=self.over, vector=self.run.width)
        )

    def loop(
        self, lines: Iterable[Statement], limits: tuple[Bound, ...] = (), one: Iterable[Statement] = ()
    ) -> list[Statement]:
        """Loads, the loop over the neighbours around the lines, stores. Where some may be outside `limits` of `first`,
        or of what guards their reads, the lines and stores at each that is inside, or what is in `one` for them."""
        lines = tuple(lines)
        made = frozenset(_names(lines))
        within = tuple(self._with_registers(s, made) for s in (*lines, *self.held))
        loads: list[Statement] = []
        for read, name in self.loads.items():
            shared = self.shared.get(read, 1)
            count, turn = self.run.width // shared, Expr.of(self.turn)
            guarded = self.guards.get(read, ())
            nothing = neutral_of("sum", read.dtype) if guarded else None
            loads.append(nodes.Reg(name, type_of(read.dtype, count), init=nothing))
            if count == 1:
                loads.append(nodes.Assign(Place(name, (ZERO,)), substitute(read, {self.turn: ZERO})))
                continue
            moved = substitute(read, {self.turn: shared * turn}) if shared > 1 else read
            load = nodes.Assign(Place(name, (turn,)), moved, ((self.turn, Expr.of(count)),), count)
            loads.append(nodes.If(guarded, (load,)) if guarded else load)
        whole = (*loads, *self.registers, *([self._for(within, 0)] if within else []), *self.stores)
        guard = (*(replace(b, upper=b.upper and b.upper - (self.run.width - 1)) for b in limits), *self.inside)
        if not guard:
            return list(whole)
        single = tuple(one) or (*lines, *self.singles)
        inside = tuple(b.substitute({str(self.first): self.place}) for b in limits)
        return [
            nodes.If(guard, whole, (self._for((nodes.If(inside, single),) if inside else single, 1 if one else 0),))
        ]

    def _for(self, lines: tuple[Statement, ...], unroll: int) -> Statement:
        return nodes.For(self.turn, ZERO, Expr.of(self.run.width), lines, unroll=unroll)

    # --- what moves at once

    def moves_whole(self, body: Body) -> bool:
        """Whether an output's neighbours are those of another tensor."""
        if isinstance(body, Select) and isinstance(body.other, Literal):
            return self.turn not in guard_names(body.guard) and self._is_whole(body.then)
        return self._is_whole(body)

    def _held(self, item: Yield, body: Body) -> Body:
        """Registers for the neighbours of an output, in the dtype of arithmetic; gives what is stored of each. What is
        rounded to a float of memory, or from one of arithmetic to a byte, is rounded as it is stored."""
        is_rounded = (
            isinstance(body, Unary)
            and body.op == "cast"
            and (body.x.dtype == wide(body.dtype) or body.x.dtype.name == "fp32" and body.dtype.name in BYTES)
        )
        value = body.x if is_rounded else body
        name, at = self.fresh.name(f"{item.output}.v"), (Expr.of(self.turn),)
        held: Body = Read(name, at, value.dtype)
        self.registers.append(nodes.Reg(name, type_of(value.dtype, self.run.width)))
        self.held.append(nodes.Assign(Place(name, at), value))
        return replace(body, x=held) if is_rounded else held

    def _is_whole(self, read: Body) -> bool:
        """Whether a read takes neighbours that begin on a whole access."""
        tensor = self.region.tensor(read.tensor) if isinstance(read, Read) else None
        if tensor is None or not read.index:
            return False
        first = offset_of(tensor.type.shape, read.index) - self.turn
        return self.turn not in first.names() and is_multiple(first.substitute(self.lets), self.run.width)

    def _is_block(self, body: Body) -> bool:
        """Whether random numbers are neighbours of a stream that begin a block of it, or half of one."""
        if not isinstance(body, Random):
            return False
        first = body.index - self.turn
        return self.turn not in first.names() and is_multiple(first.substitute(self.lets), self.run.width)

    def _with_registers(self, s: Statement, made: frozenset[str]) -> Statement:
        if isinstance(s, (nodes.Value, nodes.Assign, nodes.Store, nodes.Choose)):
            return replace(s, value=self._from_registers(s.value, made))
        if isinstance(s, (nodes.If, nodes.For)):
            return replace(s, body=tuple(self._with_registers(inner, made) for inner in s.body))
        return s

    def _from_registers(self, body: Body, made: frozenset[str]) -> Body:
        """The expression with the reads that move at once taken from registers. One under a guard is, where that holds
        at both ends of the neighbours."""
        if isinstance(body, Select):
            is_apart = made & guard_names(body.guard) or not any(map(self._is_whole, walk(body.then)))
            ends = None if is_apart else self._ends(*body.guard)
            if ends is None:
                return body
            if self.keeps_guards and self.turn not in guard_names(body.guard):
                return self._guarded(body, made)
            self.inside |= dict.fromkeys(ends)
            return self._from_registers(body.then, made)
        shared = self._sharing(body)
        if shared > 1 and not self.around:  # what is shared is loaded under no guard
            return self._from_shared(body, shared)
        if self._is_whole(body) or self._is_block(body):
            if self.guards.setdefault(body, self.around) != self.around:
                return body  # in a register under another guard
            name = self.loads.get(body) or self.fresh.name(
                "random.v" if isinstance(body, Random) else f"{body.tensor}.v"
            )
            self.loads[body] = name
            return Read(name, (Expr.of(self.turn),), body.dtype)
        if isinstance(body, Index) and has_floor(body.expr) and self.turn in body.expr.names():
            return replace(body, expr=self._simpler(body.expr))
        return rebuild(body, lambda inner: self._from_registers(inner, made))

    def _guarded(self, body: Select, made: frozenset[str]) -> Body:
        """What a guard that is the same for all neighbours chooses, with each load under it."""
        around, self.around = self.around, (*self.around, *body.guard)
        then = self._from_registers(body.then, made)
        self.around = around
        return replace(body, then=then)

    def _simpler(self, number: Expr) -> Expr:
        """An integer at a neighbour, by what is known of the first one: `(8*c + v) % 2` is `v % 2`."""
        found = number.substitute(self.lets)
        every = {found.substitute({self.turn: v}) for v in range(self.run.width)}
        return every.pop() if len(every) == 1 else found

    def _sharing(self, read: Body) -> int:
        """How many neighbours share an element of those that a read takes, which begin on a whole access; 1 where each
        has its own, or they are placed otherwise."""
        tensor = self.region.tensor(read.tensor) if isinstance(read, Read) else None
        if tensor is None or not any(has_floor(e) and self.turn in e.names() for e in read.index):
            return 1
        offset = offset_of(tensor.type.shape, read.index).substitute(self.lets)
        first, width = offset.substitute({self.turn: 0}), self.run.width
        apart = [(offset.substitute({self.turn: v}) - first).constant for v in range(width)]
        shared = next((v for v in range(1, width) if apart[v] != 0), width)
        is_even = width % shared == 0 and apart == [v // shared for v in range(width)]
        return shared if is_even and is_multiple(first, width // shared) else 1

    def _from_shared(self, read: Read, shared: int) -> Read:
        """A read of elements that `shared` neighbours share, each of which is loaded once."""
        name, count = self.loads.get(read) or self.fresh.name(f"{read.tensor}.v"), self.run.width // shared
        self.loads[read] = name
        self.shared[read] = shared
        return Read(name, (Expr.of(self.turn) // shared if count > 1 else ZERO,), read.dtype)

    def _ends(self, *guard: Bound) -> tuple[Bound, ...] | None:
        """A guard at the first and at the last neighbour, which holds at those between them then; None where it does
        not move evenly."""
        found = []
        for bound in guard:
            step = (bound.expr.substitute({self.turn: 1}) - bound.expr.substitute({self.turn: 0})).constant
            others = (bound.lower, bound.upper)
            if (
                bound.equals is not None
                or step is None
                or bound.expr != bound.expr.substitute({self.turn: 0}) + step * Expr.of(self.turn)
                or any(e is not None and self.turn in e.names() for e in others)
            ):
                return None
            least, most = sorted((0, self.run.width - 1), key=lambda v: v * step)
            low, high = (bound.expr.substitute({self.turn: v}) for v in (least, most))
            if low == high:
                found.append(bound)
            else:
                found += [Bound(low, lower=bound.lower)] if bound.lower is not None else []
                found += [Bound(high, upper=bound.upper)] if bound.upper is not None else []
        return tuple(found)


def _names(lines: Iterable[Statement]) -> Iterator[str]:
    """The integers that statements define."""
    for s in lines:
        if isinstance(s, (nodes.Let, nodes.Choose, nodes.For)):
            yield s.name
        yield from _names((*getattr(s, "body", ()), *getattr(s, "otherwise", ())))
