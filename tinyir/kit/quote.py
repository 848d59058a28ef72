"""Strings that come from a model, as texts and messages carry them: one line, every character visible.

A name, an origin or an attribute may hold any character. Line breaks (also U+0085, U+2028 and U+2029, which some tools
take for one), control characters and those that change the direction of what follows are written as escapes, in JSON's
spelling, so that no string can end a line of a text, a comment of the CUDA code or a row of a message. `unquoted` reads
back what `quoted` writes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .phrase import Phrase

_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with an escape (`\\n`, `\\u2028`) for each character that is not printable; quotes and backslashes stay as
    they are."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def json_line(item: Any, is_compact: bool = False) -> str:
    """`item` as JSON on one line, characters beyond ASCII as they are where they are printable. Raises ValueError for
    inf and nan."""
    return visible(json.dumps(item, ensure_ascii=False, allow_nan=False, separators=(",", ":") if is_compact else None))


def quoted(text: str) -> str:
    """`text` in double quotes, as JSON writes it."""
    return json_line(text)


def unquoted(text: str) -> str:
    """The string that a quoted one spells; control characters may come in it as they are. Raises ValueError for an
    escape that JSON has not, and for half of a surrogate pair, which is not a character and has no UTF-8."""
    found = json.loads(text, strict=False)
    if not isinstance(found, str):
        raise ValueError(Phrase("not a string"))
    if _SURROGATE.search(found):
        raise ValueError(Phrase("half of a surrogate pair"))
    return found


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) != 0x7F else "\\u007f"
