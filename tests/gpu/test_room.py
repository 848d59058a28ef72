"""A decoder whose caches have room, from token to token on a card: one program, and one graph that gets the lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tinyir
from tinyir.runtime.cuda import find_fault

pytest.importorskip("onnx")
from tests.unit.test_front_onnx_states import DEPTH, HEADS, PAST, ROOM, decoder, step  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


@pytest.mark.parametrize("is_queued", [False, True])
def test_one_program_and_one_graph_serve_all_lengths(tmp_path: Path, is_queued: bool) -> None:
    cupy = pytest.importorskip("cupy") if is_queued else None
    (tmp_path / "net.onnx").write_bytes(decoder())
    draw = np.random.default_rng(0)
    empty = np.zeros((1, HEADS, ROOM, DEPTH), np.float32)
    with tinyir.compile(tmp_path / "net.onnx", device="cuda", room=ROOM, params=dict.fromkeys(PAST, empty)) as program:
        stream = cupy.cuda.Stream(non_blocking=True) if is_queued else None
        run = program.on_stream(stream) if is_queued else program
        k = v = np.zeros((1, HEADS, 0, DEPTH), np.float32)
        for token in range(ROOM):
            q, new_k, new_v = (draw.standard_normal((1, HEADS, 1, DEPTH)).astype(np.float32) for _ in range(3))
            mask = draw.standard_normal((1, token + 1)).astype(np.float32)
            k, v = np.concatenate([k, new_k], 2), np.concatenate([v, new_v], 2)
            given = [q, new_k, new_v, mask]
            if is_queued:
                with stream:
                    given = [cupy.asarray(array) for array in given]
            found = run(*given)["y"]
            y = found if isinstance(found, np.ndarray) else found.numpy()
            np.testing.assert_allclose(y, step(k, v, q, mask), rtol=1e-4, atol=1e-5)
        for name, wanted in zip(PAST, (k, v)):
            np.testing.assert_array_equal(program.states[name], wanted)
        session = program._session
        held = [queued for _, queued in session.on_streams._kept] if is_queued else session._programs
        assert len(held) == 1
        sets = held[0]._sets if is_queued else held[0]._replays.sets
        assert len([one for one in sets._kept.values() if one.graph is not None]) == 1
