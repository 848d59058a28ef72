"""States: inputs whose new value is an output. Which are written in place and which are copied, that every stage
gives what the ops say, and how much is written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir import front
from tinyir.analysis.work import bytes_of
from tinyir.front.to_coreir import coreir_of
from tinyir.front.to_dsl import dsl_of
from tinyir.ir import manifest, plan, region, tiny
from tinyir.ir.in_place import check_in_place, owner_of
from tinyir.kernels.check import check as check_plan
from tinyir.kernels.siblings import siblings_of
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower import region as to_region
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run

from .stages import Stages, needs_host_compiler

DEVICES = ["cpu", pytest.param("sim", marks=needs_host_compiler)]
HEAD = "tinyir 1.0 tiny\n\nmodel m\n"


def text_of(signature: str, body: str, sizes: str = "M=6, N=5") -> str:
    """Tiny text; `s : fp32[M]` in a signature is an input and an output."""
    used = ", ".join(part for part in sizes.split(", ") if f"{part[0]}" in signature.replace("fp", ""))
    return f"{HEAD}{signature}\nshapes default {{{used}}}\n\n{body}\n"


def vector(*outputs: str, more: str = "") -> str:
    lines = ["  in  x : fp32[M]", "  in  s : fp32[M] {role=state, mutability=mutable}", *more.splitlines()]
    return "\n".join([*lines, *(f"  out {o} : fp32[M]" for o in outputs)])


T = "  in  t : fp32[M] {role=state, mutability=mutable}"
HALF = "%h = CONST() {value=0.5} : fp32[M]\n%a = MUL(s, %h) : fp32[M]\n%new = ADD(%a, x) : fp32[M]\n"
SQUARE = "  in  x : fp32[M, N]\n  in  s : fp32[M, N] {role=state, mutability=mutable}\n  out s : fp32[M, N]\n"
# the program, and what is said of each state: `in place`, `copied` or `unchanged`
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "a mean": (
        text_of(vector("s", "y"), f"{HALF}%y = SUB(x, %new) : fp32[M]\noutputs: s=%new, y=%y"),
        {"s": "in place"},
    ),
    "another name": (
        text_of(vector("y").replace("out y : fp32[M]", "out y : fp32[M] {updates=s}"), f"{HALF}outputs: y=%new"),
        {"s": "in place"},
    ),
    "the old value beside the new": (
        text_of(vector("s", "y"), f"{HALF}%y = MUL(s, %new) : fp32[M]\noutputs: s=%new, y=%y"),
        {"s": "in place"},
    ),
    "the old value is an output": (text_of(vector("s", "old"), f"{HALF}outputs: s=%new, old=s"), {"s": "in place"}),
    "the new value is an output twice": (
        text_of(vector("s", "y"), f"{HALF}outputs: s=%new, y=%new"),
        {"s": "in place"},
    ),
    "nothing new": (text_of(vector("s", "y"), "%y = ADD(s, x) : fp32[M]\noutputs: s, y=%y"), {"s": "unchanged"}),
    "an input": (text_of(vector("s"), "outputs: s=x"), {"s": "in place"}),
    "they change places": (
        text_of(vector("s", "t", more=T), "%y = NEG(x) : fp32[M]\noutputs: s=t, t=s"),
        {"s": "copied", "t": "copied"},
    ),
    "turned around": (
        text_of(vector("s"), "%f = FLIP(s) {axes=[0]} : fp32[M]\n%new = ADD(%f, x) : fp32[M]\noutputs: s=%new"),
        {"s": "copied"},
    ),
    "over its sum": (
        text_of(
            vector("s"),
            "%z = REDUCE(s) {op=SUM, axes=[0], dtype=fp32} : fp32[]\n%b = EXPAND(%z) : fp32[M]\n"
            "%new = ADD(s, %b) : fp32[M]\noutputs: s=%new",
        ),
        {"s": "copied"},
    ),
    "read by a sum": (
        text_of(
            vector("s") + "\n  out z : fp32[]",
            f"%z = REDUCE(s) {{op=SUM, axes=[0], dtype=fp32}} : fp32[]\n{HALF}outputs: s=%new, z=%z",
        ),
        {"s": "in place"},
    ),
    "a sum of the new and the old": (
        text_of(
            vector("s", "y"),
            f"{HALF}%z = REDUCE(%new) {{op=SUM, axes=[0], dtype=fp32}} : fp32[]\n%b = EXPAND(%z) : fp32[M]\n"
            "%f = FLIP(s) {axes=[0]} : fp32[M]\n%y = ADD(%f, %b) : fp32[M]\noutputs: s=%new, y=%y",
        ),
        {"s": "copied"},
    ),
    "each of the other": (
        text_of(
            vector("s", "t", more=T),
            "%a = ADD(t, x) : fp32[M]\n%b = MUL(s, x) : fp32[M]\noutputs: s=%a, t=%b",
        ),
        {"s": "copied", "t": "in place"},
    ),
    "products": (
        text_of(
            SQUARE + "  in  w : fp32[N, N]",
            "%a = RESHAPE(x) : fp32[M, 1, N]\n%b = EXPAND(%a) : fp32[M, N, N]\n%c = PERMUTE(w) {perm=[1, 0]} : "
            "fp32[N, N]\n"
            "%d = RESHAPE(%c) : fp32[1, N, N]\n%e = EXPAND(%d) : fp32[M, N, N]\n%m = MUL(%b, %e) : fp32[M, N, N]\n"
            "%p = REDUCE(%m) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]\n%new = ADD(%p, s) : fp32[M, N]\n"
            "outputs: s=%new",
        ),
        {"s": "in place"},
    ),
    "a product of the state": (
        text_of(
            SQUARE + "  in  w : fp32[N, N]",
            "%a = RESHAPE(s) : fp32[M, 1, N]\n%b = EXPAND(%a) : fp32[M, N, N]\n%d = RESHAPE(w) : fp32[1, N, N]\n"
            "%e = EXPAND(%d) : fp32[M, N, N]\n%m = MUL(%b, %e) : fp32[M, N, N]\n"
            "%p = REDUCE(%m) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]\n%new = ADD(%p, x) : fp32[M, N]\n"
            "outputs: s=%new",
        ),
        {"s": "copied"},
    ),
    "in columns": (
        text_of(
            SQUARE.replace("mutable}", "mutable, layout=col_major}").replace(
                "out s : fp32[M, N]", "out s : fp32[M, N] {layout=col_major}"
            ),
            "%new = ADD(s, x) : fp32[M, N]\noutputs: s=%new",
        ),
        {"s": "in place"},
    ),
    "turned over": (
        text_of(
            SQUARE.replace("N", "M"),
            "%f = PERMUTE(s) {perm=[1, 0]} : fp32[M, M]\n%new = ADD(%f, x) : fp32[M, M]\noutputs: s=%new",
        ),
        {"s": "copied"},
    ),
    "one for all rows": (
        text_of(
            "  in  x : fp32[M, N]\n  in  s : fp32[N] {role=state, mutability=mutable}\n  out s : fp32[N]\n  out "
            "y : fp32[M, N]",
            "%z = REDUCE(x) {op=SUM, axes=[0], dtype=fp32} : fp32[N]\n%new = ADD(s, %z) : fp32[N]\n"
            "%b = EXPAND(%new) : fp32[M, N]\n%y = ADD(x, %b) : fp32[M, N]\noutputs: s=%new, y=%y",
        ),
        {"s": "copied"},
    ),
    "a count": (
        text_of(
            "  in  x : fp32[M]\n  in  n : i64[] {role=state, mutability=mutable}\n  out n : i64[]\n  out y : fp32[M]",
            "%one = CONST() {value=1} : i64[]\n%new = ADD(n, %one) : i64[]\n%c = CAST(%new) : fp32[]\n"
            "%b = EXPAND(%c) : fp32[M]\n%y = MUL(x, %b) : fp32[M]\noutputs: n=%new, y=%y",
        ),
        {"n": "in place"},
    ),
    "made of constants": (
        text_of(
            vector("s").replace("in  x : fp32[M]", "in  x : fp32[M] {storage=const_pool}"),
            "%new = NEG(x) : fp32[M]\noutputs: s=%new",
        ),
        {"s": "in place"},
    ),
    "seen flat": (
        text_of(
            "  in  x : fp32[M*N]\n  in  s : fp32[M, N] {role=state, mutability=mutable}\n  out s : fp32[M, N]\n  "
            "out y : fp32[M*N]",
            "%f = RESHAPE(s) : fp32[M*N]\n%y = ADD(%f, x) : fp32[M*N]\n%new = NEG(s) : fp32[M, N]\noutputs: "
            "s=%new, y=%y",
        ),
        {"s": "in place"},
    ),
}
CODES = {"R3406": "in place", "R3407": "copied", "R3408": "unchanged"}


def said_of(text: str) -> dict[str, str]:
    """What the region stage says of each state."""
    module = lower_to("poly", lower_to("index", tiny.parse(text), "sm90"), "sm90")
    return {d.facts["state"]: CODES[d.code] for d in to_region.verdicts(module) if d.code in CODES}


def numbers_for(text: str, **sizes: int) -> dict[str, np.ndarray]:
    model = tiny.parse(text).model
    known = {"M": 6, "N": 5, "L": 9, "S": 2, "P": 4} | sizes
    return random_arrays(model, {s: known[s] for s in model.symbols()}, 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_gives_what_the_ops_say(name: str) -> None:
    text, wanted = PROGRAMS[name]
    assert said_of(text) == wanted
    stages, arrays = Stages(text), numbers_for(text)
    kept = {n: a.copy() for n, a in arrays.items()}
    found = dict(stages.outputs(arrays))
    assert all(np.array_equal(arrays[n], kept[n]) for n in kept)  # the caller's arrays stay
    for stage, outputs in found.items():
        for n, array in found["tiny"].items():
            np.testing.assert_allclose(outputs[n], array, rtol=1e-6, atol=1e-6, err_msg=f"{n} at {stage}")
    in_place = {s for s, how in wanted.items() if how == "in place"}
    aliases = {b.attr("alias") for b in stages.region.program.buffers}
    assert in_place <= aliases | ({"s"} if name == "an input" else set())
    for state in wanted.keys() - in_place:  # written by a copy of its own, or not at all
        writers = [r for r in stages.region.program.regions if state in {t.name for t in r.outputs}]
        assert len(writers) == (wanted[state] == "copied")


@needs_host_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernels_do_too(name: str) -> None:
    text, _ = PROGRAMS[name]
    stages, arrays = Stages(text), numbers_for(text, M=37, N=19)
    found = dict(stages.outputs(arrays, True))
    for n, array in found["tiny"].items():
        np.testing.assert_allclose(found["sim"][n], array, rtol=1e-5, atol=1e-5, err_msg=n)


PRODUCT = """tinyir 1.0 tiny

