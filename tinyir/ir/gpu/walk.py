"""A walk over a kernel's statements with what holds at each: the names in scope, the facts, the statements around."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...kit.records import dataclass, fields, is_dataclass
from ..body import Body, Read, Ref, Unary, walk
from ..expr import ONE, ZERO, Expr
from ..intervals import LARGEST_SIZE, Interval
from ..model import Model
from . import nodes
from .extremes import EXTREMES
from .nodes import Kernel, Place, Statement
from .prove import Facts

AXES = ("x", "y", "z")
WARPGROUP_NAMES = frozenset(("warpgroup.index", "warpgroup.thread"))
THREAD_NAMES = WARPGROUP_NAMES | {*(f"thread.{a}" for a in AXES), "thread.index", "warp.index", "lane"}
GIVEN = frozenset(("arch", "by", "kind", "math", "op", "scope", "unit"))  # fields of words that the language gives
PLACE_NAMES = THREAD_NAMES | {*(f"cta.{a}" for a in AXES), "cluster.rank"}


@dataclass(frozen=True, slots=True)
class Visit:
    """One statement. `names` are the integer names in scope and what defined each (None for symbols and places);
    `arrays` what is declared, of picked maps the first; `facts` hold before the statement, `inside` also for its `over`
    axes; `path` are the blocks around it."""

    statement: Statement
    path: tuple[Statement, ...]
    names: Mapping[str, Any]
    arrays: Mapping[str, Any]
    values: frozenset[str]
    facts: Facts
    inside: Facts


def visits(kernel: Kernel, model: Model) -> Iterator[Visit]:
    """Every statement in order, blocks before what is in them."""
    facts = start_of(kernel, model)
    names = dict.fromkeys((*model.symbols(), *PLACE_NAMES))
    yield from _block(kernel.body, (), names, {}, frozenset(), facts)


def start_of(kernel: Kernel, model: Model) -> Facts:
    """What holds where a kernel starts: the ranges of symbols and of the thread's place."""
    facts = Facts(
        {s: Interval(r.low, min(r.high, LARGEST_SIZE)) for s in model.symbols() for r in (model.range_of(s),)}
    )
    for axis, count, size in zip(AXES, (*kernel.grid, ONE, ONE), (*kernel.block, 1, 1)):
        facts = facts.with_range(f"cta.{axis}", ZERO, count).with_range(f"thread.{axis}", ZERO, Expr.of(size))
    warps = -(-kernel.threads // 32)
    counts = {
        "thread.index": kernel.threads,
        "warp.index": warps,
        "lane": 32,
        "warpgroup.index": -(-warps // 4),
        "warpgroup.thread": 128,
    }
    for name, count in (*counts.items(), ("cluster.rank", math.prod(kernel.cluster))):
        facts = facts.with_range(name, ZERO, Expr.of(count))
    return facts


def _block(
    body: Iterable[Statement], path: tuple, names: dict, arrays: dict, values: frozenset, facts: Facts
) -> Iterator[Visit]:
    names, arrays = dict(names), dict(arrays)
    for s in body:
        inside = facts
        for name, size in getattr(s, "over", ()):
            inside = inside.with_range(name, ZERO, size)
        for name, value in getattr(s, "lets", ()):
            inside = inside.with_let(name, value)
        yield Visit(s, path, names, arrays, values, facts, inside)
        blocks = _BLOCKS_OF.get(type(s))
        if blocks is not None:
            for inner, own_names, own_facts in blocks(s, arrays, facts):
                known = {**names, **dict.fromkeys(own_names, s)} if own_names else names
                if isinstance(s, nodes.Role) and s.unit != "warpgroups":  # which may begin inside of a warpgroup
                    known = {n: own for n, own in known.items() if n not in WARPGROUP_NAMES}
                yield from _block(inner, (*path, s), known, arrays, values, own_facts)
            continue
        defined = ()
        if type(s) in _TELLING:
            defined, facts = _known_behind(s, facts)
        if defined:
            names = {**names, **dict.fromkeys(defined, s)}
        elif isinstance(s, (nodes.Shared, nodes.Reg, nodes.Mbarrier, nodes.TensorMap)):
            arrays = {**arrays, s.name: s}
        elif isinstance(s, nodes.Pick):
            arrays = {**arrays, s.name: arrays.get(s.of[0], s)}
        elif isinstance(s, nodes.Value):
            values |= {s.name}


Inner = tuple[Iterable[Statement], tuple[str, ...], Facts]  # a block of a statement, the names and facts of it


def _blocks_of_for(s: nodes.For, arrays: Mapping[str, Any], facts: Facts) -> Iterator[Inner]:
    yield s.body, (s.name,), facts.with_range(s.name, s.low, end_of(s))


def _blocks_of_if(s: nodes.If, arrays: Mapping[str, Any], facts: Facts) -> Iterator[Inner]:
    yield s.body, (), facts.with_guard(s.guard)
    yield s.otherwise, (), facts.with_broken(s.guard)


def _blocks_of_role(s: nodes.Role, arrays: Mapping[str, Any], facts: Facts) -> Iterator[Inner]:
    warpgroups = max(1, s.threads // 128)
    yield s.body, (), facts.with_range("warpgroup.index", ZERO, Expr.of(warpgroups))


def _blocks_of_each(s: nodes.Each, arrays: Mapping[str, Any], facts: Facts) -> Iterator[Inner]:
    array = arrays.get(s.of)
    sizes = map(Expr.of, s.size) if s.size else array.type.shape if isinstance(array, nodes.Reg) else ()
    for name, size in zip(s.names, sizes):
        facts = facts.with_range(name, ZERO, size)
    yield s.body, s.names, facts


_BLOCKS_OF: dict[type, Callable[[Any, Mapping[str, Any], Facts], Iterator[Inner]]] = {
    nodes.For: _blocks_of_for,
    nodes.If: _blocks_of_if,
    nodes.Role: _blocks_of_role,
    nodes.Each: _blocks_of_each,
}


_TELLING = frozenset((nodes.Let, *EXTREMES, nodes.Choose, nodes.Ticket, nodes.Assume, nodes.Order, nodes.Cursor))


def _known_behind(s: Statement, facts: Facts) -> tuple[tuple[str, ...], Facts]:
    """The integer names that a statement defines, and the facts behind it."""
    if isinstance(s, nodes.Let):
        return (s.name,), facts.with_let(s.name, s.value)
    if isinstance(s, EXTREMES):
        return (s.name,), facts.with_extreme(s)
    if isinstance(s, nodes.Choose):
        return (s.name,), facts.with_range(s.name, Expr.of(-1), s.extent)
    if isinstance(s, nodes.Ticket):
        return (s.name,), facts.with_range(s.name, ZERO, s.extent)
    if isinstance(s, nodes.Assume):
        return (), facts.with_guard(s.guard)
    if isinstance(s, nodes.Order):
        names, ends = s.names, s.extents
    elif isinstance(s, nodes.Cursor):
        ring = Expr.of(s.ring)
        names, ends = (f"{s.name}.slot", f"{s.name}.previous", f"{s.name}.phase"), (ring, ring, Expr.of(2))
    else:
        return (), facts
    for name, end in zip(names, ends):
        facts = facts.with_range(name, ZERO, end)
    return names, facts


def tensors_of(kernel: Kernel, module: Any) -> dict[str, Any]:
    """The tensors that a kernel of a module may touch, by name."""
    program = module.plans.program.program
    return {
        t.name: t
        for t in (*module.buffers, *(t for r in map(program.region, kernel.regions) for t in (*r.inputs, *r.outputs)))
    }


def tensor_of(name: str, v: Visit) -> str:
    """The tensor of a name at a statement; of one that is picked the first, which all of them are like."""
    item = v.arrays.get(name)
    return item.of[0] if isinstance(item, nodes.Pick) else name


def end_of(loop: nodes.For) -> Expr:
    """What the loop's name stays below: its last step is whole where the step divides the way."""
    step = loop.step.constant
    whole = step is not None and step > 1 and all(c % step == 0 for c, _ in (loop.high - loop.low).terms)
    return loop.high - loop.step + 1 if whole else loop.high


@functools.cache
def words_held(kind: type, words: tuple[str, ...]) -> tuple[str, ...]:
    """Of these words, those that statements of a kind have a field of."""
    return tuple(word for word in words if hasattr(kind, word))


def bodies_in(s: Statement) -> Iterator[Body]:
    """The value expressions that a statement itself holds."""
    for word in words_held(type(s), ("value", "init")):
        body = getattr(s, word)
        if body is not None and not isinstance(body, Expr):
            yield body


def reads_in(s: Statement) -> Iterator[Body]:
    """Every node of the statement's value expressions."""
    for body in bodies_in(s):
        yield from walk(body)


def places_in(s: Statement) -> Iterator[tuple[str, Place]]:
    """The places of a statement, each with the field that holds it."""
    for word in words_held(type(s), ("to", "low", "source", "on", "a", "b", "barrier")):
        place = getattr(s, word)
        if isinstance(place, Place):
            yield word, place


def names_in(node: Any) -> Iterator[str]:
    """Every name in a statement, or in a part of one, but for one that a `let`, `least` or `most` defines: each word of
    it may be one that the language does not give, as it does ops; torch calls its values `add` and `mul` too."""
    found: list[str] = []
    _add_names(node, found)
    return iter(found)


def _add_names(node: Any, found: list[str]) -> None:
    kind = node.__class__
    if kind is str or isinstance(node, str):
        found.append(node)
    elif kind is Expr:
        found += node.names()
    elif kind is tuple:
        for item in node:
            _add_names(item, found)
    elif kind is nodes.Let:
        found += node.value.names()
    elif kind in EXTREMES:
        _add_names(node.of, found)
    elif is_dataclass(kind):
        for word in _naming(kind):
            _add_names(getattr(node, word), found)


@functools.cache
def _naming(kind: type) -> tuple[str, ...]:
    return tuple(word for word in compared(kind) if word not in GIVEN)


@functools.lru_cache(maxsize=4096)
def read_only_at(kernel: Kernel, tensor: str) -> tuple[frozenset[int], ...] | None:
    """For each axis of a tensor the whole numbers at which a kernel reads it; no numbers where an index varies. None
    where it names it for anything but to read an element."""
    found: list[tuple[Expr, ...]] = []
    named = sum(name == tensor for name in names_in(kernel.body))
    _add_reads(kernel.body, tensor, found)
    if named != len(found) or not found:
        return None
    axes = ({e.constant for e in axis} for axis in zip(*found))
    return tuple(frozenset() if None in at else frozenset(at) for at in axes)


def _add_reads(node: Any, tensor: str, found: list[tuple[Expr, ...]]) -> None:
    if isinstance(node, Read) and node.tensor == tensor and node.slot is None:
        found.append(node.index)
    elif isinstance(node, tuple):
        for item in node:
            _add_reads(item, tensor, found)
    elif is_dataclass(node) and not isinstance(node, Expr):
        for word in compared(type(node)):
            _add_reads(getattr(node, word), tensor, found)


@functools.lru_cache(maxsize=4096)
def rounded_to(kernel: Kernel, name: str) -> str:
    """The name of the one dtype to which every use casts a value or what is kept in a register, itself or as another
    register has it; empty where anything else is done with it."""
    known, found = 0, set()
    for s in statements(kernel.body):
        known += isinstance(s, (nodes.Value, nodes.Reg)) and s.name == name
        known += isinstance(s, nodes.Each) and s.of == name
        if isinstance(s, nodes.Assign):
            known += s.to.name == name
            if isinstance(s.value, Ref) and s.value.name == name:
                known += 1
                found.add(rounded_to(kernel, s.to.name))
        for node in reads_in(s):
            if (
                isinstance(node, Unary)
                and node.op == "cast"
                and name
                in (
                    getattr(node.x, "name", ""),
                    getattr(node.x, "tensor", ""),
                )
            ):
                known += 1
                found.add(node.dtype.name)
    return found.pop() if len(found) == 1 and known == sum(n == name for n in names_in(kernel.body)) else ""


def is_for_matrices(kernel: Kernel, name: str) -> bool:
    """Whether all that is done with a value is to store it by stmatrix, which rounds what it is given, or to keep it
    for what is rounded so."""
    stores = uses = 0
    for s in statements(kernel.body):
        if isinstance(s, nodes.Store) and s.by == "stmatrix":
            stores += isinstance(s.value, Ref) and s.value.name == name
        elif isinstance(s, nodes.Assign) and isinstance(s.value, Unary) and s.value.op == "cast":
            is_it = isinstance(s.value.x, Ref) and s.value.x.name == name
            stores += is_it and rounded_to(kernel, s.to.name) == s.value.x.dtype.name
        uses += sum(isinstance(node, Ref) and node.name == name for node in reads_in(s))
    return 0 < stores == uses


def own_names_in(s: Statement) -> Iterator[str]:
    """Every name in a statement, but for those in the blocks that it holds."""
    if not words_held(type(s), ("body", "otherwise")):
        return names_in(s)
    return names_in(tuple(getattr(s, word) for word in compared(type(s)) if word not in ("body", "otherwise")))


@functools.cache
def compared(kind: type) -> tuple[str, ...]:
    """The names of the fields of a kind by which its objects are compared."""
    return tuple(f.name for f in fields(kind) if f.compare)


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, blocks before what is in them."""
    found: list[Statement] = []
    _add_statements(body, found)
    return iter(found)


def _add_statements(body: Iterable[Statement], found: list[Statement]) -> None:
    for s in body:
        found.append(s)
        for word in words_held(type(s), ("body", "otherwise")):
            _add_statements(getattr(s, word), found)
