"""From regions to plans: the choice is deterministic, obeys its own checker, and follows what was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir.analysis.work import bytes_of, flops_of, work_of
from tinyir.ir import plan, region
from tinyir.kernels import family_of
from tinyir.kernels.cost import Cost, cost_of
from tinyir.kernels.family import Problem
from tinyir.kernels.problem import Contraction, Map, Row, kernels_of
from tinyir.kit.diag import Refused
from tinyir.lower.plan import candidates, card_of, explain, lower
from tinyir.target.arch import ARCHS
from tinyir.target.device import Device, device_names, device_titled, get_device

from .checked import check_plan

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"
DESIGN = ROOT / "tests" / "golden" / "design"
GEMM = region.parse(SAMPLE.with_suffix(".region").read_text(encoding="utf-8"))
ONE = GEMM.program.regions[0]


def cost(one: plan.Plan, module: region.Module, at: dict[str, int], card: Device) -> Cost:
    """What the model says of a plan of the module's only region."""
    (only,) = module.program.regions
    problem = Problem((only,), kernels_of(only)[0], module.model)
    return cost_of(family_of(one), one, problem, work_of(only, at), at, card)


# Microseconds of emitted kernels on an H200, whose units are the H100's, fp16 operands: tile, threads x and y, then the
# cubes of 512, 1024, 2048, 4096.
MEASURED = [
    ((16, 32, 32), (16, 16), (44.4, 270.6, 1959.7, 15444.8)),
    ((32, 32, 32), (32, 8), (37.2, 216.2, 1599.4, 12319.8)),
    ((32, 64, 32), (32, 8), (45.6, 168.1, 1206.8, 9254.9)),
    ((64, 64, 32), (16, 16), (60.8, 140.6, 944.7, 7268.0)),
    ((64, 128, 32), (32, 8), (93.4, 179.9, 874.3, 6737.7)),
    ((64, 128, 8), (16, 8), (128.6, 250.8, 788.7, 6099.4)),
    ((128, 128, 8), (16, 16), (134.1, 259.3, 710.0, 5521.7)),
    ((128, 16, 32), (16, 16), (73.9, 257.9, 1795.7, 13820.4)),
]


def program(inputs: str, outputs: str, body: str, shapes: str = "", ranges: str = "") -> region.Module:
    """A module of one region `r`, its signature that of the region."""
    tensors = [f"  in  {t}" for t in inputs.split("; ")] + [f"  out {t}" for t in outputs.split("; ")]
    head = [
        "tinyir 1.0 region",
        "",
        "model m",
        *tensors,
        *([f"  sym {ranges}"] if ranges else []),
        *([f"shapes default {{{shapes}}}"] if shapes else []),
    ]
    return region.parse(
        "\n".join([*head, "", "program m", "", "region r", *tensors, *body.strip("\n").splitlines()]) + "\n"
    )


SOFTMAX = """
  for i0: R, i1: C
    %max           = reduce max (i1) : fp32 { x[i0, i1] }
    %e             = exp2(sub(x[i0, i1], broadcast_in_dim(%max, dims=[0])))
    %sum           = reduce sum (i1) : fp32 { %e }
  yield y[i0, i1] = fdiv(%e, broadcast_in_dim(%sum, dims=[0]))
"""
MATVEC = """
  for i0: R
    %y             = reduce sum (k0: C) : fp32 { mul(x[i0, k0], v[k0]) }
  yield y[i0] = %y
"""
BATCHED = """
  for i0: B, i1: M, i2: 64
    %y             = reduce sum (k0: 32) : fp32 { mul(v[i0, k0, i2], x[i0, i1, k0]) : fp32 }
  yield y[i0, i1, i2] = cast(%y) : fp16
"""