model m
  in  x : fp16[M, K]
  in  w : fp16[K, N]
  in  s : fp16[M, N] {role=state, mutability=mutable}
  out s : fp16[M, N]
shapes default {M=256, N=256, K=128}

%a = RESHAPE(x) : fp16[M, 1, K]
%b = EXPAND(%a) : fp16[M, N, K]
%c = PERMUTE(w) {perm=[1, 0]} : fp16[N, K]
%d = RESHAPE(%c) : fp16[1, N, K]
%e = EXPAND(%d) : fp16[M, N, K]
%m = MUL(%b, %e) : fp32[M, N, K]
%p = REDUCE(%m) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]
%t = CAST(s) : fp32[M, N]
%u = ADD(%p, %t) : fp32[M, N]
%new = CAST(%u) : fp16[M, N]
outputs: s=%new
"""


def ways() -> dict[str, Any]:
    """One plan of the product for each algo and each way in which its result leaves."""
    module: Any = tiny.parse(PRODUCT)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert [b.attr("alias") for b in module.program.buffers] == ["s"]
    found: dict[str, Any] = {}
    for candidate in to_plan.candidates(module, module.program.regions[0], "sm90"):
        made = plan.Module(module, (candidate.plan,))
        store = candidate.plan.store[0].by if candidate.plan.store else "registers"
        name = f"{candidate.plan.algo} {store}{' split' if candidate.plan.split_k else ''}"
        if name not in found and not [d for d in check_plan(made) if d.is_error]:
            found[name] = made
    return found


WAYS = ways()


@needs_host_compiler
@pytest.mark.parametrize("way", WAYS)
def test_a_product_is_added_to_a_state_however_it_leaves(way: str) -> None:
    """Residuals that are fetched ahead, tiles that leave by the copy engine, sums in parts."""
    assert len(WAYS) >= 5
    draw = np.random.default_rng(0)
    shapes = {"x": (200, 72), "w": (72, 264), "s": (200, 264)}
    arrays = {n: draw.integers(-3, 4, shape).astype(np.float16) for n, shape in shapes.items()}
    text = manifest.show(lower_to("cu", lower_to("gpu", WAYS[way], "sm90"), "sm90"))
    outputs, _ = run(text, arrays, device="sim", seed=3)
    wanted = arrays["x"].astype(np.float64) @ arrays["w"] + arrays["s"]
    np.testing.assert_array_equal(outputs["s"].astype(np.float64), wanted)


def test_what_reads_a_state_shares_no_launch_with_what_writes_it() -> None:
    """Products of one operand that are alike are one launch, whose CTAs run at the same time."""
    text = """tinyir 1.0 region

