"""Contractions on Hopper's tensor cores: planned where the maps allow it, right in the simulation, compiled without
spills."""

from __future__ import annotations

import functools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.bench.card import card_here
from tests.bench.odd import label_of
from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels.parts.boxes import View, view_of
from tinyir.kernels.problem import kernels_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, region_text, simulated

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "tests" / "bench" / "results" / "tiles_h100.json"
needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
A = {"N": ("M, K", "i0, k0"), "T": ("K, M", "k0, i0")}
B = {"N": ("K, N", "k0, i1"), "T": ("N, K", "i1, k0")}


def product(
    layout: str = "NN",
    dtype: str = "fp16",
    out: str = "fp16",
    epilogue: str = "",
    value: str = "gemm",
    extra: str = "",
    sizes: str = "M=256, N=256, K=128",
) -> region.Module:
    """C = epilogue(A' B') as a region; `sizes` is the shape set."""
    (a, at_a), (b, at_b) = A[layout[0]], B[layout[1]]
    tensors = [
        f"  in  A : {dtype}[{a}]",
        f"  in  B : {dtype}[{b}]",
        *(f"  {t.strip()}" for t in extra.split(";") if t),
        f"  out C : {out}[M, N]",
    ]
    ordered = [t for t in tensors if t.startswith("  in")] + [t for t in tensors if t.startswith("  out")]
    body = ["  for i0: M, i1: N", f"    %gemm = reduce sum (k0: K) : fp32 {{ mul(A[{at_a}], B[{at_b}]) : fp32 }}"]
    body += [f"    {line.strip()}" for line in epilogue.split(";") if line]
    stored = f"%{value}" if out == "fp32" else f"cast(%{value}) : {out}"
    more = [f"  yield P[i0, i1] = cast(%gemm) : {dtype}"] if "out P" in extra else []
    text = "\n".join(
        [
            "tinyir 1.0 region",
            "",
            "model r",
            *ordered,
            f"shapes default {{{sizes}}}",
            "",
            "program r",
            "",
            "region r",
            *ordered,
            *body,
            f"  yield C[i0, i1] = {stored}",
            *more,
        ]
    )
    module = region.parse(text + "\n")
    assert [d for d in region.check(module) if d.is_error] == []
    return module


BIAS = {
    "extra": "in bias : fp16[N]",
    "epilogue": "%biased = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1])); %act = relu(%biased)",
    "value": "act",
}
SCALED = {
    "extra": "in s : fp32[M]",
    "epilogue": "%scaled = mul(%gemm, broadcast_in_dim(s[i0], dims=[0]))",
    "value": "scaled",
}
RESIDUAL = {
    "extra": "in R : fp16[M, N]; out P : fp16[M, N]",
    "epilogue": "%added = add(%gemm, cast(R[i0, i1]) : fp32)",
    "value": "added",
}


def proposed(module: region.Module, padded: tuple[str, ...] = (), parts: int = 1) -> list[plan.Plan]:
    """The warp-specialised candidates of a region that pad these operands and cut the sum in this number of parts."""
    found = to_plan.candidates(module, module.program.regions[0])
    plans = [c.plan for c in found if c.plan.algo == "warp_specialized" and c.rejected in ("", to_plan.CROWDED)]
    return [p for p in plans if tuple(item.tensor for item in p.layout) == padded and p.parts == parts]


def with_tile(
    module: region.Module,
    rows: int,
    columns: int,
    cluster: tuple[int, int] = (1, 1),
    padded: tuple[str, ...] = (),
    is_swapped: bool | None = None,
    **fields: object,
) -> plan.Module:
    """The region with the candidate of this tile, cluster and padding, on few CTAs that walk over the tiles."""
    found = (p for p in proposed(module, padded) if p.persistent and is_swapped in (None, p.swap_ab))
    one = next(
        p for p in found if p.tile[:2] == (rows, columns) and (p.cluster.shape if p.cluster else (1, 1)) == cluster
    )
    return plan.Module(module, (replace(one, persistent=2 * math.prod(cluster), **fields),))


