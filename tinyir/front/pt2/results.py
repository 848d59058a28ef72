"""What a node becomes: a value that is known, or ops of the front ends."""

from __future__ import annotations

from typing import Any

from ...kit.phrase import Phrase
from ..program.terms import MAX_KNOWN, Term, known
from .call import Call
from .complexes import has_complex
from .table import ATEN_OPS, COMPLEX_OPS, FOLDS


def is_translated(word: str) -> bool:
    """Whether an op has a translation, of real operands or of complex ones."""
    return word in ATEN_OPS or word in COMPLEX_OPS


def result_of(call: Call) -> Any:
    """A term, or a tuple of them. Raises Refused (E0144)."""
    if not has_complex(call):
        found = _folded(call)
        if found is not None:
            return found
        row, fault = ATEN_OPS.get(call.target), Phrase("its operand is not complex")
    else:
        row, fault = COMPLEX_OPS.get(call.target), Phrase("its operand is complex")
    if row is None:
        raise call.fault(fault)
    return call.translated(row)


def _folded(call: Call) -> Term | None:
    """The value of a node of which every tensor is known, where it has one that is short enough."""
    compute = None if has_complex(call) else FOLDS.get(call.target)
    terms = [t for a in call.args.values() for t in (a if isinstance(a, list) else [a]) if isinstance(t, Term)]
    count = 1
    for size in call.shape if call.types else ():
        count *= MAX_KNOWN + 1 if size.constant is None else size.constant
    if compute is None or count > MAX_KNOWN or any(t.known is None or t.known.dtype == object for t in terms):
        return None
    try:
        found = compute(call)
    except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as fault:
        raise call.fault(str(fault).split("\n", 1)[0][:120]) from None
    return None if found is None else known(found, call.dtype)
