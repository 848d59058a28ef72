"""Row kernels by every team of threads: lanes of a warp beside those of other rows, a CTA, a cluster; what they
compute, and what the checker says of their barriers."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import CROWDED, candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import assert_as_played, lowered, region_text

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def softmax(length: int) -> region.Module:
    """A softmax whose exponents are scaled by a number for each row, and the sums."""
    body = f"for i0: R, i1: {length}\n" + (
        "%m = reduce max (i1) : fp32 { X[i0, i1] }\n%t = mul(%m, s[i0])\n%e = exp2(sub(X[i0, i1], "
        "broadcast_in_dim(%t, dims=[0])))\n"
        "%z = reduce sum (i1) : fp32 { %e }\nyield Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[0]))\nyield "
        "S[i0] = %z"
    )
    return region.parse(
        region_text(f"in X : fp32[R, {length}]\nin s : fp32[R]\nout Y : fp32[R, {length}]\nout S : fp32[R]", body)
    )


def teams(module: region.Module) -> dict[tuple, plan.Plan]:
    """One plan of each algo, team and way to move elements: (lanes, rows of a CTA, CTAs of a row)."""
    found: dict[tuple, plan.Plan] = {}
    for c in candidates(module, module.program.regions[0]):
        p = c.plan
        lanes, rows = (p.threads[0], p.threads[1]) if len(p.threads) > 1 else (min(p.threads[0], 64), 1)
        if c.rejected in ("", CROWDED):
            found.setdefault((p.algo, lanes, rows, p.cluster.shape[1] if p.cluster else 1, bool(p.vectorize)), p)
    return found


def planned_by(module: region.Module, *key: object) -> plan.Module:
    """The module with the plan of a team."""
    return plan.Module(module, (teams(module)[key],))


def several(*lanes: int) -> set[tuple[int, int, int]]:
    """Teams of these lanes, whose CTAs have several rows."""
    return {(n, threads // n, 1) for n in lanes for threads in (128, 512)}


@needs_host_compiler
@pytest.mark.parametrize(
    ("length", "wanted"),
    [
        (7, {*several(1, 8), (32, 4, 1), (32, 1, 1), (64, 1, 1)}),
        (20, {*several(4, 8, 16, 32), (32, 1, 1), (64, 1, 1)}),
        (64, {*several(4, 8, 16, 32), (32, 1, 1), (64, 1, 1)}),
        (333, {*several(16, 32), (32, 1, 1), (64, 1, 1)}),
        (4101, {(32, 4, 1), (32, 1, 1), (64, 1, 1), (64, 1, 2), (64, 1, 4), (64, 1, 8)}),
    ],
)
def test_every_team_computes_what_playback_computes(length: int, wanted: set[tuple[int, int, int]]) -> None:
    module = softmax(length)
    found = teams(module)
    assert {key[1:4] for key in found} == wanted
    for key, one in found.items():
        _, code = lowered(plan.Module(module, (one,)))
        assert ("__syncthreads" in manifest.show(code)) == (one.threads[0] > 32), key
        for rows in (1, 5) if length < 1000 else (3,):
            arrays = random_arrays(module.model, {"R": rows}, rows)
            assert_as_played(code, arrays, rows, rtol=1e-3, of=key)


def test_a_fold_over_a_cta_takes_one_barrier() -> None:
    """The folds of a kernel take turns with two arrays: between two of the same array comes the barrier of the
    other."""
    _, code = lowered(planned_by(softmax(333), "row_resident", 64, 1, 1, True))
    assert manifest.show(code).count("__syncthreads") == 2


@pytest.mark.parametrize(
    ("key", "line", "instead", "code"),
    [
        (("row_resident", 64, 1, 1, True), "via part2 fresh", "via part fresh", "E1613"),
        (("row_resident", 64, 1, 1, True), "via part2 fresh", "via part", None),
        (
            ("row_resident", 32, 4, 1, True),
            "  warp_reduce max m.acc",
            "  if i0 < R and thread.x < 7\n    warp_reduce max m.acc",
            "E1609",
        ),
        (("row_resident", 32, 4, 1, True), "  warp_reduce max m.acc", "  if i0 < R\n    warp_reduce max m.acc", None),
        (
            ("row_resident", 16, 8, 1, True),
            "  warp_reduce max m.acc",
            "  if i0 < R\n    warp_reduce max m.acc",
            "E1609",
        ),
        (("row_resident", 16, 8, 1, True), "(mul(%m, s[i0])) where i0 < R else 0.0", "mul(%m, s[i0])", "E1615"),
        (
            ("row_resident", 16, 8, 1, True),
            "  if i0 < R and thread.x = 0",
            "  if i0 < R and thread.x = 1 and thread.y < 7",
            "E1619",
        ),
    ],
)
def test_the_checker_sees_how_threads_of_a_row_meet(key: tuple, line: str, instead: str, code: str | None) -> None:
    text = gpu.show(to_gpu.lower(planned_by(softmax(333), *key)))
    assert line in text and check_gpu(gpu.parse(text)) == []
    found = {d.code for d in check_gpu(gpu.parse(text.replace(line, instead, 1)))}
    assert found == ({code} if code else set())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("  store m.acc.all[cluster.rank][0]", "  store m.acc.all[0][0]"),
        ("  barrier cluster\n  m.acc[0]", "  m.acc[0]"),
        ("vector 4\n  barrier cluster\n", "vector 4\n"),
    ],
)
def test_the_checker_sees_how_ctas_of_a_row_meet(line: str, fault: str) -> None:
    text = gpu.show(to_gpu.lower(planned_by(softmax(4100), "row_resident", 64, 1, 2, True)))
    assert line in text and check_gpu(gpu.parse(text)) == []
    assert "E1613" in {d.code for d in check_gpu(gpu.parse(text.replace(line, fault)))}


@pytest.mark.parametrize(
    "change",
    [
        {"threads": (24, 4)},
        {"threads": (64, 2), "tile": (2, 384)},
        {"tile": (8, 384)},
        {"threads": (4, 32), "tile": (32, 336)},
    ],
)
def test_threads_that_share_no_rows_are_refused(change: dict) -> None:
    module = softmax(333)
    one = teams(module)["row_resident", 32, 4, 1, True]
    assert {d.code for d in check_plan(plan.Module(module, (replace(one, **change),))) if d.is_error}
