"""index -> poly: the values that need computing as blocks, with domains, accesses and dependences (seed 001 section
5.2).

From the results backwards: a block for each value that is needed, what it reads is needed in turn, and what is
between is in the accesses. A product that only a contraction needs is fused into it.
"""

from __future__ import annotations

from ..analysis.compute_at import edges_of
from ..analysis.contraction import Contraction, Missed, find_contraction
from ..analysis.relations import dependence, domain_of, may_read, reads_of, reverse, write_of
from ..ir import index, poly, tiny
from ..ir.blocks import tuple_names
from ..ir.expr import Expr
from ..ir.index import Entry
from ..ir.ops import OPS
from ..ir.poly import Block, Edge, Param, Reading
from ..ir.sets import symbol_params
from ..kit.diag import Diag


def lower(module: index.Module) -> poly.Module:
    """The module with its blocks and edges."""
    program = module.tiny
    contractions = {name: found for name, found in _found(module) if isinstance(found, Contraction)}
    needed = _needed(module, contractions)
    names = tuple_names(program)
    types = program.type_of()
    params = symbol_params(program.model.symbols())
    blocks = []
    for value, entry in zip(program.values, module.entries):
        if value.name not in needed:
            continue
        found = contractions.get(value.name)
        name = names[value.name]
        domain = domain_of(entry, name, params)
        if entry.is_scop:
            reads = reads_of(entry, found.factors if found else entry.sources, names, name, params)
        else:
            reads = tuple((o, may_read(entry, types[o].shape, names[o], name, params)) for o in value.operands)
        block = Block(
            value.name,
            _kind_of(value, entry, found),
            found.pattern if found else None,
            domain,
            tuple(Reading(*r) for r in reads),
            write_of(entry, name),
        )
        blocks.append(_with_roles(block, found, needed) if found else block)
    plain = [Param(s, Expr.of(s)) for s in program.model.symbols() if Expr.of(s) not in params]
    made = (*plain, *(Param(name, means) for means, name in params.items()))
    return poly.Module(module, made, tuple(blocks), _edges(blocks, names, made, program))


def _found(module: index.Module) -> list[tuple[str, Contraction | Missed]]:
    entries, values, ranges = module.entry_of(), module.tiny.value_of(), module.ranges()
    return [(v.name, find_contraction(v, entries, values, ranges)) for v in module.tiny.values if v.op == "REDUCE"]


def _needed(module: index.Module, contractions: dict[str, Contraction]) -> set[str]:
    """The values that must be computed for the results; a leaf only when it is one."""
    values = module.tiny.value_of()
    needed = {r.value for r in module.tiny.results if r.value in values}
    for value, entry in zip(reversed(module.tiny.values), reversed(module.entries)):
        if value.name in needed:
            found = contractions.get(value.name)
            for access in found.factors if found else entry.sources:
                source = access.source
                if source in values and OPS[values[source].op].group != "leaf":
                    needed.add(source)
    return needed


def _kind_of(value: tiny.Value, entry: Entry, found: Contraction | None) -> str:
    if not entry.is_scop:
        return "opaque"
    if found:
        return "contraction"
    group = OPS[value.op].group
    return {"reduce": "reduction", "movement": "movement", "indirect": value.op.lower()}.get(group, "elementwise")


def _with_roles(block: Block, found: Contraction, needed: set[str]) -> Block:
    fuses = () if found.product in needed else (found.product,)
    return Block(
        block.name, block.kind, block.pattern, block.domain, block.reads, block.write,
        fuses, found.batch, found.left, found.right, found.sum, found.windows,
    )  # fmt: skip


def _edges(
    blocks: list[Block], names: dict[str, str], params: tuple[Param, ...], program: tiny.Module
) -> tuple[Edge, ...]:
    writers = {b.name: b for b in blocks}
    words = tuple(p.name for p in params)
    edges = []
    for block in blocks:
        for source in dict.fromkeys(r.source for r in block.reads):
            writer = writers.get(source)
            if writer is None:
                continue
            relations = tuple(r.relation for r in block.reads if r.source == source)
            found = dependence(
                (names[source], writer.domain, writer.write), (names[block.name], block.domain, relations), words
            )
            if found is not None:
                edges.append(Edge(source, block.name, "true", found))
    return (*edges, *_state_edges(blocks, names, words, program))


def _state_edges(
    blocks: list[Block], names: dict[str, str], words: tuple[str, ...], program: tiny.Module
) -> list[Edge]:
    """A block that writes the new value of a state comes after every block that reads the state."""
    edges = []
    by_name = {b.name: b for b in blocks}
    state_of = {output: state for state, output in program.model.states().items()}
    for result in program.results:
        state = state_of.get(result.output)
        writer = by_name.get(result.value)
        if state is None or writer is None:
            continue
        for block in blocks:
            relations = tuple(r.relation for r in block.reads if r.source == state)
            if relations and block is not writer:
                found = dependence(
                    (names[writer.name], writer.domain, writer.write),
                    (names[block.name], block.domain, relations),
                    words,
                )
                if found is not None:
                    edges.append(Edge(block.name, writer.name, "anti", reverse(found, words)))
    return edges


def remarks(module: poly.Module) -> list[Diag]:
    """A remark for each reduction: the contraction that it is (R3202), or why it is none (R3203); and for each
    dependence whether the value can be computed where it is read (R3205), or what shows that it cannot (R3206)."""
    values = module.index.tiny.value_of()
    said = []
    for name, found in _found(module.index):
        if isinstance(found, Missed):
            said.append(Diag("R3203", name, {"why": found.why}, values[name].span))
        else:
            roles = {role: getattr(found, role) for role in poly.ROLES}
            said.append(Diag("R3202", name, {"pattern": found.pattern, **roles}, values[name].span))
    for edge in edges_of(module):
        facts = {
            "source": edge.source,
            "reader": edge.reader,
            "axes": edge.axes,
            "buffer": edge.buffer,
            "depth": edge.depth,
        }
        if edge.witness is None:
            said.append(Diag("R3205", edge.source, facts, values[edge.source].span))
            continue
        halo = ", ".join(f"{axis}: {'?' if size is None else size}" for axis, size in edge.halo)
        sizes = [f"{symbol}={size}" for symbol, size in edge.witness.sizes]
        element, first, second = ([*point] for point in (edge.witness.element, edge.witness.first, edge.witness.second))
        facts |= {
            "element": element,
            "first": first,
            "second": second,
            "along": edge.witness.axes,
            "sizes": sizes,
            "halo": f"[{halo}]",
        }
        said.append(Diag("R3206", edge.source, facts, values[edge.source].span))
    return said
