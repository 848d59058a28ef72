"""The tuner: one bad candidate stops nothing, what is wrong is never timed, winners survive writers beside us."""

from __future__ import annotations

import csv
import fcntl
import multiprocessing
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.kit.diag import Refused
from tinyir.kit.kept import cache_dir
from tinyir.lower import plan as lower_plan
from tinyir.play.region import play
from tinyir.tune import store
from tinyir.tune.program import alone, at_sizes, kernels_of, sizes_in, tune, with_winners
from tinyir.tune.search import SPENT, Found, search, sift
from tinyir.tune.table import log_rows, trials_table
from tinyir.tune.trial import Emitted

from .checked import check_plan
from .doubled import doubled

TEXT = """tinyir 1.1 plan

model m
  in  A           : fp16[M, K]
  in  B           : fp16[K, N]
  out C           : fp16[M, N]
shapes default {M=64, N=64, K=64}

program m

region gemm
  in  A           : fp16[M, K]
  in  B           : fp16[K, N]
  out C           : fp16[M, N]
  for i0: M, i1: N
    %gemm          = reduce sum (k0: K) : fp32 { mul(A[i0, k0], B[k0, i1]) : fp32 }
  yield C[i0, i1] = cast(%gemm) : fp16
"""
PLAN = """
plan gemm : sm90 contraction
  algo       synchronous
  tile       [{0}, {1}, {2}]
  micro      [{3}, {4}]
  threads    [{5}, {6}]
  stages     1
  bind       i0.o -> cta.y, i1.o -> cta.x, i0.i -> thread.y, i1.i -> thread.x
  cache      A -> smem at k0.o, B -> smem at k0.o
  predicate  [i0, i1, k0]
"""
BIG, CROWDED = PLAN.format(256, 256, 128, 16, 16, 16, 16), PLAN.format(64, 64, 16, 2, 1, 64, 32)
GOOD, OTHER = PLAN.format(64, 64, 16, 4, 4, 16, 16), PLAN.format(32, 32, 16, 2, 2, 16, 16)
SIZES = {"M": 64, "N": 48, "K": 33}


