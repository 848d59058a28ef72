"""Einsum: sums of products written with letters, two operands at a time."""

from __future__ import annotations

import re

from ...ir.expr import Expr
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from .contraction import acc_dtype, tensor
from .table import MANY, Attr, Attrs, front_op

_HIDDEN = "αβγδεζηθικλμνξο"  # the axes that `...` means, from the right


@front_op("Einsum", inputs=(1, MANY), attrs=[Attr("equation", "string"), Attr("acc_dtype", "dtype", None)])
def einsum(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """NumPy's einsum: "bij,bjk->bik". A letter twice in one operand is its diagonal; `...` broadcasts; without `->` the
    letters that occur once stay, in alphabetical order. Pairs are contracted from the left, in the dtype that they
    accumulate in."""
    refs = [tensor(o, "Einsum", i) for i, o in enumerate(operands)]
    sides, out = _letters(attrs.equation, refs)
    parts = [_diagonal(b, ref, side) for ref, side in zip(refs, sides)]
    found, letters = parts[0]
    acc = attrs.acc_dtype or accumulator(*(r.dtype for r in refs))
    for position, (ref, side) in enumerate(parts[1:], 1):
        later = set(out).union(*(side for _, side in parts[position + 1 :]))
        kept = "".join(dict.fromkeys(c for c in letters + side if c in later))
        if position == len(parts) - 1:
            kept = out
        acc = acc_dtype(b, found, ref, attrs.acc_dtype)
        found, letters = b.contract(found, letters, ref, side, kept, acc), kept
    summed = [i for i, c in enumerate(letters) if c not in out]
    found = b.reduce(found, "SUM", summed, acc) if summed else found
    letters = "".join(c for c in letters if c in out)
    return b.permute(found, [letters.index(c) for c in out])


def _letters(equation: str, refs: list[Ref]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, `...` written out. Raises Refused (E1021)."""
    text = equation.replace(" ", "")
    found = re.fullmatch(r"((?:[A-Za-z]|\.\.\.|,)*)(?:->((?:[A-Za-z]|\.\.\.)*))?", text)
    sides = found[1].split(",") if found else []
    if not found or any(s.count("...") > 1 for s in [*sides, found[2] or ""]):
        raise _bad(equation, Phrase("letters, `,`, `->` and one `...` for each operand are what there can be"))
    if len(sides) != len(refs):
        raise _bad(
            equation, Phrase("it is of {stated} operands, and {given} are given", stated=len(sides), given=len(refs))
        )
    widest = 0
    for i, (side, ref) in enumerate(zip(sides, refs)):
        hidden = ref.rank - len(side.replace("...", ""))
        if hidden < 0 or hidden and "..." not in side or hidden > len(_HIDDEN):
            raise refuse("E1012", op="Einsum", tensor=ref.called, given=ref.type, wanted=len(side.replace("...", "")))
        widest = max(widest, hidden)
        sides[i] = side.replace("...", _HIDDEN[:hidden][::-1])
    every = "".join(sides)
    if found[2] is None:
        out = _HIDDEN[:widest][::-1] + "".join(
            sorted(c for c in set(every) if every.count(c) == 1 and c not in _HIDDEN)
        )
    else:
        out = found[2].replace("...", _HIDDEN[:widest][::-1])
    for letter in out:
        if letter not in every:
            raise _bad(equation, Phrase("no operand has {letter}", letter=letter))
        if out.count(letter) > 1:
            raise _bad(equation, Phrase("the result has {letter} twice", letter=letter))
    return sides, out


def _bad(equation: str, fault: Phrase) -> Refused:
    return refuse("E1021", equation=equation, fault=fault)


def _diagonal(b: Builder, x: Ref, letters: str) -> tuple[Ref, str]:
    """The operand with each letter once, by a VIEW along the diagonals. Raises Refused (E1304)."""
    once = "".join(dict.fromkeys(letters))
    if once == letters:
        return x, letters
    for axis, c in enumerate(letters):
        if x.shape[axis] != x.shape[letters.index(c)]:
            raise refuse(
                "E1304",
                left=f"{x.tensor}[{letters.index(c)}] = {x.shape[letters.index(c)]}",
                right=f"{x.tensor}[{axis}] = {x.shape[axis]}",
            )
    return b.view(x, [x.shape[letters.index(c)] for c in once], [Expr.of(f"i{once.index(c)}") for c in letters]), once
