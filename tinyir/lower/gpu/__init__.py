"""plan → gpu: each plan's template, filled in with the region's maps and values (spec section 11).

    plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...   →   kernel gemm : sm90 grid [...] block
      [16, 16] ...

The family and the algo name the template; tile, micro, threads and bind are obeyed; guards follow from what the tile
divides. Of plans that are alternatives the second makes a kernel called gemm.2. A plan that wants padded copies has a
kernel gemm.pad that makes them, launched before it, and gemm.keep for those of constants, made once; an operand that
must lie along the sum and does not has a kernel gemm.turn.b. A kernel whose CTAs wait for one another has scan.start,
which clears what they tell; one whose atomics fold updates has y.start, which writes what they fold onto. A plan of
siblings has one kernel for all of them. Kernels of sm90 that follow one another start early (`early`). What is not
shown to be inside has a guard (`guarded`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import gpu, plan
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.once import is_made_once
from ...ir.region import Tensor
from ...kernels.launch import launch
from ...kit.diag import Diag, Refused
from .early import with_early_starts
from .guarded import with_guards
from .unused import without_unused


def lower(module: plan.Module) -> gpu.Module:
    """The module with a kernel for every plan. Raises Refused (E1610 an algo without a template yet, E1611 what a
    template cannot hold)."""
    return _lowered(module)[0]


def verdicts(module: plan.Module) -> list[Diag]:
    """R3601 for each access of a tensor that has a guard because nothing shows it to be inside."""
    return _lowered(module)[1]


def _lowered(module: plan.Module) -> tuple[gpu.Module, list[Diag]]:
    kernels, faults = [], []
    workspaces: dict[str, Tensor] = {}
    program = module.program.program
    for number, one in enumerate(module.plans):
        earlier = sum(p.regions == one.regions for p in module.plans[:number])
        name = f"{one.name}.{earlier + 1}" if earlier else one.name
        try:
            main, before = launch(module, one)
            is_once = all(r is not None and is_made_once(module.program, r) for r in map(program.region, one.regions))
            main = replace(main, name=name, body=without_unused(_assuming(one, main.body)), is_once=is_once)
        except Refused as fault:
            faults.extend(fault.diags)
            continue
        kernels += [replace(made, name=name + made.name.removeprefix(one.name), serves=name) for made in before.kernels]
        workspaces |= {t.name: t for t in before.workspaces}
        kernels.append(main)
    if faults:
        raise Refused(faults)
    buffers = tuple(workspaces.values())
    guarded, notes = with_guards(module, with_early_starts(kernels), buffers)
    return gpu.Module(module, guarded, buffers), notes


def _assuming(one: plan.Plan, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A kernel's statements with what its plan assumes of the symbols, where the template does not say so itself."""
    is_told = not one.assume or any(isinstance(s, nodes.Assume) and s.guard == one.assume for s in body)
    return body if is_told else (nodes.Assume(one.assume), *body)


__all__ = ["lower", "verdicts"]
