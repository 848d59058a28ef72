"""poly -> region: the program means what the tiny text means, is in normal form, and is cut where it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import index, poly, region, tiny
from tinyir.lower import index as lower_index
from tinyir.lower import poly as lower_poly
from tinyir.lower import region as lower_region
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny

from .graphs import random_graph

ROOT = Path(__file__).resolve().parents[2]


def regions_of(module: tiny.Module) -> region.Module:
    return lower_region.lower(lower_poly.lower(lower_index.lower(module)))


def tiny_of(body: str, signature: str) -> tiny.Module:
    return tiny.parse(f"tinyir 1.0 tiny\n\nmodel m\n{signature}\n\n{body}\n")


@pytest.mark.parametrize("sample", sorted(ROOT.glob("samples/*/*.poly")), ids=lambda p: p.stem)
def test_sample(sample: Path) -> None:
    wanted = sample.with_suffix(".region").read_text(encoding="utf-8")
    assert region.show(lower_region.lower(poly.parse(sample.read_text(encoding="utf-8")))) == wanted


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_random_graph_means_the_same(seed: int) -> None:
    module, arrays = random_graph(seed)
    found = regions_of(module)
    assert [d.code for d in region.check(found) if d.is_error] == []
    assert region.parse(region.show(found)) == found
    wanted, given_ = play_tiny(module, arrays), play_region(found, arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(given_[name], array, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name, regions", [("conv_pad_stride", ["conv"]), ("layernorm", ["layernorm"]), ("gemm_sm80", ["gemm"])])
def test_one_kernel_each(name: str, regions: list[str]) -> None:
    module = index.parse((ROOT / "tests/golden/design" / f"{name}.index").read_text(encoding="utf-8"))
    assert [r.name for r in lower_region.lower(lower_poly.lower(module)).program.regions] == regions


def test_softmax_is_one_region_over_a_plain_input() -> None:
    body = """
  %max   = REDUCE(x) {op=MAX, axes=[1], dtype=fp32} : fp32[M]
  %max.r = RESHAPE(%max) : fp32[M, 1]
  %max.x = EXPAND(%max.r) : fp32[M, N]
  %d     = SUB(x, %max.x) : fp32[M, N]
  %e     = EXP2(%d) : fp32[M, N]
  %z     = REDUCE(%e) {op=SUM, axes=[1], dtype=fp32} : fp32[M]
  %z.r   = RESHAPE(%z) : fp32[M, 1]
  %z.x   = EXPAND(%z.r) : fp32[M, N]
  %y     = FDIV(%e, %z.x) : fp32[M, N]

outputs: %y"""
    (found,) = regions_of(tiny_of(body, "  in  x : fp32[M, N]\n  out y : fp32[M, N]")).program.regions
    assert found.analysis.parallel == ("i0",) and found.analysis.reduce == ("i1",)


def test_a_fold_is_never_done_again() -> None:
    body = """
  %s   = REDUCE(w) {op=SUM, axes=[1], dtype=fp32} : fp32[N]
  %s.x = EXPAND(%s) : fp32[M, N]
  %y   = MUL(x, %s.x) : fp32[M, N]

outputs: %y"""
    found = regions_of(tiny_of(body, "  in  x : fp32[M, N]\n  in  w : fp32[N, K]\n  out y : fp32[M, N]"))
    assert [r.name for r in found.program.regions] == ["s", "y"]
    assert [b.name for b in found.program.buffers] == ["s"]


def test_a_path_out_and_back_in_is_no_region() -> None:
    body = """
  %a   = RELU(x) : fp32[M, N]
  %t   = TANH(%a) : fp32[M, N]
  %f   = FLIP(%t) {axes=[0]} : fp32[M, N]
  %y   = ADD(%a, %f) : fp32[M, N]

outputs: %y"""
    found = regions_of(tiny_of(body, "  in  x : fp32[M, N]\n  out y : fp32[M, N]"))
    assert len(found.program.regions) == 2


def test_a_value_that_is_also_an_output_is_written_once() -> None:
    body = """
  %a = ABS(x) : i32[5, 7]
  %b = RESHAPE(%a) : i32[35]

outputs: A=%a, B=%b, C=%a"""
    module = tiny_of(body, "  in  x : i32[5, 7]\n  out A : i32[5, 7]\n  out B : i32[35]\n  out C : i32[5, 7]")
    array = np.array([[(-1) ** (i + j) * (7 * i + j) for j in range(7)] for i in range(5)], np.int32)
    found = play_region(regions_of(module), {"x": array})
    assert np.array_equal(found["A"], np.arange(35).reshape(5, 7)) and np.array_equal(found["C"], found["A"])
    assert np.array_equal(found["B"], np.arange(35))


def test_an_input_that_is_an_output_is_copied() -> None:
    module = tiny_of("\noutputs: y=x", "  in  x : fp32[M]\n  out y : fp32[M]")
    assert np.array_equal(play_region(regions_of(module), {"x": np.arange(3, dtype=np.float32)})["y"], [0, 1, 2])


def test_a_symbolic_merge_is_the_same_memory() -> None:
    body = """
  %a = TANH(x) : fp32[M, N]
  %f = RESHAPE(%a) : fp32[M*N]
  %y = SCAN(%f) {op=SUM, axis=0, dtype=fp32} : fp32[M*N]

outputs: %y"""
    module = tiny_of(body, "  in  x : fp32[M, N]\n  out y : fp32[M*N]")
    found = regions_of(module)
    assert {b.name: b.attr("alias") for b in found.program.buffers} == {"a": None, "f": "a"}
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(play_region(found, {"x": x})["y"], np.cumsum(np.tanh(x)), rtol=1e-5)


def test_a_diamond_chain_stays_linear() -> None:
    def lines(count: int) -> int:
        body = ["  %c = CONST() {value=0.5} : fp32[]", "  %h = EXPAND(%c) : fp32[16]", "  %p0 = ABS(x) : fp32[16]"]
        for n in range(count):
            body += [f"  %a{n} = MUL(%p{n}, %h) : fp32[16]", f"  %b{n} = MUL(%p{n}, %h) : fp32[16]", f"  %p{n + 1} = ADD(%a{n}, %b{n}) : fp32[16]"]
        module = tiny_of("\n".join([*body, "", f"outputs: y=%p{count}"]), "  in  x : fp32[16]\n  out y : fp32[16]")
        return len(region.show(regions_of(module)))

    assert lines(40) < 2.5 * lines(20)
