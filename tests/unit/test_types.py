"""ir.types: dtypes, rounding, and the shortest spelling of a number."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir import front
from tinyir.front.builder import rounded
from tinyir.front.program.program import _literal
from tinyir.ir import tiny
from tinyir.ir.rules import holds_product
from tinyir.ir.types import DTYPES, is_exact, promote, round_to, show_number

from .effort import counted

FLOATS = [d for d in DTYPES.values() if d.is_float]


def numpy_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, DTYPES[name].numpy, None) or DTYPES[name].numpy)


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@given(st.floats(allow_nan=False, width=64))
def test_rounding_agrees_with_numpy(name: str, value: float) -> None:
    with np.errstate(all="ignore"):
        wanted = float(np.float64(value).astype(numpy_of(name)))
    given_ = round_to(DTYPES[name], value)
    assert (math.isnan(wanted) and math.isnan(given_)) or (
        wanted == given_ and math.copysign(1, wanted) == math.copysign(1, given_)
    )


@pytest.mark.parametrize("name", [d.name for d in DTYPES.values() if d.is_integer])
@given(st.integers(-(2**70), 2**70))
def test_integers_wrap(name: str, value: int) -> None:
    d = DTYPES[name]
    wrapped = round_to(d, value)
    assert d.lowest <= wrapped <= d.highest and (wrapped - value) % (1 << d.bits) == 0


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@given(st.floats(width=64))
def test_a_number_reads_back_the_same(name: str, value: float) -> None:
    kept = round_to(DTYPES[name], value)
    back = round_to(DTYPES[name], float(show_number(kept, DTYPES[name])))
    assert back == kept or (math.isnan(back) and math.isnan(kept))
    assert math.copysign(1, back) == math.copysign(1, kept) or math.isnan(kept)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_exact_casts_keep_every_value(source: str, target: str) -> None:
    a, b = numpy_of(source), numpy_of(target)
    if DTYPES[source].bits <= 16:
        width = np.uint8 if a.itemsize == 1 else np.uint16
        values = np.arange(2 if source == "bool" else 1 << (8 * a.itemsize), dtype=np.uint32).astype(width).view(a)
    else:
        rng = np.random.default_rng(1)
        values = rng.integers(0, 1 << 63, 4000, dtype=np.uint64).view(np.uint8).view(a)
    with np.errstate(all="ignore"):
        back = values.astype(b).astype(a)
        keeps = bool(np.all((back == values) | (values != values)))
    if is_exact(DTYPES[source], DTYPES[target]):
        assert keeps
    elif source != target and not (source == "i64" and target == "u64" or source == "u64" and target == "i64"):
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64) if a.itemsize < 8 else None
            assert not keeps or (
                wide is not None and not np.array_equal(values.astype(b).astype(np.float64), wide, equal_nan=True)
            )


@pytest.mark.parametrize(
    "left, right, wanted",
    [
        ("fp16", "fp32", "fp32"),
        ("fp16", "bf16", "fp32"),
        ("i32", "fp16", "fp64"),
        ("bool", "i8", "i8"),
        ("u8", "i8", "i16"),
        ("i64", "u64", "fp64"),
    ],
)
def test_promotion(left: str, right: str, wanted: str) -> None:
    assert promote(DTYPES[left], DTYPES[right]).name == wanted == promote(DTYPES[right], DTYPES[left]).name


def test_what_a_multiplication_may_widen_to() -> None:
    assert holds_product(DTYPES["fp32"], DTYPES["fp16"]) and holds_product(DTYPES["fp32"], DTYPES["bf16"])
    assert holds_product(DTYPES["i32"], DTYPES["i8"]) and not holds_product(DTYPES["fp16"], DTYPES["bf16"])
    assert not holds_product(DTYPES["fp32"], DTYPES["i8"])


@pytest.mark.parametrize(("extent", "codes"), [((1 << 61) - 1, []), (1 << 61, ["E0006", "E0006"])])
def test_bytes_are_numbered_by_integers_of_64_bits(extent: int, codes: list[str]) -> None:
    text = f"graph main(x: f32[{extent}]) -> (y: f32[{extent}]) {{ return relu(x) }}"
    assert [d.code for d in tiny.check(front.read(text))] == codes


def test_each_number_of_a_table_is_spelt_once() -> None:
    dtype = DTYPES["fp32"]
    table = np.tile(np.float32([-0.0, 0.0, 0.1, 3.0, np.inf, np.nan, 1e-9]), (200, 10))
    calls, (value, plain) = counted(_literal, table, table[0, 0], dtype)
    assert calls < table.size
    assert plain[1][:7] == [-0.0, 0.0, 0.1, 3.0, "inf", "nan", 1e-9] and str(plain[1][0]) == "-0.0"
    found = rounded(dtype, value)
    assert np.array_equal(np.float32(found), table, equal_nan=True) and str(found[1][:2]) == "(-0.0, 0.0)"
