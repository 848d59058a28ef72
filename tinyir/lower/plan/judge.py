"""What is thought of a family's proposals: the stop rule that each breaks, what it takes on a card, and its place among
the others. Sheets are judged by columns, and a row of them becomes a plan when somebody asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...analysis.work import Work
from ...ir.expr import ONE
from ...ir.model import Model
from ...ir.plan import Plan
from ...kernels import resources
from ...kernels.candidate import Candidate
from ...kernels.cost import cost_of, costs_of
from ...kernels.family import Family, Needs, Problem, Proposal
from ...kernels.sheet import Sheet
from ...kit.numbers import Number, at_row, least, pick
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ...target.arch import Arch
from ...target.device import Device

SMEM_SHARE = 0.8
MOST_NUMBERS = 3  # of a tile, of threads, of a micro tile, of a cluster
MOST = 1 << 62  # what a number of a text counts as at most: columns of int64 hold it
Stop = tuple[Number, Callable[[int], str]]  # whether a plan breaks a rule, and the rule in words, by row


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Candidates of one family, judged, by row: where each is among all of the family, whether it is rejected, its
    microseconds, and how much it assumes. `order` gives what decides between equal ones, `candidate` makes that of a
    row."""

    places: Sequence[int]
    is_rejected: np.ndarray
    microseconds: np.ndarray
    assumed: np.ndarray
    order: Callable[[], np.ndarray]
    candidate: Callable[[int], Candidate]


class Judged(Sequence[Candidate]):
    """The candidates of a launch in the order in which they were proposed. Those that nobody looks at are rows of
    numbers."""

    def __init__(self, groups: Sequence[Sequence[Group]]):
        self._groups = [group for several in groups for group in several]
        of_family = [number for number, several in enumerate(groups) for _ in several]
        sizes = [len(group.places) for group in self._groups]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        places = [at for group in self._groups for at in group.places]
        order = np.lexsort((places, np.repeat(of_family, sizes))) if places else owner
        rows = np.array([row for size in sizes for row in range(size)], np.int64)
        self._owner, self._row = owner[order].tolist(), rows[order].tolist()
        self._is_rejected = self._joined("is_rejected", order, bool)
        self._microseconds = self._joined("microseconds", order, float)
        self._assumed = self._joined("assumed", order, np.int64)
        self._by_place = order

    def _joined(self, name: str, order: np.ndarray, kind: type) -> np.ndarray:
        found = [getattr(group, name) for group in self._groups]
        return np.concatenate(found)[order].astype(kind) if found else np.empty(0, kind)

    def __len__(self) -> int:
        return len(self._owner)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        return self._groups[self._owner[at]].candidate(self._row[at])

    def __iter__(self) -> Iterator[Candidate]:
        return (self[number] for number in range(len(self)))

    @property
    def least_us(self) -> float:
        """Microseconds of the cheapest; infinite where all are rejected."""
        return min(self._microseconds[~self._is_rejected].tolist(), default=math.inf)

    def kept(self) -> list[int]:
        """The places of those that are not rejected, the cheapest first: by time, then the better occupied, then the
        wider accesses, then the smaller."""
        kept = np.flatnonzero(~self._is_rejected)
        if not len(kept):
            return []
        times = [round(us, 6) for us in self._microseconds[kept].tolist()]
        order = np.concatenate([group.order() for group in self._groups])[self._by_place[kept]]
        return kept[np.lexsort((*order.T[::-1], times))].tolist()

    def rejected(self) -> list[int]:
        """The places of the others."""
        return np.flatnonzero(self._is_rejected).tolist()

    def assumed(self, place: int) -> tuple[int, ...]:
        """How much a plan assumes: the number of its guards, and how many elements they ask for."""
        return tuple(self._assumed[place, :2].tolist())

    def narrower(self, places: Sequence[int]) -> int | None:
        """The first of places whose plan assumes as much as that of the first one, but for smaller multiples."""
        found = self._assumed[list(places)]
        is_narrower = (found[:, :2] == found[0, :2]).all(1) & (found[:, 2] < found[0, 2])
        return places[int(is_narrower.argmax())] if is_narrower.any() else None

    def us(self, place: int) -> float:
        """Microseconds of a place's plan."""
        return float(self._microseconds[place])


