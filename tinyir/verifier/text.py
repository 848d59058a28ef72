"""Kernels as they are written: lines nested by what is indented further, each with its parts and its places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .polynomials import Poly, Unreadable, add, constant, number, read

OF_TEXT, OF_DATA = "text", "data"  # how a fact is known: as it is written, or as the kernel looks after it when it runs
Half = tuple[Poly, bool]  # >= 0, or (True) = 0
NAME = r'%?(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*(?:\.\w+)*)'
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}  # by what a dtype ends with; others are of 1
PLACE = re.compile(rf"({NAME})((?:\[[^\[\]]*\])+)")
KINDS = {"e": ".+?", "l": ".+?", "g": ".+", "n": r"\d+", "w": ".+?", "t": r"\w+", "k": r"[a-z]\w*", "": NAME}
KINDS["p"] = rf"{NAME}(?:\[.*?\])?"
PART = re.compile(r"\{(\w+)(?::(\w)|=(\w+))?\}")
Rows = list[list[str]]  # what is said, and how: `is`, `{name} = {value}`
FORMS: dict[str, list[tuple[re.Pattern[str], dict[str, str], Rows]]] = {}  # of a kind; what parts are; what it says
rows = Rows()
for form in (Path(__file__).parent / "statements.txt").read_text(encoding="utf-8").splitlines():
    if form.startswith("  "):
        rows.append(form.split(maxsplit=1))
    elif not form.startswith("#"):
        head, pattern = (form, "") if form.startswith("(") else form.replace("NAME", NAME).split(maxsplit=1)
        whole, rows = PART.sub(lambda m: f"(?P<{m[1]}>{m[3] or KINDS[m[2] or '']})", pattern), Rows()
        parts = {name: kind for name, kind, _ in PART.findall(pattern)}
        FORMS.setdefault(head, []).append((re.compile(whole + "$"), parts, rows))
ENGINES = frozenset("cp_async tma_load send tma_store wgmma".split())  # what makes tokens
READS = frozenset("each wait arrive mma wgmma choose value look_back".split())  # what writes no place


class Access(NamedTuple):
    """A place: a name with its brackets. `when`: guards that hold besides, or (True) do not."""

    name: str
    brackets: tuple[tuple[Poly, ...], ...]
    is_write: bool
    when: tuple[tuple[tuple[Half, ...], bool], ...]


class Line:
    """A statement: its number in the text, its parts (`get`), the places that it names, and the blocks in it."""

    def __init__(self, at: int, text: str):
        self.number, self.text = at, text
        self.body, self.otherwise = list[Line](), list[Line]()
        self.token, head = "", text.split()[0]
        made = re.match(rf"(%{NAME}) = (\S+)", text) if text.startswith("%") else None
        if made:
            self.token, head = made[1], made[2] if made[2] in ENGINES else "value"
        elif head not in FORMS:
            head = "assign"
            if not re.match(rf"{PLACE.pattern} (?:=|over) ", text):
                raise Unreadable(text)
        self.kind, self.has, self.rows, self.raw = head, {}, Rows(), dict[str, Any](line=str(at))
        if head in FORMS:
            form, kinds, self.rows = next((one for one in FORMS[head] if one[0].match(text)), FORMS[head][0])
            found = form.match(text)
            if found is None:
                raise Unreadable(text)
            self.raw |= {
                name: v.split(", ") if kinds[name] in "lw" else v for name, v in found.groupdict().items() if v
            }
            self.has = {name: part(kinds[name], v) for name, v in found.groupdict().items() if v is not None}
        # (name, size, False) of what it runs over, and (name, value, True) of what it names
        self.axes: list[tuple[str, Poly, bool]] = []
        if head in ("assign", "store", "copy", "cp_async", "resum") and " over " in text:
            self._read_axes(text)
        self.accesses = [] if head in ("shared", "tensor_map", "pick") else self._places(text)

    def _read_axes(self, text: str) -> None:
        """`over r: 64, c: 32 with i0 = m0 + r, k0 = c = A[i0, k0]`: the last `=` before the value ends it."""
        over = text[text.index(" over ") + 6 :]
        sizes, _, rest = over.partition(" with ") if " with " in over.split("[")[0] else (over.split(" = ")[0], "", "")
        for one in sizes.split(", "):
            called, size = one.split(": ")
            self.axes.append((called, read(size), False))
        *lets, last = re.split(rf", (?={NAME} = )", rest) if rest else (None,)
        for one in lets:
            self.axes.append((*_named(one), True))
        if last is not None:
            self.axes.append((*_named(" = ".join(last.split(" = ")[:2])), True))

    def _places(self, text: str) -> list[Access]:
        found, selects, start = [], [*_selects(text)], 0
        if self.kind == "reg":
            start = text.index("]") + 1
        for place in PLACE.finditer(text, start):
            brackets = tuple(integers(b) for b in place[2][1:-1].split("]["))
            when = tuple((guard, broken) for low, high, guard, broken in selects if low <= place.start() < high)
            is_write = self.kind not in READS and not found and " <- " not in text[: place.start()]
            found.append(Access(place[1], brackets, is_write, when))
        return found

    def get(self, called: str, otherwise: Any = None) -> Any:
        """A part of it."""
        return self.has.get(called, otherwise)


def _named(text: str) -> tuple[str, Poly]:
    called, value = text.split(" = ")
    return called, read(value)


def part(kind: str, text: str) -> Any:
    """What a part of a statement's text means, by its kind. Raises Unreadable."""
    return MEANINGS[kind](text) if kind in MEANINGS else text


