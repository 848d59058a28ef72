"""What was fused and what was not, and why: a remark for each edge between computed values, in the program's order, and
for each rewrite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis.compute_at import ComputeAt, Witness, edges_of
from ...ir import poly
from ...ir.region import Region
from ...kit.diag import Diag
from ...kit.groups import lists_of
from ...kit.phrase import Phrase
from .fuse import Partition, Verdict
from .keep_barriers import barriers

HALO_TILE = 32  # points along each axis with a halo of the tile for which elements and bytes are told
CODE_OF = {
    "share_values": "R3462",
    "hoist_invariant": "R3463",
    "distribute": "R3464",
    "apply_epilogue": "R3465",
}


def verdicts_of(found: Partition) -> list[Verdict]:
    """The verdict on each edge of the graph."""
    said = [
        _verdict(s, reader.name, found)
        for reader in found.graph.nodes.values()
        for s in reader.sources
        if s in found.graph.nodes
    ]
    seen = {(v.source, v.reader) for v in said}
    return said + [v for pair, v in found.verdicts.items() if v.rule == "sibling" and pair not in seen]


def _verdict(source: str, reader: str, found: Partition) -> Verdict:
    known = found.verdicts.get((source, reader))
    home = found.cluster_of(source)
    if (
        known is not None
        and known.is_fused
        and (
            known.rule in ("deferred", "compute at", "stored", "prologue") or home is None and source not in found.free
        )
    ):
        return known
    if (
        home is None
        or source in found.free
        and all(source in c.copies for c in found.clusters.values() if reader in c.members)
    ):
        return Verdict(source, reader, True, "copy", found.bytes_of(source))
    if reader in home.members:
        return (
            known
            if known is not None and known.is_fused
            else Verdict(source, reader, True, "same point", found.bytes_of(source))
        )
    if known is not None and not known.is_fused:
        return known
    return Verdict(source, reader, False, "other point" if known is None else known.rule, found.bytes_of(source))


def remarks_on(found: Partition, merged: Mapping[str, tuple[tuple[str, str], ...]], module: poly.Module) -> list[Diag]:
    """R3401 for what shares a kernel, R3402 for what goes through memory, R3403 for folds and R3461 for values that
    became one, R3404 and R3405 for rows between two contractions."""
    span_of = {v.name: v.span for v in module.index.tiny.values}
    said = [
        Diag("R3461", gone, {"gone": gone, "kept": kept}, span_of.get(gone)) for gone, kept in merged["merge_equal"]
    ]
    said += [
        Diag("R3403", outer, {"inner": inner, "outer": outer}, span_of.get(outer))
        for inner, outer in merged["merge_reduces"]
    ]
    needs = Needs(module, merged)
    for v in verdicts_of(found):
        facts = {
            "source": v.source,
            "reader": v.reader,
            "rule": v.rule,
            "shows": v.witness or "-",
            "bytes": v.saved,
            **dict(v.numbers),
        }
        facts |= needs.facts_of(v, found.graph.types[v.source].dtype.bytes) | {
            "saved": 2 * v.saved if v.is_fused else 0
        }
        said.append(Diag("R3401" if v.is_fused else "R3402", v.source, facts, span_of.get(v.source)))
    for value, reason in found.attentions.items():
        facts = {"value": value, "bytes": found.bytes_of(value), **({"reason": reason} if reason else {})}
        said.append(Diag("R3405" if reason else "R3404", value, facts, span_of.get(value)))
    return said


def rewrites_on(name: str, before: Region, after: Region) -> Iterator[Diag]:
    """A remark on what one rewrite did to a region; R3466 for each barrier between its folds, once their order is
    settled."""
    if name == "keep_barriers":
        for earlier, later in barriers(after):
            yield Diag("R3466", after.name, {"region": after.name, "earlier": earlier, "later": later}, after.span)
    elif after != before:
        old = {let.name: let.expr for let in before.lets}
        changed = [let.name for let in after.lets if old.get(let.name) != let.expr]
        changed += [y.output for y, was in zip(after.yields, before.yields) if y != was]
        yield Diag(CODE_OF[name], after.name, {"region": after.name, "values": ", ".join(changed)}, after.span)


class Needs:
    """What the dependences of the poly text say of each edge: whether each element is needed at one point, and else a
    witness and a halo."""

    def __init__(self, module: poly.Module, merged: Mapping[str, tuple[tuple[str, str], ...]]):
        self.found = {(e.source, e.reader): e for e in edges_of(module)}
        # The reader of a product is the contraction that takes it in, and a merged fold's the one that took its place.
        self.block_of = {p: b.name for b in module.blocks for p in b.fuses}
        self.inner_of = {outer: inner for inner, outer in merged["merge_reduces"]}
        self.gone_of = lists_of((kept, gone) for gone, kept in merged["merge_equal"])

    def facts_of(self, verdict: Verdict, bytes_each: int) -> dict[str, Any]:
        """legal, witness, halo (by axis), halo_elements and halo_bytes (of a tile, beyond its own)."""
        edge = self._edge(verdict.source, verdict.reader)
        if edge is None:  # from a product to the contraction that sums it, or between siblings: nothing is needed twice
            return {"legal": True, "witness": "-", "halo": "-", "halo_elements": 0, "halo_bytes": 0}
        halo = ", ".join(f"{axis}: {'?' if n is None else n}" for axis, n in edge.halo)
        elements = _beyond([n or 0 for _, n in edge.halo])
        return {
            "legal": edge.is_legal,
            "witness": _shown(verdict.source, edge.witness),
            "halo": halo or "-",
            "halo_elements": elements,
            "halo_bytes": elements * bytes_each,
        }

    def witness_of(self, source: str, reader: str) -> Witness | None:
        """An element of `source` that two points of `reader` need; None where each is needed at one."""
        edge = self._edge(source, reader)
        return edge.witness if edge is not None else None

    def _edge(self, source: str, reader: str) -> ComputeAt | None:
        readers = [r for r in (reader, self.block_of.get(reader), self.inner_of.get(reader)) if r]
        return next(
            (
                self.found[s, r]
                for s in (source, *self.gone_of.get(source, ()))
                for r in readers
                if (s, r) in self.found
            ),
            None,
        )


def _beyond(halos: list[int]) -> int:
    """The elements that a tile needs beyond its own points when it shares this number with each neighbour."""
    return math.prod(HALO_TILE + h for h in halos) - math.prod(HALO_TILE for _ in halos)


def _shown(source: str, witness: Witness | None) -> str:
    """The witness as text: an element, and two points that need it."""
    if witness is None:
        return "-"
    element, first, second = (f"[{', '.join(map(str, at))}]" for at in (witness.element, witness.first, witness.second))
    axes, sizes = ", ".join(witness.axes), ", ".join(f"{n} = {v}" for n, v in witness.sizes)
    if sizes:
        return Phrase(
            "%{source}{element} is needed at {first} and {second} of [{axes}] for {sizes}",
            source=source,
            element=element,
            first=first,
            second=second,
            axes=axes,
            sizes=sizes,
        )
    return Phrase(
        "%{source}{element} is needed at {first} and {second} of [{axes}]",
        source=source,
        element=element,
        first=first,
        second=second,
        axes=axes,
    )
