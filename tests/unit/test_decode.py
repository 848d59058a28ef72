"""Attention of one query, or of a few: the columns in chunks that many CTAs walk, and a kernel that combines what they
found, against playback in the simulation; keys that meet one query alone; a chunk that is masked whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.body import Ref
from tinyir.ir.expr import Expr
from tinyir.ir.region import Tensor, Yield
from tinyir.ir.types import TensorType
from tinyir.kernels.alternatives.parts import Names
from tinyir.kernels.alternatives.split_columns import parts_of, split_columns
from tinyir.kernels.attention import streaming_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.lower.plan.kernels_for import in_two_steps
from tinyir.play.region import play

from .checked import check_gpu, check_plan
from .emitted import complaints_of, lowered, played, simulated
from .stages import needs_host_compiler
from .test_flash import TOLERANCE
from .test_kernels_compile import has_compiler
from .test_streaming import arrays_of, attention, regions_of

FP16 = {"dtype": "fp16"}
CASES: dict[str, dict[str, Any]] = {
    "one query, grouped heads": {"s": 1, "t": 300, "d": 64, "heads": 8, "kv": 2},
    "one query, a head of keys each": {"s": 1, "t": 270, "d": 128, "heads": 2, "batch": 2},
    "bf16, a length that chunks divide": {"s": 1, "t": 256, "d": 64, "heads": 4, "kv": 1, "dtype": "bf16"},
    "a few queries, causal": {"s": 5, "t": 333, "d": 64, "heads": 2, "causal": True, "offset": 328},
    "a few queries of grouped heads": {"s": 3, "t": 200, "d": 64, "heads": 4, "kv": 2},
    "soft-cap and a mask": {"s": 2, "t": 150, "d": 32, "mask": "fp16", "softcap": 20.0},
    "another width, a depth of no whole product": {"s": 1, "t": 170, "d": 72, "e": 40, "heads": 4, "kv": 2},
}


def split_of(module: region.Module, parts: int = 4) -> region.Module:
    """The module with the columns of its attention in chunks."""
    pair = module.program.regions[0], module.program.regions[1]
    way = split_columns(pair, parts, 64, Names.of(module))
    assert way is not None
    found = in_two_steps(module, pair, way)
    assert [d for d in region.check(found) if d.is_error] == []
    assert region.parse(region.show(found)) == found
    return found


@needs_host_compiler
@pytest.mark.parametrize("name", CASES)
def test_chunks_equal_playback(name: str) -> None:
    module = to_plan.lower(split_of(regions_of(attention(**{**FP16, **CASES[name]}))))
    assert module.plans[0].algo == "streaming_softmax"
    assert [d.code for d in check_plan(module) if d.is_error] == []
    _, code = lowered(module)
    arrays = arrays_of(module.program, {}, list(CASES).index(name))
    found, wanted = (run["O"].astype(np.float64) for run in (simulated(code, arrays), played(code, arrays)))
    dtype = CASES[name].get("dtype", "fp16")
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "heads, kv, s, bind",
    [
        (8, 2, 1, "c0*i0*i1.o -> cta.x, i1.i -> warpgroup"),  # one query: the heads of a group are its rows
        (8, 2, 3, "c0*i0 -> cta.x, i1*i2 -> warpgroup"),
        (32, 2, 4, "c0*i0 -> cta.x, i1*i2 -> warpgroup"),  # 64 rows
        (32, 2, 5, "c0*i0*i1*i2.o -> cta.x, i2.i -> warpgroup"),  # 8 rows of each of 16 heads are too many
        (4, 4, 3, "c0*i0*i1.o -> cta.x, i1.i -> warpgroup"),
    ],
)
def test_heads_of_a_group_are_rows_of_one_tile(heads: int, kv: int, s: int, bind: str) -> None:
    module = split_of(regions_of(attention(s=s, t=512, d=64, heads=heads, kv=kv, **FP16)))
    (line,) = {line for line in plan.show(to_plan.lower(module)).splitlines() if "warpgroup" in line and "bind" in line}
    assert line.split(None, 1)[1] == bind


@needs_host_compiler
@pytest.mark.parametrize("order", ["bhsd", "bshd"])
def test_packed_rows_in_either_order_of_dims(order: str) -> None:
    """Queries before heads or behind them, a row of each box that counts not, and a mask that tells queries apart."""
    shape = {"b": 2, "h": 6, "s": 3, "d": 64}
    tensors = {"X": [shape[n] for n in order], "K": [2, 2, 150, 64], "V": [2, 2, 150, 64], "O": [2, 6, 3, 64]}
    perm = [order.index(n) for n in "bhsd"]
    graph = [
        {"op": "Transpose", "inputs": ["X"], "outputs": ["Q"], "attrs": {"perm": perm}},
        {"op": "Attention", "name": "attention", "inputs": ["Q", "K", "V"], "outputs": ["O"],
         "attrs": {"causal": True, "offset": 147}},
    ]  # fmt: skip
    signature = {"inputs": [{"tensor": n} for n in "XKV"], "outputs": [{"tensor": "O"}]}
    typed = {name: {"dtype": "fp16", "shape": s} for name, s in tensors.items()}
    module = to_plan.lower(
        split_of(regions_of(json.dumps({"signature": signature, "tensors": typed, "graph": graph})), 2)
    )
    kernels, code = lowered(module)
    sides = {"bhsd": "[1, 16, 4, 64]", "bshd": "[1, 16, 4, 64]"}
    assert f"q.map = X box {sides[order]}" in gpu.show(kernels)
    arrays = arrays_of(module.program, {}, 2)
    np.testing.assert_allclose(simulated(code, arrays)["O"], played(code, arrays)["O"], rtol=3e-3, atol=3e-3)


@needs_host_compiler
@pytest.mark.parametrize("length", [1, 70, 300, 513])
def test_lengths_that_the_plan_was_not_made_for(length: int) -> None:
    """Chunks are as many at every length: of a short one some have no column."""
    module = to_plan.lower(split_of(regions_of(attention(s=1, t="T", d=64, heads=4, kv=2, **FP16))))
    _, code = lowered(module)
    arrays = arrays_of(module.program, {"T": length}, 7)
    np.testing.assert_allclose(simulated(code, arrays)["O"], played(code, arrays)["O"], rtol=3e-3, atol=3e-3)


@needs_host_compiler
def test_rows_of_minus_infinity_and_numbers_that_are_none() -> None:
    """Rows of which a chunk is masked whole, or all of them; NaN and +inf among the scores of one chunk."""
    mask = np.zeros((1, 1, 6, 256), np.float16)
    mask[0, 0, 1, :64] = mask[0, 0, 2, 64:] = mask[0, 0, 3] = -np.inf
    mask[0, 0, 4, 100], mask[0, 0, 5, 200] = np.nan, np.inf
    module = to_plan.lower(split_of(regions_of(attention(s=6, t=256, mask="fp16", d=64, **FP16))))
    _, code = lowered(module)
    arrays = {**arrays_of(module.program, {}, 1), "mask": mask}
    found, wanted = (run["O"].astype(np.float64) for run in (simulated(code, arrays), played(code, arrays)))
    assert np.isnan(wanted[0, :, 4:]).all() and not np.isnan(wanted[0, :, :3]).any()
    np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=3e-3)


def test_playback_of_chunks_is_that_of_the_whole() -> None:
    """What becomes of the row's own numbers: a guard against NaN, a division before the second product, another row."""
    module = regions_of(attention(s=3, t=90, mask="bool", d=16, e=24))
    arrays = arrays_of(module, {}, 3)
    arrays["mask"][0, 0, 1] = False
    whole, apart = play(module, arrays)["O"], play(split_of(module, 2), arrays)["O"]
    np.testing.assert_allclose(apart, whole, rtol=1e-5, atol=1e-6)


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_chunks_on_cuda_cores(arch: str) -> None:
    """Chunks are regions, which every family of attention computes."""
    module = split_of(regions_of(attention(s=2, t="T", d=16, e=24, heads=4, kv=2, causal=True, offset=80)), 3)
    planned = to_plan.lower(module, arch)
    assert planned.plans[0].algo == "streaming"
    _, code = lowered(planned)
    arrays = arrays_of(module, {"T": 150}, 4)
    np.testing.assert_allclose(simulated(code, arrays)["O"], played(code, arrays)["O"], rtol=1e-4, atol=1e-5)