# --- plans


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_layout_is_planned_and_obeyed(layout: str) -> None:
    module = product(layout, **BIAS)
    plans = proposed(module)
    assert {p.tile[:2] for p in plans} >= {(128, 256), (256, 128), (128, 128), (64, 64)}
    for one in {(p.tile, p.cluster): p for p in plans}.values():
        assert check_plan(plan.Module(module, (one,))) == []
        kernels, _ = lowered(plan.Module(module, (one,)))
        (product_of,) = [s for s in statements(kernels.kernels[0].body) if isinstance(s, nodes.Wgmma)]
        wanted = (layout[1] == "N", layout[0] == "N") if one.swap_ab else (layout[0] == "T", layout[1] == "T")
        assert (product_of.a_transposed, product_of.b_transposed) == wanted


def test_a_plan_assumes_what_the_copy_engine_needs_and_has_an_alternative() -> None:
    module = to_plan.lower(product("NN", **BIAS))
    first, second, third = module.plans
    assert [str(b) for b in first.assume] == ["8*floor(K/8) = K", "8*floor(N/8) = N", "1 <= K"]
    assert [str(b) for b in second.assume] == ["1 <= K"] and [item.hint for item in second.layout] == [
        "padded",
        "padded",
    ]
    assert [p.algo for p in module.plans] == [
        "warp_specialized",
        "warp_specialized",
        "synchronous",
    ] and third.assume == ()
    kernels, code = lowered(module)
    assert [(k.name, k.serves) for k in kernels.kernels] == [("r", ""), ("r.2.pad", "r.2"), ("r.2", ""), ("r.3", "")]
    assert {launch.regions for launch in code.launches} == {("r",)}


@pytest.mark.parametrize("sizes", ["M=256, N=256, K=100", "M=256, N=250, K=128"])
def test_sizes_that_the_copy_engine_cannot_take_are_padded_for_it(sizes: str) -> None:
    module = product("NN", sizes=sizes)
    assert proposed(module) == [] and proposed(module, ("A", "B"))


def test_an_output_with_odd_rows_is_written_along_them() -> None:
    module = product("NT", sizes="M=256, N=251, K=128")
    assert all(
        [item.by for item in p.store] == ["rows"] * bool(p.persistent)
        and [str(b) for b in p.assume] == ["8*floor(K/8) = K", "1 <= K"]
        for p in proposed(module)
    )


def test_numbers_need_no_assumption() -> None:
    text = region.show(product("NN", **BIAS)).replace("shapes default {M=256, N=256, K=128}\n", "")
    for symbol, size in (("M", "300"), ("N", "256"), ("K", "128")):
        text = (
            text.replace(f"[{symbol}, ", f"[{size}, ")
            .replace(f", {symbol}]", f", {size}]")
            .replace(f"[{symbol}]", f"[{size}]")
            .replace(f": {symbol}", f": {size}")
        )
    (one,) = to_plan.lower(region.parse(text)).plans
    assert one.algo == "warp_specialized" and one.assume == ()


def test_other_products_and_architectures_are_not_planned_for_it() -> None:
    assert proposed(product("TN", dtype="fp32", out="fp32")) == []
    found = to_plan.candidates(product(), product().program.regions[0], arch="sm80")
    assert {c.plan.algo for c in found} == {"multistage", "synchronous"}


@pytest.mark.parametrize(
    "tile, shape, multicast, code",
    [
        ((128, 64, 64), (3, 1), ("B",), "E1523"),
        ((64, 192, 64), (3, 1), ("B",), ""),
        ((128, 64, 64), (3, 1), (), ""),
        ((128, 64, 64), (1, 5), ("A",), "E1523"),
    ],
)
def test_a_tile_that_ctas_share_is_of_whole_boxes(
    tile: tuple[int, int, int], shape: tuple[int, int], multicast: tuple[str, ...], code: str
) -> None:
    found = with_tile(product("NN"), 128, 128)
    of_cluster = plan.Cluster(shape, multicast)
    least = {"stages": 2, "asynchrony": plan.Async(2), "consumers": plan.Consumers(1, "cooperative"), "regs": None}
    one = replace(found.plans[0], **least, tile=tile, persistent=math.prod(shape), cluster=of_cluster)
    module = replace(found, plans=(one,))
    assert [d.code for d in check_plan(module)] == ([code] if code else [])


