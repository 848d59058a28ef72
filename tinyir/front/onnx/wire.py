"""Where in the bytes of an ONNX file its weights are, so that a text can point at them instead of copying them.

An ONNX file is a protocol buffer: fields, each a key (number and wire type) and a payload. Only the keys on the way to
the tensors are read; payloads are skipped by their length. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...kit.phrase import Phrase

Place = tuple[int, int]  # offset and length in bytes
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH, _GRAPH_NODE, _GRAPH_INITIALIZER = 7, 1, 5
_NODE_OUTPUT, _NODE_ATTRIBUTE, _ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPHS = 2, 5, 5, (6, 11)
_TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_DOUBLES = 4, 8, 9, 10


def places_of(raw: bytes) -> dict[str, list[Place]]:
    """The places of initialisers' elements, by name, and of Constant nodes', by output, in the graph and in the bodies
    inside it, where a name may come back; elements kept as varints have none. Raises ValueError when the bytes are no
    protocol buffer."""
    found: dict[str, list[Place]] = {}
    for number, start, end in _fields(raw, 0, len(raw)):
        if number == _MODEL_GRAPH:
            _graph(raw, start, end, found)
    return found


def _graph(raw: bytes, start: int, end: int, found: dict[str, list[Place]]) -> None:
    for number, low, high in _fields(raw, start, end):
        if number == _GRAPH_INITIALIZER:
            name, place = _tensor(raw, low, high)
            if place is not None:
                found.setdefault(name, []).append(place)
        elif number == _GRAPH_NODE:
            outputs, places = _node(raw, low, high, found)
            if len(outputs) == 1 and len(places) == 1:
                found.setdefault(outputs[0], []).append(places[0])


def _fields(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of the payload of each length-delimited field."""
    at = start
    while at < end:
        key, at = _varint(raw, at, end)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(raw, at, end)
        elif kind == _LENGTH:
            size, at = _varint(raw, at, end)
            if at + size > end:
                raise ValueError(Phrase("a field runs past its message"))
            yield key >> 3, at, at + size
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(Phrase("wire type {kind}", kind=kind))


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError(Phrase("a number without an end"))


def _tensor(raw: bytes, start: int, end: int) -> tuple[str, Place | None]:
    """Name and place of one TensorProto; fp32 and fp64 lists in packed form are little-endian elements just as raw_data
    is."""
    name, places = "", []
    for number, low, high in _fields(raw, start, end):
        if number == _TENSOR_NAME:
            name = raw[low:high].decode("utf-8", "replace")
        elif number in (_TENSOR_RAW, _TENSOR_FLOATS, _TENSOR_DOUBLES) and high > low:
            places.append((low, high - low))
    return name, places[0] if len(places) == 1 else None


def _node(raw: bytes, start: int, end: int, found: dict[str, list[Place]]) -> tuple[list[str], list[Place]]:
    outputs, places = [], []
    for number, low, high in _fields(raw, start, end):
        if number == _NODE_OUTPUT:
            outputs.append(raw[low:high].decode("utf-8", "replace"))
        elif number == _NODE_ATTRIBUTE:
            for inner, a, b in _fields(raw, low, high):
                if inner == _ATTRIBUTE_TENSOR:
                    place = _tensor(raw, a, b)[1]
                    places += [place] if place is not None else []
                elif inner in _ATTRIBUTE_GRAPHS:
                    _graph(raw, a, b, found)
    return outputs, places
