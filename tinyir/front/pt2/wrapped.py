"""Parts of a graph that are graphs of their own, since a mode of torch holds for them: they are put in their place.

What autocast does to an operand is not in the graph: a product whose result is narrower than its operands casts these
first, and any other op casts what is narrower than its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .nodes import named_by, names_in, word_of

_AUTOCAST, _GRAD = (f"torch.ops.higher_order.wrap_with_{what}" for what in ("autocast", "set_grad_enabled"))
_BITS = {6: 16, 13: 16, 7: 32, 8: 64}  # of floats, by the number that the schema has for them
_PRODUCTS = frozenset(
    """mm bmm matmul mv dot linear addmm addmv addbmm baddbmm addr einsum conv1d conv2d conv3d convolution
    conv_transpose1d conv_transpose2d conv_transpose3d scaled_dot_product_attention prelu _prelu_kernel
    lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell""".split()
)


def unwrapped(graph: Any) -> Any:
    """The graph with the nodes of such parts in their places."""
    if not any(node["target"] in (_AUTOCAST, _GRAD) for node in graph["nodes"]):
        return graph
    whole = {**graph, "nodes": []}
    for kind in ("tensor_values", "sym_int_values"):
        whole[kind] = dict(graph[kind])
    for node in graph["nodes"]:
        whole["nodes"] += _nodes_of(node, whole) if node["target"] in (_AUTOCAST, _GRAD) else [node]
    return whole


def _nodes_of(node: Any, whole: Any) -> Iterator[Any]:
    """The nodes of a part under names of their own; what is known of its values goes into the whole."""
    args = [given["arg"] for given in node["inputs"]]
    at = next(n for n, arg in enumerate(args) if "as_graph" in arg)
    part = unwrapped(args[at]["as_graph"]["graph"])
    names = {name: f"{node['name']}.{name}" for kind in ("tensor_values", "sym_int_values") for name in part[kind]}
    given = {_name_of(own): arg for own, arg in zip(part["inputs"], args[at + 1 :])}
    names |= {name: _name_of(arg) for name, arg in given.items() if _name_of(arg)}
    numbers = {name: next(iter(arg.values())) for name, arg in given.items() if not _name_of(arg)}
    results, doubled = named_by(part["outputs"]), []
    for inner, outer in zip(results, named_by(node["outputs"])):
        if inner in given or names[inner] in whole["tensor_values"]:
            doubled.append((names[inner], outer))
        else:
            names[inner] = outer
    for kind in ("tensor_values", "sym_int_values"):
        for name, value in part[kind].items():
            whole[kind].setdefault(names.get(name, name), value)
    casts = node["target"] == _AUTOCAST and bool(args[2].get("as_bool"))
    for own in part["nodes"]:
        inputs = [{**i, "arg": _renamed(i["arg"], names, numbers)} for i in own["inputs"]]
        outputs = [_renamed(o, names, numbers) for o in own["outputs"]]
        one = {**own, "name": own["name"] and f"{node['name']}.{own['name']}", "inputs": inputs, "outputs": outputs}
        if casts:
            yield from _casts_before(one, whole)
        yield one
    for name, outer in doubled:
        yield _node("alias.default", f"{node['name']}.{outer}", name, outer)


def _name_of(arg: Any) -> str:
    """The tensor or the symbol that an argument names; empty for a number."""
    ((kind, value),) = arg.items()
    return value["name"] if kind == "as_tensor" else value.get("as_name", "") if kind.startswith("as_sym") else ""


def _renamed(value: Any, names: Mapping[str, str], numbers: Mapping[str, Any]) -> Any:
    """What an argument or a result says, of values by their names in the whole; an input that is a number is that."""
    if isinstance(value, list):
        return [_renamed(one, names, numbers) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"as_name"} and value["as_name"] in numbers:
        return {"as_int": numbers[value["as_name"]]}
    return {
        key: names.get(own, own) if key in ("name", "as_name") else _renamed(own, names, numbers)
        for key, own in value.items()
    }


def _casts_before(node: Any, whole: Any) -> Iterator[Any]:
    """The casts that autocast makes of operands, which the node reads from then on."""
    values = whole["tensor_values"]
    gives = [values[name]["dtype"] for name in named_by(node["outputs"]) if name in values]
    if not gives or gives[0] not in _BITS:
        return
    is_product = word_of(node["target"]).partition(".")[0] in _PRODUCTS
    for given in node["inputs"]:
        for name in names_in(given["arg"]):
            own = values[name]["dtype"]
            if own not in _BITS or own == gives[0] or not is_product and _BITS[own] >= _BITS[gives[0]]:
                continue
            cast = f"{node['name']}.{name}"
            values[cast] = {**values[name], "dtype": gives[0]}
            given["arg"] = _renamed(given["arg"], {name: cast}, {})
            yield _node("to.dtype", cast, name, cast, dtype={"as_scalar_type": gives[0]})


def _node(op: str, name: str, operand: str, output: str, **args: Any) -> Any:
    inputs = {"self": {"as_tensor": {"name": operand}}, **args}
    return {
        "target": f"torch.ops.aten.{op}",
        "inputs": [{"name": key, "arg": arg, "kind": 1} for key, arg in inputs.items()],
        "outputs": [{"as_tensor": {"name": output}}],
        "metadata": {},
        "name": name,
    }
