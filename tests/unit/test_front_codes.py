"""Ops on codes of narrow formats, tuples of indices, order and bits, against NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir.ir import region, tiny
from tinyir.ir.types import DTYPES

from .test_front_families import refused
from .test_front_ops import run

equal = np.testing.assert_array_equal
FLOATS = {
    "fp8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "fp8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp4e2m1": ml_dtypes.float4_e2m1fn,
    "fp8e8m0": ml_dtypes.float8_e8m0fnu,
}


@pytest.mark.parametrize("form", FLOATS)
def test_every_code_is_what_its_format_says(form: str) -> None:
    codes = np.arange(16 if form == "fp4e2m1" else 256, dtype=np.uint8)
    equal(run("Decode", {"x": codes}, format=form), codes.view(FLOATS[form]).astype(np.float32))


@pytest.mark.parametrize("form", [f for f in FLOATS if f != "fp8e8m0"])
def test_a_value_gets_the_code_that_is_nearest(form: str) -> None:
    codes = np.arange(8 if form == "fp4e2m1" else 128, dtype=np.uint8)
    values = codes.view(FLOATS[form]).astype(np.float32)
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate(
        [
            values,
            middles,
            np.nextafter(middles, np.float32(0)),
            np.nextafter(middles, np.float32(np.inf)),
            np.float32([0]),
        ]
    )
    x = np.concatenate([x, -x, np.float32([np.nan])])
    equal(run("Encode", {"x": x}, format=form), x.astype(FLOATS[form]).view(np.uint8))


def test_beyond_the_greatest_a_value_saturates_or_is_no_number() -> None:
    x = np.float32([240, 247, 248, 1e6, np.inf, -np.inf, -1e6])
    top, nan = 0x7F, 0x80
    equal(run("Encode", {"x": x}, format="fp8e4m3fnuz"), [top, top, top, top, top, top | 0x80, top | 0x80])
    equal(run("Encode", {"x": x}, format="fp8e4m3fnuz", saturate=False), [top, top, nan, nan, nan, nan, nan])
    powers = np.float32([0, 0.124, 0.25, 1.1, 1.5, 2.0**127, np.inf])
    equal(run("Encode", {"x": powers}, format="fp8e8m0", rounding="up"), [0, 124, 125, 128, 128, 254, 254])
    equal(run("Encode", {"x": powers}, format="fp8e8m0", rounding="down"), [0, 123, 125, 127, 127, 254, 254])
    equal(run("Encode", {"x": powers}, format="fp8e8m0", rounding="nearest"), [0, 124, 125, 127, 128, 254, 254])
    assert run("Encode", {"x": np.float32([np.inf])}, format="fp8e8m0", saturate=False)[0] == 255


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=8))
def test_small_integers_wrap(values: list[int]) -> None:
    x = np.array(values, np.int32)
    for form, low, span in (("i4", -8, 16), ("u4", 0, 16), ("i2", -2, 4), ("u2", 0, 4)):
        equal(run("Encode", {"x": x}, format=form), (x - low) % span + low)


def test_gather_and_scatter_by_tuples() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    index = np.array([[0, 2], [1, -1], [-2, 0]])
    equal(run("GatherND", {"x": x, "i": index}), x[index[:, 0], index[:, 1]])
    equal(run("GatherND", {"x": x, "i": np.array([[0, 5], [1, 0]])}), np.stack([np.zeros(4, np.float32), x[1, 0]]))
    own = np.array([[2], [0]])
    equal(run("GatherND", {"x": x, "i": own}, batch=1), np.stack([x[0, 2], x[1, 0]]))
    rows = np.full((3, 4), 100, np.float32)
    wanted = x.copy()
    wanted[index[:, 0], index[:, 1]] = 100
    equal(run("ScatterND", {"x": x, "i": index, "u": rows}), wanted)
    twice = np.array([[0, 0], [0, 0], [9, 9]])
    wanted = x.copy()
    wanted[0, 0] += 200
    equal(run("ScatterND", {"x": x, "i": twice, "u": rows}, reduction="add"), wanted)
    assert refused("GatherND", {"x": x, "i": np.array([[0, 0, 0, 0]])}) == "E1012"
    assert refused("ScatterND", {"x": x, "i": index, "u": rows[:2]}) == "E1304"
    assert refused("GatherND", {"x": x, "i": own}, batch=2) == "E1006"


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5, np.inf, -np.inf]), min_size=1, max_size=7), st.booleans(), st.data()
)
def test_the_greatest_and_least_in_order(values: list[float], largest: bool, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(values)))
    x = np.float32([values, values[::-1]])
    found, index = run("TopK", {"x": x}, outputs=2, k=k, largest=largest)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :k]
    equal(index, order)
    equal(found, np.take_along_axis(x, order, 1))


def test_not_a_number_comes_first() -> None:
    x = np.float32([1, np.nan, 3])
    found, index = run("TopK", {"x": x}, outputs=2, k=2)
    equal(index, [1, 2])
    equal(found, np.float32([np.nan, 3]))
    assert refused("TopK", {"x": x}, k=4) == "E0107"


def test_bits_of_another_dtype() -> None:
    x = np.float32([1, -0.0, np.inf])
    equal(run("Elementwise", {"x": x}, fn="bitcast", to="i32"), x.view(np.int32))
    equal(run("Elementwise", {"x": x.view(np.int32)}, fn="bitcast", to="fp32"), x)
    equal(
        run("Elementwise", {"x": np.float16([1.5])}, fn="bitcast", to="bf16").view(np.uint16),
        np.float16([1.5]).view(np.uint16),
    )
    assert refused("Elementwise", {"x": x}, fn="bitcast", to="i16") == "E1002"
    assert refused("Elementwise", {"x": x > 0}, fn="bitcast", to="u8") == "E1002"


def test_bits_in_tiny_and_region_text() -> None:
    text = (
        "tinyir 1.0 tiny\n\nmodel main\n  in  x           : fp16[4]\n  out y           : i16[4]\n\n  %y             "
        "= BITCAST(x)                                           : i16[4]\n\noutputs: %y\n"
    )
    module = tiny.parse(text)
    assert tiny.check(module) == [] and tiny.show(module) == text
    assert [d.code for d in tiny.check(tiny.parse(text.replace("i16[4]", "i32[4]")))] == ["E1002"]
    from tinyir.lower import index, poly
    from tinyir.lower import region as lowering

    lowered = lowering.lower(poly.lower(index.lower(module)))
    shown = region.show(lowered)
    assert "bitcast(x[i0]) : i16" in shown
    assert region.show(region.parse(shown)) == shown
    from tinyir.play.region import play

    x = np.float16([1, -2, 0.5, 65504])
    equal(play(lowered, {"x": x})["y"], x.view(np.int16))
    assert DTYPES["i16"].bytes == 2
