"""A graph of torch.fx as the schema of torch.export archives says it: both take one road into the compiler.

    %mm : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%x, %w))
    ->  {"target": "torch.ops.aten.mm.default", "inputs": [{"name": "self", "arg": {"as_tensor": ...}}, ...], ...}

Sizes that are symbols keep SymPy's spelling, and are told where they are used: nodes that give them, or only check, are
no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..front.pt2 import PAIR_NUMBERS, SCALAR_NUMBERS, is_check
from ..front.pt2.sizes import expression
from ..ir.expr import Expr
from ..kit.records import dataclass

_TUPLES = ("getitem",)


class Unsayable(Exception):
    """What the schema has no word for: `args` are the node's name and what it is."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON of a program. Some of its inputs are not tensors of the graph: `numbers` are tensors without axes in the
    place of numbers that a call computes with, `lengths` tensors that nothing reads, for symbols that no other input
    has for an extent."""

    json: dict[str, Any]
    numbers: dict[str, Expr]
    lengths: dict[str, str]


def schema_of(
    graph: Any, made: Sequence[Any], weights: Mapping[str, str], ranges: Mapping[str, tuple[int, int]]
) -> Schema:
    """The program of a graph that makes the tensors of some of its nodes. `weights` are the placeholders, and the
    attributes of the module, that are weights: name in the graph to name of the tensor. `ranges` are those of the
    symbols. Raises Unsayable."""
    writer = _Writer(weights)
    for node in graph.nodes:
        writer.add(node)
    for node in made:
        writer.give(node)
    writer.add_lengths()
    return Schema(_json_of(writer, ranges), writer.numbers, writer.lengths)


def _json_of(made: _Writer, ranges: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
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
        self.numbers: dict[str, Expr] = {}
        self.lengths: dict[str, str] = {}

    def add(self, node: Any) -> None:
        """One node."""
        if node.op in ("placeholder", "get_attr"):
            self._input(node)
        elif node.op == "output":
            return
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
                return
            self.inputs.append({"user_input": {"arg": arg}})
            order = memory_order(value)
            if order is not None:  # the program reads memory as it is, and exchanges the axes itself
                self.aliases[node.name] = f"{node.name}.logical"
                self._permute(node.name, node.name, self.aliases[node.name], inverse(order), self.types[node.name])
                self.types[node.name] = _permuted(self.types[node.name], order)

    def give(self, node: Any) -> None:
        """An output: the tensor of a node, with its axes as torch wants them in memory."""
        logical, order = self.aliases.get(node.name, node.name), memory_order(node.meta["val"])
        name = logical if order is None else stored_name(logical)
        if order is not None:
            self._permute(node.name, logical, name, order, _permuted(self.types[logical], order))
        self.outputs.append({"user_output": {"arg": {"as_tensor": {"name": name}}}})

    def _permute(self, node: str, source: str, name: str, order: Sequence[int], meta: dict[str, Any]) -> None:
        self.types[name] = meta
        given = [("self", {"as_tensor": {"name": source}}), ("dims", {"as_ints": list(order)})]
        self.nodes.append(
            {
                "target": "torch.ops.aten.permute.default",
                "name": node,
                "inputs": [{"name": key, "arg": arg} for key, arg in given],
                "outputs": [{"as_tensor": {"name": name}}],
                "metadata": {},
            }
        )

    def _number(self, value: Any) -> dict[str, Any]:
        """A number that a call computes with, which no extent of an input settles, and which may be negative: a tensor
        without axes, that each run is given."""
        found = extent_of(value)
        name = next((n for n, e in self.numbers.items() if e == found), f"number.{len(self.numbers)}")
        if name not in self.numbers:
            self.numbers[name] = found
            self._given(name, "int64", [])
        return {"as_tensor": {"name": name}}

    def _given(self, name: str, dtype: str, sizes: list[dict[str, Any]]) -> None:
        offset = {"as_int": 0}
        self.types[name] = {"dtype": SCALAR_NUMBERS[dtype], "sizes": sizes, "strides": [], "storage_offset": offset}
        self.inputs.append({"user_input": {"arg": {"as_tensor": {"name": name}}}})

    def _settled(self) -> set[str | None]:
        """The symbols that are extents of inputs."""
        names = [e["user_input"]["arg"]["as_tensor"]["name"] for e in self.inputs if "user_input" in e]
        return {_expr_of(size).name for name in names for size in self.types[name]["sizes"]}

    def add_lengths(self) -> None:
        """An input for each symbol that no tensor among the inputs has for an extent."""
        settled = self._settled()
        sizes = [*(s for t in self.types.values() for s in t["sizes"]), *self.sizes.values()]
        for symbol in dict.fromkeys(n for size in sizes for n in _expr_of(size).names()):
            if symbol not in settled:
                name = f"length.{symbol}"
                self.lengths[name] = symbol
                self._given(name, "bool", [{"as_expr": {"expr_str": symbol}}])

    def _part(self, node: Any) -> None:
        whole, number = node.args
        if number in unread_of(whole):
            return
        if number not in self.parts.get(whole.name, {}):
            raise Unsayable(node.name, "getitem")
        self.aliases[node.name] = self.parts[whole.name][number]

    def _call(self, node: Any) -> None:
        value = node.meta.get("val")
        results = list(value) if isinstance(value, (list, tuple)) else [value]
        outputs, unread = [], unread_of(node)
        for number, found in enumerate(results):
            name = node.name if not isinstance(value, (list, tuple)) else f"{node.name}.{number}"
            if number in unread and not (is_tensor(found) and scalar_word(found.dtype)):
                outputs.append({"as_none": []})  # the state of a generator, a length: what no program has to give
            elif is_tensor(found):
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
                "inputs": [
                    {"name": k, "arg": self._argument(node, v, is_number)} for k, v, is_number in arguments_of(node)
                ],
                "outputs": outputs,
                "metadata": {"nn_module_stack": module_of(node)},
            }
        )

    def _argument(self, node: Any, value: Any, is_number: bool = False) -> dict[str, Any]:
        """A value as an argument of the schema. `is_number`: what is computed with, and no extent or axis."""
        if value is None:
            return {"as_none": []}
        size = value.meta.get("val") if is_node(value) else value
        if (
            is_number
            and is_size(size)
            and not isinstance(size, int)
            and not self._settled() >= {*extent_of(size).names()}
        ):
            return self._number(size)
        if is_node(value):
            given = value.meta.get("val")
            if is_tensor(given):
                return {"as_tensor": {"name": self.aliases.get(value.name, value.name)}}
            if is_size(given) and not isinstance(given, bool):
                return self._size(value.name, given)
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
            return self._size(f"{node.name}.size.{len(self.sizes)}", value)
        raise Unsayable(node.name, kind)

    def _size(self, name: str, value: Any) -> dict[str, Any]:
        found = size_of(value)
        if "as_int" in found:
            return found
        self.sizes[name] = found
        return {"as_sym_int": {"as_name": name}}

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


def arguments_of(node: Any) -> Iterator[tuple[str, Any, bool]]:
    """The arguments of a call by the names of the op's schema, in order, and whether each is computed with: a tensor or
    a number, as no extent is."""
    stated = {a.name: str(a.type).removeprefix("Optional[").rstrip("]") in ("Tensor", "number")
              for a in node.target._schema.arguments}  # fmt: skip
    yield from ((name, value, is_number) for (name, is_number), value in zip(stated.items(), node.args))
    yield from ((name, value, stated.get(name, False)) for name, value in node.kwargs.items())


def memory_order(value: Any) -> list[int] | None:
    """The axes of a tensor as memory has them, the slowest first. None where that is their own order, or where memory
    is not one dense piece. Sizes that are symbols are taken as torch traced them: an input is looked at again in each
    run, and a dense output is dense whatever its sizes are."""
    wide, found = _wide_axes(value), _dense_order(value)
    if found in (None, wide) or not all(hint_of(s) for s in value.shape):
        return None
    return [*(a for a in range(len(value.shape)) if a not in wide), *found]


def is_dense(value: Any) -> bool:
    """Whether the elements of a tensor fill one piece of memory, in whatever order of its axes, as it was traced. One
    of sizes that torch does not know yet is taken for dense."""
    return _dense_order(value) is not None


def hint_of(size: Any) -> Any:
    """A size as torch traced it."""
    return getattr(getattr(size, "node", None), "hint", size)


def _wide_axes(value: Any) -> list[int]:
    return [a for a, size in enumerate(value.shape) if not (isinstance(size, int) and size == 1)]


def _dense_order(value: Any) -> list[int] | None:
    """The wide axes as memory has them; None where memory is not one dense piece."""
    shape, strides = ([hint_of(e) for e in side] for side in (value.shape, value.stride()))
    wide = _wide_axes(value)
    if not all(isinstance(e, int) for e in (*shape, *strides)):
        return wide
    order = sorted(wide, key=lambda a: -strides[a])
    step = 1
    for axis in reversed(order):
        if strides[axis] != step and shape[axis] != 1:
            return None
        step *= shape[axis]
    return order


def inverse(order: Sequence[int]) -> list[int]:
    """The order that undoes another."""
    return [list(order).index(a) for a in range(len(order))]


def stored_name(name: str) -> str:
    """What the schema calls an output whose axes memory has in another order."""
    return f"{name}.stored"


def _permuted(meta: dict[str, Any], order: Sequence[int]) -> dict[str, Any]:
    return {**meta, **{key: [meta[key][a] for a in order] for key in ("sizes", "strides")}}


def _expr_of(size: Mapping[str, Any]) -> Expr:
    return Expr.of(size["as_int"]) if "as_int" in size else expression(size["as_expr"]["expr_str"])


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


def unread_of(node: Any) -> set[int]:
    """The numbers of the results that nobody reads, of a node that gives several."""
    value, users = node.meta.get("val"), [*node.users]
    if not isinstance(value, (list, tuple)) or not all(name_of(u.target) in _TUPLES for u in users):
        return set()
    return {*range(len(value))} - {u.args[1] for u in users if u.users}


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
    return _expr_of(size_of(value))


def symbols_in(size: Any) -> list[str]:
    """The symbols of one of torch's sizes."""
    return sorted(map(str, getattr(getattr(getattr(size, "node", None), "expr", None), "free_symbols", ())))


