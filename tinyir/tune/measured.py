"""Rows of the log for what `tiny-run` timed: the same columns as a trial of the tuner has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..ir import manifest
from ..runtime.run import Report

_PLAN = re.compile(r"^// plan (?P<line>(?P<algo>[^:\n]*): tile \[(?P<tile>[^\]]*)\][^\n]*)$", re.MULTILINE)
_KERNEL = re.compile(r"^(\w+)\(", re.MULTILINE)


def rows_of(module: manifest.Module, report: Report, compiler: str) -> list[list[object]]:
    """A row for the whole program where it was timed, and one for each launch that was profiled. Occupancy and estimate
    are the plan's, which a CUDA text no longer has."""
    device = report.description.split(" (", 1)[0]
    sizes = " ".join(f"{symbol}={size}" for symbol, size in report.sizes.items())
    plans, rows = plans_of(module.source), list[list[object]]()

    def row(name: str, entry: str, flops: int | None, moved: int | None, seconds: float) -> list[object]:
        algo, tile, plan = plans.get(entry, ("", "", ""))
        counts = ["" if n is None else n for n in (flops, moved)]
        return [name, device, compiler, sizes, algo, tile, *counts, "", "", f"{seconds * 1e6:.3f}", "", plan]

    timing, model = report.timing, module.region.model if module.region is not None else None
    if timing is not None and model is not None:
        rows.append(row(model.name, "", timing.flops, timing.bytes, timing.median))
    launches = {launch.name: launch for launch in module.launches}
    for one in report.launches:
        launch = launches[one.name]
        rows.append(row(", ".join(launch.regions), launch.entry, one.flops, one.bytes, one.seconds))
    return rows


def plans_of(source: str) -> Mapping[str, tuple[str, str, str]]:
    """Of each kernel of a CUDA text its algo, its tile and the line that tells its plan, as the comment before it has
    them."""
    found: dict[str, tuple[str, str, str]] = {}
    for told in _PLAN.finditer(source):
        kernel = _KERNEL.search(source, told.end())
        if kernel is not None:
            tile = told["tile"].replace(", ", "x")
            found.setdefault(kernel[1], (told["algo"].split()[-1], tile, told["line"]))
    return found
