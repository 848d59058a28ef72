"""Corrections that a machine can apply to NodeId JSON, and symbols that follow from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..ir.expr import ONE, Expr
from ..ir.rules import fitting, product
from ..ir.types import TensorType
from ..kit.diag import Edit, Refused
from ..kit.quote import json_line, quoted
from ..kit.records import dataclass
from .builder import Operand, Ref, broadcast
from .jsontext import Node, Places, without_comments
from .nodeops import default_acc


@dataclass(frozen=True, slots=True)
class MissingReshape:
    """The operand at `position` fits as `shape`; `edit` puts the RESHAPE into the text."""

    position: int
    shape: tuple[Expr, ...]
    edit: Edit


def missing_reshape(
    text: str, places: Places, node: Node, operands: Sequence[Operand], taken: Iterable[str]
) -> MissingReshape | None:
    """Where axes of size 1 put into the smaller of two operands make them broadcast: the new node before the
    faulty one, which reads it (seed 000 section 5.3). None where 1s do not help."""
    refs = [(i, o) for i, o in enumerate(operands) if isinstance(o, Ref)]
    if len(refs) != 2 or refs[0][1].rank == refs[1][1].rank:
        return None
    (position, small), (_, big) = sorted(refs, key=lambda entry: entry[1].rank)
    source = node.get("src").value[position]
    shape = fitting(small.shape, big.shape)
    if product(shape) != product(small.shape) or not isinstance(source.value, str):
        return None
    try:
        broadcast(TensorType(big.dtype, shape), big.type)
    except Refused:
        return None
    key, own = ("id", node.get("id")) if node.get("id") is not None else ("out", node.get("out"))
    if own is None:
        return None
    name = f"{source.value}_r"
    while name in set(taken):
        name += "r"
    line = text.rfind("\n", 0, node.start) + 1
    indent = text[line : node.start] if not text[line : node.start].strip() else " "
    new = json_line(
        {key: name, "uop": "RESHAPE", "src": [source.value], "arg": {"result_shape": [d.plain for d in shape]}},
        is_compact=True,
    )
    rest = text[node.start : source.start] + quoted(name)
    return MissingReshape(position, shape, Edit(places.span(node.start, source.end), f"{new},\n{indent}{rest}"))


def missing_dtype(places: Places, arg: Node | None, x: Ref | None, op: str) -> Edit | None:
    """The usual dtype put into the attributes of a REDUCE that states none."""
    if arg is None or x is None or not isinstance(arg.value, dict) or not arg.value:
        return None
    last = max(m.node.end for m in arg.value.values())
    return Edit(places.span(last, last), f',"dtype":"{default_acc(x, op).name}"')


def unpermuted(text: str, places: Places, node: Node, permute: Node, is_kept: bool) -> Edit | None:
    """The edit that lets the RESHAPE `node` read what the PERMUTE before it reads (seed 000 section 5.3). The PERMUTE
    goes, with its line where it has one of its own, unless another reads it too (`is_kept`). None where it cannot be
    taken out."""
    source = node.get("src").value[0]
    before = permute.get("src").value[0]
    changes = [(source.start, source.end, text[before.start : before.end])]
    if not is_kept:
        rest = _LISTED.match(text, permute.end)
        if rest is None:  # the last of the list: the comma before it goes
            comma = re.search(r",\s*$", without_comments(text)[: permute.start])
            if comma is None:
                return None
            changes.append((comma.start(), permute.end, ""))
    if not is_kept and rest is not None:
        line = text.rfind("\n", 0, permute.start) + 1
        is_own_line = not text[line : permute.start].strip() and rest["line"] is not None
        changes.append((line if is_own_line else permute.start, rest.end() if is_own_line else rest.end("comma"), ""))
    changes.sort()
    start, end = changes[0][0], changes[-1][1]
    parts, at = [], start
    for low, high, new in changes:
        parts += [text[at:low], new]
        at = high
    return Edit(places.span(start, end), "".join(parts))


_LISTED = re.compile(r"(?P<comma>[ \t\r\n]*,[ \t]*)(?P<line>(//[^\n]*)?\r?\n)?")


def solved_symbol(source: Sequence[Expr], result: Sequence[Expr], known: set[str]) -> tuple[str, Expr] | None:
    """The symbol that must be something for a RESHAPE from `source` to `result` to hold, and what; None when it holds,
    or nothing follows. Only a symbol that no input has, or one that is an input's whole size, is ever solved."""
    if product(source) == product(result):
        return None
    left, right = [d for d in source if d != ONE], [d for d in result if d != ONE]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    if not left or not right:
        return None
    new = right[-1].name
    if new is not None and new not in known and new not in left[-1].names() and (len(left) > 1 or len(right) == 1):
        return new, left[-1]
    whole, parts = left[0].name, product(right)
    is_new = any(n not in known for n in parts.names())
    if len(left) == 1 and whole is not None and whole in known and is_new and whole not in parts.names():
        return whole, parts
    return None
