"""Ops of torch in archives written by hand, against NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyir.front.pt2 import to_json
from tinyir.kit.diag import Refused

from .by_hand import BOOL, DOUBLE, FLOAT, HALF, LONG, archive, meta, model, node
from .test_by_hand import X, played


@pytest.mark.parametrize("ends", [(-2, 2), (-0.3, 1.7), (0, 0)])
@pytest.mark.parametrize("is_one", [False, True])
def test_elements_are_counted_in_bins(tmp_path: Path, ends: tuple[float, float], is_one: bool) -> None:
    x = np.full(50, 0.5, "f4") if is_one else np.random.default_rng(3).standard_normal(50).astype("f4")
    x[:2] = (x[2], x[3]) if ends == (0, 0) else (np.nan, ends[1])  # NaN is counted nowhere, the end in the last bin
    nodes = [node("histc.default", ["y"], self="x", bins=7, min=ends[0], max=ends[1])]
    (found,) = played(archive(model({"x": (FLOAT, [50])}, nodes, {"y": (FLOAT, [7])}), {}), tmp_path, x)
    low, high = (x.min() - is_one, x.max() + is_one) if ends == (0, 0) else ends
    wanted = np.histogram(x[~np.isnan(x)], 7, (low, high))[0]
    assert found.tolist() == wanted.tolist() and wanted.sum() > 0


@pytest.mark.parametrize("kind", [FLOAT, LONG, BOOL])
@pytest.mark.parametrize(
    ("times", "axis", "joined"), [(1, -1, ""), (2, 0, ""), (1, 1, "prepend append"), (1, 0, "append")]
)
def test_neighbours_differ_by(tmp_path: Path, kind: Any, times: int, axis: int, joined: str) -> None:
    rng = np.random.default_rng(5)
    dtype = {FLOAT: "f4", LONG: "i8", BOOL: "?"}[kind]
    given = {"x": rng.integers(0, 2 if kind == BOOL else 9, (4, 5)).astype(dtype)}
    ends = dict.fromkeys(joined.split(), given["x"][:2] if axis == 0 else given["x"][:, :1])
    wanted = np.diff(given["x"], times, axis, **ends)
    nodes = [node("diff.default", ["y"], self="x", n=times, dim=axis, **{word: word for word in ends})]
    given |= ends
    net = model({n: (kind, [*a.shape]) for n, a in given.items()}, nodes, {"y": (kind, [*wanted.shape])})
    (found,) = played(archive(net, {}), tmp_path, *given.values())
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


def test_no_differences_are_the_operand_alone(tmp_path: Path) -> None:
    x = np.arange(3, dtype="f4")
    nodes = [node("diff.default", ["y"], self="x", n=0, prepend="e", append="e")]
    net = model({"x": (FLOAT, [3]), "e": (FLOAT, [2])}, nodes, {"y": (FLOAT, [3])})
    (found,) = played(archive(net, {}), tmp_path, x, x[:2])
    assert found.tolist() == x.tolist()


def test_differences_of_truth_values_among_numbers_are_numbers(tmp_path: Path) -> None:
    nodes = [node("diff.default", ["y"], self="x", append="e")]
    net = model({"x": (BOOL, [3]), "e": (FLOAT, [2])}, nodes, {"y": (FLOAT, [4])})
    given = np.array([True, True, False]), np.array([5, 3], "f4")
    (found,) = played(archive(net, {}), tmp_path, *given)
    assert found.dtype == np.float32 and found.tolist() == np.diff(np.concatenate(given)).tolist()


@pytest.mark.parametrize(("stride", "pad", "dilation"), [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2))])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_columns_are_added_up_in_an_image(tmp_path: Path, stride: Any, pad: Any, dilation: Any, lead: Any) -> None:
    image, kernel, channels = (6, 7), (3, 2), 2
    wide = [s + 2 * p for s, p in zip(image, pad)]
    seen = [(w - d * (k - 1) - 1) // s + 1 for w, k, d, s in zip(wide, kernel, dilation, stride)]
    x = np.random.default_rng(2).integers(-9, 9, (*lead, channels * 6, seen[0] * seen[1])).astype("f4")
    how = {"output_size": [*image], "kernel_size": [*kernel], "stride": [*stride], "padding": [*pad]}
    nodes = [node("col2im.default", ["y"], self="x", dilation=[*dilation], **how)]
    net = model({"x": (FLOAT, [*x.shape])}, nodes, {"y": (FLOAT, [*lead, channels, *image])})
    (found,) = played(archive(net, {}), tmp_path, x)
    apart, wanted = x.reshape(-1, channels, *kernel, *seen), np.zeros((len(x) if lead else 1, channels, *wide), "f4")
    for at in np.ndindex(*kernel, *seen):
        place = [s * o + d * k for k, o, s, d in zip(at[:2], at[2:], stride, dilation)]
        wanted[:, :, place[0], place[1]] += apart[:, :, at[0], at[1], at[2], at[3]]
    wanted = wanted[:, :, pad[0] : pad[0] + image[0], pad[1] : pad[1] + image[1]]
    assert np.array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [FLOAT, HALF])
def test_norms_of_any_order(tmp_path: Path, order: float, kind: int) -> None:
    """In fp16 a power may be out of range where the norm is not."""
    x = (np.random.default_rng(6).standard_normal((3, 4)) * 300).astype("f4" if kind == FLOAT else "f2")
    x[0, 0] = 0
    nodes = [node("linalg_vector_norm.default", ["y"], self="x", ord=float(order), dim=[1], keepdim=False)]
    (found,) = played(archive(model({"x": (kind, [3, 4])}, nodes, {"y": (kind, [3])}), {}), tmp_path, x)
    wanted = np.linalg.norm(x.astype("f8"), order, 1)
    assert found.dtype == x.dtype and np.isfinite(found).all()
    np.testing.assert_allclose(found, wanted, rtol=2e-6 if kind == FLOAT else 1e-3)


@pytest.mark.parametrize("order", [0.5, 2, 7, math.inf])
def test_norms_are_computed_in_the_dtype_that_is_asked_for(tmp_path: Path, order: float) -> None:
    """Most of these norms are beyond the range of fp16, and the others no numbers of it."""
    x = np.random.default_rng(8).uniform(3e4, 6e4, (3, 4)).astype("f2")
    nodes = [node("linalg_vector_norm.default", ["y"], self="x", ord=float(order), dim=[1], keepdim=False, dtype=FLOAT)]
    (found,) = played(archive(model({"x": (HALF, [3, 4])}, nodes, {"y": (FLOAT, [3])}), {}), tmp_path, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.linalg.norm(x.astype("f8"), order, 1), rtol=2e-6)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0])
def test_distances_of_rows(tmp_path: Path, order: float) -> None:
    x, y = (np.random.default_rng(7).standard_normal((2, n, 5)).astype("f4") for n in (3, 4))
    nodes = [node("_cdist_forward.default", ["d"], x1="x", x2="y", p=order, compute_mode=2)]
    net = model({"x": (FLOAT, [2, 3, 5]), "y": (FLOAT, [2, 4, 5])}, nodes, {"d": (FLOAT, [2, 3, 4])})
    (found,) = played(archive(net, {}), tmp_path, x, y)
    wanted = np.linalg.norm(x[:, :, None].astype("f8") - y[:, None], order, -1)
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("right", [False, True])
def test_places_among_sorted_numbers(tmp_path: Path, right: bool) -> None:
    ends, x = np.array([-1, 0, 0.5, 0.5, 2], "f4"), np.array([[-2, -1, 0.5], [3, np.nan, np.inf]], "f4")
    rows, own = np.stack([ends, ends + 1]), x.copy()
    nodes = [
        node("bucketize.Tensor", ["y"], self="x", boundaries="b", right=right),
        node("searchsorted.Tensor", ["z"], sorted_sequence="r", self="x", right=right),
    ]
    types = {"x": (FLOAT, [2, 3]), "b": (FLOAT, [5]), "r": (FLOAT, [2, 5])}
    net = model(types, nodes, {n: (LONG, [2, 3]) for n in "yz"})
    found, each = played(archive(net, {}), tmp_path, x, ends, rows)
    side: Any = "right" if right else "left"
    assert found.tolist() == np.searchsorted(ends, own, side).tolist()
    assert each.tolist() == [np.searchsorted(r, o, side).tolist() for r, o in zip(rows, own)]


@pytest.mark.parametrize(("offset", "dims"), [(0, (0, 1)), (1, (1, 2)), (-2, (2, 0)), (9, (0, 1))])
def test_diagonals(tmp_path: Path, offset: int, dims: tuple[int, int]) -> None:
    x = np.arange(60, dtype="f4").reshape(3, 4, 5)
    wanted = np.diagonal(x, offset, *dims)
    nodes = [node("diagonal.default", ["y"], self="x", offset=offset, dim1=dims[0], dim2=dims[1])]
    net = model({"x": (FLOAT, [3, 4, 5])}, nodes, {"y": (FLOAT, [*wanted.shape])})
    (found,) = played(archive(net, {}), tmp_path, x)
    assert found.shape == wanted.shape and found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dim", [0, 2])
def test_weights_by_their_norm(tmp_path: Path, dim: int) -> None:
    v = np.random.default_rng(4).standard_normal((3, 4, 5)).astype("f4")
    shape = [v.shape[a] if a == dim else 1 for a in range(3)]
    g = np.arange(1, v.shape[dim] + 1, dtype="f4").reshape(shape)
    nodes = [
        node("_weight_norm.default", ["y"], v="v", g="g", dim=dim),
        node("_weight_norm_interface.default", ["z", "n"], v="v", g="g", dim=dim),
    ]
    types = {"y": (FLOAT, [3, 4, 5]), "z": (FLOAT, [3, 4, 5]), "n": (FLOAT, shape)}
    found = played(archive(model({"v": (FLOAT, [3, 4, 5]), "g": (FLOAT, shape)}, nodes, types), {}), tmp_path, v, g)
    norm = np.sqrt(np.square(v.astype("f8")).sum(tuple(a for a in range(3) if a != dim), keepdims=True))
    for own, wanted in zip(found, (v * g / norm, v * g / norm, norm)):
        np.testing.assert_allclose(own, wanted, rtol=2e-6)


@pytest.mark.parametrize("start", [None, 9])
@pytest.mark.parametrize(("perm", "begins"), [((0, 1, 2), 0), ((2, 0, 1), 0), ((1, 0, 2), 7)])
def test_strides_are_read_in_the_memory_of_the_operand(
    tmp_path: Path, perm: tuple[int, ...], begins: int, start: int | None
) -> None:
    """The archive says in which order memory has the axes, and where it begins."""
    stored = np.arange(24, dtype="f4").reshape(2, 3, 4)
    shape, strides = ([n[a] for a in perm] for n in ((2, 3, 4), (12, 4, 1)))
    how = {"size": [3, 2, 2], "stride": [4, 1, 2]} | ({} if start is None else {"storage_offset": start})
    nodes = [node("permute.default", ["p"], self="x", dims=[*perm]), node("as_strided.default", ["y"], self="p", **how)]
    net = model({"x": (FLOAT, [2, 3, 4])}, nodes, {"y": (FLOAT, [3, 2, 2])}, {"p": (FLOAT, shape)})
    net["graph_module"]["graph"]["tensor_values"]["p"] = meta(FLOAT, shape, strides, begins)
    (found,) = played(archive(net, {}), tmp_path, stored)
    first = 0 if start is None else start - begins
    assert found.tolist() == np.lib.stride_tricks.as_strided(stored.ravel()[first:], (3, 2, 2), (16, 4, 8)).tolist()


@pytest.mark.parametrize(("strides", "start"), [((24, 8, 2), None), (None, 10)])
def test_what_is_beside_an_operand_in_memory_is_not_read(strides: Any, start: int | None) -> None:
    how = {"size": [3, 2, 2], "stride": [4, 1, 2]} | ({} if start is None else {"storage_offset": start + 5})
    nodes = [node("relu.default", ["p"], self="x"), node("as_strided.default", ["y"], self="p", **how)]
    net = model({"x": (FLOAT, [2, 3, 4])}, nodes, {"y": (FLOAT, [3, 2, 2])}, {"p": (FLOAT, [2, 3, 4])})
    net["graph_module"]["graph"]["tensor_values"]["p"] = meta(FLOAT, [2, 3, 4], strides)
    with pytest.raises(Refused) as caught:
        to_json(archive(net, {}), "net.pt2")
    assert [d.code for d in caught.value.diags] == ["E0144"]


@pytest.mark.parametrize("op", ["reshape_as.default", "view_as.default"])
def test_the_shape_of_another(tmp_path: Path, op: str) -> None:
    types = {"x": (FLOAT, [2, 3]), "o": (FLOAT, [3, 2])}
    net = model(types, [node(op, ["y"], self="x", other="o")], {"y": (FLOAT, [3, 2])})
    (found,) = played(archive(net, {}), tmp_path, X[:2], np.zeros((3, 2), "f4"))
    assert np.array_equal(found, X[:2].reshape(3, 2))


@pytest.mark.parametrize(
    ("op", "number", "wanted"),
    [
        ("mul", -1e9, [0, -math.inf, math.inf]),
        ("add", 1e9, [math.inf, math.inf, math.inf]),
        ("sub", 1e9, [-math.inf, -math.inf, -math.inf]),
        ("rsub", 70000.0, [math.inf, math.inf, math.inf]),
        ("div", 70000.0, [0, 4 / 70000, -8 / 70000]),
        ("lt", 1e9, [True, True, True]),
        ("gt", -65510.0, [True, True, True]),
        ("ne", 70000.0, [True, True, True]),
    ],
)
def test_numbers_may_be_out_of_the_range_of_fp16(tmp_path: Path, op: str, number: float, wanted: list) -> None:
    """As torch computes, in fp32, and rounds: 0 of a mask stays 0."""
    kind = BOOL if isinstance(wanted[0], bool) else HALF
    nodes = [node(f"{op}.Scalar", ["y"], self="x", other=number)]
    net = model({"x": (HALF, [3])}, nodes, {"y": (kind, [3])})
    (found,) = played(archive(net, {}), tmp_path, np.array([0, 4, -8], "f2"))
    assert found.tolist() == np.array(wanted, found.dtype).tolist()


def test_one_line_is_a_grid_in_either_order_of_axes(tmp_path: Path) -> None:
    lines = {"as_tensors": [{"name": "x"}]}
    result = {"as_tensors": [{"name": "y"}]}
    made = node("meshgrid.indexing", [], tensors=lines, indexing={"as_string": "xy"}) | {"outputs": [result]}
    net = model({"x": (FLOAT, [3])}, [made], {"y": (FLOAT, [3])})
    (found,) = played(archive(net, {}), tmp_path, X[0])
    assert found.tolist() == X[0].tolist()


def test_beside_what_is_infinite_no_side_counts(tmp_path: Path) -> None:
    x, y = np.array([[np.inf, np.nan, 3, -np.inf], [np.nan, -np.inf, 4, np.inf]], "f4")
    kinds = {"x": (FLOAT, [4]), "y": (FLOAT, [4])}
    net = model(kinds, [node("hypot.default", ["z"], self="x", other="y")], {"z": (FLOAT, [4])})
    (found,) = played(archive(net, {}), tmp_path, x, y)
    assert found.tolist() == [np.inf, np.inf, 5, np.inf]


def test_between_an_infinite_element_and_a_number(tmp_path: Path) -> None:
    """In the middle, and nearer to the number, it is counted from the number."""
    x = np.array([-np.inf, 1], "f4")
    for mode, q, wanted in (("midpoint", 0.2, -np.inf), ("linear", 0.75, -np.inf), ("higher", 0.2, 1)):
        nodes = [node("quantile.scalar", ["y"], self="x", q=q, interpolation={"as_string": mode})]
        (found,) = played(archive(model({"x": (FLOAT, [2])}, nodes, {"y": (FLOAT, [])}), {}), tmp_path, x)
        assert found == wanted


def test_the_angle_of_whole_numbers_is_a_float(tmp_path: Path) -> None:
    x, y = np.array([[1, -2, 0, 3], [0, -2, -1, 4]])
    kinds = {"x": (LONG, [4]), "y": (LONG, [4])}
    net = model(kinds, [node("arctan2.default", ["z"], self="x", other="y")], {"z": (FLOAT, [4])})
    (found,) = played(archive(net, {}), tmp_path, x, y)
    np.testing.assert_allclose(found, np.arctan2(x, y), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "other", "shape", "wanted"),
    [
        ("outer", "vec2", [2, 2], [[True, False], [False, False]]),
        ("kron", "other", [4], [True, False, False, False]),
        ("sgn", None, [2], [True, False]),
    ],
)
def test_truth_values_are_multiplied(tmp_path: Path, op: str, other: str | None, shape: list, wanted: list) -> None:
    given = {"self": "x"} | ({other: "x"} if other else {})
    net = model({"x": (BOOL, [2])}, [node(f"{op}.default", ["y"], **given)], {"y": (BOOL, shape)})
    (found,) = played(archive(net, {}), tmp_path, np.array([True, False]))
    assert found.tolist() == wanted


def test_truth_values_are_counted_where_they_were_repeated(tmp_path: Path) -> None:
    net = model({"x": (BOOL, [3, 2])}, [node("sum_to_size.default", ["y"], self="x", size=[2])], {"y": (LONG, [2])})
    (found,) = played(archive(net, {}), tmp_path, np.array([[True, False], [True, True], [True, True]]))
    assert found.tolist() == [3, 2]


@pytest.mark.parametrize("how", [0, 1, 2])
def test_classes_are_a_margin_below_each_target(tmp_path: Path, how: int) -> None:
    """Torch's own decomposition gives other numbers for more than one row."""
    x = np.random.default_rng(7).standard_normal((3, 4)).astype("f4")
    target = np.array([[0, 3, -1, 1], [1, -1, 0, 0], [-1, 0, 0, 0]])
    wanted, is_target = np.zeros(3), np.zeros((3, 4))
    for row, own in enumerate([[0, 3], [1], []]):
        is_target[row, own] = 1
        others = [c for c in range(4) if c not in own]
        wanted[row] = sum(max(0, 1 - x[row, t] + x[row, o]) for t in own for o in others) / 4
    nodes = [node("multilabel_margin_loss_forward.default", ["y", "z"], self="x", target="t", reduction=how)]
    shape = [3] if how == 0 else []
    net = model({"x": (FLOAT, [3, 4]), "t": (LONG, [3, 4])}, nodes, {"y": (FLOAT, shape), "z": (FLOAT, [3, 4])})
    loss, told = played(archive(net, {}), tmp_path, x, target)
    np.testing.assert_allclose(loss, [wanted, wanted.mean(), wanted.sum()][how], rtol=1e-6)
    assert np.array_equal(told, is_target)


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("kind", [FLOAT, LONG, BOOL])
def test_as_many_elements_as_a_symbol_says_are_put_in_order(tmp_path: Path, kind: int, falls: bool) -> None:
    """As rows of a mixture of experts are, of any batch: equal ones stay in their order, NaN is the greatest."""
    numbers = np.array([[3, 1, 3, np.nan, -2, np.nan, 1], [0, 5, 0, 2, 2, -1, 9]])
    x = {FLOAT: numbers.astype("f4"), LONG: np.nan_to_num(numbers).astype("i8"), BOOL: numbers > 1}[kind]
    nodes = [node("sort.stable", ["y", "i"], self="x", dim=1, descending=falls, stable=True)]
    net = model({"x": (kind, [2, "s0"])}, nodes, {"y": (kind, [2, "s0"]), "i": (LONG, [2, "s0"])})
    values, places = played(archive(net, {}), tmp_path, x)
    for row, line in enumerate(x):
        key = [(v != v, v) for v in line.tolist()]
        order = sorted(range(7), key=lambda n: (not key[n][0], -key[n][1]) if falls else key[n])
        assert places[row].tolist() == order
        np.testing.assert_array_equal(values[row], line[order])


