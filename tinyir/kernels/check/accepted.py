"""The verifier of plan text: each field of a plan is obeyed by its family, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...ir.plan import Plan
from ...ir.plan.table import TABLE, Field
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...kit.records import MISSING, is_dataclass
from ..accepts import ANYTHING, Accepts, Fields, where
from ..parts.guards import guarded_axes
from .case import Case

JUDGED = ("algo", "estimate")  # the family itself, and what decides nothing


def fields_of(case: Case) -> Fields:
    """What the family of a plan takes in each field that it has: every family has a tile, and guards for what the tile
    may hang over."""
    plan, family = case.plan, case.family
    guarded = {name for group, size in zip(case.kernel.groups, plan.tile) for name in guarded_axes(group, size)}
    taken = {"predicate": _names(guarded), **family.accepts(case)}
    return {f.word: taken.get(f.word, ANYTHING) for f in TABLE if f.word == "tile" or family.obeys(f.word)}


def _names(names: Iterable[str]) -> Accepts:
    wanted = sorted(names)  # what is missing another check says, and its edit adds it
    return where(
        "[" + ", ".join(wanted) + "]", lambda given: len(set(given)) == len(given) and set(given) <= set(wanted)
    )


def check_accepted(case: Case) -> Iterator[Diag]:
    """E1524 a field that the family does not have, E1525 a value that it does not take there."""
    plan, fields = case.plan, fields_of(case)
    for field in TABLE:
        if field.word in JUDGED:
            continue
        accepts = fields.get(field.word)
        if accepts is None and not field.is_default(plan):
            yield fault_of(plan, "E1524", field.word, algo=plan.algo, field=field.word, known=", ".join(fields))
        elif accepts is not None and not accepts.is_met(field.of(plan)):
            facts = {"given": _given(field, plan, accepts), "accepts": accepts.told(field)}
            yield fault_of(
                plan, "E1525", field.word, algo=plan.algo, field=field.word, **facts, help=_help(field, plan, accepts)
            )


def _given(field: Field, plan: Plan, accepts: Accepts) -> str:
    """The value, with the one item that is too many where there is one; and that it is the default's where no line of
    the text says it."""
    value = field.of(plan)
    told = field.text(value)
    if plan.spans and field.word not in dict(plan.spans):
        return told if told == "-" else Phrase("{given}, since no line says it", given=told)
    if isinstance(value, tuple) and all(map(is_dataclass, value)):
        for at, item in reversed([*enumerate(value)]):  # of two the later one
            if accepts.is_met((*value[:at], *value[at + 1 :])):
                return Phrase("{given}, of which {item} is not taken", given=told, item=field.text((item,)))
    return told


def _help(field: Field, plan: Plan, accepts: Accepts) -> Phrase:
    """Leaving the field out is advised only where a plan without it is taken."""
    may_go = field.default is not MISSING and not field.is_default(plan) and accepts.is_met(field.default)
    if may_go:
        return Phrase("write one that it takes, or leave {field} out", field=field.word)
    return Phrase("write one that it takes")