def judged_of(
    family: Family, problem: Problem, work: Work, sizes: dict[str, int], card: Device, names: tuple[str, ...] = ()
) -> list[Group]:
    """What a family proposes for a problem, judged. Of siblings, whose `names` their plans have, there are no copies:
    templates make them for one alone."""
    proposed = list(family.space(problem, card))
    if names:
        proposed = [replace(p, plan=replace(p.plan, regions=names)) for p in proposed if not p.plan.layout]
    sheets = [p for p in proposed if isinstance(p, Sheet)]
    plans = [p for p in proposed if isinstance(p, Proposal)]
    found = [_judged_sheet(family, sheet, problem, work, sizes, card) for sheet in sheets]
    if plans:
        found.append(_group([_judged(family, p, problem, work, sizes, card) for p in plans]))
    return found


def _judged_sheet(
    family: Family, sheet: Sheet, problem: Problem, work: Work, sizes: dict[str, int], card: Device
) -> Group:
    needs = family.declare(sheet.plan, problem)
    taken = resources.taken_by(sheet.plan, needs)
    rules = _stops(family, sheet.plan, needs, card.arch, taken.occupancy)
    rules += _bound_to_batch(sheet.plan, problem, card)
    costs = costs_of(family, sheet.plan, problem, work, sizes, card, taken)
    is_rejected = np.zeros(sheet.count, bool)
    is_rejected[list(sheet.stops)] = True
    for is_broken, _ in rules:
        is_rejected |= is_broken

    def candidate(row: int) -> Candidate:
        plan, stop = sheet.row(row), sheet.stops.get(row) or _first(rules, row)
        if stop and not at_row(taken.occupancy, row):
            return Candidate(plan, None, stop)
        cost = costs.row(row)
        return Candidate(replace(plan, estimate=cost.estimate()), cost, stop)

    return Group(
        sheet.places,
        is_rejected,
        np.broadcast_to(np.asarray(costs.microseconds, float), (sheet.count,)),
        np.broadcast_to(_assumed(sheet.plan), (sheet.count, 3)),
        lambda: _order_of(sheet.plan, taken.occupancy, sheet.count),
        candidate,
    )


def _judged(
    family: Family, proposal: Proposal, problem: Problem, work: Work, sizes: dict[str, int], card: Device
) -> Candidate:
    needs = family.declare(proposal.plan, problem)
    taken = resources.taken_by(proposal.plan, needs)
    rules = _stops(family, proposal.plan, needs, card.arch, taken.occupancy)
    stop = proposal.stop or _first((*rules, *_bound_to_batch(proposal.plan, problem, card)), 0)
    if stop and not taken.occupancy:
        return Candidate(proposal.plan, None, stop)
    return Candidate(proposal.plan, cost_of(family, proposal.plan, problem, work, sizes, card, taken), stop)


def _estimated(one: Candidate) -> Candidate:
    """A candidate whose plan says what it takes, which only those say that somebody looks at."""
    return one if one.cost is None else replace(one, plan=replace(one.plan, estimate=one.cost.estimate()))


def _group(found: Sequence[Candidate]) -> Group:
    """Candidates that are plans already."""
    return Group(
        range(len(found)),
        np.array([bool(c.rejected) for c in found]),
        np.array([c.cost.microseconds if c.cost else math.inf for c in found]),
        np.array([_assumed(c.plan) for c in found]),
        lambda: np.array([_decisive(c.plan, c.cost.occupancy if c.cost else 0) for c in found], np.int64),
        lambda row: _estimated(found[row]),
    )


