"""The signature: the first section of every text, from tiny to the CUDA manifest. It is the ABI (seed 001 section 2.2).

    model gemm_bias_relu
      in  A           : fp16[M, K]
      in  bias        : fp16[N] {role=param, storage=const_pool}
      out C2          : fp16[M, N]
      sym M in 1..4096
    shapes default {M=1024, N=1024, K=1024}

Symbols are the names in the dims; each is a size, so >= 0, or within its `sym` range, bounds included. A shape set
gives every symbol a value to plan and tune for. Attributes of a tensor, all optional: role (data, param, state),
mutability (immutable, mutable), storage (gmem, const_pool), alignment (bytes, a power of two: every address that is
passed is a multiple of it), layout (row_major, col_major: the order of the last two axes in memory), for a constant
kept in a file beside the model: file, key, offset, bytes, sha256, and of an output updates.

    in  past        : fp16[H, L, D] {role=state, mutability=mutable}
    out present     : fp16[H, L, D] {updates=past}

An output that updates an input is that input's new value: both are one memory, a state, whose old value a run reads and
whose new one it leaves. An output of an input's name updates it and need not say so.

Dims and maps up to the poly text are logical. From the region text on a tensor is its memory, contiguous in rows: of a
col_major tensor the last two axes are exchanged there (`memory_type`, `memory_order`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ..kit.diag import Diag, Label, Refused, refuse_all
from ..kit.phrase import Phrase
from ..kit.quote import quoted
from ..kit.records import dataclass, field
from ..kit.span import Span, Spanned
from ..kit.text import token_span
from .attrs import BARE, AttrFault, Attrs, read_attr, show_attrs
from .read import integer_of, name_of, read_at, read_attrs, read_type
from .types import DType, TensorType

TENSOR_ATTRS: dict[str, tuple[str, bool]] = {
    "role": ("name", False),
    "mutability": ("name", False),
    "storage": ("name", False),
    "alignment": ("int", False),
    "layout": ("name", False),
    "updates": ("name", False),
    "file": ("string", False),
    "key": ("string", False),
    "offset": ("int", False),
    "bytes": ("int", False),
    "sha256": ("string", False),
}
CHOICES = {
    "role": ("data", "param", "state"),
    "mutability": ("immutable", "mutable"),
    "storage": ("gmem", "const_pool"),
    "layout": ("row_major", "col_major"),
}
MOST_BYTES = (1 << 63) - 1  # of a tensor: what integers of 64 bits count
MOST_ALIGNMENT = 256  # bytes; what every allocation on a GPU has
Item = TypeVar("Item")

# Words that no symbol can be: axes of maps, and what the expressions of these texts and of isl say.
RESERVED_SYMBOLS = re.compile(
    r"(?:[iko]\d+|and|or|not|mod|floor|ceil|floordiv|exists|min|max|true|false|inf|nan|infty)$"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The op of the model that values came from: its name, its kind, and where it is in the front end's file
    (1-based, or 0)."""

    name: str
    op: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f" at {self.line}:{self.column}" if self.line else ""
        return f"from {show_name(self.name)} : {show_name(self.op)}{place}"


@dataclass(frozen=True, slots=True)
class Tensor(Spanned):
    """An input or output of the model. `attrs` hold what differs from the defaults."""

    name: str
    type: TensorType
    attrs: Attrs = ()

    def attr(self, key: str) -> Any:
        """The attribute, or its default (role data, mutability immutable, storage gmem, layout row_major, else
        None)."""
        stated = dict(self.attrs).get(key)
        return stated if stated is not None or key not in CHOICES else CHOICES[key][0]


