"""Long rows of 16-bit floats that stay in registers as they were read: which rows do, and what they compute."""

from __future__ import annotations

import shutil

import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels.family import Problem
from tinyir.kernels.problem import kernel_of
from tinyir.kernels.rows.declare import declare, stays_as_read
from tinyir.lower.cu.vectors import as_read
from tinyir.lower.plan import CROWDED, candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .emitted import assert_as_played, lowered, region_text

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
NORM = (
    "%x = cast(X[i0, i1]) : fp32\n%s = reduce sum (i1) : fp32 { %x }\n"
    "%d = sub(%x, broadcast_in_dim(mul(%s, 0.0002), dims=[0]))\n%v = reduce sum (i1) : fp32 { mul(%d, %d) }\n"
    "%n = mul(%d, broadcast_in_dim(rsqrt(%v), dims=[0]))\n"
    "%y = cast(mul(%n, broadcast_in_dim(cast(g[i1]) : fp32, dims=[1]))) : fp16\nyield Y[i0, i1] = %y"
)


def norm(length: int, dtype: str = "fp16") -> region.Module:
    """A norm with gains."""
    tensors = f"in X : {dtype}[R, {length}]\nin g : {dtype}[{length}]\nout Y : fp16[R, {length}]"
    return region.parse(region_text(tensors, f"for i0: R, i1: {length}\n{NORM}"))


def resident(module: region.Module, threads: int) -> plan.Plan | None:
    """The plan of a team in the widest vectors."""
    found = [
        c.plan
        for c in candidates(module, module.program.regions[0])
        if c.rejected in ("", CROWDED) and c.plan.algo == "row_resident" and c.plan.threads == (threads,)
        if c.plan.cluster is None and c.plan.vectorize
    ]
    return max(found, key=lambda p: p.widest, default=None)


@needs_host_compiler
@pytest.mark.parametrize(("length", "threads"), [(4160, 128), (5000, 128), (20000, 512)])
def test_a_long_row_stays_in_16_bits(length: int, threads: int) -> None:
    module = norm(length)
    chosen = resident(module, threads)
    assert chosen is not None
    _, code = lowered(plan.Module(module, (chosen,)))
    text = manifest.show(code)
    kernel = text[text.index("__global__") :]
    assert "fp16 X_row[" in kernel and kernel.count("stay_as_read(X_row);") == 2
    assert "float Y_" not in kernel.replace("float Y_v", "")
    assert_as_played(code, random_arrays(module.model, {"R": 3}, 3), 3, rtol=4e-3, atol=4e-3, of=chosen)


@needs_host_compiler
def test_two_tensors_stay_in_16_bits() -> None:
    """A gradient of softmax: 64 numbers of each of two tensors, two to a register."""
    body = (
        "%p = cast(P[i0, i1]) : fp32\n%g = cast(G[i0, i1]) : fp32\n%s = reduce sum (i1) : fp32 { mul(%p, %g) }\n"
        "%y = cast(mul(%p, sub(%g, broadcast_in_dim(%s, dims=[0])))) : fp16\nyield Y[i0, i1] = %y"
    )
    for length, threads, registers in ((32768, 512, 128), (8192, 128, 96)):  # one CTA to an SM, and five
        tensors = f"in P : fp16[R, {length}]\nin G : fp16[R, {length}]\nout Y : fp16[R, {length}]"
        module = region.parse(region_text(tensors, f"for i0: R, i1: {length}\n{body}"))
        (one,) = module.program.regions
        chosen = resident(module, threads)
        assert chosen is not None
        assert declare(chosen, Problem((one,), kernel_of(one, "row"), module.model)).registers == registers
    _, code = lowered(plan.Module(module, (chosen,)))
    text = manifest.show(code)
    assert all(f"fp16 {x}_row[64]" in text and f"stay_as_read({x}_row);" in text for x in "PG")
    assert_as_played(code, random_arrays(module.model, {"R": 3}, 3), 3, rtol=4e-3, atol=4e-3, of=chosen)


@pytest.mark.parametrize(("length", "registers"), [(32768, 64), (20480, 64)])
def test_registers_are_those_of_the_words(length: int, registers: int) -> None:
    """Half as many as of a row in fp32, so that an SM has two rows of 32768 numbers; and as many of 20480, since fewer
    leave no third."""
    module = norm(length)
    (one,) = module.program.regions
    chosen = resident(module, 512)
    assert chosen is not None
    assert declare(chosen, Problem((one,), kernel_of(one, "row"), module.model)).registers == registers


@pytest.mark.parametrize(("length", "dtype"), [(4160, "fp32"), (4161, "fp16"), (4096, "fp16"), (40000, "fp16")])
def test_rows_of_words_with_ends_short_ones_and_those_of_clusters_stay_as_they_are_computed(
    length: int, dtype: str
) -> None:
    module = norm(length, dtype)
    (one,) = module.program.regions
    plans = [c.plan for c in candidates(module, one) if c.plan.algo == "row_resident"]
    assert plans and not any(stays_as_read(p, one, kernel_of(one, "row")) for p in plans)


def test_registers_that_something_is_computed_into_hold_the_type_of_arithmetic() -> None:
    """The same kernel with a number added to what is kept, and with one that goes elsewhere too."""
    module = norm(4160)
    chosen = resident(module, 128)
    assert chosen is not None
    code, _ = lowered(plan.Module(module, (chosen,)))
    text = gpu.show(code)
    kept = "X.row[8*u + v] = X.v[v]"
    (line,) = (line for line in text.splitlines() if kept in line)

    def found(instead: str) -> tuple[tuple[str, ...], frozenset[str]]:
        return as_read(gpu.parse(text.replace(kept, instead)).kernels[0])

    assert found(kept) == (("X.row",), frozenset({"X.v"}))
    assert found("X.row[8*u + v] = add(X.v[v], X.v[v])") == ((), frozenset())
    assert found(f"{kept}\n{line[: -len(kept)]}%also = cast(X.v[v]) : fp32") == ((), frozenset())


def test_gains_are_asked_for_before_the_folds_where_few_registers_hold_them() -> None:
    cases = ((512, "fp16", 64, True), (4096, "fp32", 128, False), (509, "fp16", 64, False))
    for length, dtype, threads, is_early in cases:
        module = norm(length, dtype)
        plans = [
            c.plan
            for c in candidates(module, module.program.regions[0])
            if c.plan.algo == "row_resident" and c.plan.threads == (threads,) and c.plan.vectorize
        ]
        for one in plans[:1]:
            text = gpu.show(lowered(plan.Module(module, (one,)))[0])
            kernel = text[text.index("\nkernel ") :]
            load, fold = kernel.index("g[i1"), kernel.index("block_reduce sum")
            assert (load < fold) == is_early, (length, threads)
        assert plans, (length, threads)
