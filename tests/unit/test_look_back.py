"""Scans that read their rows once: right for every op and dtype, the same bits whatever the order of CTAs, and faults
that would hang or race are named."""

from __future__ import annotations

import functools
import re
import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.plan import Bind, Plan, Vectorize
from tinyir.ir.types import DTYPES
from tinyir.kernels.parts.guards import guarded_axes
from tinyir.kernels.problem import kernel_of
from tinyir.kit.diag import Diag, Refused
from tinyir.lower import plan as to_plan
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import TARGETS, complaints_of, lowered, meant_for, played, region_text, simulated

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

ROWS = "in X : fp32[R, C]\nout Y : fp32[R, C]"
CASES = {  # tensors, body, elements at once, sizes
    "rows": (
        ROWS,
        "for i0: R, i1: C\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        1,
        {"R": 3, "C": 2500},
    ),
    "from the end, exclusive": (
        ROWS,
        "for i0: R, i1: C\n%y = scan sum reverse exclusive (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        1,
        {"R": 2, "C": 777},
    ),
    "one short row": (
        ROWS,
        "for i0: R, i1: C\n%y = scan max (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        1,
        {"R": 1, "C": 1},
    ),
    "no rows": (
        ROWS,
        "for i0: R, i1: C\n%y = scan max (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        1,
        {"R": 0, "C": 99},
    ),
    "down": (
        "in X : fp32[C, 2, R]\nout Y : fp32[2, R, C]",
        "for i0: C, i1: 2, i2: R\n%y = scan min (i0) : fp32 { X[i0, i1, i2] }\nyield Y[i1, i2, i0] = %y",
        1,
        {"R": 2, "C": 300},
    ),
    "in vectors": (
        "in X : fp16[R, 3000]\nout Y : fp32[R, 3000]",
        "for i0: R, i1: 3000\n%y = scan sum exclusive (i1) : fp32 { cast(X[i0, i1]) : fp32 }\nyield Y[i0, i1] = %y",
        4,
        {"R": 2},
    ),
    "odd rows in vectors": (
        "in X : fp32[R, 1001]\nout Y : fp32[R, 1001]",
        "for i0: R, i1: 1001\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        4,
        {"R": 5},
    ),
    "rows of any length in vectors": (
        ROWS,
        "for i0: R, i1: C\n%y = scan max exclusive (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        4,
        {"R": 4, "C": 771},
    ),
    "fp64": (
        "in X : fp64[C]\nout Y : fp64[C]",
        "for i0: C\n%y = scan sum (i0) : fp64 { X[i0] }\nyield Y[i0] = %y",
        1,
        {"C": 5000},
    ),
    "i64 in vectors": (
        "in X : i64[9000]\nout Y : i64[9000]",
        "for i0: 9000\n%y = scan sum (i0) : i64 { X[i0] }\nyield Y[i0] = %y",
        2,
        {},
    ),
    "i8": (
        "in X : i8[C]\nout Y : i8[C]",
        "for i0: C\n%y = scan sum (i0) : i8 { X[i0] }\nyield Y[i0] = %y",
        1,
        {"C": 900},
    ),
    "a scan of a scan": (
        "in X : fp32[R, C]\nout Y : fp32[R, C]\nout Z : fp64[R, C]",
        "for i0: R, i1: C\n%x = mul(X[i0, i1], 0.5)\n%s = scan sum (i1) : fp32 { %x }\n%t = scan max exclusive "
        "(i1) : fp64 { cast(neg(%s)) : fp64 }\n"
        "yield Y[i0, i1] = add(%s, %x)\nyield Z[i0, i1] = max(%t, -3.0)",
        1,
        {"R": 2, "C": 700},
    ),
}


def module_of(tensors: str, body: str, width: int = 1, threads: int = 32, turns: int = 2) -> plan.Module:
    """A plan of small tiles, so that a few numbers are many of them."""
    module = region.parse(region_text(tensors, body))
    (one,) = module.program.regions
    kernel = kernel_of(one, "scan")
    tile = threads * turns * width
    binds = (
        Bind(tuple(f"{a.name}.o" for a in (*kernel.rows, *kernel.row)), "cta.x"),
        Bind((f"{kernel.row[0].name}.i",), "thread.x"),
    )
    vectorize = (Vectorize(kernel.row[0].name, width),) if width > 1 else ()
    made = plan.Module(
        module,
        (
            Plan(
                (one.name,),
                "sm90",
                "scan",
                "scan_look_back",
                (1, tile),
                threads=(threads,),
                bind=binds,
                vectorize=vectorize,
                predicate=guarded_axes(kernel.row, tile),
            ),
        ),
    )
    assert check_plan(made) == [] and plan.parse(plan.show(made)) == made
    return made


