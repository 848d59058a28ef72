"""What an ONNX model states outright: attributes, the values of tensors, the bodies of functions; and where its weights
are in files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...kit.diag import refuse
from ...kit.files import FileFault, read_range
from ...kit.phrase import Phrase
from ...kit.text import is_count
from ..program.names import bare
from ..program.terms import MAX_KNOWN, Term, known
from . import wire
from .elements import ELEMENTS, element_of

MOST_READ = 1 << 20  # bytes of a file beside the model that are read into the program
SMALL_FLOATS, SMALL_INTEGERS = 4, 1024  # elements of a tensor whose values the text itself has
_INTEGER_FORMS = ("i4", "u4", "i2", "u2")


def attributes(proto: Any, outer: Mapping[str, Any], at: str) -> dict[str, Any]:
    """A node's attributes as Python values: int, float, str, tuples of them; tensors and graphs as protos. Raises
    Refused (E0124)."""
    from onnx import AttributeProto as A

    found = {}
    for a in stated(proto, outer):
        if a.type == A.STRING:
            found[a.name] = a.s.decode("utf-8", "replace")
        elif a.type == A.STRINGS:
            found[a.name] = tuple(s.decode("utf-8", "replace") for s in a.strings)
        elif a.type in (A.FLOAT, A.INT, A.TENSOR, A.GRAPH):
            found[a.name] = getattr(a, {A.FLOAT: "f", A.INT: "i", A.TENSOR: "t", A.GRAPH: "g"}[a.type])
        elif a.type in (A.FLOATS, A.INTS):
            found[a.name] = tuple(a.floats if a.type == A.FLOATS else a.ints)
        else:
            raise refuse(
                "E0124",
                at,
                op=proto.op_type,
                fault=Phrase("the attribute {a} is of type {name}", a=a.name, name=A.AttributeType.Name(a.type)),
            )
    return found


def stated(proto: Any, outer: Mapping[str, Any]) -> list[Any]:
    """A node's AttributeProtos; one that refers to an attribute of the function around is that one, and gone if that is
    not stated."""
    found = []
    for a in proto.attribute:
        if a.ref_attr_name:
            if a.ref_attr_name not in outer:
                continue
            copy = type(a)()
            copy.CopyFrom(outer[a.ref_attr_name])
            copy.name, a = a.name, copy
        found.append(a)
    return found


def array_of(tensor: Any) -> np.ndarray:
    """The elements of a TensorProto as the dtype that holds them. Raises Refused (E0121, E0126, E0127 for one whose
    elements are in another file: it is for `Weights.value` to read)."""
    from onnx import numpy_helper

    dtype, form = element_of(tensor.data_type, tensor.name)
    if tensor.data_location == tensor.EXTERNAL:
        raise refuse(
            "E0127",
            tensor.name,
            tensor=tensor.name,
            reason=Phrase("it is an attribute, and its elements are in another file"),
        )
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as fault:
        raise refuse(
            "E0121",
            tensor.name,
            reason=Phrase("the tensor {tensor} cannot be read: {fault}", tensor=tensor.name, fault=str(fault)[:120]),
        ) from None
    return coded(array, form) if form else known(array, dtype).known


def coded(array: np.ndarray, form: str) -> np.ndarray:
    """An array of a dtype that tiny has not, as `Term.form` keeps it."""
    if form in _INTEGER_FORMS:
        return array.astype(np.int8 if form[0] == "i" else np.uint8)
    return array.view(np.uint8)


def term_of(tensor: Any) -> Term:
    """A TensorProto: its value where that is small, else a tensor that is read when it is needed. Raises Refused
    (E0126)."""
    dtype, form = element_of(tensor.data_type, tensor.name)
    count = math.prod(tensor.dims)
    if min(tensor.dims, default=0) < 0:
        raise refuse("E0121", tensor.name, reason=Phrase("the tensor {tensor} has a negative size", tensor=tensor.name))
    if form or count <= (SMALL_FLOATS if dtype.is_float else SMALL_INTEGERS):
        if tensor.data_location != tensor.EXTERNAL:
            found = known(array_of(tensor), dtype, form)
            found.label = bare(tensor.name) if tensor.name else ""
            return found
    return Term(dtype, tuple(Expr.of(n) for n in tensor.dims), form=form, tensor=tensor)


class Weights:
    """Where tensors are: in the model's own file, or in one beside it. `file` is the model's path as texts shall spell
    it, empty for one that came through a pipe; `folder` is where that file is."""

    def __init__(self, raw: bytes, file: str, folder: Path | None = None):
        self.raw, self.file, self.folder = raw, file, folder
        self._places: dict[str, list[wire.Place]] | None = None

    def array(self, tensor: Any) -> np.ndarray:
        """The elements of a tensor of the model's own file."""
        return array_of(tensor)

    def place(self, tensor: Any) -> dict[str, Any]:
        """The attributes file, offset, bytes and sha256 of a tensor's elements; or its value, when it is not too long
        and has no such place. Raises Refused (E0127)."""
        if tensor.data_location == tensor.EXTERNAL:
            return self._beside(tensor)
        from hashlib import sha256

        if self._places is None:
            self._places = wire.places_of(self.raw)
        count = math.prod(tensor.dims)
        place = self._of(tensor) if self.file else None
        if place is None:
            if count > MAX_KNOWN:
                raise refuse(
                    "E0127",
                    tensor.name,
                    tensor=tensor.name,
                    reason=Phrase("the model came through a pipe")
                    if not self.file
                    else Phrase("its elements are not kept as raw bytes"),
                )
            return {}
        start, length = place
        return {
            "file": self.file,
            "offset": start,
            "bytes": length,
            "sha256": sha256(memoryview(self.raw)[start : start + length]).hexdigest(),
        }

    def value(self, tensor: Any) -> np.ndarray:
        """The elements of a tensor, those in a file beside the model too. Raises Refused (E0006, E0121, E0126,
        E0127)."""
        if tensor.data_location != tensor.EXTERNAL:
            return array_of(tensor)
        place = self._beside(tensor)
        if place["bytes"] > MOST_READ:
            raise refuse(
                "E0006",
                tensor.name,
                what=Phrase(
                    "a value of {place} bytes that the model's sizes depend on (at most {most})",
                    place=place["bytes"],
                    most=MOST_READ,
                ),
            )
        location = next(e.value for e in tensor.external_data if e.key == "location")
        try:
            found = read_range(self.folder or Path(), location, place["offset"], place["bytes"])
        except FileFault as fault:
            raise refuse(
                "E0127",
                tensor.name,
                tensor=tensor.name,
                reason=Phrase("{location}: {fault}", location=location, fault=fault),
            ) from None
        return array_of(type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=found))

    def _of(self, tensor: Any) -> wire.Place | None:
        """The place whose bytes are the tensor's elements."""
        places = self._places.get(tensor.name, ())
        own = tensor.raw_data or (array_of(tensor).tobytes() if places else b"")  # asked for once: a copy
        return next((p for p in places if p[1] == len(own) and self.raw.startswith(own, p[0])), None)

    def _beside(self, tensor: Any) -> dict[str, Any]:
        entries = {e.key: e.value for e in tensor.external_data}
        location = PurePosixPath(entries.get("location", ""))
        dtype, form = element_of(tensor.data_type, tensor.name)
        size = math.prod(tensor.dims) * dtype.bytes
        offset, length = entries.get("offset", "0"), entries.get("length", str(size))
        if not self.file or form:
            raise refuse(
                "E0127",
                tensor.name,
                tensor=tensor.name,
                reason=Phrase("its elements have no dtype") if form else Phrase("the model came through a pipe"),
            )
        if location.is_absolute() or ".." in location.parts or not location.parts or "\0" in str(location):
            raise refuse(
                "E0127",
                tensor.name,
                tensor=tensor.name,
                reason=Phrase("{location} is not under the model's folder", location=location),
            )
        if not is_count(offset) or length != str(size):
            raise refuse(
                "E0127",
                tensor.name,
                tensor=tensor.name,
                reason=Phrase(
                    "its place (offset {offset}, length {length}) does not fit {size} bytes",
                    offset=offset,
                    length=length,
                    size=size,
                ),
            )
        return {"file": str(PurePosixPath(self.file).parent / location), "offset": int(offset), "bytes": size}


