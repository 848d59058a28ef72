"""Region Buffer SSA: what shares a kernel. A program of regions, in order, and the buffers between them (seed 001
section 6).

    program gemm_bias_relu
      buffer H           : fp16[M, N]                        memory between regions; {materialize=deferred} stays on the
                         chip

    region gemm
      must_fuse gemm                                         the regions that must share its kernel, itself among them
      in  A           : fp16[M, K] {alignment=16}
      out C2          : fp16[M, N]
      for i0: M, i1: N
      from gemm : GEMM at 17:5
        %gemm          = reduce sum (k0: K) : fp32 { mul(A[i0, k0], B[k0, i1]) : fp32 }
      yield C2[i0, i1] = cast(%gemm) : fp16
      analysis
        parallel [i0, i1]  reduce [k0]  tail [i0, i1, k0]
        halo []  buffer reg depth 1  barrier cta

The tiny text is gone, and with it every movement: a value is an expression (ir.body) over the region's axes, and a
movement is the index of a read. A value has the free axes that its expression uses, in the order of `for`; operands
have equal free axes, or `broadcast_in_dim` says how they meet. A region has no side effects but its yields. How it is
tiled, staged and bound is the plan's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kit.diag import Diag, Refused, collecting, refuse_all
from ..kit.held import once
from ..kit.records import dataclass, field
from ..kit.span import Span, Spanned
from ..kit.text import Grammar, body_of, header, token_span
from . import prove_region, verify_program, verify_region
from .again import again_of, shown
from .attrs import Attrs, show_attrs
from .body import Axis, Body, show_body
from .expr import Bound, Expr, show_guard
from .in_place import check_in_place
from .model import Model, Origin, check_model, model_of, origin_of, read_schema, show_model, show_name
from .read import expr_of, guard_of, name_of, read_at, read_attrs, read_type
from .read_body import Names, body_from, names_in
from .types import TensorType

STAGE = "region"
GRAMMAR = Grammar("region", "region_text")
MEMORY_ATTRS: dict[str, tuple[str, bool]] = {
    "alignment": ("int", False),
    "noalias": ("flag", False),
    "materialize": ("name", False),
    "alias": ("name", False),
    "value": ("literal", False),
}


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Tensor(Spanned):
    """A buffer of the program, or an input or output of a region: memory, contiguous in rows of its last axis, whatever
    the order of the axes in the signature. Attributes, all optional: alignment (bytes), noalias, materialize (gmem,
    deferred: handed to the next region without leaving the chip), alias (the tensor in whose memory a buffer of another
    shape, or the new value of a state, lives), value (the numbers of a constant buffer)."""

    name: str
    type: TensorType
    attrs: Attrs = ()

    def attr(self, key: str) -> Any:
        """The attribute called `key`, or None when it is absent."""
        return dict(self.attrs).get(key)


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Let(Spanned):
    """`%name = expr`: one value over the region's axes, and the op of the model that it came from."""

    name: str
    expr: Body
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Yield(Spanned):
    """`yield output[index] = expr if guard`: the one write of each element of an output."""

    output: str
    index: tuple[Expr, ...]
    expr: Body
    guard: tuple[Bound, ...] = ()
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the polyhedral analysis found: axes whose points may run in any order; axes that are folded; axes whose
    extent a tile need not divide; how far reads reach beyond the point along an axis (elements); the smallest buffer
    that carries the region's values (reg, smem_ring, gmem) and its depth; the barrier that fits (none, cta, cp_async,
    mbarrier)."""

    parallel: tuple[str, ...]
    reduce: tuple[str, ...]
    tail: tuple[str, ...]
    halo: tuple[tuple[str, Expr], ...]
    buffer: str
    depth: int
    barrier: str
    places: tuple[tuple[str, Span], ...] = field(default=(), compare=False, kw_only=True, repr=False)  # by word


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Region(Spanned):
    """One kernel: inputs, outputs, axes (`iters`), values and writes. Regions joined by a deferred buffer share one
    kernel. `must_fuse` are the regions whose values a kernel must compute together, this one among them; empty where
    nobody asked for it, and the plan may make several kernels of the region."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    iters: tuple[Axis, ...]
    lets: tuple[Let, ...]
    yields: tuple[Yield, ...]
    analysis: Analysis | None = None
    must_fuse: tuple[str, ...] = ()

    def let(self, name: str) -> Let | None:
        """The value called `name`, or None."""
        return next((v for v in self.lets if v.name == name), None)

    def tensor(self, name: str) -> Tensor | None:
        """The input or output called `name`, or None."""
        return next((t for t in self.inputs + self.outputs if t.name == name), None)


