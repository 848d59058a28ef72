"""Compute-at, halo, buffers and tiles against enumeration of every point of small domains."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir.analysis.closure import openings
from tinyir.analysis.compute_at import Need, compute_at, edges_of
from tinyir.analysis.counting import count
from tinyir.analysis.tiles import TileClasses, classes_of, leaves_rest, plain_classes, tile_classes
from tinyir.ir import poly, region, tiny
from tinyir.ir.expr import Expr
from tinyir.ir.read import read_expr
from tinyir.ir.sets import read_set
from tinyir.lower import index as to_index
from tinyir.lower import poly as to_poly
from tinyir.lower import region as to_region
from tinyir.lower.index import HEAVY

Point = tuple[int, ...]
INDICES = [
    "{a}",
    "{a} + 1",
    "{a} - 1",
    "2*{a}",
    "2*{a} + 1",
    "{n} - 1 - {a}",
    "floor({a}/2)",
    "floor(({a} + 1)/2)",
    "0",
    "{a} + {b}",
    "2*{a} + {b} - 1",
]


@st.composite
def needs(draw: st.DrawFn) -> tuple[Need, set[tuple[Point, Point]], tuple[int, ...]]:
    """A reader of up to 3 axes, the last perhaps folded, of a value of up to 2: as a Need, as pairs (element, point),
    and the reader's own sizes."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    own = draw(st.integers(1, len(sizes)))
    rank = draw(st.integers(1, 2))
    extents = [draw(st.integers(1, 5)) for _ in range(rank)]
    axes = [f"i{n}" if n < own else f"k{n - own}" for n in range(len(sizes))]
    pieces, pairs = [], set()
    for _ in range(draw(st.integers(1, 3))):
        index = [
            draw(st.sampled_from(INDICES)).format(
                a=draw(st.sampled_from(axes)), b=draw(st.sampled_from(axes)), n=extents[d]
            )
            for d in range(rank)
        ]
        domain = " and ".join(
            [f"0 <= {a} < {n}" for a, n in zip(axes, sizes)] + [f"0 <= {e} < {n}" for e, n in zip(index, extents)]
        )
        pieces.append(f"[{', '.join(axes)}] -> [{', '.join(index)}] : {domain}")
        exprs = [read_expr(e) for e in index]
        for at in itertools.product(*map(range, sizes)):
            element = tuple(e.evaluate(dict(zip(axes, at))) for e in exprs)
            if all(0 <= i < n for i, n in zip(element, extents)):
                pairs.add((element, at[:own]))
    return Need(isl.Map(f"{{ {'; '.join(pieces)} }}").reverse(), rank, tuple(axes[:own])), pairs, tuple(sizes[:own])


def is_once(pairs: Iterable[tuple[Point, Point]], kept: list[int]) -> bool:
    """Whether each element is needed at one point of the kept axes."""
    seen: dict[Point, Point] = {}
    return all(seen.setdefault(element, at) == at for element, at in ((e, tuple(t[n] for n in kept)) for e, t in pairs))


@given(needs())
def test_the_deepest_axes_are_legal_and_no_other_could_be_added(case: Any) -> None:
    need, pairs, _ = case
    found = compute_at(need, "s", "r")
    kept = [need.axes.index(a) for a in found.axes]
    assert is_once(pairs, kept)
    assert all(not is_once(pairs, sorted([*kept, n])) for n in range(len(need.axes)) if n not in kept)
    assert found.is_legal == is_once(pairs, list(range(len(need.axes))))


@given(needs())
def test_a_witness_needs_its_element_twice(case: Any) -> None:
    need, pairs, _ = case
    found = compute_at(need, "s", "r")
    assert (found.witness is None) == found.is_legal
    if found.witness is not None:
        left = next(a for a in need.axes if a not in found.axes)
        kept = [n for n, a in enumerate(need.axes) if a in found.axes or a == left]
        points = {tuple(t[n] for n in kept) for e, t in pairs if e == found.witness.element}
        assert {found.witness.first, found.witness.second} <= points and found.witness.first < found.witness.second


