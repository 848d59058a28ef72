"""Constants of the model whose rows the copy engine does not take are padded once, before the first run; activations at
each."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.program import Program
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .checked import check_gpu, check_plan
from .emitted import lowered, played
from .test_any_shape import whole_numbers
from .test_warp_specialized import BIAS, product, proposed

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
SIZES = (67, 131, 77)


def constant(text: str, *names: str) -> region.Module:
    """The region text with these inputs constants of the model."""
    for name in names:
        line = next(line for line in text.splitlines() if line.startswith(f"  in  {name} "))
        text = text.replace(line, f"{line} {{role=param, storage=const_pool}}", 1)
    return region.parse(text)


def planned(*names: str, hints: dict[str, str] | None = None) -> plan.Module:
    """The product with these operands constants, its small padded plan."""
    module = constant(
        region.show(product("NN", sizes=", ".join(f"{n}={s}" for n, s in zip("MNK", SIZES)), **BIAS)), *names
    )
    one = next(p for p in proposed(module, ("A", "B")) if p.tile[:2] == (64, 64))
    layout = tuple(replace(item, hint=(hints or {}).get(item.tensor, item.hint)) for item in one.layout)
    return plan.Module(module, (replace(one, persistent=2, layout=layout),))


# --- texts


def test_the_plan_says_which_operand_is_padded_once() -> None:
    module = planned("B")
    assert "layout     A padded, B padded_once\n" in plan.show(module) and check_plan(module) == []
    kernels, code = lowered(module)
    assert [(k.name, k.serves, k.is_once) for k in kernels.kernels] == [
        ("r.keep", "r", True),
        ("r.pad", "r", False),
        ("r", "", False),
    ]
    assert "kernel r.keep of r for r once : sm90" in gpu.show(
        kernels
    ) and "launch r.keep as r_keep of r for r once : sm90" in manifest.show(code)
    assert [(launch.name, launch.is_once, launch.tensors[0]) for launch in code.launches[:2]] == [
        ("r.keep", True, "B"),
        ("r.pad", False, "A"),
    ]


def test_what_is_padded_once_costs_nothing_at_a_run() -> None:
    dear, cheap = (to_plan.candidates(m, m.program.regions[0]) for m in (planned().program, planned("B").program))
    same = next(c for c in dear if c.plan.layout)
    other = next(
        c
        for c in cheap
        if replace(c.plan, layout=(), estimate=None) == replace(same.plan, layout=(), estimate=None)
        and len(c.plan.layout) == 2
    )
    assert other.cost.microseconds < same.cost.microseconds


def test_what_is_no_constant_cannot_be_padded_once() -> None:
    assert [d.code for d in check_plan(planned("B", hints={"A": "padded_once"}))] == ["E1523"]
    kernels = to_gpu.lower(planned("B"))
    wrong = replace(kernels, launches=tuple(replace(k, is_once=bool(k.serves)) for k in kernels.kernels))
    assert [d.code for d in check_gpu(wrong)] == ["E1603"] and "reads A" in str(check_gpu(wrong)[0].facts)


# --- runs


class _Counting(SimDevice):
    """A simulated device that knows what it launched."""

    def __init__(self, **how: Any) -> None:
        super().__init__(0, 60, **how)
        self.ran: list[str] = []

    def launch(self, code: Any, kernel: str, *args: Any) -> None:
        self.ran.append(kernel)
        super().launch(code, kernel, *args)


@needs_host_compiler
def test_constants_are_padded_before_the_first_run_and_when_they_are_new() -> None:
    _, code = lowered(planned("B"))
    device = _Counting()
    try:
        program = Program(device, manifest.show(code), code, dict(zip("MNK", SIZES)))
        given = whole_numbers(code, SIZES, 0)
        for seed, new in ((1, {"A", "B", "bias"}), (2, {"A"}), (3, {"A", "bias"}), (4, {"B"})):
            given |= {name: array for name, array in whole_numbers(code, SIZES, seed).items() if name in new}
            program.upload({name: given[name] for name in new})
            device.ran.clear()
            program.run()
            assert device.ran == (["r_keep"] if "B" in new else []) + ["r_pad", "r"]
            assert np.array_equal(program.outputs()["C"], played(code, given)["C"])
    finally:
        device.release()


@needs_host_compiler
def test_constants_at_another_place_are_padded_again() -> None:
    _, code = lowered(planned("A", "B"))
    device = _Counting()
    try:
        program = Program(device, manifest.show(code), code, dict(zip("MNK", SIZES)))
        first, second, third = (whole_numbers(code, SIZES, seed) for seed in (1, 2, 3))
        program.upload(first)
        theirs = device.allocate("B", first["B"].size, 2)
        for buffers, b, is_new in (
            ({}, first, True),
            ({}, first, False),
            ({"B": theirs}, second, True),
            ({"B": theirs}, third, True),
            ({}, first, True),
        ):
            device.ran.clear()
            device.upload(
                theirs, (second if b is first else b)["B"]
            )  # the caller's memory may hold other numbers at the same place
            program.run(buffers)
            assert device.ran == ["r_keep"] * is_new + ["r"]
            assert np.array_equal(program.outputs()["C"], played(code, {**first, "B": b["B"]})["C"])
    finally:
        device.release()