@dataclass(frozen=True, slots=True)
class Range(Spanned):
    """What is known of a symbol: low <= symbol <= high."""

    symbol: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Shapes(Spanned):
    """A shape set: a value for every symbol."""

    name: str
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The signature. Invariants are checked by `check_model`."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ranges: tuple[Range, ...] = ()
    shape_sets: tuple[Shapes, ...] = ()
    _symbols: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _inputs: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    _outputs: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    _constants: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dims = (d for t in self.inputs + self.outputs for d in t.type.shape)
        object.__setattr__(self, "_symbols", tuple(dict.fromkeys(name for d in dims for name in d.names())))
        object.__setattr__(self, "_inputs", {t.name: t for t in reversed(self.inputs)})
        object.__setattr__(self, "_outputs", {t.name: t for t in reversed(self.outputs)})
        object.__setattr__(self, "_constants", frozenset(t.name for t in self.inputs if is_constant(t)))

    def states(self) -> dict[str, str]:
        """The inputs that are states, each with the output that is its new value."""
        return {state: t.name for t in self.outputs if (state := self.state_of(t)) is not None}

    def state_of(self, output: Tensor) -> str | None:
        """The input that an output updates, or None."""
        stated = output.attr("updates")
        return stated if stated is not None or self.input(output.name) is None else output.name

    def memory_of(self, name: str) -> str:
        """The tensor in whose memory a tensor of the signature is: that of an output that updates an input is the
        input."""
        output = self.output(name)
        state = self.state_of(output) if output is not None else None
        return name if state is None or self.input(state) is None else state

    def symbols(self) -> tuple[str, ...]:
        """Every symbol, in the order of first use."""
        return self._symbols

    def constants(self) -> frozenset[str]:
        """The inputs that are constants of the model."""
        return self._constants

    def input(self, name: str) -> Tensor | None:
        """The input called `name`, or None."""
        return self._inputs.get(name)

    def output(self, name: str) -> Tensor | None:
        """The output called `name`, or None."""
        return self._outputs.get(name)

    def range_of(self, symbol: str) -> Range:
        """The range of a symbol; 0 to 2^31 - 1 when none is stated."""
        return next((r for r in self.ranges if r.symbol == symbol), Range(symbol, 0, (1 << 31) - 1))

    def sizes_near(self, sizes: Iterable[int]) -> dict[str, int]:
        """A size for each symbol: these in turn, each as near as the symbol's range allows."""
        bounds = map(self.range_of, self.symbols())
        return {b.symbol: min(max(size, b.low), b.high) for b, size in zip(bounds, itertools.cycle(sizes))}


def is_exchanged(tensor: Tensor) -> bool:
    """Whether memory has the last two axes of a tensor of the signature exchanged: layout col_major."""
    return tensor.attr("layout") == "col_major" and tensor.type.rank >= 2