def test_the_sample_gets_the_committed_plan() -> None:
    assert plan.show(lower(GEMM)) == SAMPLE.with_suffix(".plan").read_text(encoding="utf-8")


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize("name", ["conv_pad_stride", "gemm_sm80", "gemm_sm90", "layernorm"])
def test_every_chosen_plan_can_be_obeyed(name: str, arch: str) -> None:
    module = lower(region.parse((DESIGN / f"{name}.region").read_text(encoding="utf-8")), arch=arch)
    assert check_plan(module) == []
    assert plan.parse(plan.show(module)) == module
    assert {p.arch for p in module.plans} == {arch}
    for one in module.program.program.regions:
        chain = [bool(p.assume) for p in module.plans if p.regions == (one.name,)]
        assert chain == [True] * (len(chain) - 1) + [False]


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_candidates_are_ranked_fit_and_say_why_not(arch: str) -> None:
    found = candidates(GEMM, ONE, arch)
    assert found == candidates(region.parse(region.show(GEMM)), ONE, arch)
    kept = [c for c in found if not c.rejected]
    assert 10 <= len(kept) <= 20 and found[: len(kept)] == tuple(kept)
    assert [c.cost.microseconds for c in kept] == sorted(c.cost.microseconds for c in kept)
    assert all(c.cost.occupancy >= (2 if arch == "sm80" else 1) for c in kept)
    assert all(check_plan(plan.Module(GEMM, (c.plan,))) == [] for c in kept)
    assert any("micro tile" in c.rejected for c in found)


def test_the_table_has_a_row_for_each_candidate_and_marks_the_choice() -> None:
    lines = explain(GEMM, is_whole=True).splitlines()
    assert len(lines) == 2 + len(candidates(GEMM, ONE))
    assert lines[2].endswith("chosen") and sum(line.endswith("chosen") for line in lines) == 1


def test_the_short_table_counts_what_was_rejected_by_reason() -> None:
    found = candidates(GEMM, ONE)
    kept = [c for c in found if not c.rejected]
    lines = explain(GEMM).splitlines()
    assert lines[: 2 + len(kept)] != [] and all(line.startswith("rejected ") for line in lines[2 + len(kept) :])
    assert sum(int(line.split()[1].rstrip(":")) for line in lines[2 + len(kept) :]) == len(found) - len(kept)


def test_work_counts_what_the_region_computes() -> None:
    assert str(flops_of(ONE)) == "2*K*M*N + 2*M*N"
    assert str(bytes_of(ONE)) == "2*K*M + 2*K*N + 2*M*N + 2*N"
    softmax = program("x : fp32[R, C]", "y : fp32[R, C]", SOFTMAX).program.regions[0]
    assert str(flops_of(softmax)) == "5*C*R"


@pytest.mark.parametrize(("table", "words", "read"), [
    ("table : fp32[50000, 64]; ids : i64[100]", 100, 100 * 64 * 4),
    ("table : fp32[50, 64]; ids : i64[100]", 100, 50 * 64 * 4),
    ("table : fp32[50000, 64]; ids : i64[N]", "N", 50000 * 64 * 4),
])  # fmt: skip
def test_of_a_table_the_rows_that_are_picked_cross_memory(table: str, words: int | str, read: int) -> None:
    """At most: a row that is picked twice is counted twice, and a table in no case more than whole."""
    picked = "gather (k0: %s = ids[i0]) { table[k0, i1] }"
    rows = table.split("[")[1].split(",")[0]
    body = f"""
      for i0: {words}, i1: 64
      yield y[i0, i1] = {picked % rows}
    """
    (one,) = program(table, f"y : fp32[{words}, 64]", body).program.regions
    sizes = {"N": 100}
    assert bytes_of(one).evaluate(sizes) == read + 100 * 8 + 100 * 64 * 4
    assert work_of(one, sizes).bytes == min(read, 100 * 64 * 4) + 100 * 8 + 100 * 64 * 4


def test_of_a_slice_the_rows_that_are_read_cross_memory() -> None:
    body = "for i0: 10, i1: 64\n yield y[i0, i1] = add(x[i0 + 5, i1], x[i0 + 90, i1])"
    (one,) = program("x : fp32[1000, 64]", "y : fp32[10, 64]", body).program.regions
    assert bytes_of(one).constant == (20 + 10) * 64 * 4