def test_an_unassumed_stride_is_found() -> None:
    module = with_tile(product("NN", **BIAS), 128, 128, assume=())
    assert {d.code for d in check_plan(module)} == {"E1523"}


def test_a_tile_that_the_template_has_no_place_for_is_refused() -> None:

    for fields in ({"tile": (128, 72, 64)}, {"tile": (192, 128, 64)}):
        assert {d.code for d in check_plan(with_tile(product("NN"), 128, 128, **fields)) if d.is_error}


# --- views


BATCHED = """
tinyir 1.0 region

model r
  in  A : fp16[H, M, S, K]
  in  B : fp16[H, K, N]
  out C : fp16[H, M, S, N]
shapes default {H=2, M=3, S=64, K=64, N=64}

program r

region r
  in  A : fp16[H, M, S, K]
  in  B : fp16[H, K, N]
  out C : fp16[H, M, S, N]
  for i0: H, i1: M, i2: S, i3: N
    %gemm = reduce sum (k0: K) : fp32 { mul(A[i0, i1, i2, k0], B[i0, k0, i3]) : fp32 }
  yield C[i0, i1, i2, i3] = cast(%gemm) : fp16
"""


def test_neighbouring_axes_are_one_dim_and_batch_axes_are_dims_of_their_own() -> None:
    module = region.parse(BATCHED.lstrip())
    one = module.program.regions[0]
    (kernel, *_) = kernels_of(one)
    left, right = (view_of(one, r.tensor, r.index, kernel) for r in (kernel.lhs, kernel.rhs))
    assert isinstance(left, View) and [(d.role, str(d.size)) for d in left.dims] == [
        ("batch", "H"),
        ("left", "M*S"),
        ("sum", "K"),
    ]
    assert isinstance(right, View) and [(d.role, str(d.size)) for d in right.dims] == [
        ("batch", "H"),
        ("sum", "K"),
        ("right", "N"),
    ]
    kernels, code = lowered(with_tile(module, 64, 64))
    assert [list(map(str, m.dims)) for m in code.maps] == [["H", "M*S", "K"], [], ["H", "M*S", "N"]]
    assert check_gpu(kernels) == []


def test_axes_apart_in_memory_are_no_one_side_of_a_tile() -> None:
    text = (
        BATCHED.lstrip()
        .replace("A : fp16[H, M, S, K]", "A : fp16[M, H, S, K]")
        .replace("A[i0, i1, i2, k0]", "A[i1, i0, i2, k0]")
    )
    module = region.parse(text)
    one = module.program.regions[0]
    (kernel, *_) = kernels_of(one)
    assert (
        isinstance(view_of(one, "A", kernel.lhs.index, kernel), View)
        and [a.name for a in kernel.batch] == ["i0", "i1"]
        and proposed(module)
    )


