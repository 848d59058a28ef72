"""Poly-View: what depends on what. The index text, then blocks with their domain and accesses, and edges (seed 001
section 5).

    poly [M, K, N]

    block gemm : contraction matmul
      fuses  %gemm.mul
      axes   batch [] left [i0] right [i1] sum [k0]
      domain { gemm[i0, i1, k0] : 0 <= i0 < M and 0 <= i1 < N and 0 <= k0 < K }
      read   A { gemm[i0, i1, k0] -> A[i0, k0] }
      write  { gemm[i0, i1, k0] -> gemm[i0, i1] }

    edge gemm -> relu : true { gemm[i0, i1, k0] -> relu[i0, i1] : ... }

A block computes one value, named alike: the values between are movements, which the accesses have in them, or are fused
(the product under a contraction). A leaf (CONST, IOTA, RANDOM) is known at every point and takes no block unless it is
a result. Sets and relations are isl's, without the parameters, which come in the first line: the symbols, then a name
for each size that isl cannot hold, `M_N = M*N`. In isl's tuples a name's odd characters are `_`. Where a read has no
image at a point of the domain, the value there is the book's constant.

Kinds: contraction (pattern matmul or conv), reduction, elementwise, movement, scan, gather, scatter, opaque (not
affine: its reads are all that it may read). A contraction's own axes are `batch` (both factors vary along it, or
neither), `left` (the first only), `right` (the second only); `sum` are the reduced ones. A `window` is an index that
mixes a sum axis with another: it makes the pattern conv when that one is left or right. Edges: true (a block reads what
another wrote), anti (a block overwrites a state that another reads), output (two blocks write one element: never in
what is lowered, since each value is written once).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kit.diag import Diag, refuse
from ..kit.held import once
from ..kit.phrase import Phrase
from ..kit.span import Span
from ..kit.text import Grammar, body_of, header, token_span
from . import index, tiny
from .blocks import ROLES, Block, Edge, Module, Param, Reading, Window
from .expr import Expr
from .model import show_name
from .read import expr_of, name_of
from .verify_poly import check_blocks

STAGE = "poly"
GRAMMAR = Grammar("poly", "poly")
UNSTATED = {"domain": "", "write": ""}


def parse(text: str) -> Module:
    """The Module of a poly text. Raises Refused (E00xx text, E01xx words, E1214 a line of a block given twice)."""
    body_of(text, STAGE)
    return module_of(GRAMMAR.parse(text).children[1:], text)


def module_of(parts: list[Any], whole: str) -> Module:
    """The Module of the trees of rules `program`, `book` and `blocks`."""
    book = index.module_of(parts, whole)
    params, blocks, edges = [], [], []
    for tree in parts[2].children:
        if tree is None:
            continue
        if tree.data == "param":
            name, means = tree.children
            params.append(Param(str(name), Expr.of(str(name)) if means is None else expr_of(means)))
        elif tree.data == "block":
            blocks.append(_block_of(tree.children))
        else:
            source, target, kind, relation = tree.children
            ends = name_of(source.children[0]), name_of(target.children[0])
            edges.append(Edge(*ends, str(kind), str(relation), span=token_span(relation)))
    return Module(book, tuple(params), tuple(blocks), tuple(edges))


def _block_of(parts: list[Any]) -> Block:
    name, kind, pattern, *lines = parts
    own = name_of(name.children[0])
    fields: dict[str, Any] = {}
    reads, windows = [], []
    places: dict[str, Span] = {}
    for line in lines:
        word, inside = str(line.data), line.children
        if word == "roles":
            places["roles"] = Span(inside[0].start_pos, inside[-1].end_pos, inside[0].line, inside[0].column)
            stated = dict(zip(inside[::2], inside[1::2]))
            for role in inside[::2]:
                if role not in ROLES:
                    raise refuse(
                        "E1212",
                        own,
                        fault=Phrase("{role} is not a role: {roles}", role=role, roles=", ".join(ROLES)),
                        span=token_span(role),
                    )
                axes = tuple(str(e) for e in index.read_index(str(stated[role])))
                _put_once(fields, own, str(role), axes, role)
        elif word == "window":
            windows.append(Window(tiny.ref_of(inside[0]), int(inside[1]), expr_of(inside[2])))
        elif word == "poly_read":
            reads.append(Reading(tiny.ref_of(inside[0]), str(inside[1]), span=token_span(inside[1])))
        else:
            if word != "fuses":
                places[word] = token_span(inside[0])
            _put_once(fields, own, word, tuple(map(name_of, inside)) if word == "fuses" else str(inside[0]), inside[0])
    pattern = None if pattern is None else str(pattern)
    lines_ = {"reads": tuple(reads), "windows": tuple(windows), **UNSTATED, **fields}
    return Block(own, str(kind), pattern, **lines_, places=tuple(places.items()), span=token_span(name.children[0]))


def _put_once(fields: dict[str, Any], block: str, word: str, value: Any, token: Any) -> None:
    if word in fields:
        raise refuse("E1214", block, word=word, block=block, span=token_span(token))
    fields[word] = value


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE) + "\n" + show_poly(module)


def show_poly(module: Module) -> str:
    """The program, the book and the blocks, without the header."""
    values = {v.name for v in module.index.tiny.values}
    params = ", ".join(p.name if p.means.name == p.name else f"{p.name} = {p.means}" for p in module.params)
    lines = [index.show_book(module.index), f"poly [{params}]"]
    for block in module.blocks:
        lines += ["", *_block_lines(block, values)]
    if module.edges:
        lines.append("")
    lines += [f"edge {show_name(e.source)} -> {show_name(e.target)} : {e.kind} {e.relation}" for e in module.edges]
    return "\n".join(lines) + "\n"


def _block_lines(block: Block, values: Iterable[str]) -> Iterable[str]:
    yield f"block {show_name(block.name)} : {block.kind}{' ' + block.pattern if block.pattern else ''}"
    if block.fuses:
        yield "  fuses  " + ", ".join(tiny.show_ref(f, values) for f in block.fuses)
    if block.kind == "contraction":
        yield "  axes   " + " ".join(f"{role} [{', '.join(getattr(block, role))}]" for role in ROLES)
    for w in block.windows:
        yield f"  window {tiny.show_ref(w.source, values)} {w.axis} : {w.index}"
    yield f"  domain {block.domain}"
    for r in block.reads:
        yield f"  read   {tiny.show_ref(r.source, values)} {r.relation}"
    yield f"  write  {block.write}"


@once
def check(module: Module) -> list[Diag]:
    """Invariants of poly text, one function each in `ir.verify_poly`, in this order:

    1. the index text holds its own invariants                                                     (E0xxx, E1xxx)
    2. the parameters are the symbols and sizes made of them, each once                            (E1209)
    3. a block is of a known kind, computes one live value of the program, and comes in its order  (E1210)
    4. a block reads and fuses values and inputs that exist                                        (E1210), and says
       no read twice                                                                               (E1214)
    5. isl reads every set and relation; its tuples are the block's and the tensors', of their rank (E1211)
    6. the axes of a contraction are its domain's, each in one role                                (E1212)
    7. an edge runs from a block to one that reads it, or overwrites what it read                  (E1213), and
       comes once                                                                                  (E1214)
    """
    faults = index.check(module.index)
    return faults if any(d.is_error for d in faults) else [*faults, *check_blocks(module)]
