"""What a lowering is held against costs bounded work, whatever a program is: what is beyond is left open, and never an
error. Work is counted in steps and in elements that are played."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tinyir import front
from tinyir.analysis import validate_blocks
from tinyir.kit import work
from tinyir.lower import language_of, lower_to
from tinyir.play import confirm
from tinyir.play.elements import RegionElements
from tinyir.play.scalar import Unsaid

MOST_STEPS = 200_000 + confirm.MOST_STEPS + confirm.MOST_BACK_IN_ALL + confirm.MOST_BACK
HUGE = ((1048576, 32768), (65536, 65536), (1 << 30,), (16,) * 8 + (8,), (0, 1 << 20), (2,) * 30, (1, 1), (31, 7))


def confirmed(text: str) -> Counter[str]:
    """The work of all confirmations of a program, none of which refuses it."""
    module: Any = front.read(text)
    before = Counter(work.counts)
    for stage in ("index", "poly", "region"):
        lowered = lower_to(stage, module, "sm90")
        assert language_of(stage).confirm(lowered, module) == []
        module = lowered
    found = Counter(work.counts)
    found.subtract(before)
    assert found["elements played"] <= confirm.MOST_PLAYED and found["element steps"] <= MOST_STEPS
    return found


def graph(shape: tuple[int, ...], dtype: str, body: str, result: str | None = None) -> str:
    """The text of a graph of one input, `result` the type of its output if it is not that of the input."""
    given = f"{dtype}[{', '.join(map(str, shape))}]"
    return f"graph main(x: {given}) -> (y: {result or given}) {{ {body} return a }}"


def drawn(seed: int) -> str:
    """A program of a few ops on a tensor of any size."""
    draw = random.Random(seed)
    shape, dtype = draw.choice(HUGE), draw.choice(("f32", "f16", "bf16"))
    ops = (
        "a = (a+x).sin()",
        "a = a*a",
        "a = where(x < a, a, x)",
        "a = a.relu()",
        "a = a.cumsum(axis=0).cast(to=DTYPE)",
    )
    body = " ".join(["a = x.neg()", *(draw.choice(ops) for _ in range(draw.randrange(1, 9)))])
    body, sizes = body.replace("DTYPE", f'"{dtype}"'), ", ".join(map(str, shape))
    if draw.random() < 0.5:
        integer = "i32" if dtype == "f32" else "i16"
        return graph(shape, dtype, f'{body} a = a.bitcast(to="{integer}")', f"{integer}[{sizes}]")
    if draw.random() < 0.5:
        return graph(shape, dtype, f"{body} a = a.sum(axis={list(range(len(shape)))})", "f32[]")
    return graph(shape, dtype, body)


@pytest.mark.parametrize("shape", [(1048576, 32768), (65536, 65536)])
def test_bits_of_huge_tensors_are_confirmed(shape: tuple[int, int]) -> None:
    text = graph(shape, "f16", 'a = x.bitcast(to="i16")', f"i16[{shape[0]}, {shape[1]}]")
    found = confirmed(text)
    assert not found["writes unconfirmed"] and not found["elements played"]


def test_a_sum_over_nine_axes_is_confirmed() -> None:
    found = confirmed(graph((16,) * 8 + (8,), "f32", "a = (x*x).sum(axis=[0,1,2,3,4,5,6,7,8])", "f32[]"))
    assert not found["writes unconfirmed"] and found["element steps"] < 500


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_of_any_size_cost_bounded_work(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(drawn(seed))
    monkeypatch.setattr(RegionElements, "yielded", _unsaid)  # so that all is to be played
    found = confirmed(drawn(seed))
    ways = bool(found["elements played"]) + bool(found["writes unconfirmed"])
    assert ways == ("[0, 1048576]) {" not in drawn(seed))  # an empty tensor has no element to ask for


def test_what_is_small_is_played_and_what_is_large_is_left_open() -> None:
    def bits(*shape: int) -> Counter[str]:  # floats of 8 bits, which single numbers do not say
        return confirmed(graph(shape, "f8e5m2", 'a = x.bitcast(to="i8")', f"i8[{', '.join(map(str, shape))}]"))

    assert bits(30, 40)["elements played"] and not bits(30, 40)["writes unconfirmed"]
    assert bits(1 << 15, 1 << 15)["writes unconfirmed"] == 1


LONG = {
    "chain": graph((64, 64), "f32", "a = x " + "a = (a+x).sin() " * 1000),
    "where": graph((1 << 20, 4096), "f32", "a = x " + " ".join(f"a = where(x < {n}.5, a, x)" for n in range(200))),
    "folds": graph((64, 64), "f32", "a = x " + "a = (a+a.sum(axis=1).expand([64, 64])).sin() " * 100),
    "empty": graph((0, 1 << 20), "f32", "a = x.sum(axis=0)", "f32[1048576]"),
    "open": 'graph<N=5, M=7> main(x: f16[N, M]) -> (y: i16[N, M]) { a = x.bitcast(to="i16") return a }',
    "wide": "graph main("
    + ", ".join(f"x{n}: f32[1048576, 2]" for n in range(500))
    + ") -> (y: f32[1048576, 1000]) { c = concat(["
    + ", ".join(f"x{n}" for n in range(500))
    + "], axis=1) a = c.sin() return a }",
}


@pytest.mark.parametrize("name", LONG)
def test_long_and_wide_programs_are_confirmed(name: str) -> None:
    assert not confirmed(LONG[name])["writes unconfirmed"]


def test_many_writes_that_are_unsaid_are_left_open_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes all the steps it is given does not take them once for each of hundreds of writes."""
    monkeypatch.setattr(RegionElements, "yielded", _endless)
    names = [f"y{n}" for n in range(60)]
    body = " ".join(f"{name} = (x+{n}.5).sin()" for n, name in enumerate(names))
    outputs = ", ".join(f"{name}: f32[1048576,4096]" for name in names)
    found = confirmed(f"graph main(x: f32[1048576,4096]) -> ({outputs}) {{ {body} return {', '.join(names)} }}")
    assert found["writes unconfirmed"] == len(names)


@pytest.mark.parametrize("fault", confirm.UNPLAYED)
def test_no_fault_of_playing_ends_a_run(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, *_: Any) -> Any:
        raise fault([]) if fault.__name__ == "Refused" else fault("too large")

    monkeypatch.setattr(confirm._Values, "_played", failing)
    monkeypatch.setattr(RegionElements, "yielded", _unsaid)
    assert confirmed(graph((3, 4), "f32", "a = x.sin()"))["writes unconfirmed"] == 1


def test_sizes_that_divide_by_zero_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(validate_blocks, "confirm_poly", failing)
    monkeypatch.setattr(confirm._Values, "_sizes", failing)
    found = confirmed(graph((3, 4), "f32", "a = x.sin()"))
    assert found["writes unconfirmed"] == found["blocks unconfirmed"] == 1


def _unsaid(self: RegionElements, *_: Any) -> Any:
    raise Unsaid


def _endless(self: RegionElements, *_: Any) -> Any:
    while True:
        self._numbers.step()
