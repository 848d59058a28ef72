"""Kernels play what their regions say: no case of a family is refused, and what is another number is found, which no
other check of gpu text finds."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

from tests.fuzz import harmless, mutants
from tinyir.ir import gpu
from tinyir.ir.body import Body
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.verify import OF_ONE_ELEMENT
from tinyir.ir.gpu.walk import statements
from tinyir.ir.types import DTYPES
from tinyir.kit import work
from tinyir.kit.diag import Diag, Refused
from tinyir.lower import language_of
from tinyir.play import kernel as played
from tinyir.play.kernel import TOGETHER, check_values, differing, numbers
from tinyir.play.kernel.reference import BOXES, FEW_ELEMENTS, boxes_of
from tinyir.play.kernel.run import are_turns_apart
from tinyir.play.kernel.threads import _BODIES
from tinyir.play.product import MOST_ALONE, multiplied

from .families import CASES, family
from .turns import in_turn

RULES = ("arithmetic", "fold", "guard", "index moved", "start of a fold", "stride")  # of `tests.fuzz.mutants`
TRIED = 160
# What small numbers do not show: the maximum that a softmax subtracts keeps large ones from overflowing.
OF_LARGE_NUMBERS = re.compile(r"_reduce min |^reg max\.acc")


@functools.cache
def module_of(case: str) -> gpu.Module:
    return gpu.parse(family(case).kernels)


def counted(module: gpu.Module, is_edited: bool) -> tuple[list[Diag], Counter[str]]:
    """What is said of a module, and the work that it took."""
    before = Counter(work.counts)
    said = list(check_values(module, is_edited))
    return said, work.counts - before


@pytest.mark.parametrize("case", CASES)
def test_no_case_of_a_family_computes_something_else(case: str) -> None:
    played._judged.cache_clear()
    said, found = counted(module_of(case), True)
    assert said == []
    assert found["kernels played"] > 0 and found["kernels unplayed"] == 0


def unseen() -> Iterator[tuple[mutants.Mutant, gpu.Module]]:
    """Mutants of gpu text that no other check refuses, and that nothing proves to be harmless."""
    for one in in_turn([mutants._shuffled("gpu lines", case, 3) for case in CASES]):
        if one.rule not in RULES:
            continue
        try:
            module = gpu.parse(one.text)
            if any(d.is_error for d in gpu.check(module)):
                continue
        except Refused:
            continue
        right = family(one.case).kernels
        if not harmless.is_same(right, one.text) and not harmless.reason_of("gpu", one.case, one.rule, right, one.text):
            yield one, module


@pytest.mark.slow
def test_mutants_that_no_other_check_finds_are_found() -> None:
    """But for few whose sizes are not among those that are played, or that leave elements out. What the simulation does
    not see either changes nothing: a name that nobody asks for, a factor of what is 0."""
    missed = [one for one, module in itertools.islice(unseen(), TRIED) if not list(check_values(module))]
    seen = [one for one in missed if mutants.verdict(one).startswith("seen")]
    assert [str(one) for one in seen if not OF_LARGE_NUMBERS.search(one.after)][TRIED // 40 :] == []
    assert len(seen) < TRIED // 10


@pytest.mark.parametrize(
    ("case", "old", "new"),
    [
        ("hopper", "zero k = 0", "zero k = 1"),
        ("hopper cluster", "a[s.slot][part, 0] * b", "a[s.slot][0, 0] * b"),
        ("hopper", "add(acc[r, 64*j + n], bias.tile[64*j + n])", "add(acc[r, 64*j + n], bias.tile[n])"),
        ("hopper windows", "from [-1, 0] step", "from [0, 0] step"),
        ("flash", "row_reduce sum sc into total", "row_reduce max sc into total"),
        ("flash", "acc[r, n] = mul(acc[r, n], change[r])", "acc[r, n] = mul(acc[r, n], base[r])"),
        ("warps", "mma acc += p[0, 16] * vf", "mma acc += p[0, 0] * vf"),
        ("warps", "ldmatrix kf <- k[s.slot][0, 0] trans", "ldmatrix kf <- k[s.slot][0, 0]"),
        ("ampere", "ldmatrix bf[1] <- b[s.slot][16, wn]", "ldmatrix bf[1] <- b[s.slot][0, wn]"),
        ("packed weights", ", 8.0)", ", 7.0)"),
        ("gather", "choose k0.at = I[i0]", "choose k0.at = I[0]"),
        ("scan", "block_scan sum y.acc", "block_scan max y.acc"),
        ("scan by look back", "look_back sum", "look_back max"),
        ("scatter by atomics", "atomic sum", "atomic max"),
        ("softmax of a cluster", "block_reduce sum", "block_reduce max"),
        # what sizes have to show: a second turn of the loop, a largest element that is the first
        ("gemv across the sum", "1024*k", "1025*k"),
        ("gemv cut", "512*k", "513*k"),
        ("gemv cut", "in 0..64 unroll", "in 0..63 unroll"),
        ("plain of two folds", "for k in 0..N", "for k in 1..N"),
    ],
)
def test_what_is_another_number_is_found(case: str, old: str, new: str) -> None:
    text = family(case).kernels
    assert old in text
    said = list(check_values(gpu.parse(text.replace(old, new, 1))))
    assert [d.code for d in said] == ["E1685"]


OF_REGIONS = {  # one of each kind of expression that a kernel does not have
    "BroadcastInDim": "broadcast_in_dim(X[i0], dims=[0])",
    "Transpose": "transpose(X[i0], perm=[0])",
    "Reduce": "reduce sum (i0: 4) : fp32 { X[i0] }",
    "Scan": "scan sum (i0) : fp32 { X[i0] }",
    "Gather": "gather(i0: 4 = index(i0) : i32) { X[i0] }",
    "Scatter": "scatter update i0 (i0: 4) { X[i0] at index(i0) : i32 } onto X[i0]",
}


def test_kernels_play_what_they_may_say_of_one_element() -> None:
    assert set(_BODIES) == set(OF_ONE_ELEMENT)
    assert set(OF_REGIONS) == {kind.__name__ for kind in get_args(Body)} - {kind.__name__ for kind in OF_ONE_ELEMENT}


@pytest.mark.parametrize("kind", OF_REGIONS)
def test_a_fold_or_a_move_in_a_kernel_is_refused(kind: str) -> None:
    text = family("map").kernels
    head, tail = text[: text.index("\nkernel ")], text[text.index("\nkernel ") :]
    assert "add(X[i0], 1.0)" in tail
    module = gpu.parse(head + tail.replace("add(X[i0], 1.0)", f"add({OF_REGIONS[kind]}, 1.0)"))
    assert [d.code for d in gpu.check(module)] == ["E1602"]


def test_of_kernels_that_are_alike_one_is_played_once() -> None:
    module = module_of("hopper")
    played._PLAYED.clear()
    _, first = counted(module, False)
    _, again = counted(module, False)
    assert first["kernels played"] == 1 and again["kernels played"] == 0
    changed = gpu.parse(family("hopper").kernels.replace("zero k = 0", "zero k = 1"))
    assert list(check_values(changed, False)) == []  # it is lowered from nothing: such a text is read, and is edited
    assert [d.code for d in language_of("gpu").validate(changed)] == ["E1685"]


def test_a_text_is_played_within_its_steps() -> None:
    for case in CASES:
        module = module_of(case)
        taken = [
            played._judged(one, regions, tensors, module.plans.program.model, TOGETHER[0], False)[1]
            for one, regions, tensors in asked(module)
        ]
        assert all(steps <= len(played.SIZES) * (TOGETHER[0] + 1) * 2 for steps in taken), case


def asked(module: gpu.Module) -> Iterator[tuple[Any, Any, Any]]:
    """The questions that `check_values` asks."""
    for one in played._launched(module):
        regions = tuple(map(module.plans.program.program.region, one.main.regions))
        named = {t.name: t for k, _ in one.kernels for t in played.tensors_of(k, module).values()}
        yield one, regions, tuple(named.values())


@pytest.mark.parametrize(
    ("body", "is_apart"),
    [
        ("x[v] = add(x[v], 1.0)", True),
        ("x[v] = add(x[0], 1.0)", False),  # what turn 0 has written
        ("x[0] = add(x[0], X[v])", False),  # a sum
        ("x[2*v] = X[v]", True),
        ("x[v] = X[v] where v < 1 else 0.0", True),
    ],
)
def test_turns_that_need_nothing_of_one_another_are_one(body: str, is_apart: bool) -> None:
    text = family("map").kernels
    start = text.index("\nkernel ")
    head = text[: text.index("\n", start + 1)]
    kernel = gpu.parse(f"{head}\n  reg x : fp32[8] = 0.0\n  for v in 0..4\n    {body}\n").kernels[0]
    loop = next(s for s in statements(kernel.body) if isinstance(s, nodes.For))
    arrays = {s.name: s for s in statements(kernel.body) if isinstance(s, nodes.Reg)}
    assert are_turns_apart(loop, arrays) is is_apart


@pytest.mark.parametrize("sizes", [(8, 64, 1280), (1280, 64, 8), (64, 512, 65), (1, 1 << 20, 3), (64, 4, 4), (0, 8, 8)])
def test_no_small_product_is_shared_out_among_threads(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, depth, columns = sizes
    draw = np.random.default_rng(0)
    left, right = (draw.integers(-4, 5, (2, *shape)).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    wanted, asked = left @ right, []
    made = np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b: asked.append(a.shape[-2] * a.shape[-1] * b.shape[-1]) or made(a, b))
    np.testing.assert_array_equal(multiplied(left, right), wanted)
    assert max(asked) <= max(MOST_ALONE, depth * min(rows, columns))


def test_large_tensors_are_asked_for_in_boxes() -> None:
    shape = (8, 512, 768)
    stored = [(n % 8, n, 64 * (n % 12)) for n in range(512)]
    boxes = boxes_of(shape, stored)
    assert len(boxes) == BOXES
    for box in boxes:
        assert all(0 <= start < stop <= size for (start, stop), size in zip(box, shape))
        assert np.prod([stop - start for start, stop in box]) < FEW_ELEMENTS
    assert boxes_of((65, 65), [(0, 0)]) == [((0, 65), (0, 65))]


def test_numbers_of_a_large_tensor_take_little_memory() -> None:
    found = numbers((50257, 768), DTYPES["fp16"], 0)
    assert found.base is not None and len(set(found[:64, 0].tolist())) > 8
    assert not differing(found[:9], found[:9], DTYPES["fp16"], np.ones((9, 768), bool)).size
    assert differing(found[:9], found[1:10], DTYPES["fp16"], np.ones((9, 768), bool)).size


def test_infinities_are_compared_without_warnings() -> None:
    found, wanted = np.array([np.inf, np.inf, np.nan, 1e308, 1.0]), np.array([np.inf, -np.inf, np.nan, -1e308, 1.0])
    with np.errstate(all="raise"):  # where infinity is wanted, a rounding before it decides what comes
        assert differing(found, wanted, DTYPES["fp64"], np.ones(5, bool)).tolist() == [[3]]
