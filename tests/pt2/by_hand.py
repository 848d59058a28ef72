"""Archives of torch.export written by hand: the schema as far as a small program needs it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FLOAT, DOUBLE, LONG, BOOL, HALF, PAIR = 7, 8, 5, 12, 6, 10
NUMBERS = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): LONG, np.dtype(bool): BOOL, np.dtype(np.float16): HALF}
Type = tuple[int, Sequence[Any]]


def size(value: int | str) -> dict[str, Any]:
    """A SymInt: a number, or an expression."""
    return {"as_int": value} if isinstance(value, int) else {"as_expr": {"expr_str": value, "hint": None}}


def meta(
    dtype: int, shape: Sequence[int | str], strides: Sequence[int] | None = None, start: int = 0
) -> dict[str, Any]:
    """A TensorMeta; contiguous unless strides are stated."""
    own, step = [], 1
    for extent in reversed(shape):
        own.insert(0, step)
        step *= extent if isinstance(extent, int) else 1
    return {
        "dtype": dtype,
        "sizes": [size(s) for s in shape],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [size(s) for s in (strides or own)],
        "storage_offset": size(start),
        "layout": 7,
    }


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def node(op: str, outputs: Sequence[str], **inputs: Any) -> dict[str, Any]:
    """A node; an argument is a dict of the schema, a tensor's name, or a number."""

    def argument(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if isinstance(value, str):
            return tensor(value)
        if isinstance(value, list):
            return {"as_ints": value}
        return {"as_bool" if isinstance(value, bool) else "as_float" if isinstance(value, float) else "as_int": value}

    return {
        "target": op if op.startswith("torch") else f"torch.ops.aten.{op}",
        "inputs": [{"name": k.rstrip("_"), "arg": argument(v), "kind": 1} for k, v in inputs.items()],
        "outputs": [tensor(o) for o in outputs],
        "metadata": {"nn_module_stack": "L__self__,,m.Net;L__self__body,body,torch.nn.modules.linear.Linear"},
        "name": outputs[0] if outputs else "",
    }


def model(
    inputs: Mapping[str, Type],
    nodes: Sequence[dict[str, Any]],
    outputs: Mapping[str, Type],
    values: Mapping[str, Type] | None = None,
    weights: Sequence[str] = (),
    changes: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The JSON of a program. `weights` are the names of those inputs that are parameters; `changes` gives buffers among
    them, or inputs, with the value that they become (empty: what the nodes write there)."""
    types = {**inputs, **outputs, **(values or {})}
    changes = changes or {}
    specs = [
        {"user_input": {"arg": tensor(n)}}
        if n not in weights
        else {"buffer": {"arg": {"name": n}, "buffer_name": f"body.{n}", "persistent": True}}
        if n in changes
        else {"parameter": {"arg": {"name": n}, "parameter_name": f"body.{n}"}}
        for n in inputs
    ]
    changed = [
        {"buffer_mutation": {"arg": {"name": new}, "buffer_name": f"body.{n}"}}
        if n in weights
        else {"user_input_mutation": {"arg": {"name": new}, "user_input_name": n}}
        for n, new in changes.items()
        if new
    ]
    return {
        "graph_module": {
            "graph": {
                "inputs": [tensor(n) for n in inputs],
                "outputs": [tensor(n) for n in outputs],
                "nodes": list(nodes),
                "tensor_values": {n: meta(*t) for n, t in types.items()},
                "sym_int_values": more.pop("sizes", {}),
            },
            "signature": {
                "input_specs": specs,
                "output_specs": [*changed, *({"user_output": {"arg": tensor(n)}} for n in outputs)],
            },
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 17},
        **more,
    }


def archive(
    program: Any, weights: Mapping[str, np.ndarray] | None = None, method: int = zipfile.ZIP_STORED, **entries: Any
) -> bytes:
    """The bytes of an archive named `net`. `entries` change the weights' entries in the config."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        config = {}
        for number, (name, array) in enumerate((weights or {}).items()):
            file.writestr(f"net/data/weights/weight_{number}", np.ascontiguousarray(array).tobytes())
            config[f"body.{name}"] = {
                "path_name": f"weight_{number}",
                "is_param": True,
                "use_pickle": False,
                "tensor_meta": meta(NUMBERS[array.dtype], array.shape),
                **entries,
            }
        file.writestr("net/data/weights/model_weights_config.json", json.dumps({"config": config}))
        file.writestr("net/models/model.json", program if isinstance(program, str) else json.dumps(program))
        file.writestr("net/byteorder", "little")
    return out.getvalue()


def linear(**more: Any) -> dict[str, Any]:
    """y = relu(x @ w + b)."""
    return model(
        {"w": (FLOAT, [3, 2]), "b": (FLOAT, [2]), "x": (FLOAT, [4, 3])},
        [
            node("addmm.default", ["sum_1"], self="b", mat1="x", mat2="w"),
            node("relu.default", ["y"], self="sum_1"),
        ],
        {"y": (FLOAT, [4, 2])},
        {"sum_1": (FLOAT, [4, 2])},
        ("w", "b"),
        **more,
    )
