"""What a family takes in a field of a plan.

A family's `fields(case)` names every field that it obeys, each with what it takes there. A plan that says more, or
something else, is refused (`kernels.check.accepted`), so that no field of a plan goes unnoticed.

    "barrier": only("mbarrier")                         one value
    "swap_ab": only(False, True)                        several
    "tile":    where("[64*n, 16*n <= 256, 64*n]", ...)  all of a form, which is told in the plan's own notation
    "assume":  ANYTHING                                 other checks judge it, and every value changes the kernel
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..ir.body import Axis
from ..ir.plan import Bind
from ..ir.plan.table import Field
from ..kit.records import dataclass, is_dataclass


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a family takes in a field: the `values`, or what `takes` says of a value, told by `form`."""

    values: tuple[Any, ...] = ()
    takes: Callable[[Any], bool] | None = None
    form: str = ""

    def is_met(self, value: Any) -> bool:
        """Whether the family obeys the value. The order of items (of `cache`, `bind` ...) says nothing."""
        if self.takes is not None:
            return self.takes(value)
        return any(value == one or _is_same_set(value, one) for one in self.values)

    def told(self, field: Field) -> str:
        """What is taken, in the notation of the text; `-` is a plan without the field."""
        return self.form or " | ".join(_ranged([field.text(value) for value in self.values]))


def _ranged(texts: list[str]) -> Iterator[str]:
    """Texts whose one number counts up as one: `prefetch 2`, `prefetch 3`, `prefetch 4` are `prefetch 2..4`."""
    parts = [re.fullmatch(r"(\D*)(\d+)(\D*)", text) for text in texts]
    runs = itertools.groupby(
        range(len(texts)), lambda at: (found[1], found[3], int(found[2]) - at) if (found := parts[at]) else texts[at]
    )
    for _, run in runs:
        first, *rest = run
        if len(rest) > 1 and (found := parts[first]):
            yield f"{found[1]}{found[2]}..{int(found[2]) + len(rest)}{found[3]}"
        else:
            yield from (texts[at] for at in (first, *rest))


Fields = dict[str, Accepts]  # by word
ANYTHING = Accepts(takes=lambda _: True, form="...")


def only(*values: Any) -> Accepts:
    """These values and no other."""
    return Accepts(values)


def where(form: str, takes: Callable[[Any], bool]) -> Accepts:
    """The values of a form."""
    return Accepts(takes=takes, form=form)


def bound(*ways: tuple[Iterable[str], str]) -> Accepts:
    """These axes at these places, and no other; what has no axes is not bound."""
    return only(tuple(Bind(tuple(axes), place) for axes, place in ways if tuple(axes)))


def bound_freely(
    cta: Iterable[tuple[Axis, ...]], thread: Iterable[tuple[tuple[Axis, ...], str]], counted: tuple[Axis, ...] = ()
) -> Accepts:
    """The numbers of tiles along each group of axes `cta`, and the numbers `counted` of a batch, at places of the grid,
    one for each; and the places inside of a tile along each group of `thread`, at its place or at any of the CTA's."""
    tiles = {tuple(f"{a.name}.o" for a in group): "cta." for group in cta if group}
    tiles |= {tuple(a.name for a in counted): "cta."} if counted else {}
    known = tiles | {tuple(f"{a.name}.i" for a in group): place for group, place in thread if group}

    def takes(binds: tuple[Bind, ...]) -> bool:
        places = [b.place for b in binds]
        return len(set(places)) == len(places) and all(b.place.startswith(known.get(b.axes, "-")) for b in binds)

    ways = ((axes, f"{place}x|y|z" if place.endswith(".") else place) for axes, place in known.items())
    return where(", ".join(f"{'*'.join(axes)} -> {places}" for axes, places in ways), takes)


def _is_same_set(value: Any, one: Any) -> bool:
    """Whether two tuples have the same items, each of several parts; a tuple of counts or of names has an order."""
    if not isinstance(value, tuple) or not isinstance(one, tuple) or len(value) != len(one):
        return False
    return all(map(is_dataclass, (*value, *one))) and set(value) == set(one)