def test_of_a_cache_with_room_the_rows_that_there_are_cross_memory() -> None:
    """Which is known where the symbol's value is; a read of the same rows by several heads counts them once."""
    body = "for i0: 32, i1: S, k: 64\n yield y[i0, i1, k] = x[floor(i0/4), i1, k]"
    (one,) = program("x : fp16[8, 8192, 64]", "y : fp16[32, S, 64]", body).program.regions
    written = 32 * 512 * 64 * 2
    assert work_of(one, {"S": 512}).bytes == 8 * 512 * 64 * 2 + written
    assert bytes_of(one).evaluate({"S": 512}) == 8 * 8192 * 64 * 2 + written


def test_a_fold_over_the_whole_row_counts_once_a_row() -> None:
    matvec = program("x : fp32[R, C]; v : fp32[C]", "y : fp32[R]", MATVEC).program.regions[0]
    assert (str(flops_of(matvec)), str(bytes_of(matvec))) == ("2*C*R", "4*C + 4*C*R + 4*R")


@given(st.tuples(*[st.integers(1, 5000)] * 3), st.integers(0, 2), st.integers(1, 3000), st.integers(0, 40))
def test_more_work_never_costs_less(sizes: tuple[int, int, int], grown: int, more: int, choice: int) -> None:
    card = get_device("h100")
    one = candidates(GEMM, ONE)[choice].plan
    small = dict(zip("MNK", sizes))
    # rows that begin on lines of the cache are fetched faster than shorter ones that do not, and boxes faster than
    # parts of them
    if one.consumers:
        whole = {name: 2 * side for name, side in zip("MNK", one.tile)}  # of a cluster of two
        small, more = {name: whole[name] * size for name, size in small.items()}, whole["MNK"[grown]] * more
    large = {**small, "MNK"[grown]: small["MNK"[grown]] + more}
    found = [cost(one, GEMM, at, card) for at in (small, large)]
    assert found[0].microseconds <= found[1].microseconds
    assert found[0].microseconds > (card.tensor["start_us"] if one.consumers else card.start_us)


def test_the_model_follows_the_measurements() -> None:
    card = get_device("h100")
    plans = {(c.plan.tile, c.plan.threads): c.plan for c in candidates(GEMM, ONE)}
    for column, size in enumerate((512, 1024, 2048, 4096)):
        at = dict.fromkeys("MNK", size)
        timed = [
            (cost(plans[tile, threads], GEMM, at, card).microseconds, times[column])
            for tile, threads, times in MEASURED
        ]
        assert math.sqrt(sum(math.log(model / real) ** 2 for model, real in timed) / len(timed)) < 0.2
        assert min(timed)[1] <= (1.15 if size > 512 else 1.25) * min(real for _, real in timed)


def test_registers_decide_how_many_ctas_an_sm_holds() -> None:
    sm90 = ARCHS["sm90"]
    assert sm90.ctas_that_fit(smem=8192, regs=64, threads=256) == 4
    assert sm90.ctas_that_fit(smem=8192, regs=128, threads=256) == 2
    assert sm90.ctas_that_fit(smem=8192, regs=129, threads=256) == 1
    assert sm90.ctas_that_fit(smem=100 * 1024, regs=32, threads=32) == 2
    assert sm90.ctas_that_fit(smem=0, regs=32, threads=1024) == 2
    assert sm90.ctas_that_fit(smem=228 * 1024, regs=32, threads=32) == 0


def test_families_are_read_off_the_expressions() -> None:
    softmax = program("x : fp32[R, C]", "y : fp32[R, C]", SOFTMAX)
    assert [type(k) for k in kernels_of(softmax.program.regions[0])] == [Row]
    matvec = program("x : fp32[R, C]; v : fp32[C]", "y : fp32[R]", MATVEC).program.regions[0]
    assert [type(k) for k in kernels_of(matvec, {"R": 64, "C": 4096})] == [Row, Map]
    assert [type(k) for k in kernels_of(matvec, {"R": 64, "C": 16})] == [Map]
    (kernel, *_) = kernels_of(
        program("x : fp16[B, M, 32]; v : fp16[B, 32, 64]", "y : fp16[B, M, 64]", BATCHED).program.regions[0]
    )
    assert isinstance(kernel, Contraction)
    assert [[a.name for a in g] for g in (kernel.batch, *kernel.groups)] == [["i0"], ["i1"], ["i2"], ["k0"]]
    assert (kernel.lhs.tensor, kernel.rhs.tensor) == ("x", "v")


