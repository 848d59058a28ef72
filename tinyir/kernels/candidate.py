"""A plan on its way to being chosen."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.body import Axis
from ..ir.expr import Bound
from ..ir.model import Model
from ..ir.plan import Bind, Layout, Plan
from ..ir.region import Region
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from ..target.device import Device
from .cost import Cost
from .parts.guards import guarded_axes
from .problem import Contraction, Map

Regions = tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its cost (None when not one CTA fits) and the reason for which it was rejected, empty when it was
    not."""

    plan: Plan
    cost: Cost | None
    rejected: str = ""


def parts_of_axes(axes: tuple[Axis, ...], part: str) -> tuple[str, ...]:
    """The words of `bind` for the tiles' numbers (`o`) along the axes, or for the places inside (`i`)."""
    return tuple(f"{a.name}.{part}" for a in axes)


def over_registers(held: int, card: Device) -> str:
    """Why a plan is not made whose arrays take too many registers of a thread; empty where they fit."""
    most = card.arch.registers_per_thread
    return Phrase("{held} registers a thread in arrays, {most} at most", held=held, most=most) if held > most else ""


def math_of(kernel: Contraction, card: Device) -> str:
    """How tensor cores multiply the factors: fp32 as `card.fp32` says, where it says nothing as exactly as fp32; others
    as they are."""
    return (card.fp32 or "tf32x3") if kernel.lhs.dtype.name == "fp32" else ""


def element_binds(kernel: Map) -> tuple[Bind, ...]:
    """Where the elements of a map are counted, all axes as one number; nowhere of a scalar."""
    if not kernel.axes:
        return ()
    return Bind(parts_of_axes(kernel.axes, "o"), "cta.x"), Bind(parts_of_axes(kernel.axes, "i"), "thread.x")


def batch_bind(kernel: Contraction) -> tuple[Bind, ...]:
    """Where the batch axes of a contraction are counted; nowhere without any."""
    return (Bind(tuple(a.name for a in kernel.batch), "cta.z"),) if kernel.batch else ()


def guarded(plan: Plan, region: Region, kernel: Contraction) -> Plan:
    """The plan with a guard for each axis of the contraction over whose end its tile may hang."""
    names = {name for group, size in zip(kernel.groups, plan.tile) for name in guarded_axes(group, size)}
    return replace(plan, predicate=tuple(a.name for a in (*region.iters, *kernel.sum) if a.name in names))


def layout_of(padded: Iterable[str], turned: Iterable[str], model: Model) -> tuple[Layout, ...]:
    """The `layout` of operands that are copied so: constants of the model once, what else there is at every run."""
    hints = [(name, word) for word, names in (("padded", padded), ("turned", turned)) for name in names]
    kept = model.constants() if hints else ()
    return tuple(Layout(name, f"{word}_once" if name in kept else word) for name, word in hints)


def holds_everywhere(bounds: tuple[Bound, ...], model: Model) -> bool:
    """Whether the guards hold at every shape set; without one nothing is known of the symbols."""
    return (
        not bounds or bool(model.shape_sets) and all(b.holds(dict(s.sizes)) for b in bounds for s in model.shape_sets)
    )
