"""What a family of kernels states: one frozen object for each family, each fact once.

    FAMILY = Family(
        algo="gemv",                                the word in plan text
        problem=Contraction,                        the kind of problem it computes
        needs=("micro", "threads"),                 the plan fields that it cannot do without
        fields=("bind", "split_k", ...),            the others that it obeys
        space=here("space", "space"),               the plans worth trying, for the planner: one by one, or as columns
        declare=here("declare", "declare"),         what a CTA takes, for stop rules, checker, cost model and emit
        accepts=here("fields", "fields"),           what it takes in each of them
        beyond=here("match", "beyond"),             why a problem of that kind is none that it computes
        legal=here("legal", "legal"),               what it asks of a plan beside what `kernels.check` asks of any
        clocks=here("clocks", "clocks"),            what a plan takes on a card
        emit=here("emit", "emit"),                  its kernel
        before=here("emit", "before"),              the kernels that run before it, and the memory they fill
        why_none=here("space", "why_none"),         why a card or a problem has no plan of it, where `space` gives none
        cases=cases_of(__name__, "gemv"),           small problems that exercise each form of it
    )

`here = functions_of(__name__)` names functions of the family's own folder, which is imported when one is first called:
a filter loads only what it asks for. `kernels.FAMILIES` lists the families; planner, checker and emission walk that
list, and nothing outside this package compares an algo.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.region import Region, Tensor
from ..ir.types import DType
from ..kit.records import dataclass
from ..target.arch import aligned
from .problem import Kernel, kernel_of

if TYPE_CHECKING:  # what only annotations name: a filter that joins regions loads none of it
    from ..analysis.work import Work
    from ..ir import gpu
    from ..ir.model import Model
    from ..ir.plan import Plan
    from ..kit.diag import Diag
    from ..target.device import Device
    from .accepts import Fields
    from .sheet import Sheet

MBARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """What one launch computes: its regions, the first of them (or both, where two share a kernel) as the kind of
    kernel that a family computes, and the signature."""

    regions: tuple[Region, ...]
    kernel: Kernel
    model: Model

    @property
    def region(self) -> Region:
        """The region that the plan's fields name: the first."""
        return self.regions[0]


@dataclass(frozen=True, slots=True)
class Array:
    """An array in shared memory: `slots` tiles of `shape`, as `shared` of gpu text declares them (`swizzle` in bytes,
    `cluster` CTAs that read one another's, `kind` of a matrix as registers hold it). `label` says what it is for; emit
    gives it a name of its own (`parts.arrays.shared`)."""

    label: str
    dtype: DType
    shape: tuple[int, ...]
    slots: int = 1
    swizzle: int = 0
    cluster: int = 0
    kind: str = ""

    @property
    def bytes(self) -> int:
        """What all slots of one CTA take together."""
        return math.prod(self.shape) * self.dtype.bytes * self.slots

    @property
    def taken(self) -> int:
        """Bytes with what follows up to the next array."""
        return aligned(self.bytes)


@dataclass(frozen=True, slots=True)
class Needs:
    """What one CTA of a plan takes: arrays in shared memory, mbarriers, registers a thread as the compiler is expected
    to allot them. `accumulators` are the 32-bit registers that stay taken through the main loop, `leaving` those that
    outputs on their way through shared memory take beside them. Where the plan's numbers are columns, so are these."""

    shared: tuple[Array, ...] = ()
    mbarriers: int = 0
    registers: int = 0
    accumulators: int = 0
    leaving: int = 0

    @property
    def smem(self) -> int:
        """Bytes of shared memory."""
        return sum(array.taken for array in self.shared) + MBARRIER_BYTES * self.mbarriers


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where a plan is priced: symbol values, card, CTAs resident on an SM, and the work of the launch."""

    sizes: Mapping[str, int]
    device: Device
    occupancy: int
    work: Work


@dataclass(frozen=True, slots=True)
class Clocks:
    """Microseconds of a launch by what may bound it, and those that it takes to start (None: the card's own)."""

    parts: Mapping[str, float]
    start_us: float | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that a family proposes, and why not even its cost is worth asking (`stop`, usually empty)."""

    plan: Plan
    stop: str = ""


@dataclass(frozen=True, slots=True)
class Before:
    """The kernels that run before a plan's kernel, and the memory that they hand to it."""

    kernels: tuple[gpu.Kernel, ...] = ()
    workspaces: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One family of kernels. `in_warps`: its threads fold together, so a CTA has whole warps. `has_static_smem`: its
    shared memory is what a kernel gets without asking. `is_fallback`: it holds every region, and is proposed only where
    no plan of the others is kept. `fills_sm`: one CTA of it may keep an SM busy. `match` reads the regions of a plan as
    its problem, or gives the reason in words why they are not; without it one region is read as `problem`, and several
    as siblings (`kernels.siblings`). `beyond` says in words why a problem of its kind is none that it computes, empty
    where it is one: what else is asked of a plan rests on that. `takes_pairs`: it sums two products of the same
    rows at once (`problem.Pair`)."""

    algo: str
    problem: type
    space: Callable[[Problem, Device], Iterable[Proposal] | Iterable[Sheet]]
    declare: Callable[[Plan, Problem], Needs]
    clocks: Callable[[Plan, Problem, Conditions], Clocks]
    emit: Callable[[Plan, Problem], gpu.Kernel]
    accepts: Callable[[Any], Fields] = lambda _: {}
    needs: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    beyond: Callable[[Problem], str] = lambda _: ""
    legal: Callable[[Plan, Problem], Iterable[Diag]] = lambda *_: ()
    before: Callable[[Plan, Problem], Before] = lambda *_: Before()
    why_none: Callable[[Problem, Device], str] = lambda *_: ""
    match: Callable[[tuple[Region, ...]], Kernel | str] | None = None
    cases: Callable[[], Mapping[str, str]] = dict
    in_warps: bool = False
    has_static_smem: bool = False
    is_fallback: bool = False
    fills_sm: bool = False
    takes_pairs: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.algo

    @property
    def kind(self) -> str:
        """The word of plan text for the kind of problem."""
        return self.problem.kind

    def obeys(self, field: str) -> bool:
        """Whether the plan field has a meaning for it."""
        return field in self.needs or field in self.fields

    def kernel_of(self, region: Region) -> Kernel | None:
        """One region as its problem, or None."""
        found = kernel_of(region, self.kind)
        return found if self.takes_pairs or getattr(found, "pair", None) is None else None


def cases_of(package: str, algo: str) -> Callable[[], Mapping[str, str]]:
    """Reads the cases of a family: `cases/NAME.plan` of its folder, by name, where families share a folder those whose
    last plan says `algo`. Each is a plan text whose shape sets are the sizes to try."""

    @functools.cache
    def read() -> Mapping[str, str]:
        folder = Path(importlib.import_module(package).__file__ or "").parent / "cases"
        texts = {
            file.stem.replace("_", " "): file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.plan"))
        }
        return {
            name: text for name, text in texts.items() if re.findall(r"^  algo +(\w+)$", text, re.MULTILINE)[-1] == algo
        }

    return read


def functions_of(package: str) -> Callable[[str, str], Callable[..., Any]]:
    """Names functions of the modules of a package, which are imported when the function is first called."""

    def named(module: str, function: str) -> Callable[..., Any]:
        @functools.cache
        def found() -> Callable[..., Any]:
            return getattr(importlib.import_module(f"{package}.{module}"), function)

        return lambda *given: found()(*given)

    return named
