"""Expressions of the graph DSL: what gives values, and what spells attributes.

A number is a literal until a value needs it, and takes that value's dtype. Two values of an op have one shape, or one
has no axes (seed 003, "explicit shape conversions only"), and dtypes of which one holds the other.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir.expr import Expr
from ..ir.read import name_of
from ..ir.rules import holds_product
from ..ir.types import DTYPES, TensorType, promote
from ..ir.unknown import unknown_name
from ..kit.diag import Diag, Label, Refused, refuse, refuse_all
from ..kit.phrase import Listing, Phrase
from ..kit.records import dataclass, field
from ..kit.span import Span
from ..kit.text import token_span
from .builder import Builder, Literal, Operand, Ref, accumulator, broadcast
from .ops import ELEMENTWISE, Attrs, check_attrs
from .ops.table import put_in
from .shorttypes import dtype_of, read_short

Value = Operand | tuple[Ref, ...] | None  # None: something was wrong with it, and that has been said
WORDS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "rem",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
}
MOST_NESTING = 200
MOST_DIGITS = 300  # of one number


class Outputs(tuple):
    """What an op gives whose outputs behind the first nobody must take."""

    def taken(self, count: int) -> Ref | tuple[Ref, ...]:
        """As much as `count` names take."""
        return self[0] if count == 1 else tuple(self[:count])


class Poisoned(Exception):
    """An operand has a fault that has been said already."""


@dataclass(slots=True)
class Scope:
    """One graph while it is being built: its variables, and what its shape variables mean."""

    symbols: dict[str, Expr]
    variables: dict[str, Value] = field(default_factory=dict)
    depth: int = 0


@dataclass(slots=True)
class Args:
    """The arguments of a call as trees: by place, and by name."""

    placed: list[Any]
    named: dict[str, Any]


def span_of_tree(tree: Any) -> Span | None:
    """Where a tree or token is."""
    if hasattr(tree, "start_pos"):
        return token_span(tree)
    meta = tree.meta
    return None if meta.empty else Span(meta.start_pos, meta.end_pos, meta.line, meta.column)


def args_of(tree: Any, receiver: Any = None) -> Args:
    """The arguments of a call, a method's receiver first. Raises Refused (E0108 one named twice)."""
    found = Args([receiver] if receiver is not None else [], {})
    for arg in tree.children if tree is not None else ():
        if getattr(arg, "data", "") != "named":
            found.placed.append(arg)
            continue
        key = str(arg.children[0])
        if key in found.named:
            raise refuse("E0108", key=key, span=span_of_tree(arg))
        found.named[key] = arg.children[1]
    return found


_OF_A_CALL = ("E0102", "E0103", "E0104", "E0108", "E0204")  # what is wrong with how a function is called


def _placed(d: Diag, tree: Any, forms: Any) -> Diag:
    """A fault where the smallest expression is that has it; of a call, with how the function is called."""
    if d.span is not None:
        return d
    labels = d.labels
    if d.code in _OF_A_CALL and tree.data in ("call", "method"):
        name = str(tree.children[0]) if tree.data == "call" else str(tree.children[1])[1:]
        form = forms.form_of(name)
        labels = (*labels, Label(span_of_tree(tree), Phrase("it is written {form}", form=form))) if form else labels
    return Diag(d.code, d.at, d.facts, span_of_tree(tree), labels, d.edit)


