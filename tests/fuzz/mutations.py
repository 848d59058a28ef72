"""Texts and models with something wrong in them: what a slip of the hand, another tool or an enemy would make of a
right one. A seed decides all."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "33",
    "1000",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "18446744073709551616",
    "9" * 40,
    "9" * 6000,
    "1e999",
    "0.5",
    "-0.0",
    "1e-320",
    "nan",
    "inf",
)
STRANGE = (
    "\u2028",
    "\u2029",
    "\x85",
    "\x00",
    "\x0b",
    "\x0c",
    "\r",
    "\x1b[31m",
    "\u202e",
    "\ufeff",
    "\u00b2",
    "\u0663",
    "\u00e9",
    "\U0001f600",
    "\\",
    "\\n",
    "\\u2028",
    "\\ud800",
    '"',
    "'",
    "*/",
    "//",
    "/*",
    "#",
    "%",
    "??/",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\t",
    "\n",
    " " * 300,
)
TOKEN = re.compile(r"%?[\w.]+|[^\w\s]|\n[ \t]*")
NUMBER = re.compile(r"-?(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def _token(text: str, draw: random.Random) -> str:
    places = [m.span() for m in TOKEN.finditer(text)]
    if not places:
        return text
    (start, end), (low, high) = draw.choice(places), draw.choice(places)
    other = text[low:high]
    return draw.choice(
        (
            text[:start] + text[end:],
            text[:start] + other + text[end:],
            text[:end] + " " + other + text[end:],
            text[:start] + text[start:end] * 2 + text[end:],
        )
    )


def _number(text: str, draw: random.Random) -> str:
    places = [m.span() for m in NUMBER.finditer(text)]
    if not places:
        return _token(text, draw)
    start, end = draw.choice(places)
    return text[:start] + draw.choice(NUMBERS) + text[end:]


def _line(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    one, two = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(two, lines[one])
    elif kind == 2:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        del lines[min(one, two) : max(one, two)]
    return "\n".join(lines)


def _strange(text: str, draw: random.Random) -> str:
    strings = [m.end() - 1 for m in re.finditer(r'"[^"\n]*"', text)]
    at = draw.choice(strings) if strings and draw.random() < 0.5 else draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(STRANGE) * draw.choice((1, 1, 1, 3)) + text[at:]


TEXTUAL: tuple[Callable[[str, random.Random], str], ...] = (_token, _token, _number, _number, _number, _line, _strange)


def mutated_text(text: str, draw: random.Random) -> bytes:
    """One to three changes of tokens, numbers, lines, odd characters; at times of the bytes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice(TEXTUAL)(text, draw)
    raw = text.encode("utf-8", "surrogatepass")
    return mutated_bytes(raw, draw) if draw.random() < 0.1 else raw


def mutated_bytes(raw: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, put in or taken out, or the end cut off."""
    changed = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(changed) + 1)
        kind = draw.randrange(5)
        if kind == 0 and changed:
            changed[at % len(changed)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[at:at] = bytes([draw.randrange(256)])
        elif kind == 2:
            del changed[at : at + draw.choice((1, 2, 16))]
        elif kind == 3 and changed:
            changed[at % len(changed)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif draw.random() < 0.2:
            del changed[at:]
    return bytes(changed)
