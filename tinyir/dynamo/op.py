"""A compiled program as an op of torch: `register("mine::mlp", program)`, then `torch.ops.mine.mlp(x)`, also inside of
what torch.compile or torch.export traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.evaluate import sizes_of
from ..ir.model import Model
from ..kit.diag import refuse
from ..kit.phrase import Phrase
from ..play.arrays import bind_symbols
from ..runtime.queued import Queued

TORCH_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
}


def register(name: str, program: Any) -> Any:
    """The op `NAMESPACE::NAME` of a `tinyir.Compiled`: its inputs are the tensors that a call of the program takes, in
    order, its outputs those of the signature. On a GPU it is queued on torch's current stream. Raises ValueError for a
    name without a namespace, Refused (E1732) for a program with states, which an op without side effects cannot
    have."""
    import torch

    found = re.fullmatch(r"(\w+)::(\w+)", name)
    if found is None:
        raise ValueError(f"{name!r} is not NAMESPACE::NAME")
    session = program._session
    inputs = tuple(session.inputs)
    states = [*session.model.states()]
    if states:
        raise refuse("E1732", states[0], tensor=states[0], reason=Phrase("an op writes to none of its inputs"))
    told = ", ".join(f"Tensor x{n}" for n in range(len(inputs)))
    made = ", ".join(["Tensor"] * len(session.model.outputs))
    is_single = len(session.model.outputs) == 1
    run = _on_torch(session) if session.where == "cuda" else _on_host(program)

    def fake(*tensors: Any) -> Any:
        shapes = _shapes_of(session.model, dict(zip((t.name for t in inputs), tensors)), session.weights)
        empty = [
            tensors[0].new_empty(shape, dtype=torch_dtype(t.type.dtype.name))
            for t, shape in zip(session.model.outputs, shapes)
        ]
        return empty[0] if is_single else tuple(empty)

    def call(*tensors: Any) -> Any:
        results = run(tensors)
        return results[0] if is_single else tuple(results)

    torch.library.define(name, f"({told}) -> {made if is_single else f'({made})'}")
    torch.library.impl(name, "CUDA" if session.where == "cuda" else "CPU")(call)
    torch.library.register_fake(name)(fake)
    return getattr(getattr(torch.ops, found[1]), found[2])


def torch_dtype(name: str) -> Any:
    """torch's dtype of one of ours."""
    import torch

    return getattr(torch, TORCH_DTYPES[name])


def _shapes_of(model: Model, tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The shapes of the outputs, of tensors that may have symbols of torch's for sizes."""
    bound: dict[str, Any] = bind_symbols(model, weights, is_partial=True) if weights else {}
    for tensor in model.inputs:
        if tensor.name in tensors:
            for e, size in zip(tensor.type.shape, tensors[tensor.name].shape):
                if e.name is not None:
                    bound.setdefault(e.name, size)
    return [sizes_of(t.type.shape, bound) for t in model.outputs]


def _on_host(program: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """The program on tensors of the host."""
    from .on_cpu import to_torch

    model = program._session.model

    def run(tensors: Sequence[Any]) -> list[Any]:
        found = program(*(t.detach().contiguous() for t in tensors))
        return [to_torch(found[t.name], torch_dtype(t.type.dtype.name)) for t in model.outputs]

    return run


def _on_torch(session: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """The program on tensors of the GPU, on torch's current stream."""
    import torch

    from ..runtime.external import external_of
    from ..runtime.on_stream import Shapes, queued_for
    from .on_cuda import stream_of, taken

    model, names = session.model, tuple(t.name for t in session.inputs)
    kept: dict[tuple[Any, ...], tuple[Queued, Shapes]] = {}

    def made_for(form: tuple[Any, ...], tensors: Sequence[Any]) -> tuple[Queued, Shapes]:
        stands = {n: external_of(n, t.detach()).stand_in() for n, t in zip(names, tensors)}
        torch.cuda.current_stream().synchronize()
        kept[form] = queued_for(session, session._sizes_of(stands, {}))
        return kept[form]

    def run(tensors: Sequence[Any]) -> list[Any]:
        given = [taken(t, t.device) for t in tensors]
        form = tuple((t.shape, t.dtype) for t in given)
        queued, shapes = kept.get(form) or made_for(form, given)
        results = [
            torch.empty(shapes[t.name], dtype=torch_dtype(t.type.dtype.name), device=given[0].device)
            for t in model.outputs
        ]
        queued.run(tuple([t.data_ptr() for t in (*given, *results)]), stream_of(given[0].device.index))
        return results

    return run
