"""What the families of contractions take alike in the fields of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.plan import Cache, Layout, Order
from ..accepts import Accepts, only, where
from ..problem import Contraction


def tensors_of(kernel: Contraction) -> tuple[str, ...]:
    """The tensors of the factors, each once."""
    return tuple(dict.fromkeys((kernel.lhs.tensor, kernel.rhs.tensor)))


def cached(kernel: Contraction) -> tuple[Cache, ...]:
    """The factors' tiles in shared memory, refilled at each step along the sum."""
    return tuple(Cache(tensor, "smem", f"{kernel.sum[0].name}.o") for tensor in tensors_of(kernel))


def grouped(may_be_drawn: bool = False) -> Accepts:
    """Tiles column by column, or in groups of rows of tiles; such groups drawn of a counter."""
    words = ("group", "drawn")[: 1 + may_be_drawn]

    def takes(order: Order | None) -> bool:
        return order is None or order.by in words and order.width >= 1

    return where(" | ".join(("-", *(f"{word} n, 1 <= n" for word in words))), takes)


def copies(ways: dict[str, Iterable[str]], siblings: int) -> Accepts:
    """Copies of tensors, each one of its ways; a plan of siblings reads none."""
    if siblings > 1:
        return only(())
    told = " | ".join(f"{tensor} {way}" for tensor, hints in ways.items() for way in hints)

    def takes(given: tuple[Layout, ...]) -> bool:
        names = [item.tensor for item in given]
        return len(set(names)) == len(names) and all(item.hint in ways.get(item.tensor, ()) for item in given)

    return where(f"- | {told}" if told else "-", takes)
