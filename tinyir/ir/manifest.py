"""CUDA text: a .cu file that carries how it is run. Its first lines are a comment block in our own language, then the
code (spec section 12).

    // tinyir 1.0 cu
    //
    // model gemm_bias_relu
    //   ...
    // program gemm_bias_relu
    //   ...
    // manifest
    //   launch gemm : sm90 grid [floor((N + 127)/128), floor((M + 127)/128)] block [16, 16]
    //     tensors [A, B, bias, C2]  symbols [M, N, K]
    //     flops 2*K*M*N + 2*M*N  bytes 2*K*M + 2*K*N + 2*M*N + 2*N
    //   launch gemm2 like gemm : tensors [C2, B2, bias, C3]

The block ends at the first line that is not a comment. Plans and kernels are gone: the code is them. Launches run in
order; those of the same regions are alternatives, of which the first that is allowed runs; `launch r.2.pad of r for
r.2` runs where r.2 does, `for r.2 once`, or `once` alone of a region of its own, before the first run alone: what it
writes is kept, as long as the constants that it reads are the same. One that is `like` an earlier one has other tensors
and maps, and computes another region. One that is `early` may start while the launch
before it drains: its code waits for that one's end (`ir.gpu.early`). A kernel's parameters are its tensors (pointers),
its tensor maps (128 bytes, by value, aligned to 64) and its symbols (int), as listed. `smem` is dynamic shared memory.
Buffers of the program that are not deferred, and those listed here, are allocated for the run. A launch is allowed
where its `assume` guards hold, and every size is at most `intervals.LARGEST_SIZE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..kit.diag import Diag, Edit, Label, Refused
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from ..kit.span import Span, Spanned, span_of
from ..kit.text import VERSION, Grammar, body_of, header, show_list, token_span
from ..target.arch import ARCHS
from . import region as region_text
from .attrs import show_attrs
from .expr import ZERO, Bound, Expr, show_guard
from .model import memory_type, show_name
from .moved import show_placed
from .read import expr_of, guard_of, integer_of, name_of
from .region import MEMORY_ATTRS, Tensor
from .windows import Windows, windows_of

STAGE = "cu"
GRAMMAR = Grammar("manifest", "cu_text")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The descriptor of a tensor for the copy engine: row-major, its box in elements, the swizzle's span in bytes (0
    none). `dims` are those that the engine sees where they are not the tensor's own; fp32 may be rounded as it is
    fetched (`tf32`). With `windows` it moves boxes of these (ir.windows)."""

    name: str
    tensor: str
    box: tuple[Expr, ...]
    swizzle: int = 0
    dims: tuple[Expr, ...] = ()
    rounding: str = ""
    windows: Windows | None = None


@dataclass(frozen=True, slots=True)
class Launch(Spanned):
    """One kernel call. `entry` is its name in the code; grid, block and cluster count from x on; `smem` in bytes.
    `flops` and `bytes` are the work of its regions: operations, and bytes when each input is read and each output
    written once. One that `serves` another launch is a part of it. One that `is_once` is made for the constants that
    it reads, and again only when they are other ones. One that `is_early` may start while the one before it still
    runs. What is `moved`, `fed at [3]`, is handed over from that place on, in whole numbers along its first axes."""

    name: str
    entry: str
    regions: tuple[str, ...]
    arch: str
    grid: tuple[Expr, ...]
    block: tuple[int, ...]
    tensors: tuple[str, ...]
    symbols: tuple[str, ...]
    flops: Expr
    bytes: Expr
    maps: tuple[str, ...] = ()
    cluster: tuple[int, ...] = ()
    smem: int = 0
    assumes: tuple[tuple[Bound, ...], ...] = ()
    serves: str = ""
    is_once: bool = False
    is_early: bool = False
    moved: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def elements_before(self, tensor: str, shape: Sequence[Expr]) -> Expr:
        """How many elements of a tensor of this shape are before the one that is handed over."""
        found = ZERO
        for size, place in zip_longest(shape, dict(self.moved).get(tensor, ()), fillvalue=0):
            found = found * size + place
        return found

    def grid_at(self, sizes: dict[str, int]) -> tuple[int, int, int]:
        """CTAs along x, y, z at the symbols' values."""
        return (*(e.evaluate(sizes) for e in self.grid), *(1,) * (3 - len(self.grid)))


