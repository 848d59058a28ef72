"""Launches that are the same but for names are one kernel: emitted, checked, printed and compiled once, and launched
with other tensors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.alike import form_of
from tinyir.ir.gpu import verify, writes
from tinyir.ir.gpu.launches import check_launches, named_in, passed_of
from tinyir.ir.gpu.nodes import Launch
from tinyir.ir.plan.fields import renamed
from tinyir.ir.plan.words import WORDS
from tinyir.kit.diag import Refused, refuse
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.runtime.device import Bound

from .checked import check_gpu, check_plan
from .doubled import AGAIN, again, doubled
from .emitted import played, region_text, simulated
from .families import CASES, family
from .stages import needs_host_compiler

SIMULATED = (  # what is beside a kernel of one region: workspaces, kernels before it, siblings, two regions
    "map in vectors",
    "scan by look back at flags",
    "scatter by compare and swap",
    "attention",
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def layers(count: int, widths: tuple[int, ...] = (64,)) -> str:
    """`H = relu(X @ W + b)` in fp16 a number of times, from width to width in runs of layers."""
    width = [widths[n * len(widths) // count] for n in range(count)] + [widths[-1]]
    tensors: dict[str, Any] = {"X": ["M", width[0]]}
    ops: list[Any] = []
    x = "X"
    for n in range(count):
        tensors |= {f"W{n}": [width[n], width[n + 1]], f"b{n}": [width[n + 1]]}
        tensors |= {f"{of}{n}": ["M", width[n + 1]] for of in "SH"}
        ops += [
            {"op": "GEMM", "name": f"layer{n}", "inputs": [x, f"W{n}", f"b{n}"], "outputs": [f"S{n}"]},
            {"op": "Elementwise", "name": f"act{n}", "fn": "relu", "inputs": [f"S{n}"], "outputs": [f"H{n}"]},
        ]
        x = f"H{n}"
    given = [name for name in tensors if name[0] in "XWb"]
    return json.dumps(
        {
            "name": "layers",
            "signature": {"inputs": [{"tensor": name} for name in given], "outputs": [{"tensor": x}]},
            "tensors": {name: {"dtype": "fp16", "shape": shape} for name, shape in tensors.items()},
            "graph": ops,
            "shape_sets": {"default": {"M": 40}},
        }
    )


def lowered(text: str, arch: str = "sm90") -> gpu.Module:
    """The gpu text of a model."""
    module: Any = read(text)
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, arch)
    return module


def errors(module: gpu.Module) -> list[tuple[str, str, dict[str, Any]]]:
    return [(d.code, d.at, dict(d.facts)) for d in check_gpu(module) if d.is_error]


# --- texts


def test_three_layers_are_one_kernel() -> None:
    module = lowered(layers(3))
    (kernel,) = module.kernels
    second, third = module.launches[1:]
    assert [kernel.name, second.name, third.name] == ["layer0", "layer1", "layer2"]
    assert {second.kernel, third.kernel} == {kernel.name}
    assert dict(second.passed) == {"X": "act0", "W0": "W1", "b0": "b1", "act0": "act1"}
    assert dict(third.passed) == {"X": "act1", "W0": "W2", "b0": "b2", "act0": "H2"}
    text = gpu.show(module)
    assert gpu.parse(text) == module and errors(module) == []
    assert text.endswith(
        "\n\nlaunch layer1 as layer0 with X = act0, W0 = W1, b0 = b1, act0 = act1\n"
        "launch layer2 as layer0 with X = act1, W0 = W2, b0 = b2, act0 = H2\n"
    )


def test_the_cuda_has_one_function_that_says_what_it_is_launched_as() -> None:
    module = lowered(layers(3))
    code = to_cu.lower(module)
    assert code.source.count("__global__") == 1
    names = [launch.name for launch in code.launches]
    assert f"// launches {', '.join(names)}: in names of the first" in code.source
    assert {launch.entry for launch in code.launches} == {names[0]}
    assert [len(set(of)) for of in zip(*(launch.maps for launch in code.launches))] == [3] * len(code.launches[0].maps)
    tensors = {m.name: m.tensor for m in code.maps}
    assert [tensors[launch.maps[0]] for launch in code.launches] == ["X", "act0", "act1"]
    assert manifest.parse(manifest.show(code)) == code and manifest.check(code) == []


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_layers_run(arch: str) -> None:
    code = to_cu.lower(lowered(layers(3), arch))
    model = code.region.model
    draw = np.random.default_rng(0)
    sizes = {"M": 40}
    arrays = {
        t.name: draw.integers(-1, 2, [e.evaluate(sizes) for e in t.type.shape]).astype(np.float16) for t in model.inputs
    }
    found = simulated(code, arrays)
    for name, wanted in played(code, arrays).items():
        np.testing.assert_allclose(found[name].astype(np.float32), wanted.astype(np.float32), rtol=2e-3)


# --- once


def test_what_is_alike_is_emitted_and_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"emitted": 0, "walked": 0, "counted": 0}

    def counting(word: str, work: Any) -> Any:
        def counted(*given: Any) -> Any:
            counts[word] += 1
            return work(*given)

        return counted

    monkeypatch.setattr(to_gpu, "launch", counting("emitted", to_gpu.launch))
    monkeypatch.setattr(verify, "visits", counting("walked", verify.visits))
    monkeypatch.setattr(writes, "_check_launch", counting("counted", writes._check_launch))
    found = {}
    for many in (4, 24):
        counts.update(dict.fromkeys(counts, 0))
        module = lowered(layers(many, (64, 96)))
        assert errors(module) == [] and len(module.launches) == many
        found[many] = dict(counts)
    assert found[4] == found[24]
    assert found[24] == dict.fromkeys(counts, 3)  # two widths, and from one to the other


def test_other_numbers_sizes_and_memory_are_other_kernels() -> None:
    text = region_text("in X : fp32[N]\nout Y : fp32[N]", "for i0: N\nyield Y[i0] = add(X[i0], 1.0)")
    (one,) = region.parse(text).program.regions
    assert form_of(one).shape == form_of(replace(one, name="other", analysis=None)).shape
    for old, new in (("1.0)", "2.0)"), ("N]", "M]"), ("add(", "sub("), ("X[i0]", "X[N - i0 - 1]"), ("fp32", "fp16")):
        (other,) = region.parse(
            text.replace(old, new).replace("i0: N", f"i0: {new[0]}" if old == "N]" else "i0: N")
        ).program.regions
        assert form_of(one).shape != form_of(other).shape, (old, new)
    shared = replace(one, outputs=tuple(replace(t, attrs=(("alias", "X"),)) for t in one.outputs))
    apart = replace(one, outputs=tuple(replace(t, attrs=(("alias", "Z"),)) for t in one.outputs))
    assert len({form_of(r).shape for r in (one, shared, apart)}) == 3


# --- any kernel


def bare(code: manifest.Module) -> str:
    """A CUDA text without what its comments say and without what is behind the names of a copy, and each statement that
    an `if` guards alone on its line: there is room for short names."""
    words = COMMENT.sub("", code.source).replace(AGAIN.replace(".", "_"), "")
    words = re.sub(r"(?<=\w)_+\b", "", words)  # a name that is taken has one behind it
    for _ in range(2):  # a loop's one statement may be such an `if`
        words = re.sub(r"\) \{\n +([^\n]*;)\n +\}", r") \1", words)
    return words


@pytest.mark.parametrize("name", CASES)
def test_names_decide_nothing(name: str) -> None:
    module = plan.parse(CASES[name])
    here, there = (to_cu.lower(to_gpu.lower(one)) for one in (module, again(module)))
    assert bare(here) == bare(there)


def strings_in(value: Any) -> Iterator[str]:
    """Every word in a plan."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from strings_in(item)
    elif is_dataclass(value):
        for f in fields(value):
            if f.compare:
                yield from strings_in(getattr(value, f.name))


