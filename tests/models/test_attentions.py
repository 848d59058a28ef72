"""The attentions of exported structures are one kernel each, on tensor cores."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from .attentions import TENSOR_CORES, read, report  # noqa: E402

ONE_KERNEL = ("swin", "t5_encoder", "xlnet", "segformer", "gemma2", "qwen2", "whisper", "clip", "distilbert", "unet")


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_every_attention_of_a_structure_is_one_kernel_on_tensor_cores(name: str) -> None:
    found = report(read(name))
    assert found.count > 0 and found.fired == found.count, found.reasons
    assert sum(found.families["sm90"][family] for family in TENSOR_CORES) == found.count, found
    assert all(families.total() == found.count for families in found.families.values())


@pytest.mark.parametrize("name", ["convnext", "hifigan"])
def test_no_attention_is_counted_where_there_is_none(name: str) -> None:
    assert report(read(name)).count == 0
