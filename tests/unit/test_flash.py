"""Attention on tensor cores: what the flash family takes, its kernel against playback in the simulation under orders of
threads and copies drawn anew, and faults planted in its text."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.attention import Case, model_of
from tinyir import kernels
from tinyir.ir import gpu, manifest, plan
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels import FAMILIES
from tinyir.kernels.attention import streaming_of
from tinyir.kernels.attention.score import score_of
from tinyir.kernels.attention.walk import sides_of, walk_of
from tinyir.kernels.family import Clocks
from tinyir.kernels.flash.match import Flash, flash_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_compiler, find_nvrtc
from tinyir.sim.host import COMPILERS
from tinyir.target import hopper

from .checked import assert_holds, check_gpu, check_plan
from .emitted import complaints_of, lowered, played, simulated
from .stages import needs_host_compiler
from .test_kernels_compile import has_compiler
from .test_streaming import arrays_of, attention, regions_of

ALGO = "streaming_softmax"
FP16 = {"dtype": "fp16"}
TOLERANCE = {"fp16": 3e-3, "bf16": 2e-2}
CASES: dict[str, dict[str, Any]] = {
    "full, whole blocks": {"s": 128, "t": 256, "d": 64},
    "full, lengths that divide nothing": {"s": 77, "t": 205, "d": 128, "batch": 2},
    "causal": {"causal": True, "s": 300, "t": 300, "d": 64},
    "causal with a past, grouped heads": {
        "causal": True,
        "offset": 33,
        "s": 150,
        "t": 183,
        "d": 128,
        "heads": 4,
        "kv": 2,
        "dtype": "bf16",
    },
    "a depth of 256": {"causal": True, "offset": 20, "s": 130, "t": 150, "d": 256, "heads": 1},
    "rows that see nothing": {"causal": True, "offset": -50, "s": 140, "t": 200, "d": 64},
    "a window": {"causal": True, "window": 100, "s": 400, "t": 400, "d": 64, "heads": 1},
    "a window that ends before the columns": {"causal": True, "window": 40, "offset": 180, "s": 70, "t": 200, "d": 64},
    "soft-cap": {"causal": True, "softcap": 15.0, "s": 70, "t": 200, "d": 64},
    "bool mask": {"mask": "bool", "s": 100, "t": 100, "d": 32},
    "added mask, another width": {"mask": "fp16", "s": 100, "t": 100, "d": 40, "e": 24},
    "added mask, rows of odd lengths": {"mask": "fp16", "s": 70, "t": 131, "d": 64, "causal": True},
    "bf16, widths of no whole row": {"s": 100, "t": 130, "d": 80, "e": 96, "dtype": "bf16"},
    "a depth of no whole product": {"s": 70, "t": 300, "d": 72, "e": 8},
    "an output in three pieces": {"s": 200, "t": 130, "d": 64, "e": 104},
    "an output in four pieces, of which two take turns": {"s": 200, "t": 70, "d": 64, "e": 176, "heads": 1},
}


def with_few(module: plan.Module, ctas: int) -> plan.Module:
    """The module whose first plan has this number of CTAs, so that each has several tiles, and a warpgroup to fetch."""
    return replace(module, plans=(replace(module.plans[0], persistent=ctas, threads=()), *module.plans[1:]))


def assert_equals_playback(module: plan.Module, arrays: dict[str, np.ndarray], seed: int = 0, algo: str = ALGO) -> None:
    """The output is near playback's, and NaN where that is."""
    assert module.plans[0].algo == algo
    _, code = lowered(module)
    dtype = module.program.model.outputs[0].type.dtype.name
    found, wanted = (run["O"].astype(np.float64) for run in (simulated(code, arrays, seed), played(code, arrays)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@needs_host_compiler
@pytest.mark.parametrize("name", CASES)
def test_the_default_plan_equals_playback(name: str) -> None:
    number = list(CASES).index(name)
    module = with_few(to_plan.lower(regions_of(attention(**{**FP16, **CASES[name]}))), 2)
    assert_equals_playback(module, arrays_of(module.program, {}, number), number % 3)


@pytest.mark.parametrize("width, stores", [(40, 2), (64, 1), (72, 2), (96, 2), (120, 1), (176, 3)])
def test_an_output_leaves_in_few_pieces(width: int, stores: int) -> None:
    module = to_plan.lower(regions_of(attention(s=128, t=128, d=width, **FP16)))
    kernel = to_gpu.lower(module).kernels[0]
    found = [s for s in statements(kernel.body) if isinstance(s, nodes.TmaStore)]
    assert len(found) == stores  # of 64 columns all in one, a loop of them


@needs_host_compiler
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("tile", [(64, 64), (128, 48), (192, 96)])
def test_every_count_of_warpgroups_in_every_order(tile: tuple[int, int], seed: int) -> None:
    """One, two and three consumers, blocks that divide nothing, three orders of threads and copies."""
    module = regions_of(attention(causal=True, s=260, t=270, offset=10, d=64, **FP16))
    one = next(p for p in _fitting(module) if p.tile[:2] == tile)
    assert_equals_playback(with_few(plan.Module(module, (one,)), 1 + seed % 2), arrays_of(module, {}, seed), seed)


@needs_host_compiler
@pytest.mark.parametrize("tile", [(64, 64), (128, 48), (192, 96)])
def test_one_warp_that_fetches_for_every_count_of_warpgroups(tile: tuple[int, int]) -> None:
    """A CTA for each tile, and a few CTAs for all of them."""
    module = regions_of(attention(causal=True, s=260, t=270, offset=10, d=64, **FP16))
    one = next(p for p in _fitting(module) if p.tile[:2] == tile and not p.threads)
    threads = (128 * one.consumers.count + 32,)
    for ctas in (0, 2):
        own = replace(one, threads=threads, regs=None, persistent=ctas)
        assert_equals_playback(plan.Module(module, (own,)), arrays_of(module, {}, ctas), ctas)
    for codes, refused in (
        ({"E1525"}, {"threads": (threads[0] + 32,)}),
        ({"E1510", "E1513", "E1581"}, {"regs": plan.Regs(24, 240)}),
        ({"E1581"}, {"order": plan.Order("drawn", 2)}),
    ):
        assert codes & {d.code for d in check_plan(plan.Module(module, (replace(own, **refused),)))}


@needs_host_compiler
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 17, 70), (1, 64, 330)])
def test_sizes_that_the_plan_was_not_made_for(size: tuple[int, int, int]) -> None:
    module = to_plan.lower(regions_of(attention(batch="B", s="S", t="T", causal=True, offset=3, d=64, **FP16)))
    assert_equals_playback(module, arrays_of(module.program, dict(zip("BST", size)), 5))


