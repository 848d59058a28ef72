"""Lark trees of `grammars/gpu.lark` as kernels. The grammar gives lines; here they are nested by their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...kit.diag import Diag, collecting, refuse, refuse_all
from ...kit.phrase import Phrase
from ...kit.span import Span
from ...kit.text import token_span
from ..body import Body
from ..expr import Expr
from ..plan import Module as PlanModule
from ..read import expr_of, exprs_of, guard_of, line_span, name_of, read_at, read_type
from ..read_body import Names, body_from
from ..region import Tensor
from ..types import DType
from ..windows import windows_of
from . import nodes
from .nodes import Axes, Guard, Kernel, Launch, Place, Statement

_BLOCKS = ("for", "if", "else", "role", "each")


def launches_of(
    trees: list[Any], plans: PlanModule, buffers: tuple[Tensor, ...], whole: str
) -> tuple[Kernel | Launch, ...]:
    """The Kernels and Launches of trees of rules `kernel` and `launch`; `plans` and `buffers` give the tensors. All
    faults in one Refused (E0101, E02xx, E1002, E1601)."""
    dtypes = {t.name: t.type.dtype for t in plans.program.model.inputs + plans.program.model.outputs}
    dtypes.update((b.name, b.type.dtype) for b in (*plans.program.program.buffers, *buffers))
    kernels, faults = [], []
    for tree in trees:
        with collecting(faults):
            kernels.append(_launch_of(tree) if tree.data == "launch" else _kernel_of(tree, dtypes, whole))
    refuse_all(faults)
    return tuple(kernels)


def _kernel_of(tree: Any, dtypes: dict[str, DType], whole: str) -> Kernel:
    name_tree, regions, serves, arch, grid, block, cluster, regs, *lines = tree.children
    name = _name(name_tree)
    reader = _Reader(Names(dict(dtypes), {}, whole, name), whole)
    body = reader.block(_nest(lines, name, whole))
    refuse_all(reader.faults)
    return Kernel(
        name,
        _regions(regions, name),
        str(arch),
        exprs_of(grid),
        _ints(block, name),
        body,
        _ints(cluster, name),
        int(regs or 0),
        *_serves(serves),
        span=token_span(name_tree.children[0]),
    )


def _launch_of(tree: Any) -> Launch:
    name_tree, regions, serves, kernel, *passed = tree.children
    name = _name(name_tree)
    pairs = tuple((_name(tensor), _name(own), place) for tensor, own, place in (p.children for p in passed))
    return Launch(
        name,
        _regions(regions, name),
        _name(kernel),
        tuple((tensor, own) for tensor, own, _ in pairs),
        *_serves(serves),
        moved=tuple((tensor, _ints(place, name)) for tensor, _, place in pairs if place is not None),
        span=token_span(name_tree.children[0]),
    )


def _regions(tree: Any, name: str) -> tuple[str, ...]:
    return tuple(_name(n) for n in tree.children) if tree is not None else (name,)


def _serves(tree: Any) -> tuple[str, bool]:
    if tree is None:
        return "", False
    return _name(tree.children[0]) if tree.data == "serves" else "", tree.children[-1] is not None


class _Line:
    """A statement's tree and the statements further in."""

    def __init__(self, tree: Any):
        self.tree = tree
        self.column = tree.meta.column
        self.inner: list[_Line] = []


def _nest(trees: list[Any], kernel: str, whole: str) -> list[_Line]:
    """The lines of a kernel as blocks. Raises Refused (E1601) where a line is indented too far, or where no line above
    has its indentation."""
    top: list[_Line] = []
    blocks = [(top, trees[0].meta.column if trees else 0)]
    for tree in trees:
        line = _Line(tree)
        before = blocks[-1][0][-1] if blocks[-1][0] else None
        if line.column > blocks[-1][1] and before is not None and before.tree.data in _BLOCKS:
            blocks.append((before.inner, line.column))
        while line.column < blocks[-1][1] and len(blocks) > 1:
            blocks.pop()
        if line.column != blocks[-1][1]:
            raise refuse(
                "E1601",
                kernel,
                line_span(tree, whole),
                fault=Phrase("is not under the lines of its block, nor inside a `for`, `if`, `else`, `role` or `each`"),
            )
        blocks[-1][0].append(line)
    return top


