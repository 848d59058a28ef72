"""What is read at remainders, quotients, pieces, halves and ends: shown to be inside, or guarded with a remark; never
refused, and always right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu.prove import Facts
from tinyir.ir.intervals import Interval
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.play.tiny import play

from .checked import check_gpu
from .emitted import lowered, planned, region_text, simulated
from .odd_maps import SIZES, arrays_for, odd_program
from .stages import Stages, needs_host_compiler
from .test_front_onnx import model, node, text

SAMPLES = Path(__file__).parents[2] / "samples"


def kernels_of(module: Any) -> tuple[gpu.Module, list[Any]]:
    """The kernels of a tiny module, and the remarks on them."""
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90")
    return to_gpu.lower(module), to_gpu.verdicts(module)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_maps_are_shown_to_be_inside(first: int) -> None:
    """A few of many may be guarded; none is refused."""
    guarded = 0
    for seed in range(first, first + 10):
        kernels, remarks = kernels_of(odd_program(seed))
        assert [(d.code, dict(d.facts)) for d in check_gpu(kernels) if d.is_error] == [], seed
        guarded += bool(remarks)
    assert guarded <= 1


@needs_host_compiler
@pytest.mark.parametrize(
    "seed",
    [
        3,
        7,
        29,
        133,
        pytest.param(5, marks=pytest.mark.slow),
        pytest.param(94, marks=pytest.mark.slow),
        pytest.param(95, marks=pytest.mark.slow),
    ],
)
def test_random_maps_read_what_they_should(seed: int) -> None:
    module = odd_program(seed)
    code = to_cu.lower(kernels_of(module)[0])
    for sizes in SIZES:
        given = arrays_for(module, sizes)
        found, wanted = simulated(code, given), play(module, given)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{name} at {sizes}")


@pytest.mark.parametrize("name", sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir()))
def test_no_access_of_a_sample_is_guarded(name: str) -> None:
    module = plan.parse((SAMPLES / name / f"{name}.plan").read_text(encoding="utf-8"))
    assert to_gpu.verdicts(module) == []


# --- models that were refused


def _sliced(start: int, end: int, step: int) -> Any:
    words = {"st": start, "en": end, "ax": 0, "sp": step}
    return model(
        [node("Slice", ["x", *words], ["z"])],
        {"x": ["n", "m"]},
        ["z"],
        {k: np.array([v], np.int64) for k, v in words.items()},
    )


@needs_host_compiler
@pytest.mark.parametrize("part", [(1, 1 << 40, 2), (-1, -(1 << 40), -2)])
def test_a_slice_in_steps_over_a_symbolic_axis(part: tuple[int, int, int]) -> None:
    stages = Stages(text(_sliced(*part)))
    for rows in (4, 5, 1):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        stages.assert_gives({"x": x}, {"z": x[slice(part[0], None, part[2])]}, is_simulated=True)


@needs_host_compiler
def test_a_padded_operand_of_a_flattened_product() -> None:
    """m1 is read at i0 - 2*floor(i0/21), where i0 mod 21 < 19."""
    draw = np.random.default_rng(3)
    weights = {
        "w0": draw.integers(-3, 4, (4, 5)).astype(np.float32),
        "w1": draw.integers(-3, 4, (4, 5)).astype(np.float32),
    }
    sizes = {
        "s0": np.array([2, 21, 5], np.int64),
        "s1": np.array([2, 19, 5], np.int64),
        "p": np.array([0, 0, 0, 0, 2, 0], np.int64),
    }
    nodes = [
        ("MatMul", ["a", "w0"], ["m0"]),
        ("MatMul", ["b", "w1"], ["m1"]),
        ("Reshape", ["m0", "s0"], ["r0"]),
        ("Reshape", ["m1", "s1"], ["r1"]),
        ("Pad", ["r1", "p"], ["q"]),
        ("Max", ["r0", "q"], ["y"]),
    ]
    stages = Stages(text(model([node(*n) for n in nodes], {"a": [42, 4], "b": [38, 4]}, ["y"], {**weights, **sizes})))
    a, b = draw.integers(-3, 4, (42, 4)).astype(np.float32), draw.integers(-3, 4, (38, 4)).astype(np.float32)
    padded = np.pad((b @ weights["w1"]).reshape(2, 19, 5), ((0, 0), (0, 2), (0, 0)))
    stages.assert_gives(
        {"a": a, "b": b}, {"y": np.maximum((a @ weights["w0"]).reshape(2, 21, 5), padded)}, is_simulated=True
    )


def _gates(pieces: tuple[tuple[str, int, int], ...], sizes: Mapping[str, int], rows: Any) -> Any:
    """A product and a bias that is put together of pieces."""
    ends = {
        f"{word}{n}": np.array([at], np.int64) for n, (_, *both) in enumerate(pieces) for word, at in zip("se", both)
    }
    nodes = [node("Slice", [name, f"s{n}", f"e{n}"], [f"b{n}"]) for n, (name, _, _) in enumerate(pieces)]
    nodes += [
        node("Concat", [f"b{n}" for n in range(len(pieces))], ["bb"], axis=0),
        node("MatMul", ["x", "W"], ["m"]),
        node("Add", ["m", "bb"], ["y"]),
    ]
    columns = sum(end - start for _, start, end in pieces)
    weight = np.random.default_rng(1).integers(-2, 3, (32, columns)).astype(np.float32)
    return model(
        nodes, {"x": [rows, 32], **{name: [size] for name, size in sizes.items()}}, ["y"], {"W": weight, **ends}
    ), weight


@needs_host_compiler
@pytest.mark.parametrize("rows", [64, "B"])
@pytest.mark.parametrize(
    "pieces, sizes",
    [
        ((("b", 0, 64), ("b", 192, 256), ("b", 64, 192)), {"b": 256}),  # the gates of a recurrence in another order
        ((("b", 0, 64), ("c", 0, 192)), {"b": 64, "c": 192}),
    ],
)
def test_a_bias_of_slices(pieces: tuple[tuple[str, int, int], ...], sizes: Mapping[str, int], rows: Any) -> None:
    given, weight = _gates(pieces, sizes, rows)
    stages = Stages(text(given))
    arrays = {
        "x": np.random.default_rng(2).integers(-2, 3, (64, 32)).astype(np.float32),
        **{name: np.arange(size, dtype=np.float32) for name, size in sizes.items()},
    }
    bias = np.concatenate([arrays[name][start:end] for name, start, end in pieces])
    stages.assert_gives(arrays, {"y": arrays["x"] @ weight + bias}, is_simulated=rows == 64)
    stages.cuda()


@needs_host_compiler
def test_windows_over_flattened_pixels() -> None:
    """SegFormer's feed-forward: the rows of a sequence are the pixels of an image; a window reads row i0 + 6*k0 + k1 -
    7, where it is inside."""
    kernel = np.arange(36, dtype=np.float32).reshape(4, 1, 3, 3) - 18
    sizes = {"s0": np.array([1, 4, 5, 6], np.int64), "s1": np.array([1, 4, 30], np.int64)}
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "s0"], ["r"]),
        node("Conv", ["r", "w"], ["c"], group=4, pads=[1, 1, 1, 1]),
        node("Reshape", ["c", "s1"], ["f"]),
        node("Transpose", ["f"], ["u"], perm=[0, 2, 1]),
        node("Relu", ["u"], ["y"]),
    ]
    stages = Stages(text(model(nodes, {"x": [1, 30, 4]}, ["y"], {"w": kernel, **sizes})))
    x = np.arange(120, dtype=np.float32).reshape(1, 30, 4) % 7
    image = np.pad(x[0].T.reshape(4, 5, 6), ((0, 0), (1, 1), (1, 1)))
    wanted = sum(kernel[:, 0, a, b, None, None] * image[:, a : a + 5, b : b + 6] for a in range(3) for b in range(3))
    stages.assert_gives({"x": x}, {"y": np.maximum(wanted.reshape(4, 30).T, 0)[None]}, is_simulated=True)


@needs_host_compiler
def test_channels_shuffled_and_split() -> None:
    """ShuffleNet: two halves take turns, and are parted again."""
    sizes = {
        "s0": np.array([1, 2, 6, 3, 3], np.int64),
        "s1": np.array([1, 12, 3, 3], np.int64),
        "parts": np.array([6, 6], np.int64),
    }
    nodes = [
        node("Concat", ["a", "b"], ["c"], axis=1),
        node("Reshape", ["c", "s0"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["t", "s1"], ["u"]),
        node("Split", ["u", "parts"], ["p", "q"], axis=1),
        node("Relu", ["q"], ["n"]),
        node("Concat", ["n", "p"], ["y"], axis=1),
    ]
    stages = Stages(text(model(nodes, {"a": [1, 6, 3, 3], "b": [1, 6, 3, 3]}, ["y"], sizes)))
    a, b = np.arange(54, dtype=np.float32).reshape(1, 6, 3, 3) - 9, -np.arange(54, dtype=np.float32).reshape(1, 6, 3, 3)
    mixed = np.concatenate([a, b], 1).reshape(1, 2, 6, 3, 3).transpose(0, 2, 1, 3, 4).reshape(1, 12, 3, 3)
    stages.assert_gives(
        {"a": a, "b": b}, {"y": np.concatenate([np.maximum(mixed[:, 6:], 0), mixed[:, :6]], 1)}, is_simulated=True
    )


# --- guards


ALTERNATING = " ".join(f"{'-' if k % 2 else '+'} floor(i0/{k})" for k in range(2, 18))[2:]


def _beyond(most: int) -> str:
    """A region whose index only a long search places."""
    return region_text(
        f"in x : fp32[{most}]\nout y : fp32[1000]", f"for i0: 1000\n%y = neg(x[{ALTERNATING}])\nyield y[i0] = %y"
    )


@needs_host_compiler
def test_what_takes_too_long_to_show_has_a_guard() -> None:
    index = [sum((-1) ** k * (i // k) for k in range(2, 18)) for i in range(1000)]
    module = planned(_beyond(max(index) + 1))
    remarks = to_gpu.verdicts(module)
    assert {d.code for d in remarks} == {"R3601"} and "< 281" in remarks[0].why()
    kernels, code = lowered(module)
    assert f"< {max(index) + 1} else 0.0" in gpu.show(kernels)
    given = {"x": np.arange(max(index) + 1, dtype=np.float32)}
    np.testing.assert_array_equal(simulated(code, given)["y"], -given["x"][index])


def test_a_guard_is_only_for_what_we_made() -> None:
    """A text that people edit is refused."""
    kernels, _ = lowered(planned(_beyond(281)))
    edited = gpu.show(kernels).replace(" < 281 else 0.0", " < 282 else 0.0")
    assert edited != gpu.show(kernels) and {d.code for d in check_gpu(gpu.parse(edited))} == {"E1615"}


# --- what a prover knows


A, B, N = (Expr.of(name) for name in "abn")
KNOWN = Facts({"a": Interval(0, 1000), "b": Interval(0, 1000), "n": Interval(1, 1000)})


def test_a_guard_that_does_not_hold_is_known() -> None:
    within = (Bound(A, Expr.of(0), Expr.of(128)),)
    assert KNOWN.with_broken(within[:1]).is_at_least(A, Expr.of(128))
    either = KNOWN.with_broken((Bound(A, upper=N), Bound(B, upper=N)))
    assert either.is_at_least(A + B, N) and not either.is_at_least(A, N)
    assert not KNOWN.with_broken((Bound(A, upper=N),)).is_at_least(A, N + 1)


def test_products_follow_from_their_factors() -> None:
    known = KNOWN.with_guard((Bound(A, upper=N), Bound(B, upper=Expr.of(7))))
    assert known.is_below(7 * A + B, 7 * N) and not known.is_below(7 * A + B, 7 * N - 1)
    assert known.is_below(N * A + A, N * N) and not known.is_below(N * A + A, N * N - 1)
    flat = KNOWN.with_guard((Bound(A, upper=N * (N // 2)),))
    assert (
        flat.is_below(A // N, N // 2) and flat.is_below(2 * (A // N) + 1, N) and not flat.is_below(2 * (A // N) + 2, N)
    )


def test_a_remainder_under_a_guard() -> None:
    """i mod 21 < 19 packs rows of 19."""
    row = Facts({"a": Interval(0, 167)}).with_guard((Bound(A - 21 * (A // 21), upper=Expr.of(19)),))
    assert row.is_below(A - 2 * (A // 21), Expr.of(152)) and not row.is_below(A - 2 * (A // 21), Expr.of(151))