@needs_host_compiler
def test_rows_of_minus_infinity_and_numbers_that_are_none() -> None:
    """A block that is masked before the first that is not; a row that is masked whole; NaN and +inf among the
    scores."""
    mask = np.zeros((1, 1, 33, 200), np.float16)
    mask[0, 0, 3] = mask[0, 0, 5, :180] = mask[0, 0, 6, 20:] = -np.inf
    mask[0, 0, 7, 4], mask[0, 0, 9, 199] = np.nan, np.inf
    module = regions_of(attention(t=200, mask="fp16", d=64, **FP16))
    one = next(p for p in _fitting(module) if p.tile[1] == 64)
    assert_equals_playback(plan.Module(module, (one,)), {**arrays_of(module, {}, 1), "mask": mask}, 1)


@pytest.mark.parametrize(
    "arch, length, is_wide",
    [("sm80", 130, True), ("sm80", "T", True), ("sm80", 129, False), ("sm90", 130, True), ("sm90", 129, False)],
)
def test_a_tensor_added_to_scores_is_read_in_pairs_before_they_are_there(arch: str, length: Any, is_wide: bool) -> None:
    """A symbol is assumed to be even where the shape sets have even ones; the plan behind reads one by one."""
    module = to_plan.lower(regions_of(attention(s=200, t=length, mask="fp16", d=64, **FP16)), arch)
    made, code = lowered(replace(module, plans=module.plans[:1]))
    text = gpu.show(made)
    lines = text[text.index("\nkernel ") :].splitlines()
    ahead, done, used = ([n for n, line in enumerate(lines) if word in line] for word in (
        "each r, n of mask.ahead", "wait_group wgmma" if arch == "sm90" else " mma ", "mask.ahead[r, n]) : fp32"
    ))  # fmt: skip
    assert ahead and ahead[0] < done[0] < used[0] and len(ahead) == len(used)
    text = manifest.show(code)
    pairs, singles = text.count("word_of(&mask["), len(re.findall(r"= word_of\((?!&).*mask\[.*mask\[", text))
    assert (pairs, singles) == ((len(ahead), 0) if is_wide else (0, len(ahead)))
    assert len(module.plans) == (2 if length == "T" else 1)


# --- which blocks are walked


