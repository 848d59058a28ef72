"""Tiles of shared memory that go to rows beginning anywhere: whole accesses and single elements together are every element, once."""

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
SHAPES = (  # bytes of an element; rows and columns that leave, of a tile of so many; bytes of a swizzled row
    (2, (64, 64), (64, 64), 128), (2, (64, 128), (64, 128), 128), (2, (32, 128), (32, 128), 128), (2, (64, 32), (64, 64), 128), (2, (64, 16), (64, 128), 128),
    (2, (48, 64), (48, 64), 128), (2, (16, 64), (64, 64), 128), (2, (64, 32), (64, 32), 64), (2, (64, 16), (64, 16), 32), (4, (64, 32), (64, 32), 128),
    (4, (64, 16), (64, 32), 128), (1, (64, 128), (64, 128), 128), (1, (64, 32), (64, 32), 32), (1, (32, 64), (32, 64), 64), (4, (32, 128), (32, 128), 128), (4, (64, 64), (64, 64), 128),
    (1, (64, 16), (64, 32), 32),
)  # fmt: skip


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
    code = CODE.format(dtype=name, size=size, rows=rows, columns=columns, tall=tall, whole=whole, span=span, offset=offset, pitch=pitch, high=high, wide=wide)
    return Trial(code, {"A": a}, {"B": wanted}, {"cleared": ("B",)})


@pytest.mark.parametrize("number", range(4 * len(SHAPES)))
def test_every_element_is_written_once(number: int) -> None:
    trial = rows_stored(number)
    assert trial.differing(trial.on(SimDevice()), trial.wanted) == []
