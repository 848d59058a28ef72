"""What a filter does: one file a filter, from the language before it to its own."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..ir import pipeline
from ..kit.diag import Diag
from ..kit.records import dataclass


def lowering_of(stage: str) -> ModuleType:
    """The module that makes text of `stage`, with its `lower`; imported when asked for."""
    return importlib.import_module(f".{stage}", __package__)


def lower_to(stage: str, module: Any, arch: str, card: str | None = None, **how: Any) -> Any:
    """The module of `stage` from the module of the stage before it, planned for `arch` (sm80 or sm90) and for `card`
    (default: the architecture's own); `how` are other keywords of the plan stage. Raises Refused."""
    lowering = lowering_of(stage)
    if stage != "plan":
        return lowering.lower(module)
    return lowering.lower(module, arch=arch, device=card, **how)


MOST_STEPS = 20_000_000  # of isl's, for a book, and for blocks


@dataclass(frozen=True, slots=True)
class Language:
    """The verbs of a stage as the pipeline speaks them: where a text contains plans, `check` asks the families too.
    `validate` is for a module that holds and was read: what it states beside its program must be what the program
    means, since a person may have edited it."""

    parse: Callable[[str], Any]
    show: Callable[[Any], str]
    check: Callable[[Any], list[Diag]]
    STAGE: str
    Module: type

    def validate(self, module: Any) -> list[Diag]:
        """What the text states and its program does not mean: maps and axes of the book (E1221, E1223, E1224, E1304),
        blocks and edges (E1222), the analysis of regions (E1413). A text that a filter printed costs the work of that
        filter and no question to isl beyond it."""
        return _validated(self.STAGE, module)

    def confirm(self, module: Any, before: Any = None) -> list[Diag]:
        """What a module that was just lowered from `before` states and its program does not mean. Of a book each map is
        held against the ops that it is of, for all sizes, and each kind of access once (E1221, E1223, E1304), as far as
        isl answers within MOST_STEPS, as it does of blocks. Of these a few instances are those of the book (E1222), of
        regions a few elements of each output (E1414). Nothing is asked of other stages."""
        if self.STAGE not in CONFIRMED:
            return []
        from ..kit.work import span

        with span("confirm"):
            if self.STAGE == "poly":
                from ..analysis.validate_blocks import confirm_poly

                return _within_steps(confirm_poly, module, "blocks unconfirmed")
            if self.STAGE == "region":
                from ..play.confirm import confirm

                return confirm(before, module) if before is not None else []
            from ..analysis.validate import validate_index

            return _within_steps(validate_index, module, "books unconfirmed")


CONFIRMED = ("index", "poly", "region")  # stages with something to confirm


def _within_steps(confirm: Callable[[Any], list[Diag]], module: Any, unconfirmed: str) -> list[Diag]:
    from ..ir.sets import within_steps
    from ..kit.work import count

    found: list[Diag] | None = None
    with within_steps(MOST_STEPS), contextlib.suppress(ZeroDivisionError, MemoryError):
        found = confirm(module)  # a size may divide by 0 where symbols are small
    if found is None:
        count(unconfirmed)
    return found or []


def language_of(stage: str) -> Language:
    """The language of a stage (`tiny` ... `cu`); imported when asked for."""
    spoken = pipeline.language_of(stage)
    if stage not in ("plan", "gpu"):
        return Language(spoken.parse, spoken.show, spoken.check, spoken.STAGE, spoken.Module)

    def check(module: Any) -> list[Diag]:
        from ..kernels.check import check as check_plans

        found = [*spoken.check(module), *check_plans(module if stage == "plan" else module.plans)]
        return found if stage == "plan" or any(d.is_error for d in found) else [*found, *_values(module, False)]

    return Language(spoken.parse, spoken.show, check, spoken.STAGE, spoken.Module)


def _values(module: Any, is_edited: bool) -> list[Diag]:
    """E1685 for kernels that compute something else than their regions."""
    from ..kit.work import span
    from ..play.kernel import check_values

    with span("values"):
        return list(check_values(module, is_edited))


def _validated(stage: str, module: Any) -> list[Diag]:
    if stage == "tiny":
        return []
    if stage in ("index", "poly"):
        from ..analysis.validate import validate_index
        from ..analysis.validate_blocks import validate_poly

        book = module if stage == "index" else module.index
        said = validate_index(book, lowering_of("index").lower(book.tiny))
        if stage == "poly" and not said:
            said = validate_poly(module, lowering_of("poly").lower(book))
        return said
    from ..analysis.validate_regions import validate_regions

    regions = {"region": lambda: module, "plan": lambda: module.program, "gpu": lambda: module.plans.program}
    program = regions.get(stage, lambda: module.region)()
    said = validate_regions(program) if program is not None else []
    return said or _values(module, True) if stage == "gpu" else said