def scalar_word(dtype: Any) -> str:
    """What a dtype is called in the schema; empty where it has none that we know."""
    word = str(dtype).removeprefix("torch.")
    return word if word in SCALAR_NUMBERS else ""


def is_complex(value: Any) -> bool:
    """Whether what a node gives is a tensor of complex numbers."""
    return is_tensor(value) and str(value.dtype).removeprefix("torch.") in PAIR_NUMBERS


def scalar_of(node: Any, dtype: Any) -> int:
    """The number of a dtype in the schema. Raises Unsayable."""
    word = str(dtype).removeprefix("torch.")
    found = SCALAR_NUMBERS.get(word) or PAIR_NUMBERS.get(word)
    if found is None:
        raise Unsayable(node.name, str(dtype))
    return found


def meta_of(node: Any, value: Any) -> dict[str, Any]:
    """The type of a tensor."""
    return {
        "dtype": scalar_of(node, value.dtype),
        "sizes": [size_of(s) for s in value.shape],
        "strides": [size_of(s) for s in value.stride()],
        "storage_offset": size_of(value.storage_offset()),
    }


def module_of(node: Any) -> str:
    """The module that a node comes from, in the form that archives have."""
    stack = node.meta.get("nn_module_stack") or {}
    return ";".join(f"{k},{path},{getattr(kind, '__name__', kind)}" for k, (path, kind) in stack.items())