@pytest.mark.parametrize("repeats", [[2], [], [2, 2, 2]])
def test_a_single_number_of_repeats_is_that_of_all_places(tmp_path: Path, repeats: list[int]) -> None:
    nodes = [node("repeat_interleave.self_Tensor", ["y"], self="x", repeats="r", dim=1, output_size=6)]
    shape = [] if not repeats else [len(repeats)]
    net = model({"x": (FLOAT, [2, 3]), "r": (LONG, shape)}, nodes, {"y": (FLOAT, [2, 6])})
    x = np.arange(6, dtype="f4").reshape(2, 3)
    (found,) = played(archive(net, {}), tmp_path, x, np.array(repeats or 2))
    assert found.tolist() == x.repeat(2, 1).tolist()


def in_memory_of(size: int, out: int, mode: str) -> np.ndarray:
    """The weights of torch's antialiasing with aligned corners along an axis."""
    step = (size - 1) / (out - 1) if out > 1 else 0.0
    wide, half = max(step, 1.0), 1 if mode == "bilinear" else 2
    found = np.zeros((out, size))
    for row in range(out):
        middle = step * (row + 0.5)
        first = max(int(middle - half * wide + 0.5), 0)
        for n in range(first, min(int(middle + half * wide + 0.5), size)):
            d = abs(n - middle + 0.5) / wide
            near, far = (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2
            found[row, n] = max(0, 1 - d) if half == 1 else near if d < 1 else far if d < 2 else 0
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(1, 1), (3, 9), (2, 6), (8, 4)])
def test_smooth_images_with_aligned_corners(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 5, 7)).astype("f4")
    nodes = [node(f"_upsample_{mode}2d_aa.default", ["y"], self="x", output_size=[*size], align_corners=True)]
    net = model({"x": (FLOAT, [1, 1, 5, 7])}, nodes, {"y": (FLOAT, [1, 1, *size])})
    (found,) = played(archive(net, {}), tmp_path, x)
    wanted = in_memory_of(5, size[0], mode) @ x[0, 0] @ in_memory_of(7, size[1], mode).T
    assert found[0, 0] == pytest.approx(wanted, abs=1e-5)


