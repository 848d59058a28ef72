"""Can each plan be obeyed? What the families ask of plan text, beside what `ir.plan.check` asks of any."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ...ir import region as region_text
from ...ir.alike import Alike, form_of
from ...ir.model import Tensor as Declared
from ...ir.model import is_constant, show_name
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan, renamed
from ...ir.plan.verify import check_words as words_of_language
from ...ir.plan.verify import fault_of
from ...ir.region import Module, Region
from ...ir.runs import sharing
from ...ir.traits import extent_of
from ...kit.diag import Diag, Edit, Refused
from ...kit.held import once
from ...kit.phrase import Listing, Phrase
from ...kit.records import replace
from ...kit.work import count
from ...target.arch import ARCHS
from .. import family_of, resources
from ..attention import Streaming
from ..launch import problem_of
from ..parts.guards import guarded_axes
from ..problem import Contraction, Kernel, Prefix, Row, why_none
from ..resources import MAX_STAGES
from .accepted import check_accepted
from .case import Case
from .words import check_words

ENGINE_LOADS = ("tma", "windows")  # of the copy engine
MAX_COUNT = 1 << 24  # elements of a tile, tiles in order, persistent CTAs


@once
def check(module: Any) -> list[Diag]:
    """What the families ask of plans, one function each, in this order. Plans of regions that do not hold are not
    looked at, for every family rests on what `ir.region.check` asks; nor is what rests on a word that is not known, so
    that one fault is one message.

    1. kind and algo are known, the algo's own fields are there, and the regions are of its kind, siblings, or two that
      it computes together                                                       (E1502, E1503, E1517, E1580, E1582)
       the template has a place for what the regions compute                                              (E1611)
       a region that must be one kernel has a plan of another family than the one that holds everything   (E1424)
    2. bind, cache, vectorize and predicate name axes of the regions                                      (E1505)
    3. cache, load, store, multicast, layout and edge name tensors and values of the regions              (E1506)
    4. no part of an axis is bound twice, and every parallel axis reaches the grid                        (E1507, E1522)
    5. the tile has the family's numbers, made of whole warp tiles or of the threads' micro tiles         (E1508, E1509,
      E1519)
    6. a CTA has 1 to 1024 threads, in whole warps where they fold together                               (E1509)
    7. stages, depths, prefetch, consumers, clusters, parts and registers are counts that there are       (E1510)
    8. the architecture has what is asked of it                                                           (E1511)
    9. the cached tiles fit in shared memory                                                              (E1512)
    10. accumulators and setmaxnreg fit in the registers                                                  (E1513)
    11. predicate covers every axis that the tile is not proven to divide                                 (E1514)
    12. epilogue lists the values that follow the accumulator, in order                                   (E1515)
    13. an access is at most 16 bytes, a power of two of elements                                         (E1516)
    14. only what tma or cp.async fetches is copied before, and only a constant once                      (E1523)
    15. only a family that has atomics is asked for them                                                  (E1583)
    16. each field is one that the family has, with a value that it takes                                 (E1524,
      E1525)
    17. what the family asks beside (its `legal`)                          (E1513, E1518, E1523, E1570, E1581,
      E1583, E1584)
    """
    if any(d.is_error for d in region_text.check(module.program)):
        return []
    known = {r.name: r for r in module.program.program.regions}
    declared = {t.name: replace(t, name="") for t in (*module.program.model.inputs, *module.program.model.outputs)}
    faultless: set[Hashable] = set()  # plans that are the same but for names are checked once
    diags: list[Diag] = []
    for plan in module.plans:
        regions = tuple(known[name] for name in plan.regions if name in known)
        likeness = _likeness(plan, regions, declared)
        if likeness is None or likeness not in faultless:
            found = _all_faults_of(plan, regions, module.program)
            faultless |= {likeness} if not found and likeness is not None else set()
            diags += found
    return diags


def _all_faults_of(plan: Plan, regions: tuple[Region, ...], module: Module) -> list[Diag]:
    """The faults of a plan of these regions."""
    count("plans checked")
    found = list(check_words(plan))
    if found or any(words_of_language(plan)) or len(regions) != len(plan.regions):
        return found
    family = family_of(plan)
    try:
        problem = problem_of(family, plan, regions, module)
    except Refused as fault:
        return list(fault.diags)
    if beyond := family.beyond(problem):
        return [fault_of(plan, "E1611", "algo", what=beyond, region=problem.region.name)]
    return _faults_of(Case(plan, family, problem))


def _likeness(plan: Plan, regions: tuple[Region, ...], declared: Mapping[str, Declared]) -> Hashable:
    """What plans of one region have in common that are the same but for names: the region's form, what is declared of
    its tensors, and the plan with numbers for names. None for a plan of several, which must be neighbours, and of a
    region that shares its kernel, for which names decide."""
    if len(regions) != 1 or len(plan.regions) != 1 or regions[0].must_fuse:
        return None
    alike, form = Alike.of(*regions), form_of(*regions)
    tensors, values = ({name: at for at, name in enumerate(names)} for names in form.names)
    bare = replace(renamed(plan, (), tensors, values), estimate=None)  # type: ignore[arg-type]
    return alike, regions[0].analysis, tuple(map(declared.get, form.tensors)), bare


def _faults_of(case: Case) -> list[Diag]:
    """The faults of a plan. What a family takes in a field rests on the plan's form, and what a kernel takes of the
    card on fields that the family has: the first of these that is not met is told alone."""
    has_counts = _has_counts(case.plan, case.kernel)
    found = [fault for check in _FORM_CHECKS + _GUARD_CHECKS * has_counts for fault in check(case)]
    if not has_counts:
        return found or list(_check_positive(case.plan))
    return found or list(check_accepted(case)) or [fault for check in _CHECKS for fault in check(case)]


def _check_positive(plan: Any) -> Iterator[Diag]:
    for word in ("tile", "warp_tile", "micro", "threads"):
        if min(getattr(plan, word), default=1) < 1:
            yield fault_of(
                plan, "E1510", word, field=word, given=min(getattr(plan, word)), wanted="1..", algo=plan.algo
            )


def _has_counts(plan: Any, kernel: Kernel) -> bool:
    """Whether the fields that the later checks divide by are counts; where they are not, an earlier check says so."""
    optional = [
        n for given, n in ((plan.consumers, "count"), (plan.split_k, "parts")) if given for n in (getattr(given, n),)
    ]
    counts = (
        *plan.tile,
        *plan.warp_tile,
        *plan.micro,
        *plan.threads,
        *(plan.cluster.shape if plan.cluster else ()),
        plan.stages,
        plan.partials,
        *optional,
    )
    return len(plan.tile) == len(kernel.groups) and min(counts) >= 1


def _corrected(plan: Any, fault: Diag, word: str, line: str) -> Diag:
    """The fault with the edit that corrects it, where the field is in the text."""
    return replace(fault, edit=Edit(fault.span, line)) if word in dict(plan.spans) else fault


def _check_fusion(case: Case) -> Iterator[Diag]:
    if case.family.is_fallback and (names := [r.name for r in case.regions if r.must_fuse]):
        facts = {"values": ", ".join(names), "rule": case.plan.algo, "shows": Listing(map(why_none, case.regions))}
        yield fault_of(case.plan, "E1424", "algo", **facts)


def _check_axes(case: Case) -> Iterator[Diag]:
    plan, regions, kernel = case.plan, case.regions, case.kernel
    known = (
        {a.name for r in regions for a in r.iters}
        | {a.name for g in kernel.groups for a in g}
        | {a.name for a in getattr(kernel, "batch", ())}
    )
    used = [("bind", part) for b in plan.bind for part in b.axes] + [("cache", c.at) for c in plan.cache]
    used += [("vectorize", axis) for v in plan.vectorize for axis in v.axes] + [
        ("predicate", axis) for axis in plan.predicate
    ]
    for word, part in used:
        axis = re.sub(r"(\.[oi])*$", "", part)
        if axis not in known:
            yield fault_of(plan, "E1505", word, axis=part, known=", ".join(sorted(known)))


def _check_names(case: Case) -> Iterator[Diag]:
    plan, regions = case.plan, case.regions
    inputs = {t.name for r in regions for t in r.inputs}
    outputs = {t.name for r in regions for t in r.outputs}
    values = {let.name for r in regions for let in r.lets}
    multicast = plan.cluster.multicast if plan.cluster else ()
    used = [("cache", c.tensor, inputs) for c in plan.cache] + [("load", item.tensor, inputs) for item in plan.load]
    used += [("cluster", name, inputs) for name in multicast] + [("store", item.tensor, outputs) for item in plan.store]
    used += [("layout", item.tensor, inputs | outputs) for item in plan.layout]
    used += [("edge", name, values | inputs | outputs) for e in plan.edge for name in (e.source, e.target)]
    for word, name, known in used:
        if name not in known:
            yield fault_of(plan, "E1506", word, name=name, known=", ".join(sorted(known)))


def _check_binding(case: Case) -> Iterator[Diag]:
    plan, kernel = case.plan, case.kernel
    seen: set[str] = set()
    for part in (p for b in plan.bind for p in b.axes):
        if part in seen:
            yield fault_of(plan, "E1507", "bind", axis=part)
        seen.add(part)
    for axis, tile in _grid_axes(plan, kernel):
        size = axis.size.constant if axis.size is not None else None
        to_grid = any((plan.place_of(part) or "").startswith("cta.") for part in (axis.name, f"{axis.name}.o"))
        if not to_grid and (size is None or size > tile):
            yield fault_of(plan, "E1522", "bind", axis=axis.name, size=axis.size)


def _grid_axes(plan: Any, kernel: Kernel) -> Iterator[tuple[Any, int]]:
    """The axes that the grid must cover, with the tile's number that may cover a small one alone."""
    tile = (*plan.tile, 1, 1, 1)
    if isinstance(kernel, Contraction):
        yield from ((a, 1) for a in kernel.batch)
        yield from ((a, tile[0] if len(kernel.left) == 1 else 0) for a in kernel.left)
        yield from ((a, tile[1] if len(kernel.right) == 1 else 0) for a in kernel.right)
    elif isinstance(kernel, Streaming):
        yield from ((a, tile[0] if a == kernel.group else 1) for a in kernel.outer)
        yield kernel.row, tile[0]
    else:
        axes = kernel.rows if isinstance(kernel, (Row, Prefix)) else kernel.axes
        yield from ((a, tile[0] if len(axes) == 1 else 0) for a in axes)