class _Reader:
    """Reads the statements of one kernel in order, keeping what each name is."""

    def __init__(self, names: Names, whole: str):
        self.names = names
        self.whole = whole
        self.rings: set[str] = set()
        self.faults: list[Diag] = []

    def block(self, lines: list[_Line]) -> tuple[Statement, ...]:
        """The statements of a block. An `else` joins the `if` before it."""
        statements: list[Statement] = []
        for line in lines:
            span = line_span(line.tree, self.whole)
            with collecting(self.faults):
                if line.tree.data == "else":
                    if not statements or not isinstance(statements[-1], nodes.If) or statements[-1].otherwise:
                        raise refuse("E1601", self.names.at, span, fault=Phrase("has no `if` before it"))
                    statements[-1] = nodes.If(
                        statements[-1].guard, statements[-1].body, self._inner(line), span=statements[-1].span
                    )
                else:
                    statements.append(self._statement(line, span))
        return tuple(statements)

    def _inner(self, line: _Line) -> tuple[Statement, ...]:
        if not line.inner:
            raise refuse("E1601", self.names.at, line_span(line.tree, self.whole), fault=Phrase("has no block"))
        return self.block(line.inner)

    def _statement(self, line: _Line, span: Span) -> Statement:
        word, parts = line.tree.data, line.tree.children
        if word not in _FORMS:
            return getattr(self, f"_{word}")(parts, line, span)
        kind, fields = _FORMS[word]
        given: dict[str, Any] = {}
        for (field, read), part in zip(fields, parts):
            if read is None:
                given[field] = part is not None
            elif part is not None:
                given[field] = getattr(self, read)(part, given) if isinstance(read, str) else read(part)
        if word in _BLOCKS:
            given["body"] = self._inner(line)
        return kind(**given, span=span)

    def _shared(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, type_, ring, swizzle, across, kind = p
        read = read_at(read_type, type_, self.whole)
        name = _name(name)
        self._declare(name, read.dtype, ring if across is None else across)
        return nodes.Shared(name, read, _int(ring, 1), _int(swizzle, 0), _int(across, 0), str(kind or ""), span=span)

    def _reg(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, type_, ring, kind, init = p
        read = read_at(read_type, type_, self.whole)
        start = body_from(init, self.names, read.dtype) if init is not None else None
        name = _name(name)
        self._declare(name, read.dtype, ring)
        return nodes.Reg(name, read, _int(ring, 1), str(kind or ""), start, span=span)

    def _declare(self, name: str, dtype: DType, ring: Any) -> None:
        self.names.tensors[name] = dtype
        (self.rings.add if ring is not None else self.rings.discard)(name)

    def _mbarrier(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, ring, count = p
        (self.rings.add if ring is not None else self.rings.discard)(str(name))
        return nodes.Mbarrier(str(name), int(count), _int(ring, 1), span=span)

    def _tensor_map(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, tensor, view, box, swizzle, rounding = p
        return nodes.TensorMap(
            str(name),
            _name(tensor),
            exprs_of(box),
            _int(swizzle, 0),
            () if view is None or view.data == "windows" else exprs_of(view),
            str(rounding or ""),
            windows_of(view),
            span=span,
        )

    def _pick(self, p: list[Any], line: _Line, span: Span) -> Statement:
        *names, at = p
        name, *of = map(_name, names)
        if of[0] in self.names.tensors:
            self.names.tensors[name] = self.names.tensors[of[0]]
        return nodes.Pick(name, tuple(of), expr_of(at), span=span)

    def _let(self, p: list[Any], line: _Line, span: Span) -> Statement:
        value = body_from(p[1], self.names)
        self.names.values[name_of(p[0])] = value.dtype
        return nodes.Value(name_of(p[0]), value, span=span)

    def _for(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, low, high, step, unroll, drawn = p
        of, via, full, empty = drawn.children if drawn is not None else (None, None, "", "")
        body = self._inner(line)
        return nodes.For(
            str(name),
            expr_of(low),
            expr_of(high),
            body,
            expr_of(step) if step is not None else Expr.of(1),
            1 if unroll is None else int(unroll.children[0] or 0),
            None if of is None else self.place(of),
            "" if via is None else _name(via),
            str(full),
            str(empty),
            span=span,
        )

    def _order(self, p: list[Any], line: _Line, span: Span) -> Statement:
        *names, tile, extents, group, turning = p
        return nodes.Order(
            tuple(map(str, names)), expr_of(tile), exprs_of(extents), int(group or 0), turning is not None, span=span
        )

    def _each(self, p: list[Any], line: _Line, span: Span) -> Statement:
        *names, of, size, approx = p
        place, sides = self.place(of), self.integers(size)
        return nodes.Each(
            tuple(map(str, names)), place.name, self._inner(line), place.index, sides, approx is not None, span=span
        )

    def integers(self, tree: Any, given: Any = None) -> tuple[int, ...]:
        """A list of integers."""
        return _ints(tree, self.names.at)

    def place(self, tree: Any, given: Any = None) -> Place:
        """An element, a tile or the corner of one; of what has a ring, in a slot."""
        name, brackets = _name(tree.children[0]), [exprs_of(b) for b in tree.children[1:]]
        has_slot = len(brackets) == 2 or len(brackets) == 1 and name in self.rings
        if len(brackets) > 2 or has_slot and len(brackets[0]) != 1:
            raise refuse("E1412", self.names.at, token_span(tree.children[0].children[0]), name=name)
        slot = brackets[0][0] if has_slot else None
        return Place(name, brackets[-1] if len(brackets) > has_slot else (), slot)

    def body(self, tree: Any, given: Mapping[str, Any]) -> Body:
        """A value; a number alone has the dtype of the place that it is put to."""
        return body_from(tree, self.names, self.names.tensors.get(given["to"].name) if "to" in given else None)

    def _commit(self, p: list[Any], line: _Line, span: Span) -> Statement:
        return nodes.Commit(tuple(map(name_of, p)), span=span)

    def _barrier(self, p: list[Any], line: _Line, span: Span) -> Statement:
        second = p[1] if len(p) > 1 else None
        half = str(second.children[0]) if hasattr(second, "children") else ""
        return nodes.Barrier(str(p[0]), 0 if second is None or half else int(second), half, span=span)


def _name(tree: Any) -> str:
    return name_of(tree.children[0])


def _ints(tree: Any, at: str) -> tuple[int, ...]:
    if tree is None:
        return ()
    numbers = tuple(e.constant for e in exprs_of(tree))
    if None in numbers:
        raise refuse("E1602", at, name=", ".join(map(str, exprs_of(tree))), fault=Phrase("is not a list of integers"))
    return numbers


def _int(tree: Any, default: int) -> int:
    return default if tree is None else int(tree.children[0])


def _axes(tree: Any) -> Axes:
    return tuple((str(a.children[0]), expr_of(a.children[1])) for a in tree.children)


def _values(tree: Any) -> tuple[str, ...]:
    return tuple(map(name_of, tree.children))


def _zero(tree: Any) -> Guard:
    return guard_of(tree.children[0]) if tree.children[0] is not None else ()


def _count(tree: Any) -> int:
    return int(tree.children[0])


def _form(kind: type, **fields: Any) -> tuple[type, tuple[tuple[str, Any], ...]]:
    """A statement whose fields come in the grammar's order, each with what reads its tree: a function, or a method of
    the reader by name; None of a word that is there or not. Where a tree lacks a field, the class has a default."""
    return kind, tuple(fields.items())


_FORMS = {
    "assume": _form(nodes.Assume, guard=guard_of),
    "cursor": _form(nodes.Cursor, name=str, ring=_count, at=int, phase=int),
    "advance": _form(nodes.Advance, cursor=str, by=expr_of),
    "let_integer": _form(nodes.Let, name=str, value=expr_of),
    "least": _form(nodes.Least, name=str, of=exprs_of),
    "most": _form(nodes.Most, name=str, of=exprs_of),
    "choose": _form(nodes.Choose, name=str, value="body", extent=expr_of),
    "if": _form(nodes.If, guard=guard_of),
    "role": _form(nodes.Role, name=str, unit=str, first=int, last=int, regs=int),
    "assign": _form(nodes.Assign, to="place", over=_axes, value="body", vector=_count),
    "store": _form(nodes.Store, to="place", over=_axes, value="body", vector=_count, by=str),
    "atomic": _form(nodes.Atomic, op=str, to="place", value="body"),
    "copy": _form(nodes.Copy, to="place", over=_axes, lets=_axes, value="body", vector=_count),
    "cp_async": _form(nodes.CpAsync, token=name_of, to="place", over=_axes, lets=_axes, value="body", vector=_count),
    "wait_group": _form(nodes.WaitGroup, engine=str, pending=int, tokens=_values),
    "wait": _form(nodes.Wait, barrier="place", phase=expr_of, tokens=_values),
    "arrive": _form(nodes.Arrive, barrier="place", expect=int, cluster="integers"),
    "drain": _form(nodes.Drain, barrier=str, cursor=str),
    "tma_load": _form(
        nodes.TmaLoad, token=name_of, to="place", source="place", on="place", multicast="integers", is_streamed=None
    ),
    "send": _form(nodes.Send, token=name_of, to="place", source="place", size="integers", cta=expr_of, on="place"),
    "tma_store": _form(nodes.TmaStore, token=name_of, to="place", source="place"),
    "store_rows": _form(nodes.StoreRows, to="place", dims=exprs_of, box=exprs_of, source="place"),
    "fence": _form(nodes.Fence, what=str),
    "wait_previous": _form(nodes.WaitPrevious),
    "launch_next": _form(nodes.LaunchNext),
    "ldmatrix": _form(nodes.Ldmatrix, to="place", source="place", is_transposed=None, low="place"),
    "split": _form(nodes.Split, to="place", source="place"),
    "resum": _form(nodes.Resum, to="place", over=_axes, value="body"),
    "mma": _form(nodes.Mma, acc=str, a="place", b="place", shape=str, math=str),
    "wgmma": _form(
        nodes.Wgmma,
        token=name_of,
        acc=str,
        a="place",
        a_transposed=None,
        b="place",
        b_transposed=None,
        shape=str,
        steps=int,
        zero=_zero,
    ),
    "row_reduce": _form(nodes.RowReduce, op=str, source=str, to=str),
    "warp_reduce": _form(nodes.WarpReduce, op=str, is_exclusive=None, name=_name, width=int),
    "block_reduce": _form(nodes.BlockReduce, op=str, name=_name, via=str, is_fresh=None),
    "block_scan": _form(nodes.BlockScan, op=str, is_exclusive=None, name=_name, carry=_name, via=str),
    "ticket": _form(nodes.Ticket, name=str, source="place", extent=expr_of, via=_name),
    "publish": _form(nodes.Publish, name=_name, to="place", held=_name),
    "look_back": _form(nodes.LookBack, op=str, name=_name, source="place", via=_name, held=_name),
}
