"""Files of arrays and random arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.play.arrays import adopt
from tinyir.runtime.arrays import random_arrays, read_arrays, sizes_for, write_arrays

MODEL = tiny.parse(
    """tinyir 1.0 tiny

model m
  in  A : fp16[M, K]
  in  n : u8[M]
  in  flag : bool[K]
  out A2 : fp16[M, K]
  sym M in 1..64
shapes small {M=3, K=5}
shapes large {M=64, K=1024}

outputs: A2=A
"""
).model


def codes(fault: Refused) -> list[str]:
    return [d.code for d in fault.diags]


def write_safetensors(path: Path, entries: dict, body: bytes) -> None:
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)


def test_npz_round_trip_keeps_names_bits_and_bytes(tmp_path: Path) -> None:
    arrays = {
        "file": np.arange(6, dtype=np.float16).reshape(2, 3),
        "empty": np.zeros((0, 4), np.int64),
        "scalar": np.array(True),
    }
    write_arrays(str(tmp_path / "a.npz"), arrays)
    first = (tmp_path / "a.npz").read_bytes()
    write_arrays(str(tmp_path / "a.npz"), arrays)
    assert (tmp_path / "a.npz").read_bytes() == first
    back = read_arrays([str(tmp_path / "a.npz")])
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape and np.array_equal(back[name], array)


def test_npy_is_named_by_its_stem_or_by_the_caller(tmp_path: Path) -> None:
    np.save(tmp_path / "left.npy", np.ones(3))
    assert list(read_arrays([str(tmp_path / "left.npy")])) == ["left"]
    assert list(read_arrays([f"A={tmp_path / 'left.npy'}"])) == ["A"]


def test_safetensors_reads_what_the_format_says(tmp_path: Path) -> None:
    values = np.arange(4, dtype=np.float32)
    entries = {
        "__metadata__": {"by": "test"},
        "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "t": {"dtype": "BOOL", "shape": [], "data_offsets": [16, 17]},
    }
    write_safetensors(tmp_path / "w.safetensors", entries, values.tobytes() + b"\1")
    back = read_arrays([str(tmp_path / "w.safetensors")])
    assert np.array_equal(back["w"], values.reshape(2, 2)) and back["t"] == np.array(True)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]},
        {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]},
        {"dtype": "X9", "shape": [4], "data_offsets": [0, 16]},
        {"shape": [4]},
        "no",
    ],
)
def test_a_damaged_safetensors_entry_is_refused(tmp_path: Path, entry: object) -> None:
    write_safetensors(tmp_path / "w.safetensors", {"w": entry}, bytes(16))
    with pytest.raises(Refused) as fault:
        read_arrays([str(tmp_path / "w.safetensors")])
    assert codes(fault.value) == ["E1710"]


def test_every_faulty_source_is_named_in_one_go(tmp_path: Path) -> None:
    (tmp_path / "cut.npz").write_bytes(b"PK\3\4 not an archive")
    (tmp_path / "short.safetensors").write_bytes(b"\xff\xff")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "A.npy", np.ones(1))
    sources = ["cut.npz", "absent.npz", "short.safetensors", "objects.npy", "k.cu", "A.npy"]
    with pytest.raises(Refused) as fault:
        read_arrays([str(tmp_path / s) for s in sources] + [f"A={tmp_path / 'A.npy'}"])
    assert codes(fault.value) == ["E1710", "E0008", "E1710", "E1710", "E1711", "E1712"]


def test_random_arrays_fit_the_signature_and_depend_on_seed_and_name_only() -> None:
    sizes = sizes_for(MODEL)
    assert sizes == {"M": 3, "K": 5}
    arrays = random_arrays(MODEL, sizes, 7)
    assert {n: (a.dtype.name, a.shape) for n, a in arrays.items()} == {
        "A": ("float16", (3, 5)),
        "n": ("uint8", (3,)),
        "flag": ("bool", (5,)),
    }
    again, other = random_arrays(MODEL, sizes, 7), random_arrays(MODEL, sizes, 8)
    assert np.array_equal(arrays["A"], again["A"]) and not np.array_equal(arrays["A"], other["A"])
    assert arrays["n"].max() <= 16
    large = random_arrays(MODEL, sizes_for(MODEL, "large"), 7)["A"].astype(np.float64)
    assert abs(large.mean()) < 0.02 and abs(large.std() - 1) < 0.02


def test_sizes_are_checked_against_the_signature() -> None:
    assert sizes_for(MODEL, "large", {"M": 7}) == {"M": 7, "K": 1024}
    for arguments, expected in (((None, {"Q": 3}), ["E1714"]), ((None, {"M": 65}), ["E1706"]), (("tiny",), ["E1713"])):
        with pytest.raises(Refused) as fault:
            sizes_for(MODEL, *arguments)
        assert codes(fault.value) == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (), (0, 2)])
def test_every_dtype_survives_a_npz(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = convert(np.full(shape, 1.5), DTYPES[dtype])
    write_arrays(str(tmp_path / "a.npz"), {"x": array})
    back = adopt(read_arrays([str(tmp_path / "a.npz")])["x"], DTYPES[dtype])
    assert back.dtype == array.dtype and back.shape == shape and back.tobytes() == array.tobytes()
