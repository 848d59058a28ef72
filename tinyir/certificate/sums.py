"""Why an integer is >= 0, as sums of facts that anybody can add up.

A goal is denied (-goal - 1 >= 0), and facts that have to do with it are multiplied and added until a negative number is
>= 0 (Farkas). The simplex method says which facts; their multipliers are solved for exactly.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from ..ir.expr import ONE, Atom, Expr, Floor, Monomial
from ..ir.intervals import Interval, Ranges, interval_of
from ..ir.simplex import Lost, Simplex
from ..kit.records import dataclass
from ..kit.work import count

MOST_FACTS = 160  # of one sum's search
MOST_NAMES = 24  # that are written out in one fact
MOST_ATOMS = 5  # of a monomial whose factors facts are multiplied by
DENIAL = "deny"


@dataclass(frozen=True, slots=True)
class Term:
    """A fact, times others that are >= 0, times a number. The denial of the goal is None."""

    times: int
    factors: tuple[Expr | None, ...]

    def __str__(self) -> str:
        return "*".join((str(self.times), *(DENIAL if f is None else f"[{f}]" for f in self.factors)))


@dataclass(frozen=True, slots=True)
class Fact:
    """An expression that is >= 0 (or = 0), as a product of what the text says."""

    value: Expr
    factors: tuple[Expr | None, ...]
    is_equal: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """What is shown first, each by a sum, and the sum that shows the goal from it."""

    first: tuple[tuple[Expr, tuple[Term, ...]], ...]
    sum: tuple[Term, ...]


class Sums:
    """Searches among facts that are added block by block. `ranges`: numbers between which names are."""

    def __init__(self, facts: Iterable[tuple[Expr, bool]], around: Sums | None = None, most: int = MOST_FACTS):
        self.around, self.most = around, most
        self.work: int | None = None  # facts that searches may still look at, where they are counted
        self.facts = dict(facts)
        self.ranges: dict[str, Interval] = {} if around is None else dict(around.ranges)
        self.lets: dict[str, Expr] = {} if around is None else dict(around.lets)  # name - what it means
        self.answers: dict[Expr, Proof | None] = {}
        self._vain: dict[tuple[Expr, int, int], int] = {}  # the work of a goal that this number of facts does not show
        self._sought: dict[Expr, int] = {}  # goals that wait for what is shown first, and their places
        self._met = 0  # the place of the outermost of these that what is sought would rest on

    def all(self) -> dict[Expr, bool]:
        """The facts of this block and those around it."""
        found = {} if self.around is None else self.around.all()
        return {**found, **self.facts}

    def proof_of(self, goal: Expr, depth: int = 2) -> Proof | None:
        """Sums that show goal >= 0, or None. `depth`: of what is shown first."""
        block: Sums | None = self
        while block is not None:
            if block.answers.get(goal) is not None:
                return block.answers[goal]
            block = block.around
        if goal in self._sought:  # what is shown first may not rest on it
            self._met = min(self._met, self._sought[goal])
            return None
        if goal in self.answers:
            return self.answers[goal]
        key, place = (goal, depth, self._size()), len(self._sought)
        if key in self._vain:
            if self.work is not None:
                self.work -= self._vain[key]  # which a search has, however often it is done
            return None
        met, self._met, self._sought[goal], before = self._met, place, place, self.work
        found = self._search(goal, depth)
        del self._sought[goal]
        if found is not None or depth == 2:
            self.answers[goal] = found
        elif self._met == place and (self.work is None or self.work >= 0):
            self._vain[key] = (before or 0) - (self.work or 0)
        self._met = min(met, self._met)
        return found

    def _size(self) -> int:
        """How many facts there are."""
        return len(self.facts) + (0 if self.around is None else self.around._size())

    def _search(self, goal: Expr, depth: int) -> Proof | None:
        known = self.all()
        if rounded(goal) in known:
            return Proof((), (Term(1, (None,)), Term(1, (goal,))))
        first: dict[Expr, tuple[Term, ...]] = {}
        for stage in range(3 if depth else 1):
            found, denied = [Fact(rounded(-goal - 1), (None,))], _Denied()
            for _ in _rounds(found, known, goal, bool(stage), self.most):
                count("sums sought")
                if self.work is not None:
                    self.work -= len(found)
                    if self.work < 0:
                        return None
                terms = denied.refuted(found)
                if terms is not None:
                    return Proof(needed({fact: (fact, sum_of) for fact, sum_of in first.items()}, terms), terms)
            if stage < 2 and depth:
                first |= self._signs(found, known, depth)
            if stage == 1:
                first |= _divided(found, known, self.lets)
            known |= dict.fromkeys(first, False)
        return self._written_out(goal, depth)

    def _written_out(self, goal: Expr, depth: int) -> Proof | None:
        """The proof of a goal in which names are written out, in products too."""
        plain, terms = goal, [Term(1, (None,))]
        for _ in range(MOST_NAMES):
            step = next(((c, m, a) for c, m in plain.terms for a in m if a in self.lets), None)
            if step is None:
                break
            times, monomial, name = step
            at = monomial.index(name)
            rest = Expr(((1, monomial[:at] + monomial[at + 1 :]),))
            plain = plain - times * rest * self.lets[name]
            terms.append(Term(times, (self.lets[name],) if rest == ONE else (self.lets[name], rest)))
        if plain == goal or rounded(plain) != plain:
            return None
        proof = self.proof_of(plain, depth)
        if proof is None:
            return None
        return Proof((*proof.first, (plain, proof.sum)), (*terms, Term(1, (plain,))))

    def _signs(self, found: list[Fact], known: dict[Expr, bool], depth: int) -> dict[Expr, tuple[Term, ...]]:
        """The numbers between which floors are, and names of which there are products."""
        shown: dict[Expr, tuple[Term, ...]] = {}
        atoms = dict.fromkeys(a for f in found for _, m in f.value.terms for a in m)
        for atom in atoms:
            value = Expr(((1, (atom,)),))
            within = interval_of(value, Ranges(self.ranges))
            ends = (value - max(within.low or 0, 0), *(() if within.high is None else (within.high - value,)))
            for claim in (*ends, *_quotients(atom, known, self.lets), *_digits(atom, atoms)):
                if claim not in known and claim not in shown:
                    proof = self.proof_of(claim, depth - 1)
                    for fact, terms in (*proof.first, (claim, proof.sum)) if proof is not None else ():
                        shown.setdefault(fact, terms)
        return shown


def needed(
    shown: Mapping[Expr, tuple[Expr, tuple[Term, ...]]], terms: Iterable[Term]
) -> tuple[tuple[Expr, tuple[Term, ...]], ...]:
    """What is shown first (by its rounded form) and made use of, in an order in which it can be shown."""
    found: dict[Expr, tuple[Term, ...]] = {}

    def take(terms: Iterable[Term]) -> None:
        for factor in (rounded(f) for t in terms for f in t.factors if f is not None):
            fact, sum_of = shown.get(factor, (factor, ()))
            if sum_of and fact not in found:
                take(sum_of)
                found[fact] = sum_of

    take(terms)
    return tuple(found.items())


def _quotients(atom: Atom, known: Mapping[Expr, bool], lets: Mapping[str, Expr]) -> Iterator[Expr]:
    """That a name divided by sizes is under what is left of its own bound: floor(x/s) < n where x < n*s."""
    if not isinstance(atom, Floor) or atom.den.constant is not None:
        return
    sizes = _as_meant(atom.den, lets)
    for fact in known:
        bound = _as_meant(fact + atom.num + 1, lets)
        if len(sizes.terms) == len(bound.terms) == 1 and sizes.terms[0][0] == 1:
            (_, divisors), (times, factors) = sizes.terms[0], bound.terms[0]
            left = Counter(factors) - Counter(divisors)
            if left.total() == len(factors) - len(divisors) and times > 0:
                yield math.prod((Expr(((1, (a,)),)) for a in left.elements()), start=times * ONE) - Expr.of(atom) - 1


def _digits(atom: Atom, others: Iterable[Atom]) -> Iterator[Expr]:
    """That of a floor what a coarser one of the same number leaves is a digit: floor(x/a) - b*floor(x/(a*b)) < b."""
    for coarse in others:
        if isinstance(atom, Floor) and isinstance(coarse, Floor) and atom.num == coarse.num:
            size, rest = divmod(coarse.den.constant or 0, atom.den.constant or 1)
            if size > 1 and rest == 0:
                digit = Expr(((1, (atom,)),)) - size * Expr(((1, (coarse,)),))
                yield from (digit, size - 1 - digit)


def _as_meant(e: Expr, lets: Mapping[str, Expr]) -> Expr:
    """An integer with what names of products mean in their place."""
    return e.substitute({name: Expr.of(name) - fact for name, fact in lets.items()})


def _divided(found: list[Fact], known: dict[Expr, bool], lets: Mapping[str, Expr]) -> dict[Expr, tuple[Term, ...]]:
    """Facts with names written out, where all but the constant can then be divided and the constant is rounded."""
    shown: dict[Expr, tuple[Term, ...]] = {}
    for fact in [f for f in found if not f.is_equal and len(f.factors) == 1 and f.factors[0] is not None]:
        plain, terms = fact.value, [Term(1, fact.factors)]
        for _ in range(MOST_NAMES):
            step = next(((c, m[0]) for c, m in plain.terms if len(m) == 1 and m[0] in lets), None)
            if step is None:
                break
            times, name = step
            plain = plain - times * lets[name]
            terms.append(Term(-times, (lets[name],)))
        claim = rounded(plain)
        common = math.gcd(*(c for c, m in plain.terms if m))
        if common > 1 and plain.offset % common and claim not in known:
            shown[claim] = (Term(common, (None,)), *terms)
    return shown


def _rounds(found: list[Fact], known: dict[Expr, bool], goal: Expr, is_wide: bool, most: int) -> Iterator[None]:
    """Adds facts that share a monomial with those that there are, the axioms of floors, and products; if `is_wide`
    facts too that have a product with a name of the goal."""
    unused = dict(known)
    seen: set[Monomial] = set()
    atoms: set[Floor] = set()
    products: set[tuple[Expr, Monomial]] = set()
    wide = {a for _, m in goal.terms for a in m} if is_wide else set()
    naturals = {e.terms[0][1][0] for e in known if len(e.terms) == 1 and e.terms[0][0] == 1 and len(e.terms[0][1]) == 1}
    size = 0
    while size < len(found) <= most:
        for fact in found[size:]:
            seen |= {m for _, m in fact.value.terms if m}
        size = len(found)
        for atom in [a for m in seen for a in m if isinstance(a, Floor) and a not in atoms]:
            atoms.add(atom)
            rest = atom.num - atom.den * Expr(((1, (atom,)),))
            found += [Fact(e, (e,)) for e in map(rounded, (rest, atom.den - 1 - rest))]
        for fact in [f for f in unused if any(m in seen or len(m) > 1 and wide.intersection(m) for _, m in f.terms)]:
            found.append(Fact(fact, (fact,), unused.pop(fact)))
        yield
        for factor, partners in _factors(seen, naturals):
            for fact in [f for f in found if len(f.factors) == 1]:
                if (fact.value, factor) not in products and any(m in partners for _, m in fact.value.terms):
                    products.add((fact.value, factor))
                    others = tuple(Expr(((1, (a,)),)) for a in factor)
                    value = fact.value * Expr(((1, factor),))
                    found.append(Fact(value, (*fact.factors, *others), fact.is_equal))
        if size < len(found):
            yield


def _factors(seen: set[Monomial], naturals: set) -> Iterator[tuple[Monomial, set[Monomial]]]:
    """What facts are multiplied by, with the monomials of which one makes the product speak of what is there."""
    found: dict[Monomial, set[Monomial]] = {}
    for monomial in [m for m in seen if 1 < len(m) <= MOST_ATOMS]:
        for chosen in itertools.product((False, True), repeat=len(monomial)):
            factor = tuple(itertools.compress(monomial, chosen))
            if factor and len(factor) < len(monomial) and naturals.issuperset(factor):
                found.setdefault(factor, set()).add(tuple(a for a, c in zip(monomial, chosen) if not c))
    yield from found.items()


class _Denied:
    """The facts of a search, which grow until some of them cannot all be >= 0. A question goes on from the corner that
    the one before it has found."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[Monomial, int] = {}
        self._simplex = Simplex()
        self._added: list[tuple[Fact, int]] = []  # by the numbers of slacks
        self._count = 0  # facts that it has

    def refuted(self, facts: Sequence[Fact]) -> tuple[Term, ...] | None:
        """The terms of facts that cannot all be >= 0, or None where the simplex method finds none. `facts` are those of
        the last question and others behind them."""
        for fact in facts[self._count :]:
            for sign in (1, -1) if fact.is_equal else (1,):
                terms = {self._numbers.setdefault(m, len(self._numbers)): sign * c for c, m in fact.value.terms if m}
                if terms:
                    self._simplex.add(terms, sign * fact.value.offset)
                    self._added.append((fact, sign))
        self._count = len(facts)
        try:
            if self._simplex.solve():
                return None
        except Lost:
            self._begin()  # it may be in the middle of a step
            return None
        for key, row in self._simplex.basic.items():
            if key < -1 and row.get(-1, 0) < 0 and all(k < 0 and (k == -1 or c <= 0) for k, c in row.items()):
                return _solved([self._added[-2 - k] for k in (key, *row) if k < -1])
        return None


