"""Which elements of shared memory the lanes of each warp touch at once, statement by statement, read off gpu text.

A kernel is walked once: all turns of a loop together, or of many the first and the last (`lanes`). A guard takes lanes
out. An access whose index the data decide (a gathered place) is not known. The copy engine's own accesses (TMA, sends)
are whole lines and are left out.

What a statement moves with `vector` is one access of a lane. Neighbours that a thread takes one after the other, in a
loop that is unrolled or in `each`, are an access each, and the compiler may join them: `joined` has them so. ldmatrix,
stmatrix and wgmma take rows of 16 bytes, where `target.ampere`, `target.tf32` and `target.hopper` have each lane's
address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..ir.body import Body, Read, Select, operands_of
from ..ir.expr import ONE, ZERO, Bound
from ..ir.gpu import nodes
from ..ir.gpu.nodes import Kernel, Place, Shared, Statement
from ..kit.records import dataclass, replace
from .banks import ATOM, Order, Touch
from .lanes import GROUP, WARP, Lanes, start_of

TURNS = 4  # of a loop of too many, at its beginning, and as many at its end
MOST_CASES = 2048  # instructions of one statement beyond which a loop is too long


@dataclass(slots=True)
class Access:
    """One access of a statement to a shared array: `word` says how (read, store, copy, cp_async, ldmatrix, stmatrix,
    store_rows, wgmma), `place` where, as the text has it. `touches` are its instructions; none where no lane gets
    there. `joined` are those of `run` neighbours at once, where the compiler may make one access of them. `is_known`:
    the index does not depend on the data."""

    word: str
    array: Shared
    place: str
    statement: Statement
    touches: tuple[Touch, ...] = ()
    run: int = 1
    joined: tuple[Touch, ...] = ()
    is_known: bool = True


def accesses_of(kernel: Kernel, sizes: Mapping[str, int]) -> list[Access]:
    """Every access of a kernel to its shared arrays, in the order of the text, at these sizes of the symbols."""
    walk = _Walk(kernel)
    walk.block(kernel.body, start_of(kernel, sizes))
    return walk.found


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
            elif type(s) in _BEHIND:
                lanes = _BEHIND[type(s)](s, lanes)
            else:
                touch = _TOUCHED.get(type(s))
                if touch is not None:  # else a statement that touches no shared array
                    touch(self, s, lanes)

    # --- blocks

    def _for(self, s: nodes.For, lanes: Lanes) -> None:
        self.block(s.body, self._turns(s, lanes))

    def _if(self, s: nodes.If, lanes: Lanes) -> None:
        holds = lanes.holds(s.guard)
        self.block(s.body, lanes.where(holds).packed())
        self.block(s.otherwise, lanes.where(~holds).packed())

    def _role(self, s: nodes.Role, lanes: Lanes) -> None:
        self.block(s.body, self._of_role(s, lanes))

    def _turns(self, s: nodes.For, lanes: Lanes) -> Lanes:
        """A loop's first turns and its last."""
        try:
            low, high, step = (lanes.at(e) for e in (s.low, s.high, s.step))
        except KeyError:
            return lanes.without(s.name)
        turns = np.maximum(0, -(-(high - low) // np.maximum(step, 1)))
        most = int(turns[lanes.is_active].max(initial=0))
        which = _turns_of(most, lanes.count)
        more, number = lanes.times(len(which))
        turn = which[number] if len(which) else number
        value = more.at(s.low) + turn * more.at(s.step)
        inside = more.with_names({s.name: value}).where(value < more.at(s.high)).packed()
        is_run = s.unroll == 0 and s.step == ONE and s.low == ZERO
        return replace(inside, runs={**inside.runs, s.name: s.high.constant or 1}) if is_run else inside

    def _of_role(self, s: nodes.Role, lanes: Lanes) -> Lanes:
        size = GROUP if s.unit == "warpgroups" else WARP
        unit = lanes.names["thread.index"] // size
        inside = lanes.where((s.first <= unit) & (unit < s.last))
        first = s.first * size // GROUP
        return inside.with_names({"warpgroup.index": lanes.names["thread.index"] // GROUP - first}).packed()

    def _each(self, s: nodes.Each, lanes: Lanes) -> None:
        """The elements of a matrix in registers that each lane holds."""
        array = self.arrays.get(s.of)
        if not isinstance(array, nodes.Reg) or len(s.names) != 2 or array.kind not in ("wgmma", "mma"):
            for name in s.names:
                lanes = lanes.without(name)
            self.block(s.body, lanes)
            return
        rows, columns = s.size or tuple(e.evaluate({}) for e in array.type.shape)
        is_wide = array.kind == "wgmma" and columns % 16 == 0
        width = 16 if is_wide else 8
        pieces = columns // width if lanes.count * columns // 2 <= MOST_CASES else 1
        blocks = rows // 16 if array.kind == "mma" and pieces > 1 else 1
        more, number = lanes.times(blocks * pieces * width // 2)
        block, number = number // (pieces * width // 2), number % (pieces * width // 2)
        piece, e = number // (width // 2), number % (width // 2)
        lane = more.names["lane"]
        warp = 16 * (more.names["warpgroup.thread"] // WARP) if array.kind == "wgmma" else 16 * block
        row = warp + lane // 4 + 8 * (e // 2 % 2)
        column = width * piece + 8 * (e // 4) + 2 * (lane % 4) + e % 2
        shape = more.is_active.shape
        corner = {s.names[0]: np.broadcast_to(warp, shape), s.names[1]: np.broadcast_to(width * piece, shape)}
        inside = more.with_names(dict(zip(s.names, (row, column))))
        inside = replace(inside, runs={**more.runs, s.names[1]: 2}, corner=corner, is_first=e == 0)
        self.block(s.body, inside)

    # --- statements

    def _copy(self, s: nodes.Copy | nodes.CpAsync, lanes: Lanes) -> None:
        inside = self._in_turn(s, lanes)
        for read, guard in _reads(s.value):
            self._read(s, read, inside, guard, 1)
        self._element("cp_async" if isinstance(s, nodes.CpAsync) else "copy", s, s.to, inside, s.vector)

    def _split(self, s: nodes.Split, lanes: Lanes) -> None:
        for word, place in (("read", s.source), ("store", s.to)):
            self._note(word, s, place, lambda _, tile: self._in_line(tile, lanes, ATOM))

    def _wgmma(self, s: nodes.Wgmma, lanes: Lanes) -> None:
        for place in (s.a, s.b):
            if isinstance(self.arrays.get(place.name), Shared) and self.arrays[place.name].swizzle:
                self._note("wgmma", s, place, lambda p, tile: self._matrix_rows(p, tile, lanes))

    def _fold(self, s: nodes.BlockReduce | nodes.BlockScan, lanes: Lanes) -> None:
        """One lane a warp writes its own element, and all read the same ones in turn."""
        if s.via:
            self._note("fold", s, Place(s.via), lambda _, tile: self._in_line(tile, lanes, tile.size, is_one=True))

    def _moved(self, s: nodes.Store | nodes.Assign | nodes.Value | nodes.Atomic, lanes: Lanes) -> None:
        """An element, or several: in one access where the statement says `vector`, else one after the other."""
        over, vector = getattr(s, "over", ()), getattr(s, "vector", 1)
        inside = lanes
        if over:
            sizes = [size.evaluate({}) for _, size in over]
            counts = [*sizes[:-1], sizes[-1] // vector]
            inside, number = lanes.times(math.prod(counts))
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

        access = self._note(word, s, place, touches)
        if count == 1 and access is not None and access.touches:
            self._join(access, place, lanes)

    def _join(self, access: Access, place: Place, lanes: Lanes) -> None:
        """Note also the access of the neighbours that follow one another along the last index."""
        array, last = access.array, place.index[-1] if place.index else ZERO
        size = array.type.dtype.bytes
        if array.kind == "wgmma":  # a thread's four
            run, is_first = ATOM // size, np.ones_like(lanes.is_active)
        else:
            names = [n for n in lanes.runs if (1, (n,)) in last.terms and sum(n in e.names() for e in place.index) == 1]
            most = max((lanes.runs[n] for n in names), default=1)
            run = math.gcd(most, ATOM // size)
            name = next((n for n in names if lanes.runs[n] == most), "")
            is_first = lanes.names[name] % run == 0 if name else np.zeros_like(lanes.is_active)
        row, column = self._coordinates(place, lanes)
        is_active = lanes.is_active & is_first
        if run > 1 and is_active.any() and not (column[is_active] % run).any():
            access.run, access.joined = run, tuple(_kept([Touch(row, column, run * size, is_active)]))

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
        lane = np.arange(WARP)[None, :]
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
            access.touches = tuple(_kept(touches(place, order_of(array))))
        except KeyError:
            access.is_known = False
        self.found.append(access)
        return access

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
        which = _turns_of(turns, lanes.count)
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


# What the lanes know behind a statement, and what they touch in one.
_BEHIND: dict[type, Callable[[Any, Lanes], Lanes]] = {
    nodes.Let: lambda s, lanes: lanes.with_let(s.name, s.value),
    nodes.Choose: lambda s, lanes: lanes.without(s.name),
    nodes.Ticket: lambda s, lanes: lanes.with_names({s.name: 0}),
    nodes.Order: lambda s, lanes: lanes.with_names(dict.fromkeys(s.names, 0)),  # a place of a whole tile
    nodes.Cursor: lambda s, lanes: lanes.with_names(
        {f"{s.name}.slot": s.at, f"{s.name}.phase": s.phase, f"{s.name}.previous": (s.at - 1) % s.ring}
    ),
}
_TOUCHED: dict[type, Callable[[_Walk, Any, Lanes], None]] = {
    nodes.For: _Walk._for,
    nodes.If: _Walk._if,
    nodes.Role: _Walk._role,
    nodes.Each: _Walk._each,
    nodes.Copy: _Walk._copy,
    nodes.CpAsync: _Walk._copy,
    nodes.Store: _Walk._moved,
    nodes.Assign: _Walk._moved,
    nodes.Value: _Walk._moved,
    nodes.Atomic: _Walk._moved,
    nodes.Ldmatrix: _Walk._ldmatrix,
    nodes.StoreRows: _Walk._store_rows,
    nodes.Split: _Walk._split,
    nodes.Wgmma: _Walk._wgmma,
    nodes.BlockReduce: _Walk._fold,
    nodes.BlockScan: _Walk._fold,
}


def order_of(array: Shared) -> Order:
    """The order of a shared array's elements; of a matrix kept as registers hold it, four to a row."""
    shape = [e.evaluate({}) for e in array.type.shape]
    if array.kind == "wgmma":
        return Order(math.prod(shape) // 4, 4, array.type.dtype.bytes)
    return Order(math.prod(shape[:-1]), shape[-1] if shape else 1, array.type.dtype.bytes, array.swizzle)


def _turns_of(count: int, cases: int) -> np.ndarray:
    """The turns of a loop that are looked at: all of them, or of many the first and the last."""
    if count * cases <= MOST_CASES:
        return np.arange(count)
    ends = TURNS if 2 * TURNS * cases <= MOST_CASES else 1
    return np.array(list(dict.fromkeys([*range(min(ends, count)), *range(max(0, count - ends), count)])), np.int64)


def _kept(touches: Iterable[Touch]) -> Iterator[Touch]:
    """Those instructions in which a lane takes part."""
    for t in touches:
        row, column, is_active = np.broadcast_arrays(t.row, t.column, t.is_active)
        kept = is_active.any(axis=1)
        if kept.any():
            yield Touch(row[kept], column[kept], t.width, is_active[kept])


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
