"""The corrections that diagnostics carry, applied to the source of a model (`tiny-front --fix`)."""

from __future__ import annotations

from ..ir import tiny
from ..kit.diag import Diag, Edit, Refused, refuse_all
from ..kit.spelling import with_edits
from . import read

MOST_ROUNDS = 100


def corrected(text: str, file: str = "") -> tuple[str, list[Diag]]:
    """The source with every correction applied that a fault of it carries, until it holds, and then those of its
    warnings; and what was corrected. Raises Refused when a fault is left that carries none, with the faults of the text
    as it was given."""
    done: list[Diag] = []
    first: Refused | None = None
    found = text
    for _ in range(MOST_ROUNDS):
        notes: list[Diag] = []
        try:
            faults = [d for d in tiny.check(read(found, file, notes)) if d.is_error]
            refuse_all(faults)
            warned = [d for d in notes if d.edit is not None]
            if not warned:
                return found, done
            fixed = warned
        except Refused as fault:
            first = first or fault
            faulty = with_edits(fault.diags, found, has_names=False)
            if any(d.edit is None for d in faulty):
                raise first from None
            fixed = [*faulty, *(d for d in notes if d.edit is not None)]
        done += fixed
        found = _applied(found, _apart([d.edit for d in fixed]))
    raise first or Refused(done)


def _apart(edits: list[Edit]) -> list[Edit]:
    """Those that do not touch one before them, from the last to the first."""
    kept: list[Edit] = []
    end = -1
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        if edit.span.start >= end:
            kept.append(edit)
            end = max(edit.span.end, edit.span.start + 1)
    return kept[::-1]


def _applied(text: str, edits: list[Edit]) -> str:
    for edit in edits:
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
