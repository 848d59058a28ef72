"""Contractions that read an operand through windows, which the copy engine fetches as they are: every kind of window
beside playback, what it takes for one, the copies that bring an operand into that order, and buffers in that order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.ir.once import Once
from tinyir.ir.windows import Windows
from tinyir.kernels.alternatives.turn_buffers import turn_buffers, with_orders
from tinyir.kernels.check import check as check_families
from tinyir.kernels.parts.boxes import View
from tinyir.kernels.parts.windows import operand_views, windowed
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.lower.plan import candidates, card_of
from tinyir.lower.plan.kernels_for import kernels_for
from tinyir.lower.plan.planner import Planner
from tinyir.play.region import play
from tinyir.runtime.program import Program
from tinyir.sim.launch import SimDevice

from .checked import check_gpu
from .sliding import Sliding
from .stages import needs_host_compiler

Sizes = list[int]


def conv(
    batch: int,
    channels: int,
    made: int,
    sizes: Sizes,
    window: Sizes,
    steps: Sizes,
    spread: Sizes,
    before: Sizes,
    behind: Sizes,
    is_last: bool = True,
    weight: str = "taps first",
) -> str:
    """Region text of a convolution over images whose channels are innermost, padded `before` and `behind`."""
    axes = range(len(sizes))
    spans = [s + a + z - (d * (w - 1) + 1) for s, a, z, d, w in zip(sizes, before, behind, spread, window)]
    out = [span // step + 1 for span, step in zip(spans, steps)]
    taps = [f"k{n + 1}" for n in axes]
    first = 1 if is_last else 2
    places, maker = [f"i{first + n}" for n in axes], f"i{len(sizes) + 1}" if is_last else "i1"
    iters = {"i0": batch, **dict(zip(places, out)), maker: made}
    order = sorted(iters)
    index, guards = [], []
    for n in axes:
        e = f"{steps[n]}*{places[n]} + {spread[n]}*{taps[n]} - {before[n]}"
        index.append(e)
        guards += [f"0 <= {e} < {sizes[n]}"] if before[n] or behind[n] else []
    read = f"X[i0, {', '.join(index)}, k0]" + (f" where {' and '.join(guards)} else 0.0" if guards else "")
    shapes = {"taps first": [made, *window, channels], "across": [*window, channels, made]}
    at = {"taps first": [maker, *taps, "k0"], "across": [*taps, "k0", maker]}[weight]
    tensors = {"X": [batch, *sizes, channels], "W": shapes[weight], "Y": [iters[a] for a in order]}
    told = [f"  {'out' if n == 'Y' else 'in '} {n} : fp16[{', '.join(map(str, s))}]" for n, s in tensors.items()]
    summed = ", ".join(f"{tap}: {w}" for tap, w in zip(taps, window))
    return "\n".join(
        [
            "tinyir 1.0 region\n\nmodel conv",
            *told,
            "\nprogram conv\n\nregion c",
            *told,
            f"  for {', '.join(f'{a}: {iters[a]}' for a in order)}",
            f"    %c = reduce sum ({summed}, k0: {channels}) : fp32 {{ mul({read}, W[{', '.join(at)}]) : fp32 }}",
            f"  yield Y[{', '.join(order)}] = cast(relu(%c)) : fp16\n",
        ]
    )


def drawn(seed: int) -> dict[str, Any]:
    """A convolution of one to three axes, no side too short for its window."""
    draw = random.Random(seed)
    axes = draw.choice([1, 2, 2, 3])
    window, spread = ([draw.randint(1, most) for _ in range(axes)] for most in (3, 2))
    return {
        "batch": draw.randint(1, 3),
        "channels": draw.choice([8, 40, 64, 72]),
        "made": draw.choice([8, 24, 64]),
        "sizes": [draw.randint(d * (w - 1) + 1, d * (w - 1) + 6) for w, d in zip(window, spread)],
        "window": window,
        "steps": [draw.randint(1, 3) for _ in range(axes)],
        "spread": spread,
        "before": [draw.randint(0, 2) for _ in range(axes)],
        "behind": [draw.randint(0, 2) for _ in range(axes)],
        "is_last": draw.random() < 0.6,
        "weight": draw.choice(["taps first", "across"]),
    }


def views_of(text: str) -> tuple[Any, Any]:
    """How the copy engine fetches the factors of the program's contraction."""
    module = region.parse(text)
    assert [d for d in region.check(module) if d.is_error] == []
    (one,) = module.program.regions
    (kernel,) = (k for k in kernels_of(one) if isinstance(k, Contraction))
    return operand_views(one, kernel)


