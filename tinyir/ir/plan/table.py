"""The fields of a plan, each declared once: its word in the text, how it is read and written, the words that it may
hold, and what it means. The parser, the printer, the verifier and the reference page all read this table; what a family
takes in a field is the family's own affair (`kernels.check.accepted`).

To add a field: an attribute of `fields.Plan` with its default, a rule in grammars/plan.lark, a row here, and in each
family that obeys it an entry of its `fields`; every other family then refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...kit.records import dataclass, fields
from ...kit.text import show_list
from ..expr import show_guard
from ..model import show_name
from ..read import guard_of, name_of
from .fields import (
    Async,
    Bind,
    Cache,
    Cluster,
    Consumers,
    Edge,
    Estimate,
    Layout,
    Load,
    Order,
    Plan,
    Regs,
    SplitK,
    Store,
    Vectorize,
)
from .words import WORDS

Words = Callable[[Any], Iterable[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a plan.

    Its `word` in the text is the attribute of Plan, but for Python's own words. `read` makes its value of the children
    of the grammar's rule, `show` its text of the value. `words` gives the words in a value, each with the kind of
    `words.WORDS` that it must be of. `is_shown`: the text has the field even where it is at its default.
    """

    word: str
    meaning: str
    read: Callable[[list[Any]], Any]
    show: Callable[[Any], str]
    words: Words = lambda _: ()
    is_shown: bool = False
    attribute: str = ""

    @property
    def name(self) -> str:
        """The attribute of Plan."""
        return self.attribute or self.word

    @property
    def default(self) -> Any:
        """The value of a plan that does not have the field; kit.records.MISSING where every plan has it."""
        return _DEFAULTS[self.name]

    def of(self, plan: Plan) -> Any:
        """The field's value in a plan."""
        return getattr(plan, self.name)

    def is_default(self, plan: Plan) -> bool:
        """Whether a plan says nothing in this field."""
        return self.of(plan) == self.default

    def text(self, value: Any) -> str:
        """A value as the text has it; `-` for that of a plan that does not have the field."""
        return "-" if value in (None, (), "") else self.show(value)

    def unknown_words(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """The words of a plan's field that no plan may hold, each with its kind."""
        if not self.is_default(plan):
            yield from ((kind, word) for kind, word in self.words(self.of(plan)) if word not in WORDS[kind])


def _name(tree: Any) -> str:
    return name_of(tree.children[0])


def _names(tree: Any) -> tuple[str, ...]:
    return tuple(_name(n) for n in tree.children if n is not None)


def _counts(tree: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in tree.children)


def _only(read: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda parts: read(parts[0])


def _each(read: Callable[..., Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda items: tuple(read(*item.children) for item in items)


def show_microseconds(value: float) -> str:
    """A time as the text has it: no fraction where there is none, else the shortest that reads back the same."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def _name_list(names: Iterable[str]) -> str:
    return show_list(map(show_name, names))


def _joined(write: Callable[[Any], str]) -> Callable[[Iterable[Any]], str]:
    return lambda items: ", ".join(write(i) for i in items)


def _show_cluster(c: Cluster) -> str:
    return show_list(c.shape) + (f"  multicast {_name_list(c.multicast)}" if c.multicast else "")


def _show_load(item: Load) -> str:
    way = f" {item.way}" if item.way else ""
    return f"{show_name(item.tensor)} {item.by}{way}" + (f" swizzle {item.swizzle}" if item.swizzle else "")


def _show_edge(e: Edge) -> str:
    return f"{show_name(e.source)} -> {show_name(e.target)} {e.buffer} depth {e.depth}"


def _show_estimate(e: Estimate) -> str:
    stack = f"  stack {e.stack} B" if e.stack else ""
    return (
        f"{show_microseconds(e.microseconds)} us  bound {e.bound}  smem {e.smem} B  regs {e.regs}  occupancy "
        f"{e.occupancy} CTA/SM{stack}"
    )


def _each_word(kind: str, word: Callable[[Any], str]) -> Words:
    return lambda items: ((kind, word(item)) for item in items)


def _words_of_load(items: Iterable[Load]) -> Iterator[tuple[str, str]]:
    for item in items:
        yield "load", item.by
        yield "way", item.way
        yield "swizzle", str(item.swizzle)


SAID = {"true": True, "false": False}
TABLE: tuple[Field, ...] = (
    Field("algo", "the family of kernels that makes it", _only(str), str, is_shown=True),
    Field(
        "tile", "elements that a CTA computes at once, in the family's order", _only(_counts), show_list, is_shown=True
    ),
    Field("warp_tile", "rows and columns of the tile that a warp computes", _only(_counts), show_list),
    Field("micro", "elements of the tile that a thread computes, in the tile's order", _only(_counts), show_list),
    Field("threads", "threads of a CTA along x, y, z", _only(_counts), show_list),
    Field("stages", "tiles that a ring in shared memory has room for", _only(int), str, is_shown=True),
    Field("math", "how tensor cores multiply fp32", _only(str), str, lambda word: (("math", word),)),
    Field("promote", "elements of the sum after which a partial sum is added in fp32", _only(int), str),
    Field("partials", "partial sums that are held, one added while the other runs", _only(int), str),
    Field("atomics", "whether updates may be folded in any order", _only(str), str, lambda word: (("atomics", word),)),
    Field(
        "consumers",
        "warpgroups that compute, and whether they share a tile or take turns",
        lambda p: Consumers(int(p[0]), str(p[1])),
        lambda c: f"{c.count} {c.mode}",
        lambda c: (("consumers", c.mode),),
    ),
    Field(
        "cluster",
        "CTAs of a cluster along the tile's rows and columns, and the tensors that are fetched for all of them",
        lambda p: Cluster(_counts(p[0]), _names(p[1]) if p[1] is not None else ()),
        _show_cluster,
    ),
    Field(
        "regs",
        "registers of a thread of the producer and of the consumers",
        lambda p: Regs(int(p[0]), int(p[1])),
        lambda r: f"producer {r.producer} consumer {r.consumer}",
    ),
    Field(
        "bind",
        "what each axis or part of one counts: CTAs, threads, warps, warpgroups",
        _each(lambda *p: Bind(tuple(map(str, p[:-1])), str(p[-1]))),
        _joined(lambda b: f"{'*'.join(b.axes)} -> {b.place}"),
        _each_word("place", lambda b: b.place),
    ),
    Field("persistent", "CTAs that walk over the tiles; a CTA for each tile where there is none", _only(int), str),
    Field(
        "order",
        "the order in which tiles are taken: column by column, in groups of rows of tiles, or drawn of a counter",
        lambda p: Order(str(p[0]), int(p[1] or 0)),
        lambda o: f"{o.by} {o.width}" if o.width else o.by,
        lambda o: (("order", o.by),),
    ),
    Field(
        "split_k",
        "CTAs that share the sum of a tile, and how their parts are joined",
        lambda p: SplitK(int(p[0]), str(p[1])),
        lambda s: f"{s.parts} {s.by}",
        lambda s: (("split_k", s.by),),
    ),
    Field(
        "swap_ab",
        "whether the output's columns take the place of a product's rows",
        lambda p: SAID.get(p[0], str(p[0])),
        lambda said: next((word for word, is_so in SAID.items() if said is is_so), said),
        lambda said: (("swap_ab", said),) if isinstance(said, str) else (),
    ),
    Field(
        "cache",
        "tensors whose tiles are kept on the chip, and the axis whose steps refill them",
        _each(lambda tensor, where, at: Cache(_name(tensor), str(where), str(at))),
        _joined(lambda c: f"{show_name(c.tensor)} -> {c.where} at {c.at}"),
        _each_word("cache", lambda c: c.where),
    ),
    Field(
        "load",
        "by which instruction a cached tensor is brought in, and the bytes of a swizzled row of its tile",
        _each(lambda tensor, by, way, swizzle: Load(_name(tensor), str(by), int(swizzle or 0), str(way or ""))),
        _joined(_show_load),
        _words_of_load,
    ),
    Field(
        "store",
        "how an output leaves: from registers, by the copy engine, along its rows, or by neighbours along its columns",
        _each(lambda tensor, by: Store(_name(tensor), str(by))),
        _joined(lambda s: f"{show_name(s.tensor)} {s.by}"),
        _each_word("store", lambda s: s.by),
    ),
    Field(
        "vectorize",
        "neighbours along an axis that move in one access",
        _each(lambda *p: Vectorize("*".join(map(str, p[:-1])), int(p[-1]))),
        _joined(lambda v: f"{v.axis} width {v.width}"),
    ),
    Field("assume", "what must hold of the symbols for this plan to be taken", lambda p: guard_of(p[0]), show_guard),
    Field("predicate", "the axes whose ends are guarded, since the tile may hang over them", _only(_names), show_list),
    Field("epilogue", "the values that follow the accumulator, in order", _only(_names), _name_list),
    Field(
        "async",
        "tiles that loads run ahead, and what they overlap with beside the main loop",
        lambda p: Async(int(p[0]), str(p[1] or "")),
        lambda a: f"prefetch {a.prefetch}" + (f" overlap {a.overlap}" if a.overlap else ""),
        lambda a: (("overlap", a.overlap),) if a.overlap else (),
        attribute="asynchrony",
    ),
    Field(
        "barrier",
        "what tells that a tile has been filled",
        _only(str),
        str,
        lambda word: (("barrier", word),),
    ),
    Field(
        "layout",
        "a copy of a tensor that the kernel reads in its place",
        _each(lambda tensor, hint: Layout(_name(tensor), str(hint))),
        _joined(lambda item: f"{show_name(item.tensor)} {item.hint}"),
        _each_word("layout", lambda item: item.hint),
    ),
    Field(
        "edge",
        "what carries a buffer from one region of the plan to the other",
        _each(lambda source, target, buffer, depth: Edge(_name(source), _name(target), str(buffer), int(depth))),
        _joined(_show_edge),
        _each_word("edge", lambda e: e.buffer),
    ),
    Field(
        "estimate",
        "what the cost model expected; it decides nothing",
        lambda p: Estimate(float(p[0]), str(p[1]), *(int(n) for n in p[2:] if n is not None)),
        _show_estimate,
    ),
)
_DEFAULTS = {f.name: f.default for f in fields(Plan)}
BY_WORD: dict[str, Field] = {f.word: f for f in TABLE}
