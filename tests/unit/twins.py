"""Every kernel that holds a PTX wrapper's twin to the bits of a GPU, by name: what it should leave is NumPy's.

`test_twins` runs them in the simulation, and asks that each wrapper is called by one; `tests/gpu/test_twins` runs them
on both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from tinyir.target.hopper import WGMMA_BYTES, WGMMA_COLUMNS, WGMMA_TYPES

from . import (
    test_fp8,
    test_sim_barriers,
    test_sim_copies,
    test_sim_gemm,
    test_sim_matrix,
    test_sim_numbers,
    test_sim_windows,
    test_store_rows,
    test_tf32,
    test_tf32_wgmma,
)
from .simulated import Trial

Trials = dict[str, Callable[[], Trial]]


def _named(name: str, trial: Callable[..., Trial], *cases: tuple) -> Trials:
    """The trial of each case under a name that says it."""
    return {" ".join([name, *map(str, case)]): partial(trial, *case) for case in cases}


def whole_kernel(sizes: tuple[int, int, int], grid: int) -> Trial:
    """A warp-specialised matrix product."""
    (inputs, _), how, wanted = test_sim_gemm.arguments(*sizes)
    return Trial(test_sim_gemm.CODE, inputs, {"C": wanted.astype(np.float16)}, {**how, "grid": (grid,)})


def _products(n: int) -> Trials:
    """Each wgmma of n columns, under its own name."""
    of_16, of_8, of_32 = (f"wgmma_m64n{n}k{depth}_" for depth in (16, 32, 8))
    return {
        **{of_16 + dtype: partial(test_sim_matrix.product_of_shared, n, dtype) for dtype in WGMMA_TYPES},
        **{
            of_8 + left + (f"_{right}" if left != right else ""): partial(test_fp8.product_of_bytes, n, left, right)
            for left in WGMMA_BYTES
            for right in WGMMA_BYTES
        },
        of_32 + "tf32": partial(test_tf32_wgmma.product_of_words, "shared", n),
        **{
            f"{of_16}{dtype}_of_registers": partial(test_sim_matrix.product_of_registers, n, dtype)
            for dtype in WGMMA_TYPES
        },
        of_32 + "tf32_of_registers": partial(test_tf32_wgmma.product_of_words, "along", n),
    }


PRODUCTS: dict[int, Trials] = {n: _products(n) for n in WGMMA_COLUMNS}
TRIALS: Trials = {
    "float_of_fp16": test_sim_numbers.widened,
    "words as they are": test_sim_numbers.as_they_are,
    **_named("rounded to", test_sim_numbers.rounded, ("fp16",), ("bf16",)),
    **_named("pair of", test_sim_numbers.rounded_pairs, ("fp16",), ("bf16",)),
    **_named("of pairs", test_sim_numbers.of_pairs, ("difference",), ("product",)),
    **_named("four bytes", test_sim_numbers.four_bytes, *product(("i8", "u8", "fp8e4m3", "fp8e5m2"), (False, True))),
    **_named("pair of eight bits", test_sim_numbers.pair_of_eight, ("fp8e4m3",), ("fp8e5m2",)),
    "raised pairs": test_sim_numbers.raised_pairs,
    **_named("bytes", test_sim_numbers.bytes_of_words, (4, 5), (6, 7), (5, 5)),
    **_named("byte twice", test_sim_numbers.byte_twice, (0,), (4,), (16,), (28,)),
    **_named("halves of words", test_sim_numbers.halves_of_words, (0,), (12,), (16,), (28,)),
    "store_words_last": test_sim_numbers.stored,
    **_named("load", test_sim_numbers.loaded, ("once",), ("line",), ("kept",), ("last",)),
    **_named("extreme", test_sim_numbers.extreme, ("max",), ("min",)),
    "exp2_approx": partial(test_sim_numbers.exponential, is_special=False),
    "exp2_approx of special numbers": partial(test_sim_numbers.exponential, is_special=True),
    "recip_approx": partial(test_sim_numbers.reciprocal, is_special=False),
    "recip_approx of special numbers": partial(test_sim_numbers.reciprocal, is_special=True),
    "copy_16": test_sim_numbers.copied,
    **_named("rows stored", test_store_rows.rows_stored, *((number,) for number in range(len(test_store_rows.SHAPES)))),
    **_named("rows held", test_store_rows.rows_held, *((number,) for number in range(24))),
    "tf32_of": test_tf32.rounded,
    **test_sim_barriers.TRIALS,
    "cp_async": test_sim_copies.cp_async,
    **_named(
        "tensor load",
        test_sim_copies.tensor_load,
        *((*box, is_swizzled) for box in test_sim_copies.BOXES for is_swizzled in (False, True)),
    ),
    **_named("streamed load", test_sim_copies.streamed_load, *{len(b[0]): b for b in test_sim_copies.BOXES}.values()),
    "tensor load by a fetched map": test_sim_copies.load_through_a_fetched_map,
    **_named(
        "tensor store",
        test_sim_copies.tensor_store,
        *((*box, is_swizzled) for box in test_sim_copies.STORED_BOXES for is_swizzled in (False, True)),
    ),
    "tensor store that is read": test_sim_copies.store_that_is_read,
    **_named("multicast", test_sim_copies.multicast, *test_sim_copies.MULTICASTS),
    **_named("load of windows", test_sim_windows.load_of_windows, *((load,) for load in test_sim_windows.LOADS)),
    **_named(
        "multicast of windows",
        test_sim_windows.multicast_of_windows,
        *((load,) for load in test_sim_windows.MULTICASTS),
    ),
    **_named("tiles", test_sim_matrix.tiles_of, *test_sim_matrix.TILES),
    **_named("mma of", test_sim_matrix.warp_product, ("fp16",), ("bf16",)),
    "mma of tf32": test_tf32.warp_product,
    **_named("wgmma of layout", test_sim_matrix.product_in_layout, *test_sim_matrix.LAYOUTS),
    **_named("wgmma of tf32 across the sum", test_tf32_wgmma.product_of_words, ("across", 64), ("across", 256)),
    **{name: trial for trials in PRODUCTS.values() for name, trial in trials.items()},
    **_named("mma of special numbers", partial(test_sim_matrix.warp_product, is_special=True), ("fp16",), ("bf16",)),
    "mma of special numbers of tf32": partial(test_tf32.warp_product, is_special=True),
    **_named(
        "wgmma of special numbers",
        partial(test_sim_matrix.product_of_shared, 64, is_special=True),
        ("fp16",),
        ("bf16",),
    ),
    **_named(
        "wgmma of special bytes",
        partial(test_fp8.product_of_bytes, 64, is_special=True),
        ("fp8e4m3", "fp8e5m2"),
        ("fp8e5m2", "fp8e4m3"),
    ),
    **_named(
        "wgmma of special words",
        partial(test_tf32_wgmma.product_of_words, n=64, is_special=True),
        ("shared",),
        ("along",),
    ),
    **_named("whole kernel", whole_kernel, ((256, 64, 64), 2), ((1000, 136, 72), 6)),
}
