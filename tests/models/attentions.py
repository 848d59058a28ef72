"""List the attentions of models: `python tests/models/attentions.py FILE.onnx ... | NAME ...`.

Prints a table: for each model how many attentions it has, how many of them are one kernel, how many of these are on
tensor cores, and why each other is not. A NAME is one of the exported structures (tests/models/exported.py). An
attention is counted without the rule that finds it: a contraction that sums what a sum of exponentials, and before it
another contraction, were made into.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir import poly, region, tiny  # noqa: E402
from tinyir.kernels.attention import streaming_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.lower import plan as to_plan  # noqa: E402
from tinyir.lower import region as to_region  # noqa: E402
from tinyir.lower.region import graph as graphs  # noqa: E402

ARCHS = ("sm80", "sm90")
TENSOR_CORES = ("streaming_softmax", "streaming_mma")  # the families that compute attention on them
UNSEEN = "its weights were not looked at"


def attentions_of(module: poly.Module) -> list[str]:
    """The second contraction of each attention."""
    graph = graphs.build(module)
    contractions = {n for n, node in graph.nodes.items() if node.is_contraction}
    return [
        name for name in contractions if any(_is_made_of_weights(s, graph, contractions) for s in _inner(name, graph))
    ]


def _inner(name: str, graph: graphs.Graph) -> tuple[str, ...]:
    """What a contraction multiplies."""
    return tuple(
        s for product in graph.nodes[name].sources for s in graph.nodes[product].sources if product in graph.nodes
    )


def _is_made_of_weights(name: str, graph: graphs.Graph, contractions: set[str]) -> bool:
    """Whether a value is a softmax of what a contraction gives, with anything between."""
    seen, pending, kinds = set(), [name], Counter()
    while pending:
        node = graph.nodes.get(pending.pop())
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        if node.name in contractions:
            kinds["contraction"] += 1
            continue
        kinds[node.value.op] += 1
        kinds["sum"] += node.value.op == "REDUCE" and node.value.attr("op") == "SUM" and _sums_exponentials(node, graph)
        pending += node.sources
    return bool(kinds["contraction"] and kinds["sum"])


def _sums_exponentials(node: graphs.Node, graph: graphs.Graph) -> bool:
    """Whether a sum is of exponentials, masked or not."""
    pending = list(node.sources)
    while pending:
        inner = graph.nodes.get(pending.pop())
        if inner is not None and graphs.is_exponential(inner):
            return True
        if inner is not None and inner.value.op in ("WHERE", "CAST", "MUL"):
            pending += inner.sources
    return False


@dataclass(frozen=True, slots=True)
class Report:
    """The attentions of a model: how many there are, how many are one kernel, how many of these on tensor cores by
    arch and family, and why each other is not."""

    count: int
    fired: int
    families: dict[str, Counter[str]]
    reasons: Counter[str]


def report(module: tiny.Module) -> Report:
    """What becomes of the attentions of a model."""
    viewed = lower_to("poly", lower_to("index", module, "sm90"), "sm90")
    said = [d for d in to_region.verdicts(viewed) if d.code in ("R3404", "R3405")]
    reasons = Counter(str(dict(d.facts)["reason"]) for d in said if d.code == "R3405")
    fired = sum(d.code == "R3404" for d in said)
    count = len(attentions_of(viewed))
    if count > len(said):
        reasons[UNSEEN] += count - len(said)
    regions = to_region.lower(viewed)
    firsts = [pair[0] for pair in pairs_of(regions)]
    families = {arch: Counter(family_of(regions, first, arch, reasons) for first in firsts) for arch in ARCHS}
    return Report(count, fired, families, reasons)


def pairs_of(module: region.Module) -> list[tuple[region.Region, region.Region]]:
    """The regions that share a kernel by the rule."""
    regions = module.program.regions
    kept = {t.name: r for r in regions for t in r.outputs if t.attr("materialize") == "deferred"}
    pairs = [(kept[t.name], r) for r in regions for t in r.inputs if t.name in kept]
    return [pair for pair in pairs if not isinstance(streaming_of(*pair), str)]


def family_of(module: region.Module, first: region.Region, arch: str, reasons: Counter[str]) -> str:
    """The family that the cost model puts first for a pair, on the usual card of an arch."""
    best = to_plan.candidates(module, first, arch)[0].plan
    if best.algo not in TENSOR_CORES:
        reasons[f"on CUDA cores by the cost model of {arch}"] += 1
    return best.algo


def row_of(name: str, found: Report) -> str:
    """A model's line of the table."""
    cores = (f"{sum(c[a] for a in TENSOR_CORES)} ({', '.join(f'{n} {a}' for a, n in c.items())})" if c else "0"
             for c in found.families.values())  # fmt: skip
    why = "; ".join(f"{times} x {reason}" for reason, times in found.reasons.items())
    return f"| {name} | {found.count} | {found.fired} | {' | '.join(cores)} | {why} |"


def read(word: str) -> Any:
    """The model of a file, or an exported structure."""
    if word.endswith(".onnx"):
        return front.read(to_json(Path(word).read_bytes(), word))
    from tests.models.exported import EXPORTED

    return front.read(to_json(EXPORTED[word]("fp16").model().SerializeToString()))


if __name__ == "__main__":
    print(f"| model | attentions | one kernel | {' | '.join(f'on tensor cores, {arch}' for arch in ARCHS)} | else |")
    print("| --- |" + " --- |" * (3 + len(ARCHS)))
    for word in sys.argv[1:]:
        print(row_of(Path(word).stem, report(read(word))), flush=True)