model m
  in  x : fp16[N, N]
  in  w : fp16[N, N]
  in  s : fp16[N, N]
  out s : fp16[N, N]
  out y : fp16[N, N]
shapes default {N=64}

program m
  buffer new : fp16[N, N] {alias=s}

region y
  in  x : fp16[N, N]
  in  s : fp16[N, N]
  out y : fp16[N, N]
  for i0: N, i1: N
    %y = reduce sum (k0: N) : fp32 { mul(x[i0, k0], s[k0, i1]) : fp32 }
  yield y[i0, i1] = cast(%y) : fp16

region new
  in  x : fp16[N, N]
  in  w : fp16[N, N]
  out new : fp16[N, N] {alias=s}
  for i0: N, i1: N
    %new = reduce sum (k0: N) : fp32 { mul(x[i0, k0], w[k0, i1]) : fp32 }
  yield new[i0, i1] = cast(%new) : fp16
"""
    module = region.parse(text)
    assert region.check(module) == []
    assert isinstance(siblings_of(module.program.regions), str)
    assert all(len(p.regions) == 1 for p in lower_to("plan", module, "sm90").plans)
    apart = region.parse(text.replace(" {alias=s}", "").replace("  out s :", "  out t :"))
    assert not isinstance(siblings_of(apart.program.regions), str)  # but for the state they are


# --- rows of a cache

CACHE = """tinyir 1.0 tiny

