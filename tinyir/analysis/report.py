"""The analysis report of a program, as text and as JSON: for each region what may be decided about it (seed 001 section
7), for each kernel the bank conflicts of its shared memory.

    report of blur at N = 8, H = 64, W = 64

    region blur for i0: N, i1: H, i2: W
      parallel    i0, i1, i2
      reduce      k0, k1
      tail        none
      affine      yes
      buffer      reg depth 1
      barrier     sm80 cta, sm90 cta
      depends     on down (true, by blurred)
      compute_at
        blurred -> %blur    at [i0] of [i0, i1, i2]; i1 = 0 and i1 = 1 need blurred[0, 0, 0]; halo [i1: 2, i2: 2], 272 B
          of a tile [i1: 16, i2: 16]; buffer smem_ring depth 3
        %blur -> out        at [i0, i1, i2]; buffer reg depth 1

    kernel gemm of gemm : sm90
      shared sums : fp32[128, 64]
        store       sums[64*j + n, r]            8-way, 8 waves for 1; rows of 68: 1-way
        read        sums[r, n]                   1-way

Axes, legality and buffers hold for all sizes; halos and conflicts are those at the sizes in the first line.
`compute_at` says for each source and reader at which of the reader's axes the source can be computed once, and where
that is not all of them, two points that need one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..ir.gpu.nodes import Kernel
from ..ir.in_place import owner_of
from ..ir.model import show_name
from ..ir.region import Analysis, Module, Region
from ..kit.groups import lists_of
from ..kit.records import dataclass
from ..kit.text import show_list
from .banks import Conflicts, Remedy, conflicts_of, remedy_of
from .compute_at import Witness
from .region_edges import Verdict, edges_of, verdict_of
from .regions import analyse, contraction_axes
from .shared_accesses import Access, accesses_of, order_of
from .traffic import typical_sizes

BARRIERS = {"sm80": "cp_async_group", "sm90": "mbarrier"}  # of a ring that asynchronous copies fill
READ_BY_MATRICES = ("ldmatrix", "wgmma")  # rows of 16 bytes, which no padding may move apart


@dataclass(frozen=True, slots=True)
class Dependence:
    """A region must come after the region `on`: `true`, it reads what that one wrote into `tensor`; `anti`, it writes
    what that one read; `output`, it writes what that one wrote."""

    kind: str
    tensor: str
    on: str


@dataclass(frozen=True, slots=True)
class RegionReport:
    """One region."""

    region: Region
    analysis: Analysis
    barriers: Mapping[str, str]
    dependences: tuple[Dependence, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def is_affine(self) -> bool:
        """Whether every index and guard is affine."""
        return all(v.at is not None for v in self.verdicts)


@dataclass(frozen=True, slots=True)
class ArrayReport:
    """One shared array: its accesses with the worst conflict of each, also where the compiler joins neighbours, and the
    order of its elements in which they have fewer."""

    accesses: tuple[Access, ...]
    conflicts: tuple[Conflicts, ...]
    joined: tuple[Conflicts, ...]
    remedy: Remedy | None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel's shared arrays that threads or matrix units touch."""

    kernel: Kernel
    arrays: tuple[ArrayReport, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A program at these sizes of the symbols."""

    program: str
    sizes: Mapping[str, int]
    regions: tuple[RegionReport, ...]
    kernels: tuple[KernelReport, ...]


def report_of(module: Module, kernels: Sequence[Kernel] = ()) -> Report:
    """The report of a checked region module, and of the kernels that it became where there are any; at the sizes of the
    first shape set."""
    sizes = typical_sizes(module.model)
    regions = tuple(_of_region(module, at, sizes) for at in range(len(module.program.regions)))
    return Report(module.program.name, sizes, regions, tuple(_of_kernel(k, sizes) for k in kernels))


def _of_region(module: Module, at: int, sizes: Mapping[str, int]) -> RegionReport:
    region = module.program.regions[at]
    found = analyse(region)
    verdicts = tuple(verdict_of(edge, module.model, sizes) for edge in edges_of(region))
    return RegionReport(region, found, _barriers_of(region, found), tuple(_dependences(module, at)), verdicts)


def _barriers_of(region: Region, found: Analysis) -> dict[str, str]:
    """What orders the threads of a region's kernel, by arch: a contraction's operands come through a ring."""
    return dict(BARRIERS) if contraction_axes(region) is not None else dict.fromkeys(BARRIERS, found.barrier)


def _dependences(module: Module, at: int) -> Iterator[Dependence]:
    program = module.program
    regions = program.regions
    reads = [{owner_of(module, t.name): t.name for t in r.inputs} for r in regions]
    writes = [{owner_of(module, t.name): t.name for t in r.outputs} for r in regions]
    for before in range(at):
        for kind, mine, theirs in (
            ("true", reads[at], writes[before]),
            ("anti", writes[at], reads[before]),
            ("output", writes[at], writes[before]),
        ):
            for owner in (o for o in mine if o in theirs):
                yield Dependence(kind, mine[owner], regions[before].name)


def _of_kernel(kernel: Kernel, sizes: Mapping[str, int]) -> KernelReport:
    by_array = lists_of((access.array.name, access) for access in accesses_of(kernel, sizes))
    return KernelReport(kernel, tuple(_of_array(tuple(found)) for found in by_array.values()))


def _of_array(accesses: tuple[Access, ...]) -> ArrayReport:
    order = order_of(accesses[0].array)
    conflicts = tuple(conflicts_of(order, a.touches) for a in accesses)
    is_plain = not accesses[0].array.kind and all(a.is_known for a in accesses)
    may_pad = not any(a.word in READ_BY_MATRICES for a in accesses)
    is_worse = any(c.ways > 1 for c in conflicts)
    width = max((t.width for a in accesses for t in (*a.touches, *a.joined)), default=0)
    remedy = remedy_of(order, [a.touches for a in accesses], width, may_pad) if is_plain and is_worse else None
    return ArrayReport(accesses, conflicts, tuple(conflicts_of(order, a.joined) for a in accesses), remedy)


# --- text


def show_report(report: Report) -> str:
    """The report as text, ending in a line break."""
    at = ", ".join(f"{n} = {size}" for n, size in report.sizes.items())
    lines = [f"report of {show_name(report.program)}" + (f" at {at}" if at else "")]
    for region in report.regions:
        lines += ["", *_region_lines(region)]
    for kernel in report.kernels:
        lines += ["", *_kernel_lines(kernel)]
    return "\n".join([*lines, ""])


def _region_lines(one: RegionReport) -> Iterator[str]:
    axes = ", ".join(map(str, one.region.iters))
    yield f"region {show_name(one.region.name)}" + (f" for {axes}" if axes else "")
    found = one.analysis
    for word, names in (("parallel", found.parallel), ("reduce", found.reduce), ("tail", found.tail)):
        yield f"  {word:<11} {', '.join(names) or 'none'}"
    yield f"  {'affine':<11} {'yes' if one.is_affine else 'no'}"
    yield f"  {'buffer':<11} {found.buffer} depth {found.depth}"
    yield f"  {'barrier':<11} {', '.join(f'{arch} {word}' for arch, word in one.barriers.items())}"
    for item in one.dependences:
        yield f"  {'depends':<11} on {show_name(item.on)} ({item.kind}, by {show_name(item.tensor)})"
    if one.verdicts:
        yield "  compute_at"
    for verdict in one.verdicts:
        yield from _verdict_lines(verdict)


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    edge, at, halo = verdict.edge, verdict.at, verdict.halo
    head = f"    {f'{_source(edge.source)} -> {_source(edge.reader)}':<35} "
    if at is None or halo is None:
        yield head + "not affine"
        return
    parts = [f"at {show_list(at.axes)}" + ("" if at.is_legal else f" of {show_list(n for n, _ in edge.axes)}")]
    if at.witness is not None:
        parts.append(_witness_words(edge.source, at.witness))
    if halo.tile:
        shared = show_list(f"{n}: {shared}" for n, shared in halo.per_axis if shared)
        parts.append(f"halo {shared}, {halo.bytes} B of a tile {show_list(f'{n}: {size}' for n, size in halo.tile)}")
    yield head + "; ".join([*parts, f"buffer {at.buffer} depth {at.depth}"])


def _witness_words(source: str, w: Witness) -> str:
    """Two points that need an element, by the axes in which they differ."""
    apart = [n for n, (a, b) in enumerate(zip(w.first, w.second)) if a != b]
    points = (", ".join(f"{w.axes[n]} = {point[n]}" for n in apart) for point in (w.first, w.second))
    return f"{' and '.join(points)} need {_source(source)}{show_list(w.element)}"


def _kernel_lines(one: KernelReport) -> Iterator[str]:
    of = ", ".join(map(show_name, one.kernel.regions))
    yield f"kernel {show_name(one.kernel.name)} of {of} : {one.kernel.arch}"
    if not one.arrays:
        yield "  no access to shared memory"
    for found in one.arrays:
        array = found.accesses[0].array
        ring = f" ring {array.ring}" if array.ring > 1 else ""
        swizzle = f" swizzle {array.swizzle}" if array.swizzle else ""
        yield f"  shared {show_name(array.name)} : {array.type}{ring}{swizzle}"
        for number, access in enumerate(found.accesses):
            yield f"    {access.word:<11} {access.place:<35} {_conflict_words(access, found, number)}"


def _conflict_words(access: Access, found: ArrayReport, number: int) -> str:
    conflicts, joined = found.conflicts[number], found.joined[number]
    if not access.is_known:
        return "the data choose the place"
    if not conflicts.ways:
        return "not reached at these sizes"
    text = f"{conflicts.ways}-way"
    if conflicts.ways > 1:
        text += f", {conflicts.waves} waves for {conflicts.least}"
    if joined.ways and joined.ways != conflicts.ways:
        text += f"; {access.run} neighbours at once: {joined.ways}-way"
    if conflicts.ways == 1:
        return text
    if access.array.kind:
        return text
    if found.remedy is None:
        return text + "; no swizzle or row length has fewer"
    return text + f"; {found.remedy.order}: {found.remedy.after[number].ways}-way"


def _source(name: str) -> str:
    return f"%{show_name(name[1:])}" if name.startswith("%") else show_name(name)


# --- JSON


def as_json(report: Report) -> dict[str, Any]:
    """The report as an object of JSON; `docs/report.schema.json` says what it has."""
    return {
        "report": report.program,
        "sizes": dict(report.sizes),
        "regions": [_region_json(r) for r in report.regions],
        "kernels": [_kernel_json(k) for k in report.kernels],
    }


def _region_json(one: RegionReport) -> dict[str, Any]:
    found = one.analysis
    return {
        "region": one.region.name,
        "axes": {a.name: str(a.size) for a in one.region.iters},
        "analysis": {
            "parallel_axes": list(found.parallel),
            "reduce_axes": list(found.reduce),
            "tail_axes": list(found.tail),
            "affine": one.is_affine,
            "min_buffer": {"buffer": found.buffer, "depth": found.depth},
            "barrier": dict(one.barriers),
            "dependences": [{"kind": d.kind, "tensor": d.tensor, "on": d.on} for d in one.dependences],
            "compute_at": [_verdict_json(v) for v in one.verdicts],
        },
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    edge, at, halo = verdict.edge, verdict.at, verdict.halo
    found: dict[str, Any] = {"source": edge.source, "reader": edge.reader, "affine": at is not None}
    if at is None or halo is None:
        return found
    found |= {"ok": at.is_legal, "axes": list(at.axes)}
    if at.witness is not None:
        w = at.witness
        found["witness"] = {
            "axes": list(w.axes),
            "first": list(w.first),
            "second": list(w.second),
            "element": list(w.element),
            "sizes": dict(w.sizes),
        }
    found["halo"] = {"bytes": halo.bytes, "tile": dict(halo.tile), "per_axis": dict(halo.per_axis)}
    found["min_buffer"] = {"buffer": at.buffer, "depth": at.depth}
    return found


def _kernel_json(one: KernelReport) -> dict[str, Any]:
    return {
        "kernel": one.kernel.name,
        "regions": list(one.kernel.regions),
        "arch": one.kernel.arch,
        "shared": [_array_json(found) for found in one.arrays],
    }


def _array_json(found: ArrayReport) -> dict[str, Any]:
    array = found.accesses[0].array
    remedy = found.remedy
    return {
        "array": array.name,
        "type": str(array.type),
        "ring": array.ring,
        "swizzle": array.swizzle,
        "remedy": None
        if remedy is None
        else {"swizzle": remedy.order.swizzle, "row": remedy.order.pitch or remedy.order.columns},
        "accesses": [
            {
                "access": access.word,
                "place": access.place,
                "known": access.is_known,
                "ways": conflicts.ways,
                "waves": conflicts.waves,
                "least": conflicts.least,
                "joined": {"elements": access.run, "ways": joined.ways} if joined.ways else None,
                "ways_after": None if remedy is None else remedy.after[number].ways,
            }
            for number, (access, conflicts, joined) in enumerate(zip(found.accesses, found.conflicts, found.joined))
        ],
    }
