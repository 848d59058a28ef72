"""The blocks of a poly text and the edges between them: what `ir.poly` reads and prints, and what each word of theirs
means."""

from __future__ import annotations

from typing import Any

from ..kit.records import dataclass, field
from ..kit.span import Span, Spanned
from . import index, tiny
from .expr import Expr
from .sets import identifiers, read_map, read_set

KINDS = ("contraction", "reduction", "elementwise", "movement", "scan", "gather", "scatter", "opaque")
ROLES = ("batch", "left", "right", "sum")


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the sets: a symbol, or a name for a size that isl cannot hold."""

    name: str
    means: Expr


@dataclass(frozen=True, slots=True)
class Window:
    """Axis `axis` of `source` is read at `index`, which mixes a sum axis with another."""

    source: str
    axis: int
    index: Expr


@dataclass(frozen=True, slots=True)
class Reading(Spanned):
    """What a block reads of `source` (a value or an input): the isl map from its instances to elements."""

    source: str
    relation: str


@dataclass(frozen=True, slots=True)
class Block(Spanned):
    """The instances that compute one value. `domain` is an isl set, `write` an isl map; the axes are names of the
    domain's."""

    name: str
    kind: str
    pattern: str | None
    domain: str
    reads: tuple[Reading, ...]
    write: str
    fuses: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    sum: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    places: tuple[tuple[str, Span], ...] = field(
        default=(), compare=False, kw_only=True, repr=False
    )  # of lines, by word

    def place_of(self, word: str) -> Span | None:
        """Where the text has the line of this word, or else the block."""
        return dict(self.places).get(word, self.span)


@dataclass(frozen=True, slots=True)
class Edge(Spanned):
    """`target` depends on `source`; kind is true, anti or output; `relation` is the isl map between their instances."""

    source: str
    target: str
    kind: str
    relation: str


@dataclass(frozen=True, slots=True)
class Module:
    """A poly text: the index module, the parameters, the blocks in the program's order, the edges in the order of their
    targets."""

    index: index.Module
    params: tuple[Param, ...]
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]

    def block_of(self) -> dict[str, Block]:
        """Every block by its name."""
        return {b.name: b for b in self.blocks}

    def set_of(self, text: str) -> Any:
        """The isl set (islpy.Set) of a domain's text."""
        return read_set(text, tuple(p.name for p in self.params))

    def map_of(self, text: str) -> Any:
        """The isl map (islpy.Map) of a relation's text."""
        return read_map(text, tuple(p.name for p in self.params))


def tuple_names(program: tiny.Module) -> dict[str, str]:
    """The isl tuple name of every input and value."""
    return identifiers([*(t.name for t in program.model.inputs), *(v.name for v in program.values)])