@dataclass(frozen=True, slots=True)
class Module:
    """A .cu text: the region module that the code computes (None for a file without the block), buffers, tensor maps
    and launches, and the code below the block, to the byte."""

    region: region_text.Module | None
    buffers: tuple[Tensor, ...]
    maps: tuple[TensorMap, ...]
    launches: tuple[Launch, ...]
    source: str


def parse(text: str) -> Module:
    """The Module of a .cu text, whatever has become of the code below the block. A file without the block has no region
    and no launches. Raises Refused as `ir.region.parse` does; spans speak of the .cu text."""
    if not text.startswith("// tinyir "):
        return Module(None, (), (), (), text)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # a line ends at a line feed and nowhere else
    count = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    inside = "".join(line[2:].removeprefix(" ").rstrip("\r\n") + "\n" for line in lines[:count])
    try:
        body_of(inside, STAGE)
        _, program, manifest = GRAMMAR.parse(inside).children
        region = region_text.program_of(program, inside)
        return _module_of(manifest, region, inside, "".join(lines[count:]))
    except Refused as fault:
        raise Refused([_moved(d, lines) for d in fault.diags]) from None


def _moved(diag: Diag, lines: list[str]) -> Diag:
    """The diagnostic with its spans in the .cu text: each line there starts with `// `."""

    def move(span: Span | None) -> Span | None:
        if span is None:
            return None
        whole = "".join(lines)
        start = (
            sum(map(len, lines[: span.line - 1]))
            + span.column
            - 1
            + (3 if lines[span.line - 1].startswith("// ") else 2)
        )
        return span_of(whole, start, start + span.end - span.start)

    return Diag(
        diag.code,
        diag.at,
        diag.facts,
        move(diag.span),
        tuple(Label(move(label.span), label.note) for label in diag.labels),
        Edit(move(diag.edit.span), diag.edit.text) if diag.edit is not None else None,
    )


def _module_of(tree: Any, region: region_text.Module, whole: str, source: str) -> Module:
    buffers, maps, launches = [], [], []
    for part in tree.children:
        if part.data == "buffer":
            buffers.append(region_text.tensor_of(part.children, whole))
        elif part.data == "tensor_map":
            name, tensor, view, box, swizzle, rounding = part.children
            windows = windows_of(view)
            dims = () if windows else _exprs(view)
            maps.append(
                TensorMap(str(name), _name(tensor), _exprs(box), int(swizzle or 0), dims, str(rounding or ""), windows)
            )
        else:
            launches.append(_launch_of(part.children) if part.data == "launch" else _like(part.children, launches))
    return Module(region, tuple(buffers), tuple(maps), tuple(launches), source)


def _launch_of(parts: list[Any]) -> Launch:
    name, entry, computes, serves, arch, grid, block, cluster, smem, early, parameters, *assumes, flops, moved = parts
    tensors, maps, symbols = parameters.children
    placed = [(_name(p.children[0]), p.children[1]) for p in tensors.children if p is not None]
    return Launch(
        _name(name),
        str(entry or _name(name)),
        tuple(map(_name, computes.children)) if computes is not None else (_name(name),),
        str(arch),
        _exprs(grid),
        _integers(block),
        tuple(name for name, _ in placed),
        _names(symbols),
        expr_of(flops),
        expr_of(moved),
        _names(maps),
        _integers(cluster),
        int(smem or 0),
        tuple(guard_of(a.children[0]) for a in assumes),
        _name(serves.children[0]) if serves is not None and serves.data == "serves" else "",
        serves is not None and serves.children[-1] is not None,
        early is not None,
        tuple((name, _integers(place)) for name, place in placed if place is not None),
        span=token_span(name.children[0]),
    )


def _like(parts: list[Any], launches: Iterable[Launch]) -> Launch:
    """A launch that is an earlier one with other tensors and maps. Raises Refused (E1632)."""
    name, computes, other, tensors, maps = parts
    span, first = token_span(name.children[0]), next((one for one in launches if one.name == _name(other)), None)
    if first is None:
        raise Refused([Diag("E1632", _name(name), {"what": "launch", "name": _name(other)}, span)])
    placed = [(_name(p.children[0]), p.children[1]) for p in tensors.children if p is not None]
    return replace(
        first,
        name=_name(name),
        regions=tuple(map(_name, computes.children)) if computes is not None else (_name(name),),
        tensors=tuple(name for name, _ in placed),
        maps=_names(maps),
        moved=tuple((name, _integers(place)) for name, place in placed if place is not None),
        span=span,
    )


