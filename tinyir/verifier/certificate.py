"""A certificate: a gpu text whose lines begin with a bar, under each what has to be shown there, and what shows it.

Nothing that it claims is taken for granted. What there is to show is found in the text; a sum is added up again of
facts that the text says there; what takes no sum is looked for again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from .places import OF_DATA, OF_TEXT, Obligation, Scope, places
from .polynomials import FLOORS, Key, Poly, Unreadable, add, axioms, constant, floors_in, key, multiply, number, read
from .rules import rules
from .text import Kernel, Text

HEADER = "tinyir 1.0 cert"
DEEPEST = 12  # of brackets in brackets


def _bracketed(depth: int) -> str:
    return rf"\((?:[^()]|{_bracketed(depth - 1)})*\)" if depth else r"\([^()]*\)"


FACTOR = re.compile(rf"\*(?:deny|{_bracketed(DEEPEST)})")
UNREADABLE = (  # what a text raises that speaks of what there is not; the checker of gpu text would not let it through
    *(Unreadable, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError),
)
TERM = re.compile(rf"\s*([-+]?)\s*(\d+)((?:{FACTOR.pattern})+)")


class Refused(Exception):
    """A certificate that does not hold: what kind of fault, the line of the certificate, and what it is about."""

    def __init__(self, kind: str, line: int, what: str = ""):
        super().__init__(kind, line, what)
        self.kind, self.line, self.what = kind, line, what


class Claim(NamedTuple):
    """What a certificate says of one obligation."""

    line: int
    goal: str
    points: list[tuple[str, str]]  # each point in terms of the element that it writes
    first: list[tuple[str, str]]  # what is shown first, and its sum
    status: str = ""
    sum: str = ""


class Verdict(NamedTuple):
    """What was found of a kernel: how many obligations there are of each status, and those that are listed."""

    kernel: str
    counts: Counter[str]
    listed: list[tuple[int, str]]


class Certificate:
    """A certificate as it was read: the text, and by line of it the claims."""

    def __init__(self, source: str):
        self.digests: dict[str, str] = {}
        self.claims: dict[tuple[int, str], list[Claim]] = {}
        lines, what = [], ""
        source_lines = source.splitlines()
        if not source_lines or source_lines[0] != HEADER:
            raise Refused("header", 1)
        self.counts = ""
        for at, line in enumerate(source_lines[1:], 2):
            words = line.split(maxsplit=2)
            if line.startswith("|"):
                lines.append(line[2:])
                what = ""
            elif words and not lines:
                if words[0] == "counts":
                    self.counts = line
                elif words[1:2] == ["sha256"]:
                    self.digests[words[0]] = words[2]
                else:
                    raise Refused("line", at, line)
            elif line.startswith("      ") and what:
                self._claim(at, line.split(maxsplit=1), len(lines), what)
            elif line.strip():
                what, _, goal = line.strip().partition(": ")
                self.claims.setdefault((len(lines), what), []).append(Claim(at, goal, [], []))
        self.text = "\n".join(lines) + "\n"
        if self.digests.get("gpu") != digest(self.text):
            raise Refused("digest", 2, "gpu")

    def _claim(self, at: int, words: list[str], number: int, what: str) -> None:
        claim = self.claims[number, what].pop()
        rest = words[1] if len(words) > 1 else ""
        if claim.status or words[0] not in ("at", "so", "proven", "guarded", "listed"):
            raise Refused("line", at, " ".join(words))
        if words[0] in ("at", "so"):
            fact, _, terms = rest.partition(": ")
            (claim.points if words[0] == "at" else claim.first).append((fact, terms))
        else:
            claim = claim._replace(status=words[0], sum=rest)
        self.claims[number, what].append(claim)


class Verifier:
    """Checks one certificate. `facts` counts those that sums are made of. Of a draft what is not confirmed is kept, as
    (line of the text, what), and not refused."""

    def __init__(self, source: str, is_draft: bool = False):
        certificate = Certificate(source)
        self.is_draft, self.unconfirmed = is_draft, set[tuple[int, str]]()
        self.certificate = certificate
        self.open = {key: list(claims) for key, claims in certificate.claims.items()}
        self.facts, self.points = 0, dict[int, Any]()
        try:
            self.text = Text(certificate.text)
            for line, claim in ((line, claim) for (line, _), found in self.open.items() for claim in found):
                self.points.setdefault(line, []).extend((point, read(value)) for point, value in claim.points)
        except UNREADABLE as fault:
            raise Refused("text", 1, str(fault)) from fault

    def is_about(self, text: str) -> bool:
        """Whether it is a certificate of this gpu or CUDA text."""
        return digest(text) in (self.certificate.digests["gpu"], self.certificate.digests.get("cu"))

    def verdicts(self) -> Iterator[Verdict]:
        """One for each kernel. Raises Refused."""
        total: Counter[str] = Counter()
        for kernel in self.text.kernels:
            counts: Counter[str] = Counter()
            listed: list[tuple[int, str]] = []
            for one in self._obligations(kernel):
                status = self._status(one)
                counts[status] += 1
                if status == "listed":
                    listed.append((one.line, one.what))
            total += counts
            yield Verdict(kernel.name, counts, listed)
        for (line, what), claims in self.open.items():
            if claims:
                raise Refused("of nothing", claims[0].line, f"{line}: {what}")
        if not self.is_draft and self.certificate.counts != show_counts(total):
            raise Refused("counts", 1, show_counts(total))

    def _obligations(self, kernel: Kernel) -> Iterator[Obligation]:
        """What there is to show of a kernel. Raises Refused."""
        try:
            yield from places(kernel, self.text, self.points)
            yield from rules(kernel, self.text, self.points)
        except UNREADABLE as fault:
            raise Refused("text", 1, str(fault)) from fault

    def _status(self, one: Obligation) -> str:
        """How an obligation is covered."""
        numbers = [constant(goal) for goal in one.goals]
        if len(numbers) == 1 and numbers[0] is not None and numbers[0] >= 0:
            return "proven"
        claims = self.open.get((one.line, one.what), [])
        for at, claim in enumerate(claims):
            try:
                is_covered = bool(claim.status) and self._covers(one, claim)
            except Unreadable:
                is_covered = False
            if is_covered:
                del claims[at]
                return claim.status
        if not claims:
            raise Refused("missing", 0, f"{one.line}: {one.what}")
        if not self.is_draft:
            raise Refused("sum", claims[0].line, one.what)
        self.unconfirmed.add((one.line, one.what))
        claims.clear()
        return "listed"

    def _covers(self, one: Obligation, claim: Claim) -> bool:
        """Whether a claim is about this obligation and holds."""
        if claim.status == "listed" or not one.goals or one.scope is None:
            is_right = claim.status == "listed" or one.shows and claim.status == "proven"
            return is_right and not (claim.sum or claim.first)
        if claim.goal and [read(claim.goal)] != one.goals:
            return False
        shown: dict[Key, str] = {}
        for fact, terms in (*claim.first, (claim.goal, claim.sum))[: None if claim.goal else -1]:
            poly = read(fact)
            how = self._adds_up(poly, terms, one.scope, shown)
            if how is None:
                return False
            shown[key(poly)] = how
        found = [self._known(key(goal), one.scope, shown) for goal in one.goals]
        ways = [known[0] for known in found if known is not None]
        return len(ways) == len(found) and claim.status == ("guarded" if OF_DATA in ways else "proven")

    def _known(self, fact: Key, scope: Scope, shown: dict[Key, str]) -> tuple[str, bool] | None:
        """How it is known that a polynomial is >= 0, and whether it is 0; None where it is not known."""
        self.facts += 1
        number_of = constant(dict(fact))
        if fact in shown or number_of is not None and number_of >= 0:
            return shown.get(fact, OF_TEXT), False
        found = scope.knows(fact)
        for atom in floors_in((dict(fact),)) if found is None else ():
            if fact in map(key, axioms(atom)):  # they hold where the divisor is positive
                is_positive = key(add(FLOORS[atom][1], number(-1)))
                how = OF_TEXT if atom in scope.divisors else (self._known(is_positive, scope, shown) or (None,))[0]
                found = (how, False) if how else None
        return found

    def _adds_up(self, goal: Poly, terms: str, scope: Scope, shown: dict[Key, str]) -> str | None:
        """How it is known that goal >= 0 where the terms add up to a negative number; None where they do not."""
        denial, total, how = key(add(add({}, goal, -1), number(-1))), number(0), OF_TEXT
        for sign, times, factors in _terms(terms):
            product, is_equal, is_known = number(times), False, True
            for factor in factors:
                fact = denial if factor == "deny" else key(read(factor[1:-1]))
                known = (OF_TEXT, False) if factor == "deny" else self._known(fact, scope, shown)
                is_known = is_known and known is not None
                if known is not None:
                    how = OF_DATA if known[0] == OF_DATA else how
                    is_equal = is_equal or known[1]
                product = multiply(product, dict(fact))
            if not is_equal and (sign < 0 or not is_known):
                return None  # 0 times whatever is 0
            total = add(total, product, sign)
        found = constant(total)
        return how if found is not None and found < 0 else None


def _terms(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """The terms of a sum: `2*deny*(K) - 1*(a - b)` is 1, 2, [deny, (K)] and -1, 1, [(a - b)]. Raises Unreadable."""
    at = 0
    while at < len(text):
        term = TERM.match(text, at)
        if term is None:
            raise Unreadable(text)
        at = term.end()
        yield -1 if term[1] == "-" else 1, int(term[2]), [m[0][1:] for m in FACTOR.finditer(term[3])]


def show_counts(counts: Counter[str]) -> str:
    """The line that counts obligations."""
    return f"counts proven {counts['proven']} guarded {counts['guarded']} listed {counts['listed']}"


def digest(text: str) -> str:
    """What tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["Certificate", "Refused", "Verdict", "Verifier"]
