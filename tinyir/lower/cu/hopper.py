"""The statements of sm90 as CUDA: barriers in shared memory, the copy engine, roles, and the matrix products of warpgroups.

A tile in shared memory is a pointer; where a tile, a box or a matrix starts is counted here in elements. The rows of a swizzled tile are
as long as the swizzle's span; a wider tile is several of those side by side (`ir.gpu.nodes.Shared`).
"""

from __future__ import annotations

import re
from typing import Any, Iterable

from ...ir.arch import ARCHS
from ...ir.body import Unary
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place
from ...ir.gpu.verify import exprs_in
from ...ir.gpu.walk import statements
from ...ir.intervals import Interval
from ...kit.diag import refuse
from .value import memory_type

CORE_ROWS = 8  # rows of a swizzle's pattern
ATOM_BYTES = 16  # a descriptor counts in these
INSTRUCTION_BYTES = 32  # along the sum, of one wgmma
WARPGROUP = 128
PIECE = 16  # rows and columns of what a warp stores at once


class Hopper:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def __init__(self) -> None:
        self.maps: dict[str, nodes.TensorMap] = {}
        self.used_maps: set[str] = set()
        self.cursors: dict[str, nodes.Cursor] = {}
        self.before: Any = None  # the statement before the one at hand, in its block
        self.is_one_thread = False  # a guard has picked one thread of a warpgroup
        self.first_warpgroup = 0  # of the role
        self.held: dict[str, Any] = {}  # accumulator -> corner and coordinates of the `each` at hand
        self.piece: dict[str, Expr] = {}  # those coordinates -> where a warp's piece starts
        self.pieces: dict[str, str] = {}  # shared tile -> the registers that stmatrix will store in it

    # --- declarations

    def _tensormap(self: Any, s: nodes.TensorMap) -> None:
        self.maps[s.name] = s
        self.say(f"if ({self._spell('thread.index')} == 0) prefetch_map(&{self._map(s.name)});")

    def _mbarrier(self: Any, s: nodes.Mbarrier) -> None:
        name = self.names.of("array", s.name)
        self.say(f"unsigned long long *const {name} = (unsigned long long *)(smem + {self.shared_offset});")
        self.shared_offset += 8 * s.ring
        loop = f"for (int i = 0; i < {s.ring}; ++i) mbarrier_init(&{name}[i], {s.count});" if s.ring > 1 else f"mbarrier_init({name}, {s.count});"
        self.say(f"if ({self._spell('thread.index')} == 0) {loop}" if s.ring == 1 else f"if ({self._spell('thread.index')} == 0)")
        if s.ring > 1:
            self.say(f"  {loop}")

    def _swizzled(self: Any, s: nodes.Shared) -> None:
        """A tile of the copy engine, as a pointer."""
        self.arrays[s.name] = s
        self.shared_offset = -(-self.shared_offset // (CORE_ROWS * s.swizzle)) * CORE_ROWS * s.swizzle
        dtype = memory_type(s.type.dtype)
        shape = ", ".join(map(str, s.type.shape))
        place = f"(smem + {self.shared_offset})" if self.shared_offset else "smem"
        self.say(f"{dtype} *const {self.names.of('array', s.name)} = ({dtype} *){place};  // {s.ring} x [{shape}], swizzled by {s.swizzle} B")
        self.shared_offset += s.bytes

    def _matrix(self: Any, s: nodes.Reg) -> None:
        """The accumulator of a warpgroup: 64 rows at a time, in the order in which wgmma leaves them."""
        self.arrays[s.name] = s
        rows, columns = (e.evaluate({}) for e in s.type.shape)
        blocks = f"[{rows // 64}]" if rows > 64 else ""
        self.say(f"float {self.names.of('array', s.name)}{blocks}[{columns // 2}];  // this thread's part of [{rows}, {columns}]")

    # --- where things are

    def _start(self: Any, place: Place, offset: int = 0, extra: str = "") -> str:
        """C of the address of a tile, or of the element `offset` of it."""
        tile = self.arrays[place.name]
        elements = tile.bytes // tile.type.dtype.bytes // tile.ring
        name = self.names.of("array", place.name)
        at = (Expr.of(0) if place.slot is None else elements * place.slot) + offset
        text = name if at == ZERO else f"{name} + {self.integers.c(at)}"
        return f"{text} + {extra}" if extra else text

    def _barrier_at(self: Any, place: Place) -> str:
        name = self.names.of("array", place.name)
        return name if place.slot is None else f"&{name}[{self.integers.c(place.slot, 0)}]"

    def _width(self: Any, tile: nodes.Shared) -> int:
        """Elements of a row of the swizzle."""
        return tile.swizzle // tile.type.dtype.bytes

    # --- cursors and control

    def _cursor(self: Any, s: nodes.Cursor) -> None:
        self.cursors[s.name] = s
        for field, most in (("slot", s.ring - 1), ("previous", s.ring - 1), ("phase", 1)):
            self.integers.ranges[f"{s.name}.{field}"] = Interval(0, most)
        slot, phase, previous = (self.names.of("integer", f"{s.name}.{f}") for f in ("slot", "phase", "previous"))
        used = self._fields_used(s.name)
        self.say(f"int {slot} = {s.at};")
        if "phase" in used:
            self.say(f"unsigned int {phase} = {s.phase};")
        if "previous" in used:
            self.say(f"int {previous} = {(s.at - 1) % s.ring};")

    def _fields_used(self: Any, cursor: str) -> set[str]:
        inside = list(statements(self.kernel.body))
        names = {n for s in inside for e in exprs_in(s) for n in e.names()}
        drained = {"phase"} if any(isinstance(s, nodes.Drain) and s.cursor == cursor for s in inside) else set()
        return drained | {n.removeprefix(f"{cursor}.") for n in names if n.startswith(f"{cursor}.")}

    def _advance(self: Any, s: nodes.Advance) -> None:
        cursor = self.cursors[s.cursor]
        slot, phase, previous = (self.names.of("integer", f"{s.cursor}.{f}") for f in ("slot", "phase", "previous"))
        used = self._fields_used(s.cursor)
        if "previous" in used:
            self.say(f"{previous} = {slot};")
        flip = f" {phase} ^= 1;" if "phase" in used else ""
        self.say(f"if (++{slot} == {cursor.ring}) {{ {slot} = 0;{flip} }}")

    def _role(self: Any, s: nodes.Role) -> None:
        if s.unit != "warpgroups":
            raise refuse("E1620", self.kernel.name, s.span, what="role of single warps")
        index = self._spell("thread.index")
        last = "" if s.last * WARPGROUP == self.kernel.threads else f"{index} < {s.last * WARPGROUP}"
        first = f"{index} >= {s.first * WARPGROUP}" if s.first else ""
        condition = " && ".join(c for c in (first, last) if c) or "true"
        before = self.before if isinstance(self.before, nodes.Role) else None
        if before:
            self.lines.pop()
        is_rest = before is not None and before.first == 0 and before.last == s.first and not last
        self.say(f"{'} else ' if before else ''}{'' if is_rest else f'if ({condition}) '}{{  // role {s.name}")
        self.depth += 1
        known = dict(self.integers.ranges)
        if s.regs:
            arch = ARCHS[self.kernel.arch]
            entry = min(arch.registers_per_thread, arch.registers_per_sm // self.kernel.threads // 8 * 8)
            self.say(f"{'take' if s.regs > entry else 'give'}_registers<{s.regs}>();")
        count = s.last - s.first
        self.integers.ranges["warpgroup.index"] = Interval(0, count - 1)
        if self._uses(s.body, "warpgroup.index"):
            value = f"{index} / {WARPGROUP}" + (f" - {s.first}" if s.first else "")
            self.say(f"const int {self.names.of('integer', 'warpgroup.index')} = {value};")
        self.first_warpgroup = s.first
        self.block(s.body)
        self.integers.ranges = known
        self.depth -= 1
        self.say("}")

    def _uses(self: Any, body: Iterable[Any], name: str) -> bool:
        is_barrier = name == "warpgroup.index" and any(isinstance(s, nodes.Barrier) and s.scope == "warpgroup" for s in statements(body))
        return is_barrier or any(name in e.names() for s in statements(body) for e in exprs_in(s))

    def _order(self: Any, s: nodes.Order) -> None:
        row, column = (self.names.of("integer", n) for n in s.names)
        place = self.names.of("integer", f"{s.names[0]}.{s.names[1]}")
        rows, columns = (self.integers.c(e, 0) for e in s.extents)
        self.say(f"const tile_place {place} = grouped_tile({self.integers.c(s.tile, 0)}, {rows}, {columns}, {s.group});")
        self.say(f"const int {row} = {place}.row, {column} = {place}.column;")
        for name, extent in zip(s.names, s.extents):
            high = self.integers.interval(extent).high
            self.integers.ranges[name] = Interval(0, None if high is None else high - 1)

    # --- barriers

    def _wait(self: Any, s: nodes.Wait) -> None:
        self.say(f"mbarrier_wait({self._barrier_at(s.barrier)}, {self.integers.c(s.phase, 0)});")

    def _arrive(self: Any, s: nodes.Arrive) -> None:
        barrier = self._barrier_at(s.barrier)
        thread = self._spell("warpgroup.thread")
        if s.expect:
            calls = [f"mbarrier_expect({barrier}, {s.expect});"]
        elif self.is_one_thread or s.cluster != tuple(range(len(s.cluster))):
            calls = [f"mbarrier_arrive_at({barrier}, {cta});" for cta in s.cluster] or [f"mbarrier_arrive({barrier});"]
        elif s.cluster:
            self.say(f"if ({thread} < {len(s.cluster)}) mbarrier_arrive_at({barrier}, {thread});")
            return
        else:
            calls = [f"mbarrier_arrive({barrier});"]
        for call in calls:
            self.say(call if self.is_one_thread else f"if ({thread} == 0) {call}")

    def _drain(self: Any, s: nodes.Drain) -> None:
        cursor = self.cursors[s.cursor]
        slot, phase = (self.names.of("integer", f"{s.cursor}.{f}") for f in ("slot", "phase"))
        self.say(f"for (int i = 0; i < {cursor.ring}; ++i) {{")
        self.depth += 1
        self.say(f"mbarrier_wait({self._barrier_at(Place(s.barrier, slot=Expr.of(f'{s.cursor}.slot')))}, {phase});")
        self.say(f"if (++{slot} == {cursor.ring}) {{ {slot} = 0; {phase} ^= 1; }}")
        self.depth -= 1
        self.say("}")

    def _fence(self: Any, s: nodes.Fence) -> None:
        self.say({"wgmma": "wgmma_fence();", "async_proxy": "fence_async_proxy();", "mbarrier_init": "fence_mbarrier_init();"}[s.what])

    def _waitgroup(self: Any, s: nodes.WaitGroup) -> None:
        if s.engine == "cp_async":
            raise refuse("E1620", self.kernel.name, s.span, what="wait for cp_async")
        self.say(f"{s.engine}_wait<{s.pending}>();")

    def _wide_barrier(self: Any, s: nodes.Barrier) -> None:
        """A barrier of the cluster, of a warpgroup (numbered from 1 by its place in the CTA), or a named one."""
        if s.scope == "cluster":
            self.say("cluster_barrier();")
        elif s.scope == "warpgroup":
            self.say(f"warpgroup_barrier({1 + self.first_warpgroup} + {self.names.of('integer', 'warpgroup.index')});")
        else:
            self.say(f"named_barrier({s.scope}, {s.threads});")

    # --- the copy engine

    def _tmaload(self: Any, s: nodes.TmaLoad) -> None:
        """A tile is fetched box by box: rows of a swizzled row's width, all rows of one column of boxes before the next."""
        tile, mapped = self.arrays[s.to.name], self.maps[s.source.name]
        sides = [axis for axis, e in enumerate(mapped.box) if e.constant != 1]
        rows, columns = (e.evaluate({}) for e in tile.type.shape)
        if len(sides) != 2 or s.to.index:
            raise refuse("E1620", self.kernel.name, s.span, what="tma_load of a part of a tile, or of a tile that has not two axes")
        down, across = (mapped.box[a].evaluate({}) for a in sides)
        stacked, copies = rows // down, rows // down * (columns // across)
        share, rest = divmod(copies, max(1, len(s.multicast)))
        if rest:
            raise refuse("E1620", self.kernel.name, s.span, what=f"multicast of {copies} boxes by {len(s.multicast)} CTAs")
        name = "tma_multicast" if s.multicast else "tma_load"
        mask = f", {sum(1 << cta for cta in s.multicast)}" if s.multicast else ""
        rank = Expr.of("cluster.rank") if s.multicast else ZERO
        box = share * rank
        if share > 1:
            self.say("#pragma unroll")
            self.say(f"for (int box = 0; box < {share}; ++box)")
            self.integers.ranges["box"] = Interval(0, share - 1)
            self.integers.spellings["box"] = "box"
            box = box + "box"
        at = list(s.source.index)
        at[sides[1]] = at[sides[1]] + across * (box // stacked)
        at[sides[0]] = at[sides[0]] + down * (box - stacked * (box // stacked))
        places = ", ".join(self.integers.c(e, 0) for e in reversed(at))
        start = self._start(s.to, down * across * box)
        indent = "  " if share > 1 else ""
        self.say(f"{indent}{name}_{len(at)}d({start}, &{self._map(s.source.name)}, {self._barrier_at(s.on)}, {places}{mask});")

    def _tmastore(self: Any, s: nodes.TmaStore) -> None:
        if s.source.index:
            raise refuse("E1620", self.kernel.name, s.span, what="tma_store of a part of a tile")
        places = ", ".join(self.integers.c(e, 0) for e in reversed(s.to.index))
        self.say(f"tma_store_{len(s.to.index)}d(&{self._map(s.to.name)}, {places}, {self._start(s.source)});")
        self.say("tma_store_commit();")

    def _map(self: Any, name: str) -> str:
        self.used_maps.add(name)
        return self.names.of("map", name)

    # --- matrix products

    def _wgmma(self: Any, s: nodes.Wgmma) -> None:
        acc, a, b = self.arrays[s.acc], self.arrays[s.a.name], self.arrays[s.b.name]
        if isinstance(a, nodes.Reg) or {a.swizzle, b.swizzle} != {128}:
            raise refuse("E1620", self.kernel.name, s.span, what="wgmma of registers, or of tiles not swizzled by 128 B")
        rows, columns = (e.evaluate({}) for e in acc.type.shape)
        dtype = a.type.dtype
        first = self.names.of("integer", f"{s.a.name}.start"), self.names.of("integer", f"{s.b.name}.start")
        sides = ((s.a, a, not s.a_transposed), (s.b, b, s.b_transposed))
        majors = [0 if along_sum else 1 for _, _, along_sum in sides]
        self.say("{")
        self.depth += 1
        steps = []
        for (place, tile, along_sum), name in zip(sides, first):
            lead, stride, step = self._strides(tile, along_sum)
            self.say(f"const unsigned long long {name} = matrix_descriptor({self._start(place, self._offset_in(place, tile, along_sum))}, {lead}, {stride});")
            steps.append(step)
        self.say("#pragma unroll")
        self.say(f"for (int step = 0; step < {s.steps}; ++step)" + (" {" if rows > 64 else ""))
        for block in range(rows // 64):
            down = block * self._down(a, not s.a_transposed)
            target = self.names.of("array", s.acc) + (f"[{block}]" if rows > 64 else "")
            operands = f"{first[0]} + {_plus(steps[0], 'step', down)}, {first[1]} + {_plus(steps[1], 'step', 0)}"
            self.say(f"  wgmma_m64n{columns}k{INSTRUCTION_BYTES // dtype.bytes}_{dtype}<{majors[0]}, {majors[1]}>({target}, {operands}, {self._is_added(s)});")
        if rows > 64:
            self.say("}")
        self.say("wgmma_commit();")
        self.depth -= 1
        self.say("}")

    def _is_added(self: Any, s: nodes.Wgmma) -> str:
        if s.zero is None:
            return "true"
        return f"step > 0 || !({self.integers.guard(s.zero)})" if s.zero else "step > 0"

    def _strides(self: Any, tile: nodes.Shared, is_along_sum: bool) -> tuple[int, int, str]:
        """Leading and stride byte offset of a descriptor, and C of what a step along the sum adds to it."""
        rows = tile.type.shape[0].evaluate({})
        pattern = CORE_ROWS * tile.swizzle
        if not is_along_sum:
            return rows * tile.swizzle, pattern, str(INSTRUCTION_BYTES // tile.type.dtype.bytes * tile.swizzle // ATOM_BYTES) + " * {}"
        inside = tile.swizzle // INSTRUCTION_BYTES
        if tile.type.shape[1].evaluate({}) == self._width(tile):
            return ATOM_BYTES, pattern, f"{INSTRUCTION_BYTES // ATOM_BYTES} * {{}}"
        return ATOM_BYTES, pattern, f"{INSTRUCTION_BYTES // ATOM_BYTES} * ({{}} % {inside}) + {rows * tile.swizzle // ATOM_BYTES} * ({{}} / {inside})"

    def _down(self: Any, tile: nodes.Shared, is_along_sum: bool) -> int:
        """What 64 rows of the product further adds to a descriptor."""
        rows = 64 if is_along_sum else 64 // self._width(tile) * tile.type.shape[0].evaluate({})
        return rows * tile.swizzle // ATOM_BYTES

    def _offset_in(self: Any, place: Place, tile: nodes.Shared, is_along_sum: bool) -> Any:
        """Elements from the tile's start to the operand's."""
        if not place.index:
            return ZERO
        along, other = (place.index[0], place.index[1]) if is_along_sum else (place.index[1], place.index[0])
        if other != ZERO:
            raise refuse("E1620", self.kernel.name, None, what="wgmma that starts inside the sum")
        rows = tile.type.shape[0].evaluate({})
        return self._width(tile) * along if is_along_sum else rows * self._width(tile) * (along // self._width(tile))

    # --- the elements of an accumulator

    def _each(self: Any, s: nodes.Each) -> None:
        acc = self.arrays[s.of]
        rows, columns = s.size or tuple(e.evaluate({}) for e in acc.type.shape)
        if acc.kind != "wgmma" or rows != 64 or columns % PIECE:
            raise refuse("E1620", self.kernel.name, s.span, what=f"each of a piece of {rows} x {columns}")
        r, n = s.names
        piece, element = (self.names.of("integer", word) for word in ("piece", "element"))
        by_matrix = [i for i in statements(s.body) if isinstance(i, nodes.Store) and i.by == "stmatrix"]
        known = dict(self.integers.ranges)
        warp = 16 * (Expr.of("warpgroup.thread") // 32)
        lane = Expr.of("lane")
        self.integers.ranges |= {"piece": Interval(0, columns // PIECE - 1), "element": Interval(0, 7), r: Interval(0, 63), n: Interval(0, columns - 1)}
        self.say("#pragma unroll")
        self.say(f"for (int {piece} = 0; {piece} < {columns // PIECE}; ++{piece}) {{  // 16 columns")
        self.depth += 1
        for store in by_matrix:
            self.pieces[store.to.name] = self.names.of("integer", f"{store.to.name}.piece")
            self.say(f"float {self.pieces[store.to.name]}[8];")
        self.say("#pragma unroll")
        self.say(f"for (int {element} = 0; {element} < 8; ++{element}) {{")
        self.depth += 1
        e = Expr.of("element")
        coordinates = len(self.lines)
        self.say(f"const int {self.names.of('integer', r)} = {self.integers.c(warp + lane // 4 + 8 * (e // 2 - 2 * (e // 4)), 0)};")
        self.say(f"const int {self.names.of('integer', n)} = {self.integers.c(PIECE * Expr.of('piece') + 8 * (e // 4) + 2 * (lane - 4 * (lane // 4)) + e - 2 * (e // 2), 0)};")
        self.piece = {r: warp, n: PIECE * Expr.of("piece")}
        self.held = {s.of: ((s.at or (ZERO, ZERO)), (r, n))}
        self.block(s.body)
        self._drop_unused(coordinates, (r, n))
        self.depth -= 1
        self.say("}")
        for store in by_matrix:
            self._store_piece(store)
        self.held, self.piece = {}, {}
        self.integers.ranges = known
        self.depth -= 1
        self.say("}")

    def _drop_unused(self: Any, first: int, names: tuple[str, ...]) -> None:
        """Leaves out the coordinates, declared from line `first` on, that no line after them uses."""
        words = set(re.findall(r"\w+", "\n".join(self.lines[first + len(names) :])))
        for number in reversed(range(len(names))):
            if self.names.of("integer", names[number]) not in words:
                del self.lines[first + number]

    def _held_element(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """The register of an accumulator's element inside `each`."""
        if name not in self.held:
            raise refuse("E1620", self.kernel.name, None, what=f"an element of {name} outside `each`")
        at, names = self.held[name]
        if any(e - corner != Expr.of(n) for e, corner, n in zip(index, at, names)):
            raise refuse("E1620", self.kernel.name, None, what=f"another element of {name} than the one at hand")
        rows = self.arrays[name].type.shape[0].evaluate({})
        block = f"[{self.integers.c(at[0] // 64, 0)}]" if rows > 64 else ""
        return f"{self.names.of('array', name)}{block}[{self.integers.c(at[1] // 2 + 8 * Expr.of('piece') + 'element', 0)}]"

    def _swizzled_element(self: Any, name: str, index: tuple[Expr, ...], slot: Expr | None) -> str:
        tile = self.arrays[name]
        if tile.type.rank != 2 or tile.type.shape[1].evaluate({}) != self._width(tile):
            raise refuse("E1620", self.kernel.name, tile.span, what="an element of a tile wider than its swizzle")
        row, column = (self.integers.c(e, 0) for e in index)
        return f"swizzled_at<{tile.swizzle}>({self._start(Place(name, slot=slot))}, {row}, {column})"

    def _store_piece(self: Any, s: nodes.Store) -> None:
        tile = self.arrays[s.to.name]
        row, column = (self.integers.c(e.substitute(self.piece), 0) for e in s.to.index)
        self.say(f"store_piece_{tile.type.dtype}<{tile.swizzle}>({self._start(s.to)}, {row}, {column}, {self.pieces[s.to.name]});")

    def _into_piece(self: Any, s: nodes.Store) -> None:
        """A value on its way to stmatrix, which rounds it to the tile's dtype."""
        value = s.value.x if isinstance(s.value, Unary) and s.value.op == "cast" and s.value.x.dtype.name == "fp32" else s.value
        self.say(f"{self.pieces[s.to.name]}[{self.names.of('integer', 'element')}] = {self.values.value(value)};")


def picks_one_thread(s: nodes.If) -> bool:
    """Whether a guard leaves one thread of each warpgroup, or of the CTA."""
    return any(b.equals is not None and b.equals.constant is not None and b.expr.name in ("warpgroup.thread", "thread.index") for b in s.guard)


def _plus(step: str, name: str, more: int) -> str:
    text = step.format(name, name)
    return f"{text} + {more}" if more else text


__all__ = ["Hopper", "picks_one_thread"]
