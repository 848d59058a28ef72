"""What the page shows of a program, as plain data: graph, regions, memory, launches, texts, passes. Made of the modules
of its stages, of which later ones may be missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.work import work_of
from ..ir.traits import sizes_of
from ..kernels import family_of
from ..kit.diag import Diag
from ..kit.records import dataclass
from ..target.device import Device
from .graph import graph_of


@dataclass(frozen=True, slots=True)
class Journey:
    """A program at every stage that there is: the model's own text (empty where none was given), texts and modules by
    stage, in order; what was fused and what not; before and after of each pass over tiny text; microseconds that
    launches were measured to take."""

    source: str
    texts: Mapping[str, str]
    modules: Mapping[str, Any]
    verdicts: Sequence[Diag] = ()
    passes: Sequence[tuple[str, str, str]] = ()
    measured: Mapping[str, float] | None = None


def collected(journey: Journey, card: Device, lang: str) -> dict[str, Any]:
    """The data of a page, as JSON takes it."""
    modules = journey.modules
    program = _program_of(modules)
    model = _model_of(modules)
    sizes = sizes_of(model)
    return {
        "name": model.name,
        "lang": lang,
        "card": card.title,
        "peak_tflops": peak_of(card, model),
        "dram_gbs": card.dram_gbs,
        "sizes": sizes,
        "source": journey.source,
        "stages": [{"stage": stage, "text": text} for stage, text in journey.texts.items()],
        "graph": ops_of(modules["tiny"]) if "tiny" in modules else None,
        "regions": _regions(program, journey.verdicts, sizes, lang) if program is not None else [],
        "regionGraph": _plain(graph_of("region", program)) if program is not None else None,
        "launches": launches_of(modules, program, sizes, card, journey.measured or {}),
        "memory": memory_of(modules.get("cu"), sizes),
        "passes": [{"name": name, "before": before, "after": after} for name, before, after in journey.passes],
    }


def _program_of(modules: Mapping[str, Any]) -> Any:
    """The region module of the last text that has one, whose regions are those of the kernels; or None."""
    for stage, program in (
        ("cu", lambda m: m.region),
        ("gpu", lambda m: m.plans.program),
        ("plan", lambda m: m.program),
        ("region", lambda m: m),
    ):
        if stage in modules and (found := program(modules[stage])) is not None:
            return found
    return None


def _model_of(modules: Mapping[str, Any]) -> Any:
    program = _program_of(modules)
    if program is not None:
        return program.model
    for stage, tiny in (("tiny", lambda m: m), ("index", lambda m: m.tiny), ("poly", lambda m: m.index.tiny)):
        if stage in modules:
            return tiny(modules[stage]).model
    raise AssertionError("a journey has a text")


def _plain(graph: Any) -> dict[str, Any]:
    return {
        "nodes": [{"id": n.id, "label": n.label, "kind": n.kind, "group": n.group} for n in graph.nodes],
        "edges": [[e.source, e.target, e.label] for e in graph.edges],
    }


def ops_of(module: Any) -> dict[str, Any]:
    """The model op by op: a node for each origin of tiny values, inputs and outputs."""
    home: dict[str, str] = {}
    nodes: dict[str, dict[str, Any]] = {}
    edges: dict[tuple[str, str], None] = {}
    for tensor in module.model.inputs:
        kind = "param" if tensor.attr("role") == "param" else "input"
        home[tensor.name] = f"in {tensor.name}"
        nodes[f"in {tensor.name}"] = {"label": tensor.name, "kind": kind, "line": 0, "types": [str(tensor.type)]}
    for value in module.values:
        origin = value.origin
        id = f"op {origin.name}" if origin else f"value {value.name}"
        home[value.name] = id
        node = nodes.setdefault(
            id,
            {
                "label": origin.name if origin else value.name,
                "op": origin.op if origin else value.op,
                "kind": "constant" if origin and origin.op == "Constant" else "op",
                "line": origin.line if origin else 0,
                "types": [],
                "values": [],
            },
        )
        node["values"].append(value.name)
        node["types"] = [str(value.type)]
        edges.update({(home[o], id): None for o in value.operands if home[o] != id})
    for result in module.results:
        type_ = next(t.type for t in module.model.outputs if t.name == result.output)
        nodes[f"out {result.output}"] = {"label": result.output, "kind": "output", "line": 0, "types": [str(type_)]}
        edges[home[result.value], f"out {result.output}"] = None
    return {"nodes": [{"id": id, **node} for id, node in nodes.items()], "edges": [list(e) for e in edges]}


def _regions(program: Any, verdicts: Iterable[Diag], sizes: Mapping[str, int], lang: str) -> list[dict[str, Any]]:
    """Each region with its values and work, and what was said of the edges to and from them."""
    found, home = [], {}
    for region in program.program.regions:
        work = work_of(region, sizes)
        values = [let.name for let in region.lets]
        home |= dict.fromkeys(values, region.name) | {t.name: region.name for t in region.outputs}
        origins = dict.fromkeys(let.origin.name for let in region.lets if let.origin is not None)
        found.append(
            {
                "name": region.name,
                "ops": list(origins),
                "values": values,
                "inputs": [f"{t.name}: {t.type}" for t in region.inputs],
                "outputs": [f"{t.name}: {t.type}" for t in region.outputs],
                "flops": work.flops,
                "bytes": work.bytes,
                "fused": [],
                "apart": [],
            }
        )
    of = {one["name"]: one for one in found}
    for d in verdicts:
        source, reader = str(d.facts.get("source", "")), str(d.facts.get("reader", ""))
        said = {"source": source, "reader": reader, "rule": str(d.facts.get("rule", "")), "why": d.why(lang)}
        said["shows"] = str(d.facts.get("shows", "-"))
        for name in dict.fromkeys(filter(None, (_home_of(reader, home), _home_of(source, home)))):
            of[name]["fused" if d.code == "R3401" else "apart"].append(said)
    return found


def _home_of(value: str, home: Mapping[str, str]) -> str | None:
    """The region of a value, or of what it is a part of: `gemm` of `gemm.mul`, which has no name of its own there."""
    while value and value not in home:
        value = value.rpartition(".")[0]
    return home.get(value)


def launches_of(
    modules: Mapping[str, Any], program: Any, sizes: Mapping[str, int], card: Device, measured: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Each launch with its work, what the card needs for it at least, what the plan expects, and what was measured."""
    if program is None:
        return []
    plans: dict[tuple[str, ...], Any] = {}
    planned = modules["gpu"].plans if "gpu" in modules else modules.get("plan")
    for one in planned.plans if planned is not None else ():
        plans.setdefault(one.regions, one)
    regions = {r.name: r for r in program.program.regions}
    if "cu" in modules and modules["cu"].launches:
        listed = [(one.name, one.regions, one.serves, one) for one in chosen(modules["cu"].launches, sizes)]
    else:
        listed = [(", ".join(names), names, "", None) for names in plans or {(n,): None for n in regions}]
    peak = peak_of(card, program.model)
    found = []
    for name, names, serves, launch in listed:
        parts = [] if serves else [work_of(regions[n], sizes) for n in names if n in regions]
        flops, moved = sum(w.flops for w in parts), sum(w.bytes for w in parts)
        if launch is not None:
            flops, moved = launch.flops.evaluate(sizes), launch.bytes.evaluate(sizes)
        arithmetic, traffic = flops / peak / 1e6, moved / card.dram_gbs / 1e3
        found.append(
            {
                "name": name,
                "regions": list(names),
                "serves": serves,
                "flops": flops,
                "bytes": moved,
                "limit_us": max(arithmetic, traffic),
                "limited_by": "compute" if arithmetic > traffic else "memory",
                "measured_us": measured.get(name),
                **_said_of_plan(plans.get(tuple(names)) if not serves else None),
                **_said_of_launch(launch, sizes),
            }
        )
    return found


