"""Edits of a text as a person makes them, one a text: a token for its sister, two places exchanged, a line gone or
twice.

Every kind of token has sisters: an axis another axis, a number the next one, a word the words of its table. What is
left of a section's tokens is punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TOKEN = re.compile(r"%?[A-Za-z_][\w.]*|\d+\.\d+|\d+|->|<=|[<+*-]")
BRACKET = re.compile(r"\[([^\[\]]*,[^\[\]]*)\]")
DECLARED = re.compile(r"^(?:region|kernel|  in|  out|  buffer) +([\w.]+)")
AGAIN = re.compile(r"launch |region .* as |  tensors ")  # lines of names alone
AXIS = re.compile(r"[iko]\d+")
SISTERS = (  # words that may take one another's place
    ("broadcast", "", "indirect"),
    ("reads", "from"),
    ("batch", "left", "right", "sum"),
    ("contraction", "reduction", "elementwise", "movement", "opaque", "scan", "gather", "scatter"),
    ("matmul", "conv"),
    ("domain", "read", "write"),
    ("true", "anti", "output"),
    ("fuses", "axes"),
    ("sum", "max", "prod"),
    ("add", "sub", "mul", "fdiv"),
    ("relu", "neg", "exp2"),
    ("fp16", "fp32", "i32"),
    ("in", "out"),
    ("parallel", "reduce", "tail"),
    ("reg", "smem_ring", "gmem"),
    ("none", "cta", "cp_async", "mbarrier"),
    ("and", "or"),
    ("deferred", "gmem"),
    ("row_major", "col_major"),
    ("<=", "<"),
    ("+", "-", "*"),
)


@dataclass(frozen=True, slots=True)
class Edit:
    """A text with one edit: the line (1-based), what was there and what is there now."""

    line: int
    before: str
    after: str
    text: str


def edits_of(text: str, first: str, last: str = "") -> Iterator[Edit]:
    """Every edit of the lines from the one that begins with `first` to before the one that begins with `last`, each
    text once, but for lines that say where a value came from."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(first))
    end = next((n for n, line in enumerate(lines) if n > begin and last and line.startswith(last)), len(lines))
    names = {t for line in lines for t in TOKEN.findall(line)}
    declared = sorted({name for line in lines for name in DECLARED.findall(line)})
    seen = {text}
    for at in range(begin, end):
        line = lines[at]
        if not line.strip() or re.match(r"\s+from \S+ : ", line):
            continue
        for new in (*_of_line(line, names, declared), (line, ""), (line, f"{line}\n{line}")):
            before, after = new
            changed = line.replace(before, after, 1) if before == line else after
            whole = "\n".join([*lines[:at], *([changed] if changed else []), *lines[at + 1 :]]) + "\n"
            if whole not in seen:
                seen.add(whole)
                yield Edit(at + 1, line.strip(), changed.strip(), whole)


def _of_line(line: str, names: set[str], declared: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(token, the line with one of its sisters in its place) of each token, and the line with the first two items of a
    bracket exchanged."""
    for found in TOKEN.finditer(line):
        others = declared if AGAIN.match(line) and found[0] in declared else ()
        for sister in (*_sisters(found[0], names), *(name for name in others if name != found[0])):
            yield found[0], line[: found.start()] + sister + line[found.end() :]
    for found in BRACKET.finditer(line):
        one, two, *rest = found[1].split(",")
        yield found[0], f"{line[: found.start()]}[{', '.join([two.strip(), one.strip(), *rest])}]{line[found.end() :]}"


def _sisters(token: str, names: set[str]) -> Iterator[str]:
    for group in SISTERS:
        if token in group:
            yield from (word for word in group if word != token)
    if re.fullmatch(r"\d+", token):
        yield str(int(token) + 1)
    elif re.fullmatch(r"\d+\.\d+", token):
        yield str(float(token) + 1)
    elif AXIS.fullmatch(token):
        yield from sorted(n for n in names if AXIS.fullmatch(n) and n != token)
    elif token.startswith("%"):
        yield from sorted(n for n in names if n.startswith("%") and n != token)[:2]
    elif re.fullmatch(r"[A-Z]\w*", token):
        yield from sorted(n for n in names if re.fullmatch(r"[A-Z]\w*", n) and n != token)[:3]