@pytest.mark.parametrize("window", [0, 7, 40])
@pytest.mark.parametrize("offset", [-30, 0, 13])
def test_blocks_are_walked_once_and_cut_where_a_mask_cuts_them(window: int, offset: int) -> None:
    """Every block with an element inside the masks is walked once; none is called whole that has one outside; of the
    others at most one is walked, where there would be none."""
    row, column = Expr.of("i"), Expr.of("j")
    masks = [Bound(row - column + offset, lower=Expr.of(0))]
    masks += [Bound(row - column + offset, upper=Expr.of(window))] if window else []
    for length, rows, columns in ((50, 16, 8), (64, 8, 16), (33, 24, 16)):
        walk = walk_of(sides_of(masks, "i", "j", rows, Expr.of("m0")), Expr.of(length), columns, lambda word: word)
        for m0 in range(0, 60, rows):
            known: dict[str, int] = {"m0": m0}
            for s in walk.setup:
                values = [e.evaluate(known) for e in (s.of if hasattr(s, "of") else (s.value,))]
                known[s.name] = {"Least": min, "Most": max, "Let": max}[type(s).__name__](values)
            steps, cut, whole = (e.evaluate(known) for e in (walk.steps, walk.cut, walk.whole))
            assert 1 <= cut <= whole <= steps
            starts = [walk.start(Expr.of(t)).evaluate(known) for t in range(steps)]
            assert min(starts) >= 0

            def inside(n0: int) -> list[bool]:
                return [
                    j < length and all(b.holds({"i": i, "j": j}) for b in masks)
                    for i in range(m0, m0 + rows)
                    for j in range(n0, n0 + columns)
                ]

            needed = {n0 for n0 in range(0, length, columns) if any(inside(n0))}
            assert needed <= set(starts) and len(set(starts)) == steps
            assert len(set(starts) - needed) <= (0 if needed else 1)
            assert all(all(inside(n0)) for n0 in starts[cut:whole])


# --- which regions, which plans


def test_it_is_the_default_where_it_fits_and_others_where_it_does_not() -> None:
    for model, arch, algo in (
        ({"d": 64, **FP16}, "sm90", ALGO),
        ({"d": 64, **FP16}, "sm80", "streaming_mma"),
        ({"d": 64, "dtype": "fp32"}, "sm90", "streaming"),
        ({"d": 36, **FP16}, "sm90", "streaming_mma"),
        ({"d": 20, "e": 24, **FP16}, "sm90", "streaming_mma"),
    ):
        module = to_plan.lower(regions_of(attention(s=512, t=512, **model)), arch)
        assert module.plans[0].algo == algo, model
        assert [d.code for d in check_plan(module) if d.is_error] == []


def test_the_reason_is_said() -> None:
    for model, reason in (({"dtype": "fp32"}, "a factor of fp32"), ({"d": 256, "e": 248, **FP16}, "")):
        regions = regions_of(attention(**model)).program.regions[:2]
        found = flash_of(streaming_of(*regions))
        assert isinstance(found, Flash) if not reason else reason in found


def test_scale_and_masks_are_taken_off_the_score() -> None:
    regions = regions_of(attention(causal=True, window=9, d=64, **FP16)).program.regions[:2]
    found = score_of(streaming_of(*regions))
    assert found.work is None and found.masks and found.has_reciprocal
    assert abs(found.factor - 0.125 * 1.4426950408889634) < 1e-6 and found.scale == 0.125
    regions = regions_of(attention(softcap=15.0, d=64, **FP16)).program.regions[:2]
    assert score_of(streaming_of(*regions)).work is not None


def test_every_candidate_is_a_plan_that_holds() -> None:
    module = regions_of(attention(d=128, s=700, t=700, causal=True, **FP16))
    kept = _fitting(module)
    assert len(kept) > 5
    for one in kept:
        assert_holds(module, one)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("tile", (96, 64, 64), "E1581"),
        ("tile", (128, 72, 64), "E1514"),
        ("tile", (128, 256, 64), "E1581"),
        ("stages", 1, "E1510"),
        ("load", (), "E1525"),
        ("cluster", plan.Cluster((2, 1)), "E1524"),
        ("consumers", plan.Consumers(2, "pingpong"), "E1525"),
        ("consumers", plan.Consumers(3, "cooperative"), "E1581"),
        ("order", plan.Order("hilbert"), "E1503"),
        ("assume", (), "E1523"),
    ],
)
def test_what_the_template_cannot_obey_is_refused(field: str, value: Any, code: str) -> None:
    module = regions_of(attention(d=64, s="S", t=512, **FP16))
    one = next(p for p in _fitting(module) if p.tile[:2] == (128, 64))
    found = [d.code for d in check_plan(plan.Module(module, (replace(one, **{field: value}),))) if d.is_error]
    assert code in found, found


