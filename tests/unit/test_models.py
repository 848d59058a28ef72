"""Whole networks: read in time, played in time, and equal to what onnxruntime computes; small ones through every stage
that is there."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.models import RandomModel, bert, gpt2, resnet50, vit
from tests.models.small import SMALL
from tinyir.front.json import read
from tinyir.ir import index, poly, tiny
from tinyir.lower import index as lower_index
from tinyir.lower import poly as lower_poly
from tinyir.play.tiny import play

WHOLE: dict[str, Callable[[], RandomModel]] = {"resnet50": resnet50, "bert": bert, "gpt2": gpt2, "vit": vit}


def peer(model: RandomModel, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What onnxruntime computes on the CPU."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.models.onnx_graph import onnx_of

    session = runtime.InferenceSession(onnx_of(model).SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, arrays)))


def assert_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Equal to 1e-3 of the greatest magnitude of each output."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        scale = np.abs(array).max()
        assert 0.01 < scale < 1e4 and np.abs(array).std() > 0, name
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-3 * scale, err_msg=name)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_network_equals_its_peer(name: str) -> None:
    model = SMALL[name](batch=2)
    arrays = model.arrays()
    assert_near(play(read(model.text), arrays), peer(model, arrays))


@pytest.mark.parametrize("name", SMALL)
def test_a_network_with_a_symbolic_batch(name: str) -> None:
    model, fixed = SMALL[name](batch="B"), SMALL[name](batch=3)
    arrays = model.arrays(B=3)
    found, wanted = play(read(model.text), arrays), play(read(fixed.text), arrays)
    assert found.keys() == wanted.keys()
    for (
        output,
        array,
    ) in (
        wanted.items()
    ):  # BLAS sums in another order where the operands are laid out otherwise: 2^-23 a term of some hundreds
        np.testing.assert_allclose(found[output], array, rtol=0, atol=1e-5 * np.abs(array).max(), err_msg=output)


@pytest.mark.parametrize("name", SMALL)
def test_half_precision_stays_near(name: str) -> None:
    model, wide = SMALL[name](dtype="fp16"), SMALL[name]()
    arrays = model.arrays()
    found = play(read(model.text), arrays)
    wanted = play(read(wide.text), {n: a.astype(np.float32) if a.dtype == np.float16 else a for n, a in arrays.items()})
    for output, array in wanted.items():
        assert found[output].dtype == np.float16
        np.testing.assert_allclose(found[output], array, atol=0.05 * np.abs(array).max())


@pytest.mark.parametrize("name", SMALL)
def test_its_texts_read_back_and_hold(name: str) -> None:
    module = lower_poly.lower(lower_index.lower(read(SMALL[name](batch="B").text)))
    assert [d for d in poly.check(module) if d.is_error] == []
    for language, one in ((tiny, module.index.tiny), (index, module.index), (poly, module)):
        assert language.parse(language.show(one)) == one


@pytest.mark.parametrize("name, count", [("resnet", 13), ("bert", 17), ("gpt2", 13), ("vit", 18)])
def test_every_product_of_a_network_is_a_contraction(name: str, count: int) -> None:
    """One a convolution or GEMM, two an attention."""
    model = SMALL[name]()
    found = [b for b in lower_poly.lower(lower_index.lower(read(model.text))).blocks if b.kind == "contraction"]
    ops = [op["op"] for op in model.graph["graph"]]
    products = ops.count("Conv") + ops.count("GEMM") + 2 * ops.count("Attention")
    squares = ops.count("LayerNorm")  # a variance sums the product of a value with itself
    assert len(found) == products + squares == count + squares


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_network_in_time(name: str) -> None:
    """JSON to tiny text under 2 s, CPU playback at batch 1 under 60 s, equal to onnxruntime."""
    model = WHOLE[name]()
    start = time.perf_counter()
    module = read(model.text)
    text = tiny.show(module)
    assert time.perf_counter() - start < 2
    assert tiny.parse(text) == module
    arrays = model.arrays()
    start = time.perf_counter()
    found = play(module, arrays)
    assert time.perf_counter() - start < 60
    assert_near(found, peer(model, arrays))
