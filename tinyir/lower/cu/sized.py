"""Kernels that differ in integers alone, as one function of these integers, which each kernel calls with its own.

    up(x, y)    { ... k < 8; ... x[64 * r + k] ... }        template <int k_n, int x_n> up_sized(x, y) { ... k < k_n; ... }
    down(y, z)  { ... k < 16; ... y[32 * r + k] ... }   →   up(x, y) { up_sized<8, 64>(x, y); }
                                                            down(y, z) { up_sized<16, 32>(y, z); }

The integers are parameters of a template, so that the compiler makes of a kernel what it makes of the whole text of it.
The function has the names of its first kernel. Integers that are the same in all kernels stay as they are, and places
that have the same integer as one another in each kernel share a parameter. A factor of 1, which is not written, is one
of these integers where it is the stride of windows that are elsewhere apart.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

from ...ir.gpu import nodes
from ...ir.intervals import INT_MAX
from ...ir.manifest import SIZED
from ...kit.groups import lists_of
from ...kit.names import FreeNames
from ...kit.records import dataclass, replace
from .names import Names

MOST_PARAMETERS = 24  # of a template that somebody can read
_WORD = re.compile(r"(#pragma[^\n]*|[A-Za-z_]\w*|\d(?:[eEpP][+-]|[\w.])*)")
_WINDOWS = re.compile(r"( *tma_load_windows_\dd\()(.*)(\);)")
_PLACE = r"[A-Za-z_]\w*(?: [%/] \w+)*"
_START = re.compile(rf"(?:(\d+) \* (?:(\w+)|\(({_PLACE})\))|({_PLACE}))((?: [-+] \d+)?)")
_COMMENT = re.compile(r" *//[^\n]*")
_REFERENCES = {"const __grid_constant__ tensor_map ": "const tensor_map &"}


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel's text and how it is called: parameters are tensors, then maps, then symbols. `names` are the
    identifiers that it has of its own."""

    notes: tuple[str, ...]
    bounds: str
    entry: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    names: frozenset[str]
    tensors: tuple[str, ...]
    maps: tuple[nodes.TensorMap, ...]
    symbols: tuple[str, ...]
    dynamic_shared: int


def show_kernels(kernels: Sequence[Emitted], entries: Names) -> tuple[str, dict[str, str]]:
    """The text of kernels, each function of integers before the first kernel that calls it; and for each entry that of
    the kernel that is the same but for names, which is launched in its place."""
    before: dict[str, list[str]] = {}
    bodies = {one.entry: list(one.lines) for one in kernels}
    notes = {one.entry: list(one.notes) for one in kernels}
    instead: dict[str, str] = {}
    for group in _groups(kernels):
        left = []
        for same in _same(group):
            first, *others = (read.kernel.entry for read in same)
            left.append(same[0])
            for other in others:
                instead[other] = first
                notes[first] += notes[other]
        _put_together(left, entries, before, bodies)
    shown = "\n".join(
        "\n".join(
            [
                *notes[one.entry],
                *before.get(one.entry, ()),
                f'extern "C" __global__ void {one.bounds}',
                f"{one.entry}({', '.join(one.parameters)})",
                "{",
                *bodies[one.entry],
                "}\n",
            ]
        )
        for one in kernels
        if one.entry not in instead
    )
    return shown, instead


@dataclass(frozen=True, slots=True)
class _Read:
    """A kernel's words, with what is between them; which of them are integers, and what it is alike in to others."""

    kernel: Emitted
    parts: list[str]
    places: list[int]
    likeness: Hashable

    @classmethod
    def of(cls, kernel: Emitted) -> _Read:
        text = _COMMENT.sub("", "\n".join((*kernel.parameters, *kernel.lines)))
        parts, known, places = _WORD.split(text), {}, []
        shape: list[Hashable] = parts[:]
        for at in range(1, len(parts), 2):
            word = parts[at]
            if word in kernel.names:
                shape[at] = known.setdefault(word, len(known))
            elif word.isdigit() and int(word) <= INT_MAX:
                shape[at] = None
                places.append(at)
        return cls(kernel, parts, places, tuple(shape))


def _groups(kernels: Sequence[Emitted]) -> Iterator[list[_Read]]:
    """Kernels that are the same but for names and integers, where there are several."""
    by_size = lists_of(((len(one.lines), len(one.parameters)), one) for one in kernels)
    alike: dict[Hashable, list[Emitted]] = {}
    for several in by_size.values():
        for one in several if len(several) > 1 else ():
            strided = replace(one, lines=tuple(map(_with_strides, one.lines)))
            alike.setdefault(_Read.of(strided).likeness, []).append(one)
    return (list(map(_Read.of, _levelled(group))) for group in alike.values() if len(group) > 1)


