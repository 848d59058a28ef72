"""The attentions of exported structures: all are one kernel, but where one query meets each key."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from .attentions import NOT_A_CANDIDATE, read, report  # noqa: E402

ONE_KERNEL = ("swin", "t5_encoder", "xlnet", "segformer", "gemma2", "qwen2", "whisper", "clip", "distilbert", "unet")


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_every_attention_of_a_structure_is_one_kernel(name: str) -> None:
    count, fired, reasons = report(read(name))
    assert count > 0 and fired == count, reasons


def test_a_query_alone_is_three_kernels_and_counted() -> None:
    count, fired, reasons = report(read("decode"))
    assert (count, fired, dict(reasons)) == (1, 0, {NOT_A_CANDIDATE: 1})


@pytest.mark.parametrize("name", ["convnext", "hifigan"])
def test_no_attention_is_counted_where_there_is_none(name: str) -> None:
    assert report(read(name))[0] == 0
