"""The fields of a plan: what `ir.plan` reads and writes, and the families of kernels obey."""

from __future__ import annotations

from collections.abc import Mapping

from ...kit.numbers import uniform
from ...kit.records import dataclass, field, replace
from ...kit.span import Span
from ..expr import Bound
from .words import least_sum

ONCE = "_once"  # at the end of a hint: the copy is kept


@dataclass(frozen=True, slots=True)
class Bind:
    """`i0.o*i2.o -> cta.x`: the axes, outermost first, whose joint number the place counts. A place is cta, thread,
    warp, warpgroup or lane, with .x, .y or .z where it has several."""

    axes: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Cache:
    """`A -> smem at k0.o`: the tensor is kept in `where` (smem), and refilled each time the axis `at` moves."""

    tensor: str
    where: str
    at: str


@dataclass(frozen=True, slots=True)
class Load:
    """How a cached tensor is brought in (ld, cp_async, tma, windows), and the swizzle of its rows in bytes (0 none).
    Windows are fetched in a `way`: `im2col` by the copy engine, each place in a window anew; `halo`: a tile of the
    image with its edge once. What the copy engine brings may be `streamed`: it stays in no cache, since it is read
    once."""

    tensor: str
    by: str
    swizzle: int = 0
    way: str = ""


@dataclass(frozen=True, slots=True)
class Store:
    """How an output leaves: `global` from registers, `tma` through shared memory by the copy engine, `rows` through
    shared memory by threads along its rows, `columns` by threads that take neighbours along the tile's columns."""

    tensor: str
    by: str


