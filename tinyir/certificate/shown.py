"""Several goals shown one after another: names are written out, and what is shown is a fact for what comes next."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping

from ..ir.expr import ONE, Expr, Floor
from ..ir.intervals import Interval, Ranges, interval_of
from .sums import Proof, Sums, Term, needed, rounded

MOST_FACTS = 100  # of one search
MOST_WORK, MOST_OF_ALL = 6000, 120000  # facts that are looked at for one goal, and for all
MOST_STEPS = 64  # in which names are written out


Lets = Mapping[str, Expr]  # what names mean, as name - meaning, which is 0


class Shown:
    """What is shown so far. `facts`: those that are searched for a goal that writing out does not show; `divisors`:
    what is shown to be positive."""

    def __init__(self, facts: Iterable[tuple[Expr, bool]], ranges: Mapping[str, Interval]):
        self.narrow = Sums(facts, most=MOST_FACTS)
        self.narrow.ranges |= ranges
        self.so = dict[Expr, tuple[Term, ...]]()
        self.meant = dict[Floor, Expr]()  # what floors are
        self.divisors: list[Expr] = []
        self.work = MOST_OF_ALL

    def written_out(self, goal: Expr, lets: Lets) -> tuple[Expr, list[Term]]:
        """A goal with what names and floors mean in their place, and the terms that make the goal of it."""
        terms = [_denial(goal)]
        for _ in range(MOST_STEPS):
            step = next(
                ((c, m, a) for c, m in goal.terms for a in m if a in lets or m == (a,) and a in self.meant), None
            )
            if step is None:
                break
            times, monomial, atom = step
            at = monomial.index(atom)
            rest = Expr(((1, monomial[:at] + monomial[at + 1 :]),))
            if isinstance(atom, Floor):
                fact = Expr(((1, monomial),)) - self.meant[atom]
                goal = goal - times * fact
                terms.append(_term(abs(times), fact if times > 0 else -fact))
            else:
                goal = goal - times * rest * lets[atom]
                terms.append(Term(times, (lets[atom],) if rest == ONE else (lets[atom], rest)))
        return goal, terms

    def is_written(self, goal: Expr, lets: Lets) -> bool:
        """Whether nothing but a number is left of a goal that is written out; then it is a fact from here on."""
        plain, terms = self.written_out(goal, lets)
        return plain.constant is not None and plain.constant >= 0 and self._hold(goal, terms)

    def is_shown(self, goal: Expr, lets: Lets) -> bool:
        """Whether a goal can be shown; then it is a fact from here on."""
        plain, terms = self.written_out(goal, lets)
        if self._is_known(goal):
            return True
        if plain.constant is not None and plain.constant >= 0:
            return self._hold(goal, terms)
        if not self._is_known(plain):
            self.narrow.work = most = min(MOST_WORK, self.work)
            proof = self.narrow.proof_of(plain)
            self.work -= most - max(0, self.narrow.work or 0)
            if proof is None:
                return False
            for fact, sum_of in (*proof.first, (plain, proof.sum)):
                self._hold(fact, sum_of)
        return plain == goal or self._hold(goal, [*terms, _term(1, plain)])

    def write_out(self, facts: Iterable[tuple[Expr, bool]], lets: Lets) -> None:
        """Facts with names written out are facts too."""
        for fact in [sign * fact for fact, is_equal in facts for sign in ((1, -1) if is_equal else (1,))]:
            plain, (_, *terms) = self.written_out(fact, lets)
            if plain != fact and not self._is_known(plain):
                self._hold(plain, [_denial(plain), _term(1, fact), *(Term(-t.times, t.factors) for t in terms)])

    def mean_floors(self, e: Expr, lets: Lets, plain_of: Callable[[Expr], Expr]) -> None:
        """Finds what the floors in an expression are, when the names in them are written out."""
        for floor in floors_of(self.written_out(e, lets)[0]):
            if floor.den.constant is None or floor in self.meant:
                continue
            self.mean_floors(floor.num, lets, plain_of)
            num, atom = self.written_out(floor.num, lets)[0], Expr(((1, (floor,)),))
            quotient = plain_of(num // floor.den)
            if quotient != atom and self.is_equal(floor.num, num, lets) and self._is_quotient(floor, num, quotient):
                self.meant[floor] = quotient

    def _is_quotient(self, floor: Floor, num: Expr, quotient: Expr) -> bool:
        """Whether a floor, whose number is `num`, can be shown to be `quotient`; then that is a fact from here on."""
        den, atom, rest = floor.den, Expr(((1, (floor,)),)), num - floor.den * quotient
        if not all(self.is_shown(goal, {}) for goal in (rest, den - 1 - rest, den)) or not self.is_positive(den, {}):
            return False
        for sign, least in ((1, rest), (-1, den - 1 - rest)):
            axiom = den * atom + den - 1 - floor.num if sign > 0 else floor.num - den * atom
            facts = [fact for fact in (axiom, sign * (floor.num - num), least) if fact.constant != 0]
            self._hold(sign * (atom - quotient), [Term(1, (None, den)), *(_term(1, fact) for fact in facts)])
        return True

    def is_of_digits(self, goal: Expr, to_points: Lets, lets: Lets, sizes: Iterable[Expr]) -> bool:
        """Whether a goal is a size times what can be shown, and what is left; then it is a fact from here on."""
        plain, terms = self.written_out(goal, to_points)
        for size in [size for size in sizes if len(size.terms) == 1 and size.constant is None]:
            ((_, (atom, *others)),) = size.terms
            upper = Expr(tuple((c, m[: m.index(atom)] + m[m.index(atom) + 1 :]) for c, m in plain.terms if atom in m))
            for less in () if others else (0, 1):
                parts = [(upper - less, size), (plain - size * (upper - less), ONE)]
                if all(self.is_shown(part, lets) for part, _ in parts) and self.is_summed(plain, parts):
                    return plain == goal or self._hold(goal, [*terms, _term(1, plain)])
        return False

    def mean_digits(self, floor: Floor, value: Expr, lets: Lets) -> None:
        """Finds what the floor of a number is that is shown to be `value`, of which it takes the upper digits."""
        if floor in self.meant or not self.is_equal(floor.num, value, lets):
            return
        parts = [Expr((term,)) // floor.den for term in value.terms]
        upper = sum((part for part in parts if not any(floors_of(part))), Expr.of(0))
        if self.is_equal(Expr(((1, (floor,)),)), upper, {}):
            self.meant[floor] = upper

    def compare_floors(self, sizes: Iterable[Expr]) -> None:
        """Shows that what is rounded up to more is not less: of floors of one size by numbers that divide one
        another."""
        floors = dict.fromkeys(f for size in sizes for f in floors_of(size) if f.den.constant is not None)
        for less, more in itertools.permutations(floors, 2):
            times, rest = divmod(more.den.constant or 0, less.den.constant or 1)
            if rest == 0 and times > 1 and less.num.vocabulary == more.num.vocabulary:
                self.is_shown(times * Expr(((1, (more,)),)) - Expr(((1, (less,)),)), {})

    def bound_floors(self, e: Expr) -> None:
        """Shows the numbers between which the floors in an expression are."""
        for atom in [Expr(((1, (floor,)),)) for floor in floors_of(e) if floor.den.constant is not None]:
            within = interval_of(atom, Ranges(self.narrow.ranges))
            for goal in (atom - (within.low or 0), *(() if within.high is None else (within.high - atom,))):
                self.is_shown(goal, {})

    def is_positive(self, divisor: Expr, lets: Lets) -> bool:
        """Whether a divisor can be shown to be positive; then what makes a floor one is a fact."""
        if divisor.constant is None and divisor - 1 not in self.divisors and self.is_shown(divisor - 1, lets):
            self.divisors.append(divisor - 1)
        return divisor.constant is not None or divisor - 1 in self.divisors

    def _is_known(self, goal: Expr) -> bool:
        return goal.constant is not None and goal.constant >= 0 or rounded(goal) in self.narrow.facts

    def is_equal(self, left: Expr, right: Expr, lets: Lets) -> bool:
        """Whether two integers can be shown to be one; then that is a fact from here on."""
        return self.is_shown(left - right, lets) and self.is_shown(right - left, lets)

    def is_summed(self, goal: Expr, facts: Iterable[tuple[Expr, Expr]]) -> bool:
        """Whether a goal is a sum of facts, each times what is never negative, and a number; then it is a fact."""
        terms, rest = [_denial(goal)], goal
        for fact, times in facts:
            rest = rest - fact * times
            for count, monomial in times.terms:
                factors = [Expr(((1, (atom,)),)) for atom in monomial]
                if count < 0 or not all(self.is_shown(factor, {}) for factor in factors):
                    return False
                terms.append(_term(count, fact, *factors))
        return rest.constant is not None and rest.constant >= 0 and self._hold(goal, terms)

    def _hold(self, goal: Expr, terms: Iterable[Term]) -> bool:
        if rounded(goal) not in self.narrow.facts:
            terms = tuple(terms)
            if rounded(goal) not in (rounded(f) for t in terms for f in t.factors if f is not None):
                self.so[goal] = terms  # else it is what makes a floor one
            self.narrow.facts[rounded(goal)] = False
            self.narrow.answers.clear()
        return True

    def proof_of(self, goals: Iterable[Expr]) -> Proof:
        """What shows goals that were shown, in order."""
        wanted = [_term(1, goal) for goal in (*self.divisors, *goals)]
        return Proof(needed({rounded(fact): (fact, terms) for fact, terms in self.so.items()}, wanted), ())


def _denial(goal: Expr) -> Term:
    return Term(max(1, math.gcd(*(c for c, m in goal.terms if m))), (None,))  # it is rounded, too


def _term(times: int, fact: Expr, *factors: Expr) -> Term:
    """A fact as it is known: divided by what divides it."""
    return Term(times * max(1, math.gcd(*(c for c, m in fact.terms if m))), (rounded(fact), *factors))


def floors_of(e: Expr) -> Iterable[Floor]:
    """The floors in an expression, those inside others too."""
    for atom in dict.fromkeys(a for _, m in e.terms for a in m if isinstance(a, Floor)):
        yield from floors_of(atom.num)
        yield atom