def integers(text: str) -> tuple[Poly, ...]:
    """A list of integers. Raises Unreadable."""
    return tuple(map(read, text.split(", "))) if text else ()


def guard_of(text: str) -> tuple[Half, ...]:
    """The sides of a guard: `0 <= i < N and j = 0` is i >= 0, N - i - 1 >= 0 and j = 0."""
    found: list[Half] = []
    for bound in text.split(" and "):
        words = re.split(r" (<=|<|=) ", bound)
        for low, sign, high in zip(words[::2], words[1::2], words[2::2]):
            rest = add(read(high), read(low), -1)
            found.append((add(rest, number(-1)) if sign == "<" else rest, sign == "="))
    return tuple(found)


MEANINGS = {"e": read, "l": integers, "g": guard_of, "n": int, "w": lambda text: tuple(text.split(", "))}


def _end(text: str, at: int, step: int, ends: str) -> int:
    """Where the first of these ends is, forwards or backwards, that no brackets enclose."""
    depth, (opening, closing) = 0, ("([", ")]")[::step]
    while 0 <= at < len(text) and (depth or text[at] not in ends):
        depth += (text[at] in opening) - (text[at] in closing)
        at += step
    return at


def _selects(text: str) -> Iterator[tuple[int, int, tuple[Half, ...], bool]]:
    """Of each `x where guard else y` where x is and where y is, with the guard."""
    for place in re.finditer(" where (.+?) else ", text):
        guard = guard_of(place[1])
        yield _end(text, place.start() - 1, -1, " (,[") + 1, place.start(), guard, False
        yield place.end(), _end(text, place.end(), 1, "),]"), guard, True


def nested(lines: Sequence[tuple[int, str]]) -> list[Line]:
    """The statements of lines (number, text), nested by column."""
    top: list[Line] = []
    blocks: list[tuple[int, list[Line]]] = [(-1, top)]
    for at, text in lines:
        column = len(text) - len(text.lstrip())
        while blocks[-1][0] >= column:
            blocks.pop()
        line, block = Line(at, text.strip()), blocks[-1][1]
        if line.kind == "else":
            if not block or block[-1].kind != "if":
                raise Unreadable(text)
            blocks.append((column, block[-1].otherwise))
            continue
        block.append(line)
        blocks.append((column, line.body))
    return top


def statements(lines: Sequence[Line]) -> Iterator[Line]:
    """Every statement, blocks before what is in them."""
    for line in lines:
        yield line
        yield from statements(line.body)
        yield from statements(line.otherwise)


class Obligation(NamedTuple):
    """Something to show at a line: that all `goals` are >= 0, of what a `scope` knows; without any whether a rule
    `shows` it."""

    line: int
    what: str
    goals: Sequence[Poly] = ()
    scope: Any = None
    shows: bool = False