# --- when columns are walked in chunks


@pytest.mark.parametrize(
    "batch, kv, length, parts",
    [
        (1, 8, 4096, (8, 16)),
        (8, 8, 4096, (2,)),
        (6, 8, 4096, (2, 5)),
        (1, 32, 65536, (2, 4)),
        (1, 8, 130, (3,)),
        (1, 8, 64, ()),
        (32, 32, 4096, ()),
    ],
)
def test_chunks_make_half_a_round_of_ctas_or_one_and_two_where_one_leaves_sms_idle(
    batch: int, kv: int, length: int, parts: tuple[int, ...]
) -> None:
    pair = regions_of(attention(s=1, t="T", d=128, heads=32, kv=kv, batch=batch, **FP16)).program.regions[:2]
    assert parts_of(pair, {"T": length}, 132) == parts


def test_chunks_are_for_two_rounds_where_data_say_how_many_columns_there_are() -> None:
    """Two sequences of 32 heads over 2: half of the chunks may have no column."""
    pair = regions_of(cached(heads=32)).program.regions[:2]
    assert parts_of(pair, {"T": 65536}, 132) == (66,)


@pytest.mark.parametrize("batch, is_split", [(1, True), (8, True), (64, False)])
def test_the_planner_splits_what_would_leave_the_card_idle(batch: int, is_split: bool) -> None:
    module = regions_of(attention(s=1, t=8192, d=128, heads=32, kv=8, batch=batch, **FP16))
    plans = to_plan.lower(module, "sm90", "h200").plans
    assert plans[0].algo == "streaming_softmax"
    assert (len({p.regions for p in plans}) == 2) == is_split
    said = [d for d in to_plan.verdicts(module, "sm90", "h200") if d.code == "R3480"]
    assert len(said) == is_split
    assert all(dict(d.facts)["last"] == "attention.sum3" for d in said)


