"""What the fields of a plan may say. Kinds of problem and algos are the families' (`kernels`).

`math` says how tensor cores, whose fp32 factors have 11 bits, multiply fp32: `tf32` rounds each factor to 11 bits,
`tf32x3` writes it as the sum of two such numbers and adds three products, which is as exact as fp32 (`target.tf32`).
Without it fp32 is multiplied as it is, by no tensor core. `atomics unordered` lets updates be folded in the order in
which threads come where that changes the bits (`ir.scatters`)."""

from __future__ import annotations

UNORDERED = "unordered"
WORDS: dict[str, tuple[str, ...]] = {
    "place": (
        "cta.x",
        "cta.y",
        "cta.z",
        "thread.x",
        "thread.y",
        "thread.z",
        "warp.x",
        "warp.y",
        "warpgroup",
    ),
    "cache": ("smem", "reg"),
    "load": ("ld", "cp_async", "tma", "windows"),
    "way": ("", "im2col", "halo", "streamed"),
    "store": ("global", "tma", "rows", "columns"),
    "consumers": ("cooperative", "pingpong"),
    "order": ("group", "drawn"),
    "split_k": ("cluster",),
    "swap_ab": ("true", "false"),
    "overlap": ("epilogue",),
    "barrier": ("cta", "cp_async_group", "mbarrier"),
    "layout": ("padded", "padded_once", "turned", "turned_once"),
    "edge": ("reg", "smem"),
    "swizzle": ("0", "32", "64", "128"),
    "math": ("tf32", "tf32x3"),
    "atomics": (UNORDERED,),
}
LEAST_SUM = {
    "": 1,
    "tf32": 1,
    "tf32x3": 128,
}  # products, by `math`: from 128 on the roundings of fp32 outweigh what `tf32x3` leaves out


def least_sum(depth: int, parts: int, math: str) -> int:
    """Elements along the sum without which some of the parts would have no tile of this depth, or `math` would not
    be as exact as fp32."""
    return max(depth * (parts - 1) + 1, LEAST_SUM[math])
