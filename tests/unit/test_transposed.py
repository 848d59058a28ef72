"""Maps whose reads run along another axis than their writes: which they are, their text, and what they compute in the
simulation."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.neighbours import crossed_reads
from tinyir.kernels.transposed.blocks import sides_of
from tinyir.kernels.transposed.clocks import tiles_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, region_text, simulated

FEW_CHANNELS = (
    "in X : fp16[32, 9, 3]\nout Y : fp16[3, 9, 32]",
    "for i0: 3, i1: 9, i2: 32\nyield Y[i0, i1, i2] = X[i2, i1, i0]",
)
PERMUTE = "for i0: M, i1: N\nyield Y[i0, i1] = X[i1, i0]"
CASES = {  # crossed reads, tensors, body
    "fp32": (1, "in X : fp32[N, M]\nout Y : fp32[M, N]", PERMUTE),
    "fp16": (1, "in X : fp16[N, M]\nout Y : fp16[M, N]", PERMUTE),
    "u8": (1, "in X : u8[N, M]\nout Y : u8[M, N]", PERMUTE),
    "fp64": (1, "in X : fp64[N, M]\nout Y : fp64[M, N]", PERMUTE),
    "whole tiles": (
        1,
        "in X : fp16[128, 64]\nout Y : fp16[64, 128]",
        "for i0: 64, i1: 128\nyield Y[i0, i1] = X[i1, i0]",
    ),
    "blocks of eight, tiles that hang over": (
        1,
        "in X : fp16[72, 88]\nout Y : fp16[88, 72]",
        "for i0: 88, i1: 72\nyield Y[i0, i1] = X[i1, i0]",
    ),
    "blocks of a short axis": (
        1,
        "in X : fp16[3, 16, 8*N]\nout Y : fp16[3, 8*N, 16]",
        "for i0: 3, i1: 8*N, i2: 16\nyield Y[i0, i1, i2] = X[i0, i2, i1]",
    ),
    "blocks of bytes": (
        1,
        "in X : u8[16, 8*M]\nout Y : u8[8*M, 16]",
        "for i0: 8*M, i1: 16\nyield Y[i0, i1] = X[i1, i0]",
    ),
    "blocks of a sum with its transpose": (
        1,
        "in X : fp32[4*N, 12]\nin Z : fp32[12, 4*N]\nin b : fp32[4*N]\nout Y : fp32[12, 4*N]\nout W : fp16[12, 4*N]",
        "for i0: 12, i1: 4*N\n%x = add(X[i1, i0], Z[i0, i1])\n%y = add(%x, broadcast_in_dim(b[i1], dims=[1]))\n"
        "yield Y[i0, i1] = %y\nyield W[i0, i1] = cast(%x) : fp16",
    ),
    "blocks of two tensors, shifted by whole ones": (
        2,
        "in X : fp16[72, 40]\nin Z : fp32[64, 40]\nout Y : fp16[40, 64]",
        "for i0: 40, i1: 64\nyield Y[i0, i1] = add(X[i1 + 8, i0], cast(Z[i1, i0]) : fp16)",
    ),
    "shifted by less than a block": (
        1,
        "in X : fp16[72, 40]\nout Y : fp16[40, 64]",
        "for i0: 40, i1: 64\nyield Y[i0, i1] = X[i1 + 1, i0]",
    ),
    "a flat tensor": (
        1,
        "in X : fp16[40*N + 1]\nout Y : fp16[40, N]",
        "for i0: 40, i1: N\nyield Y[i0, i1] = X[i0 + 40*i1 + 1]",
    ),
    "blocks that begin before the first": (
        1,
        "in X : fp16[5121]\nout Y : fp16[64, 80]",
        "for i0: 64, i1: 80\nyield Y[i0, i1] = X[i0 + 64*i1 + 1]",
    ),
    "blocks of some columns of two matrices": (
        2,
        "in X : fp32[4*N, 72]\nin Z : fp32[4*N, 68]\nout Y : fp32[61, 4*N]",
        "for i0: 61, i1: 4*N\nyield Y[i0, i1] = sub(X[i1, i0 + 7], Z[i1, i0 + 3])",
    ),
    "blocks of a flat tensor": (
        1,
        "in X : fp16[5120]\nout Y : fp16[64, 80]",
        "for i0: 64, i1: 80\nyield Y[i0, i1] = X[i0 + 64*i1]",
    ),
    "heads of attention": (
        1,
        "in X : fp16[B, H, M, 8]\nout Y : fp16[B, 8, M, H]",
        "for i0: B, i1: 8, i2: M, i3: H\nyield Y[i0, i1, i2, i3] = X[i0, i3, i2, i1]",
    ),
    "channels last": (
        1,
        "in X : fp32[B, M, N, 5]\nout Y : fp32[B, 5, M, N]",
        "for i0: B, i1: 5, i2: M, i3: N\nyield Y[i0, i1, i2, i3] = X[i0, i2, i3, i1]",
    ),
    "images of 7 x 7, channels last": (
        1,
        "in X : fp16[2, 40, 7, 7]\nout Y : fp16[2, 7, 7, 40]",
        "for i0: 2, i1: 7, i2: 7, i3: 40\nyield Y[i0, i1, i2, i3] = X[i0, i3, i1, i2]",
    ),
    "images of 7 x 7, channels first": (
        1,
        "in X : fp16[2, 7, 7, 40]\nout Y : fp32[2, 40, 7, 7]",
        "for i0: 2, i1: 40, i2: 7, i3: 7\nyield Y[i0, i1, i2, i3] = cast(X[i0, i2, i3, i1]) : fp32",
    ),
    "images of 6 x 6 x 6, channels last": (
        1,
        "in X : fp16[24, 6, 6, 6]\nout Y : fp16[6, 6, 6, 24]",
        "for i0: 6, i1: 6, i2: 6, i3: 24\nyield Y[i0, i1, i2, i3] = X[i3, i0, i1, i2]",
    ),
    "rows of images, channels last": (
        1,
        "in X : fp16[2, 40, 9, 7]\nout Y : fp16[2, 7, 7, 40]",
        "for i0: 2, i1: 7, i2: 7, i3: 40\nyield Y[i0, i1, i2, i3] = X[i0, i3, i1 + 1, i2]",
    ),
    "parts of rows, channels last": (
        1,
        "in X : fp16[2, 40, 7, 9]\nout Y : fp16[2, 7, 7, 40]",
        "for i0: 2, i1: 7, i2: 7, i3: 40\nyield Y[i0, i1, i2, i3] = X[i0, i3, i1, i2]",
    ),
    "a sum with its transpose": (
        1,
        "in X : fp32[N, M]\nin Z : fp32[M, N]\nin b : fp32[N]\nout Y : fp32[M, N]\nout W : fp16[M, N]",
        "for i0: M, i1: N\n%x = add(X[i1, i0], Z[i0, i1])\n%y = add(%x, broadcast_in_dim(b[i1], dims=[1]))\n"
        "yield Y[i0, i1] = %y\nyield W[i0, i1] = cast(%x) : fp16",
    ),
    "two of them, shifted": (
        2,
        "in X : fp32[N + 1, M]\nin Z : fp16[N, M]\nout Y : fp32[M, N]",
        "for i0: M, i1: N\nyield Y[i0, i1] = mul(X[i1 + 1, i0], cast(Z[i1, i0]) : fp32)",
    ),
    "an outer axis stays": (
        0,
        "in X : fp32[N, M, 8]\nout Y : fp32[M, N, 8]",
        "for i0: M, i1: N, i2: 8\nyield Y[i0, i1, i2] = X[i1, i0, i2]",
    ),
    "one axis is both": (0, "in X : fp32[N, N]\nout Y : fp32[N]", "for i0: N\nyield Y[i0] = X[i0, i0]"),
    "a guarded read": (
        1,
        "in X : fp32[N, M]\nout Y : fp32[M, N]",
        "for i0: M, i1: N\nyield Y[i0, i1] = X[i1, i0] where 0 <= i0 - i1 else 0.0",
    ),
    "twice each element, with a border": (
        1,
        "in X : fp16[N, M]\nout Y : fp16[2*M + 2, N]",
        "for i0: 2*M + 2, i1: N\nyield Y[i0, i1] = X[i1, floor((i0 + 1)/2) - 1] where 0 <= i0 - 1 < 2*M else 1.0",
    ),
    "a guarded read that a guard chooses": (
        1,
        "in X : fp32[N, M]\nout Y : fp32[M, N]",
        "for i0: M, i1: N\n%x = X[i1, i0] where 0 <= i0 - i1 else 0.0\nyield Y[i0, i1] = %x where i1 < 20 else 2.0",
    ),
}
BLOCKS = {  # sides of those in which a tensor is turned
    "images of 6 x 6 x 6, channels last": {8},
    "whole tiles": {8},
    "blocks of eight, tiles that hang over": {8},
    "blocks of a short axis": {8},
    "blocks of bytes": {8},
    "blocks of a flat tensor": {8},
    "blocks that begin before the first": {8},
    "blocks of some columns of two matrices": {4},
    "blocks of a sum with its transpose": {4},
    "blocks of two tensors, shifted by whole ones": {4},
    "shifted by less than a block": {8},
}
SIZES = ({"M": 1, "N": 1, "B": 1, "H": 3}, {"M": 40, "N": 33, "B": 2, "H": 70}, {"M": 65, "N": 129, "B": 1, "H": 32})


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_tiles_compute_what_playback_computes(name: str) -> None:
    count, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    assert len(crossed_reads(module.program.regions[0])) == count
    found = [c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "transposed"]
    tiled = [c for c in found if c.cache]
    blocks = {c.vectorize[0].width for c in tiled if c.vectorize}
    assert blocks == BLOCKS.get(name, set()) and len(tiled) == (2 if count else 0) + 3 * bool(blocks)
    handed = {c.vectorize[0].width for c in found if not c.cache}
    assert handed == {width for width in (2, 4, 8) if blocks and width <= max(blocks)}
    for chosen in found:
        kernels, code = lowered(plan.Module(module, (chosen,)))
        assert [d.code for d in check_plan(plan.Module(module, (chosen,))) if d.is_error] == []
        for seed, sizes in enumerate(SIZES):
            arrays = random_arrays(module.model, sizes, seed)
            given, wanted = simulated(code, arrays, seed), played(code, arrays)
            for output, array in wanted.items():
                np.testing.assert_allclose(
                    given[output].astype(np.float64),
                    array.astype(np.float64),
                    rtol=1e-3,
                    err_msg=f"{output} at {sizes}",
                )


def test_every_access_is_by_neighbouring_lanes() -> None:
    """In the text the fastest index of each tensor is the lane's own, of the tile's too where it is filled."""
    _, tensors, body = CASES["whole tiles"]
    module = region.parse(region_text(tensors, body))
    found = candidates(module, module.program.regions[0])
    chosen = next(c.plan for c in found if c.plan.tile == (4096,) and not c.plan.vectorize)
    text = manifest.show(lowered(plan.Module(module, (chosen,)))[1])
    stores = re.findall(r"^ +(\w+_tile\[.*|Y\[.*) = (.*);$", text, re.M)
    assert [(left, right) for left, right in stores] == [
        ("X_tile[8 * u + warp_index][32 * h + lane]", "X[i1 * 64 + i0]"),
        ("Y[i0 * 128 + i1]", "X_tile[32 * h + lane][8 * u + warp_index]"),
    ]
    assert (
        "const int i0 = 32 * h" in text.split("__syncthreads")[0]
        and "const int i1 = 32 * h" in text.split("__syncthreads")[1]
    )


@pytest.mark.parametrize("sides", [(1024, 1024), (8192, 6144)])
def test_large_ones_are_chosen(sides: tuple[int, int]) -> None:
    rows, columns = sides
    text = region_text(
        f"in X : fp16[{columns}, {rows}]\nout Y : fp16[{rows}, {columns}]",
        f"for i0: {rows}, i1: {columns}\nyield Y[i0, i1] = X[i1, i0]",
    )
    assert to_plan.lower(region.parse(text)).plans[0].algo == "transposed"


@pytest.mark.parametrize(("parts", "side", "algo"), [(1, 448, "transposed"), (8, 28, "flat")])
def test_few_elements_of_many_parts_are_not_passed_through_a_tile_of_each(parts: int, side: int, algo: str) -> None:
    """A block is in one of them; element by element only that one is read."""
    names = [f"x{n}" for n in range(parts)]
    reads = [f"(x{n}[0, i2 - {32 * n}, i0, i1]) where 0 <= i2 - {32 * n} < 32 else 0.0" for n in range(parts)]
    value = reads[0]
    for read in reads[1:]:
        value = f"add({value}, {read})"
    columns = 32 * max(2, parts)
    tensors = [
        *(f"in {name} : fp16[1, 32, {side}, {side}]" for name in names),
        f"out y : fp16[{side}, {side}, {columns}]",
    ]
    rows = f"for i0: {side}, i1: {side}, i2: {columns}\nyield y[i0, i1, i2] = {value}"
    module = region.parse(region_text("\n".join(tensors), rows))
    kept = [c for c in candidates(module, module.program.regions[0], "sm90", "h200") if not c.rejected]
    assert kept[0].plan.algo == algo and {c.plan.algo for c in kept} == {"flat", "transposed"}


def test_without_its_barrier_the_kernel_is_refused() -> None:
    _, tensors, body = CASES["fp32"]
    planned = to_plan.lower(region.parse(region_text(tensors, body)))
    text = gpu.show(to_gpu.lower(planned))
    assert "\n  barrier cta\n" in text
    assert any(d.is_error for d in check_gpu(gpu.parse(text.replace("\n  barrier cta\n", "\n", 1))))


def test_other_tiles_are_refused() -> None:
    _, tensors, body = CASES["fp32"]
    module = region.parse(region_text(tensors, body))
    chosen = to_plan.lower(module).plans[0]
    assert {d.code for d in check_plan(plan.Module(module, (replace(chosen, tile=(2048,), micro=(8,)),))) if d.is_error}


def test_blocks_move_in_whole_accesses_and_are_turned_as_they_are() -> None:
    """Sixteen bytes both ways, and no number of 16 bits becomes one of 32 on its way."""
    _, tensors, body = CASES["whole tiles"]
    module = region.parse(region_text(tensors, body))
    chosen = next(c.plan for c in candidates(module, module.program.regions[0]) if c.plan.vectorize)
    text = manifest.show(lowered(plan.Module(module, (chosen,)))[1])
    kernel = text[text.index("__global__") :]
    assert "load_near<8>(&X_block[a][0], &X[i1 * 64 + i0]);" in kernel
    assert "store_near<8>(&Y[i0 * 128 + i1], " in kernel
    assert "fp16 X_block[8][8]" in kernel and "float" not in kernel


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [((8192, 8192), (64, 64)), ((16, 131072), (16, 256)), ((131072, 16), (256, 16)), ((8, 8), (8, 512))],
)
def test_a_tile_is_as_long_as_a_short_axis(axes: tuple[int, int], wanted: tuple[int, int]) -> None:
    rows, columns = axes
    text = region_text(
        f"in X : fp16[{columns}, {rows}]\nout Y : fp16[{rows}, {columns}]",
        f"for i0: {rows}, i1: {columns}\nyield Y[i0, i1] = X[i1, i0]",
    )
    module = region.parse(text)
    one = module.program.regions[0]
    chosen = next(c.plan for c in candidates(module, one) if c.plan.vectorize and c.plan.tile == (4096,))
    sides = sides_of(chosen, one)
    assert (sides.across, sides.along) == wanted


@pytest.mark.parametrize(
    ("name", "tiles"),
    [
        ("images of 7 x 7, channels last", 2 * 2 * 2),
        ("images of 7 x 7, channels first", 2 * 2 * 2),
        ("rows of images, channels last", 2 * 2 * 2),
        ("parts of rows, channels last", 2 * 7 * 2),
    ],
)
def test_axes_that_are_one_in_memory_share_tiles(name: str, tiles: int) -> None:
    """Tiles of 32 x 32 of 40 channels have 32 of 49 pixels, not 7; none of parts of rows."""
    _, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    found = [c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "transposed"]
    chosen = next(p for p in found if p.tile == (32 * 32,) and not p.vectorize)
    assert to_gpu.lower(plan.Module(module, (chosen,))).kernels[0].grid[0].evaluate({}) == tiles


def test_threads_that_do_not_share_the_blocks_evenly_are_refused() -> None:
    _, tensors, body = CASES["whole tiles"]
    module = region.parse(region_text(tensors, body))
    chosen = next(c.plan for c in candidates(module, module.program.regions[0]) if c.plan.vectorize)
    for other in ({"threads": (96,)}, {"tile": (4160,)}, {"vectorize": (plan.Vectorize("i1", 4),)}):
        edited = plan.Module(module, (replace(chosen, **other),))
        assert {d.code for d in check_plan(edited) if d.is_error}


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize(("rows", "columns"), [(16, 131072), (1 << 18, 64), (8192, 8192), (32768, 1024)])
def test_whole_vectors_are_taken_where_they_fit(rows: int, columns: int, dtype: str) -> None:
    """Also of shapes that are so small that a trip to memory is most of the time."""
    tensors = f"in X : {dtype}[{rows}, {columns}]\nout Y : {dtype}[{columns}, {rows}]"
    text = region_text(tensors, f"for i0: {columns}, i1: {rows}\nyield Y[i0, i1] = X[i1, i0]")
    (one,) = to_plan.lower(region.parse(text), device="h200").plans
    assert (one.algo, one.widest) == ("transposed", {"fp16": 8, "fp32": 4}[dtype]) and one.cache


@pytest.mark.parametrize(
    ("columns", "dtype", "width"), [(8, "fp16", 2), (16, "fp16", 2), (8, "fp32", 2), (16, "fp32", 4)]
)
def test_rows_of_a_few_columns_are_turned_in_registers(columns: int, dtype: str, width: int) -> None:
    """Without a barrier, and with stores as wide as make a warp read the fewest lines."""
    tensors = f"in X : {dtype}[1048576, {columns}]\nout Y : {dtype}[{columns}, 1048576]"
    text = region_text(tensors, f"for i0: {columns}, i1: 1048576\nyield Y[i0, i1] = X[i1, i0]")
    planned = to_plan.lower(region.parse(text), device="h200")
    (one,) = planned.plans
    assert (one.algo, one.widest, one.cache) == ("transposed", width, ())
    assert "barrier" not in gpu.show(to_gpu.lower(planned))


def test_a_short_axis_takes_as_many_tiles_as_a_side_of_one() -> None:
    module = region.parse(region_text(*FEW_CHANNELS))
    plans = [c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "transposed"]
    assert {p.tile for p in plans if not p.vectorize} == {(32 * 32,), (64 * 64,)}
    for chosen in (p for p in plans if not p.vectorize):
        kernel = to_gpu.lower(plan.Module(module, (chosen,))).kernels[0]
        assert tiles_of(chosen, module.program.regions[0], {}) == kernel.grid[0].evaluate({}) == 9