def test_aligned_corners_are_at_corners_whatever_scale_is_stated(tmp_path: Path) -> None:
    scales = {"as_floats": [1.5]}
    nodes = [node("upsample_linear1d.vec", ["y"], input="x", align_corners=True, scale_factors=scales)]
    net = model({"x": (FLOAT, [1, 1, 7])}, nodes, {"y": (FLOAT, [1, 1, 10])})
    x = np.array([[[0, 3, 6, 9, 12, 15, 18]]], "f4")
    (found,) = played(archive(net, {}), tmp_path, x)
    assert found.ravel() == pytest.approx(np.arange(0, 20, 2))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_of_the_greatest_are_in_the_image(tmp_path: Path, rank: int, dilation: int) -> None:
    """Of equal numbers the first one, where all are infinite too."""
    shape, size = [1, 2, *[7] * rank], (7 + 2 - 2 * dilation - 1) // 2 + 1
    stated = {"kernel_size": [3], "stride": [2], "padding": [1], "dilation": [dilation]}
    nodes = [node(f"max_pool{rank}d_with_indices.default", ["y", "z"], self="x", **stated)]
    out = [1, 2, *[size] * rank]
    net = model({"x": (FLOAT, shape)}, nodes, {"y": (FLOAT, out), "z": (LONG, out)})
    values, places = played(archive(net, {}), tmp_path, np.full(shape, -np.inf, "f4"))
    first = [dilation - 1] + [2 * n - 1 for n in range(1, size)]
    wanted = sum(np.array(first).reshape([-1, *[1] * a]) * 7**a for a in range(rank))
    assert np.isneginf(values).all()
    assert places.tolist() == np.broadcast_to(wanted, out).tolist()


