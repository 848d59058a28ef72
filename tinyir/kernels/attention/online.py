"""The softmax between two products on tensor cores, block by block, and the output after the last: what the kernels of
warpgroups and those of warps have alike.

    each r, n of ahead: what the work on a score reads        while the product runs (`ahead`)
    each r, n of sc: masks, and work on a score               -inf outside masks and tensors
    row_reduce max sc into top                                each r: base, change, total *= change
    each r, n of sc approx: exp2(c*sc - base)                 row_reduce sum sc into total
    each r, n of acc: acc *= change                           each r, n of sc: p = sc, rounded
    (after the last block) scale = fold of total; what the text makes of it; acc over it, the values after the sum

What `kernels.attention` says of old sums under a new maximum holds here; the weights are rounded to the value's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ...ir.accumulate import literal, neutral_of
from ...ir.body import (
    Binary,
    Body,
    Gather,
    Literal,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Unary,
    operands_of,
    rebuild,
    walk,
)
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.traits import axes_of
from ...ir.types import DTYPES, DType, round_to
from ...kit.records import dataclass, replace
from ..family import Problem
from ..parts.fold import type_of
from ..parts.point import Fresh, Values, below, choice, divides, element_store, guarded, names_in, needed
from .ahead import put_ahead, reads_ahead
from .match import Streaming
from .score import Score, is_bare, score_of
from .walk import AFTER, Walk, sides_of, walk_of

FP32 = DTYPES["fp32"]
SHARING = 4  # neighbouring lanes that hold a row together


@dataclass(frozen=True, slots=True)
class Held:
    """The kinds of registers in which threads hold scores and sums together, left operands, and what they know of
    rows, of which there are `count`."""

    matrix: str
    operand: str
    rows: str
    parts: str
    count: int


class OnlineSoftmax:
    """Part of a template: the plan's tile has rows of the query, columns of scores, and the output's sum
    has `width` columns. `m0` is the tile's first row, `part` that of these threads in it. `has_all_rows`: every tile
    has all points of the row's axis, and others beside it."""

    def __init__(self, problem: Problem, held: Held, rows: int, columns: int, width: int, has_all_rows: bool = False):
        self.model, self.held, self.columns, self.width = problem.model, held, columns, width
        self.streaming: Streaming = problem.kernel
        self.first, self.second = first, second = self.streaming.first, self.streaming.second
        self.score: Score = score_of(self.streaming)
        self.fresh = Fresh({*names_in(first), *names_in(second), *self.model.symbols()})
        self.of = self.fresh.of
        self.row, self.column = self.streaming.row, self.streaming.column
        self.m0, self.part = Expr.of(self.of("m0")), Expr.of(self.of("part"))
        own = {limit.name: Expr.of(self.of(limit.name)) for limit in self.score.limits}
        self.masks = tuple(mask.substitute(own) for mask in self.score.masks)
        of_axis = (self.row.size.constant, ZERO) if has_all_rows else (rows, self.m0)
        self.first_row = of_axis[1]
        sides = sides_of(self.masks, self.row.name, self.column.name, *of_axis)
        self.walk: Walk = walk_of(sides, self.column.size, columns, self.of)
        self.is_longest_last = any(
            s.what == AFTER and any(c > 0 and m == (self.of("m0"),) for c, m in s.touched.terms) for s in sides or ()
        )
        self.row_guard = () if divides(rows, self.row.size) else below(Expr.of(self.row.name), self.row.size)
        self.is_column_guarded = not divides(columns, self.column.size) or self.walk.may_pass_end
        self.point = {a.name: Expr.of(a.name) for a in first.iters}
        self.may_be_empty = False  # whether there may be no column
        self.ahead_of = {read: self.of(f"{read.tensor}.ahead") for read in reads_ahead(self.streaming)}
        kept = {t.name for t in first.outputs if t.attr("materialize") == "deferred"}
        self.written = [y for y in self.streaming.writes if y.output not in kept]
        self.has_numbers = bool(self.streaming.writes or self.streaming.rows)  # of a row, that are wanted as such

    @property
    def zero_word(self) -> str:
        """What is 0 of a row whose output is 0: no reciprocal of a sum is; else numbers of their own."""
        return "kept" if "kept" in row_words(self.streaming) else "scale"

    def limits(self) -> Iterable[Statement]:
        """What data say of the tile's columns."""
        values = Values(self.first, self.point | {self.row.name: self.first_row})
        for limit in self.score.limits:
            yield nodes.Choose(self.of(limit.name), values.at(limit.value), limit.most + 1)

    # --- what these threads hold

    def score_registers(self) -> Statement:
        """The scores of a block."""
        return nodes.Reg(self.of("sc"), type_of(FP32, self.held.count, self.columns), kind=self.held.matrix)

    def weight_registers(self) -> Statement:
        """The weights of a block."""
        kind = type_of(self._weight_dtype, self.held.count, self.columns)
        return nodes.Reg(self.of("p"), kind, kind=self.held.operand)

    def ahead_registers(self) -> Iterable[Statement]:
        """What is read of tensors before the scores of a block are there."""
        for read, name in self.ahead_of.items():
            yield nodes.Reg(name, type_of(read.dtype, self.held.count, self.columns), kind=self.held.operand)

    def sum_registers(self) -> Iterable[Statement]:
        """The output's sum, and what is known of rows."""
        held = self.held
        yield nodes.Reg(self.of("acc"), type_of(FP32, held.count, self.width), kind=held.matrix)
        for word in row_words(self.streaming):
            kind = held.parts if word == "total" else held.rows
            yield nodes.Reg(self.of(word), type_of(FP32, held.count), kind=kind)

    @property
    def _weight_dtype(self) -> DType:
        return self.streaming.value.dtype

    def start(self) -> Iterable[Statement]:
        """Sums of nothing."""
        rows = [self._set("top", neutral_of("max", FP32))] if self.streaming.top else []
        rows += [self._set("total", literal(0, FP32))] if self.streaming.total else []
        if rows:
            yield self._each_row(self._any_row, tuple(rows))
        yield self._each("acc", (nodes.Assign(self._at("acc"), literal(0, FP32)),))

    # --- the softmax of a block

    def read_ahead(self, n0: Expr, is_cut: bool) -> Iterable[Statement]:
        """Reads what the work on the scores of the block whose first column is `n0` needs of tensors."""
        for read, name in self.ahead_of.items():
            yield from self.read_one(read, name, n0, is_cut)

    def read_one(self, read: Read, name: str, n0: Expr, is_cut: bool) -> Iterable[Statement]:
        """Reads what of one tensor, for the block whose first column is `n0`, the registers `name` have."""
        value = guarded(self._inside(is_cut), Values(self.first, self.point).at(read))
        element = nodes.Assign(Place(name, (self._r, self._n)), value)
        yield nodes.Each((self.of("r"), self.of("n")), name, (*self._names(n0), element))

    def held_of(self, values: Values) -> dict[Read, Body]:
        """Where threads have what the work on a score reads of tensors, by the read."""
        return {values.at(read): Read(name, (self._r, self._n), read.dtype) for read, name in self.ahead_of.items()}

    def work_done(self) -> Iterable[Statement]:
        """What follows the work on the scores of a block."""
        return ()

    def softmax(self, n0: Expr, is_cut: bool, is_first: bool) -> Iterable[Statement]:
        """Scores of the block whose first column is `n0` become weights, and what was summed is scaled to the new
        maximum."""
        streaming = self.streaming
        work = self._work(n0, is_cut)
        if work:
            yield self._each("sc", work)
            yield from self.work_done()
        score = self._read("sc")
        exponent = self._scaled(score)
        if streaming.top:
            yield self._each_row("old", (self._set("old", self._of("top")),))
            yield nodes.RowReduce("max", self.of("sc"), self.of("top"))
            lowest, top = neutral_of("max", FP32), self._of("top")
            is_empty = Binary("cmpeq", top, lowest, DTYPES["bool"])
            base = Ternary("where", is_empty, literal(0, FP32), self._scaled(top), FP32)
            change = Binary("sub", self._scaled(self._of("old")), self._of("base"), FP32)
            total = Binary("mul", self._of("total"), self._of("change"), FP32)
            rows = [self._set("base", base), self._set("change", Unary("exp2", change, FP32))]
            rows += [self._set("total", total)] if streaming.total else []
            yield self._each_row("top", tuple(rows), is_approx=True)
            exponent = Binary("sub", exponent, self._of("base"), FP32)
        weight = Unary("exp2", exponent, FP32)
        yield self._each("sc", (nodes.Assign(self._at("sc"), weight),), is_approx=True)
        if streaming.summed is None and streaming.total:
            yield nodes.RowReduce("sum", self.of("sc"), self.of("total"))
        if streaming.top and not is_first:
            rescaled = Binary("mul", self._read("acc"), self._of("change"), FP32)
            yield self._each("acc", (nodes.Assign(self._at("acc"), rescaled),))
        yield self._each("sc", tuple(self._assigned("p", streaming.handed, n0, is_cut)))
        if streaming.summed is not None and streaming.total:
            yield self._each("sc", tuple(self._assigned("sc", streaming.summed, n0, is_cut)))
            yield nodes.RowReduce("sum", self.of("sc"), self.of("total"))

    def _scaled(self, body: Body) -> Body:
        return times(body, self.score.factor)

    def _assigned(self, word: str, work: Body | None, n0: Expr, is_cut: bool) -> Iterable[Statement]:
        """A weight, or what the text makes of one, as an element of `p` or of the scores."""
        value: Body = self._read("sc")
        lines: list[Statement] = []
        if work is not None:
            values = self._values({self.streaming.weighed: value}, lines)
            guard = self._inside(is_cut) if _touches(work) else ()
            value = guarded(guard, replace(values, sides=((guard, True),) if guard else ()).at(work))
            yield from self._names(n0)
            yield from lines
        yield nodes.Assign(self._at(word), Unary("cast", value, self._weight_dtype) if word == "p" else value)

    def _values(self, known: dict[str, Body], lines: list[Statement]) -> Values:
        """The first region's values at a score; the places that data choose go to `lines`."""

        def emit(inner: Reduce | Gather | Scan | Scatter, values: Values) -> Body:
            assert isinstance(inner, Gather), "the rule lets no other fold in"
            return choice(inner, values, self.fresh.name(f"{inner.axis.name}.at"), lines)

        return Values(self.first, self.point, known, emit)

    def _names(self, n0: Expr) -> tuple[Statement, ...]:
        return *self.row_names(), nodes.Let(self.column.name, n0 + self._n)

    def _inside(self, is_cut: bool) -> tuple[Bound, ...]:
        """The guard that a score is one of the tensors'."""
        guard = below(Expr.of(self.column.name), self.column.size) if is_cut and self.is_column_guarded else ()
        return guard + self.row_guard

    def _work(self, n0: Expr, is_cut: bool) -> tuple[Statement, ...]:
        """What is done to each score before its maximum is taken: the region's work, and -inf outside masks and
        tensors."""
        streaming, lowest = self.streaming, neutral_of("max", FP32)
        masks = self.masks if is_cut else ()
        ends = below(Expr.of(self.column.name), self.column.size) if is_cut and self.is_column_guarded else ()
        guard, names, score = (*masks, *ends), self._names(n0), self._read("sc")
        if self.score.work is None:
            masked = Select(guard, score, lowest, FP32)
            return (*names, nodes.Assign(self._at("sc"), masked)) if guard else ()
        inside: list[Statement] = []
        values = self._values({streaming.scores: score}, inside)
        held = self.held_of(values)
        for name in needed(self.first, (self.score.work,)):
            if name != streaming.scores:
                inside.append(nodes.Value(name, put_ahead(values.at(self.first.let(name).expr), held)))
                values.known[name] = Ref(name, self.first.let(name).expr.dtype)
        value = put_ahead(values.at(self.score.work), held)
        inside.append(nodes.Assign(self._at("sc"), value))
        ends += self.row_guard if self._reaches(inside) else ()  # of a row beyond the end nothing is stored
        guard = (*masks, *ends)
        if guard and self._reads_inside(inside):  # behind a branch each read would wait for the one before
            met = nodes.Value(self.of("met"), value)
            known = [replace(s, value=self._read_inside(s.value, ends)) for s in (*inside[:-1], met)]
            masked = Select(guard, Ref(met.name, FP32), lowest, FP32)
            return (*names, *known, nodes.Assign(self._at("sc"), masked))
        nothing = (nodes.Assign(self._at("sc"), lowest),)
        return (*names, nodes.If(guard, tuple(inside), nothing)) if guard else (*names, *inside)

    def _reads_inside(self, body: Sequence[Statement]) -> bool:
        """Whether statements read tensors, each element inside the tensor whatever masks leave: at a row and a column
        as they are, or where a condition of its own says so."""
        if any(not isinstance(s, (nodes.Value, nodes.Assign)) for s in body) or not self._reaches(body):
            return False
        shapes = {t.name: t.type.shape for t in self.first.inputs}
        return all(self._is_inside(s.value, (), shapes) for s in body)

    def _is_inside(self, body: Body, guard: tuple[Bound, ...], shapes: Mapping[str, tuple[Expr, ...]]) -> bool:
        """Whether an expression reads nothing outside of tensors at points where the guard holds."""
        if isinstance(body, Select):
            then = self._is_inside(body.then, (*guard, *body.guard), shapes)
            return then and self._is_inside(body.other, guard, shapes)
        if isinstance(body, Read):
            sizes = {a.name: a.size for a in self.first.iters}
            ends = {b.expr: b.upper for b in guard}  # no index is negative that names and floors are added to
            return all(
                e.constant is not None or sizes.get(e.name) == size or ends.get(e) == size and _is_sum(e)
                for e, size in zip(body.index, shapes.get(body.tensor, ()))
            )
        return all(self._is_inside(inner, guard, shapes) for inner in operands_of(body))

    def _read_inside(self, body: Body, ends: tuple[Bound, ...]) -> Body:
        """An expression whose reads of tensors are 0 outside of these bounds on their own row and column."""
        if isinstance(body, Read) and any(t.name == body.tensor for t in self.first.inputs):
            return guarded(tuple(end for end in ends if axes_of(body) & set(end.expr.names())), body)
        return rebuild(body, lambda inner: self._read_inside(inner, ends))

    def _reaches(self, body: Iterable[Statement]) -> bool:
        """Whether statements read a tensor."""
        memory = {t.name for t in self.first.inputs}
        values = [s.value for s in body if isinstance(s, (nodes.Value, nodes.Assign, nodes.Choose))]
        return len(values) < len(list(body)) or any(
            isinstance(n, Read) and n.tensor in memory for value in values for n in walk(value)
        )

    # --- after the last block

    def rows_done(self) -> Iterable[Statement]:
        """The totals of rows, what the output is multiplied or divided by, and the writes of numbers of rows."""
        streaming = self.streaming
        if streaming.total:
            into = "row_total" if self.has_numbers else "scale"
            yield self._each_row(into, (self._set(into, literal(0, FP32)),))
            yield nodes.RowReduce("sum", self.of("total"), self.of(into))
        if self.is_scaled or streaming.zero is not None:
            word = "scale" if "scale" in row_words(self.streaming) else self._any_row
            yield self._each_row(word, tuple(self._normed()))
        if self.written:
            yield self._each_row(self._any_row, tuple(self._written()))

    @property
    def is_scaled(self) -> bool:
        """Whether each row's sums are multiplied by a number of the row, or divided by one."""
        return bool(self.streaming.norm) or is_bare(self.streaming)

    @property
    def _any_row(self) -> str:
        return row_words(self.streaming)[0]

    def _numbers_of_row(self) -> Values:
        """The text's values at a row, once all columns are walked."""
        streaming = self.streaming
        total, top = self._of("row_total" if self.has_numbers else "scale"), self._of("top")
        is_over = (
            streaming.norm == "fdiv"
            and isinstance(streaming.norm_by, Ref)
            and streaming.norm_by.name == streaming.total
        )
        if streaming.top and not streaming.is_guarded and (self.has_numbers or not is_over):
            # the sum of a row of -inf is 0 here, and NaN in the text: over 0 both are
            is_empty = Binary("cmpeq", top, neutral_of("max", FP32), DTYPES["bool"])
            total = Ternary("where", is_empty, Literal(math.nan, FP32), total, FP32)
        return Values(self.first, self.point, {streaming.total: total, streaming.top: times(top, self.score.scale)})

    def _normed(self) -> Iterable[Statement]:
        """By what a row's sums are multiplied, or divided."""
        streaming, values = self.streaming, self._numbers_of_row()
        yield from self.row_names()
        by = values.at(streaming.norm_by) if streaming.norm else literal(1, FP32)
        if is_bare(self.streaming):
            is_empty = Binary("cmpeq", self._of("top"), neutral_of("max", FP32), DTYPES["bool"])
            by = Ternary("where", is_empty, Literal(math.nan, FP32), by, FP32)
        if self.score.has_reciprocal:
            by = Binary("fdiv", literal(1, FP32), by, FP32)
        if self.may_be_empty:  # a sum of no columns is 0, whatever the text would divide it by
            is_divided = streaming.norm == "fdiv" and not self.score.has_reciprocal
            guard = (Bound(self.column.size, lower=ONE),)
            by = Select(guard, by, literal(int(is_divided), FP32), FP32)
        if streaming.zero is not None:
            kept = by if self.zero_word == "scale" else literal(1, FP32)
            kept = Ternary("where", values.at(streaming.zero), literal(0, FP32), kept, FP32)
            if self.zero_word == "scale":
                by = kept
            else:
                yield self._set("kept", kept)
        if self.is_scaled:
            yield self._set("scale", by)

    def _written(self) -> Iterable[Statement]:
        """The writes of numbers of a row, by the first of the threads that share it."""
        lane = Expr.of("lane")
        guard = (Bound(lane - SHARING * (lane // SHARING), equals=ZERO),)
        guard += self.row_guard
        values = self._numbers_of_row()
        outer = self.streaming.outer
        stores = [element_store(y, values.at(y.expr), self.point, outer) for y in self.written]
        yield from self.row_names()
        yield nodes.If(guard, tuple(stores))

    def elements(self, across: Expr, places: Mapping[str, Place], by: str = "") -> Iterable[Statement]:
        """The values of the element r, n of the sum's piece that begins at column `across`, and their stores: to the
        `places` of outputs that leave through shared memory, else to the outputs themselves."""
        streaming, width = self.streaming, self.streaming.width[0]
        column = across + self._n
        total = Read(self.of("acc"), (self._r, column), FP32)
        if self.is_scaled:
            op = "mul" if self.score.has_reciprocal or not streaming.norm else streaming.norm
            total = Binary(op, total, self._of("scale"), FP32)
        if streaming.zero is not None:
            is_zero = Binary("cmpeq", self._of(self.zero_word), literal(0, FP32), DTYPES["bool"])
            total = Ternary("where", is_zero, literal(0, FP32), total, FP32)
        point = {n: Expr.of(m) for n, m in streaming.meets} | {width.name: Expr.of(self.of("col"))}
        values = Values(self.second, point, {streaming.output: total})
        if streaming.rows:
            numbers = self._numbers_of_row()
            values.known |= {name: numbers.at(expr) for name, expr in streaming.rows}
        inner: list[Statement] = []
        if len(needed(self.second, (y.expr for y in self.second.yields))) > 1 or len(self.second.yields) > 1:
            inner.append(nodes.Value(streaming.output, total))
            values.known[streaming.output] = Ref(streaming.output, FP32)
        reads = [*(y.expr for y in self.second.yields), *(let.expr for let in self.second.lets)]
        is_touching = bool(streaming.rows) or any(isinstance(n, Read) for n in _after(reads))
        inner += values.name_values()
        direct = []
        for item in self.second.yields:
            value = values.at(item.expr)
            if item.output in places:
                inner.append(nodes.Store(places[item.output], value, by=by))
            else:
                direct.append(element_store(item, value, values.point, self.second.iters))
        guard = self.row_guard
        guard += below(Expr.of(self.of("col")), width.size) if self.width != streaming.sizes[1] else ()
        if direct or is_touching:
            yield from self.row_names()
            yield nodes.Let(self.of("col"), column)
        yield from inner
        if direct:
            yield from (nodes.If(guard, tuple(direct)),) if guard else direct

    # --- words

    @property
    def _r(self) -> Expr:
        return Expr.of(self.of("r"))

    @property
    def _n(self) -> Expr:
        return Expr.of(self.of("n"))

    def row_names(self) -> tuple[Statement, ...]:
        """The names of the row at which `each` is."""
        return (nodes.Let(self.row.name, self._row()),)

    def _row(self) -> Expr:
        return self.m0 + self.part + self._r

    def _at(self, word: str) -> Place:
        return Place(self.of(word), (self._r, self._n))

    def _read(self, word: str) -> Body:
        return Read(self.of(word), (self._r, self._n), FP32)

    def _of(self, word: str) -> Body:
        return Read(self.of(word), (self._r,), FP32)

    def _set(self, word: str, value: Body) -> Statement:
        return nodes.Assign(Place(self.of(word), (self._r,)), value)

    def _each(self, word: str, body: tuple[Statement, ...], is_approx: bool = False) -> Statement:
        return nodes.Each((self.of("r"), self.of("n")), self.of(word), body, is_approx=is_approx)

    def _each_row(self, word: str, body: tuple[Statement, ...], is_approx: bool = False) -> Statement:
        return nodes.Each((self.of("r"),), self.of(word), body, is_approx=is_approx)


def row_words(kernel: Streaming) -> tuple[str, ...]:
    """What is known of rows, a number of each: `scale` is what the output is multiplied by, `row_total` the total as a
    number of the text's, `kept` is 0 where the output is."""
    words = ("top", "old", "base", "change") if kernel.top else ()
    total = ("total",) if kernel.total else ()
    whole = ("row_total",) if kernel.total and (kernel.writes or kernel.rows) else ()
    kept = ("kept",) if kernel.zero is not None and not score_of(kernel).has_reciprocal else ()
    is_scaled = bool(kernel.norm) or is_bare(kernel) or kernel.zero is not None and not kept or total and not whole
    return (*words, *(("scale",) if is_scaled or not (words or whole or kept) else ()), *whole, *kept, *total)


def times(body: Body, factor: float) -> Body:
    """The value times a number, as fp32 has it."""
    return body if factor == 1.0 else Binary("mul", body, literal(round_to(FP32, factor), FP32), FP32)


def _touches(work: Body) -> bool:
    return any(isinstance(n, Read) for n in walk(work))


def _is_sum(e: Expr) -> bool:
    """Whether an expression of axes and sizes is a sum of positive multiples of these and of floors of such sums."""
    return all(c >= 0 and all(isinstance(a, str) or _is_sum(a.num) and _is_sum(a.den) for a in m) for c, m in e.terms)


def _after(bodies: Iterable[Body]) -> Iterable[Body]:
    """The nodes of the second region's expressions, but for its sum."""
    stack = list(bodies)
    while stack:
        node = stack.pop()
        if not isinstance(node, Reduce):
            yield node
            stack += operands_of(node)