def function_of(node: Any, domain: str) -> Any:
    """The FunctionProto by which the standard defines a node, or None."""
    from onnx import defs

    opset = node.scope.opsets.get(domain, 1)
    try:
        schema = defs.get_schema(node.proto.op_type, opset, domain)
    except defs.SchemaError:
        return None
    from onnx import FunctionProto

    found = None
    if schema.has_function:
        usable = [v for v in schema.function_opset_versions if v <= opset]
        found = schema.get_function_with_opset_version(max(usable)) if usable else None
    elif schema.has_context_dependent_function:
        usable = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        types = [_type_of(i) for i in node.inputs]
        try:
            found = (
                schema.get_context_dependent_function_with_opset_version(
                    max(usable), _resolved(node).SerializeToString(), types
                )
                if usable
                else None
            )
        except (ValueError, RuntimeError):  # onnx finds fault with the types
            return None
    if not found:
        return None
    function = FunctionProto()
    function.ParseFromString(found)
    for a in schema.attributes.values():
        if a.default_value.name and not any(b.name == a.name for b in function.attribute_proto):
            function.attribute_proto.add().CopyFrom(a.default_value)
    return function


def _resolved(node: Any) -> Any:
    """The node with the attributes that it takes from the function around."""
    copy = type(node.proto)()
    copy.CopyFrom(node.proto)
    del copy.attribute[:]
    copy.attribute.extend(stated(node.proto, node.scope.attrs))
    return copy


def _type_of(term: Any) -> bytes:
    from onnx import TypeProto

    found = TypeProto()
    if isinstance(term, Term):
        found.tensor_type.elem_type = next(
            number for number, held in ELEMENTS.items() if held == (term.dtype.name, term.form)
        )
        for size in term.shape:
            dim = found.tensor_type.shape.dim.add()
            if size.constant is not None:
                dim.dim_value = size.constant
    return found.SerializeToString()
