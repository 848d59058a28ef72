"""The C of a program: tables, sizes, launches in order, behind `support.c`, which every program has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..ir.expr import Expr
from ..ir.manifest import TensorMap
from ..kit.groups import lists_of
from ..kit.quote import visible
from ..kit.records import dataclass
from ..lower.cu.names import comment
from ..runtime.abi import alignment_of
from . import texts
from .expressions import c_of, condition, number
from .header import FAULTS
from .outline import PARAMETER, POOL, Launch, Outline, Place
from .spelling import SUPPORT, Spelt

MOST_BYTES = 1 << 48  # of a tensor: more than any GPU has, and far from where sums of them overflow
MOST_COLUMNS = 118
_COMMA = re.compile(r", (?=[\w&*({])")  # between what C lists; `_quoted` leaves none in a string
_TYPES = {
    "bool": "UINT8",
    "fp8e4m3": "UINT8",
    "fp8e5m2": "UINT8",
    "fp16": "FLOAT16",
    "fp32": "FLOAT32",
    "bf16": "BFLOAT16",
    "tf32": "TFLOAT32",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Images compiled for one kind of GPU, `sm_90a` or `sm_80`."""

    arch: str
    images: tuple[bytes, ...]

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor version."""
        return divmod(int(self.arch.removeprefix("sm_").rstrip("af")), 10)


@dataclass(frozen=True, slots=True)
class Files:
    """Where what is in the data file begins: each target's images, then the pool."""

    targets: tuple[tuple[Target, int], ...]
    image_of: dict[str, int]  # by entry
    pool: int


def source_of(outline: Outline, spelt: Spelt, files: Files, identity: str) -> str:
    """The whole C file."""
    lines = _Source(outline, spelt, files, identity).lines()
    return "\n".join(part for line in lines for part in _wrapped(line)).rstrip("\n") + "\n"


def _wrapped(line: str) -> list[str]:
    """A line of C in lines of at most 120 columns where its commas allow that."""
    if len(line) <= MOST_COLUMNS or "\n" in line or "//" in line:  # support.c, and lines that end in a comment
        return [line]
    indent = len(line) - len(line.lstrip()) + 4
    found, rest = [], line
    while len(rest) > MOST_COLUMNS:
        cut = max((m.end() for m in _COMMA.finditer(rest, indent, MOST_COLUMNS)), default=0)
        if not cut:
            break
        found.append(rest[:cut].rstrip())
        rest = " " * indent + rest[cut:]
    return [*found, rest]


