"""Statements of a scan at one point: what it folds, and the values that need its result."""

from __future__ import annotations

from ...ir.accumulate import cast, wide
from ...ir.body import Body, Scan
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu.nodes import Statement
from ...ir.region import Region
from ...ir.runs import Run
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from .beyond import beyond_in
from .point import Values, free_axes, needed
from .statements import Statements


@dataclass
class Prefixes(Statements):
    """Statements at one point, where the scans that are `done` are in registers."""

    done: dict[Scan, Body] = field(default_factory=dict)

    def _scanned(self, scan: Scan, values: Values) -> Body:
        if scan not in self.done or any(
            values.point[name] != self.point[name] for name in free_axes(self.region, scan)
        ):
            raise beyond_in(self.region, scan.span, Phrase("a scan at another point than its own"))
        return self.done[scan]

    def element(self, scan: Scan) -> tuple[list[Statement], Body]:
        """What the scan folds at this point, after the values that it needs."""
        lines = self.values(needed(self.region, (scan.body,)))
        value, before = self.body(scan.body)
        return [*lines, *before], cast(value, wide(scan.dtype))


def limits_of(run: Run) -> tuple[Bound, ...]:
    """What says that an element of a vector is one of the row's."""
    low, high = None if run.start == ZERO else ZERO, None if run.is_whole else run.extent
    return () if low is high is None else (Bound(Expr.of(run.axes[0].name), low, high),)


def name_of(region: Region, scan: Scan) -> str:
    """The value or output that the scan makes."""
    return next((let.name for let in region.lets if let.expr == scan), region.outputs[0].name)
