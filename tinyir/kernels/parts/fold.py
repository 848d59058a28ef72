"""Folds of a region as statements: a thread's accumulator, its start, and one step."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import cast, fold_word, is_plain, literal, neutral_of, start_of, widened
from ...ir.body import Binary, Body, Index, Read, Reduce, Ref, Ternary, Unary
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.types import DTYPES, DType, TensorType


def type_of(dtype: DType, *shape: int) -> TensorType:
    """A type of numbers only."""
    return TensorType(dtype, tuple(map(Expr.of, shape)))


class Accumulator:
    """One fold's registers in a thread: `name` alone, or for argmax and argmin the best value so far and where it
    was. `number` is the element's number in the order of the fold's axes. `fold` is in the dtype that registers have,
    `stated` in its own."""

    def __init__(self, name: str, fold: Reduce):
        self.name = name
        self.stated = fold
        self.fold = widened(fold)
        self.best = f"{name}.best"
        self.beside = f"{name}.beside"

    def start(self) -> Iterator[Statement]:
        """The registers, holding the fold over no element."""
        fold = self.fold
        if is_plain(fold.op):
            yield nodes.Reg(self.name, type_of(fold.dtype, 1), init=start_of(fold.op, self.stated.dtype))
        else:
            yield nodes.Reg(self.best, type_of(fold.body.dtype, 1), init=neutral_of(fold.op, fold.body.dtype))
            yield nodes.Reg(self.name, type_of(fold.dtype, 1), init=literal(0, fold.dtype))

    def step(self, element: Body, number: Expr) -> Iterator[Statement]:
        """Takes one element in. The first of equal ones is the one found, and the first NaN wins, as NumPy has it:
        elements come in the order of their numbers."""
        fold = self.fold
        if is_plain(fold.op):
            yield nodes.Assign(
                Place(self.name, (ZERO,)),
                Binary(fold_word(fold.op, fold.dtype), self.held(), cast(element, fold.dtype), fold.dtype),
            )
            return
        yield from self._taken(element, number, is_in_order=True)

    def earliest(self, element: Body, number: Expr) -> Iterator[Statement]:
        """Takes one element of argmax or argmin in, in any order."""
        yield from self._taken(element, number, is_in_order=False)

    def _taken(self, element: Body, number: Expr, is_in_order: bool) -> Iterator[Statement]:
        """The statements that take in an element which is better, or where elements come in any order as good and
        before the one so far."""
        fold, yes = self.fold, DTYPES["bool"]
        yield nodes.Value(f"{self.name}.element", element)
        new, best = Ref(f"{self.name}.element", element.dtype), Read(self.best, (ZERO,), element.dtype)

        def joined(op: str, *sides: Body) -> Body:
            return Binary(op, *sides, yes)

        worse = joined("cmplt", *((new, best) if fold.op == "argmax" else (best, new)))
        is_nan = [joined("cmpne", x, x) for x in (new, best)] if element.dtype.is_float else []
        better: Body = Unary("not", joined("or", worse, joined("cmpeq", new, best)), yes)
        if is_nan:
            better = joined("and", better, joined("cmpeq", best, best))
        if not is_in_order:
            same = joined("cmpeq", new, best)
            same = joined("or", same, joined("and", *is_nan)) if is_nan else same
            front = joined("cmplt", Index(number, fold.dtype), self.held())
            better = joined("or", better, joined("and", same, front))
        yield nodes.Value(f"{self.name}.better", better)
        chosen = Ref(f"{self.name}.better", yes)
        yield nodes.Assign(
            Place(self.name, (ZERO,)), Ternary("where", chosen, Index(number, fold.dtype), self.held(), fold.dtype)
        )
        yield nodes.Assign(Place(self.best, (ZERO,)), Ternary("where", chosen, new, best, element.dtype))

    def start_beside(self, width: int) -> Iterator[Statement]:
        """A register for each of neighbours that are folded beside one another: a sum in one would wait for itself."""
        start = start_of(self.fold.op, self.stated.dtype)
        yield nodes.Reg(self.beside, type_of(self.fold.dtype, width), init=start)

    def step_beside(self, element: Body, turn: Expr) -> Iterator[Statement]:
        """Takes a neighbour in, in its own register."""
        fold = self.fold
        held = Read(self.beside, (turn,), fold.dtype)
        value = Binary(fold_word(fold.op, fold.dtype), held, cast(element, fold.dtype), fold.dtype)
        yield nodes.Assign(Place(self.beside, (turn,)), value)

    def end_beside(self, width: int, turn: str) -> Iterator[Statement]:
        """Folds the neighbours' registers into one."""
        fold = self.fold
        yield nodes.Reg(self.name, type_of(fold.dtype, 1))
        yield nodes.Assign(Place(self.name, (ZERO,)), Read(self.beside, (ZERO,), fold.dtype))
        more = Read(self.beside, (Expr.of(turn),), fold.dtype)
        step = nodes.Assign(
            Place(self.name, (ZERO,)), Binary(fold_word(fold.op, fold.dtype), self.held(), more, fold.dtype)
        )
        yield nodes.For(turn, Expr.of(1), Expr.of(width), (step,), unroll=0)

    def held(self) -> Read:
        """The fold so far, as the register has it."""
        return Read(self.name, (ZERO,), self.fold.dtype)

    def value(self) -> Body:
        """The fold so far, rounded."""
        return cast(self.held(), self.stated.dtype)