def ran(module: plan.Module, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the module's kernels leave in the simulation."""
    assert [d for d in (*plan.check(module), *check_families(module)) if d.is_error] == []
    kernels = gpu.parse(gpu.show(to_gpu.lower(module)))
    assert [(d.code, dict(d.facts)) for d in check_gpu(kernels) if d.is_error] == []
    text = manifest.show(to_cu.lower(kernels))
    program = Program(SimDevice(limit=60.0), text, manifest.parse(text), {})
    try:
        program.upload(arrays)
        program.run()
        return program.outputs()
    finally:
        program.release()


def whole_numbers(module: region.Module) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(7)
    shapes = {t.name: [e.constant for e in t.type.shape] for t in module.model.inputs}
    return {name: draw.integers(-3, 4, shape).astype(np.float16) for name, shape in shapes.items()}


@needs_host_compiler
@pytest.mark.parametrize("seed", range(8))
def test_windows_are_fetched_as_playback_reads_them(seed: int) -> None:
    """Of the plans that fetch windows one that the seed draws; whole numbers, so that sums are exact."""
    module = region.parse(conv(**drawn(seed)))
    found = [
        c.plan
        for c in candidates(module, module.program.regions[0])
        if c.cost is not None and any(item.by == "windows" for item in c.plan.load)
    ]
    assert found, drawn(seed)
    one = plan.Module(module, (random.Random(seed).choice(found),))
    arrays = whole_numbers(module)
    assert np.array_equal(ran(plan.parse(plan.show(one)), arrays)["Y"], play(module, arrays)["Y"])


CONV = {
    "batch": 2,
    "channels": 64,
    "made": 64,
    "sizes": [9, 8],
    "window": [3, 3],
    "steps": [1, 1],
    "spread": [1, 1],
    "before": [1, 1],
    "behind": [1, 1],
}


@pytest.mark.parametrize(
    "more, words",
    [
        ({"steps": [9, 1], "sizes": [19, 8]}, "takes"),
        ({"before": [200, 1], "sizes": [9, 8]}, "takes"),
        ({"spread": [200, 1], "sizes": [420, 8]}, "takes"),
    ],
)
def test_what_the_engine_does_not_take_is_no_windows(more: dict[str, Any], words: str) -> None:
    view = views_of(conv(**{**CONV, **more}))[0]
    assert isinstance(view, str)


def test_a_guard_of_its_own_is_no_padding() -> None:
    text = conv(**CONV)
    assert windowed(views_of(text)) is not None
    assert windowed(views_of(text.replace("< 8 else 0.0", "< 7 else 0.0"))) is None
    assert windowed(views_of(text.replace("else 0.0", "else 1.0"))) is None


def test_windows_and_their_matrix_are_dims_of_taps_and_channels() -> None:
    windows, matrix = views_of(conv(**{**CONV, "steps": [2, 1], "spread": [1, 2], "before": [0, 2]}))
    assert isinstance(windows, View) and isinstance(matrix, View)
    assert str(windows.windows) == "windows [4, 7] from [0, -2] step [2, 1]"
    assert windows.spread == (1, 2)
    assert [d.role for d in windows.dims] == ["left", "tap", "tap", "sum"]
    assert [d.role for d in matrix.dims] == ["right", "tap", "sum"]


BETWEEN = """tinyir 1.0 region

model main
  in  x           : fp16[2, 64, 9, 8]
  in  v           : fp16[64, 64]
  in  w           : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
  in  r           : fp16[2, 64, 9, 8]
  out y           : fp16[2, 64, 9, 8]

program main
  buffer a           : fp16[2, 64, 9, 8]
  buffer b           : fp16[2, 64, 9, 8]

region a
  in  x           : fp16[2, 64, 9, 8]
  in  v           : fp16[64, 64]
  in  b           : fp16[2, 64, 9, 8]
  out a           : fp16[2, 64, 9, 8]
  for i0: 2, i1: 64, i2: 9, i3: 8
    %a             = reduce sum (k0: 64) : fp32 { mul(x[i0, k0, i2, i3], v[i1, k0]) : fp32 }
  yield a[i0, i1, i2, i3] = add(cast(%a) : fp16, b[i0, i1, i2, i3])

region y
  in  a           : fp16[2, 64, 9, 8]
  in  w           : fp16[64, 64, 3, 3]
  out y           : fp16[2, 64, 9, 8]
  for i0: 2, i1: 64, i2: 9, i3: 8
    %y             = reduce sum (k0: 64, k1: 3, k2: 3) : fp32 { mul(a[i0, k0, i2 + k1 - 1, i3 + k2 - 1] where 0 <= i2 + k1 - 1 < 9 and 0 <= i3 + k2 - 1 < 8 else 0.0, w[i1, k0, k1, k2]) : fp32 }
  yield y[i0, i1, i2, i3] = cast(%y) : fp16
"""  # noqa: E501
BESIDE = """region b
  in  r           : fp16[2, 64, 9, 8]
  out b           : fp16[2, 64, 9, 8]
  for i0: 2, i1: 64, i2: 9, i3: 8
  yield b[i0, i1, i2, i3] = relu(r[i0, i1, i2, i3])

region a
"""


def between() -> region.Module:
    """A buffer that is read through windows, beside one that is added to it."""
    module = region.parse(BETWEEN.replace("region a\n", BESIDE, 1))
    assert [d for d in region.check(module) if d.is_error] == []
    return module


def times(turned: float) -> Any:
    """Microseconds of every region of a module, less where buffers are turned by so much."""
    return lambda module, _: dict.fromkeys(
        (r.name for r in module.program.regions), 10 - turned * (module.program.buffers[0].type.shape[1].constant == 9)
    )


def test_buffers_that_hang_together_are_turned_where_that_is_faster() -> None:
    module = between()
    found, (one,) = turn_buffers(module, times(turned=1))
    assert dict(one.orders) == {"a": (0, 2, 3, 1), "b": (0, 2, 3, 1)} and (one.before, one.after) == (30, 27)
    assert [str(t.type) for t in found.program.buffers] == ["fp16[2, 9, 8, 64]"] * 2
    assert [d for d in region.check(found) if d.is_error] == []
    assert found.model == module.model
    arrays = whole_numbers(module)
    assert np.array_equal(play(found, arrays)["y"], play(module, arrays)["y"])
    assert turn_buffers(module, times(turned=0)) == (module, ())
    assert turn_buffers(module, times(turned=-1)) == (module, ())


def test_what_is_broadcast_is_told_in_the_new_order() -> None:
    text = BETWEEN.replace("region a\n", BESIDE, 1).replace(
        "add(cast(%a) : fp16, b[i0, i1, i2, i3])",
        "add(add(cast(%a) : fp16, b[i0, i1, i2, i3]), broadcast_in_dim(v[i1, 0], dims=[1]))",
    )
    module = region.parse(text)
    found = with_orders(module, {"a": (0, 2, 3, 1)})
    assert "dims=[3]" in region.show(found) and [d for d in region.check(found) if d.is_error] == []
    arrays = whole_numbers(module)
    assert np.array_equal(play(found, arrays)["y"], play(module, arrays)["y"])


def test_weights_are_turned_once_and_images_at_each_run() -> None:
    planner = Planner(card_of("sm90", None))
    module = kernels_for(region.parse(BETWEEN.replace("region a\n", BESIDE, 1)), planner)
    once = [r.name for r in module.program.regions if Once(module).holds(r)]
    assert once == ["y.w"]
    assert planner.us(module, module.program.region("y.w")) == 0.0


def lowered() -> gpu.Module:
    """The kernels of a convolution whose weight is a constant."""
    module: Any = between()
    for stage in ("plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    return module


def test_a_kernel_that_is_made_once_reads_constants_and_writes_no_output() -> None:
    module = lowered()
    text = gpu.show(module)
    assert "kernel y.w once : sm90" in text and gpu.parse(text) == module
    (kernel,) = (k for k in module.kernels if k.name == "y")
    maps = [s for s in statements(kernel.body) if isinstance(s, nodes.TensorMap)]
    assert any(s.windows for s in maps)
    others = tuple(replace(k, is_once=True) if k.name in ("y", "b") else k for k in module.launches)
    faults = [d for d in gpu.check(replace(module, launches=others)) if d.code == "E1603"]
    assert {d.at for d in faults} == {"y", "b"}


@needs_host_compiler
def test_a_network_with_turned_buffers_computes_the_same() -> None:
    module = lowered()
    text = manifest.show(to_cu.lower(module))
    before = between()
    arrays = whole_numbers(before)
    program = Program(SimDevice(limit=60.0), text, manifest.parse(text), {})
    try:
        program.upload(arrays)
        for _ in range(2):
            program.run()
        assert np.array_equal(program.outputs()["y"], play(before, arrays)["y"])
    finally:
        program.release()


BAD_MAPS = {
    "has windows in boxes of several offsets": lambda s: replace(s, box=(s.box[0], s.box[0], *s.box[2:])),
    "has no windows along an axis": lambda s: replace(
        s, windows=replace(s.windows, counts=(Expr.of(0), s.windows.counts[1]))
    ),
    "has windows that are not 1 to 8 apart": lambda s: replace(s, windows=replace(s.windows, steps=(9, 1))),
    "has windows that begin outside of -128..128": lambda s: replace(s, windows=replace(s.windows, low=(-129, 0))),
    "has windows that end outside of -128..128": lambda s: replace(
        s, windows=replace(s.windows, counts=(Expr.of(200), s.windows.counts[1]))
    ),
    "has 4 axes, 1 of them": lambda s: replace(s, windows=replace(s.windows, counts=s.windows.counts[:1])),
}


@pytest.mark.parametrize("fault", BAD_MAPS)
def test_a_map_that_the_engine_does_not_take_is_refused(fault: str) -> None:
    module = lowered()

    def edited(kernel: nodes.Kernel) -> nodes.Kernel:
        body = tuple(BAD_MAPS[fault](s) if getattr(s, "windows", None) else s for s in kernel.body)
        return replace(kernel, body=body)

    found = gpu.check(replace(module, launches=tuple(map(edited, module.launches))))
    assert any(fault in str(d.facts.get("fault")) for d in found if d.code == "E1602")


@needs_host_compiler
@pytest.mark.parametrize("is_last", [True, False])
def test_channels_of_large_groups_are_fetched_as_windows(is_last: bool) -> None:
    """Each group by its own channels: a batch of contractions that read one tensor."""
    case = Sliding("grouped", "fp16", 2, 2, 64, 24, (6, 5), (3, 2), (1, 2), (1, 1), (1, 1), (1, 0), is_last, False)
    module = region.parse(case.text())
    planned: Any = lower_to("plan", module, "sm90")
    loads = [item for one in planned.plans for item in one.load if item.by == "windows"]
    assert loads, [one.algo for one in planned.plans]
    arrays = whole_numbers(module)
    assert np.array_equal(ran(planned, arrays)["y"], play(module, arrays)["y"])


def test_an_image_without_elements_has_no_windows_to_fetch() -> None:
    """Padding alone may hold whole windows; a tensor of no elements has no map."""
    h, w = Expr.of("H"), Expr.of("W")
    padded = Windows((((h + 1) // 2) + 1, ((w - 1) // 2) + 1), (-1, -1), (2, 2))
    asked = padded.needs((Expr.of("N"), h, w, Expr.of(64)))
    assert Bound(h, lower=Expr.of(1)) in asked
    assert Bound(w, lower=Expr.of(1)) not in asked  # no row of results has an element either