@pytest.mark.parametrize("op", ["_to_copy.default", "copy.default"])
def test_what_is_out_of_the_range_of_fp8e4m3_becomes_its_greatest_number(tmp_path: Path, op: str) -> None:
    """As in torch 2.13; fp8e5m2 has an infinity."""
    given = np.array([448, 464, 464.25, 1e5, np.inf, -500, -np.inf, np.nan, 3], "f4")
    outputs = {}
    nodes = []
    for word in "ab":
        stated = {"self": "x"} if op.startswith("_to") else {"self": f"{word}0", "src": "x"}
        nodes += [node(op, [word], **stated), node("_to_copy.default", [f"{word}1"], self=word)]
        outputs[f"{word}1"] = (FLOAT, [9])
    types = {"a": (29, [9]), "b": (30, [9])}
    inputs = {"x": (FLOAT, [9])} | {f"{n}0": (k, [9]) for n, (k, _) in types.items() if op.startswith("copy")}
    like = [np.zeros(9, d) for d in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)][: len(inputs) - 1]
    narrow, wide = played(archive(model(inputs, nodes, outputs, types), {}), tmp_path, given, *like)
    np.testing.assert_array_equal(narrow, np.array([448, 448, 448, 448, 448, -448, -448, np.nan, 3], "f4"))
    np.testing.assert_array_equal(wide, np.array([448, 448, 448, np.inf, np.inf, -512, -np.inf, np.nan, 3], "f4"))


