"""A plan with its regions as the problem of its family, and the kernels that it becomes: what all families share around
their own emission, siblings and picked operands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..ir import gpu, plan, region
from ..ir.alike import Form
from ..ir.moved import MovedForm, moved_form_of
from ..ir.plan.fields import renamed
from ..ir.plan.verify import fault_of
from ..ir.region import Region
from ..kit.diag import Refused
from ..kit.phrase import Phrase
from ..kit.records import replace
from . import family_of
from .family import Before, Family, Problem
from .parts.picks import region_of, with_picks
from .problem import Contraction, kernels_of
from .siblings import Siblings, are_neighbours, siblings_of


def problem_of(family: Family, one: plan.Plan, regions: tuple[Region, ...], module: region.Module) -> Problem:
    """The regions of a plan, in the order in which the plan names them, as its family's problem. Raises Refused (E1517
    a region of another kind, E1580 regions that its family cannot compute together, E1582 regions that are no
    siblings)."""
    if family.match is not None:
        found = family.match(regions)
        if isinstance(found, str):
            raise _refused(one, "E1580", "algo", algo=one.algo, regions=", ".join(one.regions), reason=found)
        return Problem(regions, found, module.model)
    if len(regions) > 1:
        siblings = (
            siblings_of(regions)
            if are_neighbours(regions, module.program.regions)
            else Phrase("another region is between them")
        )
        if isinstance(siblings, str):
            raise _refused(one, "E1582", "plan", regions=", ".join(one.regions), reason=siblings)
        return Problem(regions, siblings.kernel, module.model)
    kernel = family.kernel_of(regions[0])
    if kernel is None or isinstance(kernel, Contraction) and not kernel.is_alone:
        known = ", ".join(k.kind for k in kernels_of(regions[0])) or "-"
        raise _refused(one, "E1517", "plan", region=regions[0].name, family=one.family, known=known)
    return Problem(regions, kernel, module.model)


def _refused(one: plan.Plan, code: str, word: str, **facts: Any) -> Refused:
    return Refused([fault_of(one, code, word, **facts)])


def launch(module: plan.Module, one: plan.Plan) -> tuple[gpu.Kernel, Before]:
    """The kernel of a plan by its family, and what runs before it. The plan is one that `kernels.check` takes: a family
    says once, in its fields and in `legal`, what it holds. Raises Refused as `problem_of` does."""
    family, problem = _posed(module, one)
    return _emitted(family, one, problem), _before(family, one, problem)


def before(module: plan.Module, one: plan.Plan) -> Before:
    """What runs before the kernel of a plan, alone. Raises Refused as `problem_of` does."""
    family, problem = _posed(module, one)
    return _before(family, one, problem)


def likeness(module: plan.Module, one: plan.Plan) -> tuple[Hashable, MovedForm]:
    """What plans have in common whose launches are the same but for names and for where they begin to read tensors, and
    what says which name of one is which of another. What a plan expects to take decides nothing."""
    found = moved_form_of(*_regions_of(module, one))
    form: Form = found.form
    tensors, values = ({name: str(at) for at, name in reversed([*enumerate(names)])} for names in form.names)
    return (form.shape, replace(renamed(one, (), tensors, values), estimate=None)), found


def _posed(module: plan.Module, one: plan.Plan) -> tuple[Family, Problem]:
    family = family_of(one)
    return family, problem_of(family, one, _regions_of(module, one), module.program)


def _regions_of(module: plan.Module, one: plan.Plan) -> tuple[Region, ...]:
    return tuple(module.program.program.region(name) for name in one.regions)


def _before(family: Family, one: plan.Plan, problem: Problem) -> Before:
    return family.before(one, problem if family.match else replace(problem, regions=problem.regions[:1]))


def _emitted(family: Family, one: plan.Plan, problem: Problem) -> gpu.Kernel:
    """The family's own kernel, for siblings that of the first with picked tensors."""
    siblings = siblings_of(problem.regions) if family.match is None and len(problem.regions) > 1 else None
    if not isinstance(siblings, Siblings):
        return family.emit(one, problem)
    return with_picks(family.emit(one, replace(problem, regions=(region_of(siblings),))), siblings)