def _name(tree: Any) -> str:
    return name_of(tree.children[0])


def _names(tree: Any) -> tuple[str, ...]:
    return () if tree is None else tuple(_name(n) for n in tree.children if n is not None)


def _exprs(tree: Any) -> tuple[Expr, ...]:
    return () if tree is None else tuple(expr_of(e) for e in tree.children if e is not None)


def _integers(tree: Any) -> tuple[int, ...]:
    return () if tree is None else tuple(integer_of(e) for e in tree.children if e is not None)


def show(module: Module) -> str:
    """The whole .cu: the block, then the code."""
    return show_block(module) + module.source


def show_block(module: Module) -> str:
    """The comment block alone; empty for a module without one."""
    if module.region is None:
        return ""
    text = (
        header(STAGE)
        + "\n"
        + region_text.show_program(module.region)
        + "\n"
        + "\n".join(_manifest_lines(module))
        + "\n"
    )
    return "".join(f"// {line}\n" if line else "//\n" for line in text.removesuffix("\n").split("\n"))


def _manifest_lines(module: Module) -> Iterable[str]:
    yield "manifest"
    for b in module.buffers:
        yield f"  buffer {show_name(b.name):<11} : {b.type}{show_attrs(b.attrs, MEMORY_ATTRS, b.type.dtype)}"
    for m in module.maps:
        yield (
            f"  tensor_map {m.name} = {show_name(m.tensor)}{m.dims and ' as ' + show_list(m.dims) or ''}"
            + (f" as {m.windows}" if m.windows else "")
            + f" box {show_list(m.box)}"
            + (f" swizzle {m.swizzle}" if m.swizzle else "")
            + (f" round {m.rounding}" if m.rounding else "")
        )
    firsts: dict[Launch, Launch] = {}
    for launch in module.launches:
        first = launch
        if not launch.serves:
            bare = replace(launch, name="", regions=(), tensors=(), maps=(), moved=())
            first = firsts.setdefault(bare, launch)
        yield from _lines_of(launch, first)


def _lines_of(launch: Launch, first: Launch) -> Iterable[str]:
    """The text of a launch; by its tensors and maps alone where it is the `first` of its kind but for them."""
    computes = f" of {', '.join(map(show_name, launch.regions))}" if launch.regions != (launch.name,) else ""
    maps = f"  maps {show_list(map(show_name, launch.maps))}" if launch.maps else ""
    places = dict(launch.moved)
    tensors = show_list(show_placed(name, places.get(name, ())) for name in launch.tensors)
    if first is not launch:
        yield f"  launch {show_name(launch.name)}{computes} like {show_name(first.name)} : tensors {tensors}{maps}"
        return
    entry = f" as {launch.entry}" if launch.entry != launch.name else ""
    computes += f" for {show_name(launch.serves)}" if launch.serves else ""
    computes += " once" if launch.is_once else ""
    cluster = f" cluster {show_list(launch.cluster)}" if launch.cluster else ""
    smem = f" smem {launch.smem} B" if launch.smem else ""
    early = " early" if launch.is_early else ""
    yield (
        f"  launch {show_name(launch.name)}{entry}{computes} : {launch.arch} grid {show_list(launch.grid)} block "
        f"{show_list(launch.block)}{cluster}{smem}{early}"
    )
    yield f"    tensors {tensors}{maps}  symbols {show_list(launch.symbols)}"
    yield from (f"    assume {show_guard(guard)}" for guard in launch.assumes)
    yield f"    flops {launch.flops}  bytes {launch.bytes}"


