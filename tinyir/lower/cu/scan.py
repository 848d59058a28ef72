"""A scan over the threads of a CTA: shuffles inside each warp, then the warps' totals from shared memory, folded by every thread alike."""

from __future__ import annotations

from typing import Callable, Iterator

from ...ir.gpu.nodes import BlockScan


def scan_lines(s: BlockScan, name: str, carry: str, part: str, lane: str, warp: str, warps: int, folded: Callable[[str, str], str]) -> Iterator[str]:
    """The C of `block_scan`; `name`, `carry` and `part` are spelled arrays, and `folded(x, y)` is `x = x op y;`. The totals are read behind
    one barrier and written again only behind another."""
    x, so_far = f"{name}[0]", f"{carry}[0]"
    yield f"// {s.op} over the threads before{'' if s.is_exclusive else ' and this one'}, after {carry}"
    yield "{"
    yield "  #pragma unroll"
    yield "  for (int lanes = 1; lanes < 32; lanes *= 2) {"
    yield f"    const auto other = __shfl_up_sync(0xffffffffu, {x}, lanes);"
    yield f"    if ({lane} >= lanes) {folded(x, 'other')}"
    yield "  }"
    yield f"  auto before = {so_far};"
    if warps == 1:
        yield f"  const auto total = __shfl_sync(0xffffffffu, {x}, 31);"
        yield f"  {folded(so_far, 'total')}"
    else:
        yield "  __syncthreads();"
        yield f"  if ({lane} == 31) {part}[{warp}] = {x};"
        yield "  __syncthreads();"
        yield "  #pragma unroll"
        yield f"  for (int w = 0; w < {warps}; ++w) {{"
        yield f"    if (w < {warp}) {folded('before', f'{part}[w]')}"
        yield f"    {folded(so_far, f'{part}[w]')}"
        yield "  }"
    if s.is_exclusive:
        yield f"  const auto own = __shfl_up_sync(0xffffffffu, {x}, 1);"
        yield f"  if ({lane} > 0) {folded('before', 'own')}"
    else:
        yield f"  {folded('before', x)}"
    yield f"  {x} = before;"
    yield "}"
