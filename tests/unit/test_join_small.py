"""Small kernels of one shape that read nothing in common share a launch, where none needs another."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.network import Network, RandomModel
from tinyir.front.json import read
from tinyir.lower import lower_to
from tinyir.lower.region.join_siblings import MOST_FOLDS
from tinyir.play import tiny as play_tiny
from tinyir.play.region import play

from .test_sink_values import outputs_of, regions_of

ROWS, WIDE = 24, 16


def steps(count: int) -> RandomModel:
    """What each step of a recurrence that was written out gives: its state times a vector of its own."""
    net = Network("m", "fp16")
    made = []
    for n in range(count):
        state = net.elementwise("exp2", f"h{n}", net.input(f"x{n}", [ROWS, WIDE]))
        flip = net.op("Flip", f"f{n}", [state], [ROWS, WIDE], axes=[0])
        made.append(net.op("MatMul", f"y{n}", [flip, net.input(f"c{n}", [WIDE, 1])], [ROWS, 1]))
    return net.model(*made)


def maps(*shapes: tuple[int, int], is_param: bool = False) -> RandomModel:
    net = Network("m", "fp16")
    give = [net.input, net.param if is_param else net.input]
    return net.model(
        *(net.elementwise("neg", f"y{n}", give[n % 2](f"x{n}", list(shape))) for n, shape in enumerate(shapes))
    )


def in_turn() -> RandomModel:
    """Two sums of rows, of which one needs the other's largest number."""
    net = Network("m", "fp16")
    first = net.op("Reduce", "a", [net.input("x", [ROWS, WIDE])], [ROWS], "fp32", op="sum", axes=[1])
    top = net.op("Reduce", "top", [first], [], "fp32", op="max", axes=[0])
    z = net.op("Elementwise", "scaled", [net.input("z", [ROWS, WIDE]), top], [ROWS, WIDE], "fp32", fn="mul")
    return net.model(first, net.op("Reduce", "b", [z], [ROWS], "fp32", op="sum", axes=[1]))


CASES = {  # regions that write results
    "steps": (steps(5), 1),
    "more steps than a kernel folds": (steps(MOST_FOLDS + 1), 2),
    "maps": (maps((8, 40), (8, 40), (8, 40)), 1),
    "maps of other shapes": (maps((8, 40), (40, 8)), 2),
    "maps of many bytes": (maps((700, 1000), (700, 1000)), 2),
    "a map of constants": (maps((8, 40), (8, 40), is_param=True), 2),
    "sums in turn": (in_turn(), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_small_kernels_share_a_launch(name: str) -> None:
    model, count = CASES[name]
    module = regions_of(model)
    results = {t.name for t in module.model.outputs}
    written = [made for made in outputs_of(module).values() if results & {one.split()[0] for one in made}]
    assert len(written) == count
    arrays = model.arrays(3)
    wanted = play_tiny.play(read(model.text), arrays)
    for output, array in play(module, arrays).items():
        np.testing.assert_allclose(array, wanted[output], rtol=2e-3, atol=2e-3)
    assert lower_to("gpu", lower_to("plan", module, "sm90"), "sm90").kernels
