"""The ends of a row that is taken in vectors: what comes before its first whole vector, and behind the last.

let head = 8*floor((C*i0 + 7)/8) - C*i0                      elements before the first whole vector
let whole = floor((C - head)/8)                              whole vectors
let left = thread.x + 8*whole*floor((thread.x + 8 - head)/8) a thread's element of those that are left
for c in thread.x..whole step 64
  let i1 = 8*c + head
  a vector
if thread.x <= left < C                                      of a row that ends before its first whole vector none
  comes twice
  let i1 = left
  an element
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.runs import Run
from ...kit.records import dataclass
from ..parts.point import Fresh


@dataclass(frozen=True, slots=True)
class Ends:
    """A run with the names of its ends, or their numbers where these are known."""

    run: Run
    head: Expr
    whole: Expr
    left: Expr
    thread: Expr

    @staticmethod
    def of(run: Run, fresh: Fresh, thread: Expr) -> Ends:
        """The ends of a run that is shared by threads of such numbers."""
        head = ZERO if run.start == ZERO else Expr.of(fresh.of("head"))
        count = run.whole(head)
        is_named = not run.is_whole and count.constant is None
        return Ends(run, head, Expr.of(fresh.of("whole")) if is_named else count, Expr.of(fresh.of("left")), thread)

    def lets(self) -> tuple[Statement, ...]:
        """The integers that the names mean."""
        if self.run.is_whole:
            return ()
        given = (
            (self.head, self.run.head),
            (self.whole, self.run.whole(self.head)),
            (self.left, self.run.left(self.thread, self.head, self.whole)),
        )
        return tuple(nodes.Let(str(name), e) for name, e in given if name.name is not None and name != e)

    def at_left(self, let: Statement, lines: Iterable[Statement]) -> list[Statement]:
        """What is done at the element that is left to a thread, under its name."""
        low = None if self.head == ZERO else self.thread
        return [nodes.If((Bound(self.left, low, self.run.extent),), (let, *lines))]
