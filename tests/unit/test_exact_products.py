"""A product in a wider dtype that holds it exactly: the kernels give it, and sums of it, as playback does, for every
pair of dtypes."""

from __future__ import annotations

import numpy as np

from tests.fuzz.trial import faults_of
from tinyir.ir import tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.rules import holds_product
from tinyir.ir.types import DTYPES

from .stages import needs_host_compiler

PAIRS = [(n, w) for n in DTYPES.values() for w in DTYPES.values() if n != w and holds_product(w, n)]


@needs_host_compiler
def test_products_in_a_wider_dtype() -> None:
    lines, outputs, arrays, text = [], [], {}, ["tinyir 1.0 tiny", "", "model products"]
    numbers = np.random.default_rng(0)
    for narrow, wide in PAIRS:
        own = f"{narrow}.{wide}"
        for side in "ab":
            text.append(f"  in  {own}.{side} : {narrow}[5, 2]")
            arrays[f"{own}.{side}"] = convert(numbers.integers(0 if narrow.kind == "u" else -4, 5, (5, 2)), narrow)
        text += [f"  out {own}.mul : {wide}[5, 2]", f"  out {own}.sum : {wide}[5]"]
        lines.append(f"  %{own}.mul = MUL({own}.a, {own}.b) : {wide}[5, 2]")
        lines.append(f"  %{own}.sum = REDUCE(%{own}.mul) {{op=SUM, axes=[1], dtype={wide}}} : {wide}[5]")
        outputs += [f"%{own}.mul", f"%{own}.sum"]
    whole = "\n".join([*text, "", *lines, "", "outputs: " + ", ".join(outputs), ""])
    assert len(PAIRS) > 10 and [str(f) for f in faults_of(tiny.parse(whole), arrays)] == []
