"""Reports about other compilers, restated for kernels: each program gives its numbers in playback and in the simulation
of its CUDA text."""

from __future__ import annotations

import json
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir.pipeline import STAGES
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.kit.render import as_json
from tinyir.lower import language_of, lower_to

from .stages import Stages, graph, needs_host_compiler

NAN, INF = np.nan, np.inf
INTEGERS = [n for n, d in DTYPES.items() if d.is_integer]
FLOATS = ["fp16", "bf16", "fp32", "fp64"]
Arrays = dict[str, np.ndarray]


def array(dtype: str, numbers: Any) -> np.ndarray:
    return np.asarray(numbers).astype(DTYPES[dtype].numpy)


def assert_kernel_gives(text: str, arrays: Arrays, wanted: Arrays) -> None:
    """Every playback and the simulation give exactly this."""
    Stages(text).assert_gives(arrays, wanted, True)


# --- A2: the infinity that a minimum over integers starts from was of another type, and won (onnx-mlir 1270)


@needs_host_compiler
@pytest.mark.parametrize("dtype", INTEGERS)
def test_least_and_greatest_of_integers(dtype: str) -> None:
    """33 numbers a row, which is a warp and one more: some in order, the greatest alone, the least alone."""
    bounds = np.iinfo(DTYPES[dtype].numpy)
    x = np.array([range(33), range(2, 35), [bounds.max] * 33, [bounds.min] * 33], DTYPES[dtype].numpy)
    folds = [("Reduce", ["x"], name, {"op": op, "axes": [1]}) for name, op in (("least", "min"), ("most", "max"))]
    assert_kernel_gives(
        graph({"x": (dtype, [4, 33])}, {"least": (dtype, [4]), "most": (dtype, [4])}, *folds),
        {"x": x},
        {"least": x.min(1), "most": x.max(1)},
    )


# --- A5: making an intermediate an output changed the other output (hidet 380)


@needs_host_compiler
@pytest.mark.parametrize("outputs", [["b"], ["a", "b"], ["a", "c", "b"]])
def test_an_intermediate_that_is_an_output_too(outputs: list[str]) -> None:
    x = np.array([[(-1) ** (i + j) * (7 * i + j) for j in range(7)] for i in range(5)], np.int32)
    shapes = {"a": [5, 7], "b": [35], "c": [5, 7]}
    ops = [
        ("Elementwise", ["x"], "a", {"fn": "abs"}),
        ("Reshape", ["a"], "b", {"shape": [35]}),
        ("Elementwise", ["x"], "c", {"fn": "abs"}),
    ]
    text = graph(
        {"x": ("i32", [5, 7])},
        {n: ("i32", shapes[n]) for n in outputs},
        *(op for op in ops if op[2] != "c" or "c" in outputs),
    )
    assert_kernel_gives(text, {"x": x}, {n: np.arange(35, dtype=np.int32).reshape(shapes[n]) for n in outputs})


# --- A6: a mean whose sum, or whose count, does not fit fp16 (pytorch 12115)


@needs_host_compiler
@pytest.mark.parametrize("shape, number", [((2048,), 64), ((65520,), 1), ((4, 65504), 0.5)])
def test_a_mean_of_many_halves(shape: tuple[int, ...], number: float) -> None:
    text = graph(
        {"x": ("fp16", list(shape))},
        {"y": ("fp16", list(shape[:-1]))},
        ("Reduce", ["x"], "y", {"op": "mean", "axes": [len(shape) - 1]}),
    )
    assert_kernel_gives(text, {"x": np.full(shape, number, np.float16)}, {"y": np.full(shape[:-1], number, np.float16)})


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_what_divides_a_sum_of_halves(dtype: str) -> None:
    """The sisters: 2048 times 256 is beyond fp16, and bf16 stops counting by ones at 256."""
    ops = [
        ("Reduce", ["x"], "mean", {"op": "mean", "axes": [0]}),
        ("Reduce", ["x"], "var", {"op": "var", "axes": [0]}),
        ("Softmax", ["x"], "part", {"axis": 0}),
    ]
    text = graph({"x": (dtype, [2048])}, {"mean": (dtype, []), "var": (dtype, []), "part": (dtype, [2048])}, *ops)
    wanted = {"mean": array(dtype, 256), "var": array(dtype, 0), "part": array(dtype, np.full(2048, 2.0**-11))}
    assert_kernel_gives(text, {"x": array(dtype, np.full(2048, 256))}, wanted)


