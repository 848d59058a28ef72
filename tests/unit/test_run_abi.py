"""The ABI: arrays against the signature, and their layout in memory."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.ir import tiny
from tinyir.kit.diag import Refused
from tinyir.play.arrays import in_memory
from tinyir.runtime.abi import admit, room_for

MODEL = tiny.parse(
    """tinyir 1.0 tiny

model m
  in  A : fp16[M, K] {layout=col_major}
  in  bias : fp32[K]
  out C : fp16[M, K] {layout=col_major}

%b = EXPAND(bias) {broadcast_dimensions=[1]} : fp32[M, K]
%c = CAST(%b) : fp16[M, K]
outputs: C=%c
"""
).model


def test_col_major_lies_exchanged_and_comes_back_as_it_was() -> None:
    a = np.arange(6, dtype=np.float16).reshape(2, 3)
    sizes, laid = admit(MODEL, {"A": a, "bias": np.zeros(3, np.float32)})
    assert sizes == {"M": 2, "K": 3}
    assert laid["A"].flags.c_contiguous and laid["A"].ravel().tolist() == [0, 3, 1, 4, 2, 5]
    room = room_for(MODEL.outputs[0], sizes)
    room[...] = laid["A"]
    assert np.array_equal(in_memory(MODEL.outputs[0], room), a)


def test_strided_and_foreign_endian_arrays_are_taken() -> None:
    wide = np.arange(24, dtype=">f2").reshape(4, 6)
    _, laid = admit(MODEL, {"A": wide[::2, ::2], "bias": np.arange(6, dtype=np.float32)[::2]})
    assert laid["bias"].tolist() == [0, 2, 4] and laid["bias"].flags.c_contiguous
    assert laid["A"].dtype == np.float16 and laid["A"].T.tolist() == [[0, 2, 4], [12, 14, 16]]


def test_all_faults_come_in_one_run_and_name_the_tensor() -> None:
    with pytest.raises(Refused) as fault:
        admit(MODEL, {"A": np.zeros((2, 3), np.float32), "bias": np.zeros(4, np.float32), "extra": np.zeros(1)})
    found = {(d.code, d.at) for d in fault.value.diags}
    assert found >= {("E1702", "A"), ("E1704", "extra")}
    assert any(code == "E1703" for code, _ in found)
