"""The program: regions in an order in which each comes after what it reads, and the memory between them.

A value that crosses a border is in an output of the model when it is one, else in a buffer of its name. A reshape
that is not affine is the same memory in another shape; of a col_major tensor, it is that of a copy in rows. A state is
written in place (`write_in_place`), or at the end, by a copy, when all that reads its old value is done.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from ...ir.body import Axis, Read
from ...ir.expr import ONE, ZERO, Expr
from ...ir.model import Item, is_exchanged, memory_order, memory_type
from ...ir.model import Tensor as Declared
from ...ir.ops import OPS
from ...ir.region import Program, Region, Tensor, Yield
from ...kit.records import replace
from .cluster import Cluster
from .fuse import Partition
from .graph import Graph
from .write import Writer, free_axes
from .write_in_place import Renewed, written_in_place

KEPT = ("alignment",)


class Memory:
    """Where each value that crosses a border is."""

    def __init__(self, graph: Graph, in_place: Mapping[str, str]):
        self.graph = graph
        self.in_place = in_place  # states and their new values
        self.model = graph.program.model
        self.buffers: dict[str, Tensor] = {}
        self.constants: dict[str, str] = {}
        self.copies: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str]] = []  # of states
        self.given = {t.name for t in self.model.inputs}
        self.state_of = {output: state for state, output in self.model.states().items()}
        signature = {t.name: t for t in (*self.model.outputs, *self.model.inputs)}
        self.exchanged = {name: t for name, t in signature.items() if is_exchanged(t)}
        self.known = {name: _tensor(t) for name, t in signature.items()}
        self.place: dict[str, str] = {t.name: t.name for t in self.model.inputs}

    def outputs_of(self, names: list[str], deferred: Container[str]) -> dict[str, tuple[str, ...]]:
        """The tensors that each of a region's values is written to; those of the signature first, in its order."""
        order = {t.name: at for at, t in enumerate(self.model.outputs)}
        found = {name: self._outputs_of(name, name in deferred) for name in names}
        return dict(sorted(found.items(), key=lambda item: order.get(item[1][0], len(order))))

    def _outputs_of(self, name: str, is_deferred: bool) -> tuple[str, ...]:
        """The outputs that a value is, or a buffer."""
        outputs = tuple(o for o in self.graph.results_of(name) if o not in self.state_of)
        here = [state for state, value in self.in_place.items() if value == name]
        states = [self.state_of[o] for o in self.graph.results_of(name) if o in self.state_of]
        states = [state for state in states if state not in here]
        if name in self.graph.parts:
            return self._rows(name, outputs, here[0], states)
        outputs += tuple(self._renewed(name, state) for state in here)  # last: what is yielded before reads the old one
        if not outputs:
            attrs = {"materialize": "deferred"} if is_deferred else {}
            exchanged = next((s for s in states if s in self.exchanged), None)
            outputs = (self.buffer(name, **attrs) if exchanged is None else self._kept_as(exchanged, **attrs),)
        self.place[name] = outputs[0]
        self.writes += [(outputs[0], state) for state in states]
        return outputs

    def _rows(self, name: str, others: tuple[str, ...], state: str, states: list[str]) -> tuple[str, ...]:
        """The memory of a state of which a value is some rows. Others that are to have all of it are copies."""
        value, _ = self.graph.parts[name]
        home = self.place[name] = self.place[value] = self._renewed(value, state)
        self.copies += [(home, output) for output in others]
        self.writes += [(home, other) for other in states]
        return (home,)

    def _renewed(self, name: str, state: str) -> str:
        """The memory of a state under the name of its new value."""
        return self._kept_as(state, alias=state) if state in self.exchanged else self.buffer(name, alias=state)

    def buffer(self, of: str, **attrs: object) -> str:
        """A new buffer of a value's type; its name is the value's, or near it when that is taken."""
        name = self._free(of)
        self._add(Tensor(name, self.graph.types[of], tuple(sorted(attrs.items()))))
        return name

    def _free(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.known:
            count += 1
            name = f"{wanted}.{count}"
        return name

    def _add(self, tensor: Tensor) -> None:
        self.buffers[tensor.name] = self.known[tensor.name] = tensor

    def _kept_as(self, state: str, **attrs: object) -> str:
        """A new buffer for what is copied to a col_major state, in its order. It is not called as the value, whose
        elements are elsewhere in it."""
        name = self._free(f"{state}.kept")
        self.exchanged[name] = self.exchanged[state]
        self._add(Tensor(name, memory_type(self.exchanged[state]), tuple(sorted(attrs.items()))))
        return name

    def in_order(self, name: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """What there is for each axis of a tensor, in the order of the axes in memory."""
        return memory_order(self.exchanged[name], items) if name in self.exchanged else items

    def reshape(self, name: str) -> tuple[str, str] | None:
        """The memory of a value that is another's in another shape. Where that one is col_major it is the memory of a
        copy in rows: then the source and the target of the copy, to be made now."""
        (source,) = self.graph.nodes[name].sources
        home = self.place[source]
        copied = (home, self.buffer(source)) if home in self.exchanged else None
        self.place[name] = self.buffer(name, alias=copied[1] if copied else home)
        for output in self.graph.results_of(name):
            self.copy(self.place[name], output)
        return copied

    def copy(self, source: str, target: str) -> None:
        """Copy one memory to an output when all regions are done. States are written last, and what a state's new value
        takes from an input, itself perhaps, is kept in a buffer until then: the input may be a state too. One that is
        not changed is not written."""
        if target not in self.state_of:
            self.copies.append((source, target))
            return
        target = self.state_of[target]
        if source == target or target in self.in_place and source not in self.given:
            return
        if self._is_input(source) and target not in self.in_place:
            kept = self._kept_as(target) if target in self.exchanged else self.buffer(target)
            self.copies.append((source, kept))
            source = kept
        self.writes.append((source, target))

    def _is_input(self, name: str) -> bool:
        return self.model.input(self.owner_of(name)) is not None

    def owner_of(self, name: str) -> str:
        """The tensor in whose memory one is."""
        while name in self.buffers and self.buffers[name].attr("alias") is not None:
            name = self.buffers[name].attr("alias")
        return name

    def tensor_of(self, name: str) -> Tensor:
        """The memory of a value, input, output or constant."""
        if name in self.graph.leaves:
            if name not in self.constants:
                self.constants[name] = self.buffer(name, value=self.graph.leaves[name].attr("value"))
            return self.known[self.constants[name]]
        return self.known[self.place.get(name, name)]


def _tensor(declared: Declared) -> Tensor:
    return Tensor(declared.name, memory_type(declared), tuple((k, v) for k, v in declared.attrs if k in KEPT))


def assemble(
    graph: Graph, found: Partition, streams: Mapping[int, int], demanded: Collection[frozenset[int]] = ()
) -> Program:
    """The program of `assembled`."""
    return assembled(graph, found, streams, demanded)[0]


def assembled(
    graph: Graph,
    found: Partition,
    streams: Mapping[int, int],
    demanded: Collection[frozenset[int]] = (),
    copied: Mapping[str, str] | None = None,
) -> tuple[Program, Renewed]:
    """The program of the clusters, and which states it writes in place. `streams` gives the cluster that must follow
    another at once, `demanded` the clusters that must share a kernel, `copied` the states that are not written in
    place, with the reason."""
    needs = {c.number: _needs(c, found) for c in found.in_order()}
    renewed = written_in_place(graph, found, streams, demanded, needs, copied or {})
    memory = Memory(graph, renewed.values)
    regions: list[Region] = []
    name_of: dict[int, str] = {}
    taken: set[str] = set()
    for cluster in _ordered(found, streams, renewed.waits):
        names = list(cluster.computed())
        if graph.nodes[names[0]].kind == "reshape":
            copied = memory.reshape(names[0])
            if copied:
                regions.append(_copy(memory, *copied, _fitting(copied[1], taken)))
            continue
        escaping = cluster.escaping(graph)
        reader = streams.get(cluster.number)  # numbers of a row may have others
        deferred = {
            n for n in escaping if reader is not None and {c.number for c in found.readers_of((n,))} == {reader}
        }
        outputs = memory.outputs_of(escaping, deferred)
        places = {name: place for name, (_, place) in graph.parts.items()}
        writer = Writer(graph, cluster, outputs, memory.tensor_of, memory.known, memory.in_order, places)
        name_of[cluster.number] = _fitting(_name_of(cluster, escaping, graph, taken), taken)
        regions.append(writer.region(name_of[cluster.number]))
    kernels = [tuple(name for number, name in name_of.items() if number in kernel) for kernel in demanded]
    shares = {name: kernel for kernel in kernels for name in kernel}
    regions = [replace(one, must_fuse=shares.get(one.name, ())) for one in regions]
    for result in graph.program.results:
        if graph.program.model.input(result.value) is not None:
            memory.copy(result.value, result.output)
    homes = {memory.place.get(value) for value in renewed.values.values()}
    old = [
        copy for copy in memory.copies if memory.owner_of(copy[0]) in renewed.values and copy[0] not in homes
    ]  # of states written in place
    late = [copy for copy in (*memory.copies, *memory.writes) if copy not in old]
    first, last = ([_copy(memory, a, b, _fitting(b, taken)) for a, b in copies] for copies in (old, late))
    regions = [*first, *regions, *last]
    return Program(graph.program.model.name, tuple(memory.buffers.values()), tuple(regions)), renewed


def _ordered(found: Partition, streams: Mapping[int, int], waits: Mapping[int, set[int]]) -> list[Cluster]:
    """The clusters, each after those whose values it reads and those that it waits for, else in the program's
    order."""
    place: dict[int, int] = {}
    waiting = [c.in_order(found.order) for c in found.in_order()]
    needs = {c.number: _needs(c, found) | waits.get(c.number, set()) for c in waiting}
    for first, second in streams.items():
        needs[first] |= needs[second] - {first}
    done: list[Cluster] = []
    pending = {c.number: c for c in waiting}
    visiting: list[int] = []

    def visit(number: int) -> None:
        visiting.append(number)
        while visiting:
            top = visiting[-1]
            missing = sorted(n for n in needs[top] if n in pending and n not in place)
            if top not in pending:
                visiting.pop()
            elif missing and missing[0] not in visiting:
                visiting.append(missing[0])
            else:
                assert not missing, "the regions wait for one another"
                done.append(pending.pop(top))
                place[top] = len(done)
                if top in streams:
                    done.append(pending.pop(streams[top]))
                    place[streams[top]] = len(done)
                visiting.pop()

    for cluster in waiting:
        if cluster.number in pending:
            visit(cluster.number)
    return done


def _needs(cluster: Cluster, found: Partition) -> set[int]:
    return {c.number for c in map(found.cluster_of, cluster.sources) if c is not None and c.number != cluster.number}


def _name_of(cluster: Cluster, escaping: list[str], graph: Graph, taken: set[str]) -> str:
    """The contraction's or fold's name, else that of the last value; what a model op was expanded into is called as the
    op."""
    folds = cluster.heavy() or cluster.folds
    if folds:
        origin = graph.nodes[folds[0]].value.origin
        return origin.name if origin is not None and origin.name not in taken else folds[0]
    computed = list(cluster.computed())
    movements = [n for n in computed if OPS[graph.nodes[n].value.op].is_movement]
    return escaping[-1] if escaping else (movements or computed)[-1]


def _fitting(name: str, taken: set[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}.{count}"
    taken.add(found)
    return found


def _copy(memory: Memory, source: str, target: str, name: str) -> Region:
    given, wanted = memory.known[source], memory.known[target]
    axes = [(at, size) for at, size in enumerate(wanted.type.shape) if size != ONE]
    iters = tuple(Axis(axis, size) for axis, (_, size) in zip(free_axes("i", memory.known), axes))
    place = {at: Expr.of(axis.name) for axis, (at, _) in zip(iters, axes)}
    index = tuple(place.get(at, ZERO) for at in range(wanted.type.rank))
    read = Read(source, memory.in_order(source, memory.in_order(target, index)), given.type.dtype)
    return Region(name, (given,), (wanted,), iters, (), (Yield(target, index, read),))