def test_a_batch_takes_the_grid_and_a_divided_axis_needs_no_guard() -> None:
    module = lower(
        program("x : fp16[B, M, 32]; v : fp16[B, 32, 64]", "y : fp16[B, M, 64]", BATCHED, "B=8, M=256"), arch="sm80"
    )
    (one,) = module.plans
    assert check_plan(module) == []
    assert one.place_of("i0") == "cta.z" and one.place_of("i1.o") == "cta.y" and one.place_of("i2.o") == "cta.x"
    assert one.predicate == ("i1",)


def test_a_row_is_resident_only_where_it_always_fits() -> None:
    free = lower(program("x : fp32[R, C]", "y : fp32[R, C]", SOFTMAX, "R=512, C=1000"))
    bounded = lower(program("x : fp32[R, C]", "y : fp32[R, C]", SOFTMAX, "R=512, C=1000", "C in 1..1000"))
    assert [m.plans[0].algo for m in (free, bounded)] == ["row_streamed", "row_resident"]
    assert check_plan(free) == check_plan(bounded) == []


def test_an_empty_or_scalar_region_still_has_a_plan() -> None:
    scalar = lower(program("x : fp32[]", "y : fp32[]", "  for\n    %y             = neg(x[])\n  yield y[] = %y\n"))
    empty = lower(program("x : fp32[0, 4]", "y : fp32[0, 4]", "  for i0: 0, i1: 4\n  yield y[i0, i1] = x[i0, i1]\n"))
    assert check_plan(scalar) == check_plan(empty) == []
    assert scalar.plans[0].family == empty.plans[0].family == "map"


def test_what_no_family_covers_is_refused_by_name() -> None:
    joined = (
        (DESIGN / "attention_causal.region").read_text(encoding="utf-8").replace("reduce max (i3)", "reduce min (i3)")
    )
    with pytest.raises(Refused) as fault:
        lower(region.parse(joined))
    assert [(d.code, d.at) for d in fault.value.diags] == [("E1520", "qk")]


def test_cards_are_known_and_go_with_their_arch() -> None:
    assert device_names() == ("a100", "h100", "h200")
    h100, h200 = get_device("h100"), get_device("h200")
    assert (h200.sms, h200.simt, h200.tensor["start_us"]) == (h100.sms, h100.simt, h100.tensor["start_us"])
    assert (
        h200.dram_bytes_per_us > 1.3 * h100.dram_bytes_per_us and h200.tensor["unaligned"] != h100.tensor["unaligned"]
    )
    assert [device_titled(title) for title in ("NVIDIA H200", h100.title, "NVIDIA H2")] == ["h200", "h100", None]
    assert card_of("sm80", None).name == "a100" and card_of("sm90", None).name == "h100"
    assert card_of("sm80", "h100").arch.name == "sm80"
    for arch, device in (("sm70", None), ("sm90", "a100"), ("sm90", "b200")):
        with pytest.raises(Refused, match="E1503"):
            card_of(arch, device)


@pytest.mark.parametrize("name", ["gemm_sm90", "gemm_sm80"])
def test_a_hand_made_tensor_core_plan_has_a_cost(name: str) -> None:
    module = plan.parse((DESIGN / f"{name}.plan").read_text(encoding="utf-8"))
    (one,) = module.plans
    at = dict.fromkeys("MNK", 4096)
    card = card_of(one.arch, None)
    found = cost(one, module.program, at, card)
    least = found.flops / card.peak["mma_fp16"] / 1e6
    assert least < found.microseconds < 3 * least
    assert (
        one.estimate is not None and abs(one.estimate.microseconds / found.microseconds - 1) < 0.01
    )  # what the text says is what the model says
