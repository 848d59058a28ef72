"""poly -> region: the program means what the tiny text means, is in normal form, and is cut where it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.ir import index, poly, region, tiny
from tinyir.ir.alike import form_of
from tinyir.ir.ops import OPS
from tinyir.lower import index as lower_index
from tinyir.lower import poly as lower_poly
from tinyir.lower import region as lower_region
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny

from .graphs import random_graph
from .models import Net, bert_layer, bottleneck, gpt_layer

ROOT = Path(__file__).resolve().parents[2]


def regions_of(module: tiny.Module) -> region.Module:
    return lower_region.lower(lower_poly.lower(lower_index.lower(module)))


def tiny_of(body: str, signature: str) -> tiny.Module:
    return tiny.parse(f"tinyir 1.0 tiny\n\nmodel m\n{signature}\n\n{body}\n")


@pytest.mark.parametrize("sample", sorted(ROOT.glob("samples/*/*.poly")), ids=lambda p: p.stem)
def test_sample(sample: Path) -> None:
    wanted = sample.with_suffix(".region").read_text(encoding="utf-8")
    assert region.show(lower_region.lower(poly.parse(sample.read_text(encoding="utf-8")))) == wanted


def check_means_the_same(seed: int, has_empty: bool) -> None:
    module, arrays = random_graph(seed, has_empty=has_empty)
    found = regions_of(module)
    assert [d.code for d in region.check(found) if d.is_error] == []
    assert region.parse(region.show(found)) == found
    wanted, given_ = play_tiny(module, arrays), play_region(found, arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(given_[name], array, rtol=1e-4, atol=1e-4, err_msg=f"graph {seed}, {name}")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_a_random_graph_means_the_same(seed: int, has_empty: bool) -> None:
    check_means_the_same(seed, has_empty)


@pytest.mark.slow
@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_random_graphs_mean_the_same(part: int, has_empty: bool) -> None:
    for seed in range(500 * part, 500 * part + 500):
        check_means_the_same(seed, has_empty)


@pytest.mark.parametrize(
    "name, regions", [("conv_pad_stride", ["conv"]), ("layernorm", ["layernorm"]), ("gemm_sm80", ["gemm"])]
)
def test_one_kernel_each(name: str, regions: list[str]) -> None:
    module = index.parse((ROOT / "tests/golden/design" / f"{name}.index").read_text(encoding="utf-8"))
    assert [r.name for r in lower_region.lower(lower_poly.lower(module)).program.regions] == regions


@pytest.mark.parametrize(("low", "regions"), [("0", ["a", "y"]), ("1", ["y"])])
def test_an_output_is_not_left_unwritten_where_an_axis_that_it_lacks_has_no_point(low: str, regions: list[str]) -> None:
    signature = f"  in x : fp32[K, 4]\n  in b : fp32[4]\n  out y : fp32[K, 4]\n  out a : fp32[4]\n  sym K in {low}..9"
    body = (
        "  %a = RELU(b) : fp32[4]\n  %r = RESHAPE(%a) : fp32[1, 4]\n  %e = EXPAND(%r) : fp32[K, 4]\n  %y = ADD(x, "
        "%e) : fp32[K, 4]\n\noutputs: %y, %a"
    )
    assert [r.name for r in regions_of(tiny_of(body, signature)).program.regions] == regions


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


@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.group == "binary" and "f" in op.accepts])
def test_sums_and_products_of_a_value_and_what_is_read_are_in_one_order(op: str) -> None:
    kind = "bool" if OPS[op].gives == "bool" else "fp32"
    shown = []
    for operands in ("r, %s", "%s, r"):
        body = f"""
  %s = REDUCE(x) {{op=SUM, axes=[1], dtype=fp32}} : fp32[M]
  %y = {op}({operands}) : {kind}[M]

outputs: %y"""
        signature = f"  in  x : fp32[M, N]\n  in  r : fp32[M]\n  out y : {kind}[M]"
        (found,) = regions_of(tiny_of(body, signature)).program.regions
        shown.append(form_of(found).shape)
    assert (shown[0] == shown[1]) == (op in ("ADD", "MUL", "CMPEQ", "CMPNE"))


def test_a_path_out_and_back_in_is_no_region() -> None:
    body = """
  %a = TANH(x) : fp32[M, N]
  %f = RESHAPE(%a) : fp32[M*N]
  %s = SCAN(%f) {op=SUM, axis=0, dtype=fp32} : fp32[M*N]
  %b = RESHAPE(%s) : fp32[M, N]
  %y = ADD(%a, %b) : fp32[M, N]

