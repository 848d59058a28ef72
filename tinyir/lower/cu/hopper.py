"""The statements of sm90 as CUDA: barriers in shared memory, the copy engine, roles, and the matrix products of
warpgroups.

A tile in shared memory is a pointer; where a tile, a box or a matrix starts is counted here in elements. The rows of a
swizzled tile are as long as the swizzle's span; a wider tile is several of those side by side (`ir.gpu.nodes.Shared`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ...ir.expr import ONE, ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.accesses import is_assumed_multiple
from ...ir.gpu.nodes import Place
from ...ir.gpu.verify import exprs_in
from ...ir.gpu.walk import statements
from ...ir.intervals import Interval
from ...ir.neighbours import ACCESS_BYTES
from ...ir.rules import product
from ...ir.windows import Windows
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.arch import ARCHS
from ...target.hopper import WARPGROUP
from .index import UNARY
from .matrix import CORE_ROWS, Matrices
from .names import comment
from .value import memory_type

WARP = 32  # threads


class Hopper(Matrices):
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: dict[str, nodes.TensorMap] = {}
        self.used_maps: set[str] = set()
        self.cursors: dict[str, nodes.Cursor] = {}
        self.fields: dict[str, set[str]] | None = None  # of cursors, that the kernel reads
        self.before: Any = None  # the statement before the current one, in its block
        self.is_one_thread = False  # a guard has picked one thread of a warpgroup
        self.first_warpgroup = 0  # of the role

    # --- declarations

    def _tensormap(self: Any, s: nodes.TensorMap) -> None:
        self.maps[s.name] = s
        another = WARP if self.kernel.threads > WARP else 0  # than the thread that sets up barriers and loads
        self.say(f"if ({self._spell('thread.index')} == {another}) prefetch_map(&{self._map(s.name)});")

    def _mbarrier(self: Any, s: nodes.Mbarrier) -> None:
        name = self.names.of("array", s.name)
        self.say(f"unsigned long long *const {name} = (unsigned long long *)(smem + {self.shared_offset});")
        self.shared_offset += 8 * s.ring
        if s.ring == 1:
            self.say(f"if ({self._spell('thread.index')} == 0) mbarrier_init({name}, {s.count});")
        else:
            self.say(f"mbarriers_init<{s.ring}, {self.kernel.threads // WARP}>({name}, {s.count});")

    def _swizzled(self: Any, s: nodes.Shared) -> None:
        """A tile of the copy engine, as a pointer."""
        self.arrays[s.name] = s
        self.shared_offset = -(-self.shared_offset // (CORE_ROWS * s.swizzle)) * CORE_ROWS * s.swizzle
        dtype = memory_type(s.type.dtype)
        shape = ", ".join(map(str, s.type.shape))
        place = f"(smem + {self.shared_offset})" if self.shared_offset else "smem"
        self.say(
            f"{dtype} *const {self.names.of('array', s.name)} = ({dtype} *){place};  "
            f"{comment(f'{s.ring} x [{shape}], swizzled by {s.swizzle} B')}"
        )
        self.shared_offset += s.bytes

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

    def _of_cluster(self: Any, name: str, index: tuple[Expr, ...], slot: Expr) -> str:
        """An element of an array of which every CTA of the cluster has one: of its own, or read from another's."""
        element = self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in index)
        if slot == Expr.of("cluster.rank"):
            return element
        if self.arrays[name].type.dtype.name != "fp32":
            raise refuse(
                "E1620",
                self.kernel.name,
                None,
                what=Phrase("a read of {name} in another CTA, which is not fp32", name=name),
            )
        return f"load_of_cta(&{element}, {self.integers.c(slot)})"

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
        if self.fields is None:
            self.fields = {}
            for s in statements(self.kernel.body):
                if isinstance(s, nodes.Drain):
                    self.fields.setdefault(s.cursor, set()).add("phase")
                for name in (n for e in exprs_in(s) for n in e.vocabulary):
                    before, _, field = name.rpartition(".")
                    self.fields.setdefault(before, set()).add(field)
        return self.fields.get(cursor, set())

    def _advance(self: Any, s: nodes.Advance) -> None:
        cursor = self.cursors[s.cursor]
        slot, phase, previous = (self.names.of("integer", f"{s.cursor}.{f}") for f in ("slot", "phase", "previous"))
        used = self._fields_used(s.cursor)
        if s.by != ONE:
            self.say(f"{slot} += {self.integers.c(s.by, 0)};")
            if "phase" in used:
                self.say(f"{phase} ^= {slot} / {cursor.ring} & 1;")
            self.say(f"{slot} %= {cursor.ring};")
            if "previous" in used:
                self.say(f"{previous} = ({slot} + {cursor.ring - 1}) % {cursor.ring};")
            return
        if "previous" in used:
            self.say(f"{previous} = {slot};")
        flip = f" {phase} ^= 1;" if "phase" in used else ""
        self.say(f"if (++{slot} == {cursor.ring}) {{ {slot} = 0;{flip} }}")

    def _role(self: Any, s: nodes.Role) -> None:
        each = s.threads // (s.last - s.first)
        low, high = each * s.first, each * s.last
        index = self._spell("thread.index")
        last = "" if high == self.kernel.threads else f"{index} < {high}"
        first = f"{index} >= {low}" if low else ""
        condition = " && ".join(c for c in (first, last) if c) or "true"
        before = self.before if isinstance(self.before, nodes.Role) else None
        if before:
            self.lines.pop()
        is_rest = before is not None and before.first == 0 and before.threads == low and not last
        head = f"{'} else ' if before else ''}{'' if is_rest else f'if ({condition}) '}{{  // role {s.name}"
        with self.braces(head), self.scope({"warpgroup.index": Interval(0, s.last - s.first - 1)}):
            if s.regs:
                arch = ARCHS[self.kernel.arch]
                entry = min(arch.registers_per_thread, arch.registers_per_sm // self.kernel.threads // 8 * 8)
                self.say(f"{'take' if s.regs > entry else 'give'}_registers<{s.regs}>();")
            if self._uses(s.body, "warpgroup.index"):
                value = f"{index} / {WARPGROUP}" + (f" - {s.first}" if s.first else "")
                self.say(f"const int {self.names.of('integer', 'warpgroup.index')} = {value};")
            self.first_warpgroup = s.first
            self._reach_early(s.body)
            self.block(s.body)

    def _uses(self: Any, body: Iterable[Any], name: str) -> bool:
        is_barrier = name == "warpgroup.index" and any(
            isinstance(s, nodes.Barrier) and s.scope == "warpgroup" for s in statements(body)
        )
        return is_barrier or any(name in e.names() for s in statements(body) for e in exprs_in(s))

    def _order(self: Any, s: nodes.Order) -> None:
        row, column = (self.names.of("integer", n) for n in s.names)
        rows, columns = (self.integers.c(e, 0) for e in s.extents)
        if s.group:
            place = self.names.of("integer", f"{s.names[0]}.{s.names[1]}")
            wrapper = "turning_tile" if s.is_turning else "grouped_tile"
            self.say(
                f"const tile_place {place} = {wrapper}({self.integers.c(s.tile, 0)}, {rows}, {columns}, {s.group});"
            )
            self.say(f"const int {row} = {place}.row, {column} = {place}.column;")
        else:
            tile, rows = (self.integers.c(e, UNARY) for e in (s.tile, s.extents[0]))
            self.say(f"const int {column} = {tile} / {rows}, {row} = {tile} - {rows} * {column};")
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
        with self.braces(f"for (int i = 0; i < {cursor.ring}; ++i) {{"):
            self.say(f"mbarrier_wait({self._barrier_at(Place(s.barrier, slot=Expr.of(f'{s.cursor}.slot')))}, {phase});")
            self.say(f"if (++{slot} == {cursor.ring}) {{ {slot} = 0; {phase} ^= 1; }}")

    def _fence(self: Any, s: nodes.Fence) -> None:
        self.say(
            {
                "wgmma": "wgmma_fence();",
                "async_proxy": "fence_async_proxy();",
                "mbarrier_init": "fence_mbarrier_init();",
            }[s.what]
        )

    def _waitprevious(self: Any, s: nodes.WaitPrevious) -> None:
        self.say("wait_previous();")

    def _launchnext(self: Any, s: nodes.LaunchNext) -> None:
        self.say("launch_next();")

    def _waitgroup(self: Any, s: nodes.WaitGroup) -> None:
        self.say(f"{s.engine}_wait<{s.pending}>();")

    def _wide_barrier(self: Any, s: nodes.Barrier) -> None:
        """A barrier of the cluster, of a warpgroup (numbered from 1 by its place in the CTA), or a named one."""
        if s.scope == "cluster":
            self.say(
                {"": "cluster_barrier();", "arrive": "cluster_arrive_relaxed();", "wait": "cluster_wait();"}[s.half]
            )
        elif s.scope == "warpgroup":
            self.say(f"warpgroup_barrier({1 + self.first_warpgroup} + {self.names.of('integer', 'warpgroup.index')});")
        else:
            self.say(f"named_barrier({s.scope}, {s.threads});")

    # --- the copy engine

    def _tmaload(self: Any, s: nodes.TmaLoad) -> None:
        """A tile is fetched box by box: rows of a swizzled row's width, all rows of one column of boxes before the
        next. A box with rows along several dims has all rows of the tile."""
        tile, mapped = self.arrays[s.to.name], self.maps[s.source.name]
        *dims, last = (axis for axis, e in enumerate(mapped.box) if e.constant != 1)
        rows, columns = (e.evaluate({}) for e in tile.type.shape)
        down, across = math.prod(mapped.box[a].evaluate({}) for a in dims), mapped.box[last].evaluate({})
        if not dims or len(dims) > 1 and down != rows or s.to.index:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("tma_load of a part of a tile, or of a tile that does not have two axes"),
            )
        stacked, copies = rows // down, rows // down * (columns // across)
        share, rest = divmod(copies, max(1, len(s.multicast)))
        if rest:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("multicast of {copies} boxes by {count} CTAs", copies=copies, count=len(s.multicast)),
            )
        name = "tma_multicast" if s.multicast else "tma_streamed" if s.is_streamed else "tma_load"
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
        at[last] = at[last] + across * (box // stacked)
        at[dims[0]] = at[dims[0]] + down * (box - stacked * (box // stacked))
        if mapped.windows:
            name, at = f"{name}_windows", self._in_window(mapped.windows, at)
        at = at if mapped.windows else at[::-1]
        places = ", ".join(self.integers.c(e, 0) for e in at)
        start = self._start(s.to, down * across * box)
        indent = "  " if share > 1 else ""
        self.say(
            f"{indent}{name}_{len(mapped.box)}d({start}, &{self._map(s.source.name)}, {self._barrier_at(s.on)}, "
            f"{places}{mask});"
        )

    def _in_window(self: Any, windows: Windows, at: Sequence[Expr]) -> list[Expr]:
        """What a load of windows takes in the place of `at`, the innermost first: where the corner of the first one is
        in the tensor, then how far inside the windows."""
        window, *inside, channel = at
        corner, rest = [], window
        for count, low, step in reversed([*zip(windows.counts, windows.low, windows.steps)]):
            corner.append(step * (rest - count * (rest // count)) + low)
            rest = rest // count
        return [channel, *corner, rest, *reversed(inside)]

    def _send(self: Any, s: nodes.Send) -> None:
        if self._in_registers(s.source.name):
            self._send_held(s)
            return
        bytes_ = math.prod(s.size) * self.arrays[s.source.name].type.dtype.bytes
        to, source = (f"&{self._element(p.name, p.index or (ZERO,) * len(s.size), p.slot)}" for p in (s.to, s.source))
        self.say(f"send_to_cta({to}, {source}, {bytes_}, {self._barrier_at(s.on)}, {self.integers.c(s.cta, 0)});")

    def _tmastore(self: Any, s: nodes.TmaStore) -> None:
        if s.source.index:
            raise refuse("E1620", self.kernel.name, s.span, what=Phrase("tma_store of a part of a tile"))
        places = ", ".join(self.integers.c(e, 0) for e in reversed(s.to.index))
        self.say(f"tma_store_{len(s.to.index)}d(&{self._map(s.to.name)}, {places}, {self._start(s.source)});")
        self.say("tma_store_commit();")

    def _storerows(self: Any, s: nodes.StoreRows) -> None:
        tile = self.arrays[s.source.name]
        is_held = self._in_registers(s.source.name)
        if s.source.index:
            raise refuse("E1620", self.kernel.name, s.span, what=Phrase("store_rows of a part of a tile"))
        if not is_held and (
            s.box[-1].constant > WARPGROUP
            or s.box[-1].constant * tile.type.dtype.bytes % ACCESS_BYTES
            or not tile.swizzle
        ):
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase(
                    "store_rows of rows of {box} elements, not whole accesses of {access_bytes} B and {warpgroup} "
                    "elements at most",
                    box=s.box[-1],
                    access_bytes=ACCESS_BYTES,
                    warpgroup=WARPGROUP,
                ),
            )
        self.used_tensors.add(s.to.name)
        shape, (row, column) = s.dims or self.of_memory(s.to.name).type.shape, s.sides
        to = f"&{self.names.of('tensor', s.to.name)}[{self.integers.offset(shape, s.to.index)}]"
        pitch, high, wide = (
            self.integers.c(e, 0)
            for e in (product(shape[row + 1 :]), shape[row] - s.to.index[row], shape[column] - s.to.index[column])
        )
        if is_held:
            dtype, eight = self.of_memory(s.to.name).type.dtype.name, self.facts.plain(s.to.index[column])
            assumed = self.plan.assume if self.plan else ()
            is_known = (
                all(c % 8 == 0 for c, _ in eight.terms)
                and is_assumed_multiple(assumed, product(shape[row + 1 :]), 8)
                and is_assumed_multiple(assumed, shape[column], 8)
            )
            self.say(
                f"store_held_{dtype}<{s.box[column]}, {str(is_known).lower()}>({to}, {pitch}, "
                f"{self.names.of('array', s.source.name)}, {high}, {wide});"
            )
            return
        sizes = f"{s.box[row]}, {s.box[column]}, {tile.swizzle}, {tile.type.shape[0]}"
        self.say(f"store_rows<{sizes}>({to}, {pitch}, {self._start(s.source)}, {high}, {wide});")

    def _map(self: Any, name: str) -> str:
        self.used_maps.add(name)
        return self.names.of("map", name)


def picks_one_thread(s: nodes.If) -> bool:
    """Whether a guard leaves one thread of each warpgroup, or of the CTA."""
    return any(
        b.equals is not None and b.equals.constant is not None and b.expr.name in ("warpgroup.thread", "thread.index")
        for b in s.guard
    )
