"""Groups of channels side by side in a tile of the image (`kernels/haloed/packed`): every plan of several problems
beside playback, what the tensor cores multiply, and what is infinite in one group alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.ir.expr import ZERO
from tinyir.ir.gpu import nodes
from tinyir.kernels.haloed.halo import Halo, halo_of
from tinyir.lower import gpu as to_gpu
from tinyir.play.region import play

from .checked import assert_holds
from .stages import needs_host_compiler
from .test_haloed import plans_of, problem_of
from .test_windows_fetched import ran, whole_numbers

PLAIN = {"groups": 8, "channels": 16, "made": 16}


def grouped(
    groups: int,
    channels: int,
    made: int,
    step: int = 1,
    is_last: bool = True,
    is_packed: bool = True,
    is_swapped: bool = False,
    columns: int = 11,
) -> str:
    """Region text of a convolution of images of 9 rows of `columns` in groups of `channels`, each of which makes
    `made`. `is_last`: channels are innermost; `is_packed`: of the weights too; `is_swapped`: what is made is counted
    before the rows."""
    high, wide = (9 - 1) // step + 1, (columns - 1) // step + 1
    image, result = groups * channels, groups * made
    row, column, maker = ("i3", "i4", "i2") if is_swapped else ("i2", "i3", "i4")
    at = f"{step}*{row} + k1 - 1", f"{step}*{column} + k2 - 1"
    channel, to = f"{channels}*i1 + k0", f"{made}*i1 + {maker}"
    tensors = {
        "X": [2, 9, columns, image] if is_last else [2, image, 9, columns],
        "W": [result, 3, 3, channels] if is_packed else [result, channels, 3, 3],
        "B": [result],
        "Y": [2, high, wide, result] if is_last else [2, result, high, wide],
    }
    told = [f"  {'out' if n == 'Y' else 'in '} {n} : fp16[{', '.join(map(str, s))}]" for n, s in tensors.items()]
    read = ["i0", *at, channel] if is_last else ["i0", channel, *at]
    weight, summed = [to, "k1", "k2", "k0"], "k1: 3, k2: 3, k0: "
    if not is_packed:
        weight, summed = [to, "k0", "k1", "k2"], "k1: 3, k2: 3, k0: "
    extents = {"i0": 2, "i1": groups, row: high, column: wide, maker: made}
    written = ["i0", row, column, to] if is_last else ["i0", to, row, column]
    lines = [
        "tinyir 1.0 region\n\nmodel conv",
        *told,
        "\nprogram conv\n\nregion c",
        *told,
        f"  for {', '.join(f'{a}: {extents[a]}' for a in sorted(extents))}",
        f"    %c = reduce sum ({summed}{channels}) : fp32 {{ mul(X[{', '.join(read)}] where 0 <= {at[0]} < 9 and "
        f"0 <= {at[1]} < {columns} else 0.0, W[{', '.join(weight)}]) : fp32 }}",
        f"    %b = broadcast_in_dim(cast(B[{to}]) : fp32, dims=[1, {maker[1:]}])",
        f"  yield Y[{', '.join(written)}] = cast(relu(add(%c, %b))) : fp16\n",
    ]
    return "\n".join(lines)


FORMS: list[dict[str, Any]] = [
    {},
    {"is_swapped": True},
    {"is_last": False, "is_swapped": True},
    {"is_packed": False},
    {"groups": 3, "channels": 32},
    {"groups": 3, "channels": 32, "made": 48, "step": 2},
    {"groups": 2, "channels": 64, "made": 32, "is_last": False, "is_swapped": True},
    {"groups": 5, "made": 32, "step": 2, "is_swapped": True, "is_packed": False},
    {"channels": 4, "made": 4},
    {"groups": 12, "channels": 4, "made": 4, "is_last": False, "is_swapped": True},
    {"groups": 20, "channels": 4, "made": 8, "step": 2, "is_packed": False},
    {"channels": 8, "made": 8, "is_swapped": True},
    {"groups": 6, "channels": 8, "made": 4},
    {"groups": 3, "channels": 8, "made": 32, "is_packed": False},
    {"groups": 5, "made": 8},
    {"groups": 2, "channels": 32, "made": 8, "is_last": False, "is_swapped": True},
    {"columns": 12, "is_last": False, "is_swapped": True},
    {"columns": 20, "groups": 3, "channels": 32, "made": 48, "step": 2, "is_last": False, "is_swapped": True},
    {"columns": 10, "groups": 12, "channels": 4, "made": 4, "is_last": False, "is_swapped": True},
    {"groups": 4, "channels": 24, "made": 24},
    {"groups": 5, "channels": 20, "made": 20, "is_packed": False},
    {"columns": 12, "groups": 3, "channels": 48, "made": 48, "is_last": False, "is_swapped": True},
    {"groups": 3, "channels": 40, "made": 24, "step": 2, "is_swapped": True},
]


@needs_host_compiler
@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(f"{k}{v}" for k, v in form.items()) or "plain")
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_groups_are_multiplied_as_playback_does(form: dict[str, Any], arch: str) -> None:
    text = grouped(**PLAIN | form)
    module, plans = region.parse(text), plans_of(text, arch)
    assert plans
    arrays = whole_numbers(module)
    for one in random.Random(str(form) + arch).sample(plans, min(2, len(plans))):
        assert_holds(module, one)
        found = ran(plan.parse(plan.show(plan.Module(module, (one,)))), arrays)
        np.testing.assert_array_equal(found["Y"], play(module, arrays)["Y"], err_msg=f"{one.tile} {one.warp_tile}")


@needs_host_compiler
@pytest.mark.parametrize("each", [24, 16, 8, 4])
def test_what_is_infinite_stays_in_its_group(each: int) -> None:
    text = grouped(**PLAIN | {"channels": each, "made": each})
    module, one = region.parse(text), plans_of(text)[0]
    arrays = whole_numbers(module)
    own = slice(each, 2 * each)
    arrays["X"][..., own] = np.inf
    arrays["W"][own] = 1
    found = ran(plan.Module(module, (one,)), arrays)["Y"]
    assert np.isinf(found[..., own]).all()
    assert np.isfinite(found[..., :each]).all() and np.isfinite(found[..., 2 * each :]).all()


def products_of(body: tuple[nodes.Statement, ...]) -> int:
    """Products of fragments that a warp computes for a tile."""
    count = 0
    for one in body:
        inner = products_of(one.body) if isinstance(one, nodes.For) else int(isinstance(one, nodes.Mma))
        times = one.high.constant if isinstance(one, nodes.For) and one.low == ZERO else 1
        count += inner * times
    return count


@pytest.mark.parametrize("form", FORMS)
def test_tensor_cores_multiply_what_a_group_has_and_no_more(form: dict[str, Any]) -> None:
    shape = PLAIN | form
    text = grouped(**shape)
    halo = halo_of(problem_of(text).region, problem_of(text).kernel)
    for one in plans_of(text):
        (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
        made = one.warp_tile[1 - halo.side]
        whole = -(-shape["made"] // 16) * 16 if shape["made"] > 16 else shape["made"]  # whole fragments, or a part
        fragments = made // min(made, whole) * one.warp_tile[halo.side] // 16
        of_row = -(-3 * shape["channels"] // 16)  # of few channels the taps of a row are side by side
        of_sum = 3 * of_row if shape["channels"] < 16 else 9 * -(-shape["channels"] // 16)
        assert products_of(kernel.body) == fragments * of_sum


@pytest.mark.parametrize(
    "form",
    [{"channels": 2}, {"made": 2}, {"channels": 64, "made": 8}, {"channels": 128}],
)
def test_groups_that_are_no_fragments_are_none(form: dict[str, Any]) -> None:
    text = grouped(**PLAIN | form)
    assert not isinstance(halo_of(problem_of(text).region, problem_of(text).kernel), Halo)
    assert plans_of(text) == []
