"""Every language in, one builder of tiny. `read` recognises the language of a text."""

from __future__ import annotations

from ..ir import tiny
from ..kit.diag import refuse
from ..kit.span import span_of


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
