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
    "whisper": "Whisper's encoder",
    "convnext": "ConvNeXt-T",
    "efficientnet": "EfficientNet-B0",
    "mobilenet": "MobileNetV3-L",
    "densenet": "DenseNet-121",
    "unet": "UNet",
}
GRAPHS = ("graph_us", "torch_compile_graph_us")
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


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown: the first column to the left, numbers to the right."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---", *["---:"] * (len(head) - 1)), *rows)) + "\n"


def written() -> dict[str, str]:
    """Each document that has tables, by its path, with the tables as the results are."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in DOCUMENTS}
    return {path: MARKED.sub(lambda m: m[1] + TABLES[m[2]]() + m[3], text) for path, text in texts.items()}


TABLES: dict[str, Callable[[], str]] = {"networks": networks, "networks_in_detail": networks_in_detail}


def _networks() -> list[Row]:
    rows = json.loads((RESULTS / "networks_h200.json").read_text(encoding="utf-8"))
    return sorted(rows, key=lambda row: _sizes(row["network"]))


def _sizes(label: str) -> tuple[str, int, str]:
    """A network's name, its batch, and what else is said of its sizes."""
    name, *sizes = label.split(":")
    given = dict(size.split("=") for size in sizes)
    batch = int(given.pop("batch", 1))
    return TITLES.get(name, name), batch, "".join(f", {number} {what}" for what, number in given.items())


def _times(row: Row) -> tuple[str, ...]:
    title, batch, rest = _sizes(row["network"])
    return f"{title}, batch {batch}{rest}", *(f"{row[which]:.0f}" for which in GRAPHS), f"{_ratio(row):.2f}"


def _ratio(row: Row) -> float:
    return row[GRAPHS[1]] / row[GRAPHS[0]]


def _mean() -> str:
    rows = _networks()
    return f"{math.exp(sum(math.log(_ratio(row)) for row in rows) / len(rows)):.2f}"