@needs_compiler
@pytest.mark.parametrize("threads", [32, 96])
@pytest.mark.parametrize("name", CASES)
def test_a_scan_gives_what_playback_gives_at_each_run_the_same_bits(name: str, threads: int) -> None:
    tensors, body, width, sizes = CASES[name]
    _, code = lowered(module_of(tensors, body, width, threads))
    arrays = random_arrays(code.region.model, sizes, 3)
    wanted, first = played(code, arrays), simulated(code, arrays)
    for output, array in wanted.items():
        np.testing.assert_allclose(first[output].astype(np.float64), array.astype(np.float64), rtol=2e-3, atol=2e-3)
    for seed in (1, 2, 3):
        assert all(
            array.tobytes() == first[output].tobytes() for output, array in simulated(code, arrays, seed).items()
        )


@needs_compiler
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "fp16", "bf16", "fp8e4m3", "fp8e5m2"])
def test_what_is_before_the_first_element_is_the_narrow_dtypes(dtype: str, width: int) -> None:
    """An exclusive scan begins with the number that changes none of its dtype, not with that of the wider one in which
    it is computed."""
    outputs = "".join(f"\nout {op} : {dtype}[160]" for op in ("max", "min"))
    scans = "".join(f"\n%{op} = scan {op} exclusive (i0) : {dtype} {{ X[i0] }}" for op in ("max", "min"))
    yields = "".join(f"\nyield {op}[i0] = %{op}" for op in ("max", "min"))
    _, code = lowered(module_of(f"in X : {dtype}[160]{outputs}", f"for i0: 160{scans}{yields}", width, turns=1))
    arrays = random_arrays(code.region.model, {}, 3)
    wanted, found = played(code, arrays), simulated(code, arrays)
    for op, end in (("max", DTYPES[dtype].lowest), ("min", DTYPES[dtype].highest)):
        assert float(found[op][0]) == float(end)
        assert found[op].tobytes() == wanted[op].tobytes()


@needs_compiler
def test_a_thousand_tiles_are_summed_by_all_levels_of_the_tree() -> None:
    """The last of 32 and of 1024 tiles tell others what those fold to; the third word of the last level is read too."""
    _, code = lowered(
        module_of(
            "in X : fp32[C]\nout Y : fp32[C]",
            "for i0: C\n%y = scan sum (i0) : fp32 { X[i0] }\nyield Y[i0] = %y",
            turns=1,
        )
    )
    x = np.random.default_rng(1).integers(-9, 9, 32 * 2100 + 5).astype(np.float32)
    for seed in (0, 1):
        np.testing.assert_array_equal(simulated(code, {"X": x}, seed)["Y"], np.cumsum(x))


@functools.cache
def emitted(dtype: str) -> tuple[str, manifest.Module, np.ndarray]:
    """The CUDA text of a scan of 40 tiles, and its input."""
    _, code = lowered(
        module_of(
            f"in X : {dtype}[C]\nout Y : {dtype}[C]",
            f"for i0: C\n%y = scan sum (i0) : {dtype} {{ X[i0] }}\nyield Y[i0] = %y",
            turns=1,
        )
    )
    return manifest.show(code), code, np.arange(32 * 40, dtype={"fp32": np.float32, "fp64": np.float64}[dtype])


MUTANTS = {  # dtype, what is replaced by what, and what the simulation says
    "no ticket": ("fp32", r"const int tile = place\[0\];", "const int tile = (int)blockIdx.x;", {"E1724"}),
    "tickets from a counter that nobody clears": ("fp32", r"r_ticket\[0\] = 0u;", ";", {"E1750"}),
    "words that nobody clears": ("fp32", r"(r_status\[[^=]*\]) = 0ull;", ";", {"E1750"}),
    "never published": ("fp32", r"publish_word\(&r_status[^;]*;", ";", {"E1724"}),
    "32 tiles never published": ("fp32", r"publish_word\(&words[^;]*;", ";", {"E1724"}),
    "flag before value": ("fp64", r"(r_held\[tile\] = [^;]*;)\s*(publish_flag\([^;]*;)", r"\2\n\1", {"E1750", "E1753"}),
    "flag of 32 before value": (
        "fp64",
        r"(values\[at / 32\] = own;)\s*(publish_flag\([^;]*;)",
        r"\2\n\1",
        {"E1750", "E1753"},
    ),
    "value not waited for": ("fp64", r"await_flag\(&words\[n\]\);", "", {"E1750", "E1753"}),
    "word read, and not waited for": (
        "fp64",
        r"await_flag\(&words\[n\]\);",
        "while (!__ldcg(&words[n])) __nanosleep(20);",
        {"E1753", "E1750", "E1727"},
    ),
}


def fault_of(text: str, x: np.ndarray, seed: int) -> Diag | None:
    """What the first launch of the text that fails says."""
    try:
        simulated(manifest.parse(text), {"X": x}, seed)
    except Refused as fault:
        return fault.diags[0]
    return None