outputs: %y"""
    module = tiny_of(body, "  in  x : fp32[M, N]\n  out y : fp32[M, N]")
    assert [r.name for r in regions_of(module).program.regions] == ["a", "s", "y"]
    said = {
        (d.facts["source"], d.facts["reader"]): d.facts
        for d in lower_region.verdicts(lower_poly.lower(lower_index.lower(module)))
    }
    assert said["a", "y"]["rule"] == "cycle" and said["a", "y"]["shows"] == "%a -> %f -> %s -> %b -> %y"


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


def test_an_input_that_is_the_only_output_is_copied() -> None:
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
            body += [
                f"  %a{n} = MUL(%p{n}, %h) : fp32[16]",
                f"  %b{n} = MUL(%p{n}, %h) : fp32[16]",
                f"  %p{n + 1} = ADD(%a{n}, %b{n}) : fp32[16]",
            ]
        module = tiny_of("\n".join([*body, "", f"outputs: y=%p{count}"]), "  in  x : fp32[16]\n  out y : fp32[16]")
        return len(region.show(regions_of(module)))

    assert lines(40) < 2.5 * lines(20)


def count(module: tiny.Module) -> int:
    """Kernels: regions, those joined by a deferred buffer counted once."""
    found = regions_of(module)
    assert region.check(found) == []
    assert region.parse(region.show(found)) == found
    return len(found.program.regions) - sum(b.attr("materialize") == "deferred" for b in found.program.buffers)


def test_resnet50_is_a_kernel_a_convolution() -> None:
    net = Net("resnet50", N=8)
    x = net.relu(net.batchnorm(net.conv(net.input("x", "N", 3, 224, 224), 64, 7, 2)))
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(blocks):
            x = bottleneck(net, x, inner, stride if at == 0 else 1)
    assert count(net.module(y=x)) == 53


@pytest.mark.parametrize("layer", [bert_layer, gpt_layer])
def test_a_transformer_layer(layer) -> None:
    net = Net("layer", B=2, S=128)
    assert (
        count(net.module(y=layer(net, net.input("x", "B", "S", 768), 768, 12))) == 7
    )  # q with k and v, attention, out, up, down, two norms


@pytest.mark.parametrize("op", ["softmax", "layernorm", "rmsnorm", "gelu"])
def test_one_kernel(op: str) -> None:
    net = Net("one", B=2, S=128)
    assert count(net.module(y=getattr(net, op)(net.input("x", "B", "S", 768)))) == 1


@pytest.mark.parametrize("is_causal", [False, True])
def test_models_mean_the_same(is_causal: bool) -> None:
    net = Net("layer", B=2, S=6)
    layer = gpt_layer if is_causal else bert_layer
    module = net.module(y=layer(net, net.input("x", "B", "S", 16), 16, 2))
    numbers = np.random.default_rng(1)
    arrays = {
        t.name: numbers.standard_normal([d.evaluate({"B": 2, "S": 6}) for d in t.type.shape]).astype(np.float32)
        for t in module.model.inputs
    }
    np.testing.assert_allclose(
        play_region(regions_of(module), arrays)["y"], play_tiny(module, arrays)["y"], rtol=1e-4, atol=1e-4
    )


def test_attention_hands_its_rows_on_without_memory() -> None:
    module = index.parse((ROOT / "tests/golden/design/attention_causal.index").read_text(encoding="utf-8"))
    found = lower_region.lower(lower_poly.lower(module))
    assert [r.name for r in found.program.regions] == ["qk", "pv"]
    assert found.program.buffer("P").attr("materialize") == "deferred"
    assert [v.name for v in found.program.region("qk").lets][-2:] == ["e", "z"]


@pytest.mark.parametrize("length", range(6))
def test_a_mask_that_attentions_share_is_a_region_of_its_own(length: int) -> None:
    """However long the work on the mask is, so whichever of the parts has the most values."""
    mask = "m"
    for number in range(length):
        mask = f"abs({mask} - 0.{number + 1})"
    layers = ["x0 = q"]
    for layer in (1, 2):
        scores = f"where(l, relu(matmul(x{layer - 1}, k)) + 1.0, -10.0)"
        layers += [f"s{layer} = softmax({scores}, axis=-1)", f"x{layer} = matmul(s{layer}, v)"]
    module = front.read(
        "graph main(q: f32[4, 16, 8], k: f32[4, 8, 16], v: f32[4, 16, 8], m: f32[1, 16, 16]) -> (y: f32[4, 16, 8]) {\n"
        f"late = {mask} > 0.2\nl = expand(late, 4, 16, 16)\n" + "\n".join(layers) + "\ny = x2\nreturn y\n}"
    )
    numbers = np.random.default_rng(1)
    arrays = {
        t.name: numbers.standard_normal([d.evaluate({}) for d in t.type.shape]).astype(np.float32)
        for t in module.model.inputs
    }
    found = regions_of(module)
    assert len(found.program.regions) == 5  # of each attention two, of which one hands on its rows
    np.testing.assert_allclose(play_region(found, arrays)["y"], play_tiny(module, arrays)["y"], rtol=1e-5, atol=1e-6)


def test_siblings_read_their_input_once() -> None:
    body = """
  %sum = REDUCE(x) {op=SUM, axes=[1], dtype=fp32} : fp32[M]
  %max = REDUCE(x) {op=MAX, axes=[1], dtype=fp32} : fp32[M]

