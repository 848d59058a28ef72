"""The words of a plan: the algos of each family, the fields that an algo cannot do without, and what a field may say.

`math` says how tensor cores, whose fp32 factors have 11 bits, multiply fp32: `tf32` rounds each factor to so many,
`tf32x3` writes it as the sum of two such numbers and adds three products, which is as exact as fp32 (`target.tf32`).
Without it fp32 is multiplied as it is, by no tensor core. `atomics unordered` lets updates be folded in the order in
which threads come where that changes the bits (`ir.scatters`)."""

from __future__ import annotations

UNORDERED = "unordered"
FAMILIES: dict[str, tuple[str, ...]] = {
    "contraction": (
        "synchronous",
        "multistage",
        "implicit_gemm",
        "warp_specialized",
        "gemv",
        "streaming",
        "streaming_softmax",
    ),
    "row": ("row_resident", "row_streamed"),
    "scan": ("scan_block", "scan_thread", "scan_look_back"),
    "map": ("flat", "transposed", "scatter_atomic"),
    "plain": ("plain",),
}
NEEDS: dict[str, tuple[str, ...]] = {
    "synchronous": ("micro", "threads"),
    "multistage": ("warp_tile", "threads"),
    "implicit_gemm": ("warp_tile", "threads"),
    "warp_specialized": ("consumers",),
    "gemv": ("micro", "threads"),
    "streaming": ("micro", "threads"),
    "streaming_softmax": ("consumers",),
    "row_resident": ("threads",),
    "row_streamed": ("threads",),
    "scan_block": ("threads",),
    "scan_thread": ("threads",),
    "scan_look_back": ("threads",),
    "flat": ("micro", "threads"),
    "transposed": ("micro", "threads"),
    "scatter_atomic": ("micro", "threads"),
    "plain": ("threads",),
}
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
        "warp.z",
        "warpgroup",
        "lane",
    ),
    "cache": ("smem", "reg"),
    "load": ("ld", "cp_async", "gather", "tma"),
    "store": ("global", "tma", "rows"),
    "consumers": ("cooperative", "pingpong"),
    "order": ("group", "hilbert"),
    "split_k": ("cluster", "serial", "workspace", "atomic"),
    "overlap": ("epilogue",),
    "barrier": ("none", "cta", "cp_async_group", "mbarrier"),
    "layout": ("row_major", "col_major", "channels_last", "packed", "padded", "padded_once", "turned", "turned_once"),
    "edge": ("reg", "smem", "smem_ring"),
    "swizzle": ("0", "32", "64", "128"),
    "math": ("tf32", "tf32x3"),
    "atomics": (UNORDERED,),
}
LEAST_SUM = {
    "": 1,
    "tf32": 1,
    "tf32x3": 128,
}  # products, by `math`: from 128 on the roundings of fp32 outweigh what `tf32x3` leaves out
STREAMING = ("streaming", "streaming_softmax")  # of two regions joined by a deferred buffer