# --- A7: a NaN was lost where it was the first operand (tvm 19579)


@needs_host_compiler
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_goes_through_max_and_min(dtype: str) -> None:
    a, b = array(dtype, [NAN, 1, NAN, 0]), array(dtype, [1, NAN, NAN, 0])
    ops: list[Any] = [("Elementwise", [x, y], fn + x, {"fn": fn}) for fn in ("max", "min") for x, y in ("ab", "ba")]
    ops += [("Elementwise", ["a"], "relu", {"fn": "relu"}), ("Clip", ["a"], "clip", {"min": 0, "max": 1})]
    wanted = {op[2]: array(dtype, [NAN, 1, NAN, 0] if op[2] in ("relu", "clip") else [NAN, NAN, NAN, 0]) for op in ops}
    assert_kernel_gives(
        graph({"a": (dtype, [4]), "b": (dtype, [4])}, {n: (dtype, [4]) for n in wanted}, *ops), {"a": a, "b": b}, wanted
    )


@needs_host_compiler
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_fold_keeps_nan_wherever_it_stands(dtype: str) -> None:
    x = array(dtype, np.vstack([np.where(np.eye(5, dtype=bool), NAN, 1), np.arange(5)]))
    folds = [("Reduce", ["x"], op, {"op": op, "axes": [1]}) for op in ("max", "min", "sum")]
    wanted = {op: array(dtype, [NAN] * 5 + [last]) for op, last in (("max", 4), ("min", 0), ("sum", 10))}
    sums = "fp32" if dtype in ("fp16", "bf16") else dtype
    wanted["sum"] = array(sums, wanted["sum"])
    assert_kernel_gives(
        graph({"x": (dtype, [6, 5])}, {"max": (dtype, [6]), "min": (dtype, [6]), "sum": (sums, [6])}, *folds),
        {"x": x},
        wanted,
    )


# --- A9: products with an empty inner dimension (onnxruntime 21483)


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("m, k, n", [(2, 0, 3), (0, 4, 3)])
def test_an_empty_product(dtype: str, is_symbolic: bool, m: int, k: int, n: int) -> None:
    sizes: list[Any] = ["M", "K", "N"] if is_symbolic else [m, k, n]
    text = graph(
        {"a": (dtype, sizes[:2]), "b": (dtype, sizes[1:])},
        {"y": (dtype, [sizes[0], sizes[2]])},
        ("MatMul", ["a", "b"], "y", {}),
    )
    assert_kernel_gives(
        text,
        {"a": array(dtype, np.ones((m, k))), "b": array(dtype, np.ones((k, n)))},
        {"y": array(dtype, np.zeros((m, n)))},
    )


@needs_host_compiler
@pytest.mark.parametrize("size", [0, "N"])
@pytest.mark.parametrize("op, wanted", [("sum", 0), ("prod", 1), ("max", -INF), ("min", INF)])
def test_a_fold_over_nothing(op: str, wanted: float, size: Any) -> None:
    text = graph({"x": ("fp32", [2, size])}, {"y": ("fp32", [2])}, ("Reduce", ["x"], "y", {"op": op, "axes": [1]}))
    assert_kernel_gives(text, {"x": np.zeros((2, 0), np.float32)}, {"y": np.full(2, wanted, np.float32)})


@needs_host_compiler
def test_a_broadcast_onto_nothing() -> None:
    text = graph(
        {"a": ("fp32", [1]), "b": ("fp32", [0])}, {"y": ("fp32", [0])}, ("Elementwise", ["a", "b"], "y", {"fn": "add"})
    )
    assert_kernel_gives(
        text, {"a": np.ones(1, np.float32), "b": np.zeros(0, np.float32)}, {"y": np.zeros(0, np.float32)}
    )