# --- text


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("          wait empty.k[k.next.slot] phase k.next.phase\n", "", "E1613"),
        ("          wait empty.v[v.next.slot] phase v.next.phase\n", "", "E1613"),
        ("          arrive full.v[v.next.slot] expect 16384 B\n", "", "E1616"),
        ("expect 16384 B\n          %load.k", "expect 16368 B\n          %load.k", "E1618"),
        ("wait_group wgmma pending 0 for %qk.cut", "wait_group wgmma pending 1 for %qk.cut", "E1617"),
        ("        wait_group wgmma pending 0 for %qk.whole, %pv.whole\n", "", "E1617"),
        ("      arrive empty.q[q.s.slot]\n", "", "E1613"),
        ("for t in cut..last", "for t in cut..last + 1", "E1616"),
        ("for t in 0..last", "for t in 0..last + 1", "E1616"),
        ("least end = [S, m0 + 128]\n        most last", "least end = [S, m0 + 64]\n        most last", "E1616"),
        ("most last = [1, ", "most last = [thread.x, ", "E1616"),
        ("  barrier cta\n  let", "  let", "E1616"),
        ("row_reduce max sc into top", "row_reduce max p into top", "E1602"),
        ("total : fp32[64] row_parts", "total : fp32[32] row_parts", "E1602"),
        ("each r of top\n        top[r] = -inf : fp32\n", "each r, n of top\n        top[r] = -inf : fp32\n", "E1602"),
        ("total[r] = mul(total[r], change[r])", "total[r] = add(total[r], change[r])", "E1602"),
        ("scale[r] = fdiv(1.0, scale[r])", "scale[r] = fdiv(1.0, total[r])", "E1602"),
        ("p[r, n] = cast(sc[r, n]) : fp16", "p[n, r] = cast(sc[r, n]) : fp16", "E1602"),
        ("reg p : fp16[64, 128] wgmma_a", "reg p : fp16[64, 64] wgmma_a", "E1602"),
    ],
)
def test_planted_faults_are_caught(before: str, after: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(_causal()))
    assert before in text
    found = {d.code for d in check_gpu(gpu.parse(text.replace(before, after, 1))) if d.is_error}
    assert code in found, found


@pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
@pytest.mark.parametrize(
    "model",
    [
        {"d": 64, "s": 4096, "t": 4096, "batch": 4, "heads": 16},
        {"d": 128, "s": 4096, "t": 4096, "batch": 4, "heads": 16, "causal": True, "dtype": "bf16"},
        {"d": 256, "s": 4096, "t": 4096, "heads": 8, "causal": True, "window": 1000},
    ],
    ids=["64", "128", "256"],
)
def test_it_compiles_without_spills(model: dict[str, Any]) -> None:
    module = to_plan.lower(regions_of(attention(**{**FP16, **model})))
    assert module.plans[0].algo == ALGO
    text = manifest.show(lowered(module)[1])
    assert complaints_of(text, "sm_90a") == []
    log = cubin_of(text, "sm_90a", find_nvrtc() or find_compiler()).log
    assert "C75" not in log, log  # products that the assembler makes wait for one another


def _fitting(module: Any) -> list[plan.Plan]:
    found = to_plan.candidates(module, module.program.regions[0])
    return [c.plan for c in found if c.rejected in ("", to_plan.CROWDED) and c.plan.algo == ALGO]


def _causal() -> plan.Module:
    module = regions_of(attention(d=64, s="S", t="S", causal=True, **FP16))
    one = next(p for p in _fitting(module) if p.tile[:2] == (128, 128))
    return plan.Module(module, (one,))


REASONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "fp32": ({"dtype": "fp32"}, "sm90", "a factor of fp32"),
    "another arch": (FP16, "sm80", "sm80 has no copy engine"),
    "narrow rows": ({**FP16, "d": 20, "e": 16}, "sm90", "rows of Q, K are not whole 16 bytes at every shape set"),
    "no reason": (FP16, "sm90", ""),
}


@pytest.mark.parametrize("name", REASONS)
def test_a_remark_says_why_it_is_not_taken(name: str) -> None:
    model, arch, reason = REASONS[name]
    module = regions_of(attention(**model))
    taken = "streaming" if "fp32" in reason else "streaming_mma" if reason else ALGO
    assert to_plan.lower(module, arch).plans[0].algo == taken
    said = [d.facts for d in to_plan.verdicts(module, arch) if d.code == "R3476"]
    found = [(f["algo"], f["what"]) for f in said if f["faster"] == ALGO]
    assert found == ([(taken, reason)] if reason else [])


