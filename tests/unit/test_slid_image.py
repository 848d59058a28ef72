"""The image that windows slide over is made first where it is not the tensor: then its windows are fetched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir.traits import sizes_of
from tinyir.kernels.alternatives.materialize_prologues import materialize_prologues
from tinyir.kernels.alternatives.slid_image import slid_image
from tinyir.kernels.parts.windows import operand_views, windowed
from tinyir.kernels.problem import Contraction, kernel_of
from tinyir.lower import lower_to
from tinyir.play.region import play

from .stages import graph
from .test_windows_apart import whole_numbers

# By what is read: the op, image, weight, result, how; and the axes of the image that is made.
SLID: dict[str, tuple[str, list[int], list[int], list[int], dict[str, Any], list[int]]] = {
    "steps of 2": ("ConvTranspose", [2, 8, 5, 4], [8, 6, 3, 3], [2, 6, 11, 9], {"stride": [2, 2]}, [2, 13, 11, 8]),
    "unlike steps": (
        "ConvTranspose",
        [2, 8, 5, 4],
        [8, 6, 4, 3],
        [2, 6, 16, 8],
        {"stride": [3, 2], "pad": [0, 0, 0, 1]},
        [2, 19, 10, 8],
    ),
    "one image": ("ConvTranspose", [1, 8, 5, 4], [8, 6, 3, 3], [1, 6, 11, 9], {"stride": [2, 2]}, [1, 13, 11, 8]),
    "spread taps": (
        "ConvTranspose",
        [2, 8, 5, 4],
        [8, 6, 3, 1],
        [2, 6, 13, 4],
        {"stride": [2, 1], "dilation": [2, 1]},
        [2, 17, 4, 8],
    ),
    "phases beside": (
        "ConvTranspose",
        [2, 8, 5, 4],
        [8, 6, 5, 2],
        [2, 6, 12, 8],
        {"stride": [3, 2], "pad": [3, 0, 2, 0]},
        [2, 16, 4, 8],
    ),
    "phases that share a place": (
        "ConvTranspose",
        [2, 8, 5, 4],
        [8, 6, 3, 3],
        [2, 6, 12, 9],
        {"stride": [3, 2], "pad": [1, 0, 2, 0]},
        [2, 5, 11, 8],
    ),
    "halves beside": (
        "ConvTranspose",
        [2, 8, 5, 4],
        [8, 6, 4, 3],
        [2, 6, 10, 9],
        {"stride": [2, 2], "pad": [1, 0, 1, 0]},
        [2, 7, 11, 8],
    ),
    "one axis": ("ConvTranspose", [2, 8, 9], [8, 6, 5], [2, 6, 21], {"stride": [2]}, [2, 25, 8]),
}


def region_of_case(case: str, dtype: str = "fp16") -> Any:
    op, image, weight, result, how, _ = SLID[case]
    text = graph({"x": (dtype, image), "w": (dtype, weight)}, {"y": (dtype, result)}, (op, ["x", "w"], "y", how))
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def made_first(module: Any) -> Any:
    """The module with what windows are fetched of made, by a time that is least so."""

    def time_of(_: Any, one: Any) -> float:
        kernel = kernel_of(one, "contraction")
        if not isinstance(kernel, Contraction):
            return 0.0
        return 1.0 if windowed(operand_views(one, kernel)) is not None else 2.0

    found, done = materialize_prologues(module, time_of, has_engine=True)
    assert [m.apart for m in done] == [1.0]
    return found


@pytest.mark.parametrize("case", SLID)
def test_the_image_is_made_and_its_windows_fetched(case: str) -> None:
    whole = region_of_case(case)
    found = made_first(whole)
    made = found.program.region("y.x").outputs[0].type.shape
    assert [e.constant for e in made] == SLID[case][-1]
    arrays = whole_numbers(whole)
    np.testing.assert_array_equal(play(found, arrays)["y"], play(whole, arrays)["y"])


@pytest.mark.parametrize("how", ({"stride": [2, 2]}, {"stride": [3, 1]}))
def test_windows_some_apart_have_no_image_but_the_tensor(how: dict[str, Any]) -> None:
    """A place of a window is not one element of an image further than the one before it."""
    rows, columns = ((size - 3) // step + 1 for size, step in zip((9, 9), how["stride"]))
    text = graph(
        {"x": ("fp16", [2, 8, 9, 9]), "w": ("fp16", [6, 8, 3, 3])},
        {"y": ("fp16", [2, 6, rows, columns])},
        ("Conv", ["x", "w"], "y", how),
    )
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    kernel = kernel_of(module.program.regions[0], "contraction")
    assert sizes_of(module.model) == {}
    assert [slid_image(kernel, side) for side in (0, 1)] == [None, None]
