"""Two folds of a long row, of which the second needs the first, done as the row is read once: each chunk folds under
its own first fold, and what it found is moved to that of the row.

before: region y       for i1: N              %m = reduce max (i1) { X[i1] }
                                              %z = reduce sum (i1) { exp2(sub(X[i1], %m)) }
                       yield Y[i1] = fdiv(exp2(sub(X[i1], %m)), %z)
after:  region m.part  for c0: 512, i1: N/512 %m.part = reduce max (i1) { X[N/512*c0 + i1] }
                                              %z.part = reduce sum (i1) { exp2(sub(X[N/512*c0 + i1], %m.base)) }
                       yield m.part[c0] = %m.part      yield z.part[c0] = %z.part
        region m       for                    %m = reduce max (c0: 512) { m.part[c0] }
                                              %z = reduce sum (c0: 512) { mul(z.part[c0], exp2(sub(m.part[c0], %m))) }
                       yield m[] = %m                  yield z[] = %z
        region y       for i1: N              yield Y[i1] = fdiv(exp2(sub(X[i1], m[])), z[])

Two second folds can be moved, both in exact arithmetic and without a large number that cancels:

- A sum of h * 2^(a*m), where a < 0 and m is the greatest element of the row, or a > 0 and m the least: that of a chunk
  under its own m' is taken times 2^(a*(m - m')), which is at most 1. The base of a chunk of -inf is 0, as in
  `split_columns`: its terms are 0 then, and a row of -inf is NaN as in the text.
- A sum of squares of x - t, where t is any number of the row and the first fold is the sum s of x: of n elements around
  their own mean s/n it is less by n * (s/n - t)^2 (Chan, Golub and LeVeque 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.accumulate import cast, literal, neutral_of, wide
from ...ir.body import Axis, Binary, Body, Index, Literal, Read, Reduce, Ref, Ternary, Unary, rebuild, substitute
from ...ir.expr import Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Let, Region
from ...ir.traits import axes_of, reads_apart
from ...ir.types import DTYPES, DType
from ...kit.records import dataclass, field, replace
from ..attention.numbering import Numbering
from .handed import Handed, along
from .inline import Tangled, is_fold, padded, written_out
from .parts import Names, Parts, free_name, numbered_name

CHUNKS = (2048, 4096, 8192, 16384)  # elements of a row that are folded at once


@dataclass(frozen=True, slots=True)
class Moved:
    """A fold that needs the fold `of` the same elements: 2^(power * of) times what does not depend on it; or, without a
    power, the squares of those elements less `mean`."""

    let: Let
    of: Let
    power: float = 0.0
    mean: Body | None = None


def at_once(region: Region, names: Names) -> Iterator[tuple[Region, ...]]:
    """The region in three steps, by each chunk that leaves several: what a chunk folds to, the folds of the row, and
    the rest. Nothing where a fold that needs another cannot be moved to that of the row."""
    firsts, moved = _folds(region)
    row = _row_of(region, (*firsts, *(m.let for m in moved)))
    if not moved or row is None or reads_apart(region):
        return
    home = {let.name: 0 for let in (*firsts, *(m.let for m in moved))}
    own = {a.name for a in region.iters if a.name == row.name}
    written = [int(bool(own & {n for e in y.index for n in e.names()})) for y in region.yields]
    wanted = [*[(firsts[0].name, f"{firsts[0].name}.fold")][: max(written)], (region.name,)]
    folds, *rest = Parts(region, home, written, names).regions(wanted)
    taken = Names(names.memory | {t.name for t in folds.outputs}, names.regions | {folds.name})
    for chunk in CHUNKS:
        if row.size.constant is None or row.size.constant >= 2 * chunk:
            try:
                yield (*_Chunks(region, folds, row, chunk, taken).regions(firsts, moved), *rest)
            except Tangled:
                return


def _folds(region: Region) -> tuple[tuple[Let, ...], tuple[Moved, ...]]:
    """The folds that need no other, and those that can be moved; none where one is neither."""
    numbers, firsts, moved = Numbering(region), {}, []
    for let in region.lets:
        fold = let.expr
        if not is_fold(fold):
            continue
        is_of_floats = isinstance(fold, Reduce) and fold.dtype.is_float and fold.dtype == wide(fold.dtype)
        if not is_of_floats or len(fold.axes) > 1:
            return (), ()
        needs = numbers.folds(numbers.of(fold.body))
        found = _moved(numbers, let, firsts[min(needs)]) if len(needs) == 1 and needs <= firsts.keys() else None
        if needs and found is None:
            return (), ()
        if found is None:
            firsts[let.name] = let
        else:
            moved.append(found)
    return tuple(firsts.values()), tuple(moved)


def _row_of(region: Region, folds: tuple[Let, ...]) -> Axis | None:
    """The axis that all folds run along, under the name that the first has for it."""
    size_of = {a.name: a.size for a in region.iters}
    axes = [let.expr.axes[0] for let in folds]
    sizes = {size_of[a.name] if a.size is None else a.size for a in axes}
    return Axis(axes[0].name, sizes.pop()) if len(sizes) == 1 else None


def _moved(numbers: Numbering, let: Let, of: Let) -> Moved | None:
    """How a fold follows the fold that it needs; None where neither rule holds."""
    body, first = numbers.of(let.expr.body), of.expr
    if let.expr.op != "sum" or let.expr.dtype != first.dtype:
        return None
    if first.op in ("max", "min"):
        power = _power(numbers, body, of.name)
        return Moved(let, of, power) if power and (power < 0) == (first.op == "max") else None
    node = numbers.nodes[body]
    if first.op != "sum" or node.kind != "mul" or node.operands[0] != node.operands[1]:
        return None
    less = numbers.nodes[node.operands[0]]
    if less.kind != "sub" or less.operands[0] != numbers.of(first.body):
        return None
    varies = numbers.axes(less.operands[1]) & {a.name for a in (*let.expr.axes, *first.axes)}
    return None if varies else Moved(let, of, mean=numbers.nodes[less.operands[1]].body)


def _power(numbers: Numbering, number: int, fold: str) -> float | None:
    """The a of an expression that is 2^(a * fold) times what does not depend on the fold; None of any other."""
    if fold not in numbers.folds(number):
        return 0.0
    node = numbers.nodes[number]
    if node.kind == "exp2":
        return _slope(numbers, node.operands[0], fold)
    if node.kind not in ("mul", "fdiv"):
        return None
    return _sum_of([_power(numbers, n, fold) for n in node.operands], 1 if node.kind == "mul" else -1)


def _slope(numbers: Numbering, number: int, fold: str) -> float | None:
    """By how much an expression grows with the fold, where it is always by as much; None of any other."""
    node = numbers.nodes[number]
    if node.kind == "fold" and node.name == fold:
        return 1.0
    if fold not in numbers.folds(number):
        return 0.0
    if node.kind in ("add", "sub", "neg"):
        slopes = [_slope(numbers, n, fold) for n in node.operands]
        return _sum_of([0.0, *slopes][-2:], 1 if node.kind == "add" else -1)
    if node.kind not in ("mul", "fdiv"):
        return None
    inner, by = node.operands if numbers.literal(node.operands[1]) is not None else node.operands[::-1]
    factor, slope = numbers.literal(by), _slope(numbers, inner, fold)
    if not factor or slope is None or node.kind == "fdiv" and by != node.operands[1]:
        return None
    return slope * factor if node.kind == "mul" else slope / factor


def _sum_of(pair: list[float | None], sign: int) -> float | None:
    first, second = pair
    return None if first is None or second is None else first + sign * second


@dataclass
class _Chunks:
    """The `folds` of a region by chunks of its row. `read` has what chunks fold to, as the second step reads it, and
    `bodies` what they fold."""

    whole: Region
    folds: Region
    row: Axis
    chunk: int
    names: Names
    read: dict[str, Read] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)

    def __post_init__(self) -> None:
        number = numbered_name("c", {a.name for a in self.folds.iters} | self.names.memory)
        self.across = Axis(number, self.row.size.ceildiv(self.chunk))
        rows = tuple(a for a in self.folds.iters if a.name != self.row.name)
        self.handed = Handed((*rows, self.across), self.across, self.names)

    def regions(self, firsts: tuple[Let, ...], moved: tuple[Moved, ...]) -> tuple[Region, Region]:
        """The region that folds chunks, and that which makes the folds of the row of them. Raises Tangled where a value
        is moved on its way."""
        second = {}
        for let in firsts:
            self._fold(let, self._of_chunk(let), set())
            second[let.name] = self._over_chunks(let, self.read[let.name])
        for item in moved:
            fold, whole = (self._squares if item.mean is not None else self._powers)(item)
            part = self._fold(item.let, fold, axes_of(self.bodies[item.of.name]))
            second[item.let.name] = self._over_chunks(item.let, whole(part))
        name = free_name(f"{firsts[0].name}.part", self.names.regions)
        row = Axis(self.row.name, Expr.of(self.chunk))
        return self.handed.region(name, self.folds, (row,)), self.handed.reader(self.folds, second)

    @property
    def _place(self) -> Expr:
        """Of an element of a chunk in its row."""
        return self.chunk * Expr.of(self.across.name) + self.row.name

    def _of_chunk(self, let: Let) -> Body:
        """What a fold folds, at an element of a chunk."""
        return substitute(written_out(self.whole, let.expr.body), {let.expr.axes[0].name: self._place})

    def _fold(self, let: Let, body: Body, along_too: set[str]) -> Read:
        """The read of what the chunks fold to."""
        self.bodies[let.name] = body
        within = padded(body, let.expr.op, self._place, self.row.size, self.chunk)
        fold = replace(let.expr, axes=(Axis(self.row.name),), body=within)
        names = axes_of(body) | along_too | {self.across.name}
        self.read[let.name] = self.handed.read(f"{let.name}.part", fold, let.origin, names)
        return self.read[let.name]

    def _over_chunks(self, let: Let, body: Body) -> tuple[Let]:
        """The fold of the row, of what its chunks fold to."""
        return (replace(let, expr=replace(let.expr, axes=(self.across,), body=body)),)

    def _base(self, item: Moved, expr: Body) -> Ref:
        """A number of a chunk under a name of its own."""
        name = free_name(f"{item.of.name}.base", {known.name for known in (*self.folds.lets, *self.handed.lets)})
        self.handed.lets.append(Let(name, expr, item.let.origin))
        return Ref(name, expr.dtype)

    def _powers(self, item: Moved) -> tuple[Body, Callable[[Read], Body]]:
        """What a chunk folds under its own greatest element, and how that follows the row's."""
        read, dtype, op = self.read[item.of.name], item.of.expr.dtype, item.of.expr.op
        own = Ref(read.tensor, dtype)
        is_empty = Binary("cmpeq", own, neutral_of(op, dtype), DTYPES["bool"])
        base = self._base(item, Ternary("where", is_empty, literal(0, dtype), own, dtype))

        def put(body: Body) -> Body:
            return base if body == Ref(item.of.name, dtype) else rebuild(body, put)

        less = Binary("sub", read, Ref(item.of.name, dtype), dtype)
        factor = Unary("exp2", Binary("mul", less, Literal(-item.power, dtype), dtype), dtype)
        return put(self._of_chunk(item.let)), lambda part: Binary("mul", part, factor, dtype)

    def _squares(self, item: Moved) -> tuple[Body, Callable[[Read], Body]]:
        """What a chunk folds around its own mean, and how that follows what the row has for it."""
        read, dtype = self.read[item.of.name], item.of.expr.dtype
        axes = tuple(a.name for a in self.handed.iters if Expr.of(a.name) in read.index)
        count = self._count(dtype)
        here = count if isinstance(count, Literal) else along(count, axes, self.across.name)
        base = self._base(item, Binary("fdiv", Ref(read.tensor, dtype), here, dtype))
        own = Binary("sub", cast(self.bodies[item.of.name], dtype), base, dtype)
        mean = written_out(self.whole, item.mean)
        apart = Binary("sub", Binary("fdiv", read, count, dtype), mean, dtype)
        moved = Binary("mul", count, Binary("mul", apart, apart, dtype), dtype)
        return Binary("mul", own, own, dtype), lambda part: Binary("add", part, moved, dtype)

    def _count(self, dtype: DType) -> Body:
        """The elements of a chunk: of the last one the rest."""
        if is_multiple(self.row.size, self.chunk):
            return literal(self.chunk, dtype)
        i64 = DTYPES["i64"]
        rest = Index(self.row.size - self.chunk * Expr.of(self.across.name), i64)
        return cast(Binary("min", Index(Expr.of(self.chunk), i64), rest, i64), dtype)
