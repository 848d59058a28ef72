"""The signature and the tensor table of front-end JSON, each fault with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ..ir.expr import Expr
from ..ir.model import (
    CHOICES,
    MOST_ALIGNMENT,
    RESERVED_SYMBOLS,
    TENSOR_ATTRS,
    Origin,
    Range,
    Shapes,
    Tensor,
    is_alignment,
)
from ..ir.rules import fills, literal_shape
from ..ir.types import DTYPES, TensorType, is_below_zero
from ..ir.unknown import nearest, unknown_dtype
from ..kit.diag import Diag, Label, Refused
from ..kit.phrase import Phrase
from .builder import Builder, Place, Ref
from .jsonlayout import SWIZZLED, LayoutReader
from .jsontext import Member, Node, Reader
from .ops.table import read_dim

DEFAULT_SIZE = 1024
TENSOR_KEYS = ("dtype", "shape", "value", *TENSOR_ATTRS)
SIGNATURE_KEYS = ("tensor", *TENSOR_ATTRS)
_OF_TENSORS = ("dtype", "shape")  # not of the signature, where many expect them


class SignatureReader(Reader):
    """One text. Faults are collected; what comes after a fault is read as far as it makes sense."""

    def __init__(self, text: str):
        super().__init__(text)
        self.builder = Builder()
        self.declared: dict[str, TensorType] = {}
        self.of_faulty: set[str] = set()  # the words in the shapes of faulty tensors, which may be symbols
        self.places_of: dict[str, Place] = {}
        self.fixed: set[str] = set()  # inputs that are stated to be immutable
        self.refs: dict[str, Ref | None] = {}  # None: something was wrong with it, and that has been said

    # --- tensors

    def declare(self, name: str, member: Member) -> None:
        """One entry of `tensors`. A fault in it leaves the tensor known and undeclared."""
        entry = member.node
        if not isinstance(entry.value, dict):
            self.expect(entry, dict, f"tensor {name}")
            return
        self.only(entry, TENSOR_KEYS, f"tensor {name}")
        dtype_node, shape_node = entry.get("dtype"), entry.get("shape")
        count = len(self.faults)
        word = self.expect(dtype_node, str, f"tensor {name}", entry, "dtype")
        shape = self.expect(shape_node, list, f"tensor {name}", entry, "shape")
        if word and word not in DTYPES:
            self.fault("E0101", dtype_node, name, **unknown_dtype(word))
        dims = []
        for dim in shape:
            size = None
            if type(dim.value) in (int, str):
                try:
                    size = read_dim(dim.value)
                except ValueError:
                    pass
            if size is None or size.terms and is_below_zero(size):
                self.fault("E0111", dim, name, tensor=name, given=_quoted(dim.plain))
            else:
                dims.append(size)
        self.places_of[name] = Place(self.places.of(shape_node or member), tuple(self.places.of(d) for d in shape))
        if len(self.faults) == count:
            self.declared[name] = TensorType(DTYPES[word], tuple(dims))
        else:
            self.of_faulty.update(w for d in shape for w in re.findall(r"[^\W\d]\w*", str(d.value)))

    def listed(
        self, root: Node, signature: Node, side: str, tensors: dict[str, Member]
    ) -> list[tuple[Tensor | None, Node]]:
        """The tensors of one side of the signature, each with the node that names it; None for a faulty one."""
        found: list[tuple[Tensor | None, Node]] = []
        seen: dict[str, Node] = {}
        parent = signature if isinstance(signature.value, dict) and root.get("signature") is not None else None
        for entry in self.expect(signature.get(side), list, "signature", parent, side):
            if not isinstance(entry.value, dict):
                self.fault(
                    "E0110",
                    entry,
                    f"signature.{side}",
                    key=Phrase("each of signature.{side}", side=side),
                    expected=Phrase("an object such as {example}", example='{"tensor": "x"}'),
                    given=entry.kind,
                )
                continue
            name_node = self.named_in(entry, side)
            name = self.expect(name_node, str, f"signature.{side}", entry, "tensor")
            if not name:
                continue
            self.misplaced(entry, name, side, tensors)
            if name in seen:
                label = Label(self.places.of(seen[name]), Phrase("first here"))
                self.fault("E1301", name_node, name, (label,), name=name)
                continue
            seen[name] = name_node
            if name not in self.declared:
                if name not in tensors:
                    self.fault("E1307", name_node, name, tensor=name, side=side, near=near(name, tensors))
                if side == "inputs":
                    self.refs[name] = None
                found.append((None, name_node))
                continue
            attrs = {**self.attributes(tensors[name].node, name), **self.attributes(entry, name)}
            ordered = tuple(
                (k, attrs[k]) for k in TENSOR_ATTRS if k in attrs and attrs[k] != CHOICES.get(k, (None,))[0]
            )
            if side == "inputs" and attrs.get("mutability") == "immutable":
                self.fixed.add(name)
            if side == "outputs" and (state := attrs.get("updates")) in self.fixed:
                why = Phrase("{state} is declared immutable", state=state)
                self.fault("E1316", entry.get("updates"), name, output=name, state=state, fault=why)
            found.append((Tensor(name, self.declared[name], ordered), name_node))
        return found

    def named_in(self, entry: Node, side: str) -> Node | None:
        """What names the tensor of an entry: `tensor`, or `name`, which is told to be that (E0102)."""
        own = "name" if "name" in entry.value and "tensor" not in entry.value else "tensor"
        rest = {k: m for k, m in entry.value.items() if k not in (own, *_OF_TENSORS)}
        if own == "name":
            self.fault("E0102", entry.value[own], f"signature.{side}", key=own, known="tensor")
        self.only(Node(rest, entry.start, entry.end), SIGNATURE_KEYS, f"signature.{side}")
        return entry.get(own)

    def misplaced(self, entry: Node, name: str, side: str, tensors: dict[str, Member]) -> None:
        """The type of a tensor that its entry of the signature states (E0102): read on as if `tensors` had it."""
        stated = {k: entry.value[k] for k in _OF_TENSORS if k in entry.value}
        for key in [*stated][:1]:
            what = Phrase("tensor; dtype and shape are stated in tensors, under the name")
            self.fault("E0102", stated[key], f"signature.{side}", key=key, known=what)
            if name not in tensors:
                tensors[name] = Member(entry.start, entry.end, Node(stated, entry.start, entry.end))
                self.declare(name, tensors[name])

    def attributes(self, entry: Node, name: str) -> dict[str, Any]:
        """The ABI attributes in one entry (E0103 of another kind, E1302 of other words, E1313 a layout that is read and
        cannot be obeyed, E1314 an alignment that is not a power of two)."""
        found = {}
        for key, (kind, _) in TENSOR_ATTRS.items():
            node = entry.get(key)
            if node is None or node.value is None:
                continue
            if key == "layout" and isinstance(node.value, dict):
                word = LayoutReader(self, node, name, self.declared).word()
                found |= {key: word} if word else {}
            elif type(node.value) is not (int if kind == "int" else str):
                self.fault(
                    "E0103", node, name, key=key, expected=Phrase("an integer") if kind == "int" else Phrase("a string")
                )
            elif key == "layout" and node.value == SWIZZLED:
                self.fault("E1313", node, name, tensor=name, given=SWIZZLED, known=", ".join(CHOICES[key]))
            elif key in CHOICES and node.value not in CHOICES[key]:
                self.fault("E1302", node, name, key=key, given=node.value, known=", ".join(CHOICES[key]))
            elif key == "alignment" and not is_alignment(node.value):
                self.fault("E1314", node, name, tensor=name, given=node.value, most=MOST_ALIGNMENT)
            elif kind == "int" and node.value < 0:
                self.fault("E0107", node, name, key=key, range=Phrase("0 or more"), given=node.value)
            else:
                found[key] = node.value
        return found

    def constants(self, tensors: dict[str, Member]) -> list[Tensor]:
        """Tensors that hold their value become CONSTs where they are used; those in a file become inputs, which are
        returned."""
        filed = []
        for name, member in tensors.items():
            entry = member.node
            if name in self.refs or not isinstance(entry.value, dict) or name not in self.declared:
                continue
            value = entry.get("value")
            if entry.get("file") is not None:
                attrs: dict[str, Any] = {"role": "param", "storage": "const_pool", **self.attributes(entry, name)}
                tensor = Tensor(
                    name,
                    self.declared[name],
                    tuple((k, attrs[k]) for k in TENSOR_ATTRS if k in attrs and attrs[k] != CHOICES.get(k, (None,))[0]),
                )
                filed.append(tensor)
                self.refs[name] = self.builder.input(tensor, self.places_of[name])
            elif value is not None:
                self.refs[name] = self.constant(name, member, value)
        return filed

    def constant(self, name: str, member: Member, node: Node) -> Ref | None:
        """The CONST of one tensor that holds its value, which may be a size, such as "2*N" (E0111, E1009, E1026)."""
        wanted = self.declared[name]
        literal = _literal(node.plain)
        if literal is None and isinstance(node.value, str) and wanted.dtype.is_integer:
            literal = self.size(node, name)
            if literal is None:
                return None
        shape = literal_shape(literal) if literal is not None else ()
        if literal is None or isinstance(literal, tuple) and not fills(literal, wanted.shape):
            self.fault(
                "E1009",
                node,
                name,
                (Label(self.places_of[name].span, Phrase("declared {wanted}", wanted=wanted)),),
                given=list(shape),
                result=wanted,
            )
            return None
        place = self.places.of(member)
        self.builder.open(Origin(name, "Constant", place.line, place.column))
        try:
            made = self.builder.const(literal, wanted.dtype, wanted.shape)
        except Refused as fault:
            self.builder.drop()
            self.faults += [Diag(d.code, name, d.facts, self.places.of(node)) for d in fault.diags]
            return None
        return self.builder.close([made], [name], [None], [self.places_of[name]])[0]

    def size(self, node: Node, name: str) -> Expr | None:
        """A size made of symbols that the inputs have (E0111)."""
        try:
            found = read_dim(node.value)
        except ValueError:
            found = None
        if found is None or not set(found.names()) <= {
            n for ref in self.builder.inputs for d in ref.shape for n in d.names()
        }:
            self.fault("E0111", node, name, tensor=name, given=_quoted(node.value))
            return None
        return found

    # --- symbols

    def symbols(self, tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
        """The symbols of the tensors, in the order of first use."""
        return tuple(dict.fromkeys(n for t in tensors for d in t.type.shape for n in d.names()))

    def check_names(self, symbols: tuple[str, ...]) -> None:
        """E1311 for a symbol that the later texts cannot spell: one with a prime, an axis name such as i0, a word of
        isl."""
        for symbol in symbols:
            if RESERVED_SYMBOLS.match(symbol) or not re.fullmatch(r"[A-Za-z_]\w*", symbol):
                places = [
                    p.dim(i)
                    for t, p in self.places_of.items()
                    if t in self.declared
                    for i, d in enumerate(self.declared[t].shape)
                    if symbol in d.names()
                ]
                self.fault("E1311", places[0] if places else None, symbol, symbol=symbol)

    def ranges(self, node: Node | None) -> tuple[Range, ...]:
        """What `symbols` states, as ranges (E0103)."""
        found = []
        for symbol, member in (self.expect(node, dict, "symbols") if node is not None else {}).items():
            limits = member.node.plain
            if (
                isinstance(limits, list)
                and len(limits) == 2
                and all(type(n) is int for n in limits)
                and 0 <= limits[0] <= limits[1]
            ):
                found.append(Range(symbol, *limits, span=self.places.of(member)))
            else:
                self.fault("E0103", member.node, symbol, key=symbol, expected="[least, greatest]")
        return tuple(found)

    def shape_sets(self, node: Node | None, symbols: tuple[str, ...], ranges: tuple[Range, ...]) -> tuple[Shapes, ...]:
        """The shape sets, or the default one, which keeps within the ranges (E0110, E1303)."""
        if node is None:
            return default_shapes(symbols, ranges)
        found = []
        for name, member in self.expect(node, dict, "shape_sets").items():
            sizes = self.expect(member.node, dict, Phrase("shape set {name}", name=name))
            faulty = {s: m for s, m in sizes.items() if type(m.node.value) is not int}
            for symbol, size in faulty.items():
                self.fault(
                    "E0110",
                    size.node,
                    name,
                    key=Phrase("{symbol} of shape set {name}", symbol=symbol, name=name),
                    expected=Phrase("an integer"),
                    given=size.node.kind,
                )
            if sizes and not faulty:
                given = {k: m.node.value for k, m in sizes.items()}
                missing = [s for s in symbols if s not in given]
                for symbol in missing:
                    self.fault("E1303", member, name, set=name, symbol=symbol, fault=Phrase("has no size"))
                for symbol in [s for s in given if s not in symbols and s not in self.of_faulty]:
                    self.fault(
                        "E1303",
                        sizes[symbol],
                        name,
                        set=name,
                        symbol=symbol,
                        fault=Phrase("is not a symbol of the signature"),
                    )
                found.append(Shapes(name, tuple(given.items()), span=self.places.of(member)))
        return tuple(found)


def default_shapes(symbols: Iterable[str], ranges: Iterable[Range]) -> tuple[Shapes, ...]:
    """The shape set of a model that states none: DEFAULT_SIZE for each symbol, or what of its range is nearest. None
    without symbols."""
    limits = {r.symbol: r for r in ranges}
    sizes = tuple(
        (s, min(max(DEFAULT_SIZE, limits[s].low), limits[s].high) if s in limits else DEFAULT_SIZE) for s in symbols
    )
    return (Shapes("default", sizes),) if sizes else ()


def near(word: str, known: Iterable[str]) -> str:
    """Known words that `word` may have meant, else the first few of them."""
    words = list(known)
    return ", ".join(nearest(word, words) or words[:8]) or Phrase("none")


def _quoted(item: Any) -> str:
    """A value as the JSON has it."""
    return json.dumps(item, ensure_ascii=False)


def _literal(item: Any) -> Any:
    """Nested lists of numbers as tuples, or None; "inf", "-inf" and "nan" are numbers too."""
    if isinstance(item, list):
        inner = [_literal(i) for i in item]
        return None if None in inner else tuple(inner)
    if isinstance(item, str):
        return float(item) if item in ("inf", "-inf", "nan") else None
    return item if isinstance(item, (bool, int, float)) else None