model m
  in  past : fp32[2, L, 4] {role=state, mutability=mutable}
  in  k : fp32[2, S, 4]
  in  q : fp32[2, P + S]
  out present : fp32[2, L, 4] {updates=past}
  out y : fp32[2, P + S, 4]
  sym L in 64..1048576
  sym S in 1..8
  sym P in 0..56
shapes default {L=64, S=1, P=9}

  %old = SHRINK(past) {lo=[0, 0, 0], hi=[2, P, 4]} : fp32[2, P, 4]
  %a = PAD(%old) {pad=[[0, 0], [0, S], [0, 0]]} : fp32[2, P + S, 4]
  %b = PAD(k) {pad=[[0, 0], [P, 0], [0, 0]]} : fp32[2, P + S, 4]
  %i = IOTA() {axis=1} : i64[2, P + S, 4]
  %n = CONST() {value=P} : i64[2, P + S, 4]
  %c = CMPLT(%i, %n) : bool[2, P + S, 4]
  %now = WHERE(%c, %a, %b) : fp32[2, P + S, 4]
  %rest = SHRINK(past) {lo=[0, P + S, 0], hi=[2, L, 4]} : fp32[2, L - P - S, 4]
  %d = PAD(%now) {pad=[[0, 0], [0, L - P - S], [0, 0]]} : fp32[2, L, 4]
  %e = PAD(%rest) {pad=[[0, 0], [P + S, 0], [0, 0]]} : fp32[2, L, 4]
  %j = IOTA() {axis=1} : i64[2, L, 4]
  %m = CONST() {value=P + S} : i64[2, L, 4]
  %f = CMPLT(%j, %m) : bool[2, L, 4]
  %new = WHERE(%f, %d, %e) : fp32[2, L, 4]
  %qr = RESHAPE(q) : fp32[2, P + S, 1]
  %qb = EXPAND(%qr) : fp32[2, P + S, 4]
  %y = MUL(%now, %qb) : fp32[2, P + S, 4]

outputs: present=%new, y=%y
"""
PUT = """tinyir 1.0 tiny

model m
  in  cache : fp32[2, L, 4] {role=state, mutability=mutable}
  in  at : i64[S]
  in  k : fp32[2, S, 4]
  out cache : fp32[2, L, 4]
  out y : fp32[2, L]
shapes default {L=64, S=1}

  %new = SCATTER(cache, at, k) {axis=1, op=UPDATE} : fp32[2, L, 4]
  %y = REDUCE(%new) {op=SUM, axes=[2], dtype=fp32} : fp32[2, L]