def test_work_on_single_weights_keeps_the_columns_together() -> None:
    """A row's other numbers, or work on a weight after its exponential: no second step is known for them."""
    module = regions_of(attention(s=2, t=512, d=64, **FP16))
    first, second = module.program.regions
    kernel = streaming_of(first, second)
    assert not isinstance(kernel, str) and kernel.top and kernel.total
    total = Ref(kernel.total, first.let(kernel.total).expr.dtype)
    tensor = Tensor("Z", TensorType(total.dtype, (Expr.of(2), Expr.of(2))))
    item = Yield(tensor.name, first.yields[0].index[1:3], total)
    other = replace(first, yields=(*first.yields, item), outputs=(*first.outputs, tensor))
    assert parts_of((first, second), {}, 132) and not parts_of((other, second), {}, 132)


@pytest.mark.skipif(not has_compiler(), reason="no compiler for the GPU")
@pytest.mark.parametrize("depth", [64, 128, 256])
def test_no_register_is_spilled(depth: int) -> None:
    module = split_of(regions_of(attention(s=1, t="T", d=depth, heads=8, kv=2, **FP16)))
    first = next(p for p in to_plan.lower(module).plans if p.algo == "streaming_softmax")
    kept = plan.Module(module, (first, *(p for p in to_plan.lower(module).plans if len(p.regions) == 1)))
    _, code = lowered(kept)
    assert complaints_of(manifest.show(code), "sm_90a") == []


