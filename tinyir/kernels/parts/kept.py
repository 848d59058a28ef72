"""What registers keep: of a row from one pass to the next, and of neighbours that move in one access."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator

from ...ir.body import (
    Body,
    BroadcastInDim,
    Gather,
    Random,
    Read,
    Reduce,
    Ref,
    Select,
    Transpose,
    operands_of,
    walk,
)
from ...ir.present import names_in
from ...ir.region import Region
from ...ir.traits import bodies_of
from ..problem import Row
from .point import free_axes, is_in_place


def words_beside(region: Region, along: Collection[str], is_row: bool) -> int:
    """32-bit registers that a thread needs for one of the neighbours along axes that it moves in one access: of all
    that it reads of them, and of a map's folds and writes."""
    words = _words(_moved(region, frozenset(along)))
    if is_row:
        return words
    folds = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Reduce)]
    return words + _words(folds) + _words([y.expr for y in region.yields])


def bytes_beside(region: Region, along: Collection[str]) -> int:
    """Bytes that a thread reads of one of the neighbours along axes, of all tensors."""
    return sum(body.dtype.bytes for body in dict.fromkeys(_moved(region, frozenset(along))) if isinstance(body, Read))


def words_resident(region: Region, kernel: Row) -> int:
    """32-bit registers that a thread needs for one element of a row that stays in registers from pass to pass."""
    return _words(used_twice(region, {a.name for a in kernel.row if a in region.iters}))


def words_held(region: Region, kernel: Row) -> int:
    """32-bit registers of one element of a resident row at most at once: a pass that makes what later ones need of
    what it took lets that go."""
    row = {a.name for a in kernel.row if a in region.iters}
    lives = [(turns, _words((node,))) for node, turns in _turns(region, row).items()]
    most = max((turn for turns, _ in lives for turn in turns), default=0)
    return max((sum(w for turns, w in lives if turns[0] <= turn < turns[1]) for turn in range(most)), default=0)


def reads_along(region: Region, along: Collection[str]) -> int:
    """Tensors, or places of them, that are read along axes."""
    return sum(isinstance(body, Read) for body in dict.fromkeys(_moved(region, frozenset(along))))


def _turns(region: Region, row: Collection[str]) -> dict[Body, tuple[int, int]]:
    """For what registers keep of a row the first pass and the last that use it; all writes are one pass."""
    held, made, found = used_twice(region, row), set[Body](), dict[Body, tuple[int, int]]()
    bodies = _pass_bodies(region, row)
    folds = sum(isinstance(n, Reduce) for let in region.lets for n in walk(let.expr))
    for number, body in enumerate(bodies):
        turn = min(number, folds)
        used = _reached(region, row, body, made) & held
        found |= {node: (found.get(node, (turn, turn))[0], turn) for node in used}
        made |= used
    return found


@functools.lru_cache(maxsize=1024)
def _moved(region: Region, along: frozenset[str]) -> tuple[Body, ...]:
    """The distinct reads and random numbers that vary along axes; a read once for each place at which it is
    gathered."""
    nodes = dict.fromkeys(found for body in bodies_of(region) for found in _read_in(body, ()))
    return tuple(n for n, _ in nodes if along & names_in(n.index if isinstance(n, Read) else (n.index,)))


def _read_in(body: Body, gathers: tuple[Body, ...]) -> Iterator[tuple[Body, tuple[Body, ...]]]:
    """The reads and random numbers in an expression, each with the gathers around it."""
    if isinstance(body, (Read, Random)):
        yield body, gathers
    around = (*gathers, body) if isinstance(body, Gather) else gathers
    for inner in operands_of(body):
        yield from _read_in(inner, around)


def _words(bodies: Collection[Body]) -> int:
    return sum(max(1, body.dtype.bytes // 4) for body in bodies)


def used_twice(region: Region, row: Collection[str]) -> set[Body]:
    """What varies along the row and is used by more than one pass: values, and reads that are made outside the first
    use of those."""
    values = _in_many_passes(region, row, Ref, frozenset())
    return values | _in_many_passes(region, row, Read, frozenset(values))


def read_late(region: Region, row: Collection[str]) -> list[Read]:
    """What is read along the row behind all folds alone, at places that hang on no data and under no guard: gains and
    biases of a norm, which may be asked for before the folds."""
    bodies = _pass_bodies(region, row)
    written = [y.expr for y in region.yields if y.expr in bodies]
    folded: set[Body] = set()
    for body in bodies[: len(bodies) - len(written)]:
        folded |= _reached(region, row, body, set())
    seen: set[Body] = set()
    late = [n for body in written if folded for n in _plain_reads(region, row, body, seen)]
    kept = used_twice(region, row)
    return [n for n in dict.fromkeys(late) if n not in folded and n not in kept]


def _plain_reads(region: Region, row: Collection[str], body: Body, seen: set[Body]) -> Iterator[Read]:
    """The reads along the row that evaluating the expression makes whatever the data are, but for what is `seen`."""
    if body in seen:
        return
    seen.add(body)
    if isinstance(body, (Select, Gather, Reduce, BroadcastInDim, Transpose)) and not is_in_place(region, body):
        return
    if isinstance(body, Ref) and body.index is None and set(row).intersection(free_axes(region, body)):
        yield from _plain_reads(region, row, region.let(body.name).expr, seen)
    elif isinstance(body, Read) and set(row) & {n for e in body.index for n in e.names()}:
        yield body
    for inner in operands_of(body):
        yield from _plain_reads(region, row, inner, seen)


def read_twice(region: Region, row: Collection[str]) -> set[Body]:
    """The reads along the row that several passes make, where none keeps what it makes of them."""
    return _in_many_passes(region, row, Read, frozenset())


def _in_many_passes(region: Region, row: Collection[str], kind: type, held: frozenset[Body]) -> set[Body]:
    """The values (Ref) or reads (Read) that several passes make, when `held` values are made by the first pass that
    needs them."""
    users: dict[Body, set[int]] = {}
    made: set[Body] = set()
    for number, body in enumerate(_pass_bodies(region, row)):
        for node in _reached(region, row, body, made):
            users.setdefault(node, set()).add(number)
        made |= held & users.keys()
    return {node for node, passes in users.items() if len(passes) > 1 and isinstance(node, kind)}


def _pass_bodies(region: Region, row: Collection[str]) -> list[Body]:
    """The expressions that one pass each evaluates along the row."""
    bodies: list[Body] = []
    for let in region.lets:
        bodies += [n.body for n in walk(let.expr) if isinstance(n, Reduce)]
    return [*bodies, *(y.expr for y in region.yields if set(row) & {n for e in y.index for n in e.names()})]


def _reached(region: Region, row: Collection[str], body: Body, made: set[Body]) -> set[Body]:
    """Row-varying values and reads that evaluating the expression needs, through values that it refers to, but for
    those that are made already."""
    found: set[Body] = set()
    stack = [body]
    while stack:
        for node in walk(stack.pop()):
            if (
                isinstance(node, Ref)
                and node.index is None
                and set(row).intersection(free_axes(region, node))
                and node not in found
            ):
                found.add(node)
                if node not in made:
                    stack.append(region.let(node.name).expr)
            elif isinstance(node, Read) and set(row) & {n for e in node.index for n in e.names()}:
                found.add(node)
    return found