def _levelled(group: Sequence[Emitted]) -> list[Emitted]:
    """The kernels with their strides written where these are 1 in some and not in others."""
    if not any(_WINDOWS.fullmatch(line) for line in group[0].lines):
        return [*group]
    lines = [zip(*map(_levelled_pieces, zip(*map(_pieces_of, of)))) for of in zip(*(one.lines for one in group))]
    return [replace(one, lines=tuple("".join(part) for part in own)) for one, own in zip(group, zip(*lines))]


def _levelled_pieces(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The same piece of several kernels' lines."""
    found = [_START.fullmatch(piece) for piece in pieces]
    is_written = {start is not None and start[1] is not None for start in found}
    return tuple(map(_with_stride, pieces)) if len(is_written) > 1 else pieces


def _pieces_of(line: str) -> list[str]:
    """A line, in pieces where it fetches windows: what is before and behind its arguments, and each of these."""
    found = _WINDOWS.fullmatch(line)
    return [line] if found is None else [found[1], *re.split("(, )", found[2]), found[3]]


def _with_strides(line: str) -> str:
    """A line that fetches windows with the strides of these."""
    return "".join(map(_with_stride, pieces)) if len(pieces := _pieces_of(line)) > 1 else line


def _with_stride(start: str) -> str:
    """Where a window begins, `n % 14 - 1` perhaps, with its stride: `1 * (n % 14) - 1`."""
    found = _START.fullmatch(start)
    if found is None:
        return start
    place = found[2] or found[3] or found[4]
    return f"{found[1] or 1} * {place if place.isidentifier() else f'({place})'}{found[5]}"


def _same(group: list[_Read]) -> list[list[_Read]]:
    """The kernels of a group in lists of those whose integers and bounds are the same."""
    found = lists_of(((read.kernel.bounds, *(read.parts[at] for at in read.places)), read) for read in group)
    return [*found.values()]


def _put_together(group: list[_Read], entries: Names, before: dict[str, list[str]], bodies: dict[str, list[str]]):
    """Makes the function of a group, where that leaves fewer lines."""
    first, count = group[0].kernel, len(group[0].kernel.lines)
    if (len(group) - 1) * count <= len(group) + 5:
        return
    numbers = {at: tuple(int(read.parts[at]) for read in group) for at in group[0].places}
    numbers = {at: several for at, several in numbers.items() if len(set(several)) > 1}
    free = FreeNames({*group[0].parts[1::2], *first.names})
    called: dict[tuple[int, ...], str] = {}
    for at, several in numbers.items():
        if several not in called:
            is_stride = 1 in several and group[0].parts[at + 1].startswith(" * ")  # of 1, which only `_levelled` writes
            called[several] = free.name("stride_n" if is_stride else _hint(group[0], at))
    if len(called) > MOST_PARAMETERS:
        return
    lines = _with_parameters(group[0], {at: called[several] for at, several in numbers.items()})
    name = entries.of("function", f"{first.entry}{SIZED}")
    before[first.entry] = [
        *([f"template <{', '.join(f'int {word}' for word in called.values())}>"] if called else ()),
        f"__device__ __forceinline__ void {name}({', '.join(map(_by_reference, first.parameters))})",
        "{",
        *lines,
        "}\n",
    ]
    for number, read in enumerate(group):
        own = f"<{', '.join(str(several[number]) for several in called)}>" if called else ""
        given = ", ".join(parameter.split("*")[-1].split()[-1] for parameter in read.kernel.parameters)
        bodies[read.kernel.entry] = [f"  {name}{own}({given});"]


def _hint(read: _Read, at: int) -> str:
    """What an integer is called after: the kernel's name that is nearest before it on its line, else behind it."""
    own = read.kernel.names
    for step in (-2, 2):
        place = at
        while 1 <= place + step < len(read.parts) and "\n" not in read.parts[place + step // 2]:
            place += step
            if read.parts[place] in own:
                return f"{read.parts[place]}_n"
    return "n"


def _with_parameters(read: _Read, called: dict[int, str]) -> list[str]:
    """The lines of a kernel with parameters for integers, and with its comments."""
    words = [called.get(at, word) for at, word in enumerate(read.parts)]
    lines = "".join(words).split("\n")[len(read.kernel.parameters) :]
    comments = [found[0] if (found := _COMMENT.search(line)) else "" for line in read.kernel.lines]
    return [line + said for line, said in zip(lines, comments, strict=True)]


def _by_reference(parameter: str) -> str:
    for value, reference in _REFERENCES.items():
        parameter = parameter.replace(value, reference)
    return parameter