outputs: %sum, %max"""
    found = regions_of(tiny_of(body, "  in  x : fp32[M, N]\n  out sum : fp32[M]\n  out max : fp32[M]"))
    assert [len(r.yields) for r in found.program.regions] == [2]


def edges(
    body: str, signature: str = "  in  x : fp32[M, N]\n  in  w : fp32[N, K]\n  out y : fp32[M, N]"
) -> dict[tuple[str, str], dict]:
    """The code and the facts of the remark on each edge."""
    said = lower_region.verdicts(lower_poly.lower(lower_index.lower(tiny_of(body, signature))))
    return {
        (d.facts["source"], d.facts["reader"]): {"code": d.code, **d.facts}
        for d in said
        if d.code in ("R3401", "R3402")
    }


def test_verdicts_say_why() -> None:
    body = """
  %a   = SCAN(x) {op=SUM, axis=0, dtype=fp32} : fp32[M, N]
  %f   = FLIP(%a) {axes=[0]} : fp32[M, N]
  %b   = MUL(%a, %f) : fp32[M, N]
  %s   = REDUCE(w) {op=MAX, axes=[1], dtype=fp32} : fp32[N]
  %s.x = EXPAND(%s) : fp32[M, N]
  %c   = MUL(%b, %s.x) : fp32[M, N]
  %y   = RELU(%c) : fp32[M, N]

outputs: %y"""
    assert {pair: (f["code"], f["rule"]) for pair, f in edges(body).items()} == {
        ("a", "b"): ("R3402", "other point"),
        ("b", "c"): ("R3401", "same point"),
        ("s", "c"): ("R3402", "again"),
        ("c", "y"): ("R3401", "same point"),
    }


def test_verdicts_show_what_is_needed_twice() -> None:
    body = """
  %l = SHRINK(x) {lo=[0, 0], hi=[M - 2, N], step=[1, 1]} : fp32[M - 2, N]
  %m = SHRINK(x) {lo=[1, 0], hi=[M - 1, N], step=[1, 1]} : fp32[M - 2, N]
  %a = MAX(%l, %m) : fp32[M - 2, N]
  %u = SHRINK(%a) {lo=[0, 0], hi=[M - 3, N], step=[1, 1]} : fp32[M - 3, N]
  %v = SHRINK(%a) {lo=[1, 0], hi=[M - 2, N], step=[1, 1]} : fp32[M - 3, N]
  %y = ADD(%u, %v) : fp32[M - 3, N]

outputs: %y"""
    given_ = "  in  x : fp32[M, N]\n  out y : fp32[M - 3, N]\n  sym M in 4..10000\nshapes default {M=4096, N=4096}"
    (found,) = edges(body, given_).values()
    assert (found["code"], found["rule"], found["legal"]) == ("R3401", "compute at", False)
    assert found["witness"] == "%a[1, 0] is needed at [0, 0] and [1, 0] of [i0, i1] for M = 5, N = 1"
    assert (found["halo"], found["halo_elements"], found["halo_bytes"]) == ("i0: 1", 1, 4)
    assert found["bytes"] == 4094 * 4096 * 4 and found["saved"] == 2 * found["bytes"]


def test_a_fold_of_a_fold_is_one() -> None:
    body = """
  %a = REDUCE(x) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]
  %y = REDUCE(%a) {op=SUM, axes=[1], dtype=fp32} : fp32[M]