@dataclass(frozen=True, slots=True)
class Program:
    """Regions in the order in which they run, and the buffers between them."""

    name: str
    buffers: tuple[Tensor, ...]
    regions: tuple[Region, ...]
    _by_name: tuple[dict[str, Any], ...] = field(default=(), init=False, repr=False, compare=False)

    def region(self, name: str) -> Region | None:
        """The region called `name`, or None."""
        return self._named[0].get(name)

    def buffer(self, name: str) -> Tensor | None:
        """The buffer called `name`, or None."""
        return self._named[1].get(name)

    @property
    def _named(self) -> tuple[dict[str, Any], ...]:
        """Regions and buffers by name, the first of each name; made when one is asked for."""
        if not self._by_name:
            found = tuple({one.name: one for one in reversed(every)} for every in (self.regions, self.buffers))
            object.__setattr__(self, "_by_name", found)
        return self._by_name


@dataclass(frozen=True, slots=True)
class Module:
    """A region text: the signature and the program."""

    model: Model
    program: Program


def parse(text: str) -> Module:
    """The Module of a region text. Raises Refused (E00xx text, E01xx and E02xx names, E1002, E1411, E1412
    expressions)."""
    body_of(text, STAGE)
    return program_of(GRAMMAR.parse(text).children[1], text)


def program_of(tree: Any, whole: str) -> Module:
    """The Module of a tree of rule `program`; `whole` is the text that the spans speak of."""
    model_tree, name, *parts = tree.children
    buffers: list[Tensor] = []
    regions: list[Region] = []
    known: dict[str, Region] = {}
    faults: list[Diag] = []

    def types() -> dict[str, TensorType]:
        return _types_of(model_of(model_tree, whole), buffers)

    for part in parts:
        with collecting(faults):
            if part.data == "buffer":
                buffers.append(tensor_of(part.children, whole))
            else:
                made = again_of(part, known, types) if part.data == "again" else _region_of(part.children, whole)
                known.setdefault(made.name, made)
                regions.append(made)
    refuse_all(faults)
    return Module(model_of(model_tree, whole), Program(name_of(name.children[0]), tuple(buffers), tuple(regions)))


def _types_of(model: Model, buffers: Iterable[Tensor]) -> dict[str, TensorType]:
    """Those of a program's tensors."""
    return {t.name: t.type for t in (*model.inputs, *model.outputs, *buffers)}


def tensor_of(parts: list[Any], whole: str) -> Tensor:
    """The Tensor of the name, type and attributes of a tree of rule `tensor` or `buffer`."""
    name, type_token, attrs_token = parts
    token = name.children[0]
    span = token_span(token)
    read = read_at(read_type, type_token, whole)
    items = read_at(read_attrs, attrs_token, whole) if attrs_token is not None else ()
    at = token_span(attrs_token) if attrs_token is not None else span
    return Tensor(name_of(token), read, read_schema(items, MEMORY_ATTRS, name_of(token), at, read.dtype), span=span)


def _region_of(parts: list[Any], whole: str) -> Region:
    token = parts[0].children[0]
    inputs, outputs, iters, lets, yields = [], [], [], [], []
    values: dict[str, Any] = {}
    names = Names({}, values, whole, name_of(token))
    faults: list[Diag] = []
    faulty: set[str] = set()  # values whose own line is at fault: who reads them is not
    origin = analysis = None
    must_fuse: tuple[str, ...] = ()
    for part in parts[1:]:
        if part is None:
            continue
        if part.data == "shares":
            must_fuse = tuple(name_of(n.children[0]) for n in part.children)
        elif part.data == "tensor":
            tensor = tensor_of(part.children[1:], whole)
            (inputs if part.children[0] == "in" else outputs).append(tensor)
            names.tensors[tensor.name] = tensor.type.dtype
        elif part.data == "iter":
            iters.append(Axis(str(part.children[0]), expr_of(part.children[1])))
        elif part.data == "origin":
            origin = origin_of(part)
        elif part.data == "analysis":
            analysis = _analysis_of(part.children)
        else:
            try:
                if part.data == "let":
                    let = Let(
                        name_of(part.children[0]),
                        body_from(part.children[1], names),
                        origin,
                        span=token_span(part.children[0]),
                    )
                    lets.append(let)
                    values[let.name] = let.expr.dtype
                else:
                    yields.append(_yield_of(part.children, names, origin))
            except Refused as fault:
                faults.extend(d for d in fault.diags if d.code != "E0202" or d.facts["name"] not in faulty)
                faulty |= {name_of(part.children[0])} if part.data == "let" else set()
    refuse_all(faults)
    made = tuple(map(tuple, (inputs, outputs, iters, lets, yields)))
    return Region(name_of(token), *made, analysis, must_fuse, span=token_span(token))


def _yield_of(parts: list[Any], names: Names, origin: Origin | None) -> Yield:
    name, index, body, guard = parts
    token = name.children[0]
    written = tuple(expr_of(e) for e in index.children if e is not None)
    return Yield(
        name_of(token),
        written,
        body_from(body, names),
        guard_of(guard) if guard is not None else (),
        origin,
        span=token_span(token),
    )