# --- A10: the offset of a row beyond 2^31 elements was computed in 32 bits (onnxruntime 28107)


@pytest.mark.parametrize("rows, is_wide", [(65537, True), (65534, False)])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_offsets_of_large_tensors_are_wide_from_the_first_product_on(dtype: str, rows: int, is_wide: bool) -> None:
    """65534 rows of 32769 are less than 2^31 elements, 65537 are more; the same for rows read backwards and for those
    written."""
    columns = 32769
    assert (rows * columns > 2**31) == is_wide
    gather = Stages(
        graph(
            {"t": (dtype, [rows, columns]), "i": ("i64", [3])},
            {"y": (dtype, [3, columns])},
            ("Gather", ["t", "i"], "y", {"axis": 0}),
        )
    ).cuda()
    flip = Stages(
        graph({"t": (dtype, [rows, columns])}, {"y": (dtype, [rows, columns])}, ("Flip", ["t"], "y", {"axes": [0]}))
    ).cuda()
    for text in (gather, flip):
        body = text[text.index('extern "C"') :]
        narrow = re.findall(r"(?<!\(long long\))\b\w+ \* 32769|32769 \* (?!\(long long\))\w+", body)
        assert ("(long long)" in body) == is_wide
        assert is_wide or narrow
        assert not is_wide or all(f.split(" ")[0] == "i0" for f in narrow), "only the three rows of the result are few"


# --- A11: an index out of range (onnxruntime 28311)

PRICES = np.arange(10, 60, 10, dtype=np.float32)
CHOSEN = [
    ([0, 1, 2, 3, 5, 4], [10, 20, 30, 40, 0, 50]),
    ([0, -1, -5, 4], [10, 50, 10, 50]),
    ([-6, 2**31 - 1, -(2**31), 1], [0, 0, 0, 20]),
]


def gathered(indices: list[int], is_constant: bool, op: str = "Gather") -> str:
    inputs = {"p": ("fp32", [5])} | ({} if is_constant else {"i": ("i32", [len(indices)])})
    text = json.loads(graph(inputs, {"y": ("fp32", [len(indices)])}, (op, ["p", "i"], "y", {"axis": 0})))
    if is_constant:
        text["tensors"]["i"] = {"dtype": "i32", "shape": [len(indices)], "value": indices}
    return json.dumps(text)


@needs_host_compiler
@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
@pytest.mark.parametrize("indices, wanted", CHOSEN, ids=str)
def test_an_index_that_comes_at_run_time(indices: list[int], wanted: list[float], op: str) -> None:
    """Outside, it reads 0 and nothing else: the simulation knows every access to memory."""
    assert_kernel_gives(
        gathered(indices, False, op),
        {"p": PRICES, "i": np.array(indices, np.int32)},
        {"y": np.array(wanted, np.float32)},
    )


@needs_host_compiler
def test_a_constant_index() -> None:
    assert_kernel_gives(gathered(CHOSEN[1][0], True), {"p": PRICES}, {"y": np.array(CHOSEN[1][1], np.float32)})
    with pytest.raises(Refused) as fault:
        read(gathered(CHOSEN[0][0], True))
    (diag,) = fault.value.diags
    assert diag.code == "E1020" and {k: str(diag.facts[k]) for k in ("index", "size", "low", "high")} == {
        "index": "5",
        "size": "5",
        "low": "-5",
        "high": "4",
    }


# --- A14: a vector store on rows whose stride is odd (triton 1330)


@needs_host_compiler
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("columns", [1185, 1186, 1188])
def test_rows_of_an_odd_stride(columns: int, is_turned: bool) -> None:
    """Row r starts at byte 4*columns*r: only where that is a multiple of a vector's bytes for every r may rows be
    stored in vectors."""
    shape = [8, columns]
    ops: list[Any] = (
        [("Elementwise", ["x", 1.0], "z", {"fn": "add"}), ("Transpose", ["z"], "y", {"perm": [1, 0]})]
        if is_turned
        else [("Elementwise", ["x", 1.0], "y", {"fn": "add"})]
    )
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    assert_kernel_gives(
        graph({"x": ("fp32", shape)}, {"y": ("fp32", shape[::-1] if is_turned else shape)}, *ops),
        {"x": x},
        {"y": (x + 1).T if is_turned else x + 1},
    )


