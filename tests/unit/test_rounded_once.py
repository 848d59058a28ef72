"""What stmatrix stores is rounded where it is stored, and nowhere before where nothing else is done with it."""

from __future__ import annotations

from typing import Any

import pytest

from tinyir.ir import manifest, region
from tinyir.lower import lower_to

from .emitted import region_text


def kernel_of(dtype: str, more: str = "", output: str = "") -> str:
    """The kernel of a product with a bias and a ReLU, and of what `more` yields."""
    tensors = (
        f"in A : {dtype}[4096, 768]\nin B : {dtype}[3072, 768]\nin b : fp32[3072]\nout Y : {dtype}[4096, 3072]{output}"
    )
    module: Any = region.parse(
        region_text(
            tensors,
            "for i0: 4096, i1: 3072\n%s = reduce sum (k0: 768) : fp32 { mul(A[i0, k0], B[i1, k0]) : fp32 }\n"
            "%r = relu(add(%s, broadcast_in_dim(b[i1], dims=[1])))\n"
            f"%y = cast(%r) : {dtype}\nyield Y[i0, i1] = %y{more}",
        )
    )
    for stage in ("plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90", "h200")
    text = manifest.show(module)
    return text[text.index("__global__") :]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_what_is_stored_by_matrices_alone_is_rounded_there(dtype: str) -> None:
    kernel = kernel_of(dtype)
    assert f"store_piece_{dtype}" in kernel and f"{dtype}_of_float(" not in kernel


def test_what_is_used_otherwise_as_well_is_rounded_before() -> None:
    more = "\nyield Z[i0, i1] = add(cast(%y) : fp32, 1.0)"
    kernel = kernel_of("fp16", more, "\nout Z : fp32[4096, 3072]")
    assert "store_piece_fp16" in kernel and "float_of_fp16(fp16_of_float(" in kernel
