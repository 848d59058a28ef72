"""The graph of a text of any stage: what it computes, blocks, regions or launches, and what goes between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..ir import gpu, manifest
from ..ir.gpu.printer import show_kernel
from ..ir.model import Model
from ..ir.ops import OPS
from ..kit.records import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex: `kind` is input, output, value, movement, constant, block, region, kernel or buffer; `group` is what it
    is drawn inside of: the op of the model that a value came from, or the regions of one kernel."""

    id: str
    label: str
    kind: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order of the text, and edges between them."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(stage: str, module: Any) -> Graph:
    """The graph of a module of a stage."""
    return _GRAPHS[stage](module)


def _values(module: Any, maps: Callable[[str], Iterable[str]] = lambda value: ()) -> Graph:
    """Of tiny text: a node for each value. `maps` labels the edges to a value."""
    nodes, edges = list(_signature(module.model)), []
    for value in module.values:
        op = OPS[value.op]
        kind = "movement" if op.is_movement else "constant" if op.group == "leaf" else "value"
        group = value.origin.name if value.origin else ""
        nodes.append(Node(f"%{value.name}", f"{value.name}\n{value.op}\n{value.type}", kind, group))
        labels = [*maps(value.name), *[""] * len(value.operands)]
        known = {t.name for t in module.model.inputs}
        edges += [Edge(_id(operand, known), f"%{value.name}", label) for operand, label in zip(value.operands, labels)]
    edges += list(_results(module))
    return Graph(module.model.name, tuple(nodes), tuple(edges))


def _id(operand: str, inputs: set[str]) -> str:
    return f"in {operand}" if operand in inputs else f"%{operand}"


def _signature(model: Model) -> Iterator[Node]:
    for side, tensors in (("in", model.inputs), ("out", model.outputs)):
        kind = "input" if side == "in" else "output"
        yield from (Node(f"{side} {t.name}", f"{t.name}\n{t.type}", kind) for t in tensors)


def _results(module: Any) -> Iterator[Edge]:
    inputs = {t.name for t in module.model.inputs}
    yield from (Edge(_id(r.value, inputs), f"out {r.output}") for r in module.results)


def _book(module: Any) -> Graph:
    """Of index text: as of tiny, with the map of each step on its edge."""
    from ..ir.index import show_access

    entries = module.entry_of()
    return _values(module.tiny, lambda value: [show_access(access, None, ()) for access in entries[value].reads])


def _blocks(module: Any) -> Graph:
    """Of poly text: a node for each block, an edge for each dependence."""
    model = module.index.tiny.model
    inputs = {t.name for t in model.inputs}
    nodes, edges = list(_signature(model)), []
    for block in module.blocks:
        what = f"{block.kind} {block.pattern or ''}".strip()
        nodes.append(Node(f"%{block.name}", f"{block.name}\n{what}", "block"))
        sources = dict.fromkeys(read.source for read in block.reads)
        edges += [Edge(f"in {name}", f"%{block.name}") for name in sources if name in inputs]
    edges += [Edge(f"%{e.source}", f"%{e.target}", e.kind if e.kind != "true" else "") for e in module.edges]
    edges += list(_results(module.index.tiny))
    known = {node.id for node in nodes}
    return Graph(model.name, tuple(nodes), tuple(e for e in edges if {e.source, e.target} <= known))


def _regions(module: Any, said: dict[str, str] | None = None, kernel_of: dict[str, str] | None = None) -> Graph:
    """Of region text: a node for each region, buffers on the edges. `said` is what to write below a region's name,
    `kernel_of` the kernel that it is a part of."""
    model, program = module.model, module.program
    nodes = list(_signature(model))
    inputs, outputs = {t.name for t in model.inputs}, {t.name for t in model.outputs}
    maker = {t.name: region.name for region in program.regions for t in region.outputs}
    edges = []
    for region in program.regions:
        axes = ", ".join(f"{a.name}: {a.size}" for a in region.iters)
        below = (said or {}).get(region.name) or f"[{axes}]"
        nodes.append(Node(region.name, f"{region.name}\n{below}", "region", (kernel_of or {}).get(region.name, "")))
        for tensor in region.inputs:
            if tensor.name in maker:
                edges.append(Edge(maker[tensor.name], region.name, f"{tensor.name}\n{tensor.type}"))
            elif tensor.name in inputs:
                edges.append(Edge(f"in {tensor.name}", region.name))
        edges += [Edge(region.name, f"out {t.name}") for t in region.outputs if t.name in outputs]
    return Graph(model.name, tuple(nodes), tuple(edges))