def _analysis_of(parts: list[Any]) -> Analysis:
    parallel, reduce, tail, halos, buffer, depth, barrier = parts
    halo = tuple((str(h.children[0]), expr_of(h.children[1])) for h in halos.children if h is not None)
    axes = map(names_in, (parallel, reduce, tail))
    words = ("parallel", "reduce", "tail", "halo", "buffer", "depth", "barrier")
    places = tuple(zip(words, map(token_span, parts)))
    return Analysis(*axes, halo, str(buffer), int(depth), str(barrier), places=places)


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE) + "\n" + show_program(module)


def show_program(module: Module) -> str:
    """The signature, buffers and regions, without the header; later stages print it too."""
    program = module.program
    lines = [
        show_model(module.model),
        f"program {show_name(program.name)}",
        *(_show_tensor("buffer", b) for b in program.buffers),
    ]
    return "\n".join([*lines, *shown(program.regions, _types_of(module.model, program.buffers), show_region)]) + "\n"


def _show_tensor(word: str, tensor: Tensor) -> str:
    return f"  {word:<3} {show_name(tensor.name):<11} : {tensor.type}{show_attrs(tensor.attrs, MEMORY_ATTRS, tensor.type.dtype)}"  # noqa: E501


def show_region(region: Region) -> str:
    """One region's lines."""
    lines = [f"region {show_name(region.name)}"]
    lines += [f"  must_fuse {', '.join(map(show_name, region.must_fuse))}"] if region.must_fuse else []
    lines += [_show_tensor("in", t) for t in region.inputs] + [_show_tensor("out", t) for t in region.outputs]
    lines.append(f"  for {', '.join(map(str, region.iters))}".rstrip())
    origin = None
    for item in (*region.lets, *region.yields):
        if item.origin != origin and item.origin is not None:
            origin = item.origin
            lines.append(f"  {origin}")
        lines.append(
            f"    %{show_name(item.name):<13} = {show_body(item.expr)}" if isinstance(item, Let) else _show_yield(item)
        )
    if region.analysis is not None:
        lines.append(_show_analysis(region.analysis))
    return "\n".join(lines)


def _show_yield(item: Yield) -> str:
    guard = f" if {show_guard(item.guard)}" if item.guard else ""
    return f"  yield {show_name(item.output)}[{', '.join(map(str, item.index))}] = {show_body(item.expr)}{guard}"


def _show_analysis(found: Analysis) -> str:
    parallel, reduce, tail = (f"[{', '.join(names)}]" for names in (found.parallel, found.reduce, found.tail))
    halo = ", ".join(f"{axis}: {size}" for axis, size in found.halo)
    return (
        f"  analysis\n    parallel {parallel}  reduce {reduce}  tail {tail}\n"
        f"    halo [{halo}]  buffer {found.buffer} depth {found.depth}  barrier {found.barrier}"
    )


@once
def check(module: Module) -> list[Diag]:
    """Invariants of region text, one function each in `ir.verify_program` (2 to 4), `ir.verify_region` and, for the
    last two, `ir.prove_region`:

    1. the signature holds its own invariants                                                            (E13xx)
    2. a tensor, buffer or region has its name alone; regions that must share a kernel name the same ones,
       all of them known                                                                                 (E0201, E0202,
      E1426)
    3. a region's tensors are inputs, outputs or buffers of the program, of one type everywhere; an alias keeps
       dtype and number of elements; it is kept where its buffer says, and what stays on the chip is handed
       from one region to one other, each region in one such pair                                 (E1302, E1402)
    4. memory is written by one region, before it is read; every output is written                       (E1402)
    5. in a region a value has its name alone; each output has a yield and is not read                   (E0201, E1402)
    6. indices, sizes and guards name axes in scope and symbols; a fold's axes are new or the region's   (E1407)
    7. an index has the rank, and a yield the dtype, of what it names                                    (E1410, E1412,
      E1002)
    8. a fold is known, starts from its neutral element, and its accumulator holds what it folds         (E0106, E1405,
      E1406)
    9. operands have equal free axes, or broadcast_in_dim says how they meet; a fold's body reads
       directly what it needs (C-CON1)                                                                   (E1408, E1004,
         E1409)
    10. every read is in bounds under its guards                                                         (E1403)
    11. every element of an output is written exactly once, of a state that is written over its old value
        at most once                                                                                     (E1404)
    12. no point of a region reads what another may have written of a state; no later region reads its
        old value                                                                                        (E1428, E1427)
    """
    found = [*check_model(module.model), *verify_program.check_program(module)]
    if any(d.is_error for d in found):
        return found
    for region in module.program.regions:
        own = verify_region.check_region(module, region)
        found += (
            own
            if any(d.is_error for d in own)
            else [*own, *prove_region.check_proofs(module, region), *check_in_place(module, region)]
        )
    return found
