"""Integer expressions over symbols and axes: sizes, index maps, guards.

An Expr is a polynomial with integer coefficients over atoms; an atom is a name (a symbol of the signature, or an axis)
or a `floor(e/d)` with a positive divisor, rounded down. Exprs are normal: terms are sorted, none is zero, floors are in
lowest terms, so one object has one spelling and equal polynomials are equal objects; whether two floors are equal
functions is isl's to say. There is no `%`: `a mod b` is written `a - b*floor(a/b)` (seed 001 section 4.3).

Text, which isl reads as written when the expression is affine: `2*i0 + k0 - 1`, `floor((H - 1)/2) + 1`, `M*N`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Union

from ..kit.diag import refuse
from ..kit.phrase import Phrase
from ..kit.records import dataclass, field

MOST_TERMS = 512  # of a product: sizes of real models have a dozen
MOST_BITS = 256  # of one integer: four times what a machine has


@dataclass(frozen=True, slots=True)
class Floor:
    """`floor(num/den)`, rounded towards minus infinity. `den` is positive wherever the expression is evaluated."""

    num: Expr
    den: Expr
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.num, self.den)))

    def __hash__(self) -> int:
        return self._hash  # kept, since floors contain floors and every sum looks them up

    def __reduce__(self) -> tuple:
        return Floor, (self.num, self.den)  # another process hashes names otherwise

    def __str__(self) -> str:
        return f"floor({_side(self.num)}/{_side(self.den)})"


Atom = Union[str, Floor]  # noqa: UP007
Monomial = tuple[Atom, ...]
Like = Union["Expr", int, str]


@dataclass(frozen=True, slots=True)
class Expr:
    """A sum of `(coefficient, monomial)` terms, sorted; the constant's monomial is `()`. Build with `Expr.of` and
    arithmetic."""

    terms: tuple[tuple[int, Monomial], ...]
    _hash: int = field(init=False, repr=False, compare=False)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __init__(self, terms: tuple[tuple[int, Monomial], ...]):
        _put_terms(self, terms)

    def __hash__(self) -> int:
        try:
            return self._hash  # kept from the first time: every memo is asked by expressions
        except AttributeError:
            found = hash(self.terms)
            _put_hash(self, found)
            return found

    def __eq__(self, other: object) -> bool:
        return self is other or (other.__class__ is Expr and self.terms == other.terms)

    def __reduce__(self) -> tuple:
        return Expr, (self.terms,)  # another process hashes names otherwise

    @staticmethod
    def of(value: Like) -> Expr:
        """The Expr of an integer, a name, or an Expr."""
        kind = value.__class__
        if kind is Expr:
            return value
        return _constant(value) if kind is int or kind is not str and isinstance(value, int) else _name(value)

    def __add__(self, other: Like) -> Expr:
        if other.__class__ is not Expr:
            if isinstance(other, int):
                return _plus(self, other)
            other = _name(other)
        right = other.terms
        if not right:
            return self
        left = self.terms
        if not left:
            return Expr(right)
        if len(right) == 1 and not right[0][1]:
            return _plus(self, right[0][0])
        return _sum(left + right)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr(tuple([(-c, m) for c, m in self.terms]))

    def __sub__(self, other: Like) -> Expr:
        if other.__class__ is not Expr:
            if isinstance(other, int):
                return _plus(self, -other)
            other = _name(other)
        right = other.terms
        if not right:
            return self
        if len(right) == 1 and not right[0][1]:
            return _plus(self, -right[0][0])
        negative = tuple([(-c, m) for c, m in right])
        return _sum(self.terms + negative) if self.terms else Expr(negative)

    def __rsub__(self, other: Like) -> Expr:
        return Expr.of(other) - self

    def __mul__(self, other: Like) -> Expr:
        """The product. Raises Refused (E0006) for one that no kernel could compute: of too many terms, or with too long
        a number in it."""
        right = Expr.of(other)
        if right is ONE:
            return self
        if self is ONE:
            return right
        if len(self.terms) * len(right.terms) > MOST_TERMS**2:
            raise refuse(
                "E0006",
                what=Phrase("a product of {count} by {count2} terms", count=len(self.terms), count2=len(right.terms)),
            )
        found = _product(self, right)
        if len(found.terms) > MOST_TERMS:
            raise refuse(
                "E0006",
                what=Phrase("an expression of {count} terms (at most {most})", count=len(found.terms), most=MOST_TERMS),
            )
        for number, _ in found.terms:
            if number.bit_length() > MOST_BITS:
                raise refuse("E0006", what=Phrase("an integer of more than {most} bits", most=MOST_BITS))
        return found

    __rmul__ = __mul__

    def __floordiv__(self, other: Like) -> Expr:
        return _floordiv(self, Expr.of(other))

    def ceildiv(self, other: Like) -> Expr:
        """The quotient rounded up."""
        return (self + Expr.of(other) - 1) // other

    @property
    def constant(self) -> int | None:
        """The value, when there are no names in it; None otherwise."""
        terms = self.terms
        if not terms:
            return 0
        number, monomial = terms[-1]  # of a constant the first
        return number if not monomial and len(terms) == 1 else None

    @property
    def offset(self) -> int:
        """The constant term."""
        return next((c for c, m in self.terms if not m), 0)

    @property
    def name(self) -> str | None:
        """The name, when the expression is one bare name; None otherwise."""
        terms = self.terms
        if len(terms) != 1:
            return None
        number, monomial = terms[0]
        return monomial[0] if number == 1 and len(monomial) == 1 and monomial[0].__class__ is not Floor else None

    @property
    def vocabulary(self) -> frozenset[str]:
        """The names in it, inside floors too."""
        try:
            return self._names
        except AttributeError:
            found = frozenset(self.names())
            _put_names(self, found)
            return found

    def names(self) -> Iterator[str]:
        """Every name in it, inside floors too, possibly more than once."""
        for _, monomial in self.terms:
            for atom in monomial:
                if atom.__class__ is Floor:
                    yield from atom.num.names()
                    yield from atom.den.names()
                else:
                    yield atom

    def is_affine(self) -> bool:
        """True when isl can hold it: no product of names, no divisor that is not an integer."""
        for _, monomial in self.terms:
            if len(monomial) > 1:
                return False
            for atom in monomial:
                if isinstance(atom, Floor) and (atom.den.constant is None or not atom.num.is_affine()):
                    return False
        return True

    @property
    def weight(self) -> int:
        """How much there is to read: one for each term and each atom, inside floors too."""
        return _weight(self)

    @property
    def bits(self) -> int:
        """The bits of the greatest integer that is in it."""
        return _bits(self)

    def substitute(self, bindings: Mapping[str, Like]) -> Expr:
        """The expression with names replaced; canonical again. Raises ZeroDivisionError for a divisor that becomes a
        number below 1."""
        if self.vocabulary.isdisjoint(bindings):
            return self
        total = _constant(0)
        for coefficient, monomial in self.terms:
            product = _constant(coefficient)
            for atom in monomial:
                if isinstance(atom, str):
                    product = product * bindings.get(atom, atom)
                else:
                    product = product * (atom.num.substitute(bindings) // atom.den.substitute(bindings))
            total = total + product
        return total

    @property
    def plain(self) -> int | str:
        """The number where it is one, else the text."""
        return str(self) if self.constant is None else self.constant

    def evaluate(self, bindings: Mapping[str, int]) -> int:
        """The integer it means; an array of integers where names are bound to arrays. Raises KeyError for a name
        without a binding, ZeroDivisionError for a zero divisor."""
        total = 0
        for coefficient, monomial in self.terms:
            for atom in monomial:
                coefficient = coefficient * (
                    atom.num.evaluate(bindings) // atom.den.evaluate(bindings)
                    if atom.__class__ is Floor
                    else bindings[atom]
                )
            total = total + coefficient
        return total

    def __str__(self) -> str:
        return _show(self)


_put_terms, _put_hash, _put_names = Expr.terms.__set__, Expr._hash.__set__, Expr._names.__set__  # pyright: ignore


@functools.lru_cache(maxsize=65536)
def _constant(value: int) -> Expr:
    if value.bit_length() > MOST_BITS:
        raise refuse(
            "E0006",
            what=Phrase("an integer of {value} bits (at most {most})", value=value.bit_length(), most=MOST_BITS),
        )
    return Expr(((int(value), ()),) if value else ())


@functools.lru_cache(maxsize=65536)
def _name(name: str) -> Expr:
    return Expr(((1, (name,)),))


@functools.lru_cache(maxsize=65536)
def _weight(expr: Expr) -> int:
    return sum(1 + sum(1 if isinstance(a, str) else a.num.weight + a.den.weight for a in m) for _, m in expr.terms)


@functools.lru_cache(maxsize=65536)
def _bits(expr: Expr) -> int:
    return max(
        (
            b
            for c, m in expr.terms
            for b in (c.bit_length(), *(max(a.num.bits, a.den.bits) for a in m if isinstance(a, Floor)))
        ),
        default=0,
    )


ZERO, ONE = _constant(0), _constant(1)


def _plus(expr: Expr, number: int) -> Expr:
    """The sum with a number: the constant is the last term."""
    terms = expr.terms
    if not number:
        return expr
    if not terms:
        return _constant(number)
    if terms[-1][1]:
        return Expr((*terms, (number, ())))
    total = terms[-1][0] + number
    return Expr((*terms[:-1], (total, ())) if total else terms[:-1])


def _product(left: Expr, right: Expr) -> Expr:
    """The product, of any length."""
    number, other = left.constant, right
    if number is None:
        number, other = right.constant, left
    if number is not None:
        return other if number == 1 else Expr(tuple([(number * c, m) for c, m in other.terms])) if number else ZERO
    return _sum(
        tuple((a * b, m + n if not m or not n else _merged(m + n)) for a, m in left.terms for b, n in right.terms)
    )


@functools.lru_cache(maxsize=65536)
def _merged(atoms: Monomial) -> Monomial:
    return tuple(sorted(atoms, key=_atom_key))


def _sum(terms: tuple[tuple[int, Monomial], ...]) -> Expr:
    collected: dict[Monomial, int] = {}
    for coefficient, monomial in terms:
        collected[monomial] = collected.get(monomial, 0) + coefficient
    kept = [(c, m) for m, c in collected.items() if c]
    if len(kept) > 1:
        kept.sort(key=_term_key)
    return Expr(tuple(kept))


def _floordiv(num: Expr, den: Expr) -> Expr:
    num, den = _flattened(num, den)
    divisor = den.constant
    if divisor and num.constant is not None:
        return _constant(num.constant // divisor)
    if den == ONE:
        return num
    if divisor is not None and divisor < 1:
        raise ZeroDivisionError(str(divisor))
    if divisor is None:
        quotient = _exact_quotient(num, den)
        return quotient if quotient is not None else Expr(((1, (Floor(num, den),)),))
    # Whole multiples of the divisor leave the floor. A remainder keeps its sign, so that M - i0 stays M - i0; the
    # constant's is positive.
    parts = [(*(divmod(c, divisor) if c > 0 or not m else _divmod_negative(c, divisor)), m) for c, m in num.terms]
    whole = _sum(tuple((q, m) for q, _, m in parts))
    rest = _sum(tuple((r, m) for _, r, m in parts))
    if rest.constant is not None:
        return whole
    common = math.gcd(divisor, *(c for c, m in rest.terms if m))
    if common > 1 or rest != num:  # a floor left alone with a factor of 1 may now be one with this
        return whole + _floordiv(_sum(tuple((c // common, m) for c, m in rest.terms)), _constant(divisor // common))
    return whole + Expr(((1, (Floor(rest, _constant(divisor)),)),))


def _flattened(num: Expr, den: Expr) -> tuple[Expr, Expr]:
    """A floor inside a floor, both by integers, is one: `floor((floor(x/a) + y)/b)` is `floor((x + a*y)/(a*b))` for an
    integer y."""
    while den.constant is not None:
        floors = [(c, m) for c, m in num.terms if any(isinstance(a, Floor) for a in m)]
        if len(floors) != 1 or floors[0][0] != 1 or len(floors[0][1]) != 1:
            break
        (inner,) = floors[0][1]
        if not isinstance(inner, Floor) or inner.den.constant is None:
            break
        num, den = inner.num + (num - Expr((floors[0],))) * inner.den, den * inner.den
    return num, den


def _divmod_negative(value: int, divisor: int) -> tuple[int, int]:
    return -(-value // divisor), -(-value % divisor)


def _exact_quotient(num: Expr, den: Expr) -> Expr | None:
    """num / den when den is one monomial that divides every term; None otherwise. Sound because divisors are
    positive."""
    if len(den.terms) != 1:
        return ONE if num == den else None
    ((scale, divisor),) = den.terms
    quotients = []
    for coefficient, monomial in num.terms:
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if coefficient % scale:
            return None
        quotients.append((coefficient // scale, tuple(left)))
    return _sum(tuple(quotients))


def _natural(name: str) -> tuple:
    """A key by which names sort as a reader expects: `i2` before `i10`."""
    return tuple(
        (len(part.lstrip("0")), part) if part.isdecimal() else (-1, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    )


@functools.lru_cache(maxsize=65536)
def _atom_key(atom: Atom) -> tuple:
    return (0, _natural(atom)) if isinstance(atom, str) else (1, _natural(str(atom)))


def _term_key(term: tuple[int, Monomial]) -> tuple:
    return _monomial_key(term[1])


@functools.lru_cache(maxsize=65536)
def _monomial_key(monomial: Monomial) -> tuple:
    return (not monomial, tuple(_atom_key(a) for a in monomial))


def _side(expr: Expr) -> str:
    text = str(expr)
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


@functools.lru_cache(maxsize=65536)
def _show(expr: Expr) -> str:
    if not expr.terms:
        return "0"
    named = [t for t in expr.terms if t[1]]
    constant = [t for t in expr.terms if not t[1]]
    shown = [t for t in named if t[0] > 0]
    negative = [t for t in named if t[0] < 0]
    shown += constant + negative if constant and constant[0][0] > 0 and not shown else negative + constant
    text = ""
    for position, (coefficient, monomial) in enumerate(shown):
        sign = ("-" if coefficient < 0 else "") if position == 0 else (" - " if coefficient < 0 else " + ")
        factors = [str(a) for a in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        text += sign + "*".join(factors)
    return text


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Bound:
    """One guard: `lower <= expr < upper`; either side may be absent, and `equals` is used alone, for `expr = value`."""

    expr: Expr
    lower: Expr | None = None
    upper: Expr | None = None
    equals: Expr | None = None

    def __str__(self) -> str:
        if self.equals is not None:
            return f"{self.expr} = {self.equals}"
        low = f"{self.lower} <= " if self.lower is not None else ""
        high = f" < {self.upper}" if self.upper is not None else ""
        return f"{low}{self.expr}{high}"

    def holds(self, bindings: Mapping[str, int]) -> bool:
        """Whether the guard is true at one point."""
        value = self.expr.evaluate(bindings)
        if self.equals is not None:
            return value == self.equals.evaluate(bindings)
        return (self.lower is None or self.lower.evaluate(bindings) <= value) and (
            self.upper is None or value < self.upper.evaluate(bindings)
        )

    @property
    def vocabulary(self) -> frozenset[str]:
        """The names in it."""
        return frozenset().union(*[e.vocabulary for e in self.exprs])

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions in it."""
        return tuple([e for e in (self.expr, self.lower, self.upper, self.equals) if e is not None])

    def substitute(self, bindings: Mapping[str, Like]) -> Bound:
        """The guard with names replaced."""

        def put(e: Expr | None) -> Expr | None:
            return None if e is None else e.substitute(bindings)

        return Bound(self.expr.substitute(bindings), put(self.lower), put(self.upper), put(self.equals))


def show_guard(guard: tuple[Bound, ...]) -> str:
    """A conjunction as text: `0 <= i0 - 1 < W and i1 < H`."""
    return " and ".join(map(str, guard))
