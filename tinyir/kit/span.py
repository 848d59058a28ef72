"""Where something is in a text."""

from __future__ import annotations

from .records import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters `[start, end)` of one text, with the 1-based line and column of its start."""

    start: int
    end: int
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, eq=False)
class Spanned:
    """What may have been read of a text knows its place there, which takes no part in equality."""

    span: Span | None = field(default=None, compare=False, kw_only=True)


def span_of(text: str, start: int, end: int) -> Span:
    """The Span of `text[start:end]`; line and column are counted here, so this is for messages, not for inner loops."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(start, max(end, start), line, column)


def span_of_line(text: str, line: int, column: int = 0) -> Span | None:
    """The Span of a 1-based line from a 1-based `column` on (0: from its first word); None beyond the text. For tools
    that name lines."""
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return None
    start = sum(len(earlier) + 1 for earlier in lines[: line - 1])
    found = lines[line - 1]
    column = column or len(found) - len(found.lstrip()) + 1
    return Span(start + column - 1, max(start + len(found), start + column - 1), line, column)
