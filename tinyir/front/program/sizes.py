"""The sizes that a caller gives to a model whose own are open, and what is said where they cannot be those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.expr import Expr
from ...ir.unknown import nearest
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ..ops.table import read_dim


def unfit(name: str, fault: str, advice: str = "") -> Refused:
    """What a caller says of a model's input or symbol does not fit (E0128): why, and what would."""
    usual = Phrase("a shape is given as --shape {name}=1,80,800, a value as --value {name}=16000", name=name)
    return refuse("E0128", name, tensor=name, fault=fault, advice=advice or usual)


def no_input(name: str, inputs: Iterable[str]) -> Refused:
    """A name that no input has (E0128)."""
    known = list(inputs)
    near = ", ".join(nearest(name, known))
    advice = Phrase("near it: {near}", near=near) if near else Phrase("write the name of an input before the `=`")
    return unfit(name, Phrase("it is not an input; inputs: {inputs}", inputs=", ".join(known)), advice)


def other_shape(name: str, own: Sequence[Expr], words: Sequence[str]) -> Refused:
    """Sizes that are not those that the model has (E0128): what may be said has the model's numbers."""
    sizes = [
        str(o if o.constant is not None else w if len(words) == len(own) else 8) for o, w in zip(own, [*words, *own])
    ]
    fault = Phrase(
        "its shape is [{own}] in the model, not [{given}]", own=", ".join(map(str, own)), given=", ".join(words)
    )
    return unfit(
        name, fault, Phrase("write the model's numbers: --shape {name}={sizes}", name=name, sizes=",".join(sizes))
    )


def size_given(name: str, word: str) -> Expr:
    """The size that a caller gives to an axis of `name`. Raises Refused (E0128)."""
    try:
        size = read_dim(int(word) if word.lstrip("-").isdigit() else word)
    except ValueError:
        size = Expr.of(-1)
    if size.constant is not None and size.constant < 0:
        raise unfit(name, Phrase("{word} is not a size", word=word))
    return size