outputs: cache=%new, y=%y
"""
TURNED = PUT.replace(
    "  %new = SCATTER(cache, at, k) {axis=1, op=UPDATE} : fp32[2, L, 4]\n",
    "  %ct = PERMUTE(cache) {perm=[1, 0, 2]} : fp32[L, 2, 4]\n  %kt = PERMUTE(k) {perm=[1, 0, 2]} : fp32[S, 2, 4]\n"
    "  %st = SCATTER(%ct, at, %kt) {axis=0, op=UPDATE} : fp32[L, 2, 4]\n"
    "  %new = PERMUTE(%st) {perm=[1, 0, 2]} : fp32[2, L, 4]\n",
)


def threads_that_write(text: str, state: str, **sizes: int) -> int:
    """The threads of all launches whose region writes the memory of a state."""
    module = tiny.parse(text)
    for stage in ("index", "poly", "region", "plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90")
    writers = {
        r.name for r in module.region.program.regions for t in r.outputs if owner_of(module.region, t.name) == state
    }
    launches = [launch for launch in module.launches if writers & {*launch.regions}]
    assert launches
    return sum(math.prod(launch.grid_at(sizes)) * math.prod(launch.block) for launch in launches)


@pytest.mark.parametrize(("text", "state"), [(CACHE, "past"), (PUT, "cache"), (TURNED, "cache")])
def test_what_is_written_of_a_cache_does_not_depend_on_its_room(text: str, state: str) -> None:
    few, many = (threads_that_write(text, state, L=room, S=1, P=9) for room in (64, 1 << 20))
    assert few == many <= 256


def test_rows_at_a_symbolic_place_are_all_that_is_computed() -> None:
    made = Stages(CACHE).region
    (writer,) = (r for r in made.program.regions for t in r.outputs if t.attr("alias") == "past")
    assert [str(a.size) for a in writer.iters] == ["2", "S", "4"]
    (item,) = writer.yields
    assert [str(e) for e in item.index] == ["i0", "P + i1", "i2"] and {t.name for t in writer.inputs} == {"k"}
    assert not {t.name for t in made.program.buffers if str(t.type.shape[1]) == "L"} - {item.output}
    assert str(bytes_of(writer)) == "64*S"  # rows that are read, and written
    assert [r.name for r in made.program.regions][0] == writer.name  # others read all rows of the state's memory
    assert {t.name for r in made.program.regions for t in r.inputs} == {"k", "q", item.output}


@pytest.mark.parametrize("text", [CACHE, PUT, TURNED])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_a_cache_at_every_stage(text: str, rows: int) -> None:
    arrays = numbers_for(text, L=64, S=rows, P=9)
    if "at" in arrays:
        arrays["at"] = np.array([5, -1, 5][:rows])  # from the end, and twice: the last stays
    found = dict(Stages(text).outputs(arrays))
    for stage, outputs in found.items():
        for name, array in found["tiny"].items():
            np.testing.assert_allclose(outputs[name], array, rtol=1e-6, err_msg=f"{name} at {stage}")
    changed = [n for n in found["tiny"] if n != "y"][0]
    kept = arrays.get("past", arrays.get("cache"))
    wanted = kept.copy()
    for n in range(rows):
        wanted[:, arrays["at"][n] if "at" in arrays else 9 + n] = arrays["k"][:, n]
    np.testing.assert_array_equal(found["tiny"][changed], wanted)


@needs_host_compiler
@pytest.mark.parametrize("text", [CACHE, PUT, TURNED])
def test_the_kernels_write_rows_of_a_cache(text: str) -> None:
    stages = Stages(text)
    for rows in (1, 5):
        arrays = numbers_for(text, L=64, S=rows, P=7)
        if "at" in arrays:
            arrays["at"] = np.array([63, 63, 200, -3, 0][:rows])
        found = dict(stages.outputs(arrays, True))
        for name, array in found["tiny"].items():
            np.testing.assert_allclose(found["sim"][name], array, rtol=1e-6, err_msg=name)


@needs_host_compiler
def test_a_scatter_onto_a_state_without_elements() -> None:
    text = PUT.replace("[2, L, 4]", "[2, 0, 4]").replace("[2, L]", "[2, 0]").replace("L=64, ", "")
    arrays = numbers_for(text, S=2)
    for _, outputs in Stages(text).outputs(arrays, True):
        assert outputs["cache"].shape == (2, 0, 4)


def beside(text: str, signature: str, outputs: str, body: str = "") -> str:
    """A program with one more output, or state."""
    new = "present=%new" if "present" in text else "cache=%new"
    text = text.replace("  out y :", f"{signature}  out y :").replace(
        f"\noutputs: {new}", f"{body}\noutputs: {new}, {outputs}"
    )
    return text


OTHER = "  in  other : fp32[2, L, 4]\n  out other : fp32[2, L, 4]\n"
BESIDE = {
    "all": (beside(CACHE, "  out all : fp32[2, L, 4]\n", "all=%new"), {"past": "in place"}),
    "another state": (beside(CACHE, OTHER, "other=%new"), {"past": "in place", "other": "copied"}),
    "the old one": (beside(CACHE, "  out old : fp32[2, L, 4]\n", "old=past"), {"past": "in place"}),
    "the old rows": (
        beside(CACHE, "  out z : fp32[2, P, 4]\n", "z=%z", "  %z = NEG(%old) : fp32[2, P, 4]\n"),
        {"past": "in place"},
    ),
    "the rows so far": (beside(CACHE, "  out now : fp32[2, P + S, 4]\n", "now=%now"), {"past": "in place"}),
    "all of a scatter": (beside(TURNED, "  out all : fp32[2, L, 4]\n", "all=%new"), {"cache": "in place"}),
    "a scatter as it is": (beside(TURNED, "  out all : fp32[L, 2, 4]\n", "all=%st"), {"cache": "in place"}),
    "what was there": (beside(PUT, "  out old : fp32[2, L, 4]\n", "old=cache"), {"cache": "in place"}),
    "a sum": (PUT.replace("op=UPDATE", "op=SUM"), {"cache": "in place"}),
}


@needs_host_compiler
@pytest.mark.parametrize("name", BESIDE)
def test_a_cache_and_what_else_wants_it(name: str) -> None:
    text, wanted = BESIDE[name]
    assert said_of(text) == wanted
    arrays = numbers_for(text, L=64, S=2, P=9)
    if "at" in arrays:
        arrays["at"] = np.array([5, -1])
    found = dict(Stages(text).outputs(arrays, True))
    for stage, outputs in found.items():
        for n, array in found["tiny"].items():
            np.testing.assert_allclose(outputs[n], array, rtol=1e-5, atol=1e-5, err_msg=f"{n} at {stage}")


def tuples(shape: list[Any]) -> str:
    """Elements of a cache of several sequences, put by tuples of a sequence and a row, as tiny text."""
    rows = {"cache": shape, "new": shape, "k": [shape[0], *shape[2:]], "y": shape[:3]}
    tensors = {n: {"dtype": "fp32", "shape": s} for n, s in rows.items()}
    tensors["at"] = {"dtype": "i64", "shape": [shape[0], 2]}
    graph = [
        {"op": "ScatterND", "inputs": ["cache", "at", "k"], "outputs": ["new"]},
        {"op": "Reduce", "attrs": {"op": "sum", "axes": [3]}, "inputs": ["new"], "outputs": ["y"]},
    ]
    signature = {
        "inputs": [{"tensor": n} for n in ("cache", "k", "at")],
        "outputs": [{"tensor": "new", "updates": "cache"}, {"tensor": "y"}],
    }
    return tiny.show(front.read(json.dumps({"signature": signature, "tensors": tensors, "graph": graph})))


@needs_host_compiler
@pytest.mark.parametrize("shape", [[3, 2048, 2, 4], ["N", "L", 2, 4]])
def test_rows_of_several_sequences(shape: list[Any]) -> None:
    """The scatter is along an axis that the cache does not have: memory is the same."""
    text = tuples(shape)
    assert said_of(text) == {"cache": "in place"} and threads_that_write(text, "cache", N=3, L=2048) <= 256
    arrays = numbers_for(text, N=3, L=2048)
    arrays["at"] = np.array([[2, 5], [0, -1], [2, 5]])
    found = dict(Stages(text).outputs(arrays, True))
    wanted = arrays["cache"].copy()
    for n, (sequence, row) in enumerate(arrays["at"]):
        wanted[sequence, row] = arrays["k"][n]
    for stage, outputs in found.items():
        np.testing.assert_array_equal(outputs["new"], wanted, err_msg=stage)
        np.testing.assert_allclose(outputs["y"], wanted.sum(3), rtol=1e-5, atol=1e-5, err_msg=stage)


def paged(read: str) -> dict[str, Any]:
    """Attention over pages of a cache, of which two rows are new; `read` says whether the new pages are read, or the
    old ones."""
    heads, rows, depth = 8, 64, 128
    types: dict[str, Any] = {
        "q": ["fp16", [2, heads, 1, depth]],
        "o": ["fp16", [2, heads, 1, depth]],
        "table": ["i32", [2, 32]],
        "at": ["i64", [2, 2]],
    }
    graph = []
    for n in "kv":
        types |= {n: ["fp16", [64, heads, rows, depth]], f"{n}.new": ["fp16", [64, heads, rows, depth]]}
        types[f"{n}.rows"] = ["fp16", [2, heads, depth]]
        turned, source = {"perm": [0, 2, 1, 3]}, f"{n}.new" if read == "new" else n
        graph += [
            {"op": "Transpose", "inputs": [n], "outputs": [f"{n}1"], "attrs": turned},
            {"op": "ScatterND", "inputs": [f"{n}1", "at", f"{n}.rows"], "outputs": [f"{n}2"]},
            {"op": "Transpose", "inputs": [f"{n}2"], "outputs": [f"{n}.new"], "attrs": turned},
            {"op": "Gather", "inputs": [source, "table"], "outputs": [f"{n}3"], "attrs": {"axis": 0}},
            {"op": "Transpose", "inputs": [f"{n}3"], "outputs": [f"{n}4"], "attrs": {"perm": [0, 2, 1, 3, 4]}},
            {"op": "Reshape", "inputs": [f"{n}4"], "outputs": [f"{n}5"], "attrs": {"shape": [2, heads, 2048, depth]}},
        ]
    graph.append({"op": "Attention", "inputs": ["q", "k5", "v5"], "outputs": ["o"]})
    inputs = ["q", "table", "at", "k", "v", "k.rows", "v.rows"]
    outputs = [{"tensor": "o"}, {"tensor": "k.new", "updates": "k"}, {"tensor": "v.new", "updates": "v"}]
    return {
        "signature": {"inputs": [{"tensor": n} for n in inputs], "outputs": outputs},
        "tensors": {n: {"dtype": dtype, "shape": shape} for n, (dtype, shape) in types.items()},
        "graph": graph,
    }


@pytest.mark.parametrize("read", ["new", "old"])
def test_pages_are_read_in_place_where_they_are_the_new_ones(read: str) -> None:
    """A copy of old pages is made before they are written over; it may not be left out."""
    module: Any = front.read(json.dumps(paged(read)))
    assert said_of(tiny.show(module)) == {"k": "in place", "v": "in place"}
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90")
    assert [d for d in check_plan(module) if d.is_error] == [] and region.check(module.program) == []
    copies = [r.name for r in module.program.program.regions if r.name in ("k3", "v3")]
    assert copies == ([] if read == "new" else ["k3", "v3"])
    assert [p.algo for p in module.plans].count("scatter_in_place") == 2


# --- what is refused


@pytest.mark.parametrize(
    ("given", "written", "codes"),
    [
        ("fp32[M]", "fp32[M]", []),
        ("fp32[M]", "fp16[M]", ["E1315"]),
        ("fp32[M]", "fp32[M + 1]", ["E1315"]),
        ("fp32[M] {role=param}", "fp32[M] {updates=s}", ["E1316"]),
        ("fp32[M] {storage=const_pool}", "fp32[M] {updates=s}", ["E1316"]),
        ("fp32[M] {mutability=immutable}", "fp32[M]", ["E1316"]),
        ("fp32[M] {updates=s}", "fp32[M]", ["E1316"]),
        ("fp32[M]", "fp32[M] {updates=t}", ["E1316"]),
        ("fp32[M] {mutability=mutable}", "fp32[M]", []),
    ],
)
def test_contradictions_of_a_signature(given: str, written: str, codes: list[str]) -> None:
    text = f"{HEAD}  in  s : {given}\n  out y : {written}\n".replace(
        "out y", "out y" if "updates=t" in written else "out s"
    )
    module = tiny.parse(f"{text}\noutputs: {'y' if 'updates=t' in written else 's'}=s\n")
    from tinyir.ir.model import check_model

    assert [d.code for d in check_model(module.model)] == codes


@pytest.mark.parametrize("device", DEVICES)
def test_a_weight_may_be_given_on_under_its_name_and_not_changed(device: Any) -> None:
    text = f"{HEAD}  in  w : fp32[M] {{role=param, storage=const_pool}}\n  in  x : fp32[M]\n  out w : fp32[M]\n"
    body = "\n%y = ADD(x, w) : fp32[M]\noutputs: w=%y\n"
    assert [d.code for d in tiny.check(tiny.parse(text + body)) if d.is_error] == ["E1316"]
    text += "  out y : fp32[M]\n" + body.replace("w=%y", "w, y=%y")
    w = np.float32([1, 2])
    with tinyir.compile(text, device=device, params={"w": w}) as program:
        found = program(w)
        assert list(program.states) == [] and found["w"].tolist() == [1, 2] and found["y"].tolist() == [2, 4]


def test_two_outputs_of_one_state_and_a_state_of_none() -> None:
    text = f"{HEAD}  in  s : fp32[M]\n  in  t : fp32[M] {{mutability=mutable}}\n"
    text += "  out s : fp32[M]\n  out y : fp32[M] {updates=s}\n"
    said = tiny.check(tiny.parse(f"{text}\noutputs: s, y=t\n"))
    assert [(d.code, d.at) for d in said if d.code in ("E1316", "W2105")] == [("E1316", "y"), ("W2105", "t")]


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("add(s[i0], x[i0])", "add(s[i0 - i0], x[i0])", "E1428"),
        ("add(s[i0], x[i0])", "reduce sum (k0: M) : fp32 { s[k0] }", "E1428"),
        ("  yield new[i0] = add(s[i0], x[i0])", "  yield new[i0] = x[i0]\n  yield y[i0] = s[i0]", "E1428"),
        ("yield y[i0] = s[i0]\n", "", None),
    ],
)
def test_a_region_that_may_read_what_it_has_written_is_refused(right: str, wrong: str, code: str | None) -> None:
    text = """tinyir 1.0 region

