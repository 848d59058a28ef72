"""Translation validation of regions: the analysis that a text states is the one that the maps of its regions give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import region
from ..ir.region import Analysis, Region
from ..kit.diag import Diag
from ..kit.records import fields
from .regions import analyse


def validate_regions(module: region.Module) -> list[Diag]:
    """A diagnostic (E1413) for each word of an analysis that is not what the maps of its region give. A region without
    an analysis says nothing false."""
    return [
        said for one in module.program.regions if one.analysis is not None for said in _faults_of(one, one.analysis)
    ]


def _faults_of(one: Region, given: Analysis) -> Iterator[Diag]:
    wanted = analyse(one)
    for field in (f.name for f in fields(Analysis) if f.compare):
        left, right = getattr(given, field), getattr(wanted, field)
        if left != right:
            yield Diag(
                "E1413",
                one.name,
                {"word": field, "given": _shown(left), "wanted": _shown(right)},
                dict(given.places).get(field, one.span),
            )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(v if isinstance(v, str) else ": ".join(map(str, v)) for v in value) + "]"
    return str(value)