# --- caches with room


def cached(s: int = 1, heads: int = 4, kv: int = 2, causal: bool = False, window: int = 0) -> str:
    """A model of one Attention whose keys count up to a length of each sequence, as `lengths` gives it: queries are the
    last `s` of these where it is causal, and see a window."""
    shapes = {"Q": [2, heads, s, 64], "K": [2, kv, "T", 64], "V": [2, kv, "T", 64], "O": [2, heads, s, 64]}
    iota = {"shape": [1, 1, 1, "T"], "axis": 3, "dtype": "i32"}
    rows = {"shape": [1, 1, s, 1], "axis": 2, "dtype": "i32"}
    graph = [
        {"op": "Iota", "inputs": [], "outputs": ["keys"], "attrs": iota},
        {"op": "Reshape", "inputs": ["lengths"], "outputs": ["each"], "attrs": {"shape": [2, 1, 1, 1]}},
        {"op": "Elementwise", "inputs": ["keys", "each"], "outputs": ["less"], "attrs": {"fn": "less"}},
    ]
    mask = "less"

    def also(fn: str, inputs: list[Any], output: str) -> None:
        graph.append({"op": "Elementwise", "inputs": inputs, "outputs": [output], "attrs": {"fn": fn}})

    if causal:
        graph.append({"op": "Iota", "inputs": [], "outputs": ["rows"], "attrs": rows})
        also("sub", ["each", s], "first")
        also("add", ["rows", "first"], "place")
        also("less_equal", ["keys", "place"], "before")
        also("and", [mask, "before"], "seen")
        mask = "seen"
    if window:
        also("sub", ["place", window], "edge")
        also("less", ["edge", "keys"], "near")
        also("and", [mask, "near"], "window")
        mask = "window"
    graph.append({"op": "Attention", "name": "attention", "inputs": ["Q", "K", "V", mask], "outputs": ["O"]})
    tensors = {name: {"dtype": "fp16", "shape": shape} for name, shape in shapes.items()}
    tensors["lengths"] = {"dtype": "i32", "shape": [2]}
    signature = {"inputs": [{"tensor": n} for n in ("Q", "K", "V", "lengths")], "outputs": [{"tensor": "O"}]}
    return json.dumps({"signature": signature, "tensors": tensors, "graph": graph})


