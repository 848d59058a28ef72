"""What follows from facts that are linear in their monomials: `floor(n/d)` and `a*b` are unknowns there, each with the
bounds that its own making gives it. The facts that have to do with the question become one system, of which the simplex
method shows within a number of steps that it has no solution, or that it has one; else isl is asked, within a number of
steps too.

Sound, not complete: of a product isl knows no more than its range and what it is multiplied out of here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from ...kit.records import dataclass, field
from ...kit.work import count
from ..expr import ZERO, Atom, Expr, Floor, Monomial
from ..intervals import Interval, interval_of
from ..remainder import exact_quotient
from ..sets import within_steps
from ..simplex import Lost, Simplex, has_integers

MOST_STEPS = 600  # of isl for one set, some hundredths of a second; what holds takes up to 300
MOST_READING = 400_000  # of isl to read the set, some hundreds for each fact
MOST_UNKNOWNS = 64  # beyond them no more facts are taken
FAR = 1 << 40  # ends of ranges beyond it are of no use
MOST_CASES = 32  # in which a set is looked at, for guards that do not hold
MOST_ATOMS = 4  # of an unknown whose factors facts are multiplied by
MOST_PRODUCTS = 48


@dataclass(frozen=True, slots=True)
class Known:
    """Expressions that are >= 0; tuples of which one at least is < 0, the nearest last; what names mean; ranges of
    names."""

    naturals: tuple[Expr, ...]
    broken: tuple[tuple[Expr, ...], ...]
    lets: Mapping[str, tuple[Expr, ...]]
    ranges: Mapping[str, Interval]
    signs: dict[Floor, bool] = field(default_factory=dict)  # floors that are >= 0, or not known to be, once asked


def is_shown(goal: Expr, known: Known, depth: int = 2) -> bool:
    """Whether goal >= 0 follows for integers: from few facts, else from those too that have to do with them, and so on.
    `depth`: of floors in floors whose signs are asked for."""
    system = _System(known, depth)
    system.add(-goal - 1)
    return any(system.is_impossible() for _ in system.rounds())


@dataclass(slots=True)
class _System:
    """Facts gathered around a question, and the unknowns in them."""

    known: Known
    depth: int
    facts: dict[Expr, None] = field(default_factory=dict)
    numbers: dict[Monomial, int] = field(default_factory=dict)
    cases: list[tuple[Expr, ...]] = field(default_factory=list)
    products: int = 0
    rows: list[tuple] = field(default_factory=list)  # of the facts, their unknowns numbered
    simplex: Simplex = field(default_factory=Simplex)
    solved: int = 0  # of the rows, those that the simplex has

    def add(self, fact: Expr) -> None:
        """fact >= 0, and what its unknowns bring."""
        if fact not in self.facts:
            self.facts[fact] = None
            self._meet((fact,))

    def _meet(self, facts: Iterable[Expr]) -> None:
        for monomial in _monomials(facts):
            if monomial not in self.numbers:
                self.numbers[monomial] = len(self.numbers)
                self._describe(monomial)

    def _describe(self, monomial: Monomial) -> None:
        """Adds the range of an unknown, what it means, and what makes a floor one."""
        value = Expr(((1, monomial),))
        found = interval_of(value, self.known.ranges)
        if found.low is not None and found.low > -FAR:
            self.add(value - found.low)
        elif all(map(self._is_natural, monomial)):
            self.add(value)
        if found.high is not None and found.high < FAR:
            self.add(found.high - value)
        for same in self.known.lets.get(monomial[0], ()) if value.name else ():
            self.add(same - value)
            self.add(value - same)
        for atom in dict.fromkeys(a for a in monomial if isinstance(a, Floor)):
            rest = atom.num - atom.den * Expr(((1, (atom,)),))
            self.add(rest)
            self.add(atom.den - 1 - rest)
            if atom.den.constant is None:
                self.add(atom.den - 1)
                self._compare(atom)

    def _compare(self, floor: Floor) -> None:
        """Adds floor(n/d) < q where a fact says n < q*d, and q <= floor(n/d) where one says q*d <= n; what else the
        fact speaks of keeps in its range."""
        value = Expr(((1, (floor,)),))
        for fact in self.known.naturals:
            whole = _multiples(fact, floor)
            if whole.terms:
                rest = whole - fact  # rest <= whole
                if self._is_in_range(rest - floor.num - 1):
                    self.add(_quotient(whole, floor.den) - value - 1)
                if self._is_in_range(floor.num + rest):  # -whole <= n
                    self.add(value - _quotient(-whole, floor.den))

    def _is_in_range(self, expr: Expr) -> bool:
        low = interval_of(expr, self.known.ranges).low
        return low is not None and low >= 0

    def _is_natural(self, atom: Atom) -> bool:
        """Whether a name or a floor is >= 0: a floor is where its number is."""
        low = interval_of(Expr(((1, (atom,)),)), self.known.ranges).low
        if low is not None and low >= 0:
            return True
        if isinstance(atom, str) or not self.depth:
            return False
        signs = self.known.signs
        if atom not in signs:
            signs[atom] = False
            signs[atom] = is_shown(atom.num, self.known, self.depth - 1)
        return signs[atom]

    def rounds(self) -> Iterator[None]:
        """Adds the facts that share an unknown with what is there, and products of facts, as long as there is room;
        each round is a question more."""
        (goal,) = list(self.facts)[:1]
        for den in dict.fromkeys(
            a.den for m in list(self.numbers) for a in m if isinstance(a, Floor) and a.den.constant is None
        ):
            self.add(goal * den)
        factors = self._factors()
        self._multiply(list(self.facts)[1:], factors, 0)
        yield
        waiting = dict.fromkeys(self.known.naturals)
        count = 1
        before = 0
        while len(self.facts) + len(self.cases) > before and len(self.numbers) < MOST_UNKNOWNS:
            before = len(self.facts) + len(self.cases)
            new = [f for f in waiting if any(m in self.numbers for m in _monomials((f,)))]
            for fact in new:
                del waiting[fact]
                self.add(fact)
            self._multiply(new, factors, 1)
            for case in reversed(self.known.broken):
                if (
                    case not in self.cases
                    and count * len(case) <= MOST_CASES
                    and any(m in self.numbers for m in _monomials(case))
                ):
                    count *= len(case)
                    self._meet(case)
                    self.cases.append(case)
            if len(self.facts) + len(self.cases) > before:
                yield

    def _multiply(self, facts: Iterable[Expr], factors: Mapping[Monomial, Collection[Monomial]], most: int) -> None:
        """Adds products of facts that bring at most this number of unknowns."""
        for fact in facts:
            for factor, partners in factors.items():
                if self.products < MOST_PRODUCTS and any(m in partners for _, m in fact.terms):
                    product = fact * Expr(((1, factor),))
                    if sum(m not in self.numbers for m in _monomials((product,))) <= most:
                        self.products += 1
                        self.add(product)

    def _factors(self) -> dict[Monomial, set[Monomial]]:
        """What facts are multiplied by, each with the unknowns of which one makes the product speak of what is there: i
        < m gives i*n <= m*n - n."""
        found: dict[Monomial, set[Monomial]] = {}
        for monomial in [m for m in self.numbers if 1 < len(m) <= MOST_ATOMS]:
            for chosen in itertools.product((False, True), repeat=len(monomial)):
                factor = tuple(itertools.compress(monomial, chosen))
                if factor and factor != monomial and all(map(self._is_natural, factor)):
                    found.setdefault(factor, set()).add(tuple(a for a, c in zip(monomial, chosen) if not c))
        return found

    def is_impossible(self) -> bool:
        """Whether no integers make all of it hold; what was found of a system holds for one of other names."""
        self.rows += [self._row(fact) for fact in itertools.islice(self.facts, len(self.rows), None)]
        cases = tuple(tuple(self._row(-e - 1) for e in case) for case in self.cases)
        key = (tuple(self.rows), cases)
        answers = _answers()
        found = answers.get(key)
        if found is None:
            count("systems")
            found = answers[key] = self._judged(cases)
        return found

    def _row(self, fact: Expr) -> tuple:
        """(constant, ((unknown, coefficient), ...))."""
        terms = fact.terms
        constant = terms[-1][0] if terms and not terms[-1][1] else 0
        return constant, tuple((self.numbers[m], c) for c, m in terms if m)

    def _judged(self, cases: tuple) -> bool:
        try:
            for constant, terms in self.rows[self.solved :]:
                self.simplex.add(dict(terms), constant)
            self.solved = len(self.rows)
            has_some = _has_some(self.simplex, cases)
        except Lost:
            has_some = None
        return not has_some if has_some is not None else _is_empty(self.text)

    @property
    def text(self) -> str:
        """The set of points at which all holds, in isl's notation; unknowns are numbered in the order in which they
        came."""
        held = [f"{self._side(fact)} >= 0" for fact in self.facts]
        for case in self.cases:
            held.append(f"({' or '.join(f'{self._side(e)} < 0' for e in case)})")
        return f"{{ [{', '.join(f'v{n}' for n in range(len(self.numbers)))}] : {' and '.join(held)} }}"

    def _side(self, fact: Expr) -> str:
        return " + ".join(f"{c}v{self.numbers[m]}" if m else str(c) for c, m in fact.terms) or "0"


def _multiples(fact: Expr, floor: Floor) -> Expr:
    """The part of a fact that is a multiple of a floor's divisor without more ado: each term by itself, or all but the
    floor's number and one."""
    if len(floor.den.terms) > 1:
        return next((e for e in (fact + floor.num + 1, fact - floor.num) if _is_multiple(e, floor.den)), ZERO)
    return Expr(tuple((c, m) for c, m in fact.terms if m and _is_multiple(Expr(((c, m),)), floor.den)))


