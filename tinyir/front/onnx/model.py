"""An ONNX file as it comes: read, checked, its inputs given types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...ir.model import RESERVED_SYMBOLS, Range
from ...ir.types import DType
from ...kit.diag import Diag, collecting, refuse, refuse_all
from ...kit.phrase import Phrase
from ..ops.table import put_in, read_dim
from ..program.names import bare
from ..program.program import Program
from ..program.sizes import no_input, other_shape, size_given, unfit
from ..program.terms import Term, known
from .constants import Weights, term_of
from .elements import element_of
from .order import graphs_of, sort_nodes
from .states import States, Wanted
from .table import FOLDS, ONNX_OPS
from .translate import FAULTY, Scope, Translator, Unequal, node_word, word_of

OLDEST = 1  # opset; each translation reads the forms that its op has had
Words = Mapping[str, Sequence[str]]
Ranges = Mapping[str, tuple[int, int]]


def load(raw: bytes) -> Any:
    """The ModelProto of a file's bytes. Raises Refused (E0121, E0122)."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(raw)
        version, newest = opsets_of(model).get("", OLDEST), onnx.defs.onnx_opset_version()
        if version > newest:
            raise refuse("E0122", given=version, oldest=OLDEST, newest=newest)
        moved = [sort_nodes(graph) for graph in (model.graph, *model.functions)]
        # a message is made bytes for it, which takes as long as the check
        onnx.checker.check_model(_for_checker(model) or (model if any(moved) else raw))
    except (DecodeError, onnx.checker.ValidationError, ValueError) as fault:
        raise refuse("E0121", reason=" ".join(str(fault).split())[:200] or type(fault).__name__) from None
    if _is_garbled(model):
        raise refuse("E0121", reason=Phrase("a name in it is not UTF-8"))
    return model


def _is_garbled(message: Any) -> bool:
    """Whether a string somewhere in the message is not UTF-8: protobuf then gives its bytes."""
    if message.DESCRIPTOR.name == "TensorProto":  # whose other fields are elements, each a copy
        texts = (message.name, message.doc_string)
        return any(isinstance(t, bytes) for t in texts) or any(map(_is_garbled, message.external_data))
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            if any(isinstance(v, bytes) for v in ([value] if isinstance(value, (str, bytes)) else value)):
                return True
        elif field.type == field.TYPE_MESSAGE:
            if any(_is_garbled(v) for v in ([value] if hasattr(value, "ListFields") else value)):
                return True
    return False


def _for_checker(model: Any) -> Any:
    """What onnx's checker shall see in place of a model that it would refuse although its runtimes do not: inputs and
    outputs without a shape get one, weights in other files are left out, and so are the names of ops that a version has
    deprecated but defines, such as GroupNormalization of opset 18. None when there is nothing of the kind."""

    def open_values(graph: Any) -> Iterator[Any]:
        for value in (*graph.input, *graph.output):
            if value.type.WhichOneof("value") == "tensor_type" and not value.type.tensor_type.HasField("shape"):
                yield value
        for node in graph.node:
            for inner in graphs_of(node):
                yield from open_values(inner)

    opset = opsets_of(model).get("", OLDEST)
    if (
        next(open_values(model.graph), None) is None
        and not any(t.data_location == t.EXTERNAL for t in model.graph.initializer)
        and next(_deprecated(model.graph, opset), None) is None
    ):
        return None
    copy = type(model)()
    copy.CopyFrom(model)
    for value in open_values(copy.graph):
        value.type.tensor_type.shape.SetInParent()
    for tensor in copy.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            tensor.CopyFrom(type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=[0]))
    for node in _deprecated(copy.graph, opset):
        node.op_type = "Sum"
        del node.attribute[:]
    return copy


def _deprecated(graph: Any, opset: int) -> Iterator[Any]:
    """The nodes of deprecated ops that are translated all the same."""
    from onnx import defs

    for node in graph.node:
        if node.domain in ("", "ai.onnx") and ("", node.op_type) in ONNX_OPS:
            try:
                if defs.get_schema(node.op_type, opset, "").deprecated:
                    yield node
            except defs.SchemaError:
                pass
        for inner in graphs_of(node):
            yield from _deprecated(inner, opset)


