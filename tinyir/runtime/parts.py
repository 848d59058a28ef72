"""A CUDA text as a text for each of its kernels: each is compiled by itself, beside the others, and kept by what it
says alone, so that a change of one leaves the cubins of the others.

    device functions of all, kernel a, kernel b   →   what a calls, kernel a;   what b calls, kernel b

What comments say is left out, as nothing is compiled of it. Device functions that were printed for the kernels of the
text (`target.intrinsics`) are printed for the one, and of the functions of integers (`lower.cu.sized`) it has the one
that it calls; whatever else there is between kernels is before each of them. A
text in which a kernel launches another, or in which a wanted one is not found, stays whole.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ..ir.manifest import CALL_OF_SIZED, SIZED
from ..kit.records import dataclass
from ..target.intrinsics import intrinsics_of, show_intrinsics

_HEAD = re.compile(r'^extern "C" __global__ [^;{}]*\{', re.MULTILINE)
_SIZED_HEAD = re.compile(
    rf"^(?:template <[^>]*>\s+)?__device__ __forceinline__ void \w+{SIZED}\([^;{{}}]*\{{", re.MULTILINE
)
_CALL = re.compile(r"\b(\w+)\s*(?:\(|<<<)")
_SKIPPED = r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"
_COMMENT = re.compile(rf"(?P<kept>{_SKIPPED})|//(?:\\\n|[^\n])*|/\*.*?\*/", re.DOTALL)
_BEFORE_NAME = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__")
_BRACES = re.compile(rf"{_SKIPPED}|[{{}}]")


@dataclass(frozen=True, slots=True)
class Part:
    """A text that is compiled by itself, the entries that it has, and for each of its lines that of the whole text."""

    text: str
    entries: tuple[str, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    entry: str
    start: int
    end: int


def parts_of(text: str, entries: Iterable[str] | None = None) -> tuple[Part, ...]:
    """The parts that have the entries (default: all kernels), each once, in their order."""
    bare = _COMMENT.sub(lambda m: m["kept"] or "\n" * m[0].count("\n"), text)
    spans = {span.entry: span for span in _functions(bare, _HEAD)}
    sized = {span.entry: span for span in _functions(bare, _SIZED_HEAD)}
    wanted = tuple(spans if entries is None else dict.fromkeys(entries))
    whole = Part(text, wanted, tuple(range(1, text.count("\n") + 2)))
    if not wanted or not spans.keys() >= set(wanted):
        return (whole,)
    if any(count > 1 for count in Counter(n for n in _CALL.findall(bare) if n in spans).values()):
        return (whole,)  # one launches another
    starts = [0, *(m.end() for m in re.finditer("\n", bare))]
    every = sorted((*spans.values(), *sized.values()), key=lambda span: span.start)
    common = _without(bare, every)
    code = "".join(bare[s.start : s.end] for s in every)
    is_printed = _stripped(common) == _stripped(show_intrinsics(intrinsics_of(code)))
    made = []
    for name in wanted:
        called = CALL_OF_SIZED.search(bare, spans[name].start, spans[name].end)
        own = [*([sized[called[1]]] if called and called[1] in sized else ()), spans[name]]
        functions = [bare[span.start : span.end] for span in own]
        head = show_intrinsics(intrinsics_of("\n".join(functions))) if is_printed else common
        count, lines = head.count("\n") + 1, []
        for span, function in zip(own, functions):
            first = bisect.bisect_right(starts, span.start)
            lines += range(first, first + function.count("\n") + 1)
        before = (lines[0],) * count if is_printed else tuple(_lines_of(bare, every, count))
        made.append(Part("\n".join((head, *functions, "")), (name,), (*before, *lines)))
    return tuple(made)


def _functions(bare: str, head: re.Pattern[str]) -> Iterator[_Span]:
    """The functions of a text without comments that begin so, from their first word to the bracket that closes them."""
    end = 0
    for found in head.finditer(bare):
        if found.start() < end:
            continue
        depth, end = 1, found.end()
        for brace in _BRACES.finditer(bare, found.end()):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            end = brace.end()
            if not depth:
                break
        names = _CALL.findall(found[0])
        yield _Span(next(n for n in names if n not in _BEFORE_NAME), found.start(), end)


def _without(bare: str, spans: Iterable[_Span]) -> str:
    """The text without its kernels."""
    kept, end = [], 0
    for span in spans:
        kept.append(bare[end : span.start])
        end = span.end
    return "".join([*kept, bare[end:]])


def _lines_of(bare: str, spans: Iterable[_Span], count: int) -> Iterator[int]:
    """The line of the whole text of each line of the text without its kernels."""
    gone = {line for s in spans for line in range(_line(bare, s.start), _line(bare, s.end))}
    left = [line for line in range(1, bare.count("\n") + 2) if line not in gone]
    yield from (left + [left[-1]] * count)[:count]


def _line(bare: str, at: int) -> int:
    return bare.count("\n", 0, at) + 1


def _stripped(code: str) -> list[str]:
    return _COMMENT.sub(lambda m: m["kept"] or "", code).split()