@dataclass(frozen=True, slots=True)
class Vectorize:
    """`i1 width 4`: 4 elements along `axis` move as one access; of `i0*i1` along both as one, the first
    outermost."""

    axis: str
    width: int

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes, one by one."""
        return tuple(self.axis.split("*"))


@dataclass(frozen=True, slots=True)
class Consumers:
    """Warpgroups that compute, and whether they share a tile (cooperative) or take turns (pingpong)."""

    count: int
    mode: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """CTAs of a cluster along the tile's first two axes, and the tensors whose loads go to all of them."""

    shape: tuple[int, ...]
    multicast: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Regs:
    """Registers a thread of the producer and of the consumer warps, set by setmaxnreg."""

    producer: int
    consumer: int


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which tiles are taken: `group` of `width` rows of tiles; column by column where a plan says none.
    `drawn`: in such groups too, but each CTA draws its next tile of a counter when it is done with one."""

    by: str
    width: int = 0


@dataclass(frozen=True, slots=True)
class SplitK:
    """The sum is cut in `parts`, joined `by` cluster: through distributed shared memory."""

    parts: int
    by: str


@dataclass(frozen=True, slots=True)
class Async:
    """How many tiles ahead loads are issued, and what they overlap with beside the main loop (`epilogue`, or
    nothing)."""

    prefetch: int
    overlap: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """A copy of a tensor that the kernel reads in its place: `padded`, in which each row begins on a line of 128 bytes,
    or `turned`, whose rows run along the sum besides; with `_once` behind it one that is kept, of a constant of the
    model."""

    tensor: str
    hint: str


@dataclass(frozen=True, slots=True)
class Edge:
    """What carries a value or buffer from its maker to its user inside the kernel: registers (reg) or smem, `depth`
    deep."""

    source: str
    target: str
    buffer: str
    depth: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the cost model expected at the first shape set: time in microseconds, what bounds it, and what one CTA
    takes; `stack` is what a thread may keep in local memory, in bytes."""

    microseconds: float
    bound: str
    smem: int
    regs: int
    occupancy: int
    stack: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel's plan. Fields come in the order of the text. `persistent` CTAs walk over the tiles (0: a CTA a
    tile); `assume` is what must hold of the symbols. `math` is how tensor cores multiply fp32 (`ir.plan.words`),
    `promote` after how many elements of the sum what they have summed is added in fp32 (0: at no time), `partials` how
    many such sums are held: with two one is added while the other runs. `atomics unordered` lets updates be folded in
    any order. `spans` say where each field is."""

    regions: tuple[str, ...]
    arch: str
    family: str
    algo: str
    tile: tuple[int, ...]
    warp_tile: tuple[int, ...] = ()
    micro: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    stages: int = 1
    math: str = ""
    promote: int = 0
    partials: int = 1
    atomics: str = ""
    consumers: Consumers | None = None
    cluster: Cluster | None = None
    regs: Regs | None = None
    bind: tuple[Bind, ...] = ()
    persistent: int = 0
    order: Order | None = None
    split_k: SplitK | None = None
    swap_ab: bool = False
    cache: tuple[Cache, ...] = ()
    load: tuple[Load, ...] = ()
    store: tuple[Store, ...] = ()
    vectorize: tuple[Vectorize, ...] = ()
    assume: tuple[Bound, ...] = ()
    predicate: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    asynchrony: Async | None = None
    barrier: str = "cta"
    layout: tuple[Layout, ...] = ()
    edge: tuple[Edge, ...] = ()
    estimate: Estimate | None = None
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    @property
    def headline(self) -> tuple[str, str]:
        """Algo and tile, as tables print them."""
        return self.algo, "x".join(map(str, self.tile))

    @property
    def name(self) -> str:
        """The kernel's name: its regions', joined by dots."""
        return ".".join(self.regions)

    def span_of(self, word: str = "plan") -> Span | None:
        """Where a field is, or the plan's first line; None for a plan that was not read from a text."""
        places = dict(self.spans)
        return places.get(word, places.get("plan"))

    def load_of(self, tensor: str) -> Load:
        """How the tensor is brought in; plain loads unless the plan says otherwise."""
        for item in self.load:
            if item.tensor == tensor:
                return item
        return Load(tensor, "ld")

    def store_of(self, tensor: str) -> Store:
        """How the output leaves; from registers unless the plan says otherwise."""
        for item in self.store:
            if item.tensor == tensor:
                return item
        return Store(tensor, "global")

    def layout_of(self, tensor: str) -> str:
        """The tensor's layout inside the program; empty where it is the signature's."""
        return next((item.hint for item in self.layout if item.tensor == tensor), "")

    def is_padded(self, tensor: str) -> bool:
        """Whether the kernel reads a padded copy of the tensor, made at each run or once."""
        return self.layout_of(tensor).removesuffix(ONCE) == "padded"

    def is_turned(self, tensor: str) -> bool:
        """Whether the kernel reads a copy of the tensor whose rows run along the sum, made at each run or once."""
        return self.layout_of(tensor).removesuffix(ONCE) == "turned"

    def is_copied(self, tensor: str) -> bool:
        """Whether the kernel reads a copy of the tensor."""
        return self.is_padded(tensor) or self.is_turned(tensor)

    def is_kept(self, tensor: str) -> bool:
        """Whether that copy is made once."""
        return self.layout_of(tensor).endswith(ONCE)

    @property
    def parts(self) -> int:
        """Into how many CTAs the sum is cut."""
        return self.split_k.parts if self.split_k else 1

    @property
    def widest(self) -> int:
        """Elements that a thread moves at once, at most."""
        return max([v.width for v in self.vectorize], default=1) if self.vectorize else 1

    @property
    def takes_turns(self) -> bool:
        """Whether each consumer has tiles of its own."""
        return self.consumers is not None and self.consumers.mode == "pingpong"

    @property
    def sharers(self) -> int:
        """Warpgroups that share a tile."""
        return self.consumers.count if self.consumers is not None and not self.takes_turns else 1

    @property
    def is_split(self) -> bool:
        """Whether a warpgroup splits words of shared memory for those that multiply them."""
        return self.consumers is not None and self.math == "tf32x3"

    @property
    def has_one_tile(self) -> bool:
        """Whether a warp-specialised CTA has one tile, or a cluster's share of one: where the sum is cut, and where a
        tile that does not stay leaves transposed. Its threads end the sum in shared memory, or in their
        registers."""
        return uniform(self.parts > 1) or self.swap_ab and not self.persistent

    @property
    def least_sum(self) -> int:
        """Elements along the sum without which some part would have no tile, or `math` would not be as exact as
        fp32."""
        return least_sum(self.tile[-1], self.parts, self.math)

    def width_of(self, axis: str) -> int:
        """How many elements along the axis move as one access."""
        return next((v.width for v in self.vectorize if v.axis == axis), 1)

    def place_of(self, part: str) -> str | None:
        """Where an axis or a part of one (`i0.o`) is bound, or None."""
        return next((b.place for b in self.bind if part in b.axes), None)


def renamed(
    one: Plan,
    regions: tuple[str, ...],
    tensors: Mapping[str, str],
    values: Mapping[str, str],
    reached: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for the regions `regions`, with other names of tensors and values where the tables have some. Axes and
    symbols keep theirs. An edge leads from a tensor to a value of the last region, whose names `reached` gives
    (default: `values`)."""
    reached = values if reached is None else reached
    return replace(
        one,
        regions=regions,
        cluster=one.cluster
        and replace(one.cluster, multicast=tuple(tensors.get(name, name) for name in one.cluster.multicast)),
        epilogue=tuple(values.get(name, name) for name in one.epilogue),
        edge=tuple(
            replace(e, source=tensors.get(e.source, e.source), target=reached.get(e.target, e.target)) for e in one.edge
        ),
        **{
            field: tuple(replace(item, tensor=tensors.get(item.tensor, item.tensor)) for item in getattr(one, field))
            for field in ("cache", "load", "store", "layout")
        },
    )
