"""Two regions as one attention: what the kernel is made of, read off them alone."""

from __future__ import annotations

import functools
import math
from typing import ClassVar

from ...ir.accumulate import literal
from ...ir.body import Axis, Binary, Body, Gather, Reduce, Ref, Scan, Scatter, Unary, walk
from ...ir.expr import ONE
from ...ir.neighbours import ACCESS_BYTES
from ...ir.region import Region, Yield
from ...ir.traits import axes_of, bodies_of, extent_of
from ...ir.types import DTYPES, DType
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from .named import named, widened
from .numbering import Numbering
from .second import clear_of, inlined, rows_read, second_of
from .weights import Exponent, No, Path, exponent_of, in_dtype, is_positive, path_of

WIDEST = 256  # elements of a row of either operand that a CTA keeps
LONE_ROW = Phrase("no rows that meet the same columns")
EXTRA = ("max", "min", "sum")  # of a row, beside the maximum and the sum of weights


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Streaming:
    """What the kernel is made of. `row` are the rows of X that a CTA shares among its threads, `column` the axis n,
    `outer` the other axes of the first region, of which `group` meets the same columns as the row does; `width` are
    the axes e of the second. `element`, `top`, `total` and
    `scores` are values of the first region, `output` the sum of the second. `weight` is E; `norm` is `fdiv` or `mul`,
    by `norm_by`, or empty. `meets` gives for each axis of the second region that P has the axis of the first.

    `top` is empty where nothing is subtracted, `total` where the weights are not summed. `is_guarded` where the text
    subtracts another number than the maximum from a row of -inf, so that its weights are 0 and not NaN. `factor` is
    c. `weighed` is the value that E is; `summed` is what the total sums, `handed` what the second product takes,
    both of that value and None for E itself. `zero` is the condition under which a row gives 0, `folds` are other
    folds of the row, `writes` the first region's writes of numbers of a row, and `rows` gives the values of the
    second region that are numbers of a row of the first. `first` and `second` are the regions with all of these
    values named. A row axis of one point may be one that the second region has not."""

    kind: ClassVar[str] = "contraction"
    row: Axis
    column: Axis
    depth: tuple[Axis, ...]
    width: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    query: Body
    key: Body
    value: Body
    scores: str
    element: str
    top: str
    total: str
    weight: Body
    norm: str
    norm_by: Body | None
    output: str
    meets: tuple[tuple[str, str], ...]
    dtype: DType
    product: DType
    sum_of: DType
    is_guarded: bool
    factor: float
    weighed: str
    summed: Body | None
    handed: Body | None
    zero: Body | None
    folds: tuple[str, ...]
    writes: tuple[Yield, ...]
    rows: tuple[tuple[str, Body], ...]
    first: Region
    second: Region
    group: Axis | None = None

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return ((self.row,), (self.column,), self.depth)

    @property
    def is_chosen(self) -> bool:
        """Whether data choose which keys or values there are: pages of a cache."""
        return any(isinstance(n, Gather) for factor in (self.query, self.key, self.value) for n in walk(factor))

    @property
    def access(self) -> int:
        """Elements of shared memory that a thread takes at once."""
        return max(1, ACCESS_BYTES // self.dtype.bytes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements along the depth and along the width."""
        return extent_of(self.depth).constant, extent_of(self.width).constant


@functools.lru_cache(maxsize=256)
def streaming_of(first: Region, second: Region) -> Streaming | str:
    """The two regions as one kernel, or why they are none, in words."""
    try:
        return _Matcher(first, second).found()
    except No as reason:
        return str(reason)


def two_regions(regions: tuple[Region, ...]) -> Streaming | str:
    """The regions of a plan as one kernel, or why they are none."""
    return streaming_of(*regions) if len(regions) == 2 else Phrase("not two regions")


class _Matcher:
    """One try of the rule on two regions."""

    def __init__(self, first: Region, second: Region):
        for node in (n for region in (first, second) for body in bodies_of(region) for n in walk(body)):
            if isinstance(node, (Scan, Scatter)):
                raise No(Phrase("a {name} beside the folds", name=type(node).__name__.lower()))
            if isinstance(node, Ref) and node.index is not None:
                raise No(Phrase("a value at another point of the row"))
        chosen = [n for body in bodies_of(second) for n in walk(body) if isinstance(n, Gather)]
        summed = [n for let in second.lets if isinstance(let.expr, Reduce) for n in walk(let.expr.body)]
        if len(chosen) != sum(isinstance(n, Gather) for n in summed):
            raise No(Phrase("a place that data choose after the second product"))
        self.first = first = widened(first)
        self.second, self.numbers = second, Numbering(first)
        self.fold_of = {let.name: let.expr for let in first.lets if isinstance(let.expr, Reduce)}
        held = sum(isinstance(n, Reduce) for body in bodies_of(first) for n in walk(body))
        if held != len(self.fold_of) or any(f.init is not None for f in self.fold_of.values()):
            raise No(Phrase("a fold inside of an expression, or one that starts from a number"))
        self.scores, self.rows = self._folds()
        self.column = self._column()
        self.dtype = self.fold_of[self.scores].dtype
        if self.dtype.name not in ("fp32", "fp64"):
            raise No(Phrase("scores in {dtype}", dtype=self.dtype))

    def found(self) -> Streaming:
        """The kernel. Raises No."""
        item = self._handed()
        exponent, path, weighed = self._weights(item.expr)
        total, summed = self._total(weighed)
        self._check_choices(weighed, total)
        query, key = self._factors()
        rows, second = rows_read(self.first, self.second, item)
        output, value, meets = second_of(self.first, second, item, self.column)
        there = dict(meets)
        row, outer, group = self._split(query, key, {there[n] for n in axes_of(value) if n in there})
        met = frozenset(n for n, axis in meets if axis != self.column)
        second = clear_of(second, frozenset(a.name for a in (row, *outer)), met)
        output, value, meets = second_of(self.first, second, item, self.column)
        there = dict(meets)
        folds = tuple(n for n in self.rows if n not in (total, exponent.top))
        self._check_extra(folds)
        norm, norm_by, zero = self._row(path, summed, total)
        names = named(self.numbers, exponent, weighed, self.scores)
        hole, last = Ref(names.weighed, self.dtype), second.let(output).expr
        if last.dtype != self.dtype:
            raise No(Phrase("scores in {dtype} and a second sum in {dtype2}", dtype=self.dtype, dtype2=last.dtype))
        width = tuple(a for a in second.iters if a.name not in there)
        depth = self.fold_of[self.scores].axes
        for what, size in (("depth", extent_of(depth)), ("width", extent_of(width))):
            if size.constant is None or not 1 <= size.constant <= WIDEST:
                raise No(Phrase("a {what} of {size}, where 1 to {widest} fit", what=what, size=size, widest=WIDEST))
        return Streaming(
            row=row,
            column=self._axis(self.column),
            depth=depth,
            width=width,
            outer=outer,
            query=query,
            key=key,
            value=value,
            scores=self.scores,
            element=names.element,
            top=names.top,
            total=total,
            weight=names.weight,
            norm=norm,
            norm_by=norm_by,
            output=output,
            meets=meets,
            dtype=self.dtype,
            product=self.fold_of[self.scores].body.dtype,
            sum_of=last.body.dtype,
            is_guarded=exponent.is_guarded,
            factor=exponent.factor,
            weighed=names.weighed,
            summed=summed.done(hole) if summed is not None and summed.element else None,
            handed=path.done(hole) if path.element else None,
            zero=zero,
            folds=folds,
            writes=tuple(y for y in self.first.yields if y is not item),
            rows=rows,
            first=names.region,
            second=second,
            group=group,
        )

    # --- the folds

    def _folds(self) -> tuple[str, list[str]]:
        """The contraction, and the folds of a row."""
        products = [n for n, f in self.fold_of.items() if all(a.size is not None for a in f.axes)]
        rows = [n for n in self.fold_of if n not in products]
        if len(products) != 1 or self.fold_of[products[0]].op != "sum":
            raise No(
                Phrase(
                    "{count} folds along axes of their own, where one sum of products is needed", count=len(products)
                )
            )
        if not rows:
            raise No(Phrase("no fold along a row of scores"))
        return products[0], rows

    def _column(self) -> str:
        """The axis that the folds of a row run along."""
        folds = [self.fold_of[n] for n in self.rows]
        if any(len(f.axes) != 1 or f.axes[0].size is not None for f in folds) or len({f.axes for f in folds}) != 1:
            raise No(Phrase("folds of a row along different axes"))
        return folds[0].axes[0].name

    def _axis(self, name: str) -> Axis:
        return next(a for a in self.first.iters if a.name == name)

    def _number(self, fold: str) -> int:
        return self.numbers.of(Ref(fold, self.fold_of[fold].dtype))

    def _factors(self) -> tuple[Body, Body]:
        """The factor that is the same for a whole row of scores, and the one that varies along it."""
        fold = self.fold_of[self.scores]
        if not isinstance(fold.body, Binary) or fold.body.op != "mul":
            raise No(Phrase("%{scores} is not a sum of products", scores=self.scores))
        left, right = (inlined(self.first, factor, may_choose=True) for factor in (fold.body.left, fold.body.right))
        if self.column in axes_of(left):
            left, right = right, left
        if self.column in axes_of(left) or self.column not in axes_of(right):
            raise No(
                Phrase("%{scores} does not have one factor along {column}", scores=self.scores, column=self.column)
            )
        depth = {a.name for a in fold.axes}
        if not depth <= axes_of(left) or not depth <= axes_of(right):
            raise No(Phrase("%{scores} sums along an axis that one factor does not have", scores=self.scores))
        return left, right

    def _split(self, query: Body, key: Body, of_value: set[str]) -> tuple[Axis, tuple[Axis, ...], Axis | None]:
        """The axis whose points a CTA keeps as its rows: they meet the same keys and values, or it has one point. The
        other axes, and one of these that meets the same too."""
        others, own = axes_of(key) | of_value | {self.column}, axes_of(query)
        shared = [a for a in self.first.iters if a.name not in others and (a.name in own or a.size == ONE)]
        if not shared:
            raise No(LONE_ROW)
        outer = tuple(a for a in self.first.iters if a.name not in (shared[-1].name, self.column))
        return shared[-1], outer, shared[-2] if len(shared) > 1 else None

    # --- the weights

    def _handed(self) -> Yield:
        """The write that the second region sums; all others are numbers of a row."""
        read = {t.name for t in self.second.inputs}
        wide = [y for y in self.first.yields if self.column in {n for e in y.index for n in e.names()}]
        if len(wide) != 1 or wide[0].output not in read or wide[0].guard:
            raise No(Phrase("not one write of a value for each score, which the second product takes"))
        (item,) = wide
        for other in self.first.yields:
            if other is not item and self.column in self.numbers.axes(self.numbers.of(other.expr)) or other.guard:
                raise No(Phrase("{output} is one score of a row", output=other.output))
        names = [e.name or "" for e in item.index if e.constant is None]
        if sorted(names) != sorted(a.name for a in self.first.iters):
            raise No(Phrase("{output} is not handed on point by point", output=item.output))
        return item

    def _weights(self, handed: Body) -> tuple[Exponent, Path, int]:
        """The exponential that the handed value is made of: what it is of, the way to the value, and its number."""
        numbers, rows = self.numbers, frozenset(self.rows)
        tops = {n: numbers.of(self.fold_of[n].body) for n in self.rows if self.fold_of[n].op == "max"}
        value, reason = numbers.of(handed), Phrase("no exponential of the scores in what the second product takes")
        for number in sorted(numbers.below(value), reverse=True):
            if self.column not in numbers.axes(number) or not self._is_exponential(number):
                continue
            try:
                exponent = exponent_of(numbers, number, self.column, tops, rows)
                return exponent, path_of(numbers, value, number, self.column, rows), number
            except No as found:
                reason = str(found)
        raise No(reason)

    def _is_exponential(self, number: int) -> bool:
        node = self.numbers.nodes[number]
        if node.kind == "pow":
            base = self.numbers.literal(node.operands[0])
            return base is not None and 1 < base < math.inf
        return node.kind == "exp2"

    def _total(self, weighed: int) -> tuple[str, Path | None]:
        """The sum of the weights, and what is done to each before; empty when they are not summed."""
        numbers = self.numbers
        found = [n for n in self.rows if weighed in numbers.below(numbers.of(self.fold_of[n].body))]
        if not found:
            return "", None
        if len(found) > 1 or self.fold_of[found[0]].op != "sum":
            raise No(Phrase("another fold of the weights than one sum"))
        summed = path_of(numbers, numbers.of(self.fold_of[found[0]].body), weighed, self.column, frozenset(self.rows))
        if summed.row or summed.zero or summed.guard_at is not None:
            raise No(Phrase("a sum of weights that a number of their row has changed"))
        return found[0], summed

    def _check_choices(self, weighed: int, total: str) -> None:
        """What data choose must be part of an element, which is computed once."""
        numbers = self.numbers
        values = [y.expr for y in self.first.yields] + ([self.fold_of[total].body] if total else [])
        for number in set().union(*(numbers.below(numbers.of(v)) for v in values)) - numbers.below(weighed):
            if isinstance(numbers.nodes[number].body, Gather):
                raise No(Phrase("a place that data choose outside of the scores"))

    def _check_extra(self, folds: tuple[str, ...]) -> None:
        for name in folds:
            if self.numbers.folds(self.numbers.of(self.fold_of[name].body)) & set(self.rows):
                raise No(Phrase("%{name} folds what another fold of the row must come before", name=name))
            if self.fold_of[name].op not in EXTRA:
                raise No(Phrase("%{name} is the {op} of a row", name=name, op=self.fold_of[name].op))

    def _row(self, path: Path, summed: Path | None, total: str) -> tuple[str, Body | None, Body | None]:
        """What the row does to its sum: `fdiv` or `mul` by a number of the row; and the condition of its being 0."""
        zero: Body | None = None
        if path.guard_at is not None:
            self._check_guard(path, summed, total)
            zero = Unary("not", is_positive(Ref(total, self.dtype)), DTYPES["bool"])
        for number, holds in path.zero:
            body = self.numbers.nodes[number].body
            one = body if holds else Unary("not", body, DTYPES["bool"])
            zero = one if zero is None else Binary("or", zero, one, DTYPES["bool"])
        parts = [(kind, in_dtype(self.numbers.nodes[by].body, self.dtype)) for kind, by in path.row]
        if len(parts) < 2:
            return (*parts[0], zero) if parts else ("", None, zero)
        factor: Body = literal(1, self.dtype)
        for kind, by in parts:
            factor = Binary(kind, factor, by, self.dtype)
        return "mul", factor, zero

    def _check_guard(self, path: Path, summed: Path | None, total: str) -> None:
        """A NaN among weights over their sum is one in all of their row (the rule's proof); of anything else it need
        not be."""
        sums, factors = 0, []
        for kind, by in path.row[path.guard_at :]:
            node = self.numbers.nodes[by]
            inner = node.operands[0] if kind == "mul" and node.kind == "recip" else by if kind == "fdiv" else -1
            if total and inner == self._number(total):
                sums += 1
            else:
                factors.append(self.numbers.literal(by))
        is_known = all(f is not None and math.isfinite(f) and f != 0 for f in factors)
        if sums != 1 or not is_known or not path.is_finite or summed is None or summed.element:
            raise No(Phrase("a guard against NaN of something else than the weights over their sum"))