DIGITS = """
tinyir 1.0 region

model r
  in  A : fp16[M, 512]
  in  B : fp16[512, N]
  out C : fp32[8, M, N]
shapes default {M=256, N=256}

program r

region r
  in  A : fp16[M, 512]
  in  B : fp16[512, N]
  out C : fp32[8, M, N]
  for c0: 8, i0: M, i1: N
    %gemm = reduce sum (k0: 64) : fp32 { mul(A[i0, 64*c0 + k0], B[64*c0 + k0, i1]) : fp32 }
  yield C[c0, i0, i1] = %gemm
"""


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_axes_that_count_one_dim_together_are_a_dim_each() -> None:
    module = region.parse(DIGITS.lstrip())
    one = module.program.regions[0]
    (kernel, *_) = kernels_of(one)
    left, right = (view_of(one, r.tensor, r.index, kernel) for r in (kernel.lhs, kernel.rhs))
    assert isinstance(left, View) and [(d.role, str(d.size)) for d in left.dims] == [
        ("left", "M"),
        ("batch", "8"),
        ("sum", "64"),
    ]
    assert isinstance(right, View) and [(d.role, str(d.size)) for d in right.dims] == [
        ("batch", "8"),
        ("sum", "64"),
        ("right", "N"),
    ]
    for padded, columns in (((), 72), (("B",), 71)):
        _, code = lowered(
            with_tile(
                module if not padded else region.parse(DIGITS.lstrip().replace("N=256", "N=255")), 64, 64, padded=padded
            )
        )
        assert padded or [list(map(str, m.dims)) for m in code.maps][:2] == [["M", "8", "64"], ["8", "64", "N"]]
        arrays = random_arrays(code.region.model, {"M": 70, "N": columns}, 1)
        wanted = np.einsum(
            "mck,ckn->cmn",
            *(arrays[n].astype(np.float64).reshape(s) for n, s in (("A", (70, 8, 64)), ("B", (8, 64, columns)))),
        )
        np.testing.assert_allclose(simulated(code, arrays)["C"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", ["64*c0 + k0 + 1", "32*c0 + k0", "64*c0 + 2*k0", "64*k0 + 8*c0"])
def test_axes_that_miss_places_or_meet_some_twice_are_no_dim(place: str) -> None:
    module = region.parse(
        DIGITS.lstrip().replace("A[i0, 64*c0 + k0]", f"A[i0, {place}]").replace("A : fp16[M, 512]", "A : fp16[M, 4096]")
    )
    one = module.program.regions[0]
    (kernel, *_) = kernels_of(one)
    assert "is not a whole axis" in view_of(one, "A", kernel.lhs.index, kernel)


# --- results


CASES = [
    ("NN", (128, 256), (2, 1), {}, (300, 264, 136)),
    ("NT", (128, 128), (2, 1), BIAS, (130, 200, 72)),
    ("TN", (256, 128), (1, 2), BIAS, (264, 264, 64)),
    ("TT", (64, 64), (1, 1), RESIDUAL, (72, 136, 80)),
    ("NN", (128, 192), (1, 1), SCALED, (140, 200, 64)),
    ("NT", (64, 128), (1, 1), {"out": "fp32", **SCALED}, (70, 131, 72)),
    ("NN", (64, 256), (1, 1), {"dtype": "bf16", "out": "bf16"}, (65, 264, 8)),
    ("NN", (192, 160), (2, 1), BIAS, (200, 216, 72)),
    ("NT", (128, 144), (2, 1), {"out": "fp32", **SCALED}, (130, 152, 72)),
    ("TN", (256, 160), (1, 2), RESIDUAL, (264, 336, 64)),
    ("TT", (128, 96), (1, 1), {"dtype": "bf16", "out": "bf16"}, (72, 104, 136)),
    ("NN", (144, 256), (2, 1), BIAS, (150, 264, 136)),
    ("NT", (208, 128), (1, 2), RESIDUAL, (216, 264, 72)),
    ("TT", (80, 128), (1, 1), {"dtype": "bf16", "out": "bf16", **SCALED}, (88, 136, 136)),
    ("TN", (112, 128), (1, 1), BIAS, (224, 72, 64)),
]


@needs_host_compiler
@pytest.mark.parametrize(("layout", "tile", "cluster", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_the_emitted_kernel_is_right_in_the_simulation(
    layout: str, tile: tuple, cluster: tuple, kind: dict, sizes: tuple
) -> None:
    from tinyir.ir.evaluate import convert
    from tinyir.ir.types import DTYPES

    names = dict(zip("MNK", sizes))
    module = product(layout, sizes=", ".join(f"{k}={v}" for k, v in names.items()), **kind)
    _, code = lowered(with_tile(module, *tile, cluster))
    draw = np.random.default_rng(3)
    arrays = {
        t.name: convert(
            draw.integers(-3, 4, [d.evaluate(names) for d in t.type.shape]).astype(np.float32),
            DTYPES[t.type.dtype.name],
        )
        for t in module.model.inputs
    }
    wanted = played(code, arrays)
    for name, got in simulated(code, arrays, seed=1).items():
        assert np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64)), name


@needs_host_compiler
def test_other_sizes_take_the_alternative_and_no_sum_is_no_launch_of_the_first() -> None:
    _, code = lowered(to_plan.lower(product("NN", **BIAS)))
    draw = np.random.default_rng(0)
    for m, n, k in ((5, 7, 9), (3, 8, 0), (0, 8, 8)):
        arrays = {
            "A": draw.integers(-3, 4, (m, k)),
            "B": draw.integers(-3, 4, (k, n)),
            "bias": draw.integers(-3, 4, (n,)),
        }
        arrays = {name: a.astype(np.float16) for name, a in arrays.items()}
        assert np.array_equal(simulated(code, arrays)["C"], played(code, arrays)["C"])


# --- the compiler


def every_tile() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The tiles and clusters of candidates whose CTAs walk over tiles; what ends a sum in shared memory is compiled by
    `test_any_shape`."""
    return sorted(
        {
            (p.tile[:2], p.cluster.shape if p.cluster else (1, 1))
            for p in proposed(product("NN", **BIAS))
            if p.persistent
        }
    )


QUICK = (((64, 64), (1, 1)), ((128, 256), (2, 1)), ((256, 128), (1, 2)))


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize(
    ("tile", "cluster"), [pytest.param(*t, marks=() if t in QUICK else pytest.mark.slow) for t in every_tile()]
)
def test_every_shipped_plan_compiles_without_spills_or_serialised_products(
    tile: tuple, cluster: tuple, layout: str
) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    _, code = lowered(with_tile(product(layout, **BIAS), *tile, cluster))
    cubin = cubin_of(manifest.show(code), "sm_90a", compiler)
    (usage,) = usage_of(cubin).values()
    assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
    assert not any(word in cubin.log.lower() for word in ("warning", "serialized", "ignored"))


# --- the cost model


EVENTS_US = 3.6  # of a start and an end that are events around a graph, which the model does not count


@functools.cache
def judged() -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """For each measured shape what every timed plan took, and what the model expects of them, beginning with the one
    that it puts first. Without sums that a cluster cuts, whose CTAs read one another's parts then, and send them now,
    and without padded operands, behind which rows left in pairs then."""
    found, missing = {}, 0
    for row in json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]:
        layout, sizes = row["shape"].removesuffix("NT"), "NT" if row["shape"].endswith("NT") else "NN"
        if int(layout.split("x")[0]) <= 8:
            continue  # tiles had sixteen rows there, and have eight
        module = product(sizes, sizes=", ".join(f"{n}={s}" for n, s in zip("MNK", layout.split("x"))), **BIAS)
        known: dict[str, float] = {}
        for c in to_plan.candidates(module, module.program.regions[0]):
            known.setdefault(label_of(c), c.cost.microseconds if c.cost else math.inf)
        alike = {name: us for name, us in row["plans_us"].items() if ", sum in " not in name and "padded" not in name}
        timed = {name: us for name, us in alike.items() if name in known}  # some are proposed no more
        found[row["shape"]] = timed, {name: us for name, us in known.items() if name in timed}
        missing += len(alike) - len(timed)
    assert missing < 0.1 * sum(len(timed) for timed, _ in found.values())
    return found


def test_the_model_follows_the_measurements() -> None:
    errors = []
    for timed, expected in judged().values():
        errors += [
            math.log((expected[name] + EVENTS_US) / us) for name, us in timed.items() if us < 1.5 * min(timed.values())
        ]
    assert len(errors) > 650 and math.sqrt(sum(e * e for e in errors) / len(errors)) < 0.16


def test_the_plan_that_the_model_puts_first_is_near_the_fastest() -> None:
    losses = {
        shape: timed[min(expected, key=lambda name: round(expected[name], 6))] / min(timed.values())
        for shape, (timed, expected) in judged().items()
    }
    assert (
        len(losses) == 36
        and math.exp(sum(map(math.log, losses.values())) / len(losses)) < 1.02
        and max(losses.values()) < 1.15
    )


@functools.cache
def of_outputs(count: int) -> region.Module:
    """A small product that several outputs take."""
    names = "CDEFGHI"[:count]
    tensors = "".join(f"in {n} : bf16[128, 512]\n" for n in "AB")
    tensors += "".join(f"out {n} : fp16[128, 128]\n" for n in names)
    body = "for i0: 128, i1: 128\n%c = reduce sum (k0: 512) : fp32 { mul(A[i0, k0], B[i1, k0]) : fp32 }\n"
    body += "".join(f"yield {n}[i0, i1] = cast(mul(%c, {at}.5)) : fp16\n" for at, n in enumerate(names))
    return region.parse(region_text(tensors, body))


@pytest.mark.parametrize(("count", "wide"), [(1, {2, 4, 8}), (2, {4, 8}), (3, {4, 8}), (4, {8}), (7, {8})])
def test_a_cut_sum_ends_in_no_more_registers_than_there_are(count: int, wide: set[int]) -> None:
    """Of the widest tile as few parts as the outputs let there be; each kernel that is planned is one that holds."""
    module = of_outputs(count)
    kept = [p for parts in (2, 4, 8) for p in proposed(module, parts=parts) if not p.swap_ab]
    assert {p.parts for p in kept if p.tile[1] == 256} == wide
    for one in kept:
        assert check_gpu(to_gpu.lower(plan.Module(module, (one,)))) == [], plan.show_plan(one)


def test_a_plan_whose_outputs_registers_do_not_hold_is_refused() -> None:
    (one, *_) = (p for p in proposed(of_outputs(1), parts=2) if p.tile[1] == 256)
    two = of_outputs(2)
    (fault,) = check_plan(plan.Module(two, (one,)))
    assert fault.code == "E1513" and dict(fault.facts) | {"given": 256, "most": 255} == dict(fault.facts)


def test_a_cluster_that_shares_loads_is_drained_and_a_lone_cta_is_not() -> None:
    lone, pair = (
        gpu.show(to_gpu.lower(with_tile(product("NN", **BIAS), 128, 128, cluster))) for cluster in ((1, 1), (2, 1))
    )
    assert "drain" not in lone and "multicast" not in lone and pair.count("drain empty from p") == 1
    without = "".join(line for line in pair.splitlines(keepends=True) if "drain" not in line)
    assert check_gpu(gpu.parse(pair)) == [] and [d.code for d in check_gpu(gpu.parse(without))] == ["E1613"]


@pytest.mark.parametrize(
    ("results", "mean", "worst"),
    [
        ("rows_plans", 1.015, 1.12),
        ("near_plans", 1.01, 1.1),
        ("held_plans", 1.025, 1.13),
        ("few_tiles_plans", 1.035, 1.14),
    ],
)
def test_the_plan_that_an_h200s_model_puts_first_is_near_the_fastest(results: str, mean: float, worst: float) -> None:
    losses = []
    for row in json.loads((MEASURED.parent / f"{results}_h200.json").read_text(encoding="utf-8"))["rows"]:
        module = product("NN", sizes=", ".join(f"{n}={s}" for n, s in zip("MNK", row["shape"])), **BIAS)
        expected: dict[str, float] = {}
        for c in to_plan.candidates(module, module.program.regions[0], device="h200"):
            if c.plan.algo == "warp_specialized" and c.rejected in ("", to_plan.CROWDED):
                expected.setdefault(label_of(c), c.cost.microseconds)
        timed = {item["plan"]: item["us"] for item in row["plans"] if item["plan"] in expected}
        losses += [timed[min(timed, key=expected.__getitem__)] / min(timed.values())] if timed else []
    assert len(losses) > 24 and math.exp(sum(map(math.log, losses)) / len(losses)) < mean and max(losses) < worst


def test_bytes_in_flight_are_those_of_all_batches() -> None:
    """64 products of 512 x 512 x 64 are expected to take about as long as one of as many rows."""
    tensors = "  in  A : fp16[64, 512, 64]\n  in  B : fp16[{}64, 512]\n  out C : fp16[64, 512, 512]\n"
    found = []
    for batch in ("64, ", ""):
        told = tensors.format(batch)
        sum_ = f"mul(A[i0, i1, k0], B[{'i0, ' if batch else ''}k0, i2]) : fp32"
        text = (
            f"tinyir 1.0 region\n\nmodel r\n{told}\nprogram r\n\nregion r\n{told}  for i0: 64, i1: 512, i2: 512\n"
            f"    %c = reduce sum (k0: 64) : fp32 {{ {sum_} }}\n  yield C[i0, i1, i2] = cast(%c) : fp16\n"
        )
        module = region.parse(text)
        plans = [c.plan for c in to_plan.candidates(module, module.program.regions[0], "sm90", card_here())]
        found.append(min(p.estimate.microseconds for p in plans if p.algo == "warp_specialized" and p.estimate))
    apart, together = found
    assert apart < 1.25 * together