@pytest.mark.parametrize("name", CASES)
def test_every_name_in_a_plan_is_renamed(name: str) -> None:
    module = plan.parse(CASES[name])
    program = module.program.program
    regions = program.regions
    tensors = {t.name: f"{t.name}{AGAIN}" for r in regions for t in (*r.inputs, *r.outputs)}
    values = {let.name: f"{let.name}{AGAIN}" for r in regions for let in r.lets}
    known = {*tensors, *values, *(r.name for r in regions)}
    words = {word for kind in WORDS.values() for word in kind} | {"contraction", "map", "rows", "scan"}
    for one in module.plans:
        found = renamed(one, tuple(f"{r}{AGAIN}" for r in one.regions), tensors, values)
        assert not (set(strings_in(found)) & known) - words - {one.algo, one.family}
        assert renamed(found, one.regions, *({v: k for k, v in t.items()} for t in (tensors, values))) == one


@pytest.mark.parametrize("name", CASES)
def test_a_second_copy_makes_no_kernel(name: str) -> None:
    module = plan.parse(CASES[name])
    one, both = to_gpu.lower(module), to_gpu.lower(doubled(module))
    assert [k.name for k in both.kernels] == [k.name for k in one.kernels]
    assert [gpu.nodes.kernel_named(x) for x in both.launches] == [x.name for x in one.launches] * 2
    assert gpu.parse(gpu.show(both)) == both
    assert [*check_launches(both)] == []
    if name in SIMULATED:
        assert [d for d in check_plan(both.plans) if d.is_error] == [] and errors(both) == []
    code = to_cu.lower(both)
    assert manifest.parse(manifest.show(code)) == code and manifest.check(code) == []
    assert code.source.count("__global__") <= to_cu.lower(one).source.count("__global__")


