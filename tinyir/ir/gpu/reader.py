"""Lark trees of `grammars/gpu.lark` as kernels. The grammar gives lines; here they are nested by their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Refused, refuse
from ...kit.phrase import Phrase
from ...kit.records import replace
from ...kit.span import Span
from ...kit.text import token_span
from ..body import Body
from ..expr import ONE, Expr
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
        try:
            kernels.append(_launch_of(tree) if tree.data == "launch" else _kernel_of(tree, dtypes, whole))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    return tuple(kernels)


def _kernel_of(tree: Any, dtypes: dict[str, DType], whole: str) -> Kernel:
    name_tree, regions, serves, arch, grid, block, cluster, regs, *lines = tree.children
    name = _name(name_tree)
    reader = _Reader(Names(dict(dtypes), {}, whole, name), whole)
    body = reader.block(_nest(lines, name, whole))
    if reader.faults:
        raise Refused(reader.faults)
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
            try:
                if line.tree.data == "else":
                    if not statements or not isinstance(statements[-1], nodes.If) or statements[-1].otherwise:
                        raise refuse("E1601", self.names.at, span, fault=Phrase("has no `if` before it"))
                    statements[-1] = nodes.If(
                        statements[-1].guard, statements[-1].body, self._inner(line), span=statements[-1].span
                    )
                else:
                    statements.append(self._statement(line, span))
            except Refused as fault:
                self.faults.extend(fault.diags)
        return tuple(statements)

    def _inner(self, line: _Line) -> tuple[Statement, ...]:
        if not line.inner:
            raise refuse("E1601", self.names.at, line_span(line.tree, self.whole), fault=Phrase("has no block"))
        return self.block(line.inner)

    def _statement(self, line: _Line, span: Span) -> Statement:
        word, parts = line.tree.data, line.tree.children
        if word in _BLOCKS:
            return getattr(self, f"_{word}")(parts, line, span)
        return getattr(self, f"_{word}")(parts, span)

    # --- facts, memory, registers, barriers

    def _assume(self, p: list[Any], span: Span) -> Statement:
        return nodes.Assume(guard_of(p[0]), span=span)

    def _shared(self, p: list[Any], span: Span) -> Statement:
        name, type_, ring, swizzle, across, kind = p
        read = read_at(read_type, type_, self.whole)
        name = _name(name)
        self._declare(name, read.dtype, ring if across is None else across)
        return nodes.Shared(name, read, _int(ring, 1), _int(swizzle, 0), _int(across, 0), str(kind or ""), span=span)

    def _reg(self, p: list[Any], span: Span) -> Statement:
        name, type_, ring, kind, init = p
        read = read_at(read_type, type_, self.whole)
        start = self._body(init, read.dtype) if init is not None else None
        name = _name(name)
        self._declare(name, read.dtype, ring)
        return nodes.Reg(name, read, _int(ring, 1), str(kind or ""), start, span=span)

    def _declare(self, name: str, dtype: DType, ring: Any) -> None:
        self.names.tensors[name] = dtype
        (self.rings.add if ring is not None else self.rings.discard)(name)

    def _mbarrier(self, p: list[Any], span: Span) -> Statement:
        name, ring, count = p
        (self.rings.add if ring is not None else self.rings.discard)(str(name))
        return nodes.Mbarrier(str(name), int(count), _int(ring, 1), span=span)

    def _tensor_map(self, p: list[Any], span: Span) -> Statement:
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

    def _pick(self, p: list[Any], span: Span) -> Statement:
        *names, at = p
        name, *of = map(_name, names)
        if of[0] in self.names.tensors:
            self.names.tensors[name] = self.names.tensors[of[0]]
        return nodes.Pick(name, tuple(of), expr_of(at), span=span)

    def _cursor(self, p: list[Any], span: Span) -> Statement:
        return nodes.Cursor(str(p[0]), _int(p[1], 1), int(p[2] or 0), int(p[3] or 0), span=span)

    def _advance(self, p: list[Any], span: Span) -> Statement:
        return nodes.Advance(str(p[0]), expr_of(p[1]) if p[1] is not None else ONE, span=span)

    # --- integers, values, control

    def _let_integer(self, p: list[Any], span: Span) -> Statement:
        return nodes.Let(str(p[0]), expr_of(p[1]), span=span)

    def _least(self, p: list[Any], span: Span) -> Statement:
        return nodes.Least(str(p[0]), exprs_of(p[1]), span=span)

    def _most(self, p: list[Any], span: Span) -> Statement:
        return nodes.Most(str(p[0]), exprs_of(p[1]), span=span)

    def _choose(self, p: list[Any], span: Span) -> Statement:
        return nodes.Choose(str(p[0]), self._body(p[1]), expr_of(p[2]), span=span)

    def _let(self, p: list[Any], span: Span) -> Statement:
        value = self._body(p[1])
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
            None if of is None else self._place(of),
            "" if via is None else _name(via),
            str(full),
            str(empty),
            span=span,
        )

    def _if(self, p: list[Any], line: _Line, span: Span) -> Statement:
        return nodes.If(guard_of(p[0]), self._inner(line), span=span)

    def _role(self, p: list[Any], line: _Line, span: Span) -> Statement:
        name, unit, first, last, regs = p
        return nodes.Role(str(name), str(unit), int(first), int(last), self._inner(line), int(regs or 0), span=span)

    def _order(self, p: list[Any], span: Span) -> Statement:
        *names, tile, extents, group, turning = p
        return nodes.Order(
            tuple(map(str, names)), expr_of(tile), exprs_of(extents), int(group or 0), turning is not None, span=span
        )

    def _each(self, p: list[Any], line: _Line, span: Span) -> Statement:
        *names, of, size, approx = p
        place, sides = self._place(of), _ints(size, self.names.at)
        return nodes.Each(
            tuple(map(str, names)), place.name, self._inner(line), place.index, sides, approx is not None, span=span
        )

    # --- elements

    def _assign(self, p: list[Any], span: Span) -> Statement:
        return self._element(nodes.Assign, p, span)

    def _store(self, p: list[Any], span: Span) -> Statement:
        *parts, by = p
        return replace(self._element(nodes.Store, parts, span), by=str(by or ""))

    def _element(self, kind: Any, p: list[Any], span: Span) -> Statement:
        place, over, value, vector = p
        to = self._place(place)
        return kind(to, self._body(value, self._dtype(to)), _axes(over), _int(vector, 1), span=span)

    def _atomic(self, p: list[Any], span: Span) -> Statement:
        to = self._place(p[1])
        return nodes.Atomic(str(p[0]), to, self._body(p[2], self._dtype(to)), span=span)

    def _copy(self, p: list[Any], span: Span) -> Statement:
        to, over, lets, value, vector = self._place(p[0]), *p[1:]
        return nodes.Copy(to, _axes(over), self._body(value, self._dtype(to)), _int(vector, 1), _axes(lets), span=span)

    def _cp_async(self, p: list[Any], span: Span) -> Statement:
        token, to, over, lets, value, vector = p[0], self._place(p[1]), *p[2:]
        return nodes.CpAsync(
            name_of(token), to, _axes(over), self._body(value, self._dtype(to)), _int(vector, 1), _axes(lets), span=span
        )

    def _place(self, tree: Any) -> Place:
        name, brackets = _name(tree.children[0]), [exprs_of(b) for b in tree.children[1:]]
        has_slot = len(brackets) == 2 or len(brackets) == 1 and name in self.rings
        if len(brackets) > 2 or has_slot and len(brackets[0]) != 1:
            raise refuse("E1412", self.names.at, token_span(tree.children[0].children[0]), name=name)
        slot = brackets[0][0] if has_slot else None
        return Place(name, brackets[-1] if len(brackets) > has_slot else (), slot)

    def _body(self, tree: Any, alone: DType | None = None) -> Body:
        return body_from(tree, self.names, alone)

    def _dtype(self, place: Place) -> DType | None:
        return self.names.tensors.get(place.name)

    # --- asynchronous movement and what orders it

    def _commit(self, p: list[Any], span: Span) -> Statement:
        return nodes.Commit(_values(p), span=span)

    def _wait_group(self, p: list[Any], span: Span) -> Statement:
        return nodes.WaitGroup(str(p[0]), int(p[1]), _values(p[2]), span=span)

    def _wait(self, p: list[Any], span: Span) -> Statement:
        return nodes.Wait(self._place(p[0]), expr_of(p[1]), _values(p[2]), span=span)

    def _arrive(self, p: list[Any], span: Span) -> Statement:
        return nodes.Arrive(self._place(p[0]), int(p[1] or 0), _ints(p[2], self.names.at), span=span)

    def _drain(self, p: list[Any], span: Span) -> Statement:
        return nodes.Drain(str(p[0]), str(p[1]), span=span)

    def _tma_load(self, p: list[Any], span: Span) -> Statement:
        token, to, source, on, multicast, streamed = p
        return nodes.TmaLoad(
            name_of(token),
            self._place(to),
            self._place(source),
            self._place(on),
            _ints(multicast, self.names.at),
            streamed is not None,
            span=span,
        )

    def _send(self, p: list[Any], span: Span) -> Statement:
        token, to, source, size, cta, on = p
        return nodes.Send(
            name_of(token),
            self._place(to),
            self._place(source),
            _ints(size, self.names.at),
            expr_of(cta),
            self._place(on),
            span=span,
        )

    def _tma_store(self, p: list[Any], span: Span) -> Statement:
        return nodes.TmaStore(name_of(p[0]), self._place(p[1]), self._place(p[2]), span=span)

    def _store_rows(self, p: list[Any], span: Span) -> Statement:
        to, dims, box, source = p
        return nodes.StoreRows(
            self._place(to), exprs_of(box), self._place(source), () if dims is None else exprs_of(dims), span=span
        )

    def _fence(self, p: list[Any], span: Span) -> Statement:
        return nodes.Fence(str(p[0]), span=span)

    def _barrier(self, p: list[Any], span: Span) -> Statement:
        second = p[1] if len(p) > 1 else None
        half = str(second.children[0]) if hasattr(second, "children") else ""
        return nodes.Barrier(str(p[0]), 0 if second is None or half else int(second), half, span=span)

    # --- between launches

    def _wait_previous(self, p: list[Any], span: Span) -> Statement:
        return nodes.WaitPrevious(span=span)

    def _launch_next(self, p: list[Any], span: Span) -> Statement:
        return nodes.LaunchNext(span=span)

    # --- matrix units and reductions

    def _ldmatrix(self, p: list[Any], span: Span) -> Statement:
        return nodes.Ldmatrix(
            self._place(p[0]),
            self._place(p[1]),
            p[2] is not None,
            None if p[3] is None else self._place(p[3]),
            span=span,
        )

    def _split(self, p: list[Any], span: Span) -> Statement:
        return nodes.Split(self._place(p[0]), self._place(p[1]), span=span)

    def _resum(self, p: list[Any], span: Span) -> Statement:
        return nodes.Resum(self._place(p[0]), _axes(p[1]), self._body(p[2]), span=span)

    def _mma(self, p: list[Any], span: Span) -> Statement:
        return nodes.Mma(str(p[0]), self._place(p[1]), self._place(p[2]), str(p[3]), str(p[4] or ""), span=span)

    def _wgmma(self, p: list[Any], span: Span) -> Statement:
        token, acc, a, a_trans, b, b_trans, shape, steps, zero = p
        guard: Guard | None = (
            None if zero is None else guard_of(zero.children[0]) if zero.children[0] is not None else ()
        )
        transposed = a_trans is not None, b_trans is not None
        return nodes.Wgmma(
            name_of(token),
            str(acc),
            self._place(a),
            self._place(b),
            str(shape),
            int(steps or 1),
            *transposed,
            guard,
            span=span,
        )

    def _row_reduce(self, p: list[Any], span: Span) -> Statement:
        return nodes.RowReduce(*map(str, p), span=span)

    def _warp_reduce(self, p: list[Any], span: Span) -> Statement:
        op, exclusive, name, width = p
        return nodes.WarpReduce(str(op), _name(name), int(width), exclusive is not None, span=span)

    def _block_reduce(self, p: list[Any], span: Span) -> Statement:
        return nodes.BlockReduce(str(p[0]), _name(p[1]), str(p[2]), p[3] is not None, span=span)

    def _block_scan(self, p: list[Any], span: Span) -> Statement:
        op, exclusive, name, carry, via = p
        return nodes.BlockScan(str(op), exclusive is not None, _name(name), _name(carry), str(via or ""), span=span)

    # --- between the CTAs of a launch

    def _ticket(self, p: list[Any], span: Span) -> Statement:
        return nodes.Ticket(str(p[0]), self._place(p[1]), expr_of(p[2]), _name(p[3]), span=span)

    def _publish(self, p: list[Any], span: Span) -> Statement:
        return nodes.Publish(_name(p[0]), self._place(p[1]), _name(p[2]) if p[2] is not None else "", span=span)

    def _look_back(self, p: list[Any], span: Span) -> Statement:
        op, name, source, via, held = p
        return nodes.LookBack(
            str(op), _name(name), self._place(source), _name(via), _name(held) if held is not None else "", span=span
        )


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
    return () if tree is None else tuple((str(a.children[0]), expr_of(a.children[1])) for a in tree.children)


def _values(tree: Any) -> tuple[str, ...]:
    tokens: Iterator[Any] = iter(tree if isinstance(tree, list) else tree.children if tree is not None else ())
    return tuple(map(name_of, tokens))
