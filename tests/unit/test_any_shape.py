"""Tensor cores at any shape: operands copied to rows that begin on lines, sums cut among the CTAs of a cluster."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, simulated
from .test_warp_specialized import BATCHED, BIAS, RESIDUAL, SCALED, product, proposed, with_tile

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
BOTH = ("A", "B")


def sized(layout: str, sizes: tuple[int, ...], **kind: str) -> object:
    """The product planned for these sizes."""
    return product(layout, sizes=", ".join(f"{k}={v}" for k, v in zip("MNK", sizes)), **kind)


def cut(
    layout: str, tile: tuple[int, int], parts: int, sizes: tuple[int, ...], padded: tuple[str, ...] = (), **kind: str
) -> plan.Module:
    """The product with its sum cut."""
    module = sized(layout, sizes, **kind)
    return plan.Module(module, (next(p for p in proposed(module, padded, parts) if p.tile[:2] == tile),))


def of_few_rows(
    layout: str,
    tile: tuple[int, int],
    parts: int,
    sizes: tuple[int, ...],
    padded: tuple[str, ...] = (),
    shape: tuple[int, ...] = (),
    **kind: str,
) -> plan.Module:
    """The product with its columns in place of a matrix product's rows, one tile for each CTA."""
    module = sized(layout, sizes, **kind)
    return plan.Module(
        module,
        (
            next(
                p
                for p in proposed(module, padded, parts)
                if p.tile[:2] == tile
                and p.swap_ab
                and not p.persistent
                and (p.cluster.shape if p.cluster else ()) == shape
            ),
        ),
    )


# --- plans


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ((256, 256, 128), {(), BOTH}),
        ((256, 256, 100), {("A",), BOTH}),
        ((256, 250, 128), {("B",), BOTH}),
        ((255, 251, 127), {BOTH}),
        ((256, 264, 136), {(), BOTH}),
        ((256, 264, 192), {(), ("B",), BOTH}),
    ],
)
def test_what_may_be_padded_follows_from_the_sizes(sizes: tuple, wanted: set) -> None:
    module = sized("NN", sizes)
    found = to_plan.candidates(module, module.program.regions[0])
    assert {tuple(item.tensor for item in c.plan.layout) for c in found if c.plan.algo == "warp_specialized"} == wanted


@pytest.mark.parametrize(
    ("sizes", "step"),
    [
        ((255, 251, 127), 5),
        *(pytest.param(s, 1, marks=pytest.mark.slow) for s in ((255, 251, 127), (64, 4096, 4096), (144, 888, 6472))),
    ],
)
def test_every_candidate_can_be_obeyed(sizes: tuple, step: int) -> None:
    module = sized("NN", sizes, **BIAS)
    found = {
        (c.plan.tile, c.plan.parts, c.plan.layout): c.plan
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.algo == "warp_specialized" and c.rejected in ("", to_plan.CROWDED)
    }
    for one in [*found.values()][::step]:
        planned = plan.Module(module, (one,))
        assert check_plan(planned) == [] and plan.show(plan.parse(plan.show(planned))) == plan.show(planned)
        kernels = to_gpu.lower(planned)
        assert check_gpu(kernels) == [] and gpu.parse(gpu.show(kernels)) == kernels