@needs_host_compiler
@pytest.mark.parametrize("lengths", [(1, 300), (37, 128), (300, 0), (-5, 999)])
@pytest.mark.parametrize("parts", [1, 3])
def test_blocks_beyond_a_length_are_not_looked_at(parts: int, lengths: tuple[int, int]) -> None:
    """The room beyond the last block that is looked at holds NaN, which a score or a value of it would show. A sequence
    without keys gives 0, and a length beyond the room is the room."""
    whole = regions_of(cached())
    module = split_of(whole, parts) if parts > 1 else whole
    found = to_plan.candidates(module, module.program.regions[0])
    one = next(c.plan for c in found if c.plan.algo == "streaming_softmax" and c.plan.tile[1] == 64)
    others = [p for p in to_plan.lower(module).plans if len(p.regions) == 1] if parts > 1 else []
    kernels, code = lowered(plan.Module(module, (replace(one, persistent=3), *others)))
    assert "choose limit0 = " in gpu.show(kernels)
    arrays = arrays_of(module, {"T": 300}, 11) | {"lengths": np.array(lengths, np.int32)}
    wanted = played(code, arrays)["O"]
    chunk = 64 * -(-300 // (64 * parts))
    for sequence, length in enumerate(lengths):
        for first in range(0, 300, chunk):
            last = first + 64 * max(0, -(-min(length - first, chunk) // 64))
            for name in "KV":
                arrays[name][sequence, :, last : first + chunk] = np.nan
    np.testing.assert_allclose(simulated(code, arrays)["O"], wanted, rtol=3e-3, atol=3e-3)


@needs_host_compiler
@pytest.mark.parametrize("lengths", [(3, 300), (70, 129), (1, 0)])
@pytest.mark.parametrize("how", [{"causal": True}, {"causal": True, "window": 50}], ids=["causal", "window"])
def test_queries_that_are_the_last_of_each_sequence(how: dict[str, Any], lengths: tuple[int, int]) -> None:
    module = to_plan.lower(split_of(regions_of(cached(s=3, **how)), 2))
    assert module.plans[0].algo == "streaming_softmax"
    kernels, code = lowered(module)
    limits = 2 + ("window" in how)
    assert f"choose limit{limits - 1} = " in gpu.show(kernels) and f"limit{limits} =" not in gpu.show(kernels)
    arrays = arrays_of(module.program, {"T": 300}, 5) | {"lengths": np.array(lengths, np.int32)}
    found, wanted = simulated(code, arrays)["O"], played(code, arrays)["O"]
    np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize(
    "before, after, code",
    [
        ("cast(lengths[i0]) : i64", "cast(lengths[0]) : i64", "E1616"),  # the producer's walk ends elsewhere
        ("cast(lengths[i0]) : i64", "cast(lengths[thread.x]) : i64", "E1616"),
        ("box [1, 16, 4, 64]", "box [1, 8, 4, 64]", "E1602"),  # half of a tile's rows
        ("box [1, 16, 4, 64]", "box [2, 16, 4, 64]", "E1602"),
    ],
)
def test_planted_faults_are_caught(before: str, after: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(to_plan.lower(split_of(regions_of(cached(s=3)), 2))))
    assert before in text
    found = {d.code for d in check_gpu(gpu.parse(text.replace(before, after, 1))) if d.is_error}
    assert code in found, found


@pytest.mark.parametrize(
    ("model", "is_streamed"),
    [
        ({"batch": 8, "heads": 32, "kv": 8, "t": 4096}, True),  # 134 MB, which each CTA reads a part of
        ({"batch": 1, "heads": 32, "kv": 8, "t": 4096}, False),  # stays in L2
        ({"batch": 32, "heads": 32, "kv": 8, "t": 4096}, False),  # so much that nothing else is in L2
        ({"batch": 8, "heads": 32, "kv": 8, "t": 4096, "s": 200}, False),  # several CTAs read the same keys
    ],
)
def test_what_one_cta_alone_reads_of_much_is_streamed(model: dict[str, Any], is_streamed: bool) -> None:
    module = regions_of(attention(**{"s": 1, "d": 128, **FP16, **model}))
    found = to_plan.candidates(module, module.program.regions[0], "sm90")
    plans = [c.plan for c in found if c.plan.algo == "streaming_softmax"]
    assert plans
    for one in plans:
        assert {load.tensor: load.way for load in one.load} == dict.fromkeys("QKV", "") | (
            dict.fromkeys("KV", "streamed") if is_streamed else {}
        )
    text = gpu.show(to_gpu.lower(plan.Module(module, (plans[0],))))
    assert text.count(" streamed\n") == 2 * is_streamed and gpu.show(gpu.parse(text)) == text
    assert [d.code for d in check_gpu(gpu.parse(text)) if d.is_error] == []


@pytest.mark.parametrize("kv", [8, 32])
def test_few_rows_have_two_ctas_to_an_sm_whose_outputs_take_no_shared_memory(kv: int) -> None:
    module = regions_of(attention(s=1, t=4096, d=128, heads=32, kv=kv, batch=32 * 8 // kv, **FP16))
    chosen = to_plan.lower(module, "sm90", "h200").plans[0]
    assert chosen.threads == (160,) and not chosen.persistent and chosen.stages == 3 and not chosen.store
    assert chosen.estimate is not None and chosen.estimate.occupancy == 2
