"""A certificate: a gpu text whose lines begin with a bar, under each what has to be shown there, and what shows it.

Nothing that it claims is taken for granted. What there is to show is found in the text; a sum is added up again of
facts that the text says there; what takes no sum is looked for again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .polynomials import FLOORS, Key, Poly, Unreadable, add, axioms, constant, floors_in, key, multiply, number, read
from .text import OF_DATA, OF_TEXT, Kernel, Obligation, Points, Text

HEADER = "tinyir 1.0 cert"
STATUSES = ("proven", "guarded", "listed")
# What a text raises that speaks of what there is not; the checker of gpu text would not let it through.
UNREADABLE = (Unreadable, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
FACTOR = re.compile(r"\*(?:deny|\[([^\]]+)\])")
TERM = re.compile(rf"\s*([-+]?)\s*(\d+)((?:{FACTOR.pattern})+)")


class Refused(Exception):
    """A certificate that does not hold: what kind of fault, the line of the certificate, and what it is about."""

    def __init__(self, kind: str, line: int, what: str = ""):
        super().__init__(kind, line, what)
        self.kind, self.line, self.what = kind, line, what


class Claim:
    """What a certificate says of one obligation: each point in terms of the element that it writes, what is shown first
    with its sum, the status and the sum."""

    def __init__(self, line: int, goal: str):
        self.line, self.goal, self.status, self.sum = line, goal, "", ""
        self.said: dict[str, list[tuple[str, str]]] = {"at": [], "so": []}

    def hear(self, word: str, rest: str) -> bool:
        """Whether it takes a line."""
        if self.status or word not in (*self.said, *STATUSES):
            return False
        if word in self.said:
            fact, _, terms = rest.partition(": ")
            self.said[word].append((fact, terms))
        else:
            self.status, self.sum = word, rest
        return True


class Verdict(NamedTuple):
    """What was found of a kernel: how many obligations there are of each status, and those that are listed."""

    kernel: str
    counts: Counter[str]
    listed: list[tuple[int, str]]


class Certificate:
    """A certificate as it was read: the text, and by line of it the claims."""

    def __init__(self, source: str):
        self.heads, self.claims, lines = dict[str, str](), dict[tuple[int, str], list[Claim]](), list[str]()
        first, *rest = source.splitlines() or [""]
        if first != HEADER:
            raise Refused("header", 1)
        claim = None
        for at, line in enumerate(rest, 2):
            word, _, more = line.strip().partition(" ")
            if line.startswith("|"):
                lines.append(line[2:])
                claim = None
            elif word and not lines:
                if word not in ("gpu", "cu", "counts"):
                    raise Refused("line", at, line)
                self.heads[word] = more
            elif line.startswith("      ") and claim is not None:
                if not claim.hear(word, more):
                    raise Refused("line", at, line.strip())
            elif word:
                what, _, goal = line.strip().partition(": ")
                claim = Claim(at, goal)
                self.claims.setdefault((len(lines), what), []).append(claim)
        self.text = "\n".join(lines) + "\n"
        if self.heads.get("gpu") != digest(self.text):
            raise Refused("digest", 2, "gpu")


class Verifier:
    """Checks one certificate by `checks`, each of which says what there is to show of a kernel. `facts` counts those
    that sums are made of. Of a draft what is not confirmed is kept, as (line of the text, what), and not refused."""

    checks: Sequence[Callable[[Kernel, Text, Points], Iterator[Obligation]]] = ()

    def __init__(self, source: str, is_draft: bool = False):
        certificate = Certificate(source)
        self.is_draft, self.unconfirmed = is_draft, set[tuple[int, str]]()
        self.certificate = certificate
        self.open = {key: list(claims) for key, claims in certificate.claims.items()}
        self.facts, self.points = 0, dict[int, Any]()
        try:
            self.text = Text(certificate.text)
            for line, claim in ((line, claim) for (line, _), found in self.open.items() for claim in found):
                self.points.setdefault(line, []).extend((point, read(value)) for point, value in claim.said["at"])
        except UNREADABLE as fault:
            raise Refused("text", 1, str(fault)) from fault

    def is_about(self, text: str) -> bool:
        """Whether it is a certificate of this gpu or CUDA text."""
        return digest(text) in (self.certificate.heads["gpu"], self.certificate.heads.get("cu"))

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
        counted = " ".join(f"{status} {total[status]}" for status in STATUSES)
        if not self.is_draft and self.certificate.heads.get("counts") != counted:
            raise Refused("counts", 1, counted)

    def _obligations(self, kernel: Kernel) -> Iterator[Obligation]:
        """What there is to show of a kernel. Raises Refused."""
        try:
            for check in self.checks:
                yield from check(kernel, self.text, self.points)
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
            return is_right and not (claim.sum or claim.said["so"])
        if claim.goal and [read(claim.goal)] != one.goals:
            return False
        shown: dict[Key, str] = {}
        for fact, terms in (*claim.said["so"], *([(claim.goal, claim.sum)] if claim.goal else ())):
            poly = read(fact)
            how = self._adds_up(poly, terms, one.scope, shown)
            if how is None:
                return False
            shown[key(poly)] = how
        found = [self._known(key(goal), one.scope, shown) for goal in one.goals]
        ways = [known[0] for known in found if known is not None]
        return len(ways) == len(found) and claim.status == ("guarded" if OF_DATA in ways else "proven")

    def _known(self, fact: Key, scope: Any, shown: dict[Key, str]) -> tuple[str, bool] | None:
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

    def _adds_up(self, goal: Poly, terms: str, scope: Any, shown: dict[Key, str]) -> str | None:
        """How it is known that goal >= 0 where the terms add up to a negative number; None where they do not."""
        denial, total, how = key(add(add({}, goal, -1), number(-1))), number(0), OF_TEXT
        for sign, times, factors in _terms(terms):
            product, is_equal, is_known = number(times), False, True
            for factor in factors:
                fact = key(read(factor)) if factor else denial
                known = self._known(fact, scope, shown) if factor else (OF_TEXT, False)
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
    """The terms of a sum: `2*deny*[K] - 1*[a - b]` is 1, 2, ["", "K"] and -1, 1, ["a - b"]. Raises Unreadable."""
    found = [*TERM.finditer(text)]
    if "".join(term[0] for term in found) != text:
        raise Unreadable(text)
    for sign, times, factors in (term.group(1, 2, 3) for term in found):
        yield -1 if sign == "-" else 1, int(times), FACTOR.findall(factors)


def digest(text: str) -> str:
    """What tells one text from another."""
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"
