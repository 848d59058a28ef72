"""Which nodes of a graph have a translation, and the graph cut around those that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..front.pt2 import is_translated
from ..kit.diag import Refused, refuse
from ..kit.phrase import Listing, Phrase
from ..kit.records import dataclass
from .graph import (
    extent_of,
    is_about_sizes,
    is_complex,
    is_node,
    is_size,
    is_tensor,
    name_of,
    scalar_word,
    symbols_in,
    unread_of,
)

_NEUTRAL = ("placeholder", "get_attr", "output")
_GROUPED = ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")


@dataclass(slots=True)
class Support:
    """The nodes that a program takes, by name, and the others: the op of each and why."""

    nodes: frozenset[str]
    others: list[tuple[str, str]]

    def fault(self) -> Refused:
        """The exception that names the others (E0143)."""
        return refuse("E0143", ops=Listing(dict.fromkeys(op for op, _ in self.others), "; "))


def supported_of(module: Any, refused: Mapping[str, str]) -> Support:
    """What is supported of a graph, without the nodes in `refused`."""
    nodes: set[str] = set()
    others = []
    for node in module.graph.nodes:
        if node.op in _NEUTRAL:
            continue
        reason = refused.get(node.name) or _reason(node, nodes)
        if reason and name_of(node.target) != "getitem":  # what it takes a part of is told already
            others.append((name_of(node.target) if _is_python(node) else str(node.target), reason))
        elif not reason and not _needs_no_program(node):
            nodes.add(node.name)
    for node in _at_complex_borders(module, nodes):
        others.append((str(node.target), Phrase("torch makes or reads a complex tensor of it")))
    return Support(frozenset(nodes), others)


def better_by_torch(module: Any) -> dict[str, str]:
    """The nodes, by name, that a program can take and torch runs faster, and why: products of more rows than there are
    groups, whose matrices a program reads for each row."""
    found: dict[str, str] = {}
    for node in module.graph.nodes:
        if str(node.target) not in _GROUPED or len(node.args) < 3 or not is_node(node.args[2]):
            continue
        x, _, ends = (n.meta["val"] for n in node.args[:3])
        rows, groups = x.shape[0], ends.shape[0]
        if len(x.shape) == 2 and not (isinstance(rows, int) and isinstance(groups, int) and rows <= groups):
            found[node.name] = Phrase(
                "torch reads a matrix for each of {groups} groups, and a program one for each of {rows} rows",
                groups=groups,
                rows=rows,
            )
    return found


def _at_complex_borders(module: Any, nodes: set[str]) -> list[Any]:
    """Take out, in place, the nodes that share a complex tensor with one that no program has: what goes in and out of
    programs is real."""
    found = []
    pending = [n for n in module.graph.nodes if any(map(is_complex, _values(n)))]
    pairs = [(source, reader) for source in pending for reader in source.users]
    while True:
        torn = [(s, r) for s, r in pairs if (s.name in nodes) != (r.name in nodes)]
        if not torn:
            return found
        for pair in torn:
            for node in (n for n in pair if n.name in nodes):
                nodes.discard(node.name)
                found.append(node)


def _reason(node: Any, nodes: set[str]) -> str:
    """Why no program takes a node; empty for one that can be taken, or that gives a size."""
    if _needs_no_program(node):
        return ""
    if node.op != "call_function":
        return Phrase("it is a {op}", op=node.op)
    if name_of(node.target) == "getitem":
        return "" if node.args[0].name in nodes else Phrase("what it takes a part of is run by torch")
    if not is_translated(f"torch.ops.{node.target}"):
        return Phrase("it has no translation")
    unread = unread_of(node)
    given = [v for n, v in enumerate(_values(node)) if n not in unread]
    given += [*_operands(node.args), *_operands(tuple(node.kwargs.values()))]
    for value in given:
        if is_tensor(value) and not (scalar_word(value.dtype) or is_complex(value)):
            return Phrase("its dtype is {dtype}", dtype=str(value.dtype).removeprefix("torch."))
    for value in given:
        for size in value.shape if is_tensor(value) else (value,) if is_size(value) else ():
            if not _is_known(size):
                return Phrase("one of its sizes is {size}", size=size)
    return ""


def _operands(arguments: Any) -> Iterator[Any]:
    """What the nodes give that are among the arguments of a call."""
    if is_node(arguments):
        yield from _values(arguments)
    elif isinstance(arguments, (list, tuple)):
        for one in arguments:
            yield from _operands(one)


def _is_known(size: Any) -> bool:
    """Whether a shape of ours can have the size."""
    try:
        extent_of(size)
    except ValueError:
        return False
    return True


def _values(node: Any) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _needs_no_program(node: Any) -> bool:
    return node.op == "call_function" and is_about_sizes(node)


def _is_python(node: Any) -> bool:
    return not hasattr(node.target, "_schema")


def pieces_of(module: Any, support: Support, make: Callable[[Any], Callable[..., Any]]) -> tuple[Any, int]:
    """The graph with a program in the place of each stretch of supported nodes, and how many there are. Raises what
    `make` raises of such a stretch, a module of its own."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    cut = _copy(module)
    known = create_op_support(lambda _, node: node.name in support.nodes)
    partitioner = CapabilityBasedPartitioner(cut, known, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions(), prefix="tinyir_")
    count = 0
    for name, part in list(fused.named_children()):
        if name.startswith("tinyir_"):
            _give_symbols(fused, next(n for n in fused.graph.nodes if n.target == name), part)
            delattr(fused, name)
            setattr(fused, name, make(part))
            count += 1
    fused.recompile()
    return fused, count


def _give_symbols(module: Any, call: Any, part: Any) -> None:
    """Hand a part of a graph the symbols of its sizes that none of its inputs has by itself: those of the whole."""
    import torch

    settled = {symbol for node in part.graph.nodes if node.op == "placeholder" for symbol, _ in _settled_by(node)}
    sizes = (s for node in part.graph.nodes for v in _values(node) for s in (v.shape if is_tensor(v) else (v,)))
    missing = dict.fromkeys(symbol for size in sizes for symbol in symbols_in(size) if symbol not in settled)
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    last = [n for n in part.graph.nodes if n.op == "placeholder"][-1]
    for symbol in missing:
        source, axis = next((n, axis) for n in inputs for s, axis in _settled_by(n) if s == symbol)
        value = source.meta["val"] if axis < 0 else source.meta["val"].shape[axis]
        if axis >= 0:
            with module.graph.inserting_before(call):
                source = module.graph.call_function(torch.ops.aten.sym_size.int, (source, axis))
            source.meta["val"] = value
        with part.graph.inserting_after(last):
            last = part.graph.placeholder(f"length_{symbol}")
        last.meta["val"] = value
        call.args = (*call.args, source)


def _settled_by(node: Any) -> Iterator[tuple[str, int]]:
    """The symbols that an input has by itself, and the axes that they are the extents of; -1 of one that is a size."""
    value = node.meta.get("val")
    for axis, size in enumerate(value.shape) if is_tensor(value) else ((-1, value),):
        expr = getattr(getattr(size, "node", None), "expr", None)
        if getattr(expr, "is_Symbol", False):
            yield str(expr), axis


def _copy(module: Any) -> Any:
    """The graph again, its nodes and their values as they are."""
    import torch

    graph = torch.fx.Graph()
    places: dict[Any, Any] = {}
    result = graph.graph_copy(module.graph, places)
    if result is not None:
        graph.output(result)
    for old, new in places.items():
        new.meta = dict(old.meta)
    return torch.fx.GraphModule(module, graph)
