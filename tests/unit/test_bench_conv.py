"""The table of what is asked of convolutions: each ask of its rows, with the case that comes to the least."""

from __future__ import annotations

from typing import Any

from tests.bench.conv_asked import FFMA_FLOPS_PER_US, lines


def row(case: str, layout: str = "first", kind: str = "dense", **times: float) -> dict[str, Any]:
    """A row of `conv.py`, 10 us ours."""
    return {
        "case": case,
        "layout": layout,
        "kind": kind,
        "bytes": 64e6,
        "ours_us": 10.0,
        "cudnn_us": 20.0,
        "copy_us": 5.0,
        "tflops": FFMA_FLOPS_PER_US / 4e6,
        "error": 1e-4,
        "error_cudnn": 1e-4,
    } | times


def test_each_ask_has_the_mean_and_the_least_of_its_rows() -> None:
    found = [*lines([row("a", compiled_us=8.0), row("b"), row("c", "last", cudnn_us=40.0)])]
    assert found == [
        "| channels last | mean 1.00, least 0.85 of cuDNN | 4.000, 4.000 (c), 0 of 1 under | yes |",
        "| channels first | mean 1.20, least 0.90 of the best of cuDNN and torch.compile "
        "| 1.265, 0.800 (a), 1 of 2 under | no |",
        "| errors against fp64 | least 1.00 of cuDNN's | 1.000, 1.000 (a), 0 of 3 under | yes |",
    ]


def test_a_limit_is_the_greater_of_bytes_and_products() -> None:
    for copied, share in ((1.0, 0.25), (6.0, 0.6)):
        (asked,) = (one for one in lines([row("a", kind="depthwise", copy_us=copied)]) if "32 MB" in one)
        assert f"{share:.3f} (a)" in asked and asked.endswith("yes |" if share >= 0.55 else "no |")


def test_a_network_is_asked_as_one_graph_and_called() -> None:
    network = {"network": "resnet50:batch=1", "dtype": "fp16", "us": 100.0, "graph_us": 50.0}
    network |= {"torch_compile_graph_us": 60.0, "torch_reduce_overhead_us": 140.0}
    graph, called = lines([network])
    assert "1.20, 50 us" in graph and graph.endswith("yes |") and "1.40, 100 us" in called and called.endswith("no |")