def halo_of(pairs: set[tuple[Point, Point]], axis: int, rank: int) -> int:
    """What Need.halo says, by looking at every two neighbours."""
    reads: dict[Point, set[Point]] = {}
    for element, at in pairs:
        reads.setdefault(at, set()).add(element)
    beside = {at: tuple(i + (n == axis) for n, i in enumerate(at)) for at in reads}
    found = 0
    for dim in range(rank):
        both = [(reads[at], reads[there]) for at, there in beside.items() if there in reads]
        if any({e[dim] for e in one} != {e[dim] for e in other} for one, other in both):
            for one, other in both:
                shared = [e[dim] for e in one & other]
                found = max(found, max(shared) - min(shared) + 1 if shared else 0)
    return found


@given(needs())
def test_halos_and_spans(case: Any) -> None:
    need, pairs, _ = case
    for n, axis in enumerate(need.axes):
        assert need.halo(axis) == halo_of(pairs, n, need.rank)
    points: dict[Point, set[Point]] = {}
    for element, at in pairs:
        points.setdefault(element, set()).add(at)
    wanted = tuple(
        max((max(t[n] for t in ts) - min(t[n] for t in ts) for ts in points.values()), default=0)
        for n in range(len(need.axes))
    )
    assert need.spans() == wanted


