"""Whatever happens to the cache, each answer is that to the question: nothing lost, nothing mixed, no crash."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tinyir.kit.kept import cache_dir

from ..commands import run_in_shell
from . import plant, uses
from .plant import Outcome


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    uses.warm_up()
    for file in sorted((tmp_path / "cache").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    return tmp_path


def all_right(*outcomes: Outcome) -> bool:
    return all(o.right > 0 and not o.refused and not o.wrong and not o.crashed for o in outcomes)


@pytest.mark.parametrize("processes", [6, pytest.param(16, marks=pytest.mark.slow)])
def test_processes_share_a_fresh_cache(folder: Path, processes: int) -> None:
    assert all_right(plant.beside_each_other(processes, folder / "trials.csv"))
    assert uses.unfinished() == []


@pytest.mark.parametrize("times", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_writers_lose_nothing(folder: Path, times: int) -> None:
    found = plant.killed(times, folder / "trials.csv")
    assert all_right(found) and found.right == times


def test_what_killed_writers_left_is_swept_away_after_a_while(folder: Path) -> None:
    assert uses.mark(0) and uses.winner(0)
    (left,) = (cache_dir() / "unfinished" / name for name in (".tinyir-of-a-killed-one",))
    left.write_bytes(b"half")
    assert uses.winner(1) and uses.unfinished() == [left], "somebody may be writing it"
    hours_ago = time.time() - 7200
    os.utime(left, (hours_ago, hours_ago))
    assert uses.winner(2) and uses.unfinished() == []


def test_damaged_files_are_made_again() -> None:
    assert all_right(*plant.damaged().values())


def test_nothing_is_half_written_on_a_full_disk(folder: Path) -> None:
    uses.log_row(folder / "trials.csv", 1, 1)
    outcomes = plant.full_disk(folder / "trials.csv")
    assert not any(o.wrong or o.crashed for o in outcomes.values())
    assert all(o.right + o.refused == o.planted and o.refused for o in outcomes.values()), outcomes
    assert uses.rows_of(folder / "trials.csv") == ["1:1"]


def test_no_home_is_needed(folder: Path) -> None:
    (folder / "a file").write_text("where a folder would be")
    assert all_right(*plant.without_a_home(plant.homes(folder)).values())
    assert not Path("~").exists() and not Path("nowhere").exists()


def test_a_cache_that_anybody_may_write_to_is_not_used(folder: Path) -> None:
    assert uses.winner(0)
    cache_dir().chmod(0o777)
    assert uses.winner(1)
    assert len([*cache_dir().glob("tuned/*")]) == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_ends_anywhere_is_cut_at_a_row(folder: Path, seed: int) -> None:
    log, drawn = folder / "trials.csv", random.Random(seed)
    for number in range(3):
        uses.log_row(log, 1, number)
    whole = log.read_bytes()
    log.write_bytes(whole[: drawn.randrange(len(whole))])
    uses.log_row(log, 2, 0)
    *before, last = uses.rows_of(log)
    assert last == "2:0" and before == [f"1:{n}" for n in range(len(before))] and len(before) < 3


SAMPLE = uses.SAMPLE
COMMANDS = {
    "a pipe": f"tiny-front {SAMPLE}.json | tiny-index | tiny-poly | tiny-region | tiny-plan",
    "one command": f"tinyc {SAMPLE}.json --emit=plan",
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("before", ["ulimit -f 1; ", "export HOME=nowhere XDG_CACHE_HOME=nowhere; "])
def test_commands_need_neither_room_nor_a_home(name: str, before: str) -> None:
    done = run_in_shell(before + COMMANDS[name])
    assert (done.code, done.out) == (0, SAMPLE.with_suffix(".plan").read_bytes()), done.err.decode()


def test_what_cannot_be_written_is_said(folder: Path) -> None:
    done = run_in_shell(f"ulimit -f 1; tinyc {SAMPLE}.json --emit=plan -o {folder}/out.plan")
    assert done.code == 1 and b"E0009" in done.err and b"File too large" in done.err
    assert not (folder / "out.plan").exists()


def test_a_fault_of_ours_is_told_where_nothing_can_be_kept() -> None:
    script = (
        "import sys; from tinyir.kit import cli; a = cli.parser_of('t', '', '').parse_args([]);"
        "sys.exit(cli.run('t', a, lambda s: 1 // 0))"
    )
    done = run_in_shell(f'TMPDIR=/proc/none; ulimit -f 0; python -c "{script}"')
    assert done.code == 70 and b"cannot be kept" in done.err and b"ZeroDivisionError" in done.err