outputs: %y"""
    (found,) = regions_of(tiny_of(body, "  in  x : fp32[M, N, K]\n  out y : fp32[M]")).program.regions
    assert "reduce sum (k0: N, k1: K) : fp32 { x[i0, k0, k1] }" in region.show_region(found)


def test_a_state_is_written_when_its_old_value_is_no_longer_read() -> None:
    body = """
  %new = ADD(s, x) : fp32[M]
  %y   = MUL(s, %new) : fp32[M]

outputs: s=%new, y=%y"""
    module = tiny_of(
        body,
        "  in  x : fp32[M]\n  in  s : fp32[M] {role=state, mutability=mutable}\n  out s : fp32[M]\n  out y : fp32[M]",
    )
    assert not any(d.is_error for d in tiny.check(module))
    found = regions_of(module)
    assert region.check(found) == []
    x, s = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    given_ = play_region(found, {"x": x, "s": s})
    assert given_["s"].tolist() == [4, 6] and given_["y"].tolist() == [12, 24] and s.tolist() == [3, 4]


PASSED_ON = [
    ("outputs: x", "  in  x : fp32[M]\n  out x : fp32[M]", {"x": "x"}),
    ("outputs: a=x, b=x", "  in  x : fp32[M]\n  out a : fp32[M]\n  out b : fp32[M]", {"a": "x", "b": "x"}),
    ("outputs: x, y=x", "  in  x : fp32[M]\n  out x : fp32[M]\n  out y : fp32[M]", {"x": "x", "y": "x"}),
    (
        "%new = ADD(s, x) : fp32[M]\noutputs: s=%new, old=s",
        "  in  x : fp32[M]\n  in  s : fp32[M]\n  out s : fp32[M]\n  out old : fp32[M]",
        {"s": "s + x", "old": "s"},
    ),
    (
        "%new = ADD(s, x) : fp32[M]\noutputs: s=%new, x=s",
        "  in  x : fp32[M]\n  in  s : fp32[M]\n  out s : fp32[M]\n  out x : fp32[M]",
        {"s": "s + x", "x": "s"},
    ),
    (
        "outputs: s=x, x=s",
        "  in  x : fp32[M]\n  in  s : fp32[M]\n  out s : fp32[M]\n  out x : fp32[M]",
        {"s": "x", "x": "s"},
    ),
    (
        "%r = RESHAPE(x) : fp32[M]\noutputs: s=%r, x=s",
        "  in  x : fp32[M]\n  in  s : fp32[M]\n  out s : fp32[M]\n  out x : fp32[M]",
        {"s": "x", "x": "s"},
    ),
    (
        "%y = RELU(x) : fp32[M]\noutputs: x, y=%y",
        "  in  x : fp32[M]\n  out x : fp32[M]\n  out y : fp32[M]",
        {"x": "x", "y": "relu"},
    ),
]


@pytest.mark.parametrize(("body", "signature", "wanted"), PASSED_ON)
def test_an_input_that_is_an_output_is_copied(body: str, signature: str, wanted: dict[str, str]) -> None:
    """Whatever else is written: states may even change places."""
    module = tiny_of(f"\n{body}", signature)
    assert not any(d.is_error for d in tiny.check(module))
    found = regions_of(module)
    assert region.check(found) == [] and region.parse(region.show(found)) == found
    x, s = np.array([-1, 2, 5], np.float32), np.array([3, 4, -7], np.float32)
    arrays = {t.name: {"x": x, "s": s}[t.name] for t in module.model.inputs}
    numbers = {"x": x, "s": s, "s + x": s + x, "relu": np.maximum(x, 0)}
    for played in (play_tiny(module, arrays), play_region(found, arrays)):
        assert {name: array.tolist() for name, array in played.items()} == {
            name: numbers[word].tolist() for name, word in wanted.items()
        }
    assert x.tolist() == [-1, 2, 5] and s.tolist() == [3, 4, -7]
