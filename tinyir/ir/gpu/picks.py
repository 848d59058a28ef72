"""What holds of the tensors and maps that a kernel picks: they are alike, and the number is of the region whose they
are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...kit.records import replace
from ..expr import ZERO, Expr
from . import nodes
from .nodes import Kernel
from .walk import Visit


def check_picks(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1602 for tensors that are not alike or of another region than their number says, E1614 for a number that is not
    below their count."""
    regions = [module.plans.program.program.region(name) for name in kernel.regions]
    owns = [{t.name: t.type for t in (*r.inputs, *r.outputs)} for r in regions]
    for v in walked:
        s = v.statement
        if not isinstance(s, nodes.Pick):
            continue
        found = {name: v.arrays[name] for name in s.of if isinstance(v.arrays.get(name), nodes.TensorMap)}
        tensors = tuple(found[name].tensor if name in found else name for name in s.of)
        fault = ""
        if len(s.of) != len(regions):
            fault = Phrase(
                "picks from {count}, and the kernel is of {count2} regions", count=len(s.of), count2=len(regions)
            )
        elif any(name not in own for name, own in zip(tensors, owns)):
            fault = Phrase("picks a tensor that the region of its number does not have")
        elif (
            len({own[name] for name, own in zip(tensors, owns)}) > 1
            or len({replace(m, name="", tensor="") for m in found.values()}) > 1
        ):
            fault = Phrase("picks from what is not alike")
        if fault:
            yield Diag("E1602", kernel.name, {"name": s.name, "fault": fault}, s.span)
        if not v.facts.is_at_least(s.at, ZERO) or not v.facts.is_below(s.at, Expr.of(len(s.of))):
            yield Diag(
                "E1614", kernel.name, {"place": s.name, "index": str(s.at), "axis": 0, "size": str(len(s.of))}, s.span
            )