@needs_host_compiler
@pytest.mark.parametrize("name", SIMULATED)
def test_a_second_copy_runs(name: str) -> None:
    code = to_cu.lower(to_gpu.lower(doubled(plan.parse(CASES[name]))))
    given = family(name).inputs[0]
    arrays = {**given, **{k + AGAIN: np.flip(v, 0).copy() if k.startswith("X") else v for k, v in given.items()}}
    found = simulated(code, arrays)
    for output, wanted in played(code, arrays).items():
        np.testing.assert_allclose(
            found[output].astype(np.float64), wanted.astype(np.float64), rtol=4e-3, atol=4e-3, equal_nan=True
        )


# --- faults

ROWS = """\
tinyir 1.2 gpu

model m
  in  X           : fp32[N]
  in  P           : fp32[N]
  in  S           : fp32[N, 2]
  out Y           : fp32[N]
  out Z           : fp32[N]

program m
  buffer H           : fp32[N]

region first
  in  X           : fp32[N]
  in  P           : fp32[N]
  out H           : fp32[N]
  for i0: N
    %s             = add(X[N - i0 - 1], P[i0])
  yield H[i0] = relu(%s)
region second as first
  tensors [H, P, Y]  values [t]

region third
  in  Y           : fp32[N]
  in  P           : fp32[N]
  in  S           : fp32[N, 2]
  out Z           : fp32[N]
  for i0: N
    %u             = add(Y[N - i0 - 1], S[i0, 0])
    %v             = add(%u, P[i0])
  yield Z[i0] = relu(%v)

plan first : sm80 map
  algo       flat
  tile       [128]
  micro      [1]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

plan second : sm80 map
  algo       flat
  tile       [128]
  micro      [1]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

plan third : sm80 map
  algo       flat
  tile       [128]
  micro      [1]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

kernel first : sm80 grid [floor((N + 127)/128)] block [128]
  let i0 = 128*cta.x + thread.x
  if i0 < N
    %s = add(X[N - i0 - 1], P[i0])
    store H[i0] = relu(%s)

launch second as first with X = H, H = Y

kernel third : sm80 grid [floor((N + 127)/128)] block [128]
  let i0 = 128*cta.x + thread.x
  if i0 < N
    %u = add(Y[N - i0 - 1], S[i0, 0])
    %v = add(%u, P[i0])
    store Z[i0] = relu(%v)
"""
LINE = "launch second as first with X = H, H = Y"
WRONG = {
    "as third with X = H, H = Y": "is not a kernel that comes before it",
    "as zeroth with X = H, H = Y": "is not a kernel that comes before it",
    "of second, first as first with X = H, H = Y": "computes first, and its launch second, first",
    "of fourth as first with X = H, H = Y": "or its launch computes what is not a region of the program",
    "as first with X = H, H = Y, S = P": "has no tensor S",
    "as first with X = H, H = Y, X = P": "is passed two tensors in the place of one",
    "as first with X = H, H = Z": "is passed Z in the place of H, and the regions of its launch have no such tensor",
    "as first with X = H": "is passed H in the place of H, which is not like it or has another in its place",
    "as first with X = P, P = H, H = Y": "computes first, and second is another region with what is passed",
    "as first with X = Y, H = H": "computes first, and second is another region with what is passed",
    "of third as first with X = S, H = Z": "is passed S in the place of X, which is not like it or has another in its "
    "place",
    "of third as first with X = Y, H = Z": "computes first, and third is another region with what is passed",
    "for first as first with X = H, H = Y": "runs at other times",
}


