"""What was fused and what was not, and why: a remark for each edge between computed values, in the program's order."""

from __future__ import annotations

from ...ir import poly
from ...kit.diag import Diag
from .fuse import Partition, Verdict


def verdicts_of(found: Partition) -> list[Verdict]:
    """The verdict on each edge of the graph."""
    said: list[Verdict] = []
    for reader in found.graph.nodes.values():
        for source in reader.sources():
            if source in found.graph.nodes:
                said.append(_verdict(source, reader.name, found))
    seen = {(v.source, v.reader) for v in said}
    return said + [v for pair, v in found.verdicts.items() if v.rule == "sibling" and pair not in seen]


def _verdict(source: str, reader: str, found: Partition) -> Verdict:
    known = found.verdicts.get((source, reader))
    home = found.cluster_of(source)
    if home is None or source in found.free and all(source in c.copies for c in found.clusters.values() if reader in c.members):
        return Verdict(source, reader, True, "copy", found.bytes_of(source))
    if known is not None and known.rule == "deferred":
        return known
    if reader in home.members:
        return known if known is not None and known.is_fused else Verdict(source, reader, True, "same point", found.bytes_of(source))
    if known is not None and not known.is_fused:
        return known
    return Verdict(source, reader, False, "other point" if known is None else known.rule, found.bytes_of(source))


def remarks_on(found: Partition, merged: tuple[tuple[str, str], ...], module: poly.Module) -> list[Diag]:
    """R3401 for what shares a kernel, R3402 for what goes through memory, R3403 for folds that became one."""
    span_of = {v.name: v.span for v in module.index.tiny.values}
    said = [Diag("R3403", outer, {"inner": inner, "outer": outer}, span_of.get(outer)) for inner, outer in merged]
    for v in verdicts_of(found):
        facts = {"source": v.source, "reader": v.reader, "rule": v.rule, "bytes": v.saved, "witness": v.witness or "-"}
        said.append(Diag("R3401" if v.is_fused else "R3402", v.source, facts, span_of.get(v.source)))
    return said


__all__ = ["remarks_on", "verdicts_of"]
