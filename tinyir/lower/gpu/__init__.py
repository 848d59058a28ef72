"""plan → gpu: each plan's template, filled in with the region's maps and values (spec section 11).

    plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...   →   kernel gemm : sm90 grid [...] block
      [16, 16] ...

The family and the algo name the template; tile, micro, threads and bind are obeyed; guards follow from what the tile
divides. Of plans that are alternatives the second makes a kernel called gemm.2. A plan that wants padded copies has a
kernel gemm.pad that makes them, launched before it, and gemm.keep for those of constants, made once; an operand that
must run along the sum and does not has a kernel gemm.turn.b. A kernel whose CTAs wait for one another has scan.start,
which clears what they tell; one whose atomics fold updates has y.start, which writes what they fold onto. A plan of
siblings has one kernel for all of them. A plan that is an earlier one but for names makes no kernel: the earlier one's
is launched once more, with other tensors (`launch fc2 as fc1 with X = H, ...`). Kernels of sm90 that follow one another
start early (`early`). What is not shown to be inside has a guard (`guarded`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ...ir import gpu, plan
from ...ir.alike import Form
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Launch, Statement
from ...ir.gpu.walk import names_in
from ...ir.once import Once
from ...ir.region import Tensor
from ...kernels.family import Before
from ...kernels.launch import before, launch, likeness
from ...kit.diag import Diag, Refused
from ...kit.records import dataclass, replace
from ...kit.work import span
from .early import with_early_starts
from .guarded import with_guards
from .settled import with_settled
from .unused import without_unused


@dataclass(frozen=True, slots=True)
class _Made:
    """The kernels of a plan, its own behind those that serve it, in the names of their first launch, and the words that
    each has. `tensors` are those of its regions as the text has them, `form` says which is which of another launch."""

    kernels: tuple[Kernel, ...]
    words: tuple[frozenset[str], ...]
    tensors: tuple[str, ...]
    form: Form
    before: Before


def lower(module: plan.Module) -> gpu.Module:
    """The module with a launch for every plan. Raises Refused (E1610 an algo without a template yet, E1611 what a
    template cannot hold)."""
    return _lowered(module)[0]


def verdicts(module: plan.Module) -> list[Diag]:
    """R3601 for each access of a tensor that has a guard because nothing shows it to be inside."""
    return _lowered(module)[1]


def _lowered(module: plan.Module) -> tuple[gpu.Module, list[Diag]]:
    launches: list[Kernel | Launch] = []
    faults: list[Diag] = []
    buffers: dict[str, Tensor] = {}
    first: dict[Hashable, _Made] = {}  # by what plans have in common whose launches are the same but for names
    numbers: dict[tuple[str, ...], int] = {}
    once = Once(module.program)
    for one in module.plans:
        number = numbers[one.regions] = numbers.get(one.regions, 0) + 1
        name = f"{one.name}.{number}" if number > 1 else one.name
        try:
            alike, form = likeness(module, one)
            is_once = all(r is not None and once.holds(r) for r in map(module.program.program.region, one.regions))
            key = alike, is_once  # a kernel launched before the first run is none of those launched at each
            if key in first:
                own = before(module, one) if first[key].before.kernels else Before()
                launches += _launched_again(first[key], one, name, form, own)
            else:
                with span("emit", name):
                    first[key] = _made(module, one, name, form, is_once)
                own = first[key].before
                launches += first[key].kernels
            buffers |= {t.name: t for t in own.workspaces}
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    workspaces = tuple(buffers.values())
    with span("guards"):
        guarded, notes = with_guards(module, with_early_starts(launches), workspaces)
    return gpu.Module(module, guarded, workspaces), notes


def _made(module: plan.Module, one: plan.Plan, name: str, form: Form, is_once: bool) -> _Made:
    """The kernels of a plan whose launch is called `name`; `is_once`: it is made before the first run alone."""
    main, front = launch(module, one)
    main = with_settled(replace(main, body=_assuming(one, main.body)), module.program.model)
    body, words = without_unused(main.body)
    main = replace(main, name=name, body=body, is_once=is_once)
    regions = [r for r in map(module.program.program.region, one.regions) if r is not None]
    serving = [replace(k, name=name + k.name.removeprefix(one.name), serves=name) for k in front.kernels]
    tensors = dict.fromkeys(t.name for r in regions for t in (*r.inputs, *r.outputs))
    kernels = (*serving, main)
    words_of = (*(frozenset(names_in(k.body)) for k in serving), frozenset(words))
    return _Made(kernels, words_of, tuple(tensors), form, front)


def _launched_again(made: _Made, one: plan.Plan, name: str, form: Form, own: Before) -> Iterator[Launch]:
    """The kernels of a plan launched for another, which is the same but for names."""
    passed = dict(zip(made.form.tensors, form.tensors))
    passed = {name: passed[name] for name in made.tensors}
    passed |= {there.name: here.name for there, here in zip(made.before.workspaces, own.workspaces)}
    for kernel, words, served in zip(made.kernels, made.words, (*own.kernels, None)):
        changed = tuple((there, here) for there, here in passed.items() if there in words and there != here)
        if served is None:
            yield Launch(name, one.regions, kernel.name, changed, is_once=kernel.is_once)
        else:
            named = name + served.name.removeprefix(one.name)
            yield Launch(named, served.regions, kernel.name, changed, name, kernel.is_once)


def _assuming(one: plan.Plan, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A kernel's statements with what its plan assumes of the symbols, where the template does not say so itself."""
    is_told = not one.assume or any(isinstance(s, nodes.Assume) and s.guard == one.assume for s in body)
    return body if is_told else (nodes.Assume(one.assume), *body)


__all__ = ["lower", "verdicts"]
