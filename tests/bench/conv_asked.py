"""What is asked of convolutions beside what was measured: `python tests/bench/conv_asked.py FILE.json ...`.

Takes the results of `conv.py`, `windows.py` and `models.py`, in any order, and prints a line for each ask; what no file
has is left out. A figure is a rival's time over ours, or the share of a limit that ours comes to: more is better; of
several cases the mean and the least. The limit of a layer is the greater of a copy of its bytes and its products at the
card's peak, on FFMA where it is depthwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.asked import Row, line, told  # noqa: E402
from tests.bench.measured import mean  # noqa: E402

TENSOR_FLOPS_PER_US = 989.4e6
FFMA_FLOPS_PER_US = 2 * 132 * 128 * 1.755e3
NETWORKS = {  # by the name of a row: beside reduce-overhead, called
    "resnet50:batch=1": 1.5,
    "resnet50:batch=32": 1.2,
    "convnext:batch=8": 1.2,
    "efficientnet:batch=8": 1.2,
    "mobilenet": 1.2,
    "densenet": 1.2,
    "unet:batch=2": 1.2,
}


def is_layer(row: Row, *kinds: str) -> bool:
    """Whether a row of `conv.py` is of one of these kinds."""
    return "ours_us" in row and row["kind"] in kinds


def ours(row: Row) -> float:
    """Our time."""
    return row["ours_us"] if "ours_us" in row else row["plans"][0]["us"]


def best(row: Row, *names: str) -> float:
    """The fastest rival's time over ours."""
    return min(row[f"{name}_us"] for name in names if f"{name}_us" in row) / ours(row)


def of_limit(row: Row, flops_per_us: float = TENSOR_FLOPS_PER_US) -> float:
    """The share of the limit."""
    return max(row["copy_us"], row.get("tflops", 0.0) * 1e6 * ours(row) / flops_per_us) / ours(row)


@dataclass(frozen=True)
class Ask:
    """What is asked of some rows: of the mean and of the least figure, 0 where of none."""

    what: str
    is_asked: Callable[[Row], bool]
    figure: Callable[[Row], float]
    least: float
    mean: float = 0.0
    beside: str = ""

    def line(self, rows: list[Row]) -> str:
        """The line of the table; empty where no row is asked."""
        found = {row["case"]: self.figure(row) for row in rows if self.is_asked(row)}
        if not found:
            return ""
        worst, middle = min(found, key=found.__getitem__), mean([*found.values()])
        asked = f"mean {self.mean:.2f}, " * bool(self.mean) + f"least {self.least:.2f} of {self.beside}"
        under = sum(figure < self.least for figure in found.values())
        figures = f"{middle:.3f}, {found[worst]:.3f} ({worst}), {under} of {len(found)} under"
        return line(self.what, asked, figures, middle >= self.mean and not under)


ASKS = (
    Ask(
        "channels last",
        lambda row: is_layer(row, "dense", "residual") and row["layout"] == "last",
        lambda row: best(row, "cudnn"),
        0.85,
        1.0,
        "cuDNN",
    ),
    Ask(
        "channels first",
        lambda row: is_layer(row, "dense", "residual") and row["layout"] == "first",
        lambda row: best(row, "cudnn", "compiled"),
        0.9,
        1.2,
        "the best of cuDNN and torch.compile",
    ),
    Ask("depthwise", lambda row: is_layer(row, "depthwise"), lambda row: best(row, "cudnn"), 2.0, 0.0, "cuDNN"),
    Ask(
        "depthwise",
        lambda row: is_layer(row, "depthwise") and "compiled_us" in row,
        lambda row: best(row, "compiled"),
        1.2,
        0.0,
        "torch.compile",
    ),
    Ask(
        "depthwise, from 32 MB on",
        lambda row: is_layer(row, "depthwise") and row["bytes"] >= 32e6,
        lambda row: of_limit(row, FFMA_FLOPS_PER_US),
        0.55,
        0.0,
        "the limit",
    ),
    Ask(
        "pools, from 32 MB on",
        lambda row: row.get("kind") in ("max", "average") and row["bytes"] >= 32e6,
        of_limit,
        0.8,
        0.0,
        "a copy",
    ),
    Ask(
        "1x1 with a residual, from 50 MB on",
        lambda row: is_layer(row, "residual") and row["bytes"] >= 50e6,
        of_limit,
        0.85,
        0.0,
        "the limit",
    ),
    Ask(
        "errors against fp64",
        lambda row: "error_cudnn" in row,
        lambda row: row["error_cudnn"] / row["error"],
        0.999,
        0.0,
        "cuDNN's",
    ),
)


def of_networks(rows: list[Row]) -> Iterator[str]:
    """Each network beside torch.compile, in one CUDA graph and, where that was measured, called."""
    for row in rows:
        called = NETWORKS.get(row.get("network", ""))
        if called is None or row.get("dtype") != "fp16":
            continue
        for name, mine, asked, beside in (
            ("torch_compile_graph_us", "graph_us", 1.1, "torch.compile in one CUDA graph"),
            ("torch_reduce_overhead_us", "us", called, "reduce-overhead, called"),
        ):
            if isinstance(row.get(name), float):
                ratio = row[name] / row[mine]
                figures = f"{ratio:.2f}, {row[mine]:.0f} us"
                yield line(row["network"], f"{asked:.2f} of {beside}", figures, ratio >= asked)


def lines(rows: list[Row]) -> Iterator[str]:
    """All of them, in the order in which they are asked for."""
    layers = [row for row in rows if "network" not in row]
    yield from filter(None, (ask.line(layers) for ask in ASKS))
    yield from of_networks(rows)


if __name__ == "__main__":
    sys.exit(told(__doc__, lines))