def test_a_text_by_hand_holds() -> None:
    module = gpu.parse(ROWS)
    assert gpu.show(module) == ROWS and errors(module) == []


@pytest.mark.parametrize("words", WRONG)
def test_a_launch_that_is_not_alike_is_refused(words: str) -> None:
    text = ROWS.replace(LINE, f"launch second {words}")
    found = [d for d in check_gpu(gpu.parse(text)) if d.code == "E1683"]
    assert [d.facts["fault"] for d in found] == [WRONG[words]] and all(d.span for d in found)


def test_a_name_is_of_one_launch() -> None:
    found = check_gpu(gpu.parse(ROWS.replace("kernel third :", "kernel second of third :")))
    assert [d.facts for d in found if d.code == "E1603"] == [{"fault": "has the name of another launch"}]


@pytest.mark.parametrize("name", ["scan by look back at flags", "scatter by compare and swap"])
def test_what_serves_is_launched_with_what_it_serves(name: str) -> None:
    both = to_gpu.lower(doubled(plan.parse(CASES[name])))
    serving = [one for one in both.launches if isinstance(one, Launch) and one.serves]
    assert serving
    left = replace(both, launches=tuple(one for one in both.launches if one not in serving))
    assert {d.code for d in check_gpu(left)} >= {"E1683"}
    (first, *_) = (k for k in both.kernels if k.name == serving[0].kernel)
    assert passed_of(serving[0], named_in(first, both)).items() >= dict(serving[0].passed).items()
    moved = replace(both, launches=(*(one for one in both.launches if one not in serving), *serving))
    assert {d.code for d in check_gpu(moved)} >= {"E1683"}


@pytest.mark.parametrize("name", ["", "second"])
def test_a_fault_names_the_launch_where_its_kernel_has_several(name: str) -> None:
    class Faulty:
        def launch(self, code: Any, kernel: str, *given: Any) -> None:
            raise refuse("E1722", kernel, kernel=kernel)

    with pytest.raises(Refused) as found:
        Bound(None, "first", (1,), (1,), 0, (), name=name).run_on(Faulty())
    assert [d.at for d in found.value.diags] == [name or "first"]


@needs_host_compiler
def test_a_fault_in_the_simulation_names_the_launch() -> None:
    code = to_cu.lower(gpu.parse(ROWS))
    wrong = replace(code, source=code.source.replace("if (i0 < N)", "if (i0 <= N)"))
    arrays = {"X": np.ones(5, np.float32), "P": np.ones(5, np.float32), "S": np.ones((5, 2), np.float32)}
    with pytest.raises(Refused) as found:
        simulated(wrong, arrays)
    assert [d.at for d in found.value.diags] == ["first"]


@pytest.mark.parametrize("others", [("y.2", "y.pad"), ("y.2.pad", "y.3"), ("y.2", "y.2.2")])
def test_launches_keep_clear_of_regions_that_are_called_as_they_would_be(others: tuple[str, str]) -> None:
    """A product of symbolic sizes has several launches and a padding one; einsum calls its second product `y.2`."""
    square = {"dtype": "fp16", "shape": ["N", "N"]}
    named = ("y", *others)
    graph = [{"op": "MatMul", "name": n, "inputs": ["x", "w"], "outputs": [f"o{at}"]} for at, n in enumerate(named)]
    graph = [{**op, "inputs": [f"o{at - 1}", "w"] if at else ["x", "w"]} for at, op in enumerate(graph)]
    outputs = [f"o{at}" for at in range(len(named))]
    text = {
        "signature": {"inputs": [{"tensor": n} for n in "xw"], "outputs": [{"tensor": n} for n in outputs]},
        "tensors": dict.fromkeys(("x", "w", *outputs), square),
        "graph": graph,
    }
    module: Any = read(json.dumps(text))
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    names = [one.name for one in module.launches]
    assert gpu.check(module) == [] and len(set(names)) == len(names) and set(named) <= set(names)
    assert {one.regions for one in module.launches if one.name == others[0] and not one.serves} == {(others[0],)}
    assert any(one.name.startswith("y.") and one.regions == ("y",) for one in module.launches)