class Evaluator:
    """Expressions in one scope. `known` holds the values of calls of other graphs, which are inlined beforehand, by the
    id of their tree."""

    def __init__(
        self,
        builder: Builder,
        scope: Scope,
        text: str,
        known: Mapping[int, Value],
        calls: Any,
        forms: Any,
        graphs: Iterable[str] = (),
    ):
        self.b = builder
        self.scope = scope
        self.text = text
        self.known = known
        self.calls = calls
        self.forms = forms
        self.graphs = tuple(graphs)
        self._nesting = 0

    # --- values

    def value(self, tree: Any) -> Operand:
        """The value of an expression. Raises Refused, with the smallest place, and Poisoned."""
        self._nesting += 1
        if self._nesting > MOST_NESTING:
            raise refuse(
                "E0006",
                what=Phrase("nesting of an expression (at most {most})", most=MOST_NESTING),
                span=span_of_tree(tree),
            )
        try:
            found = self._value(tree)
        except Refused as fault:
            raise Refused([_placed(d, tree, self.forms) for d in fault.diags]) from None
        finally:
            self._nesting -= 1
        if found is None:
            raise Poisoned
        if isinstance(found, Outputs):
            return found.taken(1)
        if isinstance(found, tuple):
            raise refuse(
                "E0205", op=Phrase("a call in an expression"), given=len(found), wanted=1, span=span_of_tree(tree)
            )
        return found

    def values(self, tree: Any, count: int) -> Operand | tuple[Ref, ...]:
        """The value, or several, of the right side of a statement, for `count` names."""
        if tree.data in ("call", "method"):
            try:
                found = self._value(tree)
            except Refused as fault:
                raise Refused([_placed(d, tree, self.forms) for d in fault.diags]) from None
            if found is None:
                raise Poisoned
            return found.taken(count) if isinstance(found, Outputs) else found
        return self.value(tree)

    def _value(self, tree: Any) -> Value:
        if id(tree) in self.known:
            return self.known[id(tree)]
        kind = tree.data
        if kind in ("int", "float"):
            return Literal(_number(tree))
        if kind == "ident":
            return self.variable(tree)
        if kind == "prefix":
            return self.prefix(tree)
        if kind == "binary":
            return self.binary(str(tree.children[1]), tree.children[0], tree.children[2])
        if kind == "call":
            return self.calls.call(self, str(tree.children[0]), args_of(tree.children[1]), False)
        if kind == "method":
            return self.calls.call(self, str(tree.children[1])[1:], args_of(tree.children[2], tree.children[0]), True)
        if kind == "fused":
            return self.fused(tree)
        raise self.unexpected(tree, Phrase("a value"))

    def variable(self, tree: Any) -> Value:
        """What a name is: a value, a tuple of them, or a shape variable as a number."""
        name = name_of(tree.children[0])
        if name in self.scope.variables:
            return self.scope.variables[name]
        if name in ("true", "false"):
            return Literal(name == "true")
        if name in ("inf", "nan"):
            return Literal(float(name))
        if name in self.scope.symbols:
            return self.b.const(self.scope.symbols[name], DTYPES["i64"])
        raise refuse("E0202", name, **unknown_name(name, self.scope.variables))

    def prefix(self, tree: Any) -> Operand:
        """A prefix operator on an operand."""
        sign, x = str(tree.children[0]), self.value(tree.children[1])
        if isinstance(x, Literal):
            if sign == "!":
                return Literal(not x.value)
            return Literal(-x.value if sign == "-" else x.value)
        return x if sign == "+" else self.elementwise("neg" if sign == "-" else "not", [x])

    def binary(self, sign: str, left: Any, right: Any) -> Operand:
        """A binary operator on two operands, a scalar broadcast to the other's shape."""
        x, y = self.value(left), self.value(right)
        if isinstance(x, Literal) and isinstance(y, Literal):
            try:
                return Literal(_computed(sign, x.value, y.value))
            except OverflowError:
                raise refuse("E0013", given=Phrase("the value of {sign}", sign=sign)) from None
        if sign == "@":
            return self.calls.call(self, "matmul", Args([left, right], {}), False)
        return self.elementwise(WORDS[sign], [x, y])

    def elementwise(self, fn: str, operands: Sequence[Operand], attrs: Mapping[str, Any] | None = None) -> Ref:
        """One of the front ends' elementwise functions, on operands that agree."""
        row = ELEMENTWISE[fn]
        checked, faults = check_attrs(row, attrs or {}, fn)
        refuse_all(faults)
        agreed = self.agreed(fn, operands, is_choice=fn == "where")
        return row.lower(self.b, agreed, checked)

    def agreed(self, word: str, operands: Sequence[Operand], is_choice: bool = False) -> tuple[Operand, ...]:
        """Operands of one shape, where those without axes are repeated, and of one dtype. Raises Refused (E1001, E1002,
        E1025)."""
        refs = [o for o in operands if isinstance(o, Ref)]
        if not refs:
            return tuple(operands)
        big = max(refs, key=lambda r: r.rank)
        for ref in refs:
            if ref.rank and ref.shape != big.shape:
                fits = broadcast(big.type, ref.type, word)
                small = ref if ref.shape != fits else big
                facts = {
                    "lhs": big.type,
                    "rhs": ref.type,
                    "small": small.tensor or small.name or "it",
                    "fits": list(fits),
                }
                raise refuse("E1025", word, **facts)
        condition, branches = (operands[:1], operands[1:]) if is_choice else ((), operands)
        dtypes = [o.dtype for o in branches if isinstance(o, Ref)]
        wanted = dtypes[0] if dtypes else None
        for dtype in dtypes[1:]:
            wanted = promote(wanted, dtype)
        if dtypes and wanted not in dtypes:
            raise refuse(
                "E1002",
                word,
                fault=Phrase(
                    "{word} takes one dtype, not {listing}, and a cast would not be exact",
                    word=word,
                    listing=Listing(dict.fromkeys(dtypes), " and "),
                ),
            )
        chosen = self.b.agree(*branches, dtype=wanted if len(set(dtypes)) > 1 else None) if branches else ()
        return tuple(self.b.expand(o, big.shape) if isinstance(o, Ref) else o for o in (*condition, *chosen))

    def fused(self, tree: Any) -> Ref:
        """fused(a, b) { a + b }, fused_reduce(a, b, axis=0, op=sum) { a * b }, fused_cumulative(x, axis=0, op=sum) { x
        }: the body, and its reduction or scan. What is fused is for the later stages to find; the words are accepted
        (seed 003)."""
        word, args, body = str(tree.children[0]), args_of(tree.children[1]), tree.children[2]
        inner = Scope(self.scope.symbols, {}, self.scope.depth)
        for arg in args.placed:
            if getattr(arg, "data", "") != "ident":
                raise refuse(
                    "E0002",
                    hint="",
                    found=self.text[arg.meta.start_pos : arg.meta.end_pos][:40],
                    expected=Phrase("a variable"),
                    span=span_of_tree(arg),
                )
            inner.variables[name_of(arg.children[0])] = self.value(arg)
        stated = {key: self.plain(item) for key, item in args.named.items()}
        op = str(stated.pop("op", "sum")).lower()
        axes = [stated.pop(key) for key in ("axis", "axes") if key in stated]
        if stated or word == "fused" and (axes or args.named) or word != "fused" and len(axes) != 1:
            raise refuse(
                "E0104" if not stated and word != "fused" else "E0102",
                word,
                key=next(iter(stated), "axis"),
                known="axis, op",
                kind="int",
            )
        evaluator = Evaluator(self.b, inner, self.text, self.known, self.calls, self.forms)
        found = evaluator.value(body)
        found = found if isinstance(found, Ref) else ELEMENTWISE["identity"].lower(self.b, (found,), Attrs())
        if word == "fused":
            return found
        axes = axes[0] if isinstance(axes[0], list) else axes
        if word == "fused_reduce":
            if op == "sum" and body.data == "binary" and str(body.children[1]) == "*":
                _widen(found)
            return self.calls.reduced(self, op, found, {"axes": axes})
        return self.calls.scanned(self, op, found, {"axis": axes[0]})

    # --- attributes

    def plain(self, tree: Any) -> Any:
        """What an attribute spells: a number, a size, a word, a string, a type, or a list of these. Raises Refused
        (E0002, E0202)."""
        kind = tree.data
        if kind in ("int", "float"):
            return _number(tree)
        if kind == "string":
            return name_of(tree.children[0])
        if kind == "type":
            return self.type(tree.children[0])
        if kind == "list":
            return [self.plain(item) for item in tree.children if item is not None]
        if kind == "ident":
            return self.word(name_of(tree.children[0]))
        if kind == "prefix" and str(tree.children[0]) in "+-":
            found = self.plain(tree.children[1])
            if str(tree.children[0]) == "+":
                return found
            return f"-{found}" if found == "inf" else -_size(found, tree)
        if kind == "binary" and str(tree.children[1]) in _OF_SIZES:
            return self.computed(tree)
        if kind == "call" and str(tree.children[0]) in ("floor", "ceil"):
            found = self.quotient(tree)
            if found is not None:
                return found
        raise self.unexpected(tree, Phrase("a number, a size, a word or a list"))

    def computed(self, tree: Any) -> Any:
        """A sum, a difference or a product of numbers or sizes."""
        word = str(tree.children[1])
        left, right = (self.plain(tree.children[i]) for i in (0, 2))
        if isinstance(left, float) or isinstance(right, float):
            return _computed(word, left, right)
        return _shown(_OF_SIZES[word](_size(left, tree), _size(right, tree)))

    def quotient(self, tree: Any) -> Any:
        """`floor(a/b)` or `ceil(a/b)` of sizes; None for a call of another form."""
        args = args_of(tree.children[1])
        inner = args.placed[0] if len(args.placed) == 1 else None
        if getattr(inner, "data", "") != "binary" or str(inner.children[1]) != "/":
            return None
        top, bottom = (Expr.of(_size(self.plain(inner.children[i]), tree)) for i in (0, 2))
        if bottom.constant is not None and bottom.constant <= 0:
            raise refuse("E1105", divisor=str(bottom), span=span_of_tree(inner))
        return _shown(top // bottom if str(tree.children[0]) == "floor" else top.ceildiv(bottom))

    def unexpected(self, tree: Any, wanted: str) -> Refused:
        """A form that is not what is wanted where it is written."""
        found = self.text[tree.meta.start_pos : tree.meta.end_pos][:40]
        return refuse("E0002", hint="", found=found, expected=wanted, span=span_of_tree(tree))

    def word(self, name: str) -> Any:
        """A shape variable as what it is, a variable that is a number as that, true and false, else the
        word."""
        if name in self.scope.symbols:
            return _shown(self.scope.symbols[name])
        found = self.scope.variables.get(name)
        if isinstance(found, Literal):
            return found.value
        if name in ("true", "false"):
            return name == "true"
        dtype = dtype_of(name)
        return dtype.name if dtype is not None else name

    def type(self, token: Any) -> TensorType:
        """A type, with what the shape variables mean. Raises Refused (E0101, E0134)."""
        found = read_short(token, self.text)
        return TensorType(found.dtype, tuple(bound(d, self.scope.symbols, token) for d in found.shape))


def bound(dim: Expr, symbols: Mapping[str, Expr], token: Any) -> Expr:
    """A size with what its shape variables mean. Raises Refused (E0134 for one that the graph does not declare,
    E1105)."""
    for name in dim.names():
        if name not in symbols:
            raise refuse("E0134", name, span=span_of_tree(token), symbol=name, advice=_declaring(name, symbols))
    return put_in(dim, symbols, span=span_of_tree(token))


def _declaring(name: str, symbols: Iterable[str]) -> Phrase:
    known = ", ".join(symbols)
    if not known:
        return Phrase("declare it with a default: graph<{name}=1>", name=name)
    return Phrase("declare it in the header with a default, {name}=1, or write one of {known}", name=name, known=known)


def _number(tree: Any) -> int | float:
    text = str(tree.children[0])
    found = int(text) if tree.data == "int" and len(text) <= MOST_DIGITS else float(text)
    if tree.data == "int" and len(text) > MOST_DIGITS or found in (float("inf"),):
        raise refuse("E0013", given=text[:20] + "...", span=span_of_tree(tree))
    return found


def _size(item: Any, tree: Any) -> Any:
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        return item
    if isinstance(item, Expr) or isinstance(item, str) and item.isidentifier():
        return Expr.of(item)
    raise refuse("E0002", hint="", found=str(item), expected=Phrase("a size"), span=span_of_tree(tree))


def _shown(size: Any) -> Any:
    """A size as an integer where it is one."""
    return size.constant if isinstance(size, Expr) and size.constant is not None else size


_OF_SIZES = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_OF_NUMBERS = _OF_SIZES | {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _computed(sign: str, x: Any, y: Any) -> Any:
    """What an operator gives on two numbers; integers divide as C has it."""
    if sign in ("/", "%"):
        if y == 0:
            raise refuse("E1105", divisor=y)
        is_whole = isinstance(x, int) and isinstance(y, int)
        quotient = (abs(x) // abs(y)) * (-1 if (x < 0) != (y < 0) else 1) if is_whole else x / y
        return quotient if sign == "/" else x - y * (quotient if is_whole else int(quotient))
    if sign in ("@", "&", "|", "^") and not all(isinstance(n, (int, bool)) for n in (x, y)) or sign == "@":
        raise refuse("E1002", fault=Phrase("{sign} does not take {x} and {y}", sign=sign, x=x, y=y))
    return _OF_NUMBERS[sign](x, y)


def _widen(product: Ref) -> None:
    """A product that only a sum reads does not round before it is added."""
    wide = accumulator(product.dtype)
    if product.op == "MUL" and wide != product.dtype and holds_product(wide, product.dtype):
        product.type = TensorType(wide, product.shape)


def labels_of(operands: Sequence[Any]) -> tuple[Label, ...]:
    """Where each operand comes from, and its type."""
    return tuple(
        Label(o.place.span, Phrase("{tensor} is {type}", tensor=o.tensor or o.name, type=o.type))
        for o in operands
        if isinstance(o, Ref) and o.place.span
    )
