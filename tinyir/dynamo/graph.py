"""A graph of torch.fx as the schema of torch.export archives says it: both take one road into the compiler.

    %mm : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%x, %w))
    ->  {"target": "torch.ops.aten.mm.default", "inputs": [{"name": "self", "arg": {"as_tensor": ...}}, ...], ...}

Sizes that are symbols keep SymPy's spelling, and are told where they are used: nodes that give them, or only check, are
no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..front.pt2 import SCALAR_NUMBERS, is_check
from ..front.pt2.sizes import expression
from ..ir.expr import Expr

_TUPLES = ("getitem",)


class Unsayable(Exception):
    """What the schema has no word for: `args` are the node's name and what it is."""


def schema_of(graph: Any, weights: Mapping[str, str], ranges: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The JSON of a program. `weights` are the placeholders, and the attributes of the module, that are weights: name
    in the graph to name of the tensor. `ranges` are those of the symbols. Raises Unsayable."""
    made = _Writer(weights)
    for node in graph.nodes:
        made.add(node)
    return {
        "graph_module": {
            "graph": {
                "inputs": [],
                "outputs": [],
                "nodes": made.nodes,
                "tensor_values": made.types,
                "sym_int_values": made.sizes,
            },
            "signature": {"input_specs": made.inputs, "output_specs": made.outputs},
        },
        "range_constraints": {s: {"min_val": low, "max_val": high} for s, (low, high) in ranges.items()},
        "schema_version": {"major": 8, "minor": 17},
    }


class _Writer:
    def __init__(self, weights: Mapping[str, str]):
        self.weights = weights
        self.nodes: list[dict[str, Any]] = []
        self.types: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.parts: dict[str, dict[int, str]] = {}  # of a node that gives several tensors, the name of each
        self.aliases: dict[str, str] = {}

    def add(self, node: Any) -> None:
        """One node."""
        if node.op in ("placeholder", "get_attr"):
            self._input(node)
        elif node.op == "output":
            (results,) = node.args
            for found in results if isinstance(results, (list, tuple)) else [results]:
                if found is not None:
                    self.outputs.append({"user_output": {"arg": self._argument(node, found)}})
        elif node.op != "call_function":
            raise Unsayable(node.name, node.op)
        elif name_of(node.target) in _TUPLES and not is_about_sizes(node):
            self._part(node)
        elif not is_about_sizes(node):
            self._call(node)

    def _input(self, node: Any) -> None:
        value = node.meta.get("val")
        if is_tensor(value):
            self.types[node.name] = meta_of(node, value)
            arg = {"as_tensor": {"name": node.name}}
            if node.name in self.weights:
                self.inputs.append({"parameter": {"arg": arg["as_tensor"], "parameter_name": self.weights[node.name]}})
            else:
                self.inputs.append({"user_input": {"arg": arg}})

    def _part(self, node: Any) -> None:
        whole, number = node.args
        if number not in self.parts.get(whole.name, {}):
            raise Unsayable(node.name, "getitem")
        self.aliases[node.name] = self.parts[whole.name][number]

    def _call(self, node: Any) -> None:
        value = node.meta.get("val")
        results = list(value) if isinstance(value, (list, tuple)) else [value]
        outputs = []
        for number, found in enumerate(results):
            name = node.name if not isinstance(value, (list, tuple)) else f"{node.name}.{number}"
            if is_tensor(found):
                self.types[name] = meta_of(node, found)
                self.parts.setdefault(node.name, {})[number] = name
                outputs.append({"as_tensor": {"name": name}})
            elif found is None:
                outputs.append({"as_none": []})
            else:
                raise Unsayable(node.name, type(found).__name__)
        self.nodes.append(
            {
                "target": f"torch.ops.{node.target}",
                "name": node.name,
                "inputs": [{"name": k, "arg": self._argument(node, v)} for k, v in arguments_of(node)],
                "outputs": outputs,
                "metadata": {"nn_module_stack": module_of(node)},
            }
        )

    def _argument(self, node: Any, value: Any) -> dict[str, Any]:
        """A value as an argument of the schema."""
        if value is None:
            return {"as_none": []}
        if is_node(value):
            given = value.meta.get("val")
            if is_tensor(given):
                return {"as_tensor": {"name": self.aliases.get(value.name, value.name)}}
            if is_size(given) and not isinstance(given, bool):
                self.sizes[value.name] = size_of(given)
                return {"as_sym_int": {"as_name": value.name}}
            raise Unsayable(node.name, type(given).__name__)
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": value}
        if isinstance(value, str):
            return {"as_string": value}
        kind = type(value).__name__
        if kind == "dtype":
            return {"as_scalar_type": scalar_of(node, value)}
        if kind in ("device", "layout", "memory_format"):
            return {"as_device": str(value)}
        if isinstance(value, (list, tuple)):
            return self._list(node, list(value))
        if is_size(value):
            name = f"{node.name}.size.{len(self.sizes)}"
            self.sizes[name] = size_of(value)
            return {"as_sym_int": {"as_name": name}}
        raise Unsayable(node.name, kind)

    def _list(self, node: Any, values: Sequence[Any]) -> dict[str, Any]:
        found = [self._argument(node, v) for v in values]
        kinds = {next(iter(f)) for f in found}
        if kinds <= {"as_tensor"} and found:
            return {"as_tensors": [f["as_tensor"] for f in found]}
        if kinds <= {"as_tensor", "as_none"} and found:
            return {"as_optional_tensors": found}
        for kind in ("as_int", "as_bool", "as_float", "as_string"):
            if kinds <= {kind}:
                return {f"{kind}s": [f[kind] for f in found]}
        if kinds <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [f.get("as_sym_int") or f for f in found]}
        if kinds <= {"as_int", "as_float"}:
            return {"as_floats": [float(next(iter(f.values()))) for f in found]}
        raise Unsayable(node.name, "list")


def arguments_of(node: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by the names of the op's schema, in order."""
    stated = [a.name for a in node.target._schema.arguments]
    yield from zip(stated, node.args)
    yield from node.kwargs.items()


def name_of(target: Any) -> str:
    """A function by its own name: `getitem` of operator.getitem."""
    return getattr(target, "__name__", str(target))


def is_node(value: Any) -> bool:
    """Whether a value is a node of a graph."""
    return hasattr(value, "meta") and hasattr(value, "users")


def is_tensor(value: Any) -> bool:
    """Whether what a node gives is a tensor."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "stride")


def is_size(value: Any) -> bool:
    """Whether a value is an integer or a SymInt."""
    return isinstance(value, int) or type(value).__name__ == "SymInt"


def is_about_sizes(node: Any) -> bool:
    """Whether a call gives sizes or says something of them, so that no program has to make it: what it gives is a
    number, or nothing since it only checks."""
    value = node.meta.get("val")
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    kinds = ("SymInt", "SymBool", "SymFloat")
    gives_numbers = all(isinstance(v, (int, float)) or type(v).__name__ in kinds for v in values)
    return bool(values) and gives_numbers or is_check(f"torch.ops.{node.target}")


def size_of(value: Any) -> dict[str, Any]:
    """An extent as the schema has it."""
    if isinstance(value, int):
        return {"as_int": value}
    expr = value.node.expr
    return {"as_int": int(expr)} if expr.is_Integer else {"as_expr": {"expr_str": str(expr)}}


def extent_of(value: Any) -> Expr:
    """An extent of a tensor, or a size."""
    found = size_of(value)
    return Expr.of(found["as_int"]) if "as_int" in found else expression(found["as_expr"]["expr_str"])


def scalar_word(dtype: Any) -> str:
    """What a dtype is called in the schema; empty where it has none that we know."""
    word = str(dtype).removeprefix("torch.")
    return word if word in SCALAR_NUMBERS else ""


def scalar_of(node: Any, dtype: Any) -> int:
    """The number of a dtype in the schema. Raises Unsayable."""
    word = scalar_word(dtype)
    if not word:
        raise Unsayable(node.name, str(dtype))
    return SCALAR_NUMBERS[word]


def meta_of(node: Any, value: Any) -> dict[str, Any]:
    """The type of a tensor."""
    return {
        "dtype": scalar_of(node, value.dtype),
        "sizes": [size_of(s) for s in value.shape],
        "strides": [],
        "storage_offset": {"as_int": 0},
    }


def module_of(node: Any) -> str:
    """The module that a node comes from, in the form that archives have."""
    stack = node.meta.get("nn_module_stack") or {}
    return ";".join(f"{k},{path},{getattr(kind, '__name__', kind)}" for k, (path, kind) in stack.items())


__all__ = [
    "Unsayable",
    "extent_of",
    "is_about_sizes",
    "is_node",
    "is_size",
    "is_tensor",
    "module_of",
    "name_of",
    "scalar_word",
    "schema_of",
    "size_of",
]
