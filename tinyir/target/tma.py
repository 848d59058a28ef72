"""The copy engine (TMA) as device functions: boxes of a tensor in and out, and loads of windows. Rows of
`target.intrinsics`. Source: PTX ISA 8.0, cp.async.bulk.tensor."""

from __future__ import annotations

Rows = tuple[tuple[str, str], ...]
INLINE = "__device__ __forceinline__ "
MOST_DIMS = 5


def one(signature: str, body: str) -> tuple[str, str]:
    """A function in one line; its name is the word before the first bracket."""
    return signature[: signature.index("(")].split()[-1], f"{INLINE}{signature} {{ {body} }}"


def asm(ptx: str, *operands: str, is_memory: bool = True) -> str:
    """A statement of inline PTX that reads these operands, and other memory where it says so."""
    memory = ' : "memory"' if is_memory else ""
    return (
        f'asm volatile("{ptx}" :: {", ".join(operands)}{memory});'
        if operands
        else f'asm volatile("{ptx}" :::{memory[2:] or " "});'
    )


def _moves(rank: int) -> Rows:
    names = "xyzuv"[:rank]
    places = ", ".join(f"int {n}" for n in names)
    values = [f'"r"({n})' for n in names]

    def at(first: int) -> str:
        return "{" + ", ".join(f"%{first + i}" for i in range(rank)) + "}"

    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    target = ('"r"(shared_address(to))', '"l"(map)', '"r"(shared_address(barrier))')
    to = "void *to, const tensor_map *map, unsigned long long *barrier"
    return (
        one(f"void tma_load_{rank}d({to}, {places})", asm(f"{load} [%0], [%1, {at(3)}], [%2];", *target, *values)),
        one(
            f"void tma_streamed_{rank}d({to}, {places})",
            asm(
                "{ .reg .b64 first; createpolicy.fractional.L2::evict_first.b64 first, 1.0; "
                f"{load}.L2::cache_hint [%0], [%1, {at(3)}], [%2], first; }}",
                *target,
                *values,
            ),
        ),
        one(
            f"void tma_multicast_{rank}d({to}, {places}, unsigned short ctas)",
            asm(f"{load}.multicast::cluster [%0], [%1, {at(4)}], [%2], %3;", *target, '"h"(ctas)', *values),
        ),
        one(
            f"void tma_store_{rank}d(const tensor_map *map, {places}, const void *from)",
            asm(
                f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {at(2)}], [%1];",
                '"l"(map)',
                '"r"(shared_address(from))',
                *values,
            ),
        ),
    )


def _loads_of_windows(rank: int) -> Rows:
    """Loads of windows (im2col mode): the corner of the first one, then how far inside of each."""
    places, offsets = "xyzuv"[:rank], "abc"[: rank - 2]
    taken = ", ".join([*(f"int {n}" for n in places), *(f"int {n}" for n in offsets)])
    values = [*(f'"r"({n})' for n in places), *(f'"h"((unsigned short){n})' for n in offsets)]

    def at(first: int, count: int) -> str:
        return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"

    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    target = ('"r"(shared_address(to))', '"l"(map)', '"r"(shared_address(barrier))')
    to = "void *to, const tensor_map *map, unsigned long long *barrier"
    return (
        one(
            f"void tma_load_windows_{rank}d({to}, {taken})",
            asm(f"{load} [%0], [%1, {at(3, rank)}], [%2], {at(3 + rank, rank - 2)};", *target, *values),
        ),
        one(
            f"void tma_multicast_windows_{rank}d({to}, {taken}, unsigned short ctas)",
            asm(
                f"{load}.multicast::cluster [%0], [%1, {at(4, rank)}], [%2], {at(4 + rank, rank - 2)}, %3;",
                *target,
                '"h"(ctas)',
                *values,
            ),
        ),
    )


TMA: Rows = (
    *(row for rank in range(1, MOST_DIMS + 1) for row in _moves(rank)),
    *(row for rank in range(3, MOST_DIMS + 1) for row in _loads_of_windows(rank)),
)