class Stage:
    """A card of the test: outputs from playback, times by the tile's rows; `spoils` are tiles whose outputs are
    wrong."""

    name, compiler = "a card", "a compiler"

    def __init__(self, spoils: tuple[int, ...] = ()):
        self.spoils = spoils
        self.timed: list[tuple[int, ...]] = []

    def compile(self, text: str) -> Mapping[str, Any]:
        return {}

    def outputs(self, emitted: Emitted, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self._tile = emitted.plan.tile
        found = play(emitted.module.region, arrays)
        return {name: a + 1 if self._tile[0] in self.spoils else a for name, a in found.items()}

    def time(self) -> float:
        self.timed.append(self._tile)
        return 1000.0 / self._tile[0]


def planned(*plans: str) -> plan.Module:
    return plan.parse(TEXT + "".join(plans))


def program_of(module: plan.Module) -> region.Module:
    return alone(module.program, ("gemm",), SIZES)


def test_bad_candidates_are_passed_over_with_a_reason() -> None:
    module = planned(BIG, CROWDED, GOOD)
    found = search(program_of(module), module.plans, SIZES, Stage(), 60.0)
    assert found.plans == (module.plans[2],)
    assert [t.reason[:5] for t in found.trials] == ["E1512", "E1509", ""]
    assert found.trials[2].microseconds == 1000.0 / 64 and found.trials[2].flops == 2 * 64 * 48 * 33
    assert "shared memory" in trials_table("gemm", found.trials)


def test_when_none_runs_each_is_listed_with_its_reason() -> None:
    module = planned(BIG, CROWDED)
    with pytest.raises(Refused) as fault:
        search(program_of(module), module.plans, SIZES, Stage(), 60.0)
    (diag,) = fault.value.diags
    assert diag.code == "E1591" and "256x256x128: E1512" in diag.why() and "64x64x16: E1509" in diag.why()


def test_what_is_wrong_is_not_timed() -> None:
    module, card = planned(GOOD, OTHER), Stage(spoils=(64,))
    found = search(program_of(module), module.plans, SIZES, card, 60.0)
    assert found.plans[0].tile == (32, 32, 16) and card.timed == [(32, 32, 16)]
    assert found.trials[0].reason.startswith("wrong: C")


def test_one_is_tried_when_there_is_no_time() -> None:
    module = planned(OTHER, GOOD)
    found = search(program_of(module), module.plans, SIZES, Stage(), 0.0)
    assert found.plans[0].tile == (32, 32, 16) and found.trials[1].reason == SPENT


def test_the_fastest_wins_and_a_general_one_follows_what_assumes() -> None:
    module = planned(
        OTHER,
        GOOD.replace("  predicate", "  assume     1 <= K\n  predicate"),
        PLAN.format(128, 32, 16, 8, 2, 16, 16).replace("  predicate", "  assume     99 <= K\n  predicate"),
    )
    found = search(program_of(module), module.plans, SIZES, Stage(), 60.0)
    assert found.plans == (module.plans[1], module.plans[0])
    assert found.trials[2].reason == "it assumes what these sizes are not"


def test_by_ptxas_the_order_of_the_model_stays() -> None:
    from tinyir.runtime.compile import Usage

    module = planned(GOOD, OTHER)
    spilling = iter([{"gemm": Usage(255, 0, 16, 16, 0)}, {"gemm": Usage(40, 0, 0, 0, 0)}])
    found = sift(program_of(module), module.plans, SIZES, lambda _: next(spilling))
    assert len(found.plans) == 1 and sorted(t.reason for t in found.trials) == ["", "gemm: 32 B spilled, 0 B of stack"]


def test_a_region_alone_means_what_it_means_in_its_program() -> None:
    whole = lower_plan.lower(at_sizes(planned(GOOD).program, SIZES))
    program = alone(whole.program, ("gemm",), SIZES)
    assert region.check(program) == [] and sizes_in(program) == SIZES
    assert region.show(alone(planned(GOOD).program, ("gemm",), SIZES)) == region.show(program)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_dir() / store.FOLDER


def test_winners_are_kept_and_put_in(cache: Path) -> None:
    module, model = planned(GOOD, OTHER), planned(GOOD)
    program = program_of(module)
    assert store.load_winner(program, "a card", "a compiler") == ()
    result = tune(module, kernels_of(module), SIZES, 9.0, lambda *given: search(*given[:3], Stage(), given[3]))
    store.keep_winner(program, "a card", "a compiler", module.plans[1:])
    assert result.plans == module.plans[:1]
    replaced, winners, outdated = with_winners(model, SIZES, "a card", "a compiler")
    assert replaced.plans == module.plans[1:] and [w.name for w in winners] == ["gemm"] and outdated == []
    assert with_winners(model, {**SIZES, "M": 65}, "a card", "a compiler") == (model, [], [])
    assert with_winners(model, SIZES, "another card", "a compiler") == (model, [], [])


def test_launches_that_are_alike_are_measured_once(cache: Path) -> None:
    module = doubled(planned(GOOD, OTHER))
    asked = []

    def tried(*given: Any) -> Found:
        asked.append(given[0].model.name)
        return search(*given[:3], Stage(), given[3])

    result = tune(module, kernels_of(module), SIZES, 9.0, tried)
    assert asked == ["gemm"] and result.plans == (module.plans[0], module.plans[2])
    assert [d for d in check_plan(result) if d.is_error] == []
    store.keep_winner(alone(module.program, ("gemm",), SIZES), "a card", "a compiler", module.plans[1:2])
    replaced, winners, _ = with_winners(module, SIZES, "a card", "a compiler")
    assert replaced.plans == (module.plans[1], module.plans[3]) and [w.name for w in winners] == ["gemm", "gemm.again"]


def test_a_winner_of_another_version_is_told_and_not_taken(cache: Path) -> None:
    model = planned(GOOD)
    older = (replace(model.plans[0], barrier="mbarrier"),)  # which no synchronous kernel has
    store.keep_winner(program_of(model), "a card", "a compiler", older)
    replaced, winners, outdated = with_winners(model, SIZES, "a card", "a compiler")
    assert (replaced, winners, [one.name for one in outdated]) == (model, [], ["gemm"])


@pytest.mark.parametrize("text", ["", "half a text", "tinyir 1.1 plan\n", "\xff"])
def test_a_winner_that_cannot_be_read_is_absent(cache: Path, text: str) -> None:
    module = planned(GOOD)
    store.keep_winner(program_of(module), "a card", "a compiler", module.plans)
    (kept,) = cache.glob("*.plan")
    kept.write_text(text, encoding="latin-1")
    assert store.load_winner(program_of(module), "a card", "a compiler") == ()


def _write(number: int, log: str) -> None:
    module = planned(GOOD, OTHER)
    store.keep_winner(program_of(module), "a card", "a compiler", module.plans[number % 2 :][:1])
    store.append_log(Path(log), [[number, "x" * 5000, *[""] * (len(store.LOG_COLUMNS) - 2)]])


def test_writers_beside_each_other_leave_whole_files(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "trials.csv"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        with log.open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # four writers wait at an empty file
            written = pool.starmap_async(_write, [(number, str(log)) for number in range(16)], chunksize=1)
            written.wait(1.0)
        written.get(60)
    assert store.load_winner(program_of(planned(GOOD)), "a card", "a compiler") in (
        planned(GOOD).plans,
        planned(OTHER).plans,
    )
    assert [f.suffix for f in cache.iterdir()] == [".plan"]
    rows = list(csv.reader(log.open(encoding="utf-8")))
    assert rows[0] == list(store.LOG_COLUMNS) and sorted(int(r[0]) for r in rows[1:]) == list(range(16))
    assert all(len(r) == len(store.LOG_COLUMNS) for r in rows)


def test_what_was_timed_has_rows_of_the_same_columns(tmp_path: Path) -> None:
    from tinyir.ir import manifest
    from tinyir.runtime.bench import Timing
    from tinyir.runtime.profile import LaunchTime
    from tinyir.runtime.run import Report
    from tinyir.tune.measured import rows_of

    text = (Path(__file__).resolve().parents[2] / "samples" / "mlp" / "mlp.cu").read_text(encoding="utf-8")
    module = manifest.parse(text)
    timing = Timing(25e-6, 24e-6, 26e-6, 100, 10, 20, "cold L2, CUDA graph")
    launches = (LaunchTime("up", 12e-6, 4, 5), LaunchTime("down", 13e-6, 6, 7))
    report = Report("cuda", "a card (sm_90)", {"M": 64}, 1.0, timing=timing, launches=launches)
    for _ in range(2):
        store.append_log(tmp_path / "log.csv", rows_of(module, report, "a compiler"))
    rows = list(csv.DictReader((tmp_path / "log.csv").open(encoding="utf-8")))
    assert [r["region"] for r in rows] == ["mlp", "up", "down"] * 2
    assert [rows[n]["actual_us"] for n in range(3)] == ["25.000", "12.000", "13.000"]
    assert (rows[1]["flops"], rows[1]["bytes"], rows[1]["sizes"], rows[1]["device"]) == ("4", "5", "M=64", "a card")
    assert (rows[2]["algo"], rows[2]["tile"].count("x")) == ("warp_specialized", 2)
    assert rows[2]["plan"].startswith("contraction warp_specialized: tile [")


def test_the_log_has_a_row_a_trial() -> None:
    module = planned(BIG, GOOD)
    found = search(program_of(module), module.plans, SIZES, Stage(), 60.0)
    rows = log_rows("gemm", "a card", "a compiler", SIZES, found.trials)
    assert [len(r) for r in rows] == [len(store.LOG_COLUMNS)] * 2
    assert rows[1][3] == "M=64 N=48 K=33" and rows[1][10] == "15.625" and str(rows[0][11]).startswith("E1512")