def opsets_of(model: Any) -> dict[str, int]:
    """The opset of each domain."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}


def program_of(
    model: Any,
    weights: Weights,
    shapes: Words,
    values: Words,
    ranges: Ranges,
    wanted: Wanted | None = None,
    notes: list[Diag] | None = None,
) -> tuple[str, Program, list[str], list[str]]:
    """The model's name, its program, and the names of its inputs and outputs. `ranges` bound symbols; one that an op
    needs to equal another size is that size; `wanted` says what is a state; `notes` gets the warnings (W2106). Raises
    Refused with every fault found."""
    equal: dict[str, Expr] = {}
    while True:
        try:
            return _program_of(model, weights, shapes, values, ranges, equal, wanted or Wanted())
        except Unequal as found:
            if notes is not None and found.note is not None:
                notes.append(found.note)
            equal = {symbol: put_in(size, {found.symbol: found.size}, symbol) for symbol, size in equal.items()} | {
                found.symbol: found.size
            }


def _program_of(
    model: Any,
    weights: Weights,
    shapes: Words,
    values: Words,
    ranges: Ranges,
    equal: Mapping[str, Expr],
    wanted: Wanted,
) -> tuple[str, Program, list[str], list[str]]:
    graph = model.graph
    initial = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in initial]
    outputs = list(dict.fromkeys(o.name for o in graph.output))
    program = Program({*(i.name for i in inputs), *outputs}, weights, initial - set(outputs))
    _state_ranges(program.builder.limits, ranges, equal)
    functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
    translator = Translator(program, functions, outputs, _unsupported(model, functions))
    scope = Scope(None, opsets_of(model), {})
    faults = translator.faults
    if graph.sparse_initializer:
        faults.append(Diag("E0126", graph.sparse_initializer[0].values.name, {"type": Phrase("a sparse tensor")}))
    for name in [*shapes, *values]:
        if name not in {i.name for i in inputs}:
            faults += no_input(name, (i.name for i in inputs)).diags
    symbols: dict[str, str] = {}
    given = {i.name: i for i in inputs if i.name not in values}
    results = {o.name: o for o in graph.output}
    states = States(wanted, given, results, program)

    def input_of(value: Any) -> Any:
        dtype, form = _element(value)
        shape = tuple(put_in(d, equal, value.name) for d in shape_of(value, shapes.get(value.name), symbols))
        if value.name in values:
            return _stated(value.name, dtype, shape, values[value.name])
        told = _told(results.get(states.pairs.get(value.name)), symbols, equal)
        return states.input(value.name, program.input(value.name, dtype, shape, form), told)

    for read, items in ((input_of, inputs), (term_of, graph.initializer)):
        for item in items:
            scope.terms[item.name] = FAULTY
            with collecting(faults):
                scope.terms[item.name] = read(item)
    translator.body(graph.node, scope)
    for name in outputs:
        with collecting(faults):
            translator.output(scope.find(name), name)
    if not faults and not translator.unsupported:
        with collecting(faults):
            states.settle({name: program.made.get(name, scope.find(name)) for name in outputs})
    if translator.unsupported:
        named = "; ".join(f"{op} ({', '.join(nodes)})" for op, nodes in translator.unsupported.items())
        faults.insert(0, Diag("E0123", "", {"ops": named}))
    elif any(d.code != "E0128" for d in faults):
        faults += _open_sizes(inputs, scope)
    refuse_all(faults)
    return bare(graph.name) if graph.name else "main", program, list(given), states.outputs(outputs)


def _state_ranges(limits: Any, ranges: Ranges, equal: Mapping[str, Expr]) -> None:
    """The ranges of symbols; of one that equals a size, that the size is within them."""
    limits.state(Range(symbol, low, high) for symbol, (low, high) in ranges.items() if symbol not in equal)
    for symbol, size in equal.items():
        if symbol in ranges:
            limits.suppose(size - ranges[symbol][0])
            limits.suppose(ranges[symbol][1] - size)


def _told(value: Any, symbols: dict[str, str], equal: Mapping[str, Expr]) -> tuple[Expr, ...] | None:
    """The shape that the model states of an output, where it does."""
    if value is None or value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(put_in(d, equal, value.name) for d in shape_of(value, None, symbols))


def _element(value: Any) -> tuple[DType, str]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise refuse(
            "E0126", value.name, type=kind.replace("_type", "").replace("_", " ") if kind else Phrase("no type")
        )
    return element_of(value.type.tensor_type.elem_type, value.name)


def shape_of(value: Any, given: Sequence[str] | None, symbols: dict[str, str]) -> tuple[Expr, ...]:
    """The sizes of an input: numbers, symbols by their ONNX names, or `NAME_AXIS` for those without a name; `given`
    overrides what is open, which -1 is too. `symbols` maps ONNX names to symbols. Raises Refused (E0111, E0128)."""
    own: list[Expr] = []
    if value.type.tensor_type.HasField("shape"):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                own.append(Expr.of(dim.dim_value))
            elif dim.dim_value < -1:
                raise refuse("E0111", value.name, given=dim.dim_value)
            else:
                own.append(_symbol(dim.dim_param, f"{value.name}_{axis}", symbols))
    elif given is None:
        fault = Phrase("the model does not say how many axes it has")
        raise unfit(value.name, fault, Phrase("say its shape: --shape {name}=1,80,800", name=value.name))
    if given is None:
        return tuple(own)
    stated = [size_given(value.name, word) for word in given]
    if own or value.type.tensor_type.HasField("shape"):
        if len(own) != len(stated) or any(o.constant is not None and o != s for o, s in zip(own, stated)):
            raise other_shape(value.name, own, given)
    return tuple(stated)


def _open_sizes(inputs: Sequence[Any], scope: Scope) -> Iterator[Diag]:
    """A remark that names the inputs whose sizes are symbols (R3004), where there are some: most of what is refused
    wants a number there."""
    open_inputs = [(i.name, scope.terms[i.name].shape) for i in inputs if scope.terms[i.name] is not FAULTY]
    open_inputs = [
        (name, ", ".join(map(str, shape))) for name, shape in open_inputs if any(d.constant is None for d in shape)
    ]
    if open_inputs:
        named = "; ".join(f"{name} [{shape}]" for name, shape in open_inputs)
        yield Diag(
            "R3004", "", {"inputs": named, "name": open_inputs[0][0], "sizes": open_inputs[0][1].replace(" ", "")}
        )


def _stated(name: str, dtype: DType, shape: tuple[Expr, ...], words: Sequence[str]) -> Term:
    """The value of an input that is given beforehand (E0128)."""
    sizes = [d.constant for d in shape]
    if len(sizes) == 1:
        sizes = [len(words)] if sizes[0] in (None, len(words)) else [None]
    try:
        found = np.array([float(w) if dtype.is_float else int(w) for w in words])
        return known(found.reshape(sizes), dtype)
    except (ValueError, TypeError, OverflowError):
        own = f"{dtype}[{', '.join(map(str, shape))}]"
        fault = Phrase("{words} is not a value of {own}", words=",".join(words)[:60], own=own)
        advice = Phrase(
            "a value has as many numbers as it has elements: --value {name}=1,2,3; sizes are fixed by --shape",
            name=name,
        )
        raise unfit(name, fault, advice) from None


def _symbol(word: str, otherwise: str, symbols: dict[str, str]) -> Expr:
    """A size by its ONNX name: an expression where it reads as one, else the name made bare, another one for each ONNX
    name."""
    if word and not word.isidentifier():
        try:
            size = read_dim(word)
            if size.constant is None and all(n.isidentifier() and not RESERVED_SYMBOLS.match(n) for n in size.names()):
                return size
        except ValueError:
            pass
    word = word if re.search(r"[^\W_]", word) else otherwise  # a `?` is not a name: two of them may differ
    if word not in symbols:
        name = bare(word).replace(".", "_")
        name = first = name + "_" if RESERVED_SYMBOLS.match(name) else name
        count = 1
        while name in symbols.values():
            count += 1
            name = f"{first}_{count}"
        symbols[word] = name
    return Expr.of(symbols[word])


def _unsupported(model: Any, functions: Mapping[tuple[str, str], Any]) -> dict[str, list[str]]:
    """Every op that no translation knows, with the names of its nodes, wherever in the model it is."""
    from onnx import defs

    found: dict[str, list[str]] = {}

    def has_body(op: str, domain: str, opsets: Mapping[str, int]) -> bool:
        try:
            schema = defs.get_schema(op, opsets.get(domain, 1), domain)
        except defs.SchemaError:
            return False
        return schema.has_function or schema.has_context_dependent_function

    def walk(nodes: Sequence[Any], opsets: Mapping[str, int]) -> None:
        for node in nodes:
            key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
            if not (
                key in ONNX_OPS
                or key in functions
                or key[0] == ""
                and key[1] in FOLDS
                or has_body(node.op_type, key[0], opsets)
            ):
                found.setdefault(word_of(node), []).append(node_word(node))
            for graph in graphs_of(node):
                walk(graph.node, opsets)

    walk(model.graph.node, opsets_of(model))
    for function in functions.values():
        walk(function.node, {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import})
    return found