@needs_compiler
@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_what_would_hang_or_race_is_named(name: str, seed: int) -> None:
    dtype, pattern, replacement, codes = MUTANTS[name]
    text, _, x = emitted(dtype)
    mutant, count = re.subn(pattern, replacement, text)
    assert count == 1
    found = fault_of(mutant, x, seed)
    assert found is not None and found.code in codes


@needs_compiler
def test_a_deadlock_says_which_word_is_waited_for() -> None:
    text, _, x = emitted("fp32")
    found = fault_of(re.sub(r"publish_word\(&words[^;]*;", ";", text), x, 0)
    assert re.search(
        r"thread 0 waiting at line \d+ for r\.status\[40\], which no block that runs will publish", found.facts["waits"]
    )


PLANTED = {  # in the gpu text: what is replaced by what, and a part of what the checker says
    "tile of the CTA": (r"ticket tile of r\.ticket\[0\] below (.*) via place", r"let tile = cta.x", "no ticket"),
    "ticket of some CTAs": (
        r"below floor\(\(C \+ 31\)/32\) via",
        "below floor((C + 63)/64) via",
        "not the number of CTAs",
    ),
    "ticket of some threads": (r"\n  (ticket [^\n]*)", r"\n  if cta.x < 1\n    \1\n  let tile = 0", "not taken once"),
    "looked back before it is published": (
        r"(\n  publish [^\n]*)(\n  look_back [^\n]*)",
        r"\2\1",
        "not published their own before",
    ),
    "never published": (r"\n  publish [^\n]*", "", "not published their own before"),
    "published at another level": (r"(publish y\.total to r\.status\[)0", r"\g<1>1", "at level 0"),
    "published by some": (r"\n  (publish [^\n]*)", r"\n  if tile < 3\n    \1", "by every CTA"),
    "never cleared": (r"\n    store r\.status[^\n]*", "\n    let unused = 0", "at each run by a kernel before"),
    "cleared to another value": (r"(store r\.status[^\n]* = )0", r"\g<1>1", "at each run by a kernel before"),
    "cleared behind": (r"(?s)(kernel r\.start .*?\n)\n(kernel r :.*)", r"\2\n\1", "at each run by a kernel before"),
    "cleared once": (r"of r for r :", "of r for r once :", "at each run by a kernel before"),
    "touched beside": (
        r"(\n  publish )",
        r"\n  if thread.x = 0\n    store r.status[0, tile] = 0 : u64\1",
        "touched beside",
    ),
    "words of another width": (r"workspace r\.status : u64", "workspace r.status : u32", "of u64 with 3 levels"),
    "words of another level": (r"workspace r\.status : u64\[3", "workspace r.status : u64[4", "of u64 with 3 levels"),
    "counter of another width": (r"workspace r\.ticket : u32", "workspace r.ticket : u64", "other than u32"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_named(name: str) -> None:
    pattern, replacement, part = PLANTED[name]
    kernels, _ = lowered(
        module_of(
            "in X : fp32[C]\nout Y : fp32[C]",
            "for i0: C\n%y = scan sum (i0) : fp32 { X[i0] }\nyield Y[i0] = %y",
            turns=1,
        )
    )
    text, count = re.subn(pattern, replacement, gpu.show(kernels))
    assert count == 1
    try:
        found = check_gpu(gpu.parse(text))
    except Refused as fault:
        found = fault.diags
    assert any(d.code == "E1680" and part in str(d.facts["fault"]) for d in found), [
        (d.code, dict(d.facts)) for d in found
    ]


@pytest.mark.parametrize(
    "rows, columns, algo", [(1, 1 << 24, "scan_look_back"), (64, 1 << 18, "scan_look_back"), (4096, 1024, "scan_block")]
)
def test_long_rows_are_read_once_where_they_are_few(rows: int, columns: int, algo: str) -> None:
    text = region_text(
        f"in X : fp32[{rows}, {columns}]\nout Y : fp32[{rows}, {columns}]",
        f"for i0: {rows}, i1: {columns}\n%y = scan sum (i1) : fp32 {{ X[i0, i1] }}\nyield Y[i0, i1] = %y",
    )
    (one,) = to_plan.lower(region.parse(text)).plans
    assert one.algo == algo


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_the_largest_tiles_compile_without_spills(dtype: str, target: str) -> None:
    module = region.parse(
        region_text(
            f"in X : {dtype}[R, 65536]\nout Y : {dtype}[R, 65536]",
            f"for i0: R, i1: 65536\n%y = scan sum (i1) : {dtype} {{ X[i0, i1] }}\nyield Y[i0, i1] = %y",
        )
    )
    found = [
        c.plan
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.algo == "scan_look_back" and c.plan.tile == (1, 32 * 256)
    ]
    assert sorted(one.widest for one in found) == [1, 16 // {"fp32": 4, "fp64": 8}[dtype]]
    for one in found:
        _, code = lowered(meant_for(target, plan.Module(module, (one,))))
        assert complaints_of(manifest.show(code), target) == []
