"""Which states are written in place: their new value over the old one, with no copy.

before: region new   in s, x   out new : fp32[N]             after: region new   in s, x   out new : fp32[N] {alias=s}
        region s     in new    out s : fp32[N]

All that reads the old value comes first: the cluster that computes the new one waits for every other that reads the
state, which must not wait for it in turn. What the cluster itself reads of the state is looked at when it is a region
(`ir.in_place`). A kernel that is several regions has no order between them, so none of it is written over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...ir.body import Scatter, walk
from ...ir.model import Model
from ...ir.region import Program, Region
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from .fuse import Partition
from .graph import Graph


@dataclass(slots=True)
class Renewed:
    """The states that are written in place, each with its new value; why others are not; and the clusters that each
    cluster waits for on their account."""

    values: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    waits: dict[int, set[int]] = field(default_factory=dict)


def written_in_place(
    graph: Graph,
    found: Partition,
    streams: Mapping[int, int],
    demanded: Collection[frozenset[int]],
    needs: Mapping[int, set[int]],
    copied: Mapping[str, str],
) -> Renewed:
    """The states that are written in place, as many as can be, in the order of the signature. `needs` gives the
    clusters whose values each reads, `copied` the states that cannot be, with the reason."""
    made = Renewed(copied=dict(copied))
    states = graph.program.model.states()
    given = {t.name for t in graph.program.model.inputs} - states.keys()
    value_of = {output: value for value, outputs in graph.results.items() for output in outputs}
    shared = {*streams, *streams.values(), *(number for kernel in demanded if len(kernel) > 1 for number in kernel)}
    for state, output in states.items():
        value = value_of[output]
        if state in made.copied or value == state:
            continue
        if value in given:  # one copy, behind all that reads the old value
            made.values[state] = value
            continue
        value = _in_own_shape(graph, value)
        if other := next((s for s, v in made.values.items() if v == value and v in graph.parts), ""):
            made.copied[state] = Phrase("its new value is that of state {other}", other=other)
            continue
        if reason := _reason(graph, found, shared, value):
            made.copied[state] = reason
            continue
        writer = found.cluster_of(value).number
        readers = _reading(found, memory_of(graph, state)) - {writer}
        waits = {**made.waits, writer: made.waits.get(writer, set()) | readers}
        for later in _reading(found, {graph.parts[value][0]}) if value in graph.parts else ():
            waits[later] = waits.get(later, set()) | {writer}
        if _is_circle(needs, streams, waits):
            names = [c.in_order(found.order) for c in found.in_order() if c.number in readers]
            reader = next(iter(n for c in names for n in c.computed()), "")
            made.copied[state] = Phrase("{reader} reads the old value and needs the new one", reader=f"%{reader}")
            continue
        made.values[state], made.waits = value, waits
    return made


def _in_own_shape(graph: Graph, value: str) -> str:
    """The value that is computed, where one is the same memory in another shape."""
    while value in graph.nodes and graph.nodes[value].kind == "reshape":
        (value,) = graph.nodes[value].sources
    return value


def _reading(found: Partition, memory: Collection[str]) -> set[int]:
    """The clusters that read some memory."""
    return {c.number for c in found.in_order() if any(s in memory for n in c.members.values() for s in n.sources)}


def _reason(graph: Graph, found: Partition, shared: Collection[int], value: str) -> str:
    """Why a value is not written in place whatever reads the state; empty when it may be."""
    node = graph.nodes.get(value)
    if node is None:
        return Phrase("its new value is an input")
    cluster = found.cluster_of(value)
    if cluster is None or cluster.number in shared:
        return Phrase("its new value is computed in a kernel of several regions")
    return ""


def memory_of(graph: Graph, state: str) -> set[str]:
    """The values that are the memory of a state: itself, and what is the same memory in another shape."""
    known = {state}
    for node in graph.nodes.values():
        if node.kind == "reshape" and known & {*node.sources}:
            known.add(node.name)
    return known


def _is_circle(needs: Mapping[int, set[int]], streams: Mapping[int, int], waits: Mapping[int, set[int]]) -> bool:
    """Whether clusters wait for one another. Those of a stream are one."""
    one = {second: first for first, second in streams.items()}

    def joined(number: int) -> int:
        while number in one:
            number = one[number]
        return number

    pending: dict[int, set[int]] = {}
    for number, wanted in needs.items():
        home = joined(number)
        pending.setdefault(home, set()).update(map(joined, wanted | waits.get(number, set())))
    for home, wanted in pending.items():
        wanted.discard(home)
    while ready := [number for number, wanted in pending.items() if not wanted & pending.keys()]:
        for number in ready:
            del pending[number]
    return bool(pending)


def remarks_on_states(model: Model, program: Program, renewed: Renewed) -> list[Diag]:
    """A remark on each state: written in place (R3406), copied at the end of a run (R3407) or not changed (R3408)."""
    said = []
    writer_of = {t.name: one for one in program.regions for t in one.outputs}
    alias_of = {t.attr("alias"): t.name for t in program.buffers if t.name in writer_of}
    for state, output in model.states().items():
        tensor = model.output(output)
        place = tensor.span if tensor is not None else None
        if state in renewed.values:
            name = alias_of.get(state, state)
            facts = {"state": state, "output": output, "region": writer_of[name].name, "name": name}
            said.append(Diag("R3406", output, {**facts, "amount": _amount(writer_of[name], name)}, place))
        elif state in renewed.copied:
            said.append(Diag("R3407", output, {"state": state, "output": output, "why": renewed.copied[state]}, place))
        else:
            said.append(Diag("R3408", output, {"state": state, "output": output}, place))
    return said


def _amount(one: Region, name: str) -> str:
    """How much of a state a region writes."""
    (tensor,) = (t for t in one.outputs if t.name == name)
    (item,) = (y for y in one.yields if y.output == name)
    if any(isinstance(n, Scatter) for let in one.lets for n in walk(let.expr)):
        return Phrase("the elements that its scatter finds")
    sizes = {a.name: a.size for a in one.iters}
    rows = ["*".join(str(sizes[n]) for n in e.names() if n in sizes) or "1" for e in item.index]
    shape = [*map(str, tensor.type.shape)]
    if rows == shape:
        return Phrase("all of it")
    return Phrase("[{rows}] of [{shape}]", rows=", ".join(rows), shape=", ".join(shape))
