"""An ONNX file as it comes: read, checked, brought to an opset that the translations know, its inputs given types."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ...ir.expr import Expr
from ...ir.types import DType
from ...kit.diag import Diag, Refused, refuse
from ..ops.table import read_dim
from .constants import Weights, term_of
from .names import bare
from .program import Program
from .table import FOLDS, ONNX_OPS
from .terms import element_of
from .translate import FAULTY, Scope, Translator

OLDEST = 11  # the opset that the translations begin with; older models are converted to it where onnx can
_RESERVED = re.compile(r"(?:[iko]\d+|and|or|not|mod|floor|ceil|exists|min|max|true|false|inf|nan|infty)$")
Shapes = Mapping[str, Sequence[str]]


def load(raw: bytes) -> Any:
    """The ModelProto of a file's bytes, of opset OLDEST or later. Raises Refused (E0121, E0122)."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(raw)
        onnx.checker.check_model(raw if not _has_external(model) else model)
    except (DecodeError, onnx.checker.ValidationError, UnicodeDecodeError) as fault:
        raise refuse("E0121", reason=" ".join(str(fault).split())[:200] or type(fault).__name__) from None
    version = opsets_of(model).get("", OLDEST)
    newest = onnx.defs.onnx_opset_version()
    if version > newest:
        raise refuse("E0122", given=version, oldest=OLDEST, newest=newest)
    return model if version >= OLDEST else _converted(model)


def _has_external(model: Any) -> bool:
    return any(t.data_location == t.EXTERNAL for t in model.graph.initializer)


def _converted(model: Any) -> Any:
    """The model in opset OLDEST. Where onnx knows no way the model stays: the translations read the older forms of the ops they know."""
    import onnx
    from onnx import version_converter

    try:
        return version_converter.convert_version(model, OLDEST)
    except (RuntimeError, ValueError, onnx.checker.ValidationError):
        return model


def opsets_of(model: Any) -> dict[str, int]:
    """The opset of each domain."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}


def program_of(model: Any, weights: Weights, shapes: Shapes) -> tuple[str, Program, list[str], list[str]]:
    """The model's name, its program, and the names of its inputs and outputs. Raises Refused with every fault found."""
    graph = model.graph
    functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
    _refuse_unsupported(model, functions)
    initial = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in initial]
    outputs = [o.name for o in graph.output]
    program = Program({*(i.name for i in inputs), *outputs}, weights, initial - set(outputs))
    translator = Translator(program, functions, outputs)
    scope = Scope(None, opsets_of(model), {})
    faults = translator.faults
    if graph.sparse_initializer:
        faults.append(Diag("E0126", graph.sparse_initializer[0].values.name, {"type": "a sparse tensor"}))
    for name in shapes:
        if name not in {i.name for i in inputs}:
            faults.append(Diag("E0128", name, {"tensor": name, "fault": "it is not an input; inputs: " + ", ".join(i.name for i in inputs)}))
    for value in inputs:
        try:
            dtype, form = _element(value)
            scope.terms[value.name] = program.input(value.name, dtype, shape_of(value, shapes.get(value.name)), form)
        except Refused as fault:
            faults += fault.diags
            scope.terms[value.name] = FAULTY
    for tensor in graph.initializer:
        try:
            scope.terms[tensor.name] = term_of(tensor)
        except Refused as fault:
            faults += fault.diags
            scope.terms[tensor.name] = FAULTY
    translator.body(graph.node, scope)
    for name in dict.fromkeys(outputs):
        try:
            translator.output(scope.find(name), name)
        except Refused as fault:
            faults += fault.diags
    if faults:
        raise Refused(faults)
    return bare(graph.name) if graph.name else "main", program, [i.name for i in inputs], list(dict.fromkeys(outputs))


def _element(value: Any) -> tuple[DType, str]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise refuse("E0126", value.name, type=(kind or "no type").replace("_type", "").replace("_", " "))
    return element_of(value.type.tensor_type.elem_type, value.name)


def shape_of(value: Any, given: Sequence[str] | None) -> tuple[Expr, ...]:
    """The sizes of an input: numbers, symbols by their ONNX names, or `NAME_AXIS` for those without a name; `given` overrides what is open.
    Raises Refused (E0128)."""
    own: list[Expr] = []
    if value.type.tensor_type.HasField("shape"):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                own.append(Expr.of(dim.dim_value))
            else:
                own.append(_symbol(dim.dim_param, f"{value.name}_{axis}"))
    elif given is None:
        raise refuse("E0128", value.name, tensor=value.name, fault="the model does not say how many axes it has")
    if given is None:
        return tuple(own)
    stated = [_given(value.name, word) for word in given]
    if own or value.type.tensor_type.HasField("shape"):
        if len(own) != len(stated) or any(o.constant is not None and o != s for o, s in zip(own, stated)):
            raise refuse("E0128", value.name, tensor=value.name, fault=f"its shape is [{', '.join(map(str, own))}] in the model, not [{', '.join(given)}]")
    return tuple(stated)


def _given(name: str, word: str) -> Expr:
    try:
        size = read_dim(int(word) if word.lstrip("-").isdigit() else word)
    except ValueError:
        size = Expr.of(-1)
    if size.constant is not None and size.constant < 0:
        raise refuse("E0128", name, tensor=name, fault=f"{word} is not a size")
    return size


def _symbol(word: str, otherwise: str) -> Expr:
    """A size by its ONNX name: an expression where it reads as one, else the name made bare."""
    if word and not word.isidentifier():
        try:
            size = read_dim(word)
            if not any(_RESERVED.match(n) for n in size.names()) and size.constant is None:
                return size
        except ValueError:
            pass
    name = bare(word or otherwise).replace(".", "_")
    return Expr.of(name + "_" if _RESERVED.match(name) else name)


def _refuse_unsupported(model: Any, functions: Mapping[tuple[str, str], Any]) -> None:
    """E0123 with every op that no translation knows, and every node of it."""
    from onnx import defs

    found: dict[str, list[str]] = {}

    def walk(nodes: Sequence[Any], opsets: Mapping[str, int]) -> None:
        for node in nodes:
            domain = "" if node.domain == "ai.onnx" else node.domain
            if not ((domain, node.op_type) in ONNX_OPS or (domain, node.op_type) in functions or domain == "" and node.op_type in FOLDS or _has_body(node.op_type, domain, opsets)):
                found.setdefault(f"{domain}::{node.op_type}" if domain else node.op_type, []).append(node.name or next((o for o in node.output if o), "?"))
            for a in node.attribute:
                for graph in (*([a.g] if a.HasField("g") else []), *a.graphs):
                    walk(graph.node, opsets)

    def _has_body(op: str, domain: str, opsets: Mapping[str, int]) -> bool:
        try:
            schema = defs.get_schema(op, opsets.get(domain, 1), domain)
        except defs.SchemaError:
            return False
        return schema.has_function or schema.has_context_dependent_function

    walk(model.graph.node, opsets_of(model))
    for function in functions.values():
        walk(function.node, {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import})
    if found:
        raise refuse("E0123", ops="; ".join(f"{op} ({', '.join(nodes)})" for op, nodes in found.items()))
