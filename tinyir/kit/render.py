"""Diagnostics drawn: inside their text with a caret, as plain lines, in colour through rich, or as JSON (spec section
14)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .diag import MOST_SHOWN, Diag
from .phrase import told
from .quote import json_line, visible
from .span import Span, span_of

Piece = tuple[str, str]  # words and their style
_WORDS = {
    "en": {"E": "error", "W": "warning", "R": "remark", "help": "help", "note": "note", "see": "more", "at": " at {}"},
    "ja": {"E": "エラー", "W": "警告", "R": "注記", "help": "助言", "note": "参照", "see": "詳細", "at": " ({})"},
}
SEVERITIES = {"E": "error", "W": "warning", "R": "remark"}
_STYLES = {"E": "bold red", "W": "bold yellow", "R": "bold cyan"}


def draw(diags: Sequence[Diag], text: str, file: str, form: str, lang: str) -> None:
    """Write diagnostics about `text` (called `file`) to stderr, as `form` (rich, plain, json) in `lang`."""
    if form == "json":
        print(json_line({"diagnostics": [as_json(d, lang, text, file) for d in diags]}), file=sys.stderr)
        return
    lines = [line for d in diags for line in _lines_of(d, text, file, lang)]
    if form == "plain":
        print("\n".join("".join(words for words, _ in line).rstrip() for line in lines), file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*line))


def as_json(d: Diag, lang: str, text: str = "", file: str = "") -> dict[str, Any]:
    """One diagnostic as the JSON object of seed 001 section 14, with severity, file, span, labels and edit. `start` and
    `end` are places in `text` as editors count them, lines and columns from 1."""
    shown: dict[str, Any] = {
        "severity": SEVERITIES[d.code[0]],
        "file": file,
        "code": d.code,
        "kind": d.kind,
        "at": told(d.at, lang),
        "why": d.why(lang),
        "suggestion": d.suggestion(lang),
    }
    if d.facts:
        shown["facts"] = {
            k: v if isinstance(v, int) or (isinstance(v, float) and math.isfinite(v)) else told(v, lang)[:MOST_SHOWN]
            for k, v in d.facts.items()
        }
    if d.span:
        end = (
            span_of(text, d.span.end, d.span.end) if text else Span(d.span.end, d.span.end, d.span.line, d.span.column)
        )
        shown["span"] = _span(d.span)
        shown["start"] = {"line": d.span.line, "column": d.span.column}
        shown["end"] = {"line": end.line, "column": end.column}
    if d.labels:
        shown["labels"] = [{"note": told(label.note, lang), "span": _span(label.span)} for label in d.labels]
    if d.edit:
        shown["edit"] = {"span": _span(d.edit.span), "text": d.edit.text}
    return shown


def _span(span: Span) -> dict[str, int]:
    return {"start": span.start, "end": span.end, "line": span.line, "column": span.column}


def _lines_of(d: Diag, text: str, file: str, lang: str) -> Iterator[list[Piece]]:
    words, style = _WORDS[lang], _STYLES[d.code[0]]
    where = words["at"].format(visible(told(d.at, lang))) if d.at else ""
    file = visible(file)
    yield [(f"{words[d.code[0]]}[{d.code}]", style), (f" {d.kind}{where}: ", "bold"), (d.why(lang), "bold")]
    if d.span and text:
        yield [("  --> ", "blue"), (f"{file}:{d.span}", "")]
        yield from _excerpt(text, d.span, style)
    for label in d.labels:
        yield [(f"  {words['note']}: ", "blue"), (f"{visible(told(label.note, lang))} ({file}:{label.span})", "")]
        if text:
            yield from _excerpt(text, label.span, "blue", context=0)
    if d.suggestion(lang):
        yield [(f"  {words['help']}: ", "green"), (d.suggestion(lang), "")]
    if d.is_error and (d.span or d.suggestion(lang)):
        yield [(f"  {words['see']}: ", "dim"), (f"tiny-explain {d.code}", "dim")]


def _excerpt(text: str, span: Span, style: str, context: int = 1) -> Iterator[list[Piece]]:
    lines = text.split("\n")
    first, last = max(1, span.line - context), min(len(lines), span.line)
    for number in range(first, last + 1):
        line, shift = _window(lines[number - 1], span.column if number == span.line else 1)
        yield [(f"{number:>5} | ", "blue"), (line, "")]
        if number == span.line:
            width = min(max(1, span.end - span.start), max(1, len(line) - (span.column - 1 - shift)))
            yield [
                ("      | ", "blue"),
                (" " * (span.column - 1 - shift) + "^" * width, style),
            ]


def _window(line: str, column: int, width: int = 140) -> tuple[str, int]:
    """The part of a long line around a column, and how many characters were cut from its left."""
    line = "".join(c if c.isprintable() else " " for c in line)
    if len(line) <= width:
        return line, 0
    start = max(0, min(column - width // 2, len(line) - width))
    return line[start : start + width], start


def draw_page(text: str) -> None:
    """Write a page of Markdown to a terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
