"""States on a real GPU: kept between calls, written in place, with graphs and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tinyir
from tinyir.runtime.cuda import find_fault

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]

MEAN = "graph<N=1> main(x: f32[N], s: f32[N]) -> (s: f32[N], y: f32[N]) { a = s * 0.5 + x return a, x - a }"
CACHE = """tinyir 1.0 tiny

model m
  in  cache : fp32[2, L, 8] {role=state, mutability=mutable}
  in  at : i64[S]
  in  k : fp32[2, S, 8]
  out cache : fp32[2, L, 8]
  out y : fp32[2, L]
shapes default {L=64, S=1}

  %new = SCATTER(cache, at, k) {axis=1, op=UPDATE} : fp32[2, L, 8]
  %y = REDUCE(%new) {op=SUM, axes=[2], dtype=fp32} : fp32[2, L]

outputs: cache=%new, %y
"""


def test_a_state_goes_on_from_call_to_call() -> None:
    """One by one, queued, and as a graph; set in between."""
    x, s = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with tinyir.compile(MEAN, device="cuda", params={"s": s}) as program:
        for call in range(6):
            if call == 4:
                s = np.full(1000, 8, np.float32)
                program.states["s"] = s
            found = program(x + call)
            s = s * np.float32(0.5) + (x + call)
            np.testing.assert_array_equal(program.states["s"], s)
            np.testing.assert_array_equal(found["y"], x + call - s)
            assert list(found) == ["y"]


def test_a_state_on_the_gpu_is_written_where_it_is() -> None:
    torch = pytest.importorskip("torch")
    x, s = torch.arange(1000.0).cuda(), torch.zeros(1000).cuda()
    wanted, address = torch.zeros(1000).cuda(), s.data_ptr()
    with tinyir.compile(MEAN, device="cuda") as program:
        for _ in range(4):
            found = program(x, s=s)
            wanted = wanted * 0.5 + x
            assert torch.equal(s, wanted) and s.data_ptr() == address
            assert found["s"].__cuda_array_interface__["data"][0] == address


def test_rows_of_a_cache(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    cache = draw.standard_normal((2, 64, 8)).astype(np.float32)
    with tinyir.compile(CACHE, device="cuda", params={"cache": cache}) as program:
        wanted = cache.copy()
        for places in ([3], [4], [63], [0, 5, 0], [9, 9, 9]):
            rows = draw.standard_normal((2, len(places), 8)).astype(np.float32)
            found = program(np.array(places), rows)
            for n, place in enumerate(places):
                wanted[:, place] = rows[:, n]
            np.testing.assert_array_equal(program.states["cache"], wanted)
            np.testing.assert_allclose(found["y"], wanted.sum(2), rtol=1e-5, atol=1e-5)
        program.save(tmp_path / "kept.tinyir")
    with tinyir.load(tmp_path / "kept.tinyir", device="cuda") as program:
        np.testing.assert_array_equal(program.states["cache"], wanted)