class _Source:
    def __init__(self, outline: Outline, spelt: Spelt, files: Files, identity: str):
        self.outline, self.spelt, self.files, self.identity = outline, spelt, files, identity
        self.at_once = [launch for launch in outline.launches if launch.is_kept]
        self.launches = [launch for launch in outline.launches if not launch.is_kept]
        self.numbers = {launch.name: n for n, launch in enumerate(self.launches)}
        self.workspace = outline.workspace
        self.kernels = list(outline.kernels)

    def lines(self) -> Iterator[str]:
        """From the first include to the last function."""
        name, upper = self.spelt.name, self.spelt.name.upper()
        yield comment(f"{self.outline.name}, compiled by tinyir. {name}.h says how it is called.")
        yield from (f'#include "{name}.h"', "")
        yield from (f"#include <{n}>" for n in ("cuda.h", "stdio.h", "stdlib.h", "string.h"))
        yield ""
        yield from (f"#define {word} {upper}_{word}" for word in FAULTS)
        yield f"#define PROGRAM {name}_program"
        yield f"typedef struct {name}_program PROGRAM;"
        yield f'#define IDENTITY "{self.identity}"'
        yield f'#define TARGET_NAMES "{", ".join(t.arch for t, _ in self.files.targets)}"'
        counts = {
            "TARGETS": len(self.files.targets),
            "IMAGES": len(self.files.targets[0][0].images),
            "KERNELS": len(self.kernels),
            "LAUNCHES": len(self.launches),
            "ITEMS": len(self.workspace),
            "SIZES": len(self.outline.symbols),
            "POOL_PLACE": self.files.pool,
            "POOL_FILLED": self.outline.pool_filled,
            "POOL_BYTES": self.outline.pool_bytes,
        }
        yield from (f"#define {word} {number(value)}" for word, value in counts.items())
        yield ""
        support = SUPPORT.read_text(encoding="utf-8")
        before, mark, after = support.partition("static int read_bytes(")
        yield before.rstrip("\n")
        yield from ("", *self._tables())
        yield (mark + after).rstrip("\n")
        yield from ("", *self._layout(), *self._once(), *self._queue(), *self._functions())

    def _tables(self) -> Iterator[str]:
        kernels = [f'    {{"{e}", {self.files.image_of[e]}, {shared}}},' for e, shared in self.outline.kernels.items()]
        targets = []
        for target, place in self.files.targets:
            major, minor = target.capability
            exact = int(not target.arch[-1].isdigit())
            images = ", ".join(str(len(i)) for i in target.images) or "0"
            targets.append(f"    {{{major}, {minor}, {exact}, {number(place)}, {{{images}}}}},")
        yield from texts.filled(texts.TABLES, kernels=kernels, targets=targets)

    # --- sizes

    def _layout(self) -> Iterator[str]:
        """`settle`: what the sizes decide; `layout_of`: the same, remembered."""
        sizes = self.spelt.sizes(self.outline)
        touches = [
            f"    {{{self.numbers[launch.name]}, {n}}},"
            for launch in self.launches
            for n, p in enumerate(self.workspace)
            if p.name in self.outline.touches(launch)
        ]
        items = enumerate(self.workspace)
        yield from texts.filled(
            texts.SETTLE,
            told=", ".join([*sizes, "struct layout *layout"]),
            touches=touches,
            decided=[*self._ranges(), *self._extents()],
            extents=[f"  items[{n}].bytes = {self.spelt.extent(p.name)};" for n, p in items],
            chosen=self._chosen(),
            filled=[
                f"  if (items[{n}].last >= 0) items[{n}].first = -1;  // filled before the first launch"
                for n, p in enumerate(self.workspace)
                if p.value is not None
            ],
        )
        named = [self.spelt.size(s) for s in self.outline.symbols]
        yield from texts.filled(
            texts.LAYOUT,
            told=", ".join([*sizes, "int *fault"]),
            known=[line.replace("SYMBOLS", ", ".join(named)) for line in texts.KNOWN.splitlines()] if named else [],
            settled=", ".join([*named, "&known"]),
            kept=["    memcpy(known_sizes, sizes, sizeof sizes);"] if named else [],
        )

    def _ranges(self) -> Iterator[str]:
        for symbol, (low, high) in self.outline.ranges.items():
            size = self.spelt.size(symbol)
            yield f"  if ({size} < {number(low)} || {size} > {number(high)})"
            yield f'    return fail(BAD_SIZE, {_quoted(symbol)}, "it is outside of {low}..{high}");'

    def _extents(self) -> Iterator[str]:
        """The bytes of each tensor that is not in the pool."""
        sized = [p for p in self.outline.places.values() if any(e.constant is None for e in p.shape)]
        for place in dict.fromkeys(p.name for p in (*sized, *self.workspace)):
            size = self._product(self.outline.shapes[place], self.outline.items[place])
            yield f"  const int64_t {self.spelt.extent(place)} = {size};"
        for place in sized:
            yield f"  if ({self.spelt.extent(place.name)} > {number(MOST_BYTES)})"
            yield f'    return fail(BAD_SIZE, {_quoted(place.name)}, "no GPU holds its bytes");'

    def _product(self, shape: Sequence[Expr], first: int) -> str:
        """The product of extents, which stops at the greatest number."""
        fixed, text = first, ""
        for e in shape:
            if e.constant is not None:
                fixed *= e.constant
            else:
                text = f"times({text}, {self._c(e)})" if text else self._c(e)
        return f"times({text}, {number(fixed)})" if text else number(min(fixed, MOST_BYTES + 1))

    def _chosen(self) -> Iterator[str]:
        """Of the launches of the same regions the first that the sizes allow, with those that serve it; none that has
        nothing to write."""
        groups = lists_of((launch.group, launch) for launch in self.launches if not launch.serves)
        for group in groups.values():
            rules = []
            for n, main in enumerate(group):
                parts = [main, *(p for p in self.launches if p.serves == main.name)]
                rule = condition((g for p in parts for g in p.allowed), self.spelt.size)
                others = [f"!layout->made[{self.numbers[o.name]}]" for o in group[:n]]
                rules.append(rule)
                chosen = " && ".join([*others, *rule]) or "1"
                yield f"  layout->made[{self.numbers[main.name]}] = {chosen};  {comment(main.name)}"
            if all(rules):
                made = " || ".join(f"layout->made[{self.numbers[o.name]}]" for o in group)
                yield f"  if (!({made}))"
                yield f'    return fail(NO_KERNEL, {_quoted(group[0].name)}, "no kernel takes these sizes");'
        for launch in self.launches:
            if launch.serves and launch.serves in self.numbers:
                yield f"  layout->made[{self.numbers[launch.name]}] = layout->made[{self.numbers[launch.serves]}];"
        for launch in self.launches:
            rule = self._has_work(launch)
            if rule:
                yield f"  layout->made[{self.numbers[launch.name]}] &= {' && '.join(rule)};"

    def _has_work(self, launch: Launch) -> list[str]:
        """When a launch has blocks, and something to write; empty where it always does."""
        grid = [f"0 < {self._c(e)}" if e.constant is None else "0" for e in launch.grid if (e.constant or 0) <= 0]
        written = [
            [f"0 < {self._c(e)}" if e.constant is None else "0" for e in shape if (e.constant or 0) <= 0]
            for shape in launch.written
        ]
        if not written or not all(written):  # no outputs, or one that is never empty
            return list(dict.fromkeys(grid))
        some = list(dict.fromkeys(" && ".join(dict.fromkeys(w)) for w in written))
        return [*dict.fromkeys(grid), some[0] if len(some) == 1 else f"({' || '.join(f'({w})' for w in some)})"]

    # --- launches

    def _once(self) -> Iterator[str]:
        made = [line for launch in self.at_once for line in self._launch(launch)]
        text = texts.ONCE if self.at_once else texts.NOTHING_ONCE
        yield from texts.filled(text, addresses=self._addresses(self.at_once), launches=made)

    def _queue(self) -> Iterator[str]:
        tensors = [self.spelt.parameter(self.outline, t) for t in self.outline.parameters]
        told = ["const PROGRAM *program", "const struct layout *layout", *tensors, *self.spelt.sizes(self.outline)]
        unused = [self.spelt.tensor(t.name) for t in self.outline.parameters if t.name not in self.outline.places]
        unused += [self.spelt.size(s) for s in self.outline.symbols]
        named = sorted({n for launch in self.launches for kind, n in launch.arguments if kind == "symbol"})
        narrow = {n: self._c(Expr.of(n).substitute(self.outline.settled)) for n in named}
        yield from texts.filled(
            texts.QUEUE,
            told=", ".join([*told, "void *workspace", "CUstream stream"]),
            unused=[f"  (void){name};" for name in unused],
            addresses=self._addresses(self.launches),
            narrow=[f"  int {self.spelt.narrow(symbol)} = (int)({size});" for symbol, size in narrow.items()],
            filled=[line for place in self.workspace if place.value is not None for line in self._fill(place)],
            launches=[line for launch in self.launches for line in self._launch(launch)],
        )

    def _fill(self, place: Place) -> Iterator[str]:
        bits = int.from_bytes(place.value.tobytes(), "little")
        count = self._product(place.shape, 1)
        what = f"{self.spelt.address(place.name)}, UINT64_C({bits}), {place.item}, {count}"
        yield f"  fault = fill({what}, {_quoted(place.name)}, stream);"
        yield "  if (fault) return fault;"

    def _addresses(self, launches: Sequence[Launch]) -> Iterator[str]:
        """The address of each tensor that the launches are given."""
        for name in dict.fromkeys(n for launch in launches for n in self.outline.touches(launch)):
            yield f"  CUdeviceptr {self.spelt.address(name)} = {self._place(self.outline.places[name])};"

    def _place(self, place: Place) -> str:
        if place.where == PARAMETER:
            return f"(CUdeviceptr)(uintptr_t){self.spelt.tensor(place.name)}"
        if place.where == POOL:
            return f"program->pool + {number(place.offset)}"
        return f"(CUdeviceptr)(uintptr_t)workspace + (CUdeviceptr)layout->place[{self.workspace.index(place)}]"

    def _launch(self, launch: Launch) -> Iterator[str]:
        maps = [self.outline.maps[n] for kind, n in launch.arguments if kind == "map"]
        yield f"  {comment(launch.name)}"
        yield "  {" if launch.is_kept else f"  if (layout->made[{self.numbers[launch.name]}]) {{"
        if maps:
            yield f"    CUtensorMap maps[{len(maps)}];"
        arguments, seen = [], 0
        for kind, name in launch.arguments:
            if kind == "map":
                arguments.append(f"&maps[{seen}]")
                seen += 1
            else:
                own = self.spelt.address(self.outline.owners[name]) if kind == "tensor" else self.spelt.narrow(name)
                if kind == "tensor" and name in launch.moved:
                    sign, before = "+-"[launch.moved[name] < 0], number(abs(launch.moved[name]))
                    yield f"    CUdeviceptr from{len(arguments)} = {own} {sign} {before};"
                    own = f"from{len(arguments)}"
                arguments.append(f"&{own}")
        if launch.is_kept:
            for symbol in dict.fromkeys(n for kind, n in launch.arguments if kind == "symbol"):
                yield f"    int {self.spelt.narrow(symbol)} = {number(self.outline.settled[symbol])};"
        yield f"    void *arguments[] = {{{', '.join(arguments) or 'NULL'}}};"
        for n, m in enumerate(maps):
            yield from self._map(m, n)
        grid = ", ".join(self._c(e) for e in launch.grid)
        block = ", ".join(map(str, launch.block))
        yield (
            f"    fault = launch(&call, {self.kernels.index(launch.entry)}, {_quoted(launch.name)}, {grid}, {block}, "
            f"{launch.shared}, {int(launch.is_early)}, arguments);"
        )
        yield "    if (fault) return fault;"
        yield "  }"

    def _map(self, m: TensorMap, at: int) -> Iterator[str]:
        name = m.tensor
        shape = self.outline.shapes[name]
        dims = [e.substitute(self.outline.settled) for e in m.dims] or list(shape)
        kind = _TYPES[m.rounding or self.outline.dtypes[name]]
        told = (
            f"&maps[{at}], {_quoted(m.name)}, CU_TENSOR_MAP_DATA_TYPE_{kind}, "
            f"{self.outline.items[name]}, {self.spelt.address(self.outline.owners[name])}, {len(dims)}, "
            f"(const cuuint64_t[]){{{', '.join(self._unsigned(e) for e in dims[::-1])}}}"
        )
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{m.swizzle}B' if m.swizzle else 'NONE'}"
        box = [e.constant for e in m.box]
        if m.windows is None:
            sides = f"(const cuuint32_t[]){{{', '.join(map(str, box[::-1]))}}}"
            yield f"    fault = tiled_map({told}, {sides}, {swizzle});"
        else:
            walk = m.windows
            highs = [e.substitute(self.outline.settled) for e in walk.highs(shape)]
            low = f"(const int[]){{{', '.join(map(str, walk.low[::-1]))}}}"
            high = f"(const int[]){{{', '.join(f'(int)({self._c(e)})' for e in highs[::-1])}}}"
            steps = f"(const cuuint32_t[]){{{', '.join(map(str, (1, *walk.steps[::-1], 1)))}}}"
            yield f"    fault = window_map({told}, {low}, {high}, {box[-1]}, {box[0]}, {steps}, {swizzle});"
        yield "    if (fault) return fault;"

    # --- what a caller calls

    def _functions(self) -> Iterator[str]:
        outline, spelt = self.outline, self.spelt
        sizes, named = spelt.sizes(outline), [spelt.size(s) for s in outline.symbols]
        program, stream = f"const {spelt.name}_program *program", "struct CUstream_st *stream"
        tensors = [spelt.parameter(outline, t) for t in outline.parameters]
        given = [spelt.tensor(t.name) for t in outline.parameters]
        yield from texts.filled(
            texts.FUNCTIONS,
            name=spelt.name,
            asked=", ".join([*sizes, "size_t *bytes"]),
            named=", ".join([*named, "&fault"]),
            told=", ".join([program, *tensors, *sizes, "void *workspace", stream]),
            checked=self._checked(),
            given=", ".join(["program", "layout", *given, *named, "workspace", "stream"]),
        )
        if outline.states:
            states = [f"void *{spelt.tensor(n)}" for n in outline.states]
            told = ", ".join([program, *states, stream])
            yield from texts.filled(texts.RESET, name=spelt.name, told=told, copied=self._copied())

    def _checked(self) -> Iterator[str]:
        """The address of each tensor that a caller gives, unless it has no element."""
        for t in self.outline.parameters:
            place = self.outline.places.get(t.name)
            count = self._product(place.shape, 1) if place is not None else "0"
            if count != "0":
                check = f"check_address({self.spelt.tensor(t.name)}, {alignment_of(t)}, {_quoted(t.name)})"
                always = place.shape == () or all((e.constant or 0) > 0 for e in place.shape)
                yield f"  fault = {check if always else f'0 < {count} ? {check} : 0'};"
                yield "  if (fault) return fault;"

    def _copied(self) -> Iterator[str]:
        """The first numbers of each state."""
        for state, offset in self.outline.states.items():
            size = self._product(self.outline.shapes[state], self.outline.items[state])
            yield f"  if (result == CUDA_SUCCESS && {size} > 0)"
            to, source = f"(CUdeviceptr)(uintptr_t){self.spelt.tensor(state)}", f"program->pool + {number(offset)}"
            yield f"    result = cuMemcpyDtoDAsync({to}, {source}, {size}, stream);"

    def _unsigned(self, expr: Expr) -> str:
        return self._c(expr) if expr.constant is not None else f"(cuuint64_t)({self._c(expr)})"

    def _c(self, expr: Expr) -> str:
        return c_of(expr, self.spelt.size)


def _quoted(name: str) -> str:
    """A name as a C string: what is not plain ASCII as the bytes of its UTF-8."""
    plain = {*range(0x20, 0x7F)} - {*b'",?\\'}
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in visible(name).encode()) + '"'