@pytest.mark.parametrize(("op", "slope"), [("lgamma", None), ("digamma", -1)])
def test_the_gamma_function_keeps_the_digits_of_small_negative_numbers(tmp_path: Path, op: str, slope: Any) -> None:
    """lgamma(x) is near -log(-x), digamma(x) near -1 / x."""
    x = np.array([-1e-12, -1e-17, -1e-30], "f4")
    nodes = [node(f"{op}.default", ["y"], self="x")]
    (found,) = played(archive(model({"x": (FLOAT, [3])}, nodes, {"y": (FLOAT, [3])}), {}), tmp_path, x)
    wide = x.astype("f8")
    np.testing.assert_allclose(found, -np.log(-wide) if slope is None else slope / wide, rtol=1e-6)


def test_a_share_of_a_normal_distribution_may_be_as_small_as_fp64_has(tmp_path: Path) -> None:
    x = np.array([1e-300, 1e-100, 1e-10])
    wanted = [NormalDist().inv_cdf(share) for share in x]
    nodes = [node("special_ndtri.default", ["y"], self="x")]
    (found,) = played(archive(model({"x": (DOUBLE, [3])}, nodes, {"y": (DOUBLE, [3])}), {}), tmp_path, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_number_that_is_none_is_no_mode(tmp_path: Path) -> None:
    x = np.array([[1, 1, np.nan], [np.inf, np.inf, 0]], "f4")
    types = {"y": (FLOAT, [2]), "i": (LONG, [2])}
    nodes = [node("mode.default", ["y", "i"], self="x", dim=-1)]
    values, places = played(archive(model({"x": (FLOAT, [2, 3])}, nodes, types), {}), tmp_path, x)
    assert values.tolist() == [1, np.inf] and places.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("op", "target", "shape", "wanted"),
    [
        ("multi_margin_loss", [1], [1], [0.25]),
        ("multi_margin_loss", 1, [], 0.25),
        ("multilabel_margin_loss", [1, -1], [1], [0.25]),
    ],
)
def test_a_loss_of_one_row_has_the_shape_of_its_output(
    tmp_path: Path, op: str, target: Any, shape: list[int], wanted: Any
) -> None:
    x, t = np.array([1, 1.5], "f4"), np.array(target)
    nodes = [node(f"{op}.default", ["y"], self="x", target="t", reduction=0)]
    net = model({"x": (FLOAT, [2]), "t": (LONG, [*t.shape])}, nodes, {"y": (FLOAT, shape)})
    (found,) = played(archive(net, {}), tmp_path, x, t)
    assert found.tolist() == wanted