def _is_multiple(expr: Expr, den: Expr) -> bool:
    return exact_quotient(expr, den) is not None


def _quotient(expr: Expr, den: Expr) -> Expr:
    quotient = exact_quotient(expr, den)
    assert quotient is not None, "a sum of multiples is one"
    return quotient


def _monomials(facts: Iterable[Expr]) -> Iterator[Monomial]:
    return (m for fact in facts for _, m in fact.terms if m)


def _has_some(simplex: Simplex, cases: tuple) -> bool | None:
    """Whether integers make a system hold, and one side of each case; None: not known within the limits."""
    if not cases:
        return has_integers(simplex)
    if not simplex.solve():
        return False
    is_known = True
    for constant, terms in cases[0]:
        side = simplex.copy()
        side.add(dict(terms), constant)
        found = _has_some(side, cases[1:])
        if found:
            return True
        is_known = is_known and found is False
    return False if is_known else None


@functools.cache
def _answers() -> dict[tuple, bool]:
    """What was found of systems, by their rows."""
    return {}


@functools.lru_cache(maxsize=1 << 14)
def _is_empty(text: str) -> bool:
    import islpy

    count("isl sets")
    found = False
    with within_steps(MOST_READING):
        facts = islpy.Set(text)
        with within_steps(MOST_STEPS):
            found = facts.is_empty()
    return found
