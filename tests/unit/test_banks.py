"""Bank conflicts: the count against one made by hand, lane by lane, and the accesses of kernels against what PTX says
of their lanes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.analysis.banks import Conflicts, Order, Touch, conflicts_of, remedy_of
from tinyir.analysis.shared_accesses import accesses_of, order_of
from tinyir.ir import gpu
from tinyir.ir.body import Literal, Read
from tinyir.ir.expr import Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.nodes import Kernel, Place, Shared
from tinyir.ir.types import DTYPES, TensorType

from . import families

WIDTHS = (1, 2, 4, 8, 16)
LANES = np.arange(32)[None, :]
ALL = np.ones((1, 32), bool)


def by_hand(first: Iterable[int | None], width: int) -> tuple[int, int, int]:
    """(ways, waves, least) of one instruction: the banks of every byte of every lane, 128 bytes of lanes at a time."""
    starts = list(first)
    served = 32 if width <= 4 else 128 // width
    ways = waves = least = 0
    for begin in range(0, 32, served):
        per_bank: list[set[int]] = [set() for _ in range(32)]
        for start in starts[begin : begin + served]:
            if start is not None:
                for byte in range(start, start + width):
                    per_bank[byte // 4 % 32].add(byte // 128)
        most = max(len(rows) for rows in per_bank)
        ways, waves, least = max(ways, most), waves + most, least + (most > 0)
    return ways, waves, least


def place_by_hand(order: Order, row: int, column: int) -> int:
    """The byte of an element: of a swizzled tile the 16-byte piece is exchanged by the number of the 128-byte line."""
    if not order.swizzle:
        return (row * (order.pitch or order.columns) + column) * order.size
    tile, within = divmod(column * order.size, order.swizzle)
    line, rest = divmod(row * order.swizzle + within, 128)
    piece, byte = divmod(rest, 16)
    return tile * order.rows * order.swizzle + line * 128 + (piece ^ line % (order.swizzle // 16)) * 16 + byte


@st.composite
def touched(draw: st.DrawFn) -> tuple[Order, Touch]:
    size = draw(st.sampled_from((1, 2, 4, 8)))
    swizzle = draw(st.sampled_from((0, 32, 64, 128)))
    rows = draw(st.sampled_from((8, 16, 32)))
    columns = draw(st.sampled_from((1, 2, 4))) * (swizzle or 64) // size
    order = Order(rows, columns, size, swizzle, 0 if swizzle else columns + draw(st.integers(0, 9)) * 16 // size)
    width = draw(st.sampled_from([w for w in WIDTHS if w >= size]))
    each = width // size
    numbers = st.lists(st.integers(0, 1 << 20), min_size=32, max_size=32)
    row, column = np.array(draw(numbers)) % rows, np.array(draw(numbers)) % (columns // each) * each
    active = np.array(draw(st.lists(st.booleans(), min_size=32, max_size=32)))
    return order, Touch(row[None, :], column[None, :], width, active[None, :])


@settings(max_examples=300, deadline=None)
@given(touched())
def test_conflicts_are_those_counted_by_hand(case: tuple[Order, Touch]) -> None:
    order, touch = case
    places = [
        place_by_hand(order, int(r), int(c)) if a else None
        for r, c, a in zip(touch.row[0], touch.column[0], touch.is_active[0])
    ]
    found = conflicts_of(order, [touch])
    assert (found.ways, found.waves, found.least) == by_hand(places, touch.width)


@pytest.mark.parametrize(
    ("order", "row", "column", "width", "ways"),
    [
        (Order(32, 32, 4), LANES, 0 * LANES, 4, 32),  # a column of words
        (Order(32, 32, 4, pitch=33), LANES, 0 * LANES, 4, 1),
        (Order(32, 32, 4), 0 * LANES, LANES, 4, 1),  # a row
        (Order(32, 32, 4), 0 * LANES, 0 * LANES, 4, 1),  # one word for all
        (Order(32, 64, 2), 0 * LANES, LANES, 2, 1),  # two lanes a word
        (Order(64, 64, 2), LANES, 0 * LANES, 16, 8),  # rows of a matrix, 128 bytes apart
        (Order(64, 64, 2, 128), LANES, 0 * LANES, 16, 1),
        (Order(64, 32, 2), LANES, 0 * LANES, 16, 4),
        (Order(64, 32, 2, 64), LANES, 0 * LANES, 16, 1),
        (Order(64, 16, 2), LANES, 0 * LANES, 16, 2),
        (Order(64, 16, 2, 32), LANES, 0 * LANES, 16, 1),
        (Order(64, 72, 2), LANES, 0 * LANES, 16, 1),
    ],
)
def test_known_accesses(order: Order, row: np.ndarray, column: np.ndarray, width: int, ways: int) -> None:
    assert conflicts_of(order, [Touch(row, column, width, ALL)]).ways == ways


def test_no_lane_no_conflict() -> None:
    assert conflicts_of(Order(8, 8, 4), [Touch(LANES, LANES, 4, ~ALL)]) == Conflicts()


def test_a_remedy_serves_all_accesses() -> None:
    column, row = Touch(LANES, 0 * LANES, 4, ALL), Touch(0 * LANES, LANES, 4, ALL)
    found = remedy_of(Order(32, 32, 4), [(column,), (row,)], 4, True)
    assert found is not None and found.order.pitch == 33 and found.is_clean
    matrix = Touch(LANES % 16, LANES // 16 * 8, 16, ALL)
    swizzled = remedy_of(Order(64, 64, 2), [(matrix,)], 16, True)
    assert swizzled is not None and (swizzled.order.swizzle, swizzled.is_clean) == (128, True)
    whole = remedy_of(Order(32, 32, 4), [(column,), (row,)], 16, True)
    assert whole is None or (whole.order.pitch or whole.order.columns) % 4 == 0  # vectors stay whole
    assert remedy_of(Order(32, 32, 4), [(row,)], 4, True) is None


def test_a_remedy_is_the_best_of_all_orders() -> None:
    """What is proposed has as few waves as any swizzle and any row up to a line longer."""
    draw = np.random.default_rng(5)
    for _ in range(20):
        row, column = draw.integers(0, 16, (1, 32)), draw.integers(0, 32, (1, 32))
        accesses = [(Touch(row, column, 4, ALL),), (Touch(0 * row, column, 4, ALL),)]
        every = [Order(16, 32, 4, s) for s in (0, 32, 64, 128)] + [Order(16, 32, 4, pitch=p) for p in range(33, 65)]
        cost = [sum(conflicts_of(o, a).waves for a in accesses) for o in every]
        found = remedy_of(every[0], accesses, 4, True)
        assert min(cost) == (cost[0] if found is None else found.cost)


# --- the accesses of kernels


def instructions(touch: Touch) -> Iterator[list[tuple[int, int]]]:
    for row, column, active in zip(touch.row, touch.column, touch.is_active):
        yield [(int(r), int(c)) for r, c, a in zip(row, column, active) if a]


def kernel_of(threads: int, *body: nodes.Statement) -> Kernel:
    return Kernel("k", ("r",), "sm90", (Expr.of(1),), (threads,), body)


def shared(name: str, dtype: str, *shape: int, swizzle: int = 0) -> Shared:
    return Shared(name, TensorType(DTYPES[dtype], tuple(map(Expr.of, shape))), swizzle=swizzle)


def reg(name: str, kind: str, dtype: str, *shape: int) -> nodes.Reg:
    return nodes.Reg(name, TensorType(DTYPES[dtype], tuple(map(Expr.of, shape))), kind=kind)


def rows_of_ldmatrix(kind: str, is_transposed: bool, dtype: str, swizzle: int) -> set[tuple[tuple[int, int], ...]]:
    tile = shared("t", dtype, 64, 64, swizzle=swizzle)
    statement = nodes.Ldmatrix(Place("x"), Place("t", (Expr.of(16), Expr.of(32))), is_transposed)
    (access,) = accesses_of(kernel_of(128, tile, reg("x", kind, dtype, 64, 16), statement), {})
    return {tuple(lanes) for touch in access.touches for lanes in instructions(touch)}


def test_ldmatrix_takes_the_rows_of_four_tiles() -> None:
    """Lanes 8i..8i+7 give the rows of tile i: as PTX wants them for the fragments of m16n8k16."""
    along = tuple((16 + lane % 16, 32 + 8 * (lane // 16)) for lane in range(32))
    across = tuple((16 + lane % 8 + 8 * (lane // 16), 32 + lane // 8 % 2 * 8) for lane in range(32))
    assert rows_of_ldmatrix("mma_a", False, "fp16", 128) == {along}
    assert rows_of_ldmatrix("mma_a", True, "fp16", 128) == {across}
    assert rows_of_ldmatrix("mma_b", True, "fp16", 128) == {along}
    assert rows_of_ldmatrix("mma_b", False, "fp16", 128) == {across}
    words = tuple((16 + lane % 16, 32 + 4 * (lane // 16)) for lane in range(32))
    assert rows_of_ldmatrix("mma_a", False, "fp32", 128) == {words}


def every_element(s: nodes.Each, kind: str, columns: int, threads: int = 128) -> set[tuple[tuple[int, int], ...]]:
    tile, acc = shared("t", "fp32", 64, columns), reg("acc", kind, "fp32", 64 if kind == "wgmma" else 16, columns)
    (access,) = accesses_of(kernel_of(threads, tile, acc, s), {})
    return {tuple(lanes) for touch in access.touches for lanes in instructions(touch)}


def test_each_runs_over_the_registers_of_an_accumulator() -> None:
    """As PTX has the accumulators of wgmma and mma: lane l holds rows l/4 and l/4 + 8, columns 2*(l mod 4) and the
    next."""
    value = nodes.Store(Place("t", (Expr.of("r"), Expr.of("n"))), zero())
    each = nodes.Each(("r", "n"), "acc", (value,))
    expected = {
        tuple((16 * warp + lane // 4 + 8 * v, 8 * piece + 2 * (lane % 4) + e) for lane in range(32))
        for warp, v, piece, e in itertools.product(range(4), range(2), range(4), range(2))
    }
    assert every_element(each, "wgmma", 32) == expected
    alone = {
        tuple((lane // 4 + 8 * v, 8 * piece + 2 * (lane % 4) + e) for lane in range(32))
        for v, piece, e in itertools.product(range(2), range(4), range(2))
    }
    piece = nodes.Each(("r", "n"), "acc", (value,), (Expr.of(0), Expr.of(0)), (16, 32))
    assert every_element(piece, "mma", 32) == alone


def zero() -> Literal:
    return Literal(0.0, DTYPES["fp32"])


def test_stmatrix_writes_rows_of_a_piece() -> None:
    for turned in (False, True):
        index = (Expr.of("n"), Expr.of("r")) if turned else (Expr.of("r"), Expr.of("n"))
        store = nodes.Store(Place("t", index), zero(), by="stmatrix")
        each = nodes.Each(("r", "n"), "acc", (store,))
        tile, acc = shared("t", "fp16", 64, 64, swizzle=128), reg("acc", "wgmma", "fp32", 64, 32)
        (access,) = accesses_of(kernel_of(128, tile, acc, each), {})
        found = {tuple(lanes) for touch in access.touches for lanes in instructions(touch)}
        if turned:
            one = [(lane % 8 + 8 * (lane // 16), 8 * (lane // 8 % 2)) for lane in range(32)]
            expected = {tuple((16 * p + r, 16 * w + c) for r, c in one) for w in range(4) for p in range(2)}
        else:
            one = [(lane % 16, 8 * (lane // 16)) for lane in range(32)]
            expected = {tuple((16 * w + r, 16 * p + c) for r, c in one) for w in range(4) for p in range(2)}
        assert found == expected and access.touches[0].width == 16


@pytest.mark.parametrize(("threads", "vector"), [(64, 1), (128, 1), (96, 4), (256, 8)])
def test_threads_copy_in_turn(threads: int, vector: int) -> None:
    """Thread t takes vectors t, t + threads, ... of the points in row-major order."""
    tile = shared("t", "fp16", 16, 40)
    source = Read("X", (Expr.of("r"), Expr.of("c")), DTYPES["fp16"])
    over = (("r", Expr.of(16)), ("c", Expr.of(40)))
    copy = nodes.CpAsync("load", Place("t", (Expr.of("r"), Expr.of("c"))), over, source, vector)
    (access,) = accesses_of(kernel_of(threads, tile, copy), {})
    found = {point for touch in access.touches for lanes in instructions(touch) for point in lanes}
    assert found == {divmod(n, 40) for n in range(0, 640, vector)}
    assert access.touches[0].width == 2 * vector
    for touch in access.touches:
        for lanes in instructions(touch):
            numbers = [40 * r + c for r, c in lanes]
            assert numbers == list(range(numbers[0], numbers[0] + vector * len(numbers), vector))


def test_every_family_is_walked() -> None:
    """No access of any family is one that the analysis loses, and none is left out for lack of a lane."""
    for name in ("hopper", "ampere", "attention masked", "look back", "hopper cut held"):
        if name not in families.FAMILIES:
            continue
        module = gpu.parse(families.family(name).kernels)
        sizes = dict.fromkeys(module.plans.program.model.symbols(), 256)
        for kernel in module.kernels:
            for access in accesses_of(kernel, sizes):
                assert access.is_known
                for touch in access.touches:
                    order = order_of(access.array)
                    assert (touch.column[touch.is_active] < order.columns).all()
                    assert (touch.row[touch.is_active] < order.rows * access.array.ring).all()
                    assert (touch.column[touch.is_active] >= 0).all() and (touch.row[touch.is_active] >= 0).all()