model m
  in  s : fp32[M]
  in  x : fp32[M]
  out s : fp32[M]
  out y : fp32[M]

program m
  buffer new : fp32[M] {alias=s}

region new
  in  s : fp32[M]
  in  x : fp32[M]
  out y : fp32[M]
  out new : fp32[M] {alias=s}
  for i0: M
  yield y[i0] = s[i0]
  yield new[i0] = add(s[i0], x[i0])
"""
    good = region.parse(text)
    assert region.check(good) == []
    changed = text.replace("  yield y[i0] = s[i0]\n", "", 1) if "yield y" in wrong else text
    module = region.parse(changed.replace(right, wrong, 1))
    said = [d.code for one in module.program.regions for d in check_in_place(module, one)]
    assert said == ([code] if code else [])


# --- between calls

MEAN = "graph<N=1> main(x: f32[N], s: f32[N]) -> (s: f32[N], y: f32[N]) { a = s * 0.5 + x return a, x - a }"


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_goes_on_from_its_last_call(device: Any, tmp_path: Path) -> None:
    x, s = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    with tinyir.compile(MEAN, device=device, params={"s": s}) as program:
        assert program.inputs == {"x": "fp32[N]"} and list(program.states) == ["s"]
        for _ in range(3):
            found = program(x)
            s = s * 0.5 + x
            assert list(found) == ["y"] and np.array_equal(found["y"], x - s)
            np.testing.assert_array_equal(program.states["s"], s)
        program.states["s"] = s = np.full(5, 8, np.float32)
        program(x)
        s = s * 0.5 + x
        given = np.ones(5, np.float32)
        found = program(x, s=given)  # set and told, and where the next call begins
        s = given * 0.5 + x
        assert np.array_equal(found["s"], s) and np.array_equal(given, np.ones(5))
        program(x)
        s = s * 0.5 + x
        np.testing.assert_array_equal(program.states["s"], s)
        program.save(tmp_path / "p")
    with tinyir.load(tmp_path / "p", device=device) as program:
        np.testing.assert_array_equal(program.states["s"], s)
        program(x)
        np.testing.assert_array_equal(program.states["s"], s * 0.5 + x)


@pytest.mark.parametrize("device", DEVICES)
def test_states_of_other_sizes_and_dtypes(device: Any) -> None:
    with tinyir.compile(MEAN, device=device) as program:
        assert dict(program.states) == {} and "unset" in repr(program.states)
        with pytest.raises(Refused, match="E1701"):
            program(np.ones(3, np.float32))
        with pytest.raises(Refused, match="E1702"):
            program.states["s"] = np.ones(3)
        with pytest.raises(KeyError):
            program.states["x"] = np.ones(3, np.float32)
        for size in (3, 7, 3):
            program.states["s"] = np.zeros(size, np.float32)
            program(np.ones(size, np.float32))
            np.testing.assert_array_equal(program.states["s"], np.ones(size, np.float32))
        with pytest.raises(Refused, match="E1703"):
            program(np.ones(4, np.float32))


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_that_is_made_of_constants_is_made_at_each_run(device: Any) -> None:
    text, _ = PROGRAMS["made of constants"]
    x = np.float32([1, 2])
    with tinyir.compile(text, device=device, params={"x": x, "s": x}) as program:
        for _ in range(2):
            program.states["s"] = x
            program()
            np.testing.assert_array_equal(program.states["s"], -x)


JSON = {
    "signature": {
        "inputs": [{"tensor": "x"}, {"tensor": "past", "role": "state", "mutability": "mutable"}],
        "outputs": [{"tensor": "present", "updates": "past"}],
    },
    "tensors": {n: {"dtype": "fp32", "shape": ["M"]} for n in ("x", "past", "present")},
    "graph": [{"op": "Elementwise", "fn": "add", "inputs": ["x", "past"], "outputs": ["present"]}],
}


@pytest.mark.parametrize("device", DEVICES)
def test_an_output_of_another_name(device: Any) -> None:
    module = front.read(json.dumps(JSON))
    assert "out present     : fp32[M] {updates=past}" in tiny.show(module)
    one = np.ones(3, np.float32)
    with tinyir.compile(JSON, device=device, params={"past": one}) as program:
        for _ in range(2):
            assert program(one) == {}
        np.testing.assert_array_equal(program.states["past"], 3 * one)
        np.testing.assert_array_equal(program(one, past=one)["present"], 2 * one)


ONE, PAST = {"dtype": "fp32", "shape": ["M"]}, {"id": "p", "uop": "INPUT"}
LANGUAGES = {
    "json": json.dumps(JSON),
    "dsl": "graph<M=4> main(x: f32[M], past: f32[M]) -> (present: f32[M] {updates=past}) { return x + past }",
    "dsl by name": "graph<M=4> main(x: f32[M], past: f32[M]) -> (past: f32[M]) { return x + past }",
    "core ir": '%0 = Input() {name="x"} : f32[M]\n%1 = Input() {name="past"} : f32[M]\n'
    "%2 = BinOp(%0, %1) {op=Add} : f32[M]\noutputs: past=%2\n",
    "nodeid": json.dumps(
        {
            "uops": [
                {"id": "a", "uop": "INPUT", "arg": {"tensor_id": "x", **ONE}},
                {**PAST, "arg": {"tensor_id": "past", **ONE}},
                {"id": "s", "uop": "ADD", "src": ["a", "p"]},
            ],
            "outputs": {"past": "s"},
        }
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_states(language: str) -> None:
    module = front.read(LANGUAGES[language])
    assert [d for d in tiny.check(module) if d.is_error] == [] and list(module.model.states()) == ["past"]
    assert said_of(tiny.show(module)) == {"past": "in place"}
    one = np.ones(3, np.float32)
    with tinyir.compile(LANGUAGES[language], device="cpu", params={"past": one}) as program:
        assert program(one) == {} and program.states["past"].tolist() == [2, 2, 2]


def test_states_on_the_way_back() -> None:
    """The graph DSL says all; Core IR calls the new value as the state."""
    module = front.read(json.dumps(JSON))
    again = front.read(dsl_of(module))
    assert again.model.states() == {"past": "present"}
    assert list(front.read(coreir_of(module)).model.states()) == ["past"]


def test_front_end_json_that_contradicts_itself() -> None:
    for word, value in (("mutability", "immutable"), ("role", "param")):
        text = json.loads(json.dumps(JSON))
        text["signature"]["inputs"][1] = {"tensor": "past", word: value}
        with pytest.raises(Refused) as fault:
            module = front.read(json.dumps(text))
            raise Refused([d for d in tiny.check(module) if d.is_error] or [])
        assert [d.code for d in fault.value.diags] == ["E1316"]
