"""Every epilogue on every template of a contraction, emitted and run in the simulation, equal to playback to the bit:
inputs are small whole numbers."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import plan
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.lower import plan as to_plan
from tinyir.sim.host import COMPILERS

from .emitted import lowered, played, simulated
from .test_warp_specialized import product
from .tuples import EPILOGUES

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

CHAINS = {
    **EPILOGUES,
    "clipped, as fp8": {
        "extra": "in R : fp16[M, N]",
        "epilogue": "%added = add(%gemm, cast(R[i0, i1]) : fp32); %low = max(%added, -7.0); %clipped = min(%low, 7.0)",
        "value": "clipped",
        "out": "fp8e4m3",
    },
    "accumulator as a second output": {
        "extra": "out P : {dtype}[M, N]",
        "epilogue": "%act = relu(%gemm)",
        "value": "act",
    },
}
TEMPLATES = {  # the sizes planned for and run, and what a candidate must be
    "synchronous": ("NN", (72, 72, 40), lambda p: p.algo == "synchronous"),
    "multistage": ("NN", (72, 72, 64), lambda p: p.algo == "multistage" and p.stages > 2),
    "multistage, element by element": ("TT", (71, 73, 45), lambda p: p.algo == "multistage" and not p.assume),
    "multistage, padded": ("TN", (71, 73, 145), lambda p: p.algo == "multistage" and len(p.layout) == 2),
    "gemv": ("NT", (3, 72, 136), lambda p: p.algo == "gemv"),
    "warp_specialized": (
        "NN",
        (72, 136, 72),
        lambda p: _is_hopper(p) and not p.cluster and not p.swap_ab and not p.layout and p.parts == 1 and p.persistent,
    ),
    "warp_specialized, multicast": (
        "NT",
        (136, 72, 72),
        lambda p: _is_hopper(p) and p.cluster and not p.swap_ab and not p.layout and p.parts == 1,
    ),
    "warp_specialized, sum in a cluster": ("TN", (72, 72, 520), lambda p: _is_hopper(p) and p.parts > 1),
    "warp_specialized, swapped": ("NN", (16, 72, 136), lambda p: _is_hopper(p) and p.swap_ab and not p.layout),
    "warp_specialized, padded": ("TT", (71, 73, 45), lambda p: _is_hopper(p) and p.layout),
}
TABLE = [
    (template, epilogue, (row + column) % 4)
    for row, template in enumerate(TEMPLATES)
    for column, epilogue in enumerate(CHAINS)
]


def _is_hopper(one: plan.Plan) -> bool:
    return one.algo == "warp_specialized"


def planned(template: str, epilogue: str) -> plan.Module:
    """The cheapest plan of a template for a product with an epilogue."""
    layout, sizes, is_meant = TEMPLATES[template]
    kind = {key: value.format(dtype="fp16") if key == "extra" else value for key, value in CHAINS[epilogue].items()}
    module = product(
        layout, "fp16", **{"out": "fp16", **kind}, sizes=", ".join(f"{name}={size}" for name, size in zip("MNK", sizes))
    )
    found = (
        c.plan
        for arch in ("sm90", "sm80")
        for c in to_plan.candidates(module, module.program.regions[0], arch)
        if c.rejected in ("", to_plan.CROWDED)
    )
    return plan.Module(module, (next(p for p in found if is_meant(p)),))


@pytest.mark.parametrize(
    ("template", "epilogue"),
    [pytest.param(t, e, marks=() if is_quick == 0 else pytest.mark.slow) for t, e, is_quick in TABLE],
)
def test_an_epilogue_is_right_on_a_template(template: str, epilogue: str) -> None:
    _, code = lowered(planned(template, epilogue))
    names, draw = dict(zip("MNK", TEMPLATES[template][1])), np.random.default_rng(7)
    shapes = {t.name: (t.type.dtype.name, [d.evaluate(names) for d in t.type.shape]) for t in code.region.model.inputs}
    arrays = {
        name: convert(draw.integers(-3, 4, shape).astype(np.float32), DTYPES[dtype])
        for name, (dtype, shape) in shapes.items()
    }
    given, wanted = simulated(code, arrays, seed=3), played(code, arrays)
    for name in wanted:
        np.testing.assert_array_equal(given[name].astype(np.float64), wanted[name].astype(np.float64), err_msg=name)


def test_every_epilogue_and_every_template_is_met_by_the_quick_ones() -> None:
    quick = [(t, e) for t, e, is_quick in TABLE if is_quick == 0]
    assert {t for t, _ in quick} == set(TEMPLATES) and {e for _, e in quick} == set(CHAINS)
