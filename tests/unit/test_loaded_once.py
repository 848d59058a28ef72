"""Tensors whose elements a kernel of folds loads once, and no others, are loaded past the caches."""

from __future__ import annotations

import re

import pytest

from tinyir.ir import manifest, plan, region
from tinyir.lower import plan as to_plan

from .emitted import lowered, region_text

ROWS = "in X : fp32[4096, 1024]\nout Y : fp32[4096]"
BOTH = "in X : fp32[4096, 1024]\nout Y : fp32[4096, 1024]"
SUM = "for i0: 4096\n%y = reduce sum (k0: 1024) : fp32 { {0} }\nyield Y[i0] = %y"
MEANT = "for i0: 4096, i1: 1024\n%m = reduce max (i1) : fp32 { X[i0, i1] }\n"


def with_input(stated: str) -> str:
    """The tensors of a sum of rows, and one more."""
    return ROWS.replace("out", f"in {stated}\nout")


NORM = MEANT + "yield Y[i0, i1] = sub(X[i0, i1], broadcast_in_dim(%m, dims=[0]))"


@pytest.mark.parametrize("algo", ["row_streamed", "row_resident"])
def test_rows_that_are_read_again_stay_in_l2_until_the_last_time(algo: str) -> None:
    module = region.parse(region_text(BOTH, NORM))
    found = (c.plan for c in to_plan.candidates(module, module.program.regions[0]))
    chosen = next(p for p in found if p.algo == algo and p.vectorize and len(p.threads) == 1)
    text = manifest.show(lowered(plan.Module(module, (chosen,)))[1])
    words = re.findall(r"\b(load_near_\w+|store_near_last)<", text[text.index("__global__") :])
    assert words == (["load_near_kept", "load_near_last", "store_near_last"] if algo == "row_streamed" else [])


CASES = {  # tensors, body, what is loaded once
    "a sum": (ROWS, SUM.replace("{0}", "X[i0, k0]"), "X"),
    "a sum of columns": (
        "in X : fp32[4096, 1024]\nout Y : fp32[1024]",
        "for i0: 1024\n%y = reduce sum (k0: 4096) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
        "X",
    ),
    "two factors": (
        with_input("Z : fp32[4096, 1024]"),
        SUM.replace("{0}", "mul(X[i0, k0], Z[i0, k0])"),
        "XZ",
    ),
    "a factor of all rows": (
        with_input("G : fp32[1024]"),
        SUM.replace("{0}", "mul(X[i0, k0], G[k0])"),
        "X",
    ),
    "a row that is written": (BOTH, MEANT + "yield Y[i0, i1] = sub(X[i0, i1], broadcast_in_dim(%m, dims=[0]))", ""),
    "a row that is also read elsewhere": (
        ROWS,
        "for i0: 4096\n%y = reduce sum (k0: 1024) : fp32 { X[i0, k0] }\nyield Y[i0] = add(%y, X[i0, 0])",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_loaded_once_passes_the_cache_by(name: str) -> None:
    tensors, body, wanted = CASES[name]
    text = manifest.show(lowered(to_plan.lower(region.parse(region_text(tensors, body))))[1])
    kernel = text[text.index("extern") :]
    loads = [line for line in kernel.splitlines() if "load_near" in line]
    assert loads
    assert {t for t in "XZG" for line in loads if "load_near_once<4>(" in line and f"&{t}[" in line} == {*wanted}
