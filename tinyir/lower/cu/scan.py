"""A scan over the threads of a CTA: shuffles inside each warp, then the warps' totals from shared memory, folded by
every thread alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.gpu.nodes import BlockScan
from .names import comment


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
