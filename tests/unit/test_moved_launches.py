"""Launches that differ in whole numbers at which they read a tensor are one kernel, which is given the tensor from
another place on: the steps of an LSTM, the heads of a projection, the directions of a cell."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tinyir.certificate import Draft
from tinyir.ir import gpu, manifest, region
from tinyir.ir.gpu.launches import can_move
from tinyir.ir.moved import MOVED_BY, moved_form_of
from tinyir.kit.records import replace
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.verifier import Verifier

from .checked import check_gpu
from .emitted import played, simulated
from .stages import needs_host_compiler

STEPS = (2, 0, 3, 1)  # of X, in the order in which they are added


def steps(shape: str = "4, 2, 64", places: tuple[int, ...] = STEPS, dtype: str = "fp32") -> str:
    """Region text that adds to a state the rows of X at these places, a region each."""
    _, *inner = shape.split(", ")
    axes = [f"i{axis}" for axis in range(len(inner))]
    at = ", ".join(axes)
    row = f"{dtype}[{', '.join(inner)}]"
    names = ["S", *(f"h{n}" for n in range(1, len(places))), "Y"]
    lines = [
        "tinyir 1.0 region",
        "",
        "model steps",
        f"  in  X : {dtype}[{shape}]",
        f"  in  S : {row}",
        f"  out Y : {row}",
        "",
        "program steps",
        *(f"  buffer {name} : {row}" for name in names[1:-1]),
    ]
    for place, (before, after) in zip(places, itertools.pairwise(names)):
        lines += [
            "",
            f"region {after}",
            f"  in  X : {dtype}[{shape}]",
            f"  in  {before} : {row}",
            f"  out {after} : {row}",
            f"  for {', '.join(f'{a}: {n}' for a, n in zip(axes, inner))}",
            f"  yield {after}[{at}] = add(X[{place}, {at}], {before}[{at}])",
        ]
    return "\n".join(lines) + "\n"


def lowered(text: str, arch: str = "sm90") -> gpu.Module:
    """Its gpu text."""
    module = region.parse(text)
    assert [d for d in region.check(module) if d.is_error] == []
    return to_gpu.lower(to_plan.lower(module, arch))


def errors(module: gpu.Module) -> list[tuple[str, str]]:
    return [(d.code, d.at) for d in check_gpu(module) if d.is_error]


def test_steps_are_one_kernel() -> None:
    module = lowered(steps())
    (kernel,) = module.kernels
    _, *others = module.launches
    assert [one.moved for one in others] == [(("X", (to - STEPS[0],)),) for to in STEPS[1:]]
    text = gpu.show(module)
    assert f"launch Y as {kernel.name} with X = X at [-1], S = h3, h1 = Y\n" in text
    assert gpu.parse(text) == module and errors(module) == []
    code = to_cu.lower(module)
    assert code.source.count("__global__") == 1
    assert "tensors [X at [-1], h3, Y]" in manifest.show(code)
    assert manifest.parse(manifest.show(code)) == code and manifest.check(code) == []


@pytest.mark.parametrize("name", ["add", "sum", "warp", "wgmma"])
def test_tensors_that_are_called_as_words_of_the_text_are_moved(name: str) -> None:
    """torch.export calls what it makes `add` and `mul`."""
    module = lowered(re.sub(r"\bX\b", name, steps()))
    assert len(module.kernels) == 1 and errors(module) == []


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_steps_run(arch: str) -> None:
    code = to_cu.lower(lowered(steps(), arch))
    draw = np.random.default_rng(0)
    arrays = {"X": draw.standard_normal((4, 2, 64), np.float32), "S": draw.standard_normal((2, 64), np.float32)}
    wanted = arrays["S"]
    for at in STEPS:
        wanted = arrays["X"][at] + wanted
    np.testing.assert_array_equal(simulated(code, arrays)["Y"], wanted)
    np.testing.assert_array_equal(played(code, arrays)["Y"], wanted)


def test_planned_once() -> None:
    """As many plans are made for twenty steps as for two."""
    made = [to_plan.lower(region.parse(steps("32, 2, 64", tuple(range(count)))), "sm90") for count in (2, 20)]
    assert [len({str(replace(p, regions=(), bind=())) for p in one.plans}) for one in made] == [1, 1]
    assert len(to_gpu.lower(made[1]).kernels) == len(to_gpu.lower(made[0]).kernels) == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "kernels"),
    [
        ("4, 2, 64", "fp16", 1),
        ("4, 4", "fp32", 1),
        ("4, 3", "fp32", 4),  # 12 bytes apart: what is aligned for one is not for the next
        ("4, 7, 3", "fp16", 4),
        ("4, N", "fp32", 4),  # not known
    ],
)
def test_what_is_not_16_bytes_apart_is_another_kernel(shape: str, dtype: str, kernels: int) -> None:
    text = steps(shape, dtype=dtype)
    if "N" in shape:
        text = text.replace("model steps\n", "model steps\n  sym N in 1..64\n")
    assert len(lowered(text).kernels) == kernels


def test_forms() -> None:
    """Two reads of one tensor keep their distance; what is written, and what varies along the axis, is not moved."""
    one, two, three, four = region.parse(steps()).program.regions
    assert len({moved_form_of(r).form.shape for r in (one, two, three, four)}) == 1
    assert [moved_form_of(r).starts.get("X") for r in (one, two)] == [(2, 0, 0), None]

    def reading(first: str, second: str) -> region.Region:
        text = steps().replace("S[i0, i1])", f"X[{second}, i0, i1])", 1).replace("X[2, i0", f"X[{first}, i0", 1)
        return region.parse(
            text.replace(
                "region h1\n  in  X : fp32[4, 2, 64]\n  in  S : fp32[2, 64]\n", "region h1\n  in  X : fp32[4, 2, 64]\n"
            )
        ).program.regions[0]

    shapes = {
        pair: moved_form_of(reading(*pair)).form.shape for pair in (("0", "1"), ("2", "3"), ("1", "3"), ("i0", "1"))
    }
    assert shapes["0", "1"] == shapes["2", "3"] != shapes["1", "3"]
    assert len(set(shapes.values())) == 3
    assert moved_form_of(reading("i0", "1")).starts == {}


WRONG = {
    "X = X at [1], S": "another region",  # it reads at -2
    "X = X, S": "another region",
    "X = X at [-3], S": "whole numbers",
    "X = X at [-2, 0, 4], S": "whole numbers",
    "X = X at [-2, 0, 0, 1], S": "whole numbers",
    "X = X at [-2], S": "",
}


@pytest.mark.parametrize("passed", WRONG)
def test_faults_of_edited_launches(passed: str) -> None:
    text = gpu.show(lowered(steps()))
    line = "as h1 with X = X at [-2], S"
    assert line in text
    found = [
        str(d.facts["fault"])
        for d in check_gpu(gpu.parse(text.replace(line, f"as h1 with {passed}", 1)))
        if d.code == "E1683"
    ]
    assert len(found) == bool(WRONG[passed]) and all(WRONG[passed] in fault for fault in found)


def test_a_place_outside_is_refused_in_cuda() -> None:
    text = manifest.show(to_cu.lower(lowered(steps())))
    line = "tensors [X at [-1], h3, Y]\n"
    for place in ("[4]", "[0, 0, 0, 0]", "[0, 2]"):
        faults = manifest.check(manifest.parse(text.replace(line, line.replace("[-1]", place))))
        assert [(d.code, d.facts["name"]) for d in faults] == [("E1632", f"X at {place}")]


def test_the_verifier_sees_that_moves_stay_inside() -> None:
    text = gpu.show(lowered(steps()))
    for place, is_shown in (("[-1]", True), ("[-3]", False), ("[2]", False), ("[0, 0, 1]", False), ("[0, 1]", False)):
        draft = Draft(gpu.parse(text.replace("X = X at [-1]", f"X = X at {place}")))
        checked = Verifier(draft.show(""), is_draft=True)
        assert list(checked.verdicts())
        assert (not any("tensors of its shapes" in str(one) for one in checked.unconfirmed)) is is_shown, place


def test_a_map_of_a_tensor_is_not_moved() -> None:
    """The copy engine counts from the tensor's first element: such a kernel is another one."""
    module = lowered(steps())
    (kernel,) = module.kernels
    tensor = module.plans.program.model.inputs[0]
    box = gpu.nodes.TensorMap("X.map", "X", tuple(tensor.type.shape))
    mapped = replace(kernel, body=(box, *kernel.body))
    assert can_move(kernel, tensor, (1,)) and not can_move(mapped, tensor, (1,))
    assert not can_move(kernel, tensor, (2,)) and not can_move(kernel, tensor, (0, 1))
    assert MOVED_BY == 16
