"""How much text a network is: a layer that is like an earlier one adds what it is called and what it is given, and no
code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models import RandomModel, gpt2, resnet50

from .test_alike import compiled

SMALL_RESNET = {"width": 16, "size": 32, "classes": 5, "dtype": "fp16"}
SMALL_GPT2 = {"tokens": 32, "hidden": 64, "heads": 2, "words": 50, "positions": 64, "dtype": "fp16"}
# of a number of layers, how many lines each may add: weights, buffers, regions, tensor maps, launches
NETWORKS: dict[str, tuple[Callable[[int], RandomModel], int]] = {
    "two blocks of ResNet": (lambda count: resnet50(layers=(count, count), **SMALL_RESNET), 124),
    "a layer of GPT-2": (lambda count: gpt2(layers=count, **SMALL_GPT2), 70),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_layer_that_is_alike_adds_no_code(name: str) -> None:
    model_of, most = NETWORKS[name]
    texts = [compiled(model_of(count).text) for count in (3, 4)]
    few, many = (text.count("\n") for text in texts)
    assert 0 < many - few <= most
    few, many = (text.partition("\n\n")[2].count("\n") for text in texts)
    assert few == many


@pytest.mark.slow
def test_a_network_is_a_few_texts() -> None:
    """One function for kernels of other sizes, and a line or three for a region and a launch that are like others."""
    text = compiled(resnet50(dtype="fp16").text)
    head, _, code = text.partition("\n\n")
    assert text.count("__global__") <= 40 and code.count("\n") <= 3324 and head.count("\n") <= 1315
