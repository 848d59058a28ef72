"""Matrices in registers in a dry run: which hold something, and which the threads have touched since they last told the
tensor cores of it.

Threads and wgmma do not see one another's registers by themselves: `fence wgmma` comes before the first product, and
between what threads do to an accumulator or an operand and the next product of it. Products of one accumulator need
none between them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....kit.records import dataclass, field
from ..nodes import Place, Wgmma
from .memory import Here

Key = tuple[str, int | None]  # a matrix, and its slot


@dataclass
class Registers:
    """The matrices of one party of threads."""

    filled: set[Key] = field(default_factory=set)
    touched: set[Key] = field(default_factory=set)  # since the last fence
    unread: set[Key] = field(default_factory=set)  # sums that nobody has read
    is_fenced: bool = False

    def fence(self) -> None:
        """`fence wgmma`."""
        self.touched.clear()
        self.is_fenced = True

    def read(self, here: Here, keys: Iterable[Key], place: Place) -> None:
        """Threads read a matrix, in one of these slots."""
        found = set(keys)
        if not found & self.filled:
            raise here.fault("E1622", place=str(place))
        self.touched |= found
        self.unread -= found

    def write(self, keys: Iterable[Key]) -> None:
        """Threads write a matrix."""
        found = set(keys)
        self.filled |= found
        self.touched |= found

    def multiply(self, here: Here, s: Wgmma, acc: Key, operands: set[Key], is_new: bool) -> None:
        """A product is added to what `acc` holds, or begins a sum there."""
        for key in (*operands, *(() if is_new else (acc,))):
            if key not in self.filled:
                raise here.fault("E1622", place=key[0])
        for key in (acc, *operands):
            if key in self.touched or not self.is_fenced:
                raise here.fault("E1626", name=key[0], token=s.token)
        if is_new and acc in self.unread:
            raise here.fault("E1627", name=acc[0], token=s.token)
        self.unread -= operands
        self.unread.add(acc)
        self.filled.add(acc)
