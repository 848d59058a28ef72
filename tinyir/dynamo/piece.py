"""One graph as a program: its inputs and outputs are torch's tensors, its stream is torch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..api import lowered
from ..front.pt2 import SCALAR_NUMBERS, Stored, held_to_json
from ..front.pt2.archive import dtype_of
from ..ir.manifest import Module
from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from .graph import Unsayable, is_tensor, memory_order, schema_of
from .results import made_name, results_of

SMALL = 1024  # elements of a constant that becomes part of the text


class Piece:
    """A graph of ATen ops, compiled. `weights` are the names of placeholders whose memory stays where it is. Raises
    Refused (E0126, E0143, E0144 at a node that cannot be taken, and what compiling raises)."""

    def __init__(self, module: Any, weights: frozenset[str]):
        nodes = list(module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        values = {n.name: n.meta.get("val") for n in nodes if n.op in ("placeholder", "get_attr")}
        self.device = _device_of(values, nodes)
        self.constants = {n.name: getattr_of(module, n.target) for n in nodes if n.op == "get_attr"}
        for node in nodes:
            if node.op == "get_attr":
                node.meta.setdefault("val", self.constants[node.name])
        stored = {
            name: _stored(name, self.constants.get(name, values[name]))
            for name in (*(n for n in weights if n in values), *self.constants)
            if is_tensor(values.get(name, self.constants.get(name)))
        }
        held = {n: s for n, s in stored.items() if s is not None}
        small = {n: _array(c) for n, c in self.constants.items() if c.numel() <= SMALL}
        self.results, self.is_list = results_of(nodes[-1], self.placeholders, self.constants)
        made = {made_name(n): n for n in nodes if n.op == "call_function" and is_tensor(n.meta.get("val"))}
        made = {r.name: made[r.name] for r in self.results if r.name}
        self.is_made = bool(made)
        try:
            schema = schema_of(module.graph, [*made.values()], {n: n for n in held}, _ranges(values.values()))
        except Unsayable as fault:
            at, what = fault.args
            raise Refused([Diag("E0126", at, {"type": what})]) from None
        self.numbers, self.lengths = schema.numbers, schema.lengths
        self.orders = {n.name: memory_order(n.meta["val"]) for n in self.placeholders if is_tensor(n.meta.get("val"))}
        if self.is_made:
            self._source, inputs, self.outputs, self.weights = held_to_json(
                schema.json, held, small, _sizes_traced(values.values())
            )
            self.inputs = tuple(n for n in inputs if n not in self.numbers and n not in self.lengths)
            self.text, self.module = self._lowered(None)
        else:
            self.inputs = self.outputs = self.weights = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that the program was planned for: those of the tensors that torch traced with."""
        return dict(next((s.sizes for s in self.model.shape_sets), ()))

    def planned(self, sizes: Mapping[str, int]) -> tuple[str, Any]:
        """The same program, planned for other sizes: its CUDA text and its module."""
        return self._lowered({"called": sizes})

    def _lowered(self, sets: Mapping[str, Mapping[str, int]] | None) -> tuple[str, Any]:
        return lowered(self._source, "cuda" if self.device.type == "cuda" else "cpu", sets=sets)

    @property
    def model(self) -> Any:
        """The program's signature."""
        assert isinstance(self.module, Module) and self.module.region is not None
        return self.module.region.model


def getattr_of(module: Any, path: str) -> Any:
    """An attribute of a module by its dotted path."""
    for word in path.split("."):
        module = getattr(module, word)
    return module


def _device_of(values: Any, nodes: Sequence[Any]) -> Any:
    """The device of the graph's tensors: the GPU, where only some numbers are on the host. Raises Refused (E0126) where
    they are on several GPUs."""
    made = [v for v in (*values.values(), *(n.meta.get("val") for n in nodes)) if is_tensor(v)]
    found = {v.device for v in made if v.device.type != "cpu"} or {v.device for v in made}
    if len(found) > 1 or not found:
        raise Refused([Diag("E0126", "", {"type": Phrase("a graph on {devices}", devices=sorted(map(str, found)))})])
    return found.pop()


def _stored(name: str, value: Any) -> Stored | None:
    """A weight as archives state one; None where its memory is not one piece."""
    word = str(value.dtype).removeprefix("torch.")
    if word not in SCALAR_NUMBERS or not all(isinstance(s, int) for s in value.shape):
        return None
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    found = Stored(name, dtype_of(SCALAR_NUMBERS[word], name), shape, strides, 0, "", False)
    return found if found.order() is not None else None


def _array(constant: Any) -> Any:
    from ..runtime.external import on_host

    return on_host("constant", constant.detach().cpu().contiguous())


def _ranges(values: Any) -> dict[str, tuple[int, int]]:
    """The ranges of the symbols, as torch guards them."""
    found: dict[str, tuple[int, int]] = {}
    for value in values:
        for size in (*value.shape, value) if is_tensor(value) else (value,):
            node = getattr(size, "node", None)
            expr = getattr(node, "expr", None)
            for symbol in getattr(expr, "free_symbols", ()):
                bounds = node.shape_env.var_to_range.get(symbol)
                low, high = (getattr(bounds, side, None) for side in ("lower", "upper"))
                found[str(symbol)] = (_whole(low, 0), _whole(high, 2**31 - 1))
    return found


def _sizes_traced(values: Any) -> dict[str, int]:
    """The sizes that torch traced with, of the symbols that a shape or a number is: what the next calls are like."""
    found: dict[str, int] = {}
    for value in values:
        for size in value.shape if is_tensor(value) else (value,):
            node = getattr(size, "node", None)
            if isinstance(getattr(node, "hint", None), int) and str(node.expr).isidentifier():
                found[str(node.expr)] = node.hint
    return found


def _whole(bound: Any, otherwise: int) -> int:
    """A bound of a range; `otherwise` where it is infinite."""
    return min(max(int(bound), 0), 2**31 - 1) if getattr(bound, "is_Integer", False) else otherwise
