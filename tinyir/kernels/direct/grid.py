"""Where the block of a thread of a direct kernel begins, and which CTA has which tile."""

from __future__ import annotations

from ...ir.body import Axis
from ...ir.expr import Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..parts.guards import guarded_axes
from ..parts.point import Fresh, split
from ..windowed import Windowed
from .block import ACROSS_PLACES, ALONG_PLACES, Block

WORDS = ("rows", "columns", "planes")


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the block of a thread begins. `numbers` count the CTAs, outermost first; `firsts` gives what each group of
    axes begins at, by its word, under `names`."""

    kernel: Windowed
    numbers: tuple[Axis, ...]
    firsts: dict[str, Expr]
    names: dict[str, str]
    over: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, kernel: Windowed, block: Block, fresh: Fresh) -> Grid:
        """That of a plan. `over` are the groups over whose end its tiles hang."""
        places = ACROSS_PLACES if kernel.is_across else ALONG_PLACES
        groups = {word: axes for word, axes in zip(WORDS, kernel.groups) if axes}
        sizes = dict(zip(WORDS, zip(plan.tile, block.reach)))
        numbers: list[Axis] = []
        for axis in kernel.axes:
            word = next((w for w, axes in groups.items() if axes[0] == axis), None)
            if axis in kernel.batch:
                numbers.append(axis)
            elif word is not None:
                numbers.append(Axis(fresh.of(word), extent_of(groups[word]).ceildiv(sizes[word][0])))
        firsts = {w: sizes[w][0] * Expr.of(fresh.of(w)) + sizes[w][1] * Expr.of(places[w]) for w in groups}
        names = {w: axes[0].name if len(axes) == 1 else fresh.of("plane") for w, axes in groups.items()}
        over = tuple(w for w, axes in groups.items() if guarded_axes(axes, sizes[w][0]))
        return cls(kernel, tuple(numbers), firsts, names, over)

    def lets(self) -> list[Statement]:
        """The integers of the block's first result."""
        found = [nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), self.numbers).items()][::-1]
        found += [nodes.Let(self.names[word], first) for word, first in self.firsts.items()]
        if "planes" in self.names and len(self.kernel.planes) > 1:
            parts = split(Expr.of(self.names["planes"]), self.kernel.planes)
            found += [nodes.Let(a.name, parts[a.name]) for a in self.kernel.planes]
        return found

    def planes_at_first(self) -> dict[str, Expr]:
        """The axes of the planes at the block's first result."""
        first, axes = self.firsts["planes"], self.kernel.planes
        parts = {axes[0].name: first} if len(axes) == 1 else split(Expr.of(self.names["planes"]), axes)
        return {name: e.substitute({self.names["planes"]: first}) for name, e in parts.items()}

    def guard(self) -> tuple[Bound, ...]:
        """That there is such a block."""
        groups = dict(zip(WORDS, self.kernel.groups))
        return tuple(Bound(Expr.of(self.names[w]), upper=extent_of(groups[w])) for w in self.over)