def _solved(support: Sequence[tuple[Fact, int]]) -> tuple[Term, ...] | None:
    """The multipliers with which facts add up to a negative number: the one solution of linear equations."""
    values = [fact.value * sign for fact, sign in support]
    monomials = sorted({m for e in values for _, m in e.terms if m}, key=str)
    columns = [{m: c for c, m in e.terms} for e in values]
    rows = [[Fraction(column.get(m, 0)) for column in columns] + [Fraction(0)] for m in monomials]
    rows.append([Fraction(column.get((), 0)) for column in columns] + [Fraction(-1)])
    found = _gauss(rows, len(columns))
    if found is None or min(found) < 0:
        return None
    scale = math.lcm(*(x.denominator for x in found))
    terms = []
    for (fact, sign), x in zip(support, found):
        if x:
            times = int(x * scale)
            terms.append(Term(times * sign, fact.factors))
    return tuple(terms)


def rounded(fact: Expr) -> Expr:
    """The fact divided by what divides all but its constant, which is rounded down as its values are integers."""
    common = math.gcd(*(c for c, m in fact.terms if m))
    return Expr(tuple((c // common, m) for c, m in fact.terms if c // common)) if common > 1 else fact


def _gauss(rows: list[list[Fraction]], width: int) -> list[Fraction] | None:
    """A solution of rows of equations, the last column being their right sides; None if there is none."""
    pivots: list[int] = []
    at = 0
    for column in range(width):
        pivot = next((r for r in range(at, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[at], rows[pivot] = rows[pivot], rows[at]
        first = rows[at][column]
        rows[at] = [x / first for x in rows[at]]
        for r in range(len(rows)):
            if r != at and rows[r][column]:
                times = rows[r][column]
                rows[r] = [a - times * b for a, b in zip(rows[r], rows[at])]
        pivots.append(column)
        at += 1
    if any(row[-1] for row in rows[at:]):
        return None
    found = [Fraction(0)] * width
    for row, column in zip(rows, pivots):
        found[column] = row[-1]
    return found