@given(needs(), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_what_tiles_compute_again(case: Any, tile: list[int]) -> None:
    need, pairs, _ = case
    by_tile = {(element, tuple(i // tile[n] for n, i in enumerate(at))) for element, at in pairs}
    assert need.again(dict(zip(need.axes, tile)), {}) == len(by_tile) - len({e for e, _ in pairs})


@given(needs())
def test_the_buffer_is_the_smallest(case: Any) -> None:
    need, pairs, _ = case
    found = compute_at(need, "s", "r")
    assert (found.buffer == "reg") == is_once(pairs, list(range(len(need.axes))))
    if found.buffer == "smem_ring":  # sizes are below the length of a ring
        assert found.depth == max(need.spans()) + 1


GUARDS = [
    "{a} <= {b}",
    "{a} - {b} >= 1",
    "1 <= {a} < 4",
    "0 <= 2*{a} + {b} - 1 < 6",
    "{a} = 2",
    "{a} - 2*floor({a}/2) = 0",
    "{a} + {b} < 5",
]


@given(st.data())
def test_tiles_by_class(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=3))
    tile = [data.draw(st.integers(1, 4)) for _ in sizes]
    names = [f"i{n}" for n in range(len(sizes))]
    name = st.sampled_from(names)
    guards = [
        data.draw(st.sampled_from(GUARDS)).format(a=data.draw(name), b=data.draw(name))
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    box = " and ".join(f"0 <= {a} < {n}" for a, n in zip(names, sizes))
    both = [isl.Set(f"{{ [{', '.join(names)}] : {text} }}") for text in (" and ".join([box, *guards]), box)]
    inside = {
        at
        for at in itertools.product(*map(range, sizes))
        if not isl.Set(f"{{ [{', '.join(map(str, at))}] }}").intersect(both[0]).is_empty()
    }
    wanted = [0, 0, 0]
    for start in itertools.product(*(range(-(-n // t)) for n, t in zip(sizes, tile))):
        points = list(itertools.product(*(range(s * t, s * t + t) for s, t in zip(start, tile))))
        held = sum(p in inside for p in points)
        wanted[0 if held == len(points) else 1 if held else 2] += 1
    assert tile_classes(*both, tile) == TileClasses(*wanted)
    assert count(both[0]) == len(inside)


def test_counting_does_not_list_points() -> None:
    assert count(
        isl.Set("{ [a, b, c, d] : 0 <= a < 100000 and 0 <= b < 100000 and 0 <= c < 100000 and 0 <= d <= c }")
    ) == 100000**2 * (100000 * 100001 // 2)
    assert count(isl.Set("{ [a] : 0 <= a < 10; [b] : 5 <= b < 20 }")) == 20
    assert count(isl.Set("{ [a, b] : 0 <= a < 1000 and exists (e : a = 3*e) and 0 <= b < 7 }")) == 334 * 7
    assert count(isl.Set("{ [a] : false }")) == 0


# --- on programs


def lowered(signature: str, *values: str) -> poly.Module:
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n"
        + "".join(f"  {t.strip()}\n" for t in signature.split(";"))
        + "\n"
        + "".join(f"  {v}\n" for v in values)
        + "\noutputs: %y\n"
    )
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    return to_poly.lower(to_index.lower(module))


def test_what_is_read_forwards_and_backwards_is_not_legal() -> None:
    module = lowered(
        "in x : fp32[M, N]; out y : fp32[M, N]",
        "%a = TANH(x) : fp32[M, N]",
        "%f = FLIP(%a) {axes=[0]} : fp32[M, N]",
        "%y = ADD(%a, %f) : fp32[M, N]",
    )
    (found,) = edges_of(module)
    assert (found.axes, found.is_legal, found.buffer) == (("i1",), False, "gmem")
    assert found.witness.sizes == (("M", 2), ("N", 1)) or dict(found.witness.sizes) == {"M": 2, "N": 1}
    assert (found.witness.element, found.witness.first, found.witness.second) == ((0, 0), (0, 0), (1, 0))


def test_what_is_read_backwards_only_is_legal() -> None:
    module = lowered(
        "in x : fp32[M]; out y : fp32[M]",
        "%a = TANH(x) : fp32[M]",
        "%f = FLIP(%a) {axes=[0]} : fp32[M]",
        "%y = NEG(%f) : fp32[M]",
    )
    assert [(e.is_legal, e.buffer, e.depth) for e in edges_of(module)] == [(True, "reg", 1)]


BLUR = (
    "in x : fp32[H, W]; in w : fp32[3, 3]; out y : fp32[H, W]",
    "%a = TANH(x) : fp32[H, W]",
    "%p = PAD(%a) {pad=[[1, 1], [1, 1]]} : fp32[H + 2, W + 2]",
    "%v = VIEW(%p) {index_map=[i0 + i2, i1 + i3]} : fp32[H, W, 3, 3]",
    "%u = EXPAND(w) : fp32[H, W, 3, 3]",
    "%m = MUL(%v, %u) : fp32[H, W, 3, 3]",
    "%y = REDUCE(%m) {op=SUM, axes=[2, 3], dtype=fp32} : fp32[H, W]",
)


def test_a_blur_needs_a_ring_of_three_and_computes_its_rim_again() -> None:
    module = lowered(*BLUR)
    (found,) = edges_of(module)
    assert (found.axes, found.halo, found.buffer, found.depth) == ((), (("i0", 2), ("i1", 2)), "smem_ring", 3)
    need = Need.of_edge(module, module.edges[0])
    # 4 tiles of 32x32 in 64x64: each reads 33x33, since the image ends on two sides
    assert need.again({"i0": 32, "i1": 32}, {"H": 64, "W": 64}) == 4 * 33 * 33 - 64 * 64
    assert need.again({"i0": 64, "i1": 64}, {"H": 64, "W": 64}) == 0
    assert need.again({"i0": 128, "i1": 128}, {"H": 4096, "W": 4096}) == (4096 + 2 * 31) ** 2 - 4096**2


def test_softmax_keeps_its_row_together() -> None:
    module = lowered(
        "in x : fp32[M, N]; out y : fp32[M, N]",
        "%e = EXP2(x) : fp32[M, N]",
        "%s = REDUCE(%e) {op=SUM, axes=[1], dtype=fp32} : fp32[M]",
        "%r = RESHAPE(%s) : fp32[M, 1]",
        "%z = EXPAND(%r) : fp32[M, N]",
        "%y = FDIV(%e, %z) : fp32[M, N]",
    )
    found = {(e.source, e.reader): e for e in edges_of(module)}
    assert {pair: (e.axes, e.is_legal, e.buffer, e.depth) for pair, e in found.items()} == {
        ("e", "s"): (("i0",), True, "reg", 1),
        ("e", "y"): (("i0", "i1"), True, "reg", 1),
        ("s", "y"): (("i0",), False, "smem_ring", 1),
    }
    assert (found["s", "y"].witness.element, found["s", "y"].witness.first, found["s", "y"].witness.second) == (
        (0,),
        (0, 0),
        (0, 1),
    )


def test_a_strided_window_shares_what_it_reaches_beyond_its_stride() -> None:
    for taps, stride, halo in ((3, 1, 2), (3, 2, 1), (5, 2, 3), (2, 2, 0), (1, 1, 0)):
        module = lowered(
            f"in x : fp32[{stride}*L + {taps}]; in w : fp32[{taps}]; out y : fp32[L]",
            f"%a = TANH(x) : fp32[{stride}*L + {taps}]".replace("1*L", "L"),
            f"%v = VIEW(%a) {{index_map=[{stride}*i0 + i1]}} : fp32[L, {taps}]",
            f"%u = EXPAND(w) : fp32[L, {taps}]",
            f"%m = MUL(%v, %u) : fp32[L, {taps}]",
            "%y = REDUCE(%m) {op=SUM, axes=[1], dtype=fp32} : fp32[L]",
        )
        need = Need.of_edge(module, next(e for e in module.edges if e.source == "a"))
        assert need.halo("i0") == halo
        (one,) = (r for r in to_region.lower(module).program.regions if r.outputs[0].name == "y")
        assert dict(one.analysis.halo) == ({"i0": read_expr(str(halo))} if halo else {})


MASKED = """tinyir 1.0 region

model m
  in  s           : fp32[S, S]
  out y           : fp32[S, S]

program m

region y
  in  s           : fp32[S, S]
  out y           : fp32[S, S]
  for i0: S, i1: S
  yield y[i0, i1] = s[i0, i1] where 0 <= i0 - i1 else 0.0
"""


@pytest.mark.parametrize(
    "size, tile, wanted",
    [
        (8, 4, (1, 2, 1)),
        (1024, 128, (28, 8, 28)),
        (1000, 128, (21, 15, 28)),
        (65536, 64, (1023 * 512, 1024, 1023 * 512)),
        (0, 4, (0, 0, 0)),
    ],
)
def test_tiles_of_a_causal_mask(size: int, tile: int, wanted: tuple[int, int, int]) -> None:
    module = region.parse(MASKED)
    assert [d for d in region.check(module) if d.is_error] == []
    assert classes_of(module.program.regions[0], {"i0": tile, "i1": tile}, {"S": size}) == TileClasses(*wanted)


def test_tiles_of_a_padded_convolution() -> None:
    (one,) = to_region.lower(lowered(*BLUR[:1], *BLUR[1:])).program.regions[-1:]
    names = [a.name for a in one.iters]
    found = classes_of(one, {**dict(zip(names, (32, 32))), "k0": 3, "k1": 3}, {"H": 128, "W": 96})
    assert found == TileClasses(full=2 * 1, partial=10, empty=0)
    # a tap at a time: the middle one never leaves the image
    taps = classes_of(one, dict(zip(names, (32, 32))), {"H": 128, "W": 96})
    assert taps.empty == 0 and taps.full + taps.partial == 9 * 12 and taps.full == (3 + 4 + 3) * (2 + 3 + 2)


def test_closure_ends_where_a_map_is_not_affine_or_chosen_at_run_time_or_too_long() -> None:
    def opened(signature: str, *values: str) -> list[tuple[str, str, str]]:
        return [(o.value, o.source, o.why) for o in openings(lowered(signature, *values).index)]

    assert opened(
        "in x : fp32[M, N]; out y : fp32[M*N]", "%f = RESHAPE(x) : fp32[M*N]", "%y = NEG(%f) : fp32[M*N]"
    ) == [("f", "x", "affine")]
    assert opened(
        "in x : fp32[M, N]; in t : i64[L]; out y : fp32[L, N]", "%y = GATHER(x, t) {axis=0} : fp32[L, N]"
    ) == [("y", "x", "run time")]
    steps = [
        f"%s{n} = RESHAPE({f'%v{n - 1}' if n else 'x'}) : fp32[3, 10]; %p{n} = PERMUTE(%s{n}) {{perm=[1, 0]}} : "
        f"fp32[10, 3]; %v{n} = RESHAPE(%p{n}) : fp32[30]"
        for n in range(8)
    ]
    shuffled = [s.strip() for step in steps for s in step.split(";")]
    found = opened("in x : fp32[30]; out y : fp32[30]", *shuffled, "%y = NEG(%v7) : fp32[30]")
    assert found and {why for _, _, why in found} == {"length"}
    assert not opened(
        "in x : fp32[M, 4]; out y : fp32[4, M]",
        "%p = PERMUTE(x) {perm=[1, 0]} : fp32[4, M]",
        "%f = FLIP(%p) {axes=[1]} : fp32[4, M]",
        "%y = NEG(%f) : fp32[4, M]",
    )
    assert opened("in x : fp32[M, N]; out y : fp32[M*N]", "%y = RESHAPE(x) : fp32[M*N]")


def test_maps_that_are_cut_stay_exact() -> None:
    """A shuffle of a shuffle of a shuffle: every element is where NumPy has it, and no map is long."""
    steps = [
        f"%s{n} = RESHAPE({f'%v{n - 1}' if n else 'x'}) : i32[3, 10]; %p{n} = PERMUTE(%s{n}) {{perm=[1, 0]}} : "
        f"i32[10, 3]; %v{n} = RESHAPE(%p{n}) : i32[30]"
        for n in range(40)
    ]
    module = lowered(
        "in x : i32[30]; out y : i32[30]",
        *(s.strip() for step in steps for s in step.split(";")),
        "%y = NEG(%v39) : i32[30]",
    )
    assert len(module.blocks) < 40
    assert max(sum(e.weight for e in s.exprs()) for entry in module.index.entries for s in entry.sources) <= HEAVY
    x = np.arange(30, dtype=np.int32)
    wanted = x
    for _ in range(40):
        wanted = wanted.reshape(3, 10).T.reshape(30)
    arrays = {"x": x}
    for block in module.blocks:  # each block from those before it, by its composed map alone
        entry = module.index.entry_of()[block.name]
        shape = tuple(a.size.evaluate({}) for a in entry.axes)
        found = np.empty(shape, np.int32)
        for at in np.ndindex(*shape):
            source, place = entry.sources[0].at({f"i{n}": i for n, i in enumerate(at)})
            found[at] = arrays[source][place]
        arrays[block.name] = -found if block.name == "y" else found
    np.testing.assert_array_equal(arrays["y"], -wanted)


def test_sizes_that_leave_a_rest() -> None:
    assert [leaves_rest(read_expr(e), 16) for e in ("64", "60", "M", "32*M", "16*M*N + 48", "16*M + 8", "0")] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("seed", range(40))
def test_classes_by_corners_are_those_of_isl(seed: int) -> None:
    numbers = random.Random(seed)
    names = ("x0", "x1", "x2")[: numbers.randint(1, 3)]
    extents = {name: Expr.of(numbers.randint(0, 23)) for name in names}
    tile = {name: numbers.choice((1, 2, 3, 4, 5, 8)) for name in names}
    half = sum((Expr.of(name) * numbers.choice((0, 1, -1, 2, -3)) for name in names), Expr.of(numbers.randint(-9, 9)))
    box = " and ".join(f"0 <= {name} < {extents[name]}" for name in names)
    whole, cut = (read_set(f"{{ [{', '.join(names)}] : {text} }}", ()) for text in (box, f"{box} and {half} >= 0"))
    assert plain_classes(extents, tile, half) == tile_classes(cut, whole, [tile[name] for name in names])


def test_classes_by_corners_are_left_to_isl_where_they_are_not_plain() -> None:
    x, size = {"x": Expr.of(8)}, Expr.of("S")
    assert plain_classes(x, {"x": 4}, Expr.of("x") // 2) is None
    assert plain_classes(x, {"x": 4}, Expr.of("x") - size) is None
    assert plain_classes({"x": size}, {"x": 4}, Expr.of("x")) is None
    assert plain_classes({"x": Expr.of(1 << 20), "y": Expr.of(1 << 20)}, {}, Expr.of("x") - "y") is None
