"""What one thread alone may start: guards that leave one pass, others are refused with E1684."""

from __future__ import annotations

import pytest

from tinyir.ir import gpu
from tinyir.ir.gpu.verify import check_kernels

TEXT = """tinyir 1.2 gpu

model m
  in  X           : fp32[N]
  out Y           : fp32[N]
shapes default {{N=1024}}

program m

region act
  in  X           : fp32[N]
  out Y           : fp32[N]
  for i0: N
    %y             = relu(X[i0])
  yield Y[i0] = %y

plan act : sm90 map
  algo       flat
  tile       [256]
  micro      [1]
  threads    [256]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

kernel act : sm90 grid [floor((N + 255)/256)] block [{block}]
  tensor_map X.map = X box [256]
  tensor_map Y.map = Y box [256]
  shared x : fp32[256]
  mbarrier full count 1
  fence mbarrier_init
  barrier cta
  let last = {threads} - 1
  let first = cta.x - floor(cta.x/2)*2
{body}
"""
LOAD = ("arrive full expect 1024 B", "%load = tma_load x <- X.map[256*cta.x] on full")
STORE = ("%store = tma_store Y.map[256*cta.x] <- x", "wait_group tma_store pending 0 for %store")


def codes_of(lines: list[str], block: str = "256") -> list[str]:
    """What the checker says of the statements that one thread is for."""
    threads = 1
    for size in block.split(","):
        threads *= int(size)
    body = "\n".join(f"  {line}" for line in lines)
    module = gpu.parse(TEXT.format(body=body, block=block, threads=threads))
    return [str(d.facts["statement"]) for d in check_kernels(module) if d.code == "E1684"]


def under(guard: str, statements: tuple[str, ...] = LOAD) -> list[str]:
    return [f"if {guard}", *(f"  {line}" for line in statements)]


ONE = [
    ("thread.index = 0", "256"),
    ("thread.index = 32", "256"),
    ("thread.index = last", "256"),
    ("thread.index = first", "256"),  # alike in all threads, whatever it is
    ("thread.index < 1", "256"),
    ("255 <= thread.index", "256"),
    ("thread.x = 0", "256"),
    ("thread.x = 0 and thread.y = 3", "32, 8"),
    ("warp.index = 1 and lane = 31", "256"),
    ("warpgroup.index = 1 and warpgroup.thread = 0", "256"),
    ("warpgroup.thread = 0", "128"),
    ("lane = 0", "32"),
]
SEVERAL = [
    ("thread.index < 2", "256"),
    ("thread.x = 0", "32, 8"),
    ("lane = 0", "256"),
    ("warp.index = 0", "256"),
    ("warpgroup.thread = 0", "256"),
    ("thread.index = 2*lane", "256"),
    ("cta.x = 0", "256"),
]


@pytest.mark.parametrize(("guard", "block"), ONE)
def test_a_guard_that_leaves_one_thread(guard: str, block: str) -> None:
    assert codes_of(under(guard), block) == codes_of(under(guard, STORE), block) == []


@pytest.mark.parametrize(("guard", "block"), SEVERAL)
def test_a_guard_that_leaves_several(guard: str, block: str) -> None:
    assert codes_of(under(guard), block) == ["arrive", "tma_load"]
    assert codes_of(under(guard, STORE), block) == ["tma_store"]


def test_no_guard_at_all() -> None:
    assert codes_of([*LOAD, *STORE]) == ["arrive", "tma_load", "tma_store"]


def test_the_other_side_of_a_guard() -> None:
    others = ["if thread.index = 0", "  barrier warp", "else", *(f"  {line}" for line in LOAD)]
    assert codes_of(others) == ["arrive", "tma_load"]


def test_each_warpgroup_of_a_role_has_one() -> None:
    role = ["role producer warpgroups 0..2", *(f"  {line}" for line in under("warpgroup.thread = 0", STORE))]
    assert codes_of(role) == []
    assert codes_of(["role producer warpgroups 0..2", *(f"  {line}" for line in STORE)]) == ["tma_store"]


def test_a_role_of_one_warp_has_one() -> None:
    """Of several warps each has a lane of this number; warpgroups have no name there."""
    for warps, guard, wanted in (
        ("2..3", "lane = 0", []),
        ("2..3", "warp.index = 2", ["tma_store"]),
        ("2..4", "lane = 0", ["tma_store"]),
        ("2..4", "warp.index = 2 and lane = 0", []),
    ):
        lines = (f"  {line}" for line in under(guard, STORE))
        assert codes_of([f"role producer warps {warps}", *lines]) == wanted
    named = ["  role producer warps 4..5", *(f"    {line}" for line in under("warpgroup.thread = 0", STORE))]
    module = gpu.parse(TEXT.format(body="\n".join(named), block="256", threads=256))
    assert "E1605" in {d.code for d in check_kernels(module)}


def test_an_arrival_without_bytes_is_for_all() -> None:
    assert codes_of(["arrive full"]) == []
