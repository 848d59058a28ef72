"""What the CTAs of one launch tell one another, in whatever order they run.

A ticket numbers CTAs as they come, so that those with smaller numbers run already, or have ended. What a CTA publishes
others wait for in `look_back`: the tiles before its own, by a tree of 32 branches that does not depend on who was
first, so that sums come out the same at each run.

    status[0, r, t]   what tile t of row r folds to, from the CTA that publishes it
    status[1, r, t]   what the 32 tiles from 32*t on fold to, from the last of them to look back
    status[2, r, t]   what the 1024 tiles from 1024*t on fold to, likewise

A word of status is 0 until it is published; a value of 4 bytes is its upper half, another is at the same place of
`held`, written before.
"""

from __future__ import annotations

from ...kit.records import dataclass
from ...kit.span import Spanned
from ..expr import Expr
from .memory import Place


@dataclass(frozen=True, slots=True)
class Ticket(Spanned):
    """`ticket turn of scan.ticket[0] below 12 via place`: this CTA's number in the order in which CTAs come, of the 12
    that there are. `place` is shared memory of one i32; the counter counts from 0."""

    name: str
    source: Place
    extent: Expr
    via: str


@dataclass(frozen=True, slots=True)
class Publish(Spanned):
    """`publish total to scan.status[0, row, tile]`, `with scan.held` behind it where the value has 8 bytes: one thread
    says what the tile folds to; `total` has one element, alike in all threads."""

    name: str
    to: Place
    held: str = ""


@dataclass(frozen=True, slots=True)
class LookBack(Spanned):
    """`look_back sum total from scan.status[0, row, tile] via before`: `total`, which was published there, becomes what
    the tiles before fold to, alike in all threads. One warp waits for what they publish; of 32 or 1024 tiles the last
    publishes what they fold to. `before` is shared memory of one element."""

    op: str
    name: str
    source: Place
    via: str
    held: str = ""


ACROSS = (Ticket, Publish, LookBack)
