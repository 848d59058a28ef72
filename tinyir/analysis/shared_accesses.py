"""Which elements of shared memory the lanes of each warp touch at once, statement by statement, read off gpu text.

A kernel is walked once, with every integer of it as an array of [instructions, 32]: one row for each warp of two CTAs
(the first and the one in the middle) and, of a loop, for its first turns and its last. A guard takes lanes out. What
the data decide (a gathered place) is unknown, and so is an access whose index names it. The copy engine's own accesses
(TMA, sends) are whole lines and are left out.

What a statement moves with `vector` is one access of a lane, as it is in the CUDA; ldmatrix, stmatrix and wgmma take
rows of 16 bytes, where `target.ampere`, `target.tf32` and `target.hopper` have each lane's address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..ir.body import Body, Read, Select, operands_of
from ..ir.expr import ONE, ZERO, Bound, Expr
from ..ir.gpu import nodes
from ..ir.gpu.nodes import Kernel, Place, Shared, Statement
from .banks import ATOM, Order, Touch

LANES = 32
TURNS = 4  # of a loop at its beginning, and as many at its end
MOST_CASES = 2048  # instructions of one statement beyond which loops inside are walked once
WARP, GROUP = 32, 128  # threads of a warp, of a warpgroup

Numbers = Mapping[str, np.ndarray]


@dataclass(slots=True)
class Access:
    """One access of a statement to a shared array: `word` says how (read, store, copy, cp_async, ldmatrix, stmatrix,
    store_rows, wgmma), `place` where, as the text has it. `touches` are its instructions; none where no lane gets
    there. `is_known`: the index does not depend on the data."""

    word: str
    array: Shared
    place: str
    statement: Statement
    touches: tuple[Touch, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes at a point of the walk: the value of each name, and which of them are there. `corner` are the names of
    an `each` as the corner of the warp's 16 x 16 piece has them, where `is_first` is the piece's first element."""

    names: Numbers
    is_active: np.ndarray
    corner: Numbers = field(default_factory=dict)
    is_first: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Instructions."""
        return len(self.is_active)

    def at(self, e: Expr) -> np.ndarray:
        """The value of an expression. Raises KeyError where the data decide it."""
        with np.errstate(divide="ignore"):
            return np.broadcast_to(np.asarray(e.evaluate(self.names), np.int64), self.is_active.shape)

    def holds(self, guard: Iterable[Bound]) -> np.ndarray:
        """Where a guard holds; everywhere as far as the data decide it."""
        found = np.ones_like(self.is_active)
        for bound in guard:
            try:
                value = self.at(bound.expr)
                for limit, is_met in (
                    (bound.lower, np.greater_equal),
                    (bound.upper, np.less),
                    (bound.equals, np.equal),
                ):
                    if limit is not None:
                        found &= is_met(value, self.at(limit))
            except KeyError:
                continue
        return found

    def where(self, is_active: np.ndarray) -> Lanes:
        """Those of the lanes that are there too."""
        return replace(self, is_active=self.is_active & is_active)

    def given(self, **names: np.ndarray | int) -> Lanes:
        """Also these names."""
        return self.with_names(names)

    def with_names(self, names: Mapping[str, np.ndarray | int]) -> Lanes:
        """Also these names, each a number a lane or the same for all."""
        shape = self.is_active.shape
        return replace(
            self, names={**self.names, **{n: np.broadcast_to(np.asarray(v, np.int64), shape) for n, v in names.items()}}
        )

    def without(self, name: str) -> Lanes:
        """With a name that the data decide."""
        return replace(self, names={n: v for n, v in self.names.items() if n != name})

    def with_let(self, name: str, value: Expr) -> Lanes:
        """Also `let name = value`."""
        try:
            return self.with_names({name: self.at(value)})
        except KeyError:
            return self.without(name)

    def times(self, count: int) -> tuple[Lanes, np.ndarray]:
        """Every instruction `count` times, and which time it is."""

        def again(array: np.ndarray) -> np.ndarray:
            return np.repeat(array, count, axis=0)

        more = Lanes(
            {n: again(v) for n, v in self.names.items()},
            again(self.is_active),
            {n: again(v) for n, v in self.corner.items()},
            None if self.is_first is None else again(self.is_first),
        )
        return more, np.tile(np.arange(count), self.count)[:, None]

    def packed(self) -> Lanes:
        """Without the instructions in which no lane takes part."""
        kept = self.is_active.any(axis=1)
        if kept.all():
            return self
        return Lanes(
            {n: v[kept] for n, v in self.names.items()},
            self.is_active[kept],
            {n: v[kept] for n, v in self.corner.items()},
            None if self.is_first is None else self.is_first[kept],
        )


def accesses_of(kernel: Kernel, sizes: Mapping[str, int]) -> list[Access]:
    """Every access of a kernel to its shared arrays, in the order of the text, at these sizes of the symbols."""
    walk = _Walk(kernel)
    walk.block(kernel.body, start_of(kernel, sizes))
    return walk.found


def start_of(kernel: Kernel, sizes: Mapping[str, int]) -> Lanes:
    """All warps of the first CTA and of the one in the middle."""
    x, y, z = (*kernel.block, 1, 1)[:3]
    grid = [max(1, e.evaluate(sizes)) for e in (*kernel.grid, ONE, ONE)[:3]]
    warps = -(-kernel.threads // WARP)
    places = list(dict.fromkeys([(0, 0, 0), tuple(size // 2 for size in grid)]))
    thread = np.tile(np.arange(warps * WARP).reshape(warps, WARP), (len(places), 1))
    cta = np.repeat(np.array(places), warps, axis=0)
    lanes = Lanes({}, thread < kernel.threads).with_names(dict(sizes))
    named = {
        "thread.index": thread,
        "thread.x": thread % x,
        "thread.y": thread // x % y,
        "thread.z": thread // (x * y),
        "lane": thread % WARP,
        "warp.index": thread // WARP,
        "warpgroup.index": thread // GROUP,
        "warpgroup.thread": thread % GROUP,
        "cluster.rank": cta[:, :1] % math.prod(kernel.cluster or (1,)),
    }
    return lanes.with_names(named | {f"cta.{axis}": cta[:, n : n + 1] for n, axis in enumerate("xyz")})


class _Walk:
    """One kernel."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.arrays: dict[str, nodes.Shared | nodes.Reg] = {}
        self.found: list[Access] = []

    def block(self, body: Iterable[Statement], lanes: Lanes) -> None:
        """The statements in order, each seeing the names of those before it."""
        for s in body:
            if isinstance(s, (nodes.Shared, nodes.Reg)):
                self.arrays[s.name] = s
            elif isinstance(s, nodes.Let):
                lanes = lanes.with_let(s.name, s.value)
            elif isinstance(s, nodes.Choose):
                lanes = lanes.without(s.name)
            elif isinstance(s, nodes.Ticket):
                lanes = lanes.with_names({s.name: 0})
            elif isinstance(s, nodes.Order):
                lanes = lanes.with_names(dict.fromkeys(s.names, 0))  # a place of a whole tile
            elif isinstance(s, nodes.Cursor):
                ring = {"slot": s.at, "phase": s.phase, "previous": (s.at - 1) % s.ring}
                lanes = lanes.with_names({f"{s.name}.{word}": value for word, value in ring.items()})
            elif isinstance(s, nodes.For):
                self.block(s.body, self._turns(s, lanes))
            elif isinstance(s, nodes.If):
                holds = lanes.holds(s.guard)
                self.block(s.body, lanes.where(holds).packed())
                self.block(s.otherwise, lanes.where(~holds).packed())
            elif isinstance(s, nodes.Role):
                self.block(s.body, self._of_role(s, lanes))
            elif isinstance(s, nodes.Each):
                self._each(s, lanes)
            else:
                self._one(s, lanes)

    # --- blocks

    def _turns(self, s: nodes.For, lanes: Lanes) -> Lanes:
        """A loop's first turns and its last."""
        try:
            low, high, step = (lanes.at(e) for e in (s.low, s.high, s.step))
        except KeyError:
            return lanes.without(s.name)
        turns = np.maximum(0, -(-(high - low) // np.maximum(step, 1)))
        most = int(turns[lanes.is_active].max(initial=0))
        end = TURNS if lanes.count * 2 * TURNS <= MOST_CASES else 1
        which = np.array(list(dict.fromkeys([*range(min(end, most)), *range(max(0, most - end), most)])), np.int64)
        more, number = lanes.times(len(which))
        turn = which[number] if len(which) else number
        value = more.at(s.low) + turn * more.at(s.step)
        return more.with_names({s.name: value}).where(value < more.at(s.high)).packed()

    def _of_role(self, s: nodes.Role, lanes: Lanes) -> Lanes:
        size = GROUP if s.unit == "warpgroups" else WARP
        unit = lanes.names["thread.index"] // size
        inside = lanes.where((s.first <= unit) & (unit < s.last))
        first = s.first * size // GROUP
        return inside.with_names({"warpgroup.index": lanes.names["thread.index"] // GROUP - first}).packed()

    def _each(self, s: nodes.Each, lanes: Lanes) -> None:
        """The elements of a matrix in registers that each lane holds."""
        array = self.arrays.get(s.of)
        rows, columns = s.size or tuple(e.evaluate({}) for e in array.type.shape)[-2:] if array else (0, 0)
        if array is None or len(s.names) != 2 or getattr(array, "kind", "") not in ("wgmma", "mma"):
            for name in s.names:
                lanes = lanes.without(name)
            self.block(s.body, lanes)
            return
        is_wide = array.kind == "wgmma" and columns % 16 == 0
        width = 16 if is_wide else 8
        pieces = min(columns // width, TURNS)
        more, number = lanes.times(pieces * width // 2)
        piece, e = number // (width // 2), number % (width // 2)
        lane = more.names["lane"]
        warp = 16 * (more.names["warpgroup.thread"] // WARP) if array.kind == "wgmma" else 0 * lane
        row = warp + lane // 4 + 8 * (e // 2 % 2)
        column = width * piece + 8 * (e // 4) + 2 * (lane % 4) + e % 2
        shape = more.is_active.shape
        corner = {s.names[0]: np.broadcast_to(warp, shape), s.names[1]: np.broadcast_to(width * piece, shape)}
        inside = replace(more.with_names(dict(zip(s.names, (row, column)))), corner=corner, is_first=e == 0)
        self.block(s.body, inside)

    # --- statements

    def _one(self, s: Statement, lanes: Lanes) -> None:
        if isinstance(s, (nodes.Copy, nodes.CpAsync)):
            vector = s.vector
            inside = self._in_turn(s, lanes)
            for read, guard in _reads(s.value):
                self._read(s, read, inside, guard, 1)
            self._element("cp_async" if isinstance(s, nodes.CpAsync) else "copy", s, s.to, inside, vector)
        elif isinstance(s, (nodes.Store, nodes.Assign, nodes.Value, nodes.Atomic)):
            self._moved(s, lanes)
        elif isinstance(s, nodes.Ldmatrix):
            self._ldmatrix(s, lanes)
        elif isinstance(s, nodes.StoreRows):
            self._store_rows(s, lanes)
        elif isinstance(s, nodes.Split):
            for word, place in (("read", s.source), ("store", s.to)):
                self._note(word, s, place, lambda _, tile: self._in_line(tile, lanes, ATOM))
        elif isinstance(s, nodes.Wgmma):
            for place in (s.a, s.b):
                if isinstance(self.arrays.get(place.name), Shared) and self.arrays[place.name].swizzle:
                    self._note("wgmma", s, place, lambda p, tile: self._matrix_rows(p, tile, lanes))
        elif isinstance(s, (nodes.BlockReduce, nodes.BlockScan)) and s.via:
            # One lane a warp writes its own element, and all read the same ones in turn.
            self._note("fold", s, Place(s.via), lambda _, tile: self._in_line(tile, lanes, tile.size, is_one=True))

    def _moved(self, s: nodes.Store | nodes.Assign | nodes.Value | nodes.Atomic, lanes: Lanes) -> None:
        """An element, or several: in one access where the statement says `vector`, else one after the other."""
        over, vector = getattr(s, "over", ()), getattr(s, "vector", 1)
        inside = lanes
        if over:
            sizes = [size.evaluate({}) for _, size in over]
            counts = [*sizes[:-1], sizes[-1] // vector]
            inside, number = lanes.times(min(math.prod(counts), 2 * TURNS))
            for (name, _), count, step in reversed(list(zip(over, counts, [1] * len(sizes[:-1]) + [vector]))):
                inside = inside.with_names({name: number % count * step})
                number = number // count
        for read, guard in _reads(s.value):
            self._read(s, read, inside, guard, vector)
        if isinstance(s, nodes.Value):
            return
        if getattr(s, "by", "") == "stmatrix":
            self._note("stmatrix", s, s.to, lambda place, tile: self._piece(s, place, inside))
        else:
            self._element("atomic" if isinstance(s, nodes.Atomic) else "store", s, s.to, inside, vector)

    def _read(self, s: Statement, read: Read, lanes: Lanes, guard: tuple[Bound, ...], vector: int) -> None:
        name = s.over[-1][0] if vector > 1 else ""
        along = [n for n, e in enumerate(read.index) if name in e.names()]
        is_run = along == [len(read.index) - 1] and (1, (name,)) in read.index[-1].terms
        lanes = lanes.where(lanes.holds(guard))
        self._element("read", s, Place(read.tensor, read.index, read.slot), lanes, vector if is_run else 1)

    def _element(self, word: str, s: Statement, place: Place, lanes: Lanes, count: int) -> None:
        """`count` neighbours that a lane moves at once, from this one on; 16 bytes at a time."""

        def touches(place: Place, tile: Order) -> Iterator[Touch]:
            width = count * tile.size
            row, column = self._coordinates(place, lanes)
            for start in range(0, width, ATOM):
                yield Touch(row, column + start // tile.size, min(width, ATOM), lanes.is_active)

        self._note(word, s, place, touches)

    def _ldmatrix(self, s: nodes.Ldmatrix, lanes: Lanes) -> None:
        """A warp's rows of 16 bytes; of words across the sum, single words."""
        to, tile = self.arrays[s.to.name], self.arrays[s.source.name]
        lane = lanes.names["lane"]
        is_along = s.is_transposed if to.kind == "mma_b" else not s.is_transposed
        of_words, of_group = tile.type.dtype.bytes == 4, to.kind == "wgmma_a"
        down = 16 * (lanes.names["warpgroup.thread"] // WARP) if of_group else 0
        if is_along:
            row, column = lane % 16 + down, lane // 16 * (ATOM // tile.type.dtype.bytes)
        elif not of_words:
            row, column = lane % 8 + lane // 16 * 8, lane // 8 % 2 * 8 + down
        else:
            half = lane % 2 * 4 if of_group else 0  # odd lanes take the halves along the sum in turn
            row, column = lane % 4 + half, lane // 4 + down

        def touches(place: Place, order: Order) -> Iterator[Touch]:
            at, beside = self._coordinates(place, lanes)
            width = order.size if of_words and not is_along else ATOM
            yield Touch(at + row, beside + column, width, lanes.is_active)

        self._note("ldmatrix", s, s.source, touches)

    def _piece(self, s: nodes.Store, place: Place, lanes: Lanes) -> Iterator[Touch]:
        """A warp's 16 x 16 piece by stmatrix: each lane has a row of 16 bytes."""
        at = lanes.with_names(lanes.corner)
        row, column = self._coordinates(place, at)
        lane = at.names["lane"]
        is_turned = bool(set(s.to.index[1].names()) & set(list(lanes.corner)[:1]))
        if is_turned:
            row, column = row + lane % 8 + 8 * (lane // 16), column + 8 * (lane // 8 % 2)
        else:
            row, column = row + lane % 16, column + 8 * (lane // 16)
        is_first = np.ones_like(at.is_active) if at.is_first is None else at.is_first
        yield Touch(row, column, ATOM, at.is_active & is_first)

    def _store_rows(self, s: nodes.StoreRows, lanes: Lanes) -> None:
        """Lanes along a row read 16 bytes each (`target.hopper`, store_rows)."""
        if not isinstance(self.arrays.get(s.source.name), Shared):
            return
        rows, columns = (s.box[n].evaluate({}) for n in s.sides)

        def touches(place: Place, tile: Order) -> Iterator[Touch]:
            each = ATOM // tile.size
            pieces = columns // each
            wide = next((n for n in (16, 8, 4, 2) if pieces > n), 1) * 2
            more, turn = lanes.times(min(TURNS, -(-rows // (GROUP // wide))))
            thread = more.names["warpgroup.thread"]
            row, column = GROUP // wide * turn + thread // wide, each * (thread % wide)
            is_inside = (row < rows) & (column < columns)
            yield Touch(row, np.broadcast_to(column, row.shape), ATOM, more.is_active & is_inside)

        self._note("store_rows", s, s.source, touches)

    def _matrix_rows(self, place: Place, tile: Order, lanes: Lanes) -> Iterator[Touch]:
        """What a matrix unit takes of an operand at once: eight rows of 16 bytes; here four such matrices."""
        lane = np.arange(LANES)[None, :]
        row, column = self._coordinates(Place(place.name, place.index or (ZERO, ZERO), place.slot), lanes)
        each = ATOM // tile.size
        beside = lane // 8 * each % max(each, tile.columns)
        yield Touch(row + lane % 8, column + beside, ATOM, lanes.is_active)

    @staticmethod
    def _in_line(tile: Order, lanes: Lanes, width: int, is_one: bool = False) -> Iterator[Touch]:
        """Threads side by side, from the first element on; `is_one`: one lane of each warp."""
        thread = lanes.names["warp.index"] if is_one else lanes.names["warpgroup.thread"] * (width // tile.size)
        is_active = lanes.is_active & (lanes.names["lane"] == 0) if is_one else lanes.is_active
        yield Touch(thread // tile.columns, thread % tile.columns, width, is_active)

    # --- places

    def _note(self, word: str, s: Statement, place: Place, touches: Callable[[Place, Order], Iterator[Touch]]) -> None:
        """Note an access where the place is one of a shared array."""
        array = self.arrays.get(place.name)
        if not isinstance(array, Shared):
            return
        access = Access(word, array, str(place), s)
        try:
            found = [t for t in touches(place, order_of(array)) if t.is_active.any()]
            access.touches = tuple(
                Touch(*(a[t.is_active.any(axis=1)] for a in np.broadcast_arrays(t.row, t.column)), t.width, _kept(t))
                for t in found
            )
        except KeyError:
            access.is_known = False
        self.found.append(access)

    def _coordinates(self, place: Place, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of an element: all indices but the last count the rows, those of slots before included."""
        array = self.arrays[place.name]
        shape = [e.evaluate({}) for e in array.type.shape]
        index = [lanes.at(e) for e in place.index] or [lanes.at(ZERO)] * len(shape)
        if array.kind == "wgmma":  # four neighbours of a thread, which are 16 bytes
            thread = lanes.names["warpgroup.thread"]
            piece = index[1] // 8 + index[0] // 64 * (shape[1] // 8)
            return piece * GROUP + thread, 0 * thread
        row = 0 * index[-1]
        if place.slot is not None and not array.swizzle and not array.cluster:
            row = row + lanes.at(place.slot)
        for size, e in zip(shape[:-1], index[:-1]):
            row = row * size + e
        return row, index[-1]

    def _in_turn(self, s: nodes.Copy | nodes.CpAsync, lanes: Lanes) -> Lanes:
        """The threads take the elements in turn, `vector` at a time, the last axis the fastest."""
        sizes = [size.evaluate({}) for _, size in s.over]
        sizes[-1] //= s.vector
        total, threads = math.prod(sizes), self.kernel.threads
        turns = -(-total // threads)
        which = np.array(list(dict.fromkeys([*range(min(TURNS, turns)), *range(max(0, turns - TURNS), turns)])))
        more, number = lanes.times(len(which))
        element = more.names["thread.index"] + threads * which[number]
        more = more.where(element < total)
        for n, ((name, _), size) in reversed(list(enumerate(zip(s.over, sizes)))):
            part = element % size if n else element
            more = more.with_names({name: part * (s.vector if n + 1 == len(sizes) else 1)})
            element = element // size
        for name, value in s.lets:
            more = more.with_let(name, value)
        return more.packed()


def order_of(array: Shared) -> Order:
    """The order of a shared array's elements; of a matrix kept as registers hold it, four to a row."""
    shape = [e.evaluate({}) for e in array.type.shape]
    if array.kind == "wgmma":
        return Order(math.prod(shape) // 4, 4, array.type.dtype.bytes)
    return Order(math.prod(shape[:-1]), shape[-1] if shape else 1, array.type.dtype.bytes, array.swizzle)


def _kept(t: Touch) -> np.ndarray:
    shape = np.broadcast_shapes(t.row.shape, t.column.shape, t.is_active.shape)
    return np.broadcast_to(t.is_active, shape)[t.is_active.any(axis=1)]


def _reads(body: Body, guard: tuple[Bound, ...] = ()) -> Iterator[tuple[Read, tuple[Bound, ...]]]:
    """Every read of an expression with the guards around it."""
    if isinstance(body, Read):
        yield body, guard
    if isinstance(body, Select):
        yield from _reads(body.then, (*guard, *body.guard))
        yield from _reads(body.other, guard)
        return
    for inner in operands_of(body):
        yield from _reads(inner, guard)


__all__ = ["Access", "accesses_of", "order_of", "start_of"]