def test_products_of_three_along_no_axis_are_not_summed(tmp_path: Path) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    none = {key: [] for key in ("expand1", "expand2", "expand3", "sumdim")}
    nodes = [node("_trilinear.default", ["y"], i1="x", i2="x", i3="x", **none)]
    (found,) = played(archive(model({"x": (FLOAT, [2, 3])}, nodes, {"y": (FLOAT, [2, 3])}), {}), tmp_path, x)
    assert np.array_equal(found, x**3)


@pytest.mark.parametrize(
    ("op", "steps", "more", "wanted"),
    [
        ("logspace", 4, {"base": 2.0}, [1, 2, 4, 8]),
        ("linspace", 3, {}, [0, 1, 3]),
        ("linspace", 1, {}, [3]),
        ("linspace", 0, {}, []),
    ],
)
def test_integers_between_two(tmp_path: Path, op: str, steps: int, more: Any, wanted: list[int]) -> None:
    nodes = [
        node(f"{op}.default", ["l"], start=0, end=3, steps=steps, **more),
        node("add.Tensor", ["y"], self="x", other="l"),
    ]
    net = model({"x": (LONG, [1])}, nodes, {"y": (LONG, [steps])}, {"l": (LONG, [steps])})
    (found,) = played(archive(net, {}), tmp_path, np.array([5]))
    assert found.tolist() == [5 + n for n in wanted]


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_without_pairs_have_no_distances(tmp_path: Path, rows: int) -> None:
    nodes = [node("pdist.default", ["y"], self="x")]
    net = model({"x": (FLOAT, [rows, 3])}, nodes, {"y": (FLOAT, [0])})
    (found,) = played(archive(net, {}), tmp_path, np.ones((rows, 3), "f4"))
    assert found.shape == (0,)
