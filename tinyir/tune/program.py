"""A whole program tuned, kernel by kernel, each as a program of its own that runs without the rest of the model; and a
planned program with the winners of earlier tunings put in.

region gemm, which reads the buffer H   →   model gemm with the input H; program gemm with this one region
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from ..ir import plan, region
from ..ir.alike import Form, form_of
from ..ir.model import Model, Shapes, Tensor
from ..ir.plan.fields import renamed
from ..kit.groups import lists_of
from ..kit.records import replace
from .search import Found
from .store import is_outdated, load_winner

Names = tuple[str, ...]
Tried = Callable[[region.Module, Sequence[plan.Plan], Mapping[str, int], float], Found]


def at_sizes(module: region.Module, sizes: Mapping[str, int]) -> region.Module:
    """The module with `sizes` as its first shape set, which is the one that candidates are ranked at."""
    if not sizes:
        return module
    rest = tuple(s for s in module.model.shape_sets if dict(s.sizes) != dict(sizes))
    return replace(
        module,
        model=replace(
            module.model, shape_sets=(Shapes("tuned", tuple(sizes.items())), *(s for s in rest if s.name != "tuned"))
        ),
    )


def kernels_of(planned: plan.Module) -> dict[Names, list[plan.Plan]]:
    """The plans of each kernel, which are alternatives, by the names of its regions, in order."""
    found = lists_of((one.regions, one) for one in planned.plans)
    return found


def tune(
    planned: plan.Module,
    listed: Mapping[Names, Sequence[plan.Plan]],
    sizes: Mapping[str, int],
    seconds: float,
    tried: Tried,
) -> plan.Module:
    """The program with the winners of `listed`, which has candidates for each kernel; `tried` measures those of one.
    Launches that are the same but for names are one kernel, which is measured once. The kernels share the time evenly.
    Raises Refused (E1591)."""
    until = time.monotonic() + seconds
    alike = _Alike(planned.program)
    groups: dict[Hashable, list[Names]] = {}
    for names, candidates in listed.items():
        key = alike.key(names), tuple(alike.bare(one) for one in candidates)
        groups.setdefault(key, []).append(names)
    plans: dict[Names, Sequence[plan.Plan]] = {}
    for left, (first, *others) in zip(range(len(groups), 0, -1), groups.values()):
        program = alone(planned.program, first, dict(sizes))
        found = tried(program, listed[first], sizes_in(program), max(0.0, until - time.monotonic()) / left).plans
        plans |= {first: found, **{names: [alike.said_of(names, one) for one in found] for names in others}}
    return replace(planned, plans=tuple(one for names in listed for one in plans[names]))


def with_winners(
    planned: plan.Module, sizes: Mapping[str, int], device: str, compiler: str
) -> tuple[plan.Module, list[plan.Plan], list[plan.Plan]]:
    """The program with the plans that won before at these sizes, for the launch itself or for one that is the same but
    for names; which those are (the first of each kernel); and the plans whose winners were kept by a version that took
    other fields."""
    winners: list[plan.Plan] = []
    outdated: list[plan.Plan] = []
    alike = _Alike(planned.program)
    kernels = kernels_of(planned)
    groups = lists_of((alike.key(names), names) for names in kernels)

    @functools.cache
    def kept(names: Names) -> tuple[plan.Plan, ...]:
        return load_winner(alone(planned.program, names, dict(sizes)), device, compiler)

    @functools.cache
    def kept_of(key: Hashable) -> tuple[plan.Plan, ...]:
        return next((found for names in groups[key] if (found := kept(names))), ())

    def chosen() -> Iterator[plan.Plan]:
        for names, plans in kernels.items():
            won = kept(names) or tuple(alike.said_of(names, one) for one in kept_of(alike.key(names)))
            winners.extend(won[:1])
            place = alone(planned.program, names, dict(sizes)), device, compiler
            outdated.extend(plans[:1] if not won and is_outdated(*place) else ())
            yield from won or plans

    return replace(planned, plans=tuple(chosen())), winners, outdated


class _Alike:
    """Launches of a program that are the same but for names, and the plans of one said of another."""

    def __init__(self, program: region.Module):
        self._regions = {one.name: one for one in program.program.regions}
        self._constants = program.model.constants()

    def key(self, names: Names) -> Hashable:
        """What such launches have in common: the form of their regions, and which tensors are constants."""
        form = self._form(names)
        return form.shape, tuple(name in self._constants for name in form.tensors)

    def bare(self, one: plan.Plan) -> plan.Plan:
        """A plan with numbers for names."""
        numbers = ({name: str(at) for at, name in enumerate(names)} for names in self._form(one.regions).names)
        return renamed(one, (), *numbers)

    def said_of(self, names: Names, one: plan.Plan) -> plan.Plan:
        """The plan of a launch in the names of another."""
        return renamed(
            one, names, *(dict(zip(a, b)) for a, b in zip(self._form(one.regions).names, self._form(names).names))
        )

    def _form(self, names: Names) -> Form:
        return form_of(*(self._regions[name] for name in names))


def sizes_in(program: region.Module) -> dict[str, int]:
    """The sizes that a region alone was made for."""
    return dict(program.model.shape_sets[0].sizes) if program.model.shape_sets else {}


MODEL_ATTRS = ("alignment",)


def alone(module: region.Module, names: tuple[str, ...], sizes: dict[str, int]) -> region.Module:
    """The regions `names` (several are joined by deferred buffers) with what they read as the model's inputs and what
    they write as its outputs. Constant buffers and those between them stay buffers; `sizes` become the only shape set;
    where values came from and what must share a kernel is left out, so that equal regions of different models are one
    text."""
    chosen = [_without_origins(one) for one in module.program.regions if one.name in names]
    written = {t.name: t for one in chosen for t in one.outputs}
    read = {t.name: t for one in chosen for t in one.inputs if t.name not in written}
    kept = [b for b in module.program.buffers if b.name in read and b.attr("value") is not None]
    between = [b for b in module.program.buffers if b.name in written and b.attr("materialize") == "deferred"]
    inside = {b.name for b in (*kept, *between)}
    inputs = [_of_signature(t) for name, t in read.items() if name not in inside]
    outputs = [_of_signature(t) for name, t in written.items() if name not in inside]
    model = Model(chosen[0].name, tuple(inputs), tuple(outputs))
    symbols = set(model.symbols())
    model = replace(
        model,
        ranges=tuple(r for r in module.model.ranges if r.symbol in symbols),
        shape_sets=(Shapes("tuned", tuple((s, sizes[s]) for s in model.symbols())),) if symbols else (),
    )
    return region.Module(model, region.Program(chosen[0].name, (*kept, *between), tuple(chosen)))


def _of_signature(tensor: region.Tensor) -> Tensor:
    """The memory of a region's tensor as a tensor of the signature: in rows, whatever its layout was."""
    return Tensor(tensor.name, tensor.type, tuple((k, v) for k, v in tensor.attrs if k in MODEL_ATTRS))


def _without_origins(one: region.Region) -> region.Region:
    lets: Iterable[region.Let] = (replace(let, origin=None) for let in one.lets)
    yields = tuple(replace(item, origin=None) for item in one.yields)
    return replace(one, lets=tuple(lets), yields=yields, must_fuse=())
