"""poly -> region: cuts the program into regions, one a kernel, and writes each in its normal form (seed 001 sections 6
and 7)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping

from ...analysis.regions import analyse
from ...ir import poly, region
from ...ir.alike import Alike
from ...ir.in_place import check_in_place
from ...ir.model import Model
from ...ir.tiny import MustFuse
from ...ir.verify import check_must_fuse, values_of_op
from ...kernels import can_hold, why_not_held
from ...kit.diag import Diag, Refused, refuse_all
from ...kit.groups import lists_of
from ...kit.records import dataclass, field, replace
from ...kit.work import span
from . import graph as graphs
from .distribute import distribute, rounding
from .fuse import Partition, Verdict
from .fuse_prologues import fuse_prologues
from .join_demanded import Demand, demands_of, join_demanded, kernel_of, refusal_of
from .join_siblings import join_siblings, join_small
from .lone_queries import give_rows, mark_lone_queries
from .merge_equal import merge_equal
from .merge_reduces import merge_reduces
from .normalise import PASSES, why_several
from .program import assembled
from .sink_values import sink_values
from .split_heads import split_heads
from .stream import stream_rows
from .turn_keys import turn_keys
from .untangle import untangle
from .verdicts import Needs, remarks_on, rewrites_on
from .write_changed import write_changed
from .write_in_place import Renewed, remarks_on_states

# rewrites of the whole program, before it is cut: one of two equal values may be all that a fold folds
GRAPH_PASSES = (
    merge_equal,
    merge_reduces,
)


@dataclass(frozen=True, slots=True)
class Cut:
    """How a program is cut: the clusters that become regions, with the verdict on each edge; which cluster is streamed
    into which; what each rewrite of the program merged, by its name; the clusters of each kernel that was demanded; the
    states that are not written in place, with the reason."""

    found: Partition
    streams: dict[int, int]
    merged: dict[str, tuple[tuple[str, str], ...]]
    demanded: tuple[frozenset[int], ...] = ()
    copied: dict[str, str] = field(default_factory=dict)

    def program(self) -> region.Program:
        """The program of the regions, before any rewrite of them."""
        return self.assembled()[0]

    def assembled(self) -> tuple[region.Program, Renewed]:
        """The same, and which states it writes in place."""
        return assembled(self.found.graph, self.found, self.streams, self.demanded, self.copied)


def lower(module: poly.Module, is_distributed: bool = False, must_fuse: tuple[MustFuse, ...] = ()) -> region.Module:
    """The program of regions, each with its analysis. `is_distributed` asks for factors out of sums of floats, which
    rounds elsewhere; `must_fuse` for kernels beside those that the text demands. Raises Refused (E1422 a dependence,
    E1423 a limit, E1424 no family lets values share a kernel that must; E0202, E1421 such a value is unknown, or no
    kernel computes it)."""
    program = _settled(module, is_distributed, must_fuse)[1]
    regions = tuple(replace(one, analysis=analyse(one)) for one in program.regions)
    return region.Module(module.index.tiny.model, replace(program, regions=regions))


def _settled(
    module: poly.Module, is_distributed: bool, must_fuse: tuple[MustFuse, ...] = ()
) -> tuple[Cut, region.Program]:
    """The cut that is taken, and the program in normal form. What could be joined by rows that no kernel can share is
    not streamed. What must share a kernel is joined first where the cut would have it apart otherwise."""
    module = demanding(module, must_fuse)
    apart: dict[str, str] = {}
    copied: dict[str, str] = {}
    alone: set[str] = set()  # states whose new value is computed for them alone
    first: tuple[Demand, ...] = ()
    while True:
        with span("cut"):
            made, demands, refused = _cut(module, apart, first, copied, alone)
        kernels = {demand: kernel_of(demand, made.found, made.streams) for demand in demands}
        loose = [demand for demand, kernel in kernels.items() if kernel is None]
        if new := [demand for demand in loose if demand not in first]:
            first = (*first, *new)
            continue
        if loose:
            needs = Needs(module, made.merged)
            raise Refused([refusal_of(demand, made.found, made.streams, refused, apart, needs) for demand in loose])
        demanded = tuple(kernel for kernel in kernels.values() if kernel is not None)
        made = replace(made, demanded=demanded, copied=copied)
        program, renewed = made.assembled()
        if made.found.graph.parts and (new := {s: w for s, w in renewed.copied.items() if s not in copied}):
            copied |= new  # and not in rows
            continue
        program = replace(program, regions=_in_normal_form(program.regions, is_distributed))
        program = give_rows(split_heads(program))
        whole = {name: why for name, why in not_streamed(program).items() if name not in apart}
        if whole:
            apart |= whole
            continue
        program = turn_keys(program)
        if read_elsewhere := _read_elsewhere(module.index.tiny.model, program):
            copied |= {state: why for state, why in read_elsewhere.items() if state in alone}
            alone |= read_elsewhere.keys()
            continue
        must_be_held(program)
        return made, program


def _read_elsewhere(model: Model, program: region.Program) -> dict[str, str]:
    """The states that a region writes in place and may not, with the reason."""
    module = region.Module(model, program)
    faults = [d for one in program.regions for d in check_in_place(module, one)]
    return {d.facts["state"]: d.facts["fault"] for d in faults}


def _in_normal_form(regions: tuple[region.Region, ...], is_distributed: bool) -> tuple[region.Region, ...]:
    """The regions after all rewrites. Where these leave one as it is, they leave all that are alike."""
    alike = lists_of((Alike.of(one), at) for at, one in enumerate(regions))
    firsts = [places[0] for places in alike.values()]
    found = dict(zip(firsts, _after_rewrites([regions[at] for at in firsts], is_distributed)))
    others = [at for places in alike.values() if found[places[0]] is not regions[places[0]] for at in places[1:]]
    found |= zip(others, _after_rewrites([regions[at] for at in others], is_distributed))
    return tuple(found.get(at, one) for at, one in enumerate(regions))


def _after_rewrites(regions: list[region.Region], is_distributed: bool) -> list[region.Region]:
    for rewrite, name in zip(passes(is_distributed), (p.__name__ for p in PASSES)):
        with span(name):
            regions = [after if (after := rewrite(one)) != one else one for one in regions]
    return regions


def demanding(module: poly.Module, must_fuse: tuple[MustFuse, ...]) -> poly.Module:
    """The module that demands more kernels, of values (`%gemm`, or the name alone) or of all that came from an op of
    the model (`gemm`). Raises Refused (E0202, E1421)."""
    if not must_fuse:
        return module
    program = module.index.tiny
    asked = (
        replace(
            one,
            values=tuple(
                v
                for name in one.values
                for v in (not name.startswith("%") and values_of_op(program, name)) or (name.removeprefix("%"),)
            ),
        )
        for one in must_fuse
    )
    whole = replace(program, must_fuse=(*program.must_fuse, *asked))
    if faults := list(check_must_fuse(whole)):
        raise Refused(faults)
    return replace(module, index=replace(module.index, tiny=whole))


def warnings(module: poly.Module, is_distributed: bool = False, must_fuse: tuple[MustFuse, ...] = ()) -> list[Diag]:
    """A warning for each region of which a factor leaves a sum of floats, which was asked for and rounds otherwise
    (W2103)."""
    if not is_distributed:
        return []
    said = []
    for one in _settled(module, is_distributed, must_fuse)[0].program().regions:
        for rewrite in PASSES[: PASSES.index(distribute)]:
            one = rewrite(one)
        said += rounding(distribute(one), distribute(one, is_asked=True))
    return said


def not_streamed(program: region.Program) -> dict[str, str]:
    """The deferred buffers whose two regions no kernel can share, whose rows must be whole in memory; with the reason
    of each family, in words."""
    makers = {t.name: r for r in program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    pairs = [(makers[t.name], r, t.name) for r in program.regions for t in r.inputs if t.name in makers]
    return {name: why_not_held(first, second) for first, second, name in pairs if not can_hold((first, second))}


def must_be_held(program: region.Program) -> None:
    """Raise Refused (E1424) where a region that must be one kernel is none of any family."""
    faults = []
    for one in program.regions:
        if why := why_several(one) if one.must_fuse == (one.name,) else "":
            facts = {"values": one.name, "rule": "family", "shows": why}
            faults.append(Diag("E1424", one.name, facts, one.span))
    refuse_all(faults)


def passes(is_distributed: bool = False) -> tuple:
    """The rewrites of one region."""
    return tuple(functools.partial(p, is_asked=True) if p is distribute and is_distributed else p for p in PASSES)


def verdicts(module: poly.Module, is_distributed: bool = False, must_fuse: tuple[MustFuse, ...] = ()) -> list[Diag]:
    """A remark on each edge of the program: fused or not, by which rule, with what shows it (R3401, R3402), on values
    and folds that became one (R3403, R3461), and on each rewrite of a region that did something (R3462 to R3466)."""
    made, _ = _settled(module, is_distributed, must_fuse)
    said = remarks_on(made.found, made.merged, module)
    program, renewed = made.assembled()
    said += remarks_on_states(module.index.tiny.model, program, renewed)
    for name, before, after in _rewritten(program, is_distributed):
        said += rewrites_on(name, before, after)
    return said


def steps(
    module: poly.Module, is_distributed: bool = False, must_fuse: tuple[MustFuse, ...] = ()
) -> Iterator[tuple[str, region.Region, region.Region]]:
    """Each rewrite of a region that changes it: its name, and the region before and after."""
    made, _ = _settled(module, is_distributed, must_fuse)
    for name, before, after in _rewritten(made.program(), is_distributed):
        if after != before:
            yield name, before, after


def _rewritten(program: region.Program, is_distributed: bool) -> Iterator[tuple[str, region.Region, region.Region]]:
    for one in program.regions:
        for rewrite, name in zip(passes(is_distributed), (p.__name__ for p in PASSES)):
            before, one = one, rewrite(one)
            yield name, before, one


def cut(
    module: poly.Module, apart: Mapping[str, str] | None = None
) -> tuple[Partition, dict[int, int], dict[str, tuple[tuple[str, str], ...]]]:
    """The clusters that become regions, with the verdict on each edge; which cluster is streamed into which; what each
    rewrite of the program merged, by its name. What is `apart` is not streamed."""
    made, _, _ = _cut(module, apart or {}, (), {}, ())
    return made.found, made.streams, made.merged


def _cut(
    module: poly.Module,
    apart: Mapping[str, str],
    first: tuple[Demand, ...],
    copied: Mapping[str, str],
    alone: Collection[str],
) -> tuple[Cut, tuple[Demand, ...], dict[tuple[str, str], Verdict]]:
    """The cut with the demands that are joined `first`, and without rows of the states that are `copied`; all that is
    demanded, and the verdicts on the joins for its
    sake that are not legal."""
    graph = mark_lone_queries(graphs.build(module))
    merged = {}
    for rewrite in GRAPH_PASSES:
        graph, merged[rewrite.__name__] = rewrite(graph)
    graph = write_changed(graph, graph.program.model.states().keys() - copied.keys(), alone)
    found = Partition(graph)
    refused = join_demanded(found, first)
    found.run()
    sink_values(found)
    streams = stream_rows(found, apart)
    joined = {*streams, *streams.values()}
    join_siblings(found, joined)
    join_small(found, joined)
    fuse_prologues(found, joined)
    untangle(found, streams)
    return Cut(found, streams, merged), demands_of(module, graph, merged), refused
