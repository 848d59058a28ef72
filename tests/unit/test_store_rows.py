"""Tiles of shared memory that go to rows beginning anywhere: whole accesses and single elements together are every
element, once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinyir.sim.launch import SimDevice

from .simulated import Trial

TYPES = {1: ("unsigned char", np.uint8), 2: ("unsigned short", np.uint16), 4: ("float", np.float32)}
CODE = """
extern "C" __global__ void k(const {dtype} *A, {dtype} *B) {{
  __shared__ __align__(1024) unsigned char tile[{tall} * {whole} * {size}];
  for (int e = (int)threadIdx.x; e < {tall} * {whole}; e += 128) {{
    const int row = e / {whole}, byte = e % {whole} * {size}, place = row * {span} + byte % {span};
    *({dtype} *)(tile + byte / {span} * {tall} * {span} + (place ^ (place >> 3 & {span} - 16))) = A[e];
  }}
  __syncthreads();
  store_rows<{rows}, {columns}, {span}, {tall}>(B + {offset}, {pitch}, (const {dtype} *)tile, {high}, {wide});
}}"""
SHAPES = (  # bytes of an element; rows and columns that leave, of a tile; bytes of a swizzled row
    (2, (64, 64), (64, 64), 128),
    (2, (64, 128), (64, 128), 128),
    (2, (32, 128), (32, 128), 128),
    (2, (64, 32), (64, 64), 128),
    (2, (64, 16), (64, 128), 128),
    (2, (48, 64), (48, 64), 128),
    (2, (16, 64), (64, 64), 128),
    (2, (64, 32), (64, 32), 64),
    (2, (64, 16), (64, 16), 32),
    (4, (64, 32), (64, 32), 128),
    (4, (64, 16), (64, 32), 128),
    (1, (64, 128), (64, 128), 128),
    (1, (64, 32), (64, 32), 32),
    (1, (32, 64), (32, 64), 64),
    (4, (32, 128), (32, 128), 128),
    (4, (64, 64), (64, 64), 128),
    (1, (64, 16), (64, 32), 32),
)


def rows_stored(number: int) -> Trial:
    """One shape at places, pitches and ends drawn from its number."""
    size, (rows, columns), (tall, whole), span = SHAPES[number % len(SHAPES)]
    draw = np.random.default_rng(number)
    name, dtype = TYPES[size]
    offset, pitch = int(draw.integers(0, 20)), columns + int(draw.integers(0, 19))
    high, wide = (int(draw.choice([n, n + 5, draw.integers(-2, n)])) for n in (rows, columns))
    a = draw.integers(1, 200, (tall, whole)).astype(dtype)
    wanted = np.zeros(offset + rows * pitch + columns, dtype)
    for row, column in itertools.product(range(min(rows, high)), range(min(columns, wide))):
        wanted[offset + row * pitch + column] = a[row, column]
    code = CODE.format(
        dtype=name,
        size=size,
        rows=rows,
        columns=columns,
        tall=tall,
        whole=whole,
        span=span,
        offset=offset,
        pitch=pitch,
        high=high,
        wide=wide,
    )
    return Trial(code, {"A": a}, {"B": wanted}, {"cleared": ("B",)})


@pytest.mark.parametrize("number", range(4 * len(SHAPES)))
def test_every_element_is_written_once(number: int) -> None:
    trial = rows_stored(number)
    assert trial.differing(trial.on(SimDevice()), trial.wanted) == []


# --- from registers

HELD = """
extern "C" __global__ void k(const float *A, {dtype} *B) {{
  float x[{columns} / 2];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  for (int e = 0; e < {columns} / 2; ++e)
    x[e] = A[(16 * warp + lane / 4 + 8 * (e / 2 % 2)) * {columns} + 8 * (e / 4) + 2 * (lane % 4) + e % 2];
  store_held_{dtype_name}<{columns}, {is_known}>(B + {offset}, {pitch}, x, {high}, {wide});
}}"""
COLUMNS = (16, 32, 64, 128)


def rows_held(number: int) -> Trial:
    """An accumulator of one width and type, to rows that all begin on 16 bytes (every second number, which may be
    known) or anywhere."""
    draw = np.random.default_rng(number)
    name, columns, is_apart = (
        ("fp16", "bf16", "fp32")[number % 3],
        COLUMNS[number // 3 % len(COLUMNS)],
        number // 12 % 2 == 0,
    )
    offset, pitch = (
        (8 * int(draw.integers(0, 3)), columns + 8 * int(draw.integers(0, 3)))
        if is_apart
        else (int(draw.integers(1, 20)), columns + int(draw.integers(0, 19)))
    )
    high = int(draw.choice([64, 69, draw.integers(-2, 64)]))
    wide = (
        int(draw.choice([columns, columns + 8, 8 * draw.integers(0, columns // 8)]))
        if is_apart
        else int(draw.choice([columns, columns + 5, draw.integers(-2, columns)]))
    )
    a = draw.integers(-200, 200, (64, columns)).astype(np.float32)
    wanted = np.zeros(offset + 64 * pitch + columns, np.float32)
    for row, column in itertools.product(range(min(64, high)), range(min(columns, wide))):
        wanted[offset + row * pitch + column] = a[row, column]
    made = {
        "fp16": lambda x: x.astype(np.float16),
        "bf16": lambda x: (x.view(np.uint32) >> 16).astype(np.uint16),
        "fp32": lambda x: x,
    }[name](wanted)
    known = "true" if is_apart and number % 2 else "false"
    code = HELD.format(
        dtype="float" if name == "fp32" else name,
        dtype_name=name,
        columns=columns,
        is_known=known,
        offset=offset,
        pitch=pitch,
        high=high,
        wide=wide,
    )
    return Trial(code, {"A": a}, {"B": made}, {"cleared": ("B",)})


@pytest.mark.parametrize("number", range(48))
def test_every_element_that_registers_hold_is_written_once(number: int) -> None:
    trial = rows_held(number)
    assert trial.differing(trial.on(SimDevice()), trial.wanted) == []
