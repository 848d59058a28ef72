"""The attentions of exported structures are one kernel each."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from .attentions import read, report  # noqa: E402

ONE_KERNEL = ("swin", "t5_encoder", "xlnet", "segformer", "gemma2", "qwen2", "whisper", "clip", "distilbert", "unet")


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_every_attention_of_a_structure_is_one_kernel(name: str) -> None:
    count, fired, reasons = report(read(name))
    assert count > 0 and fired == count, reasons


@pytest.mark.parametrize("name", ["convnext", "hifigan"])
def test_no_attention_is_counted_where_there_is_none(name: str) -> None:
    assert report(read(name))[0] == 0
