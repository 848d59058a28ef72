"""Every language in, one builder of tiny. `read` recognises the language of a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..ir import tiny
from ..kit.diag import Diag, Refused, refuse
from ..kit.span import span_of


def is_onnx(raw: bytes) -> bool:
    """Whether a file's bytes begin as an ONNX model does, which is not a text: with its ir_version."""
    return raw[:1] == b"\x08"


def is_pt2(raw: bytes) -> bool:
    """Whether a file's bytes begin as a zip does, as an archive of torch.export is."""
    return raw[:4] == b"PK\x03\x04"


def pt2_to_json(raw: bytes, file: str, shapes: Mapping[str, Sequence[str]]) -> str:
    """The front-end JSON of the bytes of an archive of torch.export. `file` is how the text shall name the archive, in
    which its weights stay, empty for a pipe; `shapes` gives sizes to inputs that leave them open, and ranges to symbols
    (`L:1..512`). Raises Refused."""
    from .pt2 import to_json

    return to_json(raw, file, shapes)


def onnx_to_json(
    raw: bytes,
    file: str,
    shapes: Mapping[str, Sequence[str]],
    values: Mapping[str, Sequence[str]],
    folder: Path | None = None,
    states: Mapping[str, str] | None = None,
    room: int = 0,
    notes: list[Diag] | None = None,
) -> str:
    """The front-end JSON of an ONNX file's bytes. `file` is how the text shall name the file that its weights stay in,
    empty for a pipe; `shapes` gives sizes to inputs that leave them open, and ranges to symbols (`L:1..512`), `values`
    makes constants of inputs. `folder` is where the model's file is, for the files beside it; None for a pipe.
    `states` gives inputs the outputs that are their next values, beside those that are called so (`past.0.key` and
    `present.0.key`); `room` is for how many rows a cache that grows has room (0: its new value stays an output);
    `notes` gets the warnings. Raises Refused."""
    from .onnx import to_json

    return to_json(raw, file, shapes, values, folder, states, room, notes)


def language_of(text: str) -> str | None:
    """The language of a model's text, by how it begins: `json` (front-end JSON), `nodeid`, `coreir`, `dsl` or `tiny`;
    None when it is none of these. A text that begins as JSON and is none counts as `json`."""
    start = _skipped(text)
    if text.startswith("{", start):
        return "nodeid" if _NODEID.search(text, start) and _has_uops(text) else "json"
    if text.startswith("tinyir ", start):
        return "tiny"
    if _COREIR.match(text, start):
        return "coreir"
    return "dsl" if _DSL.match(text, start) else None


_NODEID = re.compile(r'"uops"[ \t\r\n]*:')
_COREIR = re.compile(r"%\d+[ \t]*=|outputs[ \t]*:")
_DSL = re.compile(r"(?!model\s+\S+\s*(\Z|\s(in|out)\s))(graph|model|sym|shapes)\b[^=:]")  # else headless text
_COMMENT = re.compile(r"(\s+|//[^\n]*|#[^\n]*)*")


def _has_uops(text: str) -> bool:
    from .jsontext import parse_json, without_comments

    try:
        return parse_json(without_comments(text)).get("uops") is not None
    except Refused:
        return False


def _skipped(text: str) -> int:
    """Where a text begins, past blanks and comments."""
    return _COMMENT.match(text).end()


def read(text: str, file: str = "", notes: list[Diag] | None = None) -> tiny.Module:
    """The tiny module of a model's text, called as the text says, else `main`: the file's name is not part of the
    model. `notes` gets the warnings and remarks that the front end has on it. Raises Refused (E0014 when the language
    is not known, else what its front end says)."""
    text = " " + text[1:] if text.startswith("\ufeff") else text  # a byte order mark: not JSON, and common
    language = language_of(text)
    if language == "tiny":
        return tiny.parse(text)
    if language == "json":
        from . import json

        return json.read(text, notes=notes)
    if language == "nodeid":
        from . import nodeid

        return nodeid.read(text, notes=notes)
    if language == "coreir":
        from . import coreir as reader
    elif language == "dsl":
        from . import graphdsl as reader
    else:
        start = _skipped(text)
        first = text[start:].split("\n", 1)[0][:60]
        raise refuse("E0014", first=first, span=span_of(text, start, start + len(first)))
    return reader.read(text)
