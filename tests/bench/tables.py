"""Tables of documents that are made of measured results: `python tests/bless.py docs/` writes them anew, and
tests/tidy holds them to the files in `tests/bench/results/`.

A table is between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "bench" / "results"
DOCUMENTS = ("README.md", "docs/performance.md")
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.S)
TITLES = {
    "bert": "BERT-base",
    "gpt2": "GPT-2",
    "llama": "Llama, 4 layers",
    "resnet50": "ResNet-50",
    "vit": "ViT-B",
    "clip": "CLIP's image encoder",
    "whisper": "Whisper's encoder",
    "convnext": "ConvNeXt-T",
    "efficientnet": "EfficientNet-B0",
    "mobilenet": "MobileNetV3-L",
    "densenet": "DenseNet-121",
    "unet": "UNet",
}
GRAPHS = ("graph_us", "torch_compile_graph_us")
COPY_BYTES, PRODUCT_FLOPS = 4.3e6, 790e6  # of an H200 in a microsecond: a copy's, and those of products of 4096 in fp16
LOSSES = 5  # launches of a network in the table of losses
Row = Mapping[str, Any]


def networks() -> str:
    """Whole networks beside torch.compile, each as one CUDA graph."""
    head = ("network, fp16", "tinyir, us", "torch.compile, us", "ratio")
    return table(head, [*(_times(row) for row in _networks()), ("geometric mean", "", "", _mean())])


def networks_in_detail() -> str:
    """The same with attention's share of the launches, the error and the time of a call from Python."""
    head = ("network, fp16", "ours, us", "torch.compile, us", "ratio", "attention, share of ours and of torch's")
    rows = [
        (
            *_times(row),
            f"{row['attention']:.2f}, {row['torch_compile_attention']:.2f}" if row["attention"] else "",
            f"{row['differs']:.1e}",
            f"{row['us']:.0f}",
        )
        for row in _networks()
    ]
    return table((*head, "differs from torch fp32", "a call, us"), rows)


def losses() -> str:
    """Of each network what its launches take, what they take at least, and those that take the most more. A launch
    between two events of its own takes longer than in a graph: all launches of a network by as much, which is left
    out, so that their sum is the graph's."""
    head = ("network, fp16", "launch", "times", "us", "limit, us", "more, us", "the limit is of")
    return table(head, [row for network in _networks("launches_h200.json") for row in _losses(network)])


def _losses(network: Row) -> list[tuple[str, ...]]:
    """All launches of a network, then those that lose the most."""
    rows, taken = network["launches"], network["graph_us"]
    count = sum(row["count"] for row in rows)
    events = (sum(row["us"] for row in rows) - taken) / count
    every = [(row, row["us"] - events * row["count"], *_limit(row)) for row in rows]
    every.sort(key=lambda one: one[2] - one[1])
    found = [(*_title(network), "all", str(count), *_more(taken, sum(limit for *_, limit, _ in every)), "")]
    for row, us, limit, by in every[:LOSSES]:
        found.append(("", f"`{row['name']}`", str(row["count"]), *_more(us, limit), by))
    return found


def _limit(row: Row) -> tuple[float, str]:
    """Microseconds that all launches of a row take at least, and by what."""
    product, copy = row["flops"] / PRODUCT_FLOPS, row["bytes"] / COPY_BYTES
    return row["count"] * max(product, copy), "products" if product > copy else "bytes"


def _more(taken: float, least: float) -> tuple[str, str, str]:
    return f"{taken:.1f}", f"{least:.1f}", f"{taken - least:.1f}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown: the first column to the left, numbers to the right."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---", *["---:"] * (len(head) - 1)), *rows)) + "\n"


def written() -> dict[str, str]:
    """Each document that has tables, by its path, with the tables as the results are."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in DOCUMENTS}
    return {path: MARKED.sub(lambda m: m[1] + TABLES[m[2]]() + m[3], text) for path, text in texts.items()}


TABLES: dict[str, Callable[[], str]] = {
    "networks": networks,
    "networks_in_detail": networks_in_detail,
    "losses": losses,
}


def _networks(file: str = "networks_h200.json") -> list[Row]:
    rows = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    return sorted(rows, key=lambda row: _sizes(row["network"]))


def _sizes(label: str) -> tuple[str, int, str]:
    """A network's name, its batch, and what else is said of its sizes."""
    name, *sizes = label.split(":")
    given = dict(size.split("=") for size in sizes)
    batch = int(given.pop("batch", 1))
    return TITLES.get(name, name), batch, "".join(f", {number} {what}" for what, number in given.items())


def _title(row: Row) -> tuple[str]:
    title, batch, rest = _sizes(row["network"])
    return (f"{title}, batch {batch}{rest}",)


def _times(row: Row) -> tuple[str, ...]:
    return *_title(row), *(f"{row[which]:.0f}" for which in GRAPHS), f"{_ratio(row):.2f}"


def _ratio(row: Row) -> float:
    return row[GRAPHS[1]] / row[GRAPHS[0]]


def _mean() -> str:
    rows = _networks()
    return f"{math.exp(sum(math.log(_ratio(row)) for row in rows) / len(rows)):.2f}"
