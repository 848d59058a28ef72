"""Tables of documents that are made of measured results: `python tests/bless.py docs/` writes them anew, and
tests/tidy holds them to the files in `tests/bench/results/`.

A table is between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench import attention, attention_asked, conv_asked, decode, memory_asked  # noqa: E402
from tests.bench.asked import HEAD  # noqa: E402
from tests.bench.measured import mean  # noqa: E402

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


def products() -> str:
    """Products beside cublasLt with the same epilogue: microseconds, TFLOP/s, and cublasLt's time over ours."""
    rows = _rows("gemm_tensor_h200.json")
    columns = list(dict.fromkeys((row["dtype"], row["layout"]) for row in rows))
    found: list[tuple[str, ...]] = []
    for shape in dict.fromkeys(tuple(row["shape"]) for row in rows):
        mine = {(row["dtype"], row["layout"]): row for row in rows if tuple(row["shape"]) == shape}
        cells = (
            f"{r['ours_us']:.1f} us, {r['ours_tflops']:.0f}; {r['ratio']:.3f}x" for r in map(mine.get, columns) if r
        )
        found.append(("x".join(map(str, shape)), *cells))
    ratios = [row["ratio"] for row in rows]
    found.append((f"geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}", *[""] * len(columns)))
    return table(("shape", *(" ".join(column) for column in columns)), found)


def asked_of_attention() -> str:
    """What is asked of attention beside what was measured."""
    rows = _rows("attention_h200.json", "decode_h200.json", "attention_sm80_h200.json", "networks_h200.json")
    return "\n".join([*HEAD, *attention_asked.lines(rows)]) + "\n"


def attention_by_length() -> str:
    """Plain attention: TFLOP/s and cuDNN's time over ours for each length, then the means over the lengths."""
    rows = [(attention.Case(**row["case"]), row) for row in _rows("attention_h200.json")]
    rows = [(case, row) for case, row in rows if case.is_plain and case.heads == case.kv and "cudnn" in row["ratio"]]
    lengths = sorted({case.length for case, _ in rows})
    found = []
    for key in dict.fromkeys((case.dtype, case.depth, case.form) for case, _ in rows):
        mine = {case.length: row for case, row in rows if (case.dtype, case.depth, case.form) == key}
        cells = [
            f"{mine[n]['tflops']['ours']:.0f}, {mine[n]['ratio']['cudnn']:.2f}" if n in mine else "" for n in lengths
        ]
        ratios = [[row["ratio"][rival] for row in mine.values()] for rival in ("cudnn", "fa2")]
        ends = (f"{mean(ratios[0]):.3f}, {min(ratios[0]):.3f}", f"{mean(ratios[1]):.2f}")
        found.append((f"{key[0]}, {key[1]}, {key[2]}", *cells, *ends))
    return table(("dtype, depth, form", *map(str, lengths), "mean, least", "over FA2"), found)


def attention_of_one_query() -> str:
    """One query beside cuDNN, FlashAttention 2 and a copy of as many bytes."""
    found = []
    for row in _rows("decode_h200.json"):
        case, ratio = decode.Case(**row["case"]), row["ratio"]
        rivals = (f"{row['us'][r]:.1f} us, {ratio[r]:.3f}" if r in ratio else "" for r in ("cudnn", "fa2"))
        size = f"{case.bytes / 1e6:.0f}"
        found.append((case.name, size, f"{row['us']['ours']:.1f} us", f"{row['share']:.2f}", *rivals))
    return table(("case", "MB", "ours", "of a copy", "cuDNN", "FA2"), found)


def asked_of_convolutions() -> str:
    """What is asked of convolutions, and of the networks that are made of them."""
    rows = _rows("conv_whole_h200.json", "windows_whole_h200.json", "networks_h200.json")
    return "\n".join([*HEAD, *conv_asked.lines(rows)]) + "\n"


def asked_of_rows() -> str:
    """What is asked of memory-bound kernels."""
    return memory_asked.table(_rows("memory_h200.json", "memory_small_h200.json", "memory_odd_h200.json")) + "\n"


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
    "products": products,
    "asked_of_attention": asked_of_attention,
    "attention_by_length": attention_by_length,
    "attention_of_one_query": attention_of_one_query,
    "asked_of_convolutions": asked_of_convolutions,
    "asked_of_rows": asked_of_rows,
}


def _rows(*files: str) -> list[Any]:
    """The rows of results together."""
    found = [json.loads((RESULTS / file).read_text(encoding="utf-8")) for file in files]
    return [row for one in found for row in (one if isinstance(one, list) else one["rows"])]


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