def check(module: Module) -> list[Diag]:
    """Invariants of a .cu text:

    1. it has the block                                                            (E1630)
    2. the program in the block holds its own invariants                           (E13xx, E14xx)
    3. the code defines each launch's entry, which takes what the launch passes    (E1631)
    4. launches name tensors, maps and symbols that there are                      (E1632)
    5. a launch that may start early is for sm90, and its code waits               (E1634)
    6. every region of the program is computed by a launch that serves no other    (E1633)
    """
    if module.region is None:
        first = module.source.split("\n", 1)[0][:60]
        return [Diag("E1630", facts={"first": first, "version": VERSION}, span=span_of(module.source, 0, len(first)))]
    diags = list(region_text.check(module.region))
    program = module.region.program
    signature = (*module.region.model.inputs, *module.region.model.outputs)
    tensors = {t.name: t for t in (*program.buffers, *module.buffers)}
    tensors |= {t.name: replace(t, type=memory_type(t)) for t in signature}
    known = {
        "tensor": tensors.keys(),
        "map": {m.name for m in module.maps},
        "symbol": set(module.region.model.symbols()),
        "launch": {launch.name for launch in module.launches if not launch.serves},
    }
    bodies = _bodies_of({launch.entry for launch in module.launches if launch.is_early}, module.source)
    taken = {found[1]: list(map(_kind_of, found[2].split(","))) for found in _ENTRY.finditer(module.source)}
    for launch in module.launches:
        passed = [*["tensor"] * len(launch.tensors), *["map"] * len(launch.maps), *["symbol"] * len(launch.symbols)]
        if f"{launch.entry}(" not in module.source or taken.get(launch.entry, passed) != passed:
            facts = {"entry": launch.entry, **{f"{kind}s": passed.count(kind) for kind in ("tensor", "map", "symbol")}}
            diags.append(Diag("E1631", launch.name, facts, launch.span))
        elif launch.is_early and (fault := _early_fault(launch, bodies)):
            diags.append(Diag("E1634", launch.name, {"entry": launch.entry, "fault": fault}, launch.span))
        for what, names in (
            ("tensor", (*launch.tensors, *_moved_outside(launch, tensors))),
            ("map", launch.maps),
            ("symbol", launch.symbols),
            ("launch", (launch.serves,) if launch.serves else ()),
        ):
            diags += [
                Diag("E1632", launch.name, {"what": what, "name": n}, launch.span)
                for n in names
                if n not in known[what]
            ]
    computed = {name for launch in module.launches if not launch.serves for name in launch.regions}
    diags += [Diag("E1633", r.name, {"region": r.name}, r.span) for r in program.regions if r.name not in computed]
    return diags


_ENTRY = re.compile(r"__global__ void\b(?:\s+__\w+__\([^()]*\))*\s+(\w+)\(([^()]+)\)")


def _kind_of(parameter: str) -> str:
    return "map" if " tensor_map " in parameter else "tensor" if "*" in parameter else "symbol"


def _moved_outside(launch: Launch, tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """What a launch is handed from a place on that its tensor has not."""
    for name, place in launch.moved:
        shape = [size.constant for size in tensors[name].type.shape] if name in tensors else []
        if len(place) > len(shape) or any(
            by and (None in shape[axis:] or abs(by) >= shape[axis]) for axis, by in enumerate(place)
        ):
            yield show_placed(name, place)


def _early_fault(launch: Launch, bodies: dict[str, str]) -> str:
    """Why a launch must not start early; empty where it may."""
    if launch.arch not in ARCHS or not ARCHS[launch.arch].has_tma:
        return Phrase("is for {arch}, which has no early launches", arch=launch.arch)
    return "" if "wait_previous();" in bodies.get(launch.entry, "") else Phrase("does not call wait_previous()")


def _bodies_of(entries: set[str], source: str) -> dict[str, str]:
    """The first function of each name in the code, up to the bracket that closes it, comments left out: one walk for
    all. Of one that calls a function of integers, with what that does."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    wanted, found = entries | {call[1] for call in CALL_OF_SIZED.finditer(code)}, {}
    for call in re.finditer(r"\b(\w+)\(", code):
        if call[1] in wanted and call[1] not in found and (body := _BODY.match(code, call.end())):
            found[call[1]] = body[0]
    for name, body in found.items():
        if called := CALL_OF_SIZED.search(body):
            found[name] = body + found.get(called[1], "")
    return found


SIZED = "_sized"  # the end of the name of a function of integers that several kernels call
CALL_OF_SIZED = re.compile(rf"\b(\w+{SIZED})[<(]")
_BODY = re.compile(r"[^{}]*\)\s*{.*?\n}", re.DOTALL)
