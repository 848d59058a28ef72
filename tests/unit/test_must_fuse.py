"""Kernels that a program demands: values that share one, or are refused it with what forbids it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir import front
from tinyir.front import graphdsl
from tinyir.front.json import read
from tinyir.front.to_coreir import coreir_of
from tinyir.front.to_dsl import dsl_of
from tinyir.ir import region, tiny
from tinyir.ir.tiny import MustFuse
from tinyir.ir.verify import computed_of
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to
from tinyir.lower.tiny import canonical
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny

from ..commands import ROOT, run_in_shell, run_line
from ..japanese import english_of
from .checked import check_gpu, check_plan
from .graphs import random_graph
from .stages import Stages, graph, needs_host_compiler
from .test_plain import BODIES, program

HEAD = "tinyir 1.0 tiny\n\nmodel m\n"


def text(inputs: str, outputs: str, lines: str, *fused: str) -> str:
    """Tiny text: `name: type` of inputs and outputs, `name = op : type` of values, and what must share a kernel."""
    signature = "".join(
        f"  {word} {item.strip()}\n" for word, items in (("in", inputs), ("out", outputs)) for item in items.split(";")
    )
    values = "".join(f"  %{line.strip()}\n" for line in lines.strip().split("\n"))
    results = ", ".join("%" + item.split(":")[0].strip() for item in outputs.split(";"))
    demands = "".join(f"must_fuse: {', '.join('%' + n for n in names.split(','))}\n" for names in fused)
    return f"{HEAD}{signature}\n{values}\noutputs: {results}\n{demands}"


def regions_of(whole: str) -> region.Module:
    module: Any = tiny.parse(whole)
    assert [d.code for d in tiny.check(module) if d.is_error] == []
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
        assert language_of(stage).parse(language_of(stage).show(module)) == module
    assert [d.code for d in region.check(module) if d.is_error] == []
    return module


def demanded(module: region.Module) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(r.must_fuse for r in module.program.regions if r.must_fuse))


# --- demands that hold

PRODUCT = """ax = EXPAND(A) {broadcast_dimensions=[0, 2]} : fp16[64, 64, 256]
    bx = EXPAND(B) {broadcast_dimensions=[1, 2]} : fp16[64, 64, 256]
    ab = MUL(%ax, %bx) : fp32[64, 64, 256]
    s = REDUCE(%ab) {op=SUM, axes=[2], dtype=fp32} : fp32[64, 64]
    y = RELU(%s) : fp32[64, 64]"""
FACTORS = "A : fp16[64, 256]; B : fp16[64, 256]"
PROLOGUE = PRODUCT.replace("EXPAND(A)", "EXPAND(%e)").replace("ax =", "e = EXP2(A) : fp16[64, 256]\n    ax =", 1)
ROWS = """t = REDUCE(x) {op=MAX, axes=[1], dtype=fp32} : fp32[4]
    w = EXPAND(%t) {broadcast_dimensions=[0]} : fp32[4, 524288]
    y = SUB(x, %w) : fp32[4, 524288]"""
TWO_MAPS = "a = RELU(x) : fp32[512, 640]\n    b = NEG(z) : fp32[512, 640]"
TWO_FOLDS = """a = REDUCE(x) {op=SUM, axes=[1], dtype=fp32} : fp32[512]
    b = REDUCE(z) {op=MAX, axes=[1], dtype=fp32} : fp32[512]"""
AGAIN = """a = SIN(x) : fp32[262192]
    b = SIN(%a) : fp32[262192]
    e = SIN(%b) : fp32[262192]
    v = VIEW(%e) {index_map=[i0 + i1]} : fp32[262144, 49]
    y = REDUCE(%v) {op=SUM, axes=[1], dtype=fp32} : fp32[262144]"""
HELD = {  # what the text computes, what must share a kernel, the kernels that must be one
    "epilogue": (FACTORS, "y : fp32[64, 64]", PRODUCT, "s,y", [("s",)]),
    "what lies between": (FACTORS, "y : fp32[64, 64]", PRODUCT, "ab,y", [("s",)]),
    "a movement of it": (
        FACTORS,
        "y : fp32[64, 64]",
        PRODUCT + "\n    p = PERMUTE(%y) {perm=[1, 0]} : fp32[64, 64]",
        "s,p",
        [("s",)],
    ),
    "prologue": (FACTORS, "y : fp32[64, 64]", PROLOGUE, "e,s", [("s",)]),
    "prologue and epilogue": (FACTORS, "y : fp32[64, 64]", PROLOGUE, "e,y", [("s",)]),
    "few long rows": ("x : fp32[4, 524288]", "y : fp32[4, 524288]", ROWS, "t,y", [("t",)]),
    "siblings that read nothing alike": (
        "x : fp32[512, 640]; z : fp32[512, 640]",
        "a : fp32[512, 640]; b : fp32[512, 640]",
        TWO_MAPS,
        "a,b",
        [("b",)],
    ),
    "folds that read nothing alike": (
        "x : fp32[512, 640]; z : fp32[512, 640]",
        "a : fp32[512]; b : fp32[512]",
        TWO_FOLDS,
        "a,b",
        [("a",)],
    ),
    "again at each read": ("x : fp32[262192]", "y : fp32[262144]", AGAIN, "a,y", [("y",)]),
    "one value": (FACTORS, "y : fp32[64, 64]", PRODUCT, "s", [("s",)]),
}


@pytest.mark.parametrize("case", HELD)
def test_values_that_must_share_a_kernel_do(case: str) -> None:
    inputs, outputs, lines, fused, kernels = HELD[case]
    module = regions_of(text(inputs, outputs, lines, fused))
    assert demanded(module) == kernels
    draw = np.random.default_rng(0)
    arrays = {
        t.name: draw.standard_normal([d.constant for d in t.type.shape]).astype(t.type.dtype.numpy)
        for t in module.model.inputs
    }
    wanted = play_tiny(tiny.parse(text(inputs, outputs, lines)), arrays)
    found = play_region(module, arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-3)
    planned = lower_to("plan", module, "sm90")
    assert [d.code for d in check_plan(planned)] == [] and len(planned.plans) <= 2
    assert [d.code for d in check_gpu(lower_to("gpu", planned, "sm90")) if d.is_error] == []


# the cases in which cost would have the values apart
APART = ("siblings that read nothing alike", "folds that read nothing alike", "again at each read")


@pytest.mark.parametrize("case", APART)
def test_nothing_but_the_demand_has_them_share_it(case: str) -> None:
    inputs, outputs, lines, fused, _ = HELD[case]
    assert len(regions_of(text(inputs, outputs, lines)).program.regions) == 2
    assert len(regions_of(text(inputs, outputs, lines, fused)).program.regions) == 1


@needs_host_compiler
def test_the_kernel_that_was_demanded_gives_the_same_values() -> None:
    small = PROLOGUE.replace("64", "5").replace("256", "12").replace("fp16[5, 12]", "fp32[5, 12]")
    small = small.replace("fp16", "fp32").replace("EXP2", "NEG")
    stages = Stages(text("A : fp32[5, 12]; B : fp32[5, 12]", "y : fp32[5, 5]", small, "e,y"))
    a, b = (np.arange(60, dtype=np.float32).reshape(5, 12) % n - 2 for n in (7, 5))
    assert [r.must_fuse for r in stages.region.program.regions] == [("s",)]
    stages.assert_gives({"A": a, "B": b}, {"y": np.maximum(-a @ b.T, 0)}, is_simulated=True)


SAMPLES = {  # a demand of each sample that its kernels meet as they are
    "gemm_bias_relu": ("gemm,relu", [("gemm",)]),
    "attention_causal": ("attention.sum,attention", [("attention", "attention.sum3")]),
    "layernorm": ("layernorm.sum,layernorm", [("layernorm",)]),
    "softmax": ("softmax.max,softmax", [("softmax",)]),
    "mlp": ("up.sum,gelu", [("up",)]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_cut_that_holds_the_demand_stays_as_it_is(name: str) -> None:
    values, kernels = SAMPLES[name]
    line = f"must_fuse: {', '.join('%' + v for v in values.split(','))}\n"
    sample = (ROOT / "samples" / name / f"{name}.tiny").read_text(encoding="utf-8")
    with_line = regions_of(sample + line)
    assert demanded(with_line) == kernels
    committed = (ROOT / "samples" / name / f"{name}.region").read_text(encoding="utf-8")
    assert re.sub(r"  must_fuse .*\n", "", region.show(with_line)) == committed
    poly = (ROOT / "samples" / name / f"{name}.poly").read_text(encoding="utf-8")
    done = run_line(f"tiny-region --must-fuse {values}", poly.encode())
    assert done.out.decode() == region.show(with_line)


# --- demands that are refused

SUM_SUM = (
    PRODUCT
    + """
    h = CAST(%y) : fp16[64, 64]
    hx = EXPAND(%h) {broadcast_dimensions=[0, 2]} : fp16[64, 64, 64]
    cx = EXPAND(C) {broadcast_dimensions=[1, 2]} : fp16[64, 64, 64]
    hc = MUL(%hx, %cx) : fp32[64, 64, 64]
    z = REDUCE(%hc) {op=SUM, axes=[2], dtype=fp32} : fp32[64, 64]"""
)
SQUARES = """a = REDUCE(x) {op=SUM, axes=[1], dtype=fp32} : fp32[8]
    w = EXPAND(%a) {broadcast_dimensions=[0]} : fp32[8, 8]
    v = SUB(x, %w) : fp32[8, 8]
    b = REDUCE(%v) {op=SUM, axes=[0], dtype=fp32} : fp32[8]"""
MIRRORED = """a = SCAN(x) {op=SUM, axis=0, dtype=fp32} : fp32[8, 8]
    f = FLIP(%a) {axes=[0]} : fp32[8, 8]
    y = ADD(%a, %f) : fp32[8, 8]"""
RESHAPED = """a = RELU(x) : fp32[M, N]
    r = RESHAPE(%a) : fp32[N, M]
    y = NEG(%r) : fp32[N, M]"""
PLACED = """a = EXP2(x) : fp32[8, 8]
    y = SCATTER(%a, at, u) {axis=0, op=SUM} : fp32[8, 8]"""
TURNED = """a = EXP2(x) : fp32[8, 8]
    p = PERMUTE(%a) {perm=[1, 0]} : fp32[8, 8]
    y = ADD(%a, %p) : fp32[8, 8]"""
NARROW = "a = RELU(x) : fp32[M]\n    b = NEG(z) : fp32[N]"
KEPT = PROLOGUE + "\n    o = NEG(%e) : fp16[64, 256]"
CHAIN = "\n    ".join(
    f"l{n} = SHRINK({'%' * (n > 1)}v{n - 1}) {{lo=[0], hi=[{64 - n}]}} : fp32[{64 - n}]\n"
    f"h{n} = SHRINK({'%' * (n > 1)}v{n - 1}) {{lo=[1], hi=[{65 - n}]}} : fp32[{64 - n}]\n"
    f"v{n} = ADD(%l{n}, %h{n}) : fp32[{64 - n}]"
    for n in range(1, 8)
)
SQUARE = "x : fp32[8, 8]"
REFUSED = {  # what the text computes, the demand, the code, the rule and what shows it
    "another element": (
        SQUARE,
        "y : fp32[8, 8]",
        MIRRORED,
        "a,y",
        "E1422",
        "other point",
        "%a[7 - i0, i1]: [i0, i1] = [0, 0], [7, 0] -> %a[0, 0]",
    ),
    "folds along other axes": (
        SQUARE,
        "b : fp32[8]",
        SQUARES,
        "a,b",
        "E1422",
        "other rows",
        "%a along [8], %b along [8]",
    ),
    "two axes that would be one": (
        SQUARE,
        "y : fp32[8, 8]; a : fp32[8, 8]",
        TURNED,
        "a,y",
        "E1422",
        "axes",
        "%a[i0, i1], %a[i1, i0]",
    ),
    "a reshape across symbols": ("x : fp32[M, N]", "y : fp32[N, M]", RESHAPED, "a,y", "E1422", "memory", "RESHAPE %r"),
    "a scatter": (
        SQUARE + "; at : i32[4]; u : fp32[4, 8]",
        "y : fp32[8, 8]",
        PLACED,
        "a,y",
        "E1422",
        "memory",
        "SCATTER %y",
    ),
    "a product of a product": (
        FACTORS + "; C : fp16[64, 64]",
        "z : fp32[64, 64]",
        SUM_SUM,
        "s,z",
        "E1424",
        "two folds",
        "%h -> %hc",
    ),
    "work that others need in memory": (
        FACTORS,
        "y : fp32[64, 64]; o : fp16[64, 256]",
        KEPT,
        "e,s",
        "E1424",
        "in memory",
        "%o",
    ),
    "maps of other shapes": (
        "x : fp32[M]; z : fp32[N]",
        "a : fp32[M]; b : fp32[N]",
        NARROW,
        "a,b",
        "E1424",
        "no point",
        "M = 0, N = 0",
    ),
    "text that doubles": ("v0 : fp32[64]", "v7 : fp32[57]", CHAIN, "v1,v7", "E1423", "size", "terms > 64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_forbids_a_kernel_is_told_with_a_witness(case: str) -> None:
    inputs, outputs, lines, fused, code, rule, shows = REFUSED[case]
    whole = text(inputs, outputs, lines, fused)
    with pytest.raises(Refused) as caught:
        regions_of(whole)
    (said,) = caught.value.diags
    assert (said.code, said.facts["rule"]) == (code, rule) and shows in said.facts["shows"], said.facts
    assert said.span is not None and whole[said.span.start :].startswith("%" + fused.split(",")[0])
    assert all(name in said.why(lang) for lang in ("en", "ja") for name in fused.split(","))
    assert english_of(caught.value.diags) == []
    assert len(regions_of(text(inputs, outputs, lines)).program.regions) > 1


def test_a_kernel_computes_at_most_so_many_values() -> None:
    lines = "\n".join(
        f"v{n} = {'NEG' if n % 2 else 'ABS'}({'%' * (n > 0)}{f'v{n - 1}' if n else 'x'}) : fp32[8]" for n in range(130)
    )
    with pytest.raises(Refused) as caught:
        regions_of(text("x : fp32[8]", "v129 : fp32[8]", lines, "v0,v129"))
    (said,) = caught.value.diags
    assert (said.code, said.facts["rule"]) == ("E1423", "size") and said.facts["shows"].endswith("values > 128")


def test_unknown_values_are_told_with_near_names() -> None:
    sample = (ROOT / "samples" / "mlp" / "mlp.poly").read_bytes()
    done = run_line("tiny-region --must-fuse gelv,%up --diag=json", sample)
    (said,) = json.loads(done.err)["diagnostics"]
    assert (done.code, done.out, said["code"], said["at"]) == (1, b"", "E0202", "gelv")
    assert "gelu" in said["facts"]["near"]
    assert run_line("tiny-region --must-fuse ,", sample).code == 2


@pytest.mark.parametrize("name", ["x", "k", "w", "dead"])
def test_what_no_kernel_computes_cannot_share_one(name: str) -> None:
    lines = """k = CONST() {value=2.0} : fp32[8]
        w = FLIP(x) {axes=[0]} : fp32[8]
        y = MUL(%w, %k) : fp32[8]
        dead = NEG(%y) : fp32[8]"""
    whole = text("x : fp32[8]", "y : fp32[8]", lines) + f"must_fuse: {name if name == 'x' else '%' + name}, %y\n"
    assert [(d.code, d.at) for d in tiny.check(tiny.parse(whole)) if d.is_error] == [("E1421", name)]


# --- front ends and passes


def model(**more: Any) -> dict[str, Any]:
    ops = [("GEMM", ["A", "B"], "C", {"acc_dtype": "fp32"}), ("Elementwise", ["C"], "D", {"fn": "relu"})]
    inputs = {"A": ("fp16", ["M", 32]), "B": ("fp16", [32, 16])}
    return json.loads(graph(inputs, {"D": ("fp32", ["M", 16])}, *ops, **more))


def test_json_names_ops_or_tensors() -> None:
    stated = model(fuse=[["C", "relu"], ["gemm"]])
    for op, name in zip(stated["graph"], ("gemm", "relu")):
        op["name"] = name
    module = read(json.dumps(stated))
    assert [one.values for one in module.must_fuse] == [("gemm", "relu"), ("gemm.mul", "gemm")]
    assert tiny.parse(tiny.show(module)) == module


POOLED = """graph main(x: f32[2, 3, 20, 20], w: f32[8, 3, 3, 3], b: f32[8]) -> (y: f32[2, 8, 9, 9]) {
  c = conv(x, w, bias=b)
  p = c.max_pool(2, 2)
  return -p
}
must_fuse """
ALL_OF_C = ("c.mul", "c.sum", "c")


@pytest.mark.parametrize(
    "names, values", [("c, p", (*ALL_OF_C, "p.max")), ("c, %c.sum", ALL_OF_C), ("%c.sum", ALL_OF_C[1:2])]
)
def test_the_graph_dsl_names_statements_or_values(names: str, values: tuple[str, ...]) -> None:
    """A variable means all that its statement computes, with its fold; and the text that is made of it says so."""
    module = front.read(POOLED + names)
    assert [one.values for one in module.must_fuse] == [values]
    assert graphdsl.read(dsl_of(module)).must_fuse == module.must_fuse


@pytest.mark.parametrize(
    "names, code", [("c,p", "E1422"), ("%c,%p.max", ""), ("%c,p", ""), ('%"c",%"p.max"', ""), ('"c","p"', "E1422")]
)
def test_an_op_is_demanded_with_its_fold_and_a_value_alone(names: str, code: str) -> None:
    """The fold of a convolution cannot be in the kernel of a pool; what is added to it can."""
    poly = run_line("tiny-front | tiny-index | tiny-poly", POOLED.rsplit("must_fuse", 1)[0].encode()).out
    done = run_in_shell(f"tiny-region --diag=json --must-fuse '{names}'", poly)
    said = json.loads(done.err)["diagnostics"] if done.err else []
    assert [d["code"] for d in said] == ([code] if code else []), said
    assert not code or said[0]["facts"]["values"] == "%c.mul, %c.sum, %c, %p.max"


def test_json_demands_an_op_with_its_fold() -> None:
    """As the command line does."""
    inputs = {"x": ("fp32", [1, 3, 20, 20]), "w": ("fp32", [8, 3, 3, 3]), "b": ("fp32", [8])}
    ops = [
        ("Conv", ["x", "w", "b"], "c", {}),
        ("Pool", ["c"], "p", {"mode": "max", "kernel": [2, 2], "stride": [2, 2]}),
    ]
    stated = graph(inputs, {"p": ("fp32", [1, 8, 9, 9])}, *ops, fuse=[["c", "p"]])
    done = run_line("tiny-front | tiny-index | tiny-poly | tiny-region --diag=json", stated.encode())
    assert [d["code"] for d in json.loads(done.err)["diagnostics"]] == ["E1422"]


@pytest.mark.parametrize(
    "fuse, code",
    [([["C", "E"]], "E0202"), ([["A", "D"]], "E1421"), ("C", "E0110"), ([["C", 1]], "E0110"), ([[]], "")],
)
def test_a_faulty_group_is_told_at_its_place(fuse: Any, code: str) -> None:
    whole = json.dumps(model(fuse=fuse))
    done = run_line("tiny-front --diag=json", whole.encode())
    said = json.loads(done.err)["diagnostics"] if done.err else []
    assert [d["code"] for d in said] == ([code] if code else []), said
    assert all(d["span"]["start"] >= whole.index('"fuse"') for d in said)


def test_a_tensor_that_no_output_needs_shares_no_kernel() -> None:
    stated = model(fuse=[["E", "D"]])
    stated["graph"].append({"op": "Elementwise", "fn": "neg", "inputs": ["D"], "outputs": ["E"]})
    done = run_line("tiny-front --diag=json", json.dumps(stated).encode())
    assert [d["code"] for d in json.loads(done.err)["diagnostics"]] == ["E1421"]


def test_a_compiled_model_has_the_kernels_that_it_demands() -> None:
    arrays = {"A": np.ones((3, 32), np.float16), "B": np.ones((32, 16), np.float16)}
    plain, one = (tinyir.compile(stated, device="cpu") for stated in (model(), model(fuse=[["C", "D"]])))
    np.testing.assert_array_equal(plain(**arrays)["D"], one(**arrays)["D"])


def test_the_graph_dsl_says_every_demand_and_core_ir_none() -> None:
    module = read(json.dumps(model(fuse=[["C", "D"]])))
    assert graphdsl.read(dsl_of(module)).must_fuse == module.must_fuse
    with pytest.raises(Refused) as caught:
        coreir_of(module)
    assert "must_fuse" in [d.facts["op"] for d in caught.value.diags]


def test_passes_keep_what_is_left_of_a_demand() -> None:
    lines = """a = ADD(x, z) : fp32[8]
        b = ADD(z, x) : fp32[8]
        two = CONST() {value=2.0} : fp32[]
        half = RECIP(%two) : fp32[]
        wide = EXPAND(%half) : fp32[8]
        m = MUL(%b, %wide) : fp32[8]
        f = FLIP(%m) {axes=[0]} : fp32[8]
        g = FLIP(%f) {axes=[0]} : fp32[8]
        y = NEG(%g) : fp32[8]
        n = NEG(%a) : fp32[8]"""
    whole = text("x : fp32[8]; z : fp32[8]", "y : fp32[8]; n : fp32[8]", lines, "b,f", "n,m,y", "g,b")
    made = canonical(tiny.parse(whole.replace("must_fuse: %n", "must_fuse: %n")))
    assert [one.values for one in made.must_fuse] == [("a", "m"), ("m", "y", "n")]
    assert [d.code for d in tiny.check(made) if d.is_error] == []


# --- region and plan text

LARGE = re.sub(r"\b(64|256)\b", "1024", PROLOGUE)
FOLD = """a = EXP2(x) : fp32[100000000]
    s = REDUCE(%a) {op=SUM, axes=[0], dtype=fp32} : fp32[]
    y = NEG(%s) : fp32[]"""
SECOND = re.sub(r"\b(ax|bx|ab|s)\b", r"\g<1>2", PRODUCT).replace("(B)", "(D)").replace("y =", "z =")
LONG = {  # what the plan would make several kernels of
    "a long sum of products": (
        FACTORS.replace("256", "65536"),
        "y : fp32[64, 64]",
        PRODUCT.replace("256", "65536"),
        "s,y",
    ),
    "a long fold": ("x : fp32[100000000]", "y : fp32[]", FOLD, "s,y"),
    "a prologue of a large product": (re.sub("64|256", "1024", FACTORS), "y : fp32[1024, 1024]", LARGE, "e,y"),
    "siblings": (FACTORS + "; D : fp16[64, 256]", "y : fp32[64, 64]; z : fp32[64, 64]", f"{PRODUCT}\n{SECOND}", "s,s2"),
}


@pytest.mark.parametrize("case", LONG)
def test_the_plan_makes_one_launch_of_it(case: str) -> None:
    inputs, outputs, lines, fused = LONG[case]
    module = lower_to("plan", regions_of(text(inputs, outputs, lines, fused)), "sm90")
    assert [d.code for d in check_plan(module)] == []
    names = {r.name for r in module.program.program.regions}
    assert all(set(one.regions) == names for one in module.plans) and demanded(module.program) == [tuple(sorted(names))]


def test_contractions_that_are_no_siblings_are_refused_by_the_plan() -> None:
    inputs, outputs, lines, fused = LONG["siblings"]
    module = regions_of(text(inputs, outputs, lines.replace("z = RELU", "z = NEG"), fused + ",z"))
    with pytest.raises(Refused) as caught:
        lower_to("plan", module, "sm90")
    (said,) = caught.value.diags
    assert said.code == "E1424" and "with other tensors" in said.facts["shows"]


def small_regions(first: str, second: str) -> str:
    one = "region {n}\n{line}  in  x : fp32[64]\n  out {n} : fp32[64]\n  for i0: 64\n  yield {n}[i0] = {op}(x[i0])\n"
    signature = "model m\n  in  x : fp32[64]\n  out a : fp32[64]\n  out b : fp32[64]\n\nprogram m\n"
    parts = [
        one.format(n=n, op=op, line=f"  must_fuse {line}\n" if line else "")
        for n, op, line in (("a", "relu", first), ("b", "neg", second))
    ]
    return "tinyir 1.0 region\n\n" + "\n".join([signature, *parts])


@pytest.mark.parametrize(
    "first, second, codes",
    [
        ("a", "b", []),
        ("a, b", "a, b", []),
        ("b, a", "a, b", []),
        ("a, b", "", ["E1426"]),
        ("b", "b", ["E1426", "E1426"]),
        ("a, a", "", ["E1426"]),
        ("a, c", "", ["E0202"]),
        ("a, b", "a", ["E1426"]),
    ],
)
def test_regions_that_share_a_kernel_say_so_alike(first: str, second: str, codes: list[str]) -> None:
    module = region.parse(small_regions(first, second))
    assert [d.code for d in region.check(module)] == codes
    assert region.parse(region.show(module)) == module


def test_maps_that_must_share_a_kernel_have_no_plan_and_two_plans_are_refused() -> None:
    together, apart = (region.parse(small_regions(*words)) for words in (("a, b", "a, b"), ("", "")))
    with pytest.raises(Refused) as caught:
        lower_to("plan", together, "sm90")
    assert {d.code for d in caught.value.diags} == {"E1424"}
    planned = lower_to("plan", apart, "sm90")
    assert [d.code for d in check_plan(replace(planned, program=together))] == ["E1425", "E1425"]


def test_a_plain_plan_of_a_demanded_kernel_is_refused() -> None:
    whole = program([BODIES["a fold of scans"]])
    planned = lower_to("plan", whole, "sm90")
    plain = next(one.regions for one in planned.plans if one.algo == "plain")
    assert [d.code for d in check_plan(replace(planned, program=sharing(planned.program, plain)))] == ["E1424"]
    with pytest.raises(Refused) as caught:
        lower_to("plan", sharing(whole, tuple(r.name for r in whole.program.regions)), "sm90")
    assert [d.code for d in caught.value.diags] == ["E1424"]


def sharing(module: region.Module, names: tuple[str, ...]) -> region.Module:
    """The module in which these regions must share a kernel."""
    regions = (replace(r, must_fuse=names) if r.name in names else r for r in module.program.regions)
    return replace(module, program=replace(module.program, regions=tuple(regions)))


# --- any program


def demand(module: tiny.Module, draw: random.Random) -> tuple[MustFuse, ...]:
    names = sorted(computed_of(module))
    groups = range(draw.choice((1, 1, 2)))
    return tuple(MustFuse(tuple(draw.sample(names, min(len(names), draw.choice((2, 2, 3)))))) for _ in groups)


def held_or_refused(seed: int) -> int:
    """The demands of a random program that hold: with playback's values, plans and kernels that pass their checks. The
    others are refused with what shows it."""
    module, arrays = random_graph(seed, is_wide=seed % 2 == 1)
    if len(computed_of(module)) < 2:
        return 0
    whole = lower_to("poly", lower_to("index", module, "sm90"), "sm90")
    wanted, draw, held = play_tiny(module, arrays), random.Random(seed), 0
    for _ in range(3):
        demands = demand(module, draw)
        index = replace(whole.index, tiny=replace(module, must_fuse=demands))
        try:
            made = lower_to("region", replace(whole, index=index), "sm90")
        except Refused as fault:
            assert all(d.code in ("E1422", "E1423", "E1424") and d.facts["shows"] != "-" for d in fault.diags), fault
            continue
        assert [d.code for d in region.check(made) if d.is_error] == [] and demanded(made), (seed, demands)
        found = play_region(made, arrays)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=4e-3, atol=4e-3, err_msg=f"{seed} {demands} {name}")
        planned = lower_to("plan", made, "sm90")
        assert [d.code for d in check_plan(planned) if d.is_error] == [], (seed, demands)
        assert [d.code for d in check_gpu(lower_to("gpu", planned, "sm90")) if d.is_error] == [], (seed, demands)
        held += 1
    return held


def test_any_demand_is_met_or_refused() -> None:
    assert sum(map(held_or_refused, range(8))) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 408, 50))
def test_any_demand_of_hundreds_is_met_or_refused(first: int) -> None:
    assert sum(map(held_or_refused, range(first, first + 50))) > 0
