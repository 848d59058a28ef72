"""Folds and scans over the threads of a warp or of a CTA: shuffles inside each warp, then the warps' totals from shared
memory, folded by every thread alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...ir.accumulate import start_of
from ...ir.gpu import nodes
from ...ir.gpu.nodes import BlockScan
from ...ir.ops import REDUCERS
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from .names import comment


class Folds:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the values and the lines."""

    def _warpreduce(self: Any, s: nodes.WarpReduce) -> None:
        if s.is_exclusive:
            self._each_element(s.name, lambda element, dtype, number: self._lanes_before(s, element, dtype))
            return
        self._each_element(s.name, lambda element, dtype, number: self._over_lanes(s.op, element, dtype, s.width))
        self._stay_as_read()

    def _lanes_before(self: Any, s: nodes.WarpReduce, element: str, dtype: DType) -> None:
        """An element as the fold of those of the lanes before, of `width` neighbouring ones."""
        lane = f"{self._spell('lane')} % {s.width}"
        neutral = self.values.value(start_of(s.op, dtype))
        self.say("{")
        self.say("#pragma unroll")
        self.say(f"for (int lanes = 1; lanes < {s.width}; lanes *= 2) {{")
        self.say(f"  const auto other = __shfl_up_sync(0xffffffffu, {element}, lanes, {s.width});")
        self.say(f"  if ({lane} >= lanes) {self._folded(s.op, element, 'other', dtype)}")
        self.say("}")
        self.say(f"const auto before = __shfl_up_sync(0xffffffffu, {element}, 1, {s.width});")
        self.say(f"{element} = {lane} == 0 ? {neutral} : before;")
        self.say("}")

    def _blockreduce(self: Any, s: nodes.BlockReduce) -> None:
        warps = -(-self.kernel.threads // 32)
        part = self.names.of("array", s.via)
        index = self._spell("thread.index")

        def fold(element: str, dtype: DType, number: int) -> None:
            self._over_lanes(s.op, element, dtype, 32)
            if number > 0 or not s.is_fresh:
                self.say("__syncthreads();")
            self.say(f"if ({index} % 32 == 0) {part}[{index} / 32] = {element};")
            self.say("__syncthreads();")
            self.say(f"{element} = {'' if dtype.is_float or dtype.bits > 16 else f'({dtype.cuda})'}{part}[0];")
            self.say("#pragma unroll")
            self.say(f"for (int w = 1; w < {warps}; ++w) {self._folded(s.op, element, f'{part}[w]', dtype)}")

        self.say(comment(f"{s.op} over the CTA"))
        self._each_element(s.name, fold)
        self._stay_as_read()

    def _stay_as_read(self: Any) -> None:
        """What waits behind a fold does so in 16 bits (`vectors.as_read`)."""
        for name in self.waiting:
            if name in self.arrays:
                self.say(f"stay_as_read({self.names.of('array', name)});")

    def _blockscan(self: Any, s: nodes.BlockScan) -> None:
        names = (n and self.names.of("array", n) for n in (s.name, s.carry, s.via))
        lane, warp = map(self._spell, ("lane", "warp.index"))
        dtype, each = self.arrays[s.name].type.dtype, self.arrays[s.name].type.shape[0].evaluate({})
        for line in scan_lines(
            s, *names, each, lane, warp, -(-self.kernel.threads // 32), lambda *parts: self._folded(s.op, *parts, dtype)
        ):
            self.say(line)

    def _each_element(self: Any, name: str, fold: Any) -> None:
        array = self.arrays[name]
        sizes = [e.evaluate({}) for e in array.type.shape]
        if len(sizes) != 1:
            raise refuse(
                "E1620", self.kernel.name, array.span, what=Phrase("fold of an array that does not have one axis")
            )
        for number in range(sizes[0]):
            fold(f"{self.names.of('array', name)}[{number}]", array.type.dtype, number)

    def _over_lanes(self: Any, op: str, element: str, dtype: DType, width: int) -> None:
        self.say("#pragma unroll")
        self.say(
            f"for (int lanes = {width // 2}; lanes > 0; lanes /= 2) "
            f"{self._folded(op, element, f'__shfl_xor_sync(0xffffffffu, {element}, lanes)', dtype)}"
        )

    def _folded(self: Any, op: str, element: str, other: str, dtype: DType) -> str:
        other = f"({dtype.cuda}){other}" if dtype.bits < 32 and not dtype.is_float else other
        return f"{element} = {self._applied(op, element, other, dtype)};"

    def _applied(self: Any, op: str, left: str, right: str, dtype: DType) -> str:
        word = REDUCERS[op.upper()].fold_of(dtype.kind)
        if word is None:
            raise refuse("E1620", self.kernel.name, None, what=Phrase("{op} over threads", op=op))
        if dtype.kind == "b":  # the second may be left out by && and ||, and with it a lane of a shuffle
            left, right = right, left
        return self.values.applied(word.lower(), dtype, left, right)


def scan_lines(
    s: BlockScan,
    name: str,
    carry: str,
    part: str,
    each: int,
    lane: str,
    warp: str,
    warps: int,
    folded: Callable[[str, str], str],
) -> Iterator[str]:
    """The C of `block_scan`; `name`, `carry` and `part` are spelled arrays, of which the first has `each` elements a
    thread, and `folded(x, y)` is `x = x op y;`. The totals are read behind one barrier and written again only behind
    another."""
    x, so_far = f"{name}[{'u' if each > 1 else '0'}]", f"{carry}[0]"

    def of_each(*lines: str) -> Iterator[str]:
        """For every element of a thread."""
        if each == 1:
            yield from (f"  {line}" for line in lines)
            return
        yield "  #pragma unroll"
        yield f"  for (int u = 0; u < {each}; ++u) {{"
        yield from (f"    {line}" for line in lines)
        yield "  }"

    def total(w: str) -> str:
        return f"{part}[u * {warps} + {w}]" if each > 1 else f"{part}[{w}]"

    yield comment(f"{s.op} over the threads before{'' if s.is_exclusive else ' and this one'}, after {carry}")
    yield "{"
    yield from of_each(
        "#pragma unroll",
        "for (int lanes = 1; lanes < 32; lanes *= 2) {",
        f"  const auto other = __shfl_up_sync(0xffffffffu, {x}, lanes);",
        f"  if ({lane} >= lanes) {folded(x, 'other')}",
        "}",
    )
    behind = [f"auto before = {so_far};"]
    if warps == 1:
        behind += [f"const auto total = __shfl_sync(0xffffffffu, {x}, 31);", folded(so_far, "total")]
    else:
        yield "  __syncthreads();"
        yield from of_each(f"if ({lane} == 31) {total(warp)} = {x};")
        yield "  __syncthreads();"
        behind += [
            "#pragma unroll",
            f"for (int w = 0; w < {warps}; ++w) {{",
            f"  if (w < {warp}) {folded('before', total('w'))}",
            f"  {folded(so_far, total('w'))}",
            "}",
        ]
    if s.is_exclusive:
        behind += [
            f"const auto own = __shfl_up_sync(0xffffffffu, {x}, 1);",
            f"if ({lane} > 0) {folded('before', 'own')}",
        ]
    else:
        behind.append(folded("before", x))
    yield from of_each(*behind, f"{x} = before;")
    yield "}"
