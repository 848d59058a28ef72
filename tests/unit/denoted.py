"""What maps and sets of a text denote, by listing all points for a few sizes: a second opinion on isl, which has no
part in it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping

from tinyir.ir.index import Access, Entry, Module
from tinyir.ir.ops import OPS

Point = tuple[int, ...]
WIDE = range(-1, 6)  # what a variable of a set may be; one beyond either end of the axes that tests use
NAME = re.compile(r"[A-Za-z_][\w']*")


def points_of(text: str, sizes: Mapping[str, int]) -> set[tuple[Point, ...]]:
    """The points of an isl set, or the pairs of points of an isl map, whose variables are in WIDE."""
    found: set[tuple[Point, ...]] = set()
    for piece in text.strip().removeprefix("{").removesuffix("}").split(";"):
        head, _, condition = piece.partition(" : ")
        places, tuples = [], []
        for inside in re.findall(r"\[([^\]]*)\]", head):
            items = [item.partition("=") for item in inside.split(",") if item.strip()]
            places += [(left, right) for left, sign, right in items if sign]
            tuples.append([_code(right if sign else left) for left, sign, right in items])
        wanted = " and ".join([condition.strip() or "True", *(f"({a}) == ({b})" for a, b in places)])
        test = compile(_code(wanted), "set", "eval")
        codes = [[compile(item.strip(), "item", "eval") for item in one] for one in tuples]
        names = [
            n for n in dict.fromkeys(NAME.findall(f"{head.replace('[', ' [ ')} {wanted}")) if n not in _words(head)
        ]
        free = [n for n in names if n not in sizes]
        for at in itertools.product(WIDE, repeat=len(free)):
            scope = {**sizes, **{n.replace("'", "_"): v for n, v in zip(free, at)}, "floor": math.floor}
            if eval(test, {"__builtins__": {}}, scope):  # noqa: S307 - the text is the test's own
                found.add(tuple(tuple(eval(c, {"__builtins__": {}}, scope) for c in one) for one in codes))  # noqa: S307
    return found


def _words(head: str) -> set[str]:
    return {"and", "or", "not", "floor", "True"} | set(re.findall(r"([A-Za-z_]\w*)\[", head))


def _code(text: str) -> str:
    """isl's notation as Python's: `a = b` compares, and names have no primes."""
    return re.sub(r"(?<![<>=!])=(?!=)", "==", text.replace("'", "_"))


def elements_of(module: Module, entry: Entry, access: Access, sizes: Mapping[str, int]) -> Iterator[object]:
    """What an access gives at each point of its entry, read through the movements of the program down to what is
    computed or an input: (name, place), or a constant."""
    values, entries = module.tiny.value_of(), module.entry_of()
    extents = [range(a.size.evaluate(sizes)) for a in entry.axes]
    for at in itertools.product(*extents):
        given = access.at({**sizes, **dict(zip((a.name for a in entry.axes), at))})
        while isinstance(given, tuple) and given[0] in values and OPS[values[given[0]].op].is_movement:
            below = entries[given[0]]
            given = below.reads[0].at({**sizes, **{f"i{n}": i for n, i in enumerate(given[1])}})
        yield given