@pytest.mark.parametrize("rows", [1, 40, 100, 176, 333, 768])
def test_a_tile_a_cta_has_as_few_rows_as_do(rows: int) -> None:
    """So that boxes hang over the end by less than eight rows a tile; beyond 128 rows in no more CTAs than an H100 has
    SMs."""
    module = sized("NN", (rows, 768, 4096), **BIAS)
    found = {
        (p.tile[:2], p.parts) for p in proposed(module) + proposed(module, parts=2) if p.swap_ab and not p.persistent
    }
    counts = {(tile, parts): (-(-rows // tile[0]), -(-768 // tile[1]) * parts) for tile, parts in found}
    assert len(found) > 1 and all(tile[0] * down - rows < 8 * down for (tile, _), (down, _) in counts.items())
    assert all(down * across <= 132 for down, across in counts.values()) or rows <= 128
    assert rows <= 128 or {tile[1] for tile, _ in found} == {64}


def test_a_sum_is_cut_only_where_every_part_has_a_step() -> None:
    module = sized("NN", (64, 64, 256))
    assert proposed(module, parts=4) and proposed(module, parts=8) == []
    (one,) = cut("NN", (64, 64), 4, (64, 64, 256)).plans
    assert "193 <= K" in [str(b) for b in one.assume]


@pytest.mark.parametrize(
    "fields", [{"persistent": 132}, {"split_k": plan.SplitK(2, "workspace")}, {"store": (plan.Store("C", "tma"),)}]
)
def test_a_cut_sum_that_the_template_has_no_place_for_is_refused(fields: dict) -> None:
    module = cut("NN", (64, 64), 2, (64, 64, 256))
    assert {d.code for d in check_plan(replace(module, plans=(replace(module.plans[0], **fields),))) if d.is_error}


def test_padding_without_the_copy_engine_is_refused() -> None:
    module = sized("NN", (255, 251, 127))
    plain = next(
        c.plan
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.algo == "synchronous" and c.rejected in ("", to_plan.CROWDED)
    )
    planned = plan.Module(module, (replace(plain, layout=(plan.Layout("A", "padded"),)),))
    assert [d.code for d in check_plan(planned)] == ["E1524"]


def test_a_transposed_tile_with_too_few_rows_for_its_warpgroups_is_refused() -> None:
    module = with_tile(sized("NT", (255, 251, 128)), 144, 128, is_swapped=True)
    narrow = replace(module, plans=(replace(module.plans[0], tile=(144, 64, 64)),))
    assert {d.code for d in check_plan(narrow) if d.is_error}


# --- texts


def test_the_copies_are_a_kernel_that_runs_with_its_own() -> None:
    kernels, code = lowered(with_tile(sized("NN", (129, 131, 77)), 64, 64, padded=BOTH))
    assert [(k.name, k.serves) for k in kernels.kernels] == [("r.pad", "r"), ("r", "")]
    assert [f"{b.name} : {b.type}" for b in code.buffers] == [
        "r.A.padded : fp16[M, 64*floor((K + 63)/64)]",
        "r.B.padded : fp16[K, 64*floor((N + 63)/64)]",
    ]
    assert [m.tensor for m in code.maps] == ["r.A.padded", "r.B.padded"]
    text = manifest.show(code)
    assert manifest.show(manifest.parse(text)) == text and manifest.check(manifest.parse(text)) == []


def test_a_part_of_a_kernel_that_is_not_there_is_found() -> None:
    kernels, code = lowered(with_tile(sized("NN", (129, 131, 77)), 64, 64, padded=BOTH))
    lost = replace(kernels, launches=(replace(kernels.kernels[0], serves="q"), kernels.kernels[1]))
    assert [d.code for d in check_gpu(lost)] == ["E1603"]
    launches = (replace(code.launches[0], serves="q"), code.launches[1])
    assert [d.code for d in manifest.check(replace(code, launches=launches))] == ["E1632"]


SENDING = {  # what is told of, in a sum cut in two that ends in shared memory, and what becomes of it
    "the others may not have set up their barriers": (
        "  barrier cta\n  barrier cluster wait\n",
        "  barrier cta\n",
        {"E1609", "E1616"},
    ),
    "no first half": (
        "  fence mbarrier_init\n  barrier cluster arrive\n",
        "  fence mbarrier_init\n",
        {"E1609", "E1616"},
    ),
    "no second half at the end": ("  barrier cluster wait\n$", "", {"E1609", "E1613"}),
    "the CTA leaves": ("for %part\n  barrier cluster arrive\n", "for %part\n", {"E1609", "E1613"}),
    "no fence of those who write": ("  fence async_proxy\n", "", {"E1613"}),
    "no barrier of those who write": ("  barrier cta\n  barrier cluster wait\n", "  barrier cluster wait\n", {"E1613"}),
    "nobody waits for it": (" for %part", "", {"E1612", "E1613"}),
    "too few bytes": ("arrive joined expect 2176 B", "arrive joined expect 2172 B", {"E1618"}),
    "no bytes at all": ("    arrive joined expect 2176 B\n", "", {"E1618"}),
    "rows outside": ("size [8, 68]", "size [9, 68]", {"E1614", "E1618"}),
    "parts of rows": ("size [8, 68]", "size [8, 64]", {"E1613", "E1618"}),
    "not whole chunks": ("sums[8*c, 0] size [8, 68]", "sums[8*c, 2] size [1, 66]", {"E1613", "E1618"}),
    "rows that have one axis": ("size [8, 68]", "size [544]", {"E1607"}),
    "on an array": ("to c on joined", "to c on sums", {"E1602"}),
    "a barrier of warps in halves": ("  barrier cluster arrive\n", "  barrier warp arrive\n", {"E1602"}),
    "twice": (
        "    %part = send",
        "    %part.2 = send parts <- sums[8*c, 0] size [8, 68] to c on joined\n    %part = send",
        {"E1612", "E1613", "E1618"},
    ),
}

OF_SHARE = "    let c = 1 - cluster.rank\n    %part = send sent <- acc[0, 32*c] size [64, 32] to c on joined\n"
# the same of one that ends in registers, and of the first step's loads, which are on their way before the roles
HELD = {
    "the others may not have set up their barriers": ("    barrier cluster wait\n", "", {"E1609", "E1616"}),
    "sent before the others have set up their barriers": (
        f"    barrier cluster wait\n{OF_SHARE}",
        f"{OF_SHARE}    barrier cluster wait\n",
        {"E1616"},
    ),
    "no first half": (
        "  fence mbarrier_init\n  barrier cluster arrive\n",
        "  fence mbarrier_init\n",
        {"E1609", "E1616"},
    ),
    "a first half in a role": (
        "    barrier cluster wait\n",
        "    barrier cluster wait\n    barrier cluster arrive\n",
        {"E1609"},
    ),
    "some threads wait": (
        "    barrier cluster wait\n",
        "    if warpgroup.thread = 0\n      barrier cluster wait\n",
        {"E1609"},
    ),
    "nobody waits for it": (" for %part", "", {"E1612", "E1613"}),
    "too few bytes": ("arrive joined expect 8192 B", "arrive joined expect 8188 B", {"E1618"}),
    "no bytes at all": ("    if warpgroup.thread = 0\n      arrive joined expect 8192 B\n", "", {"E1618"}),
    "columns outside": ("acc[0, 32*c] size", "acc[0, 48*c] size", {"E1614"}),
    "half a piece": ("acc[0, 32*c] size", "acc[0, 24*c] size", {"E1613"}),
    "half the rows": ("size [64, 32] to c", "size [32, 32] to c", {"E1613", "E1618"}),
    "half the columns": ("size [64, 32] to c", "size [64, 16] to c", {"E1618"}),
    "to what is not laid out so": ("shared sent : fp32[64, 32] wgmma", "shared sent : fp32[64, 32]", {"E1613"}),
    "no such layout": ("shared sent : fp32[64, 32] wgmma", "shared sent : fp32[64, 32] mma", {"E1602"}),
    "a layout with a swizzle": (
        "shared sent : fp32[64, 32] wgmma",
        "shared sent : fp32[64, 32] swizzle 128 wgmma",
        {"E1602"},
    ),
    "a layout of part of a piece": ("shared sent : fp32[64, 32] wgmma", "shared sent : fp32[64, 40] wgmma", {"E1602"}),
    "loaded where registers lie": ("%first.a = tma_load a[0]", "%first.a = tma_load sent", {"E1602"}),
    "to a barrier": ("send sent <- acc", "send joined <- acc", {"E1602"}),
    "stored to shared memory": ("store_rows C[", "store_rows sent[", {"E1602"}),
    "stored from where others send": ("<- C.out", "<- sent", {"E1602"}),
    "while it is summed": ("    wait_group wgmma pending 0 for %mma\n", "", {"E1617"}),
    "before it has come": ("    wait joined phase 0 for %part\n", "", {"E1612", "E1613"}),
    "stored in another box": ("box [64, 32] <- C.out", "box [64, 16] <- C.out", {"E1602"}),
    "stored further right": ("+ n0] box [64, 32] <- C.out", "+ n0 + 16] box [64, 32] <- C.out", {"E1619"}),
    "the first step before the fence": (
        "  fence mbarrier_init\n  if thread.index = 0\n",
        "  if thread.index = 0\n",
        {"E1616"},
    ),
    "the first step by another thread": (
        "  if thread.index = 0\n    arrive full",
        "  if thread.index = 32\n    arrive full",
        {"E1616"},
    ),
    "the first step in a slot of another warp": (
        "arrive full[0] expect 16384 B",
        "arrive full[1] expect 16384 B",
        {"E1616", "E1618"},
    ),
    "the first step fetched twice": (
        "for k in cluster.rank + 2..steps step 2",
        "for k in cluster.rank..steps step 2",
        {"E1616"},
    ),
    "a slot that is filled is filled again": ("cursor p ring 8 at 1 phase 1", "cursor p ring 8 phase 1", {"E1613"}),
    "a slot that nobody fills": ("cursor p ring 8 at 1 phase 1", "cursor p ring 8 at 2 phase 1", {"E1613"}),
    "too few bytes of the first step": ("arrive full[0] expect 16384 B", "arrive full[0] expect 16380 B", {"E1618"}),
    "nobody waits for the first step": ("for %first.a, %first.b, %load.a", "for %load.a", {"E1612", "E1613"}),
}


def _found(text: str, good: str, bad: str) -> set[str]:
    """The codes of what is told of a text in which one thing is another."""
    assert check_gpu(gpu.parse(text)) == [] and gpu.show(gpu.parse(text)) == text
    found = re.sub(good if good.endswith("$") else re.escape(good), bad, text, count=1)
    assert found != text
    return {d.code for d in check_gpu(gpu.parse(found))}


@pytest.mark.parametrize("name", SENDING)
def test_a_fault_in_what_a_cta_sends_is_found(name: str) -> None:
    good, bad, codes = SENDING[name]
    assert _found(gpu.show(to_gpu.lower(of_few_rows("NN", (16, 64), 2, (16, 64, 256)))), good, bad) == codes


@pytest.mark.parametrize("name", HELD)
def test_a_fault_in_what_threads_send_is_found(name: str) -> None:
    good, bad, codes = HELD[name]
    assert _found(gpu.show(to_gpu.lower(cut("NN", (64, 64), 2, (64, 64, 256)))), good, bad) == codes


def test_what_threads_have_sent_is_read_by_those_of_their_number() -> None:
    text = gpu.show(to_gpu.lower(cut("NN", (64, 64), 2, (64, 64, 256))))
    line = next(line for line in text.splitlines() if line.strip().startswith("C.out[r, n]"))
    assert "E1613" in _found(
        text,
        "    each r, n of acc[0, 32*cluster.rank]",
        "    reg x : fp32[1]\n    x[0] = sent[0, 0]\n    each r, n of acc[0, 32*cluster.rank]",
    )
    with pytest.raises(Refused) as fault:
        to_cu.lower(gpu.parse(text.replace(line, line.replace("sent[r, n]", "sent[r, 31 - n]"))))
    assert [d.code for d in fault.value.diags] == ["E1620"]


ROWS = {  # what is told of, where threads write rows that begin anywhere, and what becomes of it
    "no barrier of those who write the tile": (
        "      barrier warpgroup\n      store_rows C[m0 + part, n0] ",
        "      store_rows C[m0 + part, n0] ",
        {"E1613"},
    ),
    "no barrier of those who read it": (
        "      barrier warpgroup\n      each r, n of acc[0, 128]",
        "      each r, n of acc[0, 128]",
        {"E1613"},
    ),
    "in front of the tensor": ("C[m0 + part, n0] box", "C[m0 + part - 1, n0] box", {"E1615"}),
    "more rows than the tile's": ("box [64, 128] <-", "box [65, 128] <-", {"E1614"}),
    "more columns than the tile's": ("box [64, 32] <-", "box [64, 160] <-", {"E1614"}),
    "a gap": ("box [64, 128] <-", "box [64, 112] <-", {"E1619"}),
    "twice": ("box [64, 32] <-", "box [64, 48] <-", {"E1619"}),
    "by one thread": (
        "      store_rows C[m0 + part, n0 + 128]",
        "      if warpgroup.thread = 0\n        store_rows C[m0 + part, n0 + 128]",
        {"E1609"},
    ),
    "a box of other dims": ("box [64, 128] <-", "box [1, 64, 128] <-", {"E1602"}),
    "a single row": ("box [64, 128] <-", "box [1, 128] <-", {"E1602"}),
    "other dims than the tensor's": ("n0 + 128] box", "n0 + 128] as [M, N + 1] box", {"E1602"}),
    "from registers": ("<- C.out[warpgroup.index]", "<- acc", {"E1602"}),
    "to an input": ("store_rows C[m0", "store_rows A[m0", {"E1619"}),
    "boxes that make up no tile": ("box [128, 64] swizzle", "box [120, 64] swizzle", {"E1602"}),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_fault_in_rows_that_threads_write_is_found(name: str) -> None:
    text = gpu.show(to_gpu.lower(with_tile(sized("NT", (129, 131, 72), **BIAS), 128, 160)))
    assert check_gpu(gpu.parse(text)) == [] and gpu.show(gpu.parse(text)) == text
    good, bad, codes = ROWS[name]
    found = text.replace(good, bad, 1)
    assert found != text
    assert {d.code for d in check_gpu(gpu.parse(found))} == codes


# --- results


def whole_numbers(code: manifest.Module, sizes: tuple[int, ...], seed: int) -> dict[str, np.ndarray]:
    """Inputs whose products and sums are exact."""
    draw, names = np.random.default_rng(seed), dict(zip("MNK", sizes))
    shapes = {
        t.name: ([d.evaluate(names) for d in t.type.shape], DTYPES[t.type.dtype.name]) for t in code.region.model.inputs
    }
    return {
        name: convert(draw.integers(-3, 4, shape).astype(np.float32), dtype) for name, (shape, dtype) in shapes.items()
    }


CASES = [
    (lambda s: with_tile(sized("NN", s, **BIAS), 64, 64, padded=BOTH), (67, 131, 77)),
    (lambda s: with_tile(sized("NT", s, **RESIDUAL), 64, 128, padded=BOTH), (65, 133, 91)),
    (lambda s: with_tile(sized("TT", s, **BIAS), 128, 256, (2, 1), padded=BOTH), (259, 131, 77)),
    (lambda s: with_tile(sized("TN", s, dtype="bf16", out="bf16"), 192, 128, padded=BOTH), (193, 129, 67)),
    (lambda s: with_tile(sized("NN", s, out="fp32", **SCALED), 128, 128, (2, 1), padded=("A",)), (131, 136, 101)),
    (lambda s: with_tile(sized("NN", s, **BIAS), 192, 192, (2, 1)), (200, 200, 136)),
    (lambda s: with_tile(sized("NN", s, **BIAS), 128, 256, (2, 1), padded=BOTH), (150, 301, 77)),
    (lambda s: with_tile(sized("NT", s, **RESIDUAL), 160, 256, padded=BOTH, is_swapped=True), (171, 309, 91)),
    (lambda s: with_tile(sized("TN", s, **SCALED), 112, 128, padded=BOTH, is_swapped=True), (121, 135, 67)),
    (
        lambda s: with_tile(
            sized("TT", s, dtype="bf16", out="bf16", **BIAS), 208, 128, (1, 2), padded=BOTH, is_swapped=True
        ),
        (211, 259, 130),
    ),
    (lambda s: with_tile(sized("NN", s, out="fp32", **BIAS), 128, 144, padded=BOTH), (130, 149, 77)),
    (lambda s: with_tile(sized("NT", s, out="fp8e4m3"), 128, 160, padded=BOTH), (130, 165, 77)),
    (lambda s: cut("NN", (64, 64), 2, s, **BIAS), (70, 136, 328)),
    (lambda s: cut("TT", (128, 128), 4, s, **RESIDUAL), (136, 136, 264)),
    (lambda s: cut("NT", (64, 128), 8, s, **SCALED), (1, 136, 520)),
    (lambda s: cut("NN", (64, 256), 2, s, BOTH, out="fp32"), (33, 91, 333)),
    (lambda s: of_few_rows("NN", (8, 64), 1, s, **BIAS), (1, 136, 328)),
    (lambda s: of_few_rows("NT", (16, 64), 2, s, **RESIDUAL), (16, 72, 200)),
    (lambda s: of_few_rows("TN", (24, 128), 4, s, **SCALED), (24, 200, 264)),
    (lambda s: of_few_rows("NN", (104, 64), 1, s, **BIAS), (100, 136, 136)),
    (lambda s: of_few_rows("NN", (48, 128), 8, s, BOTH, out="fp32"), (45, 91, 555)),
    (lambda s: of_few_rows("NN", (32, 64), 1, s, shape=(2, 1), **BIAS), (60, 136, 328)),
    (lambda s: of_few_rows("NT", (56, 64), 1, s, shape=(2, 1), **RESIDUAL), (100, 72, 200)),
    (lambda s: of_few_rows("TN", (16, 64), 1, s, shape=(1, 2), **SCALED), (16, 200, 264)),
    (lambda s: of_few_rows("TT", (104, 64), 2, s, **BIAS), (200, 136, 328)),
    (lambda s: of_few_rows("NN", (88, 64), 1, s, BOTH, **RESIDUAL), (171, 131, 77)),
    (lambda s: of_few_rows("NT", (72, 64), 1, s, shape=(2, 1), dtype="bf16", out="bf16", **SCALED), (210, 136, 200)),
    (lambda s: of_few_rows("NN", (56, 64), 2, s, out="fp32", **BIAS), (150, 136, 264)),
]


@needs_host_compiler
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_emitted_kernels_are_right_in_the_simulation(number: int) -> None:
    planned, sizes = CASES[number]
    _, code = lowered(planned(sizes))
    arrays = whole_numbers(code, sizes, number)
    wanted = played(code, arrays)
    for name, got in simulated(code, arrays, seed=number).items():
        assert np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64)), name


@needs_host_compiler
def test_batches_with_odd_rows_are_right_in_the_simulation() -> None:
    sizes = {"H": 2, "M": 3, "S": 13, "K": 21, "N": 35}
    text = BATCHED.lstrip().replace("H=2, M=3, S=64, K=64, N=64", ", ".join(f"{k}={v}" for k, v in sizes.items()))
    kernels, code = lowered(with_tile(region.parse(text), 64, 64, padded=BOTH))
    assert check_gpu(kernels) == [] and [str(b.type) for b in code.buffers] == [
        "fp16[H, M*S, 64*floor((K + 63)/64)]",
        "fp16[H, K, 64*floor((N + 63)/64)]",
    ]
    draw = np.random.default_rng(4)
    arrays = {
        t.name: draw.integers(-3, 4, [d.evaluate(sizes) for d in t.type.shape]).astype(np.float16)
        for t in code.region.model.inputs
    }
    assert np.array_equal(simulated(code, arrays)["C"], played(code, arrays)["C"])


@needs_host_compiler
def test_one_text_runs_at_any_size_in_the_simulation() -> None:
    _, code = lowered(to_plan.lower(sized("NN", (65, 67, 69), **BIAS)))
    for seed, sizes in enumerate([(1, 1, 1), (70, 3, 65), (9, 130, 8), (64, 64, 64), (3, 5, 0)]):
        arrays = whole_numbers(code, sizes, seed)
        assert np.array_equal(simulated(code, arrays)["C"], played(code, arrays)["C"]), sizes


# --- the compiler


@pytest.mark.parametrize(
    "planned",
    [
        lambda: with_tile(sized("NN", (255, 251, 127), **BIAS), 128, 256, (2, 1), padded=BOTH),
        pytest.param(
            lambda: with_tile(sized("NN", (255, 251, 127), **BIAS), 192, 192, padded=BOTH), marks=pytest.mark.slow
        ),
        pytest.param(
            lambda: with_tile(sized("NN", (255, 251, 127), **BIAS), 256, 128, padded=BOTH), marks=pytest.mark.slow
        ),
        lambda: cut("NN", (128, 128), 4, (128, 1024, 1024), **BIAS),
        pytest.param(lambda: cut("NN", (64, 256), 2, (64, 1024, 1024), **BIAS), marks=pytest.mark.slow),
    ],
)
def test_plans_compile_without_spills_or_serialised_products(planned: object) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    _, code = lowered(planned())
    cubin = cubin_of(manifest.show(code), "sm_90a", compiler)
    for usage in usage_of(cubin).values():
        assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
    assert not any(word in cubin.log.lower() for word in ("warning", "serialized", "ignored"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "sizes", "least"),
    [
        ("NN", (4096, 4096, 4096), 80),
        ("NN", (4093, 4099, 4111), 30),
        ("NN", (64, 4096, 4096), 80),
        ("TT", (768, 768, 3072), 80),
    ],
)
def test_no_plan_that_is_proposed_spills(layout: str, sizes: tuple[int, int, int], least: int) -> None:
    """Each tile with each way in which its operands and outputs move: sums in one or two parts."""
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    module, made, faulty = sized(layout, sizes, **BIAS), set(), []
    for c in to_plan.candidates(module, module.program.regions[0]):
        one = c.plan
        how = (one.tile, one.swap_ab, one.cluster, one.parts, one.layout, one.store)
        if one.algo != "warp_specialized" or c.rejected not in ("", to_plan.CROWDED) or one.parts > 2 or how in made:
            continue
        made.add(how)
        cubin = cubin_of(manifest.show(to_cu.lower(to_gpu.lower(plan.Module(module, (one,))))), "sm_90a", compiler)
        if any(u.stack or u.spill_stores or u.spill_loads for u in usage_of(cubin).values()) or any(
            w in cubin.log.lower() for w in ("warning", "serialized", "ignored")
        ):
            faulty.append(how)
    assert faulty == [] and len(made) >= least