# --- A15: a product whose last tile holds one element (tilelang 2365)


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("k", [17, 33, 65])
def test_a_product_with_one_element_in_its_last_tile(k: int, dtype: str) -> None:
    b = array(dtype, np.repeat(np.arange(k)[:, None], 64, axis=1))
    text = graph(
        {"a": (dtype, [64, k]), "b": (dtype, [k, 64])}, {"y": ("fp32", [64, 64])}, ("GEMM", ["a", "b"], "y", {})
    )
    assert_kernel_gives(
        text, {"a": array(dtype, np.ones((64, k))), "b": b}, {"y": np.full((64, 64), k * (k - 1) // 2, np.float32)}
    )


# --- A18: infinity and NaN did not survive being printed and read (tvm 12617)

SPECIAL = graph(
    {"x": ("fp32", [3])},
    {n: ("fp32", [4]) for n in ("high", "low", "none")}
    | {"clip": ("fp32", [3]), "most": ("fp32", []), "zero": ("fp32", [3])},
    *(("Pad", ["x"], n, {"pads": [1, 0], "value": v}) for n, v in (("high", "inf"), ("low", "-inf"), ("none", "nan"))),
    ("Clip", ["x"], "clip", {"min": 0, "max": "inf"}),
    ("Reduce", ["x"], "most", {"op": "max", "axes": [0]}),
    ("Elementwise", ["x", -0.0], "zero", {"fn": "mul"}),
)
LIMITS = graph(
    {"x": ("fp64", [3]), "h": ("fp16", [3])},
    {"least": ("fp64", [3]), "minus": ("fp64", [3]), "most": ("fp16", [3])},
    ("Elementwise", ["x", 5e-324], "least", {"fn": "add"}),
    ("Elementwise", ["x", -0.0], "minus", {"fn": "add"}),
    ("Elementwise", ["h", 65504.0], "most", {"fn": "mul"}),
)


def refuse_constant(token: str) -> None:
    raise AssertionError(f"{token} is not JSON")


@pytest.mark.parametrize("text", [SPECIAL, LIMITS], ids=["infinities", "limits"])
def test_every_text_comes_back_as_it_was(text: str) -> None:
    json.loads(text, parse_constant=refuse_constant)
    module: Any = read(text)
    for stage in STAGES:
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        language = language_of(stage)
        shown = language.show(module)
        assert language.show(language.parse(shown)) == shown, stage
        assert not re.search(r"\binff\b|\bnanf\b|\bInfinity\b", shown), stage


@needs_host_compiler
def test_special_constants_keep_their_bits() -> None:
    """Also where a compiler reads them from the kernel's text."""
    x = np.array([1, -2, 3], np.float32)
    wanted = {n: np.concatenate([[v], x]).astype(np.float32) for n, v in (("high", INF), ("low", -INF), ("none", NAN))}
    assert_same_bits(
        SPECIAL,
        {"x": x},
        wanted
        | {
            "clip": np.array([1, 0, 3], np.float32),
            "most": np.float32(3),
            "zero": np.array([-0.0, 0.0, -0.0], np.float32),
        },
    )
    limits = {"least": np.full(3, 5e-324), "minus": np.array([0.0, -0.0, 0.0]), "most": np.full(3, 65504, np.float16)}
    assert_same_bits(LIMITS, {"x": np.array([0.0, -0.0, 0.0]), "h": np.ones(3, np.float16)}, limits)


def assert_same_bits(text: str, arrays: Arrays, wanted: dict[str, Any]) -> None:
    """The wanted numbers, and their signs where they are not NaN."""
    for stage, found in Stages(text).outputs(arrays, True):
        for name, numbers in wanted.items():
            np.testing.assert_array_equal(found[name], numbers, err_msg=f"{name} at {stage}")
            assert (np.isnan(numbers) | (np.signbit(found[name]) == np.signbit(numbers))).all(), f"{name} at {stage}"


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["fp8e4m3", "fp8e5m2", *FLOATS])
def test_every_kind_of_number_is_a_constant(dtype: str) -> None:
    """Each number of an 8-bit float, the ends of each range of a wider one; NaN stays NaN, whatever its bits."""
    kind = np.dtype(DTYPES[dtype].numpy)
    limits = ml_dtypes.finfo(kind)
    chosen = [
        0.0,
        -0.0,
        INF,
        -INF,
        NAN,
        limits.max,
        limits.min,
        limits.tiny,
        limits.smallest_subnormal,
        -limits.smallest_subnormal,
        limits.eps,
        0.1,
    ]
    numbers = np.arange(256, dtype=np.uint8).view(kind) if kind.itemsize == 1 else np.array(chosen).astype(kind)
    result = f"{dtype}[{len(numbers)}]"
    text = (
        f"tinyir 1.0 tiny\n\nmodel m\n  out y : {result}\n\n  %y = CONST() "
        f"{{value=[{', '.join(repr(float(n)) for n in numbers)}]}} : {result}\n\noutputs: %y\n"
    )
    is_nan = np.isnan(numbers)
    for stage, found in Stages(text).outputs({}, True):
        assert (np.isnan(found["y"]) == is_nan).all(), stage
        bits = [a.view(f"u{kind.itemsize}")[~is_nan] for a in (found["y"], numbers)]
        np.testing.assert_array_equal(*bits, err_msg=stage)


def test_a_message_about_infinity_is_json() -> None:
    with pytest.raises(Refused) as fault:
        read(graph({"x": ("i32", [3])}, {"y": ("i32", [4])}, ("Pad", ["x"], "y", {"pads": [1, 0], "value": "inf"})))
    for diag in fault.value.diags:
        json.loads(json.dumps(as_json(diag, "en")), parse_constant=refuse_constant)


# --- A19: a message blamed a name that nobody wrote (onnxruntime 12071)


def turned(shape: list[int], count: int = 1) -> str:
    """a x b + c turned `count` times, which for an odd one is c transposed."""
    last = ["c", *(f"c{n}" for n in range(count))]
    ops: list[Any] = [("Transpose", [x], y, {"perm": [1, 0]}) for x, y in zip(last, last[1:])]
    inputs = {"a": ("fp32", [2, 3]), "b": ("fp32", [3, 4]), "c": ("fp32", shape)}
    return graph(inputs, {"gemm1": ("fp32", [2, 4])}, *ops, ("GEMM", ["a", "b", last[-1]], "gemm1", {}))


@needs_host_compiler
@pytest.mark.parametrize("count", [1, 31])
def test_a_transposed_addend(count: int) -> None:
    """Every name of every text begins as one that the user wrote, and stays short however long the chain."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 5, s).astype(np.float32) for s in ((2, 3), (3, 4), (4, 2)))
    text = turned([4, 2], count)
    assert_kernel_gives(text, {"a": a, "b": b, "c": c}, {"gemm1": a @ b + c.T})
    written = {"a", "b", "c", "gemm1", *(f"c{n}" for n in range(count))}
    module: Any = read(text)
    for stage in STAGES:
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        for name in re.findall(r"%([\w.]+)", language_of(stage).show(module)) if stage not in ("gpu", "cu") else ():
            assert name.split(".")[0] in written and len(name) <= 24, f"{name} at {stage}"


def test_an_addend_of_another_size_is_told_by_its_own_names() -> None:
    with pytest.raises(Refused) as fault:
        read(turned([4, 3]))
    (diag,) = fault.value.diags
    assert (diag.code, diag.at) == ("E1001", "gemm1")
    assert (str(diag.facts["lhs"]), str(diag.facts["rhs"])) == ("fp32[2, 4]", "fp32[3, 4]")
    assert not re.search(r"\w+[._]\w+", diag.why().replace(diag.at, ""))