def _plans(module: Any) -> Graph:
    """Of plan text: regions, with the plan of each, and those of one kernel together."""
    said, kernel_of = {}, {}
    for one in reversed(module.plans):  # of alternatives the first is said
        time = f"\n{one.estimate.microseconds:g} us, {one.estimate.bound}" if one.estimate else ""
        for region in one.regions:
            said[region] = f"{one.family} {one.tile}{time}".replace("(", "[").replace(",)", "]").replace(")", "]")
            if len(one.regions) > 1:
                kernel_of[region] = ", ".join(one.regions)
    return _regions(module.program, said, kernel_of)


def _launches(
    model: Model, launches: Iterable[tuple[str, str, tuple[str, ...], tuple[str, ...]]], buffers: Iterable[Any]
) -> Graph:
    """Of launches, each with its name, a line about it, and the tensors that it reads and writes."""
    nodes = list(_signature(model))
    inputs, outputs = {t.name for t in model.inputs}, {t.name for t in model.outputs}
    types = {t.name: t.type for t in buffers}
    edges, shown = [], set()

    def place(tensor: str, is_written: bool) -> str:
        if tensor in outputs and (is_written or tensor not in inputs):
            return f"out {tensor}"
        if tensor in inputs:
            return f"in {tensor}"
        if tensor not in shown:
            shown.add(tensor)
            nodes.append(Node(tensor, f"{tensor}\n{types.get(tensor, '')}".strip(), "buffer"))
        return tensor

    for name, line, reads, writes in launches:
        nodes.append(Node(f"launch {name}", f"{name}\n{line}", "kernel"))
        edges += [Edge(place(t, False), f"launch {name}") for t in reads if t not in writes]
        edges += [Edge(f"launch {name}", place(t, True)) for t in writes]
    return Graph(model.name, tuple(nodes), tuple(dict.fromkeys(edges)))


def _kernels(module: Any) -> Graph:
    """Of gpu text: a node for each launch, with buffers and workspaces between."""
    program = module.plans.program
    regions = {r.name: r for r in program.program.regions}
    owned = {w.name for w in module.buffers}
    found, kernels = [], {}
    for one in module.launches:
        if isinstance(one, gpu.Kernel):
            kernels[one.name] = one
        passed = dict(one.passed) if isinstance(one, gpu.Launch) else {}
        kernel = one if isinstance(one, gpu.Kernel) else kernels[one.kernel]
        parts = [regions[name] for name in one.regions if name in regions]
        used = {passed.get(w, w) for w in owned if w in _named_in(kernel)}
        serves = f"for {one.serves}" if one.serves else f"grid [{', '.join(map(str, kernel.grid))}]"
        reads = tuple(t.name for r in parts for t in r.inputs) if not one.serves else ()
        writes = tuple(t.name for r in parts for t in r.outputs) if not one.serves else tuple(sorted(used))
        found.append((one.name, serves, (*reads, *sorted(used - set(writes))), writes))
    return _launches(program.model, found, (*program.program.buffers, *module.buffers))


def _named_in(kernel: gpu.Kernel) -> set[str]:
    """The names in a kernel's text."""
    return set(re.findall(r"[A-Za-z_][\w.]*", show_kernel(kernel)))


def _cuda(module: Any) -> Graph:
    """Of CUDA text: a node for each launch of the manifest."""
    program = module.region
    if program is None:
        return Graph("", (), ())
    mapped = {m.name: m.tensor for m in module.maps}
    regions = {r.name: r for r in program.program.regions}
    found = []
    for launch in module.launches:
        touched = tuple(dict.fromkeys((*launch.tensors, *(mapped[m] for m in launch.maps))))
        outputs = {t.name for name in launch.regions if name in regions for t in regions[name].outputs}
        workspaces = {b.name for b in module.buffers}
        writes = tuple(t for t in touched if t in (workspaces if launch.serves else outputs))
        line = f"for {launch.serves}" if launch.serves else f"{launch.arch} [{', '.join(map(str, launch.grid))}]"
        found.append((launch.name, line, tuple(t for t in touched if t not in writes), writes))
    return _launches(program.model, found, (*program.program.buffers, *module.buffers))


_GRAPHS: dict[str, Callable[[Any], Graph]] = {
    "tiny": _values,
    "index": _book,
    "poly": _blocks,
    "region": _regions,
    "plan": _plans,
    "gpu": _kernels,
    manifest.STAGE: _cuda,
}