def _said_of_plan(plan: Any) -> dict[str, Any]:
    """What a plan says of its launch."""
    estimate = plan.estimate if plan is not None else None
    return {
        "family": family_of(plan).name if plan is not None else "",
        "estimate_us": estimate.microseconds if estimate is not None else None,
        "bound": estimate.bound if estimate is not None else "",
    }


def _said_of_launch(launch: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What the CUDA text says of a launch, where there is one."""
    if launch is None:
        return {"once": False, "grid": [], "block": []}
    return {"once": launch.is_once, "grid": [e.evaluate(sizes) for e in launch.grid], "block": list(launch.block)}


def chosen(launches: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """Of launches of the same regions the first whose assumptions hold, with those that serve it."""
    taken: dict[tuple[str, ...], str] = {}
    for one in launches:
        if not one.serves and one.regions not in taken:
            if all(bound.holds(sizes) for guard in one.assumes for bound in guard):
                taken[one.regions] = one.name
    made = set(taken.values())
    return [one for one in launches if (one.serves or one.name) in made]


def peak_of(card: Device, model: Any) -> float:
    """TFLOP/s at best on operands of the model's dtypes."""
    units = (f"mma_{t.type.dtype.name}" for t in model.inputs)
    return max((card.peak[unit] for unit in units if unit in card.peak), default=card.peak["ffma_fp32"])


def memory_of(module: Any, sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """What lives between the launches, where, and how long, as the arena packs it; None without CUDA text."""
    from ..runtime.arena import Lifetime, pack, touched

    if module is None or module.region is None:
        return None
    launches = chosen(module.launches, sizes)
    program = module.region.program
    types = {t.name: t.type for t in (*program.buffers, *module.buffers)}
    signature = {t.name for t in (*module.region.model.inputs, *module.region.model.outputs)}

    def size(type_: Any) -> int:
        return math.prod(d.evaluate(sizes) for d in type_.shape) * type_.dtype.bytes

    spans = touched(module, launches)
    passing = [name for name in spans if name not in signature and name in types]
    lifetimes = [Lifetime(name, size(types[name]), *spans[name]) for name in passing]
    places, total = pack(lifetimes)
    return {
        "launches": [one.name for one in launches],
        "total": total,
        "sum": sum(item.bytes for item in lifetimes),
        "buffers": [
            {
                "name": i.name,
                "type": str(types[i.name]),
                "bytes": i.bytes,
                "offset": places[i.name],
                "first": i.first,
                "last": i.last,
            }
            for i in lifetimes
        ],
        "weights": sum(size(t.type) for t in module.region.model.inputs if t.attr("role") == "param"),
    }