Points = dict[int, list[tuple[str, Poly]]]  # of the line of a store: each point in terms of the element that it writes


class Kernel:
    """A kernel: its head, and its statements."""

    HEAD = re.compile(
        rf"kernel ({NAME}).* : (sm\d+) grid \[(.*)\] block \[(.*?)\](?: cluster \[(.*?)\])?(?: regs (\d+))?$"
    )

    def __init__(self, lines: Sequence[tuple[int, str]]):
        found = self.HEAD.match(lines[0][1])
        if found is None:
            raise Unreadable(lines[0][1])
        self.number, self.is_once = lines[0][0], " once : " in lines[0][1]
        self.name, self.arch, grid, block, cluster, regs = found.groups()
        self.grid, self.sizes = integers(grid), grid.split(", ")
        self.block, self.cluster = (tuple(map(int, re.findall(r"\d+", text or ""))) for text in (block, cluster))
        self.regs, self.threads = int(regs or 0), math.prod(self.block)
        self.body = nested(lines[1:])


class Text:
    """A gpu text: the ranges of sizes, every tensor's shape, and the kernels."""

    LAUNCH = re.compile(rf"launch .* as ({NAME}) with (.+)")
    PASSED = re.compile(rf"({NAME}) = ({NAME})(?: at \[([-\d, ]*)\])?(?:, |$)")
    SYMBOL = re.compile(r"  sym (\S+) in (-?\d+)\.\.(-?\d+)")
    TENSOR = re.compile(rf"(?:  in |  out|  buffer|workspace) +({NAME}) +: ([a-z]\w*)\[(.*?)\]")

    def __init__(self, text: str):
        self.lines = text.splitlines()
        if not re.match(r"tinyir \d+\.\d+ gpu$", self.lines[0] if self.lines else ""):
            raise Unreadable("a text that is not gpu text")
        self.ranges: dict[str, tuple[int, int]] = {}
        self.tensors: dict[str, tuple[str, tuple[Poly, ...]]] = {}
        self.alias: dict[str, str] = {}  # in whose memory a tensor is
        self.kernels: list[Kernel] = []
        self.launches: list[tuple[int, str, list[tuple[str, str, str]]]] = []  # line, kernel, what it passes
        section, start = "", 0
        for at, line in [*enumerate(self.lines), (len(self.lines), "end")]:
            if line and line[0] != " ":
                if section == "kernel":
                    found = [(n + 1, t) for n, t in enumerate(self.lines[start:at], start) if t.strip()]
                    self.kernels.append(Kernel(found))
                section, start = line.split()[0], at
            launch = self.LAUNCH.match(line)
            if launch:
                if self.PASSED.sub("", launch[2]):
                    raise Unreadable(line)
                self.launches.append((at + 1, launch[1], self.PASSED.findall(launch[2])))
            symbol, tensor = self.SYMBOL.match(line), self.TENSOR.match(line)
            if symbol and section == "model":
                self.ranges[symbol[1]] = int(symbol[2]), int(symbol[3])
            if tensor and section in ("model", "region", "program", "workspace"):
                found = tensor[2], integers(tensor[3])
                alias = re.search(rf"\balias=({NAME})", line)
                self.alias |= {tensor[1]: alias[1]} if alias else {}
                if self.tensors.setdefault(tensor[1], found) != found:
                    raise Unreadable(f"{line}: another type than before")

    def symbols(self) -> list[str]:
        """The sizes that shapes speak of."""
        found = (atom for _, shape in self.tensors.values() for e in shape for monomial in e for atom in monomial)
        return list(dict.fromkeys(a for a in found if not a.startswith("floor(")))


def bytes_of(s: Line) -> int:
    """Bytes of all slots of an array."""
    return bytes_each(s.get("dtype")) * s.get("ring", 1) * math.prod(constant(side) or 0 for side in s.get("shape"))


def bytes_each(dtype: str) -> int:
    """Bytes of an element."""
    return BYTES.get(re.findall(r"\d*$", dtype)[0], 1)
