"""Padded copies of operands whose rows are a few lines, as images of 49 pixels have them."""

from __future__ import annotations

from typing import Any

import pytest

from tinyir.front import read
from tinyir.ir import manifest, plan, region
from tinyir.kernels.parts.padding import padded_operands
from tinyir.kernels.problem import kernel_of
from tinyir.lower import lower_to
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays

from .emitted import assert_as_played, lowered, region_text
from .random_convolutions import Convolution
from .stages import needs_host_compiler

LINES = {49: 1, 100: 2, 196: 4, 350: 6, 449: 8}  # of a row, by its elements


def padded(pixels: int) -> plan.Module:
    """A product of three images that are copied so."""
    tensors = f"in x : fp16[3, 40, {pixels}]\nin w : fp16[64, 40]\nout y : fp16[3, 64, {pixels}]"
    body = f"""for i0: 3, i1: 64, i2: {pixels}
    %sum = reduce sum (k0: 40) : fp32 {{ mul(w[i1, k0], x[i0, k0, i2]) : fp32 }}
    yield y[i0, i1, i2] = cast(%sum) : fp16"""
    module = region.parse(region_text(tensors, body))
    found = (c.plan for c in candidates(module, module.program.regions[0]) if not c.rejected)
    return plan.Module(module, (next(p for p in found if p.is_padded("x")),))


@needs_host_compiler
@pytest.mark.parametrize("pixels", LINES)
def test_short_rows_are_copied_line_by_line(pixels: int) -> None:
    """A warp copies eight lines, of as many rows as have them; one of rows of eight lines has one row."""
    module = padded(pixels)
    kernels, code = lowered(module)
    copies = next(k for k in kernels.kernels if k.name.endswith(".pad"))
    assert copies.grid[0].evaluate({}) == 120 * LINES[pixels] // 64 + (120 * LINES[pixels] % 64 > 0)
    text = manifest.show(code)
    assert "  *(vector_of<fp16, 8> *)&r_x_padded[" in text and "r_x_padded[col_a + v" not in text  # zeros too
    assert_as_played(code, random_arrays(module.program.model, {}, 1), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("pixels", LINES)
def test_what_a_copy_writes_is_counted_in_lines(pixels: int) -> None:
    module = padded(pixels)
    (one,) = module.program.program.regions
    (copy,) = padded_operands(module.plans[0], one, kernel_of(one, "contraction"))
    assert copy.bytes_moved({}) == 120 * (2 * pixels + 128 * LINES[pixels])


def test_images_of_an_odd_size_are_turned_where_that_is_faster() -> None:
    """8x1024x14² to 256 by points: 10.6 us on an H200, 12.3 where rows of 196 are padded."""
    ones = (1, 1)
    case = Convolution("fp16", 8, 1024, 256, 1, (14, 14), ones, ones, ones, (0, 0), (0, 0), False, False, "bias relu")
    module: Any = read(case.model())
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", "h200")
    assert [p.algo for p in module.plans] == ["transposed", "warp_specialized"]
    assert not any(p.layout for p in module.plans)
