"""Reports about other compilers, restated: constants that did not survive being printed and read (tvm 12617, 7339)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.analysis.validate import validate_index
from tinyir.analysis.validate_blocks import validate_poly
from tinyir.ir import index, poly, region, tiny
from tinyir.ir.types import DTYPES
from tinyir.lower import lower_to
from tinyir.lower.tiny import canonical
from tinyir.play.arrays import numpy_dtype
from tinyir.play.book import play as play_book
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny

# --- A18: infinities, NaN, -0.0 and subnormal numbers, as a pad, a guard's other value, a constant, and where a fold begins  # noqa: E501

CONSTANTS = [
    ("fp32", "inf", np.inf),
    ("fp32", "-inf", -np.inf),
    ("fp32", "nan", np.nan),
    ("fp32", "-0.0", -0.0),
    ("fp32", "1e-45", 1e-45),
    ("fp64", "5e-324", 5e-324),
    ("fp64", "1.7976931348623157e308", 1.7976931348623157e308),
    ("fp16", "65504.0", 65504),
    ("fp16", "6e-08", 6e-08),
    ("bf16", "-inf", -np.inf),
]
PROGRAM = """tinyir 1.0 tiny

model m
  in  x : {t}[3]
  out y : {t}[5]
  out z : {t}[3]
  out c : {t}[3]
  out top : {t}[3]

  %y = PAD(x) {{pad=[[1, 1]], value={v}}} : {t}[5]
  %z = VALID(x) {{guard="1 <= i0", value={v}}} : {t}[3]
  %k = CONST() {{value={v}}} : {t}[]
  %c = EXPAND(%k) : {t}[3]
  %r = RESHAPE(x) : {t}[3, 1]
  %e = SHRINK(%r) {{lo=[0, 0], hi=[3, 0]}} : {t}[3, 0]
  %top = REDUCE(%e) {{op=MAX, axes=[1], dtype={t}}} : {t}[3]

outputs: %y, %z, %c, %top
"""


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype, spelling, number", CONSTANTS, ids=lambda c: str(c))
def test_constants_survive_every_text(dtype: str, spelling: str, number: float) -> None:
    module: Any = tiny.parse(PROGRAM.format(t=dtype, v=spelling))
    assert [d for d in tiny.check(module) if d.is_error] == []
    own = numpy_dtype(DTYPES[dtype])
    x, k = np.array([1, -2, 3]).astype(own), np.array(number).astype(own)
    wanted = {
        "y": np.array([k, *x, k]),
        "z": np.array([k, *x[1:]]),
        "c": np.array([k] * 3),
        "top": np.full(3, -np.inf).astype(own),
    }
    plays = {"tiny": play_tiny, "index": play_book, "region": play_region}
    for stage, language in (("tiny", tiny), ("index", index), ("poly", poly), ("region", region)):
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        text = language.show(module)
        read = language.parse(text)
        assert language.show(read) == text and language.check(read) == []
        if stage == "poly":
            assert validate_index(read.index) == [] and validate_poly(read) == []
        for name, array in plays[stage](read, {"x": x}).items() if stage in plays else ():
            assert bits(array) == bits(wanted[name]), f"{name} at {stage}: {array}"


@pytest.mark.parametrize("inner, outer", [("0.0", "-0.0"), ("-0.0", "0.0"), ("1.0", "1.0"), ("nan", "nan")])
def test_a_constant_padded_with_another_stays_padded(inner: str, outer: str) -> None:
    """A sister: a zero padded with the other zero is not a splat, and a default is not what only equals it."""
    module = tiny.parse(
        PROGRAM.format(t="fp32", v=outer).replace(
            "%y = PAD(x)", f"%i = CONST() {{value={inner}}} : fp32[]\n  %s = EXPAND(%i) : fp32[3]\n  %y = PAD(%s)"
        )
    )
    x = np.ones(3, np.float32)
    wanted = np.full(5, np.float32(inner))
    wanted[[0, 4]] = np.float32(outer)
    for form in (module, canonical(module)):
        assert bits(play_tiny(form, {"x": x})["y"]) == bits(wanted)
