"""List the attentions of models: `python tests/models/attentions.py FILE.onnx ... | NAME ...`.

Prints for each model how many attentions it has, how many of them are one kernel, and why each other is not. A NAME is
one of the exported structures (tests/models/exported.py). An attention is counted without the rule that finds it: a
contraction that sums what a sum of exponentials, and before it another contraction, were made into.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir import poly, tiny  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.lower import region as to_region  # noqa: E402
from tinyir.lower.region import graph as graphs  # noqa: E402

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


def report(module: tiny.Module) -> tuple[int, int, Counter[str]]:
    """The attentions of a model, those that are one kernel, and the reasons of the others."""
    viewed = lower_to("poly", lower_to("index", module, "sm90"), "sm90")
    said = [d for d in to_region.verdicts(viewed) if d.code in ("R3404", "R3405")]
    reasons = Counter(str(dict(d.facts)["reason"]) for d in said if d.code == "R3405")
    fired = sum(d.code == "R3404" for d in said)
    count = len(attentions_of(viewed))
    if count > len(said):
        reasons[UNSEEN] += count - len(said)
    return count, fired, reasons


def read(word: str) -> Any:
    """The model of a file, or an exported structure."""
    if word.endswith(".onnx"):
        return front.read(to_json(Path(word).read_bytes(), word))
    from tests.models.exported import EXPORTED

    return front.read(to_json(EXPORTED[word]("fp16").model().SerializeToString()))


if __name__ == "__main__":
    print("model".ljust(34), "attentions", "one kernel", "else")
    for word in sys.argv[1:]:
        count, fired, reasons = report(read(word))
        why = "; ".join(f"{times} x {reason}" for reason, times in reasons.items())
        print(Path(word).stem.ljust(34), str(count).rjust(10), str(fired).rjust(10), why, flush=True)
