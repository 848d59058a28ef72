"""Names that are free among those taken: `y.acc`, then `y.acc2`, `y.acc3`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable


class FreeNames:
    """The names of one text. `numbered` spells a base with a number from 2 on. What is tried for a base goes on from
    the last number that it got, so that many names of one base take as many steps, not their square."""

    def __init__(self, taken: Iterable[str] = (), numbered: Callable[[str, int], str] = "{}{}".format) -> None:
        self.taken = set(taken)
        self._numbered = numbered
        self._last: dict[str, int] = {}

    def name(self, base: str, reserved: Container[str] = ()) -> str:
        """`base`, or the first of its numbered names that is neither taken nor `reserved`; taken from now on."""
        free = base
        if base in self.taken or base in reserved:
            number = self._last.get(base, 1)
            while free in self.taken or free in reserved:
                number += 1
                free = self._numbered(base, number)
            self._last[base] = number
        self.taken.add(free)
        return free