def memory_order(tensor: Tensor, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """What there is for each axis of a tensor of the signature, in the order of the axes in memory; given that order,
    in the signature's again."""
    return (*items[:-2], items[-1], items[-2]) if is_exchanged(tensor) else items


def memory_type(tensor: Tensor) -> TensorType:
    """The type of the memory of a tensor of the signature: contiguous, the last axis the fastest."""
    return TensorType(tensor.type.dtype, memory_order(tensor, tensor.type.shape))


def is_alignment(size: int | None) -> bool:
    """Whether a tensor may state this alignment: none, or a power of two up to MOST_ALIGNMENT."""
    return size is None or 0 < size <= MOST_ALIGNMENT and size & (size - 1) == 0


def is_constant(tensor: Any) -> bool:
    """Whether a tensor of the signature is a constant of the model: the same numbers at every run."""
    return tensor.attr("storage") == "const_pool"


def is_fixed(tensor: Tensor) -> bool:
    """Whether an input is a weight, which no run changes. An output of its name gives it on as it is."""
    return is_constant(tensor) or tensor.attr("role") == "param"


def show_name(name: str) -> str:
    """A name as the grammar reads it: bare when it can be, else quoted."""
    return name if BARE.fullmatch(name) else quoted(name)


def _like(key: str, schema: dict[str, tuple[str, bool]]) -> str:
    from ..kit.options import nearest

    return nearest(key, [*schema]) or ", ".join(schema) or Phrase("none")


def read_schema(
    items: Iterable[tuple[str, Any]],
    schema: dict[str, tuple[str, bool]],
    at: str,
    span: Span,
    dtype: DType | None = None,
    of: str = "",
) -> Attrs:
    """Parsed attribute items of the value or tensor `at`, an `of`, against a schema, in its order. Raises Refused
    (E0102 unknown, E0103 of another kind, E0104 missing, E1026 a number that is not a value of `dtype`)."""
    given = dict(items)
    faults = [
        Diag("E0102", at, {"at": of or at, "key": k, "known": _like(k, schema)}, span) for k in given if k not in schema
    ]
    read = []
    for key, (kind, is_required) in schema.items():
        if key in given:
            try:
                read.append((key, read_attr(kind, given[key], dtype)))
            except AttrFault as fault:
                faults.append(Diag("E0103", at, {"key": key, "expected": fault.args[0]}, span))
            except Refused as fault:
                faults += [Diag(d.code, at, d.facts, span) for d in fault.diags]
        elif is_required:
            code = "E1005" if key == "dtype" else "E0104"
            faults.append(Diag(code, at, {"key": key, "kind": kind}, span))
    refuse_all(faults)
    return tuple(read)


def model_of(tree: Any, whole: str) -> Model:
    """The Model of a tree of rule `model`."""
    inputs, outputs, ranges, shape_sets = [], [], [], []
    for part in tree.children[1:]:
        if part.data == "tensor":
            direction, name, type_token, attrs_token = part.children
            token = name.children[0]
            span = token_span(token)
            items = read_at(read_attrs, attrs_token, whole) if attrs_token is not None else ()
            attrs = read_schema(
                items, TENSOR_ATTRS, name_of(token), token_span(attrs_token) if attrs_token is not None else span
            )
            tensor = Tensor(name_of(token), read_at(read_type, type_token, whole), attrs, span=span)
            (inputs if direction == "in" else outputs).append(tensor)
        elif part.data == "range":
            symbol, low, high = part.children
            span = Span(symbol.start_pos, high.end_pos, symbol.line, symbol.column)
            ranges.append(Range(str(symbol), integer_of(low), integer_of(high), span=span))
        else:
            name, sizes = part.children
            items = read_at(read_attrs, sizes, whole)
            read = read_schema(
                items, {k: ("int", True) for k, _ in items}, name_of(name.children[0]), token_span(sizes)
            )
            shape_sets.append(Shapes(name_of(name.children[0]), read, span=token_span(sizes)))
    return Model(name_of(tree.children[0].children[0]), tuple(inputs), tuple(outputs), tuple(ranges), tuple(shape_sets))


def origin_of(tree: Any) -> Origin:
    """The Origin of a tree of rule `origin`."""
    name, op, line, column = tree.children
    return Origin(name_of(name.children[0]), name_of(op.children[0]), int(line or 0), int(column or 0))


def show_model(model: Model) -> str:
    """The signature's text, ending in a line break."""
    lines = [f"model {show_name(model.name)}"]
    for word, tensors in (("in ", model.inputs), ("out", model.outputs)):
        lines += [f"  {word} {show_name(t.name):<11} : {t.type}{show_attrs(t.attrs, TENSOR_ATTRS)}" for t in tensors]
    lines += [f"  sym {r.symbol} in {r.low}..{r.high}" for r in model.ranges]
    for s in model.shape_sets:
        lines.append(f"shapes {show_name(s.name)} {{{', '.join(f'{k}={v}' for k, v in s.sizes)}}}")
    return "\n".join(lines) + "\n"


def check_model(model: Model) -> list[Diag]:
    """Invariants of every signature:

    1. no two inputs and no two outputs share a name                           (E1301)
    2. role, mutability, storage and layout are of their few words             (E1302)
    3. alignment is a power of two                                             (E1314)
    4. a state is of one type and layout where it is read and written          (E1315)
    5. what is updated may be, and is so by one output alone                   (E1316)
    6. a symbol has one range, and there is a size in it; a shape set has its name alone  (E0201, E0103)
    7. a shape set names every symbol and nothing else, with sizes in range    (E1303)
    8. the bytes of a tensor are numbered by integers of 64 bits               (E0006)
    """
    diags = []
    for tensors in (model.inputs, model.outputs):
        seen: dict[str, Tensor] = {}
        for t in tensors:
            if t.name in seen:
                diags.append(Diag("E1301", t.name, {"name": t.name}, t.span))
            seen[t.name] = t
            for key, value in t.attrs:
                if key in CHOICES and value not in CHOICES[key]:
                    diags.append(
                        Diag("E1302", t.name, {"key": key, "given": value, "known": ", ".join(CHOICES[key])}, t.span)
                    )
            extents = [size.constant for size in t.type.shape]
            if None not in extents and math.prod(extents) * t.type.dtype.bytes > MOST_BYTES:
                what = Phrase("a tensor of more than {most} bytes ({type})", most=MOST_BYTES, type=str(t.type))
                diags.append(Diag("E0006", t.name, {"what": what}, t.span))
            if not is_alignment(t.attr("alignment")):
                facts = {"tensor": t.name, "given": t.attr("alignment"), "most": MOST_ALIGNMENT}
                diags.append(Diag("E1314", t.name, facts, t.span))
    diags += _check_states(model)
    for names in ([r.symbol for r in model.ranges], [s.name for s in model.shape_sets]):
        diags += [Diag("E0201", name, {"name": name}) for at, name in enumerate(names) if name in names[:at]]
    for r in model.ranges:
        if not 0 <= r.low <= r.high:
            diags.append(Diag("E0103", r.symbol, {"key": r.symbol, "expected": "least..greatest"}, r.span))
    symbols = model.symbols()
    for s in model.shape_sets:
        sizes = dict(s.sizes)
        for name in [n for n in symbols if n not in sizes]:
            facts = {"set": s.name, "symbol": name, "fault": Phrase("has no size")}
            diags.append(Diag("E1303", s.name, facts, s.span))
        for name, size in s.sizes:
            bounds = model.range_of(name)
            if name not in symbols:
                diags.append(
                    Diag(
                        "E1303",
                        s.name,
                        {"set": s.name, "symbol": name, "fault": Phrase("is not a symbol of the signature")},
                        s.span,
                    )
                )
            elif not bounds.low <= size <= bounds.high:
                diags.append(
                    Diag(
                        "E1303",
                        s.name,
                        {
                            "set": s.name,
                            "symbol": name,
                            "fault": Phrase(
                                "is {size}, outside {low}..{high}", size=size, low=bounds.low, high=bounds.high
                            ),
                        },
                        s.span,
                    )
                )
    return diags


def _check_states(model: Model) -> Iterator[Diag]:
    updated: dict[str, Tensor] = {}
    for output in model.outputs:
        state = model.state_of(output)
        if state is None:
            continue
        given = model.input(state)
        fault, other = "", given
        if given is None:
            known = ", ".join(t.name for t in model.inputs[:8]) or Phrase("none")
            fault = Phrase("no input is called {state} (the inputs: {known})", state=state, known=known)
        elif is_fixed(given) and output.attr("updates") is not None:
            fault = Phrase("{state} is a constant of the model", state=state)
        elif dict(given.attrs).get("mutability") == "immutable":
            fault = Phrase("{state} is declared immutable", state=state)
        elif state in updated:
            fault, other = Phrase("{other} updates it too", other=updated[state].name), updated[state]
        elif (given.type, is_exchanged(given)) != (output.type, is_exchanged(output)):
            facts = {"tensor": state, "given": _told(given), "written": _told(output)}
            labels = (Label(given.span, Phrase("read here")),) if given.span else ()
            yield Diag("E1315", output.name, facts, output.span, labels)
        updated.setdefault(state, output)
        if fault:
            labels = (Label(other.span, Phrase("declared here")),) if other is not None and other.span else ()
            yield Diag(
                "E1316", output.name, {"output": output.name, "state": state, "fault": fault}, output.span, labels
            )
    for one in model.inputs:
        if one.attr("mutability") == "mutable" and one.name not in updated:
            yield Diag("W2105", one.name, {"tensor": one.name}, one.span)
        if one.attr("updates") is not None:
            fault = Phrase("it is an input, and only an output updates something")
            yield Diag("E1316", one.name, {"output": one.name, "state": one.attr("updates"), "fault": fault}, one.span)


def _told(tensor: Tensor) -> str:
    """The type of a state, and its layout where that is not the usual one."""
    return Phrase("{type} in columns", type=tensor.type) if is_exchanged(tensor) else str(tensor.type)