def _check_tile(case: Case) -> Iterator[Diag]:
    plan, kernel = case.plan, case.kernel
    if len(plan.tile) != len(kernel.groups) or min(plan.tile) < 1:
        yield fault_of(plan, "E1508", "tile", tile=list(plan.tile), family=plan.family, wanted=len(kernel.groups))
        return
    axes = ["*".join(a.name for a in group) or "-" for group in kernel.groups]
    for axis, whole, piece in zip(axes, plan.tile, plan.warp_tile):
        if piece < 1 or whole % piece:
            facts = {"axis": axis, "whole": whole, "field": "warp_tile", "piece": piece, "count": "n"}
            yield fault_of(plan, "E1519", "warp_tile", **facts)
    if plan.warp_tile and plan.threads:
        warps = math.prod(-(-whole // max(piece, 1)) for whole, piece in zip(plan.tile, plan.warp_tile))
        if warps * 32 != math.prod(plan.threads):
            yield fault_of(plan, "E1509", "threads", threads=math.prod(plan.threads), wanted=f"32 * {warps}")
    if plan.micro and plan.threads:
        for axis, whole, piece, count in zip(axes, plan.tile, plan.micro, _threads_along(plan, kernel)):
            if count * piece != whole:
                facts = {"axis": axis, "whole": whole, "field": "micro", "piece": piece, "count": count}
                yield fault_of(plan, "E1519", "micro", **facts)


def _threads_along(plan: Any, kernel: Kernel) -> Iterator[int]:
    """How many threads go along each number of the tile, as `bind` says."""
    for group in kernel.groups:
        place = plan.place_of(f"{group[-1].name}.i") if group else None
        position = {"thread.x": 0, "thread.y": 1, "thread.z": 2}.get(place)
        yield plan.threads[position] if position is not None and position < len(plan.threads) else 1


def _check_threads(case: Case) -> Iterator[Diag]:
    plan = case.plan
    threads, most = resources.threads_of(plan), ARCHS[plan.arch].threads_per_cta
    if len(plan.threads) > 3 or not 1 <= threads <= most or (len(plan.threads) == 3 and plan.threads[2] > 64):
        yield fault_of(plan, "E1509", "threads", threads=threads, wanted=f"1..{most}")
    elif case.family.in_warps and threads % ARCHS[plan.arch].warp:
        yield fault_of(plan, "E1509", "threads", threads=threads, wanted="32 * n")


def _check_stages(case: Case) -> Iterator[Diag]:
    plan = case.plan
    counts = [("stages", "stages", plan.stages, 1, MAX_STAGES if case.family.obeys("stages") else 1)]
    counts.append(("partials", "partials", plan.partials, 1, 2 if plan.promote else 1))
    counts += [
        ("edge", Phrase("depth of {source} -> {target}", source=e.source, target=e.target), e.depth, 1, MAX_STAGES)
        for e in plan.edge
    ]
    if plan.asynchrony:
        counts.append(("async", "prefetch", plan.asynchrony.prefetch, 0, plan.stages))
    if plan.consumers:
        counts.append(("consumers", "consumers", plan.consumers.count, 1, 3))
    if plan.cluster and ARCHS[plan.arch].has_tma:
        counts.append(("cluster", "cluster", math.prod(plan.cluster.shape), 1, ARCHS[plan.arch].ctas_per_cluster))
    if plan.split_k:
        counts.append(("split_k", "split_k", plan.split_k.parts, 1, ARCHS[plan.arch].ctas_per_cluster))
    counts += [("order", Phrase("the width of order"), plan.order.width, 0, MAX_COUNT)] if plan.order else []
    counts += [(word, word, getattr(plan, word), 0, MAX_COUNT) for word in ("persistent", "promote")]
    counts += [
        (word, word, max(getattr(plan, word), default=1), 1, MAX_COUNT)
        for word in ("tile", "micro", "warp_tile")
        if min(getattr(plan, word), default=1) >= 1
    ]
    for word, what, given, least, most in counts:
        if not least <= given <= most:
            wanted = f"{least}..{most}"
            if what == "prefetch" and plan.spans and "stages" not in dict(plan.spans):
                wanted = Phrase("{range}: up to stages, which no line says", range=wanted)
            yield fault_of(plan, "E1510", word, field=what, given=given, wanted=wanted, algo=plan.algo)
    for given in (plan.regs.producer, plan.regs.consumer) if plan.regs else ():
        if given % 8 or not 24 <= given <= 256:
            yield fault_of(plan, "E1510", "regs", field="regs", given=given, wanted="24, 32, ..., 256", algo=plan.algo)
    threads = resources.threads_of(plan)
    if plan.regs and threads:  # consumers ask for more registers than threads begin with: for fewer a card stops them
        begun = ARCHS[plan.arch].registers_per_sm // threads // 8 * 8
        if plan.regs.consumer < begun:
            wanted = f"{begun}, ..., 256"
            yield fault_of(plan, "E1510", "regs", field="regs", given=plan.regs.consumer, wanted=wanted, algo=plan.algo)


def _check_arch(case: Case) -> Iterator[Diag]:
    plan = case.plan
    if ARCHS[plan.arch].has_tma:
        return
    wanted = [("load", by) for by in dict.fromkeys(i.by for i in plan.load if i.way != "halo") if by in ENGINE_LOADS]
    wanted += [("store", "tma")] if any(item.by == "tma" for item in plan.store) else []
    wanted += [("barrier", "mbarrier")] if plan.barrier == "mbarrier" else []
    wanted += [(word, word) for word in ("consumers", "cluster", "regs") if getattr(plan, word)]
    for word, feature in wanted:
        yield fault_of(plan, "E1511", word, arch=plan.arch, feature=feature)


def _check_smem(case: Case) -> Iterator[Diag]:
    plan, taken, arch = case.plan, case.needs().smem, ARCHS[case.plan.arch]
    most = arch.static_smem if case.family.has_static_smem else arch.smem_per_cta
    if taken > most:
        yield fault_of(plan, "E1512", "tile", smem=taken, arch=plan.arch, most=most)


def _check_registers(case: Case) -> Iterator[Diag]:
    plan, arch = case.plan, ARCHS[case.plan.arch]
    threads, held = resources.threads_of(plan), case.needs().accumulators
    takes = [
        (
            "micro" if plan.micro else "tile",
            "accumulators",
            held + (0 if plan.regs else resources.ADDRESSING // 2),
            arch.registers_per_thread,
        )
    ]
    if plan.regs:
        consumers = plan.consumers.count if plan.consumers else 1
        takes.append(
            (
                "regs",
                "regs",
                128 * (plan.regs.producer * (1 + plan.is_split) + plan.regs.consumer * consumers),
                arch.registers_per_sm,
            )
        )
        takes.append(("regs", "accumulators", held + 1, plan.regs.consumer))
    else:
        takes.append(("threads", "threads", (held + resources.ADDRESSING // 2) * threads, arch.registers_per_sm))
    for word, what, given, most in takes:
        if given > most:
            yield fault_of(plan, "E1513", word, field=what, given=given, most=most)
            return


def _check_predicate(case: Case) -> Iterator[Diag]:
    plan, kernel = case.plan, case.kernel
    for group, tile in zip(kernel.groups, plan.tile):
        missing = [name for name in guarded_axes(group, tile) if name not in plan.predicate]
        if missing:
            fault = fault_of(plan, "E1514", "predicate", axis=", ".join(missing), size=extent_of(group), tile=tile)
            yield _corrected(plan, fault, "predicate", f"predicate  [{', '.join((*plan.predicate, *missing))}]")


def _check_epilogue(case: Case) -> Iterator[Diag]:
    plan, regions, kernel = case.plan, case.regions, case.kernel
    if isinstance(kernel, Streaming):
        return
    wanted = (
        [let.name for let in regions[0].lets if let.name not in kernel.values]
        if isinstance(kernel, Contraction)
        else []
    )
    if list(plan.epilogue) != wanted:
        fault = fault_of(plan, "E1515", "epilogue", given=list(plan.epilogue), wanted=wanted)
        yield _corrected(plan, fault, "epilogue", f"epilogue   [{', '.join(map(show_name, wanted))}]")


def _check_vectors(case: Case) -> Iterator[Diag]:
    plan, regions = case.plan, case.regions
    narrowest = min((t.type.dtype.bytes for r in regions for t in r.inputs + r.outputs), default=1)
    shared = max((n for r in regions for n in sharing(r)), default=1)
    for item in plan.vectorize:
        if item.width < 1 or item.width & (item.width - 1) or item.width * narrowest > ACCESS_BYTES * shared:
            yield fault_of(
                plan,
                "E1516",
                "vectorize",
                axis=item.axis,
                width=item.width,
                bytes=item.width * narrowest,
                most=ACCESS_BYTES,
            )


def _check_layout(case: Case) -> Iterator[Diag]:
    plan = case.plan
    for item in plan.layout:
        way = item.hint.replace("_", " ")
        if plan.is_copied(item.tensor) and plan.load_of(item.tensor).by not in ("tma", "cp_async"):
            yield fault_of(
                plan,
                "E1523",
                "layout",
                tensor=item.tensor,
                fault=Phrase(
                    "{tensor} is {way}, and fetched neither by tma nor by cp_async", tensor=item.tensor, way=way
                ),
            )
        if plan.is_kept(item.tensor) and not any(
            is_constant(t) for t in case.problem.model.inputs if t.name == item.tensor
        ):
            yield fault_of(
                plan,
                "E1523",
                "layout",
                tensor=item.tensor,
                fault=Phrase(
                    "{tensor} is {way}, and not a constant of the model (storage=const_pool)",
                    tensor=item.tensor,
                    way=way,
                ),
            )


def _check_atomics(case: Case) -> Iterator[Diag]:
    plan, region = case.plan, case.problem.region
    if plan.atomics and not case.family.obeys("atomics"):
        yield fault_of(
            plan, "E1583", "atomics", region=region.name, fault=Phrase("has no atomics in algo {algo}", algo=plan.algo)
        )


def _check_family(case: Case) -> Iterator[Diag]:
    yield from case.family.legal(case.plan, case.problem)


_FORM_CHECKS = (
    _check_fusion,
    _check_axes,
    _check_names,
    _check_binding,
    _check_tile,
    _check_threads,
    _check_stages,
    _check_arch,
    _check_vectors,
    _check_atomics,
)
_GUARD_CHECKS = (_check_predicate, _check_epilogue)
_CHECKS = (_check_smem, _check_registers, _check_layout, _check_family)