def _stops(family: Family, proposed: Plan, needs: Needs, arch: Arch, ctas: Number) -> tuple[Stop, ...]:
    """The stop rules, and whether a plan breaks them with these needs, with this number of CTAs on an SM. Two of them
    hold for sm80 alone, and not for families whose CTA fills an SM, as Hopper's best kernels do."""
    smem, is_shared = needs.smem, not (arch.has_tma or family.fills_sm)
    most = proposed.regs.consumer if proposed.regs else arch.registers_per_thread
    held = needs.accumulators + needs.leaving + resources.ADDRESSING // 2
    is_static = family.has_static_smem
    return (
        (smem > arch.smem_per_cta, lambda row: Phrase("{smem} B of shared memory", smem=at_row(smem, row))),
        (
            (smem > arch.static_smem) & is_static,
            lambda row: Phrase(
                "{smem} B of shared memory, {static_smem} at most without asking",
                smem=at_row(smem, row),
                static_smem=arch.static_smem,
            ),
        ),
        (held > most, lambda row: Phrase("over {most} registers a thread", most=at_row(most, row))),
        (
            ctas == 0,
            lambda row: Phrase(
                "{registers} registers a thread do not fit an SM", registers=at_row(needs.registers, row)
            ),
        ),
        (
            (smem > SMEM_SHARE * arch.smem_per_cta) & is_shared,
            lambda row: Phrase("{smem} B of shared memory, over 80 %", smem=at_row(smem, row)),
        ),
        ((ctas == 1) & is_shared, lambda row: Phrase("one CTA per SM")),
    )


def batches_of(model: Model) -> frozenset[str]:
    """The symbols that count the rows of a batch: those that alone are the first axis of an input that is data, and of
    an output."""
    data = (t for t in model.inputs if t.attr("role") != "param")
    given, made = ({t.type.shape[0].name for t in side if t.type.rank} for side in (data, model.outputs))
    return frozenset(name for name in given & made if name is not None)


def _bound_to_batch(proposed: Plan, problem: Problem, card: Device) -> tuple[Stop, ...]:
    """The rule of an invariant program: a plan that only some sizes of a batch allow would leave other sizes to another
    one, with another order of its sums. That there are rows at all may be asked."""
    batches = batches_of(problem.model) if card.is_invariant else frozenset()
    asked = (b for b in proposed.assume if not (b.lower == ONE and b.upper is None and b.expr.name in batches))
    bound = sorted({n for b in asked for n in b.vocabulary} & batches)
    return ((True, lambda row: Phrase("it is for some sizes of the batch {symbol} alone", symbol=bound[0])),) * bool(
        bound
    )


def _first(rules: Sequence[Stop], row: int) -> str:
    """The first rule that the plan of a row breaks, in words; empty where it keeps all."""
    return next((words(row) for is_broken, words in rules if at_row(is_broken, row)), "")


def _order_of(plan: Plan, occupancy: Number, count: int) -> np.ndarray:
    """What decides between plans that take the same time, by row: the first of two that differ there is the smaller."""
    numbers = _decisive(plan, occupancy)
    found = np.empty((count, len(numbers)), np.int64)
    for at, number in enumerate(numbers):
        found[:, at] = number
    return found


def _decisive(plan: Plan, occupancy: Number) -> tuple[Number, ...]:
    """The numbers that decide, the first of them first."""
    shape = plan.cluster.shape if plan.cluster else ()
    is_alone = math.prod(shape) == 1  # of a row: one CTA is not a cluster
    several = [pick(is_alone, -1, size) for size in shape]
    found = (
        0 if plan.consumers else -occupancy,  # whose clocks know one CTA on an SM
        -plan.widest,
        *(
            size
            for sizes in (plan.tile, plan.threads, plan.micro, several)
            for size in (*sizes, *(-1,) * (MOST_NUMBERS - len(sizes)))
        ),
        plan.order.width if plan.order else 0,
        plan.parts,
        len(plan.layout),
    )
    return tuple(least(number, MOST) for number in found)


def _assumed(one: Plan) -> tuple[int, int, int]:
    """Guards, the elements that they ask for, and the numbers of which sizes are to be multiples."""
    multiples = (c for b in one.assume if b.equals is not None for c, m in b.expr.terms if m)
    elements = sum(b.lower.constant or 0 for b in one.assume if b.lower is not None)
    return len(one.assume), min(elements, MOST), min(sum(map(abs, multiples)), MOST)
