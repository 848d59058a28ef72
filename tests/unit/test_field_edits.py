"""Every field of every form of gpu statement, changed: the change is refused with a code, or obeyed, so that the CUDA
is another one (what it computes then `tests.fuzz.mutants` runs), or it says the same in other words, for a reason that
is stated here. It never ends a filter as a fault of its own."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from tinyir.ir import gpu, manifest, plan
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kit.diag import Refused
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu

from ..fuzz.harmless import is_same
from .families import CASES
from .field_edits import FieldEdit, edits_of

PLACES = 20  # of each form in which an edit of each kind is looked for
UNWRITTEN = {"Pick"}  # forms that no case has: siblings, which belong to no family


@functools.cache
def module_of(case: str) -> gpu.Module:
    return to_gpu.lower(plan.parse(CASES[case]))


@functools.cache
def cuda_of(case: str) -> str:
    return manifest.show(to_cu.lower(module_of(case)))


@functools.cache
def drawn() -> dict[tuple[str, str, str], tuple[str, FieldEdit]]:
    """One edit of each kind, with the case that it is of; cases in an order of chance."""
    cases = sorted(CASES)
    random.Random(0).shuffle(cases)
    found: dict[tuple[str, str, str], tuple[str, FieldEdit]] = {}
    seen: Counter[type] = Counter()

    def is_wanted(s: object) -> bool:
        seen[type(s)] += 1
        return seen[type(s)] <= PLACES

    for case in cases:
        for edit in edits_of(module_of(case), is_wanted):
            found.setdefault(edit.key, (case, edit))
    return found


# Changes that say the same, each with its reason.
HARMLESS: dict[str, Callable[[FieldEdit], bool]] = {
    "an `assume` holds wherever it is written": lambda e: (
        "next" in e.how and any(isinstance(s, nodes.Assume) for s in e.new)
    ),
    "a wait counts groups or phases; its tokens say which, and each must be waited for somewhere": lambda e: (
        e.field == "tokens"
    ),
    "the CTAs of a multicast are a set": lambda e: (e.field, e.how) == ("multicast", "reversed"),
    "a cursor's phase that nothing asks for": lambda e: (e.kind, e.field) == ("Cursor", "phase"),
    "`each` begins at another whole piece: what is read and written says its own place": lambda e: (
        (e.kind, e.field) == ("Each", "at")
    ),
    "`approx` where nothing is a power of two": lambda e: e.field == "is_approx",
}


def outcome_of(case: str, edit: FieldEdit) -> str:
    """`refused` with the code, `obeyed` in the CUDA, the reason why it is harmless, or `silent`."""
    text = gpu.show(edit.module)
    try:
        module = gpu.parse(text)
        faults = gpu.check(module)
        made = "" if faults else manifest.show(to_cu.lower(module))
    except Refused as fault:
        faults = fault.diags
    if faults:
        return f"refused {faults[0].code}"
    if made != cuda_of(case):
        return "obeyed"
    if module == module_of(case):
        return "equal"
    reason = next((reason for reason, is_it in HARMLESS.items() if is_it(edit)), "")
    return reason or ("proven the same" if is_same(gpu.show(module_of(case)), text) else "silent")


def silent(edits: Iterator[tuple[str, FieldEdit]]) -> list[str]:
    return [f"{case}: {edit}" for case, edit in edits if outcome_of(case, edit) == "silent"]


def test_every_form_has_edits() -> None:
    forms = {kind.__name__ for kind in get_args(nodes.Statement)}
    assert {kind for kind, _, _ in drawn()} == (forms | {"Kernel"}) - UNWRITTEN
    assert {type(s).__name__ for case in CASES for k in module_of(case).kernels for s in statements(k.body)} <= forms


def test_a_field_is_obeyed_or_refused() -> None:
    """One edit of each field; the slow test has all."""
    by_field = {(kind, field): found for (kind, field, _), found in drawn().items()}
    assert len(by_field) > 100
    assert silent(iter(by_field.values())) == []


@pytest.mark.slow
def test_every_edit_of_a_field_is_obeyed_or_refused() -> None:
    assert len(drawn()) > 500
    assert silent(iter(drawn().values())) == []