def test_a_remark_says_what_a_dearer_plan_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of the family that cost more than those of another are said with their time."""
    module = regions_of(attention(**FP16))
    slow = [replace(f, clocks=lambda *_: Clocks({"test": 1e6})) if f.algo == ALGO else f for f in FAMILIES]
    monkeypatch.setattr(kernels, "FAMILIES", tuple(slow))
    monkeypatch.setattr(kernels, "_BY_ALGO", {f.algo: f for f in slow})
    (said,) = [d.facts for d in to_plan.verdicts(module) if d.code == "R3476"]
    assert re.fullmatch(r"10000\d\d(\.\d+)? us by the cost model", said["what"])


@needs_host_compiler
@pytest.mark.parametrize("width", [1, 2])
def test_groups_of_heads_that_turn_equal_playback(width: int) -> None:
    """Every tile is computed, with a last group that has fewer heads than the others."""
    module = with_few(to_plan.lower(regions_of(attention(**FP16, causal=True, heads=3, s=300, t=300, d=64))), 2)
    one = replace(module.plans[0], order=plan.Order("group", width))
    module = replace(module, plans=(one, *module.plans[1:]))
    assert f"group {width} turning" in gpu.show(to_gpu.lower(module))
    assert_equals_playback(module, arrays_of(module.program, {}, width))


@needs_host_compiler
@pytest.mark.parametrize("heads, rows, width", [(32, 32, 8), (128, 16, 16), (3, 7, 2), (5, 4, 8)])
def test_turning_groups_share_out_the_work(heads: int, rows: int, width: int, tmp_path: Path) -> None:
    """Each tile has one number, groups follow one another, and where each of 132 CTAs has several tiles of a causal
    attention the longest sum of blocks is near the mean; without turns it is not."""
    texts = dict(hopper.PLAIN)
    source = "\n".join(
        [
            "#include <cstdio>\n#define __device__\n#define __forceinline__ inline",
            texts["grouped_tile"],
            texts["turning_tile"],
            "int main() {",
            f"for (int n = 0; n < {heads * rows}; n++) {{",
            f"tile_place a = grouped_tile(n, {heads}, {rows}, {width}), b = turning_tile(n, {heads}, {rows}, {width});",
            'printf("%d %d %d %d\\n", a.row, a.column, b.row, b.column); } }',
        ]
    )
    (tmp_path / "order.cpp").write_text(source)
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    subprocess.run([compiler, "-o", tmp_path / "order", tmp_path / "order.cpp"], check=True)
    shown = subprocess.run([tmp_path / "order"], check=True, capture_output=True, text=True).stdout
    places = np.array([line.split() for line in shown.splitlines()], int)
    grouped, turning = places[:, :2], places[:, 2:]
    for order in (grouped, turning):
        assert len({*map(tuple, order)}) == heads * rows
        assert (np.diff(order[:, 0] // width) >= 0).all()
    if heads * rows >= 4 * 132:
        most, usual = (
            max(sum(rows - column for column in order[cta::132, 1]) for cta in range(132))
            / (heads * rows * (rows + 1) / 264)
            for order in (turning, grouped)
        )
        assert most < 1.15 < 1.25 < usual


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_tiles_that_read_the_same_of_a_tensor_run_together(arch: str) -> None:
    """A bias of each head that all of a batch share: the batch is the fastest of the axes that number the tiles."""
    case = Case("fp16", 3, 2, 2, 70, 64, has_bias=True)
    module = to_plan.lower(regions_of(model_of(case)), arch)
    assert ("i1", "i0", "i2.o") in {b.axes for b in module.plans[0].bind}
    arrays = arrays_of(module.program, {"B": 3, "S": 70}, 4)
    assert_equals_playback(with_few(module, 2) if arch == "sm90" else module, arrays, algo=module.plans[0].algo)


@pytest.mark.parametrize("depth, width", [(72, 43), (80, 43), (128, 32)])
def test_groups_of_heads_that_run_together_are_alike(depth: int, width: int) -> None:
    module = to_plan.lower(regions_of(model_of(Case("fp16", 8, 16, 16, 2048, depth, True))), "sm90", "h200")
    order = module.plans[0].order
    assert order is not None and order.width == width  # of 128 heads; 56 fit, and would leave 16
