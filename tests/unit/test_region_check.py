"""tiny-check on region text: every planted fault is named by its code, and nothing sound is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir import region
from tinyir.ir.prove_region import obligations_of

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "samples/gemm_bias_relu/gemm_bias_relu.region"
DESIGN = ROOT / "tests/golden/design"
CONV, LAYERNORM, ATTENTION = (DESIGN / f"{n}.region" for n in ("conv_pad_stride", "layernorm", "attention_causal"))
SOUND = sorted([GEMM, *DESIGN.glob("*.region"), *(ROOT / "tests/golden/region").glob("*.region")])

FAULTS = [
    # a guard lost, weakened or shifted
    (CONV, " where 0 <= 2*i2 + k1 - 1 < H and 0 <= 2*i3 + k2 - 1 < W else 0.0", "", "E1403"),
    (CONV, "0 <= 2*i2 + k1 - 1 < H and ", "", "E1403"),
    (CONV, "0 <= 2*i2 + k1 - 1 < H", "2*i2 + k1 - 1 < H", "E1403"),
    (CONV, "0 <= 2*i2 + k1 - 1 < H", "0 <= 2*i2 + k1 - 1", "E1403"),
    (CONV, "0 <= 2*i3 + k2 - 1 < W", "0 <= 2*i3 + k2 - 1 < W + 1", "E1403"),
    (CONV, "0 <= 2*i3 + k2 - 1 < W", "0 <= 2*i3 + k2 < W", "E1403"),
    (CONV, "k1: 3", "k1: 4", "E1403"),
    # a read past the end
    (GEMM, "A[i0, k0]", "A[i0, k0 + 1]", "E1403"),
    (GEMM, "A[i0, k0]", "A[i0 - 1, k0]", "E1403"),
    (GEMM, "B[k0, i1]", "B[i1, k0]", "E1403"),
    (GEMM, "bias[i1]", "bias[i1 + 1]", "E1403"),
    (LAYERNORM, "gamma[i1]", "gamma[2*i1]", "E1403"),
    (ATTENTION, "K[i0, i1, i3, k0]", "K[i0, i1, i3, 2*k0]", "E1403"),
    # an element written twice, never, or by whom it varies
    (GEMM, "yield C2[i0, i1]", "yield C2[i0, 0]", "E1404"),
    (GEMM, "= cast(%relu) : fp16", "= cast(%relu) : fp16 if 1 <= i0", "E1404"),
    (GEMM, "  yield C2[i0, i1] = cast(%relu) : fp16\n", "  yield C2[i0, i1] = cast(%relu) : fp16\n" * 2, "E1404"),
    (LAYERNORM, "yield Y[i0, i1] = cast(%y)", "yield Y[i0, i0] = cast(%y)", "E1404"),
    (LAYERNORM, "yield Rstd[i0] = %rstd", "yield Rstd[i0] = %d", "E1404"),
    (LAYERNORM, "yield Rstd[i0] = %rstd", "yield Rstd[i0 + 1] = %rstd", "E1404"),
    (GEMM, "for i0: M, i1: N", "for i0: M, i1: K", "E1403"),
    # a fold that starts wrongly, narrows, or is none
    (LAYERNORM, "reduce sum (i1) : fp32 { %x }", "reduce sum (i1) from 1.0 : fp32 { %x }", "E1405"),
    (ATTENTION, "reduce max (i3) : fp32", "reduce max (i3) from 0.0 : fp32", "E1405"),
    (ATTENTION, "reduce max (i3) : fp32", "reduce most (i3) : fp32", "E0106"),
    (LAYERNORM, "reduce sum (i1) : fp32 { %x }", "reduce sum (i1) : fp32 { cast(%x) : fp64 }", "E1406"),
    (LAYERNORM, "reduce sum (i1) : fp32 { %x }", "reduce argmax (i1) : fp32 { %x }", "E1406"),
    # an axis dropped, invented, or twice
    (GEMM, "reduce sum (k0: K) : fp32 {", "reduce sum (k1: K) : fp32 {", "E1407"),
    (GEMM, "reduce sum (k0: K) : fp32 {", "reduce sum (k0) : fp32 {", "E1407"),
    (GEMM, "reduce sum (k0: K) : fp32 {", "reduce sum (i1: K) : fp32 {", "E1407"),
    (GEMM, "for i0: M, i1: N", "for i0: M", "E1407"),
    (GEMM, "for i0: M, i1: N", "for i0: M, i1: N, i1: N", "E1407"),
    (GEMM, "for i0: M, i1: N", "for i0: M, i1: N, K: N", "E1407"),
    (GEMM, "parallel [i0, i1]", "parallel [i0, i9]", "E1407"),
    # operands that do not meet
    (GEMM, "broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1])", "cast(bias[i1]) : fp32", "E1408"),
    (GEMM, "dims=[1]", "dims=[0]", "E1408"),
    (LAYERNORM, "sub(%x, broadcast_in_dim(%mean, dims=[0]))", "sub(%x, %mean)", "E1408"),
    (GEMM, "mul(A[i0, k0], B[k0, i1])", "mul(A[i0, k0], broadcast_in_dim(B[k0, i1], dims=[1]))", "E1409"),
    (GEMM, "A[i0, k0]", "A[i0, k0, 0]", "E1410"),
    (GEMM, "A[i0, k0]", "A[0][i0, k0]", "E1412"),
    # memory and order
    (GEMM, "  out C2          : fp16[M, N]\n  for", "  out C2          : fp16[N, M]\n  for", "E1402"),
    (
        GEMM,
        "  in  A           : fp16[M, K]\n  in  B           : fp16[K, N]\n  in  bias        : fp16[N]\n  out",
        "  in  A           : fp16[M, K]\n  in  B           : fp16[K, M]\n  in  bias        : fp16[N]\n  out",
        "E1402",
    ),
    (ATTENTION, "{materialize=deferred}\n  for", "{materialize=at}\n  for", "E1302"),
    (ATTENTION, "{materialize=deferred}\n  for", "{materialize=gmem}\n  for", "E1402"),
    (ATTENTION, "{materialize=deferred}\n\nregion", "\n\nregion", "E1402"),
    (GEMM, "fp16[M, N]\n  for", "fp16[M, N] {materialize=deferred}\n  for", "E1402"),
    (ATTENTION, "  yield O[i0, i1, i2, i3] = cast(%o) : fp16\n", "", "E1402"),
    (LAYERNORM, "    %mean ", "    %sum           = reduce sum (i1) : fp32 { %x }\n    %mean ", "E0201"),
    (GEMM, "cast(%relu) : fp16", "%relu", "E1002"),
]


@pytest.mark.parametrize("path", SOUND, ids=lambda p: p.stem)
def test_sound_text_holds(path: Path) -> None:
    module = region.parse(path.read_text(encoding="utf-8"))
    assert region.check(module) == []
    assert all(o.is_shown for r in module.program.regions for o in obligations_of(module, r))


@pytest.mark.parametrize("path, old, new, code", FAULTS)
def test_planted_fault(path: Path, old: str, new: str, code: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    at = text.rindex(old) if old.startswith(("  in ", "  out ")) else text.index(old)
    found = region.check(region.parse(text[:at] + new + text[at + len(old) :]))
    assert code in [d.code for d in found]
    assert all(d.why() for d in found)


def test_regions_in_the_wrong_order() -> None:
    module = region.parse(ATTENTION.read_text(encoding="utf-8"))
    turned = region.Module(module.model, region.Program("p", module.program.buffers, module.program.regions[::-1]))
    assert [d.code for d in region.check(turned)] == ["E1402"]


def test_where_there_is_no_point_nothing_is_read_outside() -> None:
    text = (
        "tinyir 1.0 region\n\nmodel m\n  in  x           : fp32[0, N]\n  out y           : fp32[{}, N]\n\nprogram m\n"
        "\nregion y\n  in  x           : fp32[0, N]\n"
    )
    text += "  out y           : fp32[{}, N]\n  for i0: {}, i1: N\n  yield y[i0, i1] = x[0, i1]\n"
    assert region.check(region.parse(text.format(0, 0, 0))) == []
    assert [d.code for d in region.check(region.parse(text.format(1, 1, 1)))] == ["E1403"]
