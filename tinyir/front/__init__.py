"""Every language in, one builder of tiny. `read` recognises the language of a text."""

from __future__ import annotations

from typing import Mapping, Sequence

from ..ir import tiny
from ..kit.diag import refuse
from ..kit.span import span_of


def is_onnx(raw: bytes) -> bool:
    """Whether a file's bytes begin as an ONNX model does, which is no text: with its ir_version."""
    return raw[:1] == b"\x08"


def onnx_to_json(raw: bytes, file: str, shapes: Mapping[str, Sequence[str]]) -> str:
    """The front-end JSON of an ONNX file's bytes. `file` is how the text shall name the file that its weights stay in, empty for a pipe; `shapes`
    gives sizes to inputs that leave them open. Raises Refused."""
    from .onnx import to_json

    return to_json(raw, file, shapes)


def read(text: str, file: str = "") -> tiny.Module:
    """The tiny module of a model's text, called as the text says, else `main`: the file's name is not part of the model. Raises Refused (E0014
    when the language is not known, else what its front end says)."""
    text = " " + text[1:] if text.startswith("\ufeff") else text  # a byte order mark: not JSON, and common
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] == "{":
        from . import json

        return json.read(text)
    first = text[start:].split("\n", 1)[0][:60]
    raise refuse("E0014", first=first, span=span_of(text, start, start + len(first)))
