"""Integer expressions as C, in 32 bits where the numbers prove that they fit, in 64 where they do not."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import ONE, ZERO, Bound, Expr, Floor
from ...ir.intervals import INT_MAX, Interval, interval_of
from ...ir.remainder import remainders
from ...ir.runs import offset_of
from ...ir.scope import has_floor
from ...kit.records import dataclass, field

SUM, PRODUCT, UNARY = 1, 2, 3  # how tightly a piece of C binds


@dataclass(frozen=True, slots=True)
class _Piece:
    """A term of a sum: its sign, C text and how that binds. `is_wide`: its value needs 64 bits; `is_long`: its C is a
    long long."""

    sign: str
    text: str
    binds: int
    is_wide: bool = False
    is_long: bool = False


@dataclass
class Integers:
    """What is known of each name: its range, and its spelling in C."""

    ranges: dict[str, Interval] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    spell: Callable[[str], str] = str

    def interval(self, expr: Expr) -> Interval:
        """The range of the expression's values."""
        return interval_of(expr, self.ranges)

    def fits(self, expr: Expr) -> bool:
        """True when the value, and so every partial sum of non-negative terms, fits an int."""
        return self.interval(expr).fits(INT_MAX)

    def c(self, expr: Expr, tight: int = SUM) -> str:
        """The expression as C: an int when it fits, else a long long. Parenthesised when it binds less than `tight`."""
        expr = self.folded(expr)
        text, binds = self._sum(expr, not self.fits(expr))
        return f"({text})" if binds < tight else text

    def folded(self, expr: Expr) -> Expr:
        """The expression without the floors that the ranges decide: floor(i/4) is 0 where 0 <= i < 4."""
        if not any(isinstance(a, Floor) for _, m in expr.terms for a in m):
            return expr
        total = ZERO
        for coefficient, monomial in expr.terms:
            term = Expr.of(coefficient)
            for atom in monomial:
                term = term * self._folded_atom(atom)
            total = total + term
        return total

    def _folded_atom(self, atom: str | Floor) -> Expr:
        whole = Expr(((1, (atom,)),))
        if isinstance(atom, str):
            return whole
        found = self.interval(whole)
        if found.low is not None and found.low == found.high:
            return Expr.of(found.low)
        den = self.folded(atom.den)
        return self.folded(atom.num) // den if den != ZERO else ZERO  # the axis is empty: no thread gets here

    def is_long(self, expr: Expr) -> bool:
        """Whether what `c` gives is a long long in C."""
        return not self.fits(expr) or any(
            not self.ranges.get(name, Interval(0, 0)).fits(INT_MAX) for name in expr.names()
        )

    def type_of(self, expr: Expr) -> str:
        """The C type that `c` gives."""
        return "long long" if self.is_long(expr) else "int"

    def offset(self, shape: tuple[Expr, ...], index: tuple[Expr, ...]) -> str:
        """A row-major offset, in 64 bits unless the whole tensor is known to be smaller than 2^31. Of an element whose
        place is a number taken apart by the tensor's axes it is that number."""
        number = offset_of(shape, index)
        if any(map(has_floor, index)) and not has_floor(number):
            return self.c(number)
        elements = Expr.of(1)
        for size in shape:
            elements = elements * size
        is_wide = not self.fits(elements)
        text, is_sum = "", False
        axes = [(size, e) for size, e in zip(shape, map(self.folded, index)) if (size, e) != (ONE, ZERO)]
        for position, (size, e) in enumerate(axes):
            if text in ("", "0"):
                is_last = position + 1 == len(axes) or e == ZERO
                text = self.c(e, 1 if is_last or not is_wide else 3)
                is_sum = (is_last or not is_wide) and (" + " in text or " - " in text)
                if is_wide and not is_last and self.fits(e):
                    text = f"(long long){text}"
            else:
                text = f"({text})" if is_sum else text
                text = f"{text} * {self.c(size, 3)}" + ("" if e == ZERO else f" + {self.c(e, 1)}")
                is_sum = e != ZERO
        return text or "0"

    def guard(self, guard: tuple[Bound, ...]) -> str:
        """A conjunction as C, without the comparisons that the ranges decide; `true` when none is left."""
        tests: list[str] = []
        for bound in guard:
            if bound.equals is not None:
                tests.append(f"{self.c(bound.expr)} == {self.c(bound.equals)}")
                continue
            value = self.interval(bound.expr)
            if bound.lower is not None and not self._is_at_least(value, bound.lower):
                tests.append(f"{self.c(bound.lower)} <= {self.c(bound.expr)}")
            if bound.upper is not None and not self._is_below(value, bound.upper):
                tests.append(f"{self.c(bound.expr)} < {self.c(bound.upper)}")
        return " && ".join(tests) or "true"

    def _is_at_least(self, value: Interval, lower: Expr) -> bool:
        return value.low is not None and lower.constant is not None and value.low >= lower.constant

    def _is_below(self, value: Interval, upper: Expr) -> bool:
        return value.high is not None and upper.constant is not None and value.high < upper.constant

    def _sum(self, expr: Expr, is_wide: bool) -> tuple[str, int]:
        if not expr.terms:
            return "0", UNARY
        rest, pieces = self._remainders(expr)
        positive = [t for t in rest.terms if t[0] > 0]
        ordered = (
            [t for t in positive if t[1]] + [t for t in positive if not t[1]] + [t for t in rest.terms if t[0] < 0]
        )
        pieces += [
            _Piece("-" if c < 0 else "+", *self._product(abs(c), m), not self.fits(Expr(((c, m),)))) for c, m in ordered
        ]
        pieces.sort(key=lambda piece: (piece.sign == "-", is_wide and not piece.is_wide))
        first = pieces[0]
        if is_wide and not first.is_wide and not first.is_long:
            first = _Piece(
                first.sign, f"(long long){first.text if first.binds == UNARY else f'({first.text})'}", PRODUCT
            )
        if len(pieces) == 1 and first.sign == "+":
            return first.text, first.binds
        text = ("-" if first.sign == "-" else "") + (
            first.text if first.sign == "+" or first.binds > SUM else f"({first.text})"
        )
        for piece in pieces[1:]:
            text += f" {piece.sign} {piece.text}"
        return text, SUM

    def _remainders(self, expr: Expr) -> tuple[Expr, list[_Piece]]:
        """Takes out what is a remainder of a number known not to be negative, as `q * (e % d)`."""
        for found in remainders(expr):
            low = self.interval(found.dividend).low
            if low is None or low < 0 or len(found.factor.terms) != 1 or found.factor.terms[0][0] < 0:
                continue
            inner = f"{self.c(found.dividend, PRODUCT)} % {self.c(found.divisor, UNARY)}"
            is_long = self.is_long(found.dividend)
            if found.factor == ONE:
                piece = _Piece("+", inner, PRODUCT, False, is_long)
            else:
                is_wide = not self.fits(found.factor * found.divisor)
                text, _ = self._product(*found.factor.terms[0])
                text = f"(long long){text}" if is_wide and not is_long else text
                piece = _Piece("+", f"{text} * ({inner})", PRODUCT, is_wide, is_long)
            rest, more = self._remainders(found.rest)
            return rest, [piece, *more]
        return expr, []

    def _product(self, coefficient: int, monomial: tuple) -> tuple[str, int]:
        """A product of positive factor; made in 64 bits when it does not fit an int."""
        factors = (
            [str(coefficient) + ("ll" if coefficient > INT_MAX else "")] if coefficient != 1 or not monomial else []
        )
        factors += [self._atom(atom, len(monomial) + (coefficient != 1) > 1) for atom in monomial]
        if monomial and not self.fits(Expr(((coefficient, monomial),))) and not any(map(self._is_long, monomial[:1])):
            first = len(factors) - len(monomial)
            factors[first] = f"(long long){factors[first]}"
            factors.insert(0, factors.pop(first))  # the cast first, so that the product is made in 64 bits
        binds = PRODUCT if len(factors) > 1 or factors[0].startswith("(long") or " / " in factors[0] else UNARY
        return " * ".join(factors), binds

    def _is_long(self, atom: str | Floor) -> bool:
        """Whether the C of an atom is a long long."""
        if isinstance(atom, str):
            return not self.ranges.get(atom, Interval(0, 0)).fits(INT_MAX)
        return not self.fits(atom.num) or not self.fits(atom.den)

    def _atom(self, atom: str | Floor, in_product: bool) -> str:
        if isinstance(atom, str):
            return self.spellings.get(atom) or self.spell(atom)
        low = self.interval(atom.num).low
        if low is None or low < 0:
            call = f"floor_div({self.c(atom.num)}, {self.c(atom.den)})"
            return f"(int){call}" if self.fits(Expr(((1, (atom,)),))) and not self._is_long(atom) else call
        text = f"{self.c(atom.num, PRODUCT)} / {self.c(atom.den, UNARY)}"
        return f"({text})" if in_product else text
