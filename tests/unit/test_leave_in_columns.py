"""Results whose rows are not those of one matrix, images with the channels first, leave along the columns of a tile."""

from __future__ import annotations

import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays

from .emitted import assert_as_played, lowered, region_text
from .stages import needs_host_compiler

SIDES = {"odd": (7, 7, 72), "whole accesses": (4, 10, 72), "whole tiles": (8, 16, 64)}  # of images, channels made
BODY = """for i0: 3, i1: {made}, i2: {rows}, i3: {columns}
%sum = reduce sum (k0: 64) : fp32 {{ mul(x[i0, i2, i3, k0], w[i1, k0]) : fp32 }}
%added = add(add(%sum, broadcast_in_dim(cast(b[i1]) : fp32, dims=[1])), cast(r[i0, i1, i2, i3]) : fp32)
yield y[i0, i1, i2, i3] = cast(relu(%added)) : fp16"""


def added(side: str) -> plan.Module:
    """Points of images with a residual, whose results leave so."""
    rows, columns, made = SIDES[side]
    image = f"fp16[3, {made}, {rows}, {columns}]"
    tensors = [f"in x : fp16[3, {rows}, {columns}, 64]", f"in w : fp16[{made}, 64]", f"in b : fp16[{made}]"]
    body = BODY.format(made=made, rows=rows, columns=columns)
    module = region.parse(region_text("\n".join([*tensors, f"in r : {image}", f"out y : {image}"]), body))
    found = (c.plan for c in candidates(module, module.program.regions[0], "sm90") if not c.rejected)
    chosen = next(p for p in found if p.algo == "warp_specialized" and {s.by for s in p.store} == {"columns"})
    return plan.Module(module, (chosen,))


@needs_host_compiler
@pytest.mark.parametrize("side", SIDES)
def test_they_are_what_playback_computes(side: str) -> None:
    """Also of tiles that hang over the last image and the last channel."""
    module = added(side)
    assert_as_played(lowered(module)[1], random_arrays(module.program.model, {}, 1), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("side", SIDES)
def test_a_piece_asks_for_all_that_it_reads_before_it_waits(side: str) -> None:
    """Of 16 bits as they are; where in an image a thread's columns are is found once."""
    module = added(side)
    text = gpu.show(to_gpu.lower(module))
    piece = text[text.rindex("let down = ") :]
    fetched, met, ended = piece.partition("store sums")
    assert met and "= r[" in fetched and "= r[" not in ended
    assert "let first = " in fetched and "let plane = " not in ended
    assert "  fp16 r_ahead[" in manifest.show(lowered(module)[1])
