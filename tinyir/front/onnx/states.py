"""Inputs of an ONNX model that are states: each has an output that is its value for the next run.

Exporters name them so (`past_key_values.0.key` and `present.0.key`), or the caller says which. Where an output has the
type of its input, that is all. A cache grows: the output has more rows. With a room for them the input becomes a tensor
of that many rows, of which the model reads the first ones, and the new ones are put behind these:

    past    : fp16[B, H, P, D]      →    past      : fp16[B, H, 4096, D]   a state
    present : fp16[B, H, P + 1, D]       past.rows = past[:, :, 0:P]       what the model reads
                                         past.new  = present, then past[:, :, P + 1:4096]

One program runs at every length. It is planned for a cache that is all but full, where a step takes the longest, of a
length that nothing divides: so that no length needs another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.expr import Expr
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from ..jsonsignature import default_shapes
from ..program.names import bare
from ..program.ops import Ops
from ..program.program import Program
from ..program.sizes import no_input, unfit
from ..program.terms import Term

STATE = {"role": "state", "mutability": "mutable"}
SPELLED = (("past_key_values", "present"), ("past", "present"))  # how exporters name the two


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller says of states: the output of each input that is one, and the rows that a cache has room for (0:
    it may not grow)."""

    pairs: Mapping[str, str] = field(default_factory=dict)
    room: int = 0


class States:
    """The states of one model, its inputs and outputs by name. Raises Refused (E0128) for a pair that there is not."""

    def __init__(self, wanted: Wanted, inputs: Mapping[str, Any], outputs: Mapping[str, Any], program: Program):
        self.wanted, self.program = wanted, program
        for past, present in wanted.pairs.items():
            if past not in inputs:
                raise no_input(past, inputs)
            if present not in outputs:
                fault = Phrase("{present} is not an output", present=present)
                raise unfit(past, fault, Phrase("outputs: {outputs}", outputs=", ".join(outputs)))
        self.pairs = {p: o for p in inputs if (o := wanted.pairs.get(p, _spelled_as(p, outputs))) is not None}
        self.grown: dict[str, tuple[Term, int]] = {}  # states with room, and the axis along which they grow
        self.lengths: dict[str, str] = {}  # the symbol that says how many rows there are
        self.dropped: set[str] = set()

    def input(self, name: str, term: Term, present: tuple[Expr, ...] | None) -> Term:
        """What the model reads of an input. `present` is the shape that the model states of its new value."""
        axis = _growing(term.shape, present) if name in self.pairs and self.wanted.room else None
        if axis is None:
            return term
        shape = (*term.shape[:axis], Expr.of(self.wanted.room), *term.shape[axis + 1 :])
        self.program.builder.limits.suppose(self.wanted.room - term.shape[axis])
        self.lengths[name] = str(term.shape[axis])
        whole = self.program.input(name, term.dtype, shape, term.form, **STATE)
        self.grown[name] = whole, axis
        return Ops(f"{bare(name)}.rows", self.program).cut(whole, axis, 0, term.shape[axis])

    def settle(self, terms: Mapping[str, Term]) -> None:
        """State which outputs are new values, `terms` what they are. Raises Refused (E0128) for one of another type
        than its state, where the caller asks for it, and (E0018) where nothing grows and a room is asked for."""
        if self.wanted.room and not self.grown:
            of, given = Phrase("models with a cache that grows"), Phrase("a model without one")
            advice = Phrase("leave it out, or say by --state INPUT=OUTPUT which output is the next value of a cache")
            raise refuse("E0018", "--room", options="--room", of=of, given=given, advice=advice)
        for past, present in self.pairs.items():
            new = terms[present]
            if past in self.grown:
                new = self._with_rest(past, new)
                self.dropped.add(present)
            kept = self.program.tensors[past]
            declared = {"dtype": new.dtype.name, "shape": [d.plain for d in new.shape]}
            if declared != {"dtype": kept["dtype"], "shape": kept["shape"]}:
                if past in self.wanted.pairs:
                    raise unfit(
                        past,
                        Phrase(
                            "its new value is {type}; --room says how many rows a cache has room for",
                            type=f"{new.dtype}[{', '.join(map(str, new.shape))}]",
                        ),
                    )
                continue
            kept |= STATE
            self.program.updates[new.name] = past

    def _with_rest(self, past: str, present: Term) -> Term:
        """All rows of a state: the present ones, then the old ones behind them."""
        whole, axis = self.grown[past]
        end, room = present.shape[axis], Expr.of(self.wanted.room)
        self.program.builder.limits.suppose(room - end)
        self._plan_for_room(whole, axis, end)
        ops = Ops(f"{bare(past)}.new", self.program)
        try:
            rest = ops.cut(whole, axis, end, room)
            new = ops.op("Concat", present, rest, axis=axis)
        except Refused:
            raise unfit(
                past, Phrase("{end} rows of {room} leave no rest that can be told", end=end, room=room)
            ) from None
        self.program.rename(new, self.program.fresh(f"{bare(past)}.new"))
        assert new.ref is not None
        self.program.declare(new.name, new.ref)
        return new

    def _plan_for_room(self, whole: Term, axis: int, end: Expr) -> None:
        """Plans are made for a length at which a step leaves one row of the room."""
        grown = self.lengths[whole.name]
        usual = default_shapes(dict.fromkeys(end.names()), self.program.builder.limits.ranges())
        new = (end - grown).evaluate(dict(usual[0].sizes)) if usual else 1
        self.program.planned[grown] = max(self.wanted.room - new - 1, 0)

    def outputs(self, names: list[str]) -> list[str]:
        """The outputs of the program: those of the model, but for caches that grow in their states."""
        news = [n for n in self.program.updates if n not in names]
        return [*(n for n in names if n not in self.dropped), *news]


def _spelled_as(past: str, outputs: Mapping[str, Any]) -> str | None:
    """The output that is called as the new value of an input is."""
    for old, new in SPELLED:
        if old in past and (found := past.replace(old, new, 1)) in outputs:
            return found
    return None


def _growing(past: tuple[Expr, ...], present: tuple[Expr, ...] | None) -> int | None:
    """The one axis along which a new value is of another size than the old one, a symbol."""
    if present is None or len(past) != len(present):
        return None
    found = [axis for axis, (a, b) in enumerate(zip(past, present)) if a != b]
    return found[0] if len(found) == 1 and past[found[0]].name is not None else None
