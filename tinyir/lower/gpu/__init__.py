"""plan → gpu: each plan's template, filled in with the region's maps and values (spec section 11).

    plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...   →   kernel gemm : sm90 grid [...] block
      [16, 16] ...

The family and the algo name the template; tile, micro, threads and bind are obeyed; guards follow from what the tile
divides. Of plans that are alternatives the second makes a kernel called gemm.2. A plan that wants padded copies has a
kernel gemm.pad that makes them, launched before it, and gemm.keep for those of constants, made once; an operand that
must run along the sum and does not has a kernel gemm.turn.b. A kernel whose CTAs wait for one another has scan.start,
which clears what they tell; one whose atomics fold updates has y.start, which writes what they fold onto. A plan of
siblings has one kernel for all of them. A plan that is an earlier one but for names makes no kernel: the earlier one's
is launched once more, with other tensors (`launch fc2 as fc1 with X = H, ...`), or with one from another place on
(`launch step2 as step1 with fed = fed at [1]`). Kernels of sm90 that follow one another
start early (`early`). What is not shown to be inside has a guard (`guarded`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ...ir import gpu, plan
from ...ir.gpu import nodes
from ...ir.gpu.launches import can_move
from ...ir.gpu.nodes import Kernel, Launch, Statement
from ...ir.gpu.walk import names_in
from ...ir.moved import MovedForm
from ...ir.once import Once
from ...ir.region import Tensor
from ...kernels.family import Before
from ...kernels.launch import before, launch, likeness
from ...kit.diag import Diag, collecting, refuse_all
from ...kit.records import dataclass, replace
from ...kit.work import span
from .early import with_early_starts
from .guarded import with_guards
from .settled import with_settled
from .unused import without_unused

Moves = tuple[tuple[str, tuple[int, ...]], ...]  # by a kernel's tensor, along its first axes


@dataclass(frozen=True, slots=True)
class _Made:
    """The kernels of a plan, its own behind those that serve it, in the names of their first launch, and the words that
    each has. `tensors` are those of its regions as the text has them, `form` says which is which of another launch."""

    kernels: tuple[Kernel, ...]
    words: tuple[frozenset[str], ...]
    tensors: dict[str, Tensor]
    form: MovedForm
    before: Before

    def moves(self, form: MovedForm) -> Moves | None:
        """By how much a launch of this form reads tensors farther on; None where a kernel cannot be given one so."""
        pairs = zip(self.form.form.tensors, form.form.tensors)
        found = [(here, place) for here, there in pairs if (place := self.form.move(here, form, there))]
        is_able = all(
            can_move(kernel, self.tensors[name], place)
            for name, place in found
            for kernel, words in zip(self.kernels, self.words)
            if name in words
        )
        return tuple(found) if is_able else None


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
    known: dict[Hashable, list[_Made]] = {}  # by what plans have in common whose launches are the same but for names
    names = _Names(module)
    once = Once(module.program)
    for one in module.plans:
        name = names.of(one)
        with collecting(faults):
            likely, form = likeness(module, one)
            is_once = all(r is not None and once.holds(r) for r in map(module.program.program.region, one.regions))
            key = likely, is_once  # a kernel launched before the first run is none of those launched at each
            alike = known.setdefault(key, [])
            first, moves = next(
                ((made, moves) for made in alike if (moves := made.moves(form)) is not None), (None, ())
            )
            if first is not None:
                own = before(module, one) if first.before.kernels else Before()
                launches += _launched_again(first, one, names, name, form, own, moves)
            else:
                with span("emit", name):
                    alike.append(made := _made(module, one, names, name, form, is_once))
                own = made.before
                launches += made.kernels
            buffers |= {t.name: t for t in own.workspaces}
    refuse_all(faults)
    workspaces = tuple(buffers.values())
    with span("guards"):
        guarded, notes = with_guards(module, with_early_starts(launches), workspaces)
    return gpu.Module(module, guarded, workspaces), notes


class _Names:
    """The names of launches: those of regions are for the first launch of each, whatever else is called so."""

    def __init__(self, module: plan.Module):
        self._taken = {one.name for one in module.plans}
        self._numbers: dict[tuple[str, ...], int] = {}

    def of(self, one: plan.Plan) -> str:
        """The name of the next launch of a plan's regions: numbered but for the first."""
        number = self._numbers[one.regions] = self._numbers.get(one.regions, 0) + 1
        return one.name if number == 1 else self._free(f"{one.name}.", number)

    def serving(self, name: str, own: str, of: str) -> str:
        """The name of a kernel that serves a launch, which is called `own` where that is called `of`."""
        wanted = name + own.removeprefix(of)
        return wanted if wanted not in self._taken else self._free(f"{wanted}.", 2)

    def _free(self, stem: str, number: int) -> str:
        while f"{stem}{number}" in self._taken:
            number += 1
        self._taken.add(f"{stem}{number}")
        return f"{stem}{number}"


def _made(module: plan.Module, one: plan.Plan, names: _Names, name: str, form: MovedForm, is_once: bool) -> _Made:
    """The kernels of a plan whose launch is called `name`; `is_once`: it is made before the first run alone."""
    main, front = launch(module, one)
    main = with_settled(replace(main, body=_assuming(one, main.body)), module.program.model)
    body, words = without_unused(main.body)
    main = replace(main, name=name, body=body, is_once=is_once)
    regions = [r for r in map(module.program.program.region, one.regions) if r is not None]
    serving = [replace(k, name=names.serving(name, k.name, one.name), serves=name) for k in front.kernels]
    tensors = {t.name: t for r in regions for t in (*r.inputs, *r.outputs)}
    kernels = (*serving, main)
    words_of = (*(frozenset(names_in(k.body)) for k in serving), frozenset(words))
    return _Made(kernels, words_of, tensors, form, front)


def _launched_again(
    made: _Made, one: plan.Plan, names: _Names, name: str, form: MovedForm, own: Before, moves: Moves
) -> Iterator[Launch]:
    """The kernels of a plan launched for another, which is the same but for names and for where it reads tensors."""
    passed, moved = dict(zip(made.form.form.tensors, form.form.tensors)), dict(moves)
    passed = {name: passed[name] for name in made.tensors}
    passed |= {there.name: here.name for there, here in zip(made.before.workspaces, own.workspaces)}
    for kernel, words, served in zip(made.kernels, made.words, (*own.kernels, None)):
        changed = tuple((a, b) for a, b in passed.items() if a in words and (a != b or a in moved))
        farther = tuple((a, moved[a]) for a, _ in changed if a in moved)
        if served is None:
            yield Launch(name, one.regions, kernel.name, changed, "", kernel.is_once, farther)
        else:
            yield Launch(
                names.serving(name, served.name, one.name),
                served.regions,
                kernel.name,
                changed,
                name,
                kernel.is_once,
                farther,
            )


def _assuming(one: plan.Plan, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A kernel's statements with what its plan assumes of the symbols, where the template does not say so itself."""
    is_told = not one.assume or any(isinstance(s, nodes.Assume) and s.guard == one.assume for s in body)
    return body if is_told else (nodes.Assume(one.assume), *body)
