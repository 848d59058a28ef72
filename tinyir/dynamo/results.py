"""What a graph gives: tensors that its program makes, and what needs none: arguments, parts of them and of what is
made, constants, sizes.

torch takes the shape and the strides of what a graph gives as they were traced, and where a result shares the memory of
an argument it looks into the result for its place. So results have the strides that were traced, and views stay views.
A program writes dense tensors; what was traced with gaps, or with elements that several places share, is laid out so
after it: an op that torch runs itself may ask for rows that begin at a multiple of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.expr import Expr
from ..kit.records import dataclass
from .graph import extent_of, hint_of, is_dense, is_node, is_tensor, memory_order, stored_name, symbols_in

Answer = Callable[[Sequence[Any], Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class View:
    """A part of the memory of a tensor: of the argument at that place, or of what is made under that name. Sizes are
    torch's; `offset` counts from where the tensor begins."""

    of: int | str
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any


@dataclass(frozen=True, slots=True)
class Result:
    """One output of the graph: a tensor that the program makes, of these extents; an argument that is passed on; a
    view; a size; or a constant, which may be None. `order` are the axes as memory has them, where that is not their own
    order; `strides` those of torch, where memory is not one dense piece."""

    name: str = ""
    dtype: Any = None
    shape: tuple[Expr, ...] = ()
    order: tuple[int, ...] = ()
    strides: tuple[Any, ...] = ()
    given: int = -1
    view: View | None = None
    size: Expr | None = None
    constant: Any = None

    def form(self, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Its shape and its strides as the program writes it, in elements."""
        shape = tuple(e.evaluate(sizes) for e in self.shape)
        strides, step = [0] * len(shape), 1
        for axis in reversed(self.order or range(len(shape))):
            strides[axis] = step
            step *= max(1, shape[axis])
        return shape, tuple(strides)

    def answer(self, sizes: Mapping[str, int]) -> Answer:
        """How a run of these sizes gets it from its arguments and from what was made."""
        if self.name:
            placed = [_number(s, sizes) for s in self.strides]
            return lambda arguments, made: _spread(made[self.name], placed) if placed else made[self.name]
        if self.given >= 0:
            return lambda arguments, made: arguments[self.given]
        if self.view is None:
            found = self.constant if self.size is None else self.size.evaluate(sizes)
            return lambda arguments, made: found
        of, offset = self.view.of, _number(self.view.offset, sizes)
        shape, strides = ([_number(s, sizes) for s in side] for side in (self.view.shape, self.view.strides))

        def view(arguments: Sequence[Any], made: Mapping[str, Any]) -> Any:
            whole = made[of] if isinstance(of, str) else arguments[of]
            return whole.as_strided(shape, strides, whole.storage_offset() + offset)

        return view

    def symbols(self) -> Iterator[str]:
        """The symbols that its shape has, or its place, possibly more than once."""
        for expr in (*self.shape, *([] if self.size is None else [self.size])):
            yield from expr.names()
        for stride in self.strides:
            yield from symbols_in(stride)
        if self.view is not None:
            for size in (*self.view.shape, *self.view.strides, self.view.offset):
                yield from symbols_in(size)


def results_of(
    output: Any, placeholders: Sequence[Any], constants: Mapping[str, Any]
) -> tuple[tuple[Result, ...], bool]:
    """The results of a graph, of its output node, and whether they are a list."""
    (values,) = output.args
    is_list = isinstance(values, (list, tuple))
    listed = list(values) if is_list else [values]
    wholes = _wholes(listed, placeholders)
    return tuple(_result(v, placeholders, constants, wholes) for v in listed), is_list


def _result(value: Any, placeholders: Sequence[Any], constants: Mapping[str, Any], wholes: Mapping[Any, Any]) -> Result:
    if value is None:
        return Result()
    if not is_node(value):
        return Result(size=Expr.of(value))
    if value in placeholders:
        return Result(given=placeholders.index(value))
    if value.name in constants:
        return Result(constant=constants[value.name])
    found = value.meta["val"]
    if not is_tensor(found):
        return Result(size=extent_of(found))
    whole = wholes.get(memory_of(found), value)
    if whole is not value:
        base = whole.meta["val"]
        of = placeholders.index(whole) if whole in placeholders else made_name(whole)
        return Result(view=View(of, tuple(found.shape), found.stride(), found.storage_offset() - base.storage_offset()))
    order, strides = memory_order(found), () if is_dense(found) else found.stride()
    return Result(made_name(value), found.dtype, tuple(map(extent_of, found.shape)), tuple(order or ()), strides)


def _spread(dense: Any, strides: Sequence[int]) -> Any:
    """A tensor again in memory of these strides. Where one is 0, all places along that axis are one."""
    own = [1 if stride == 0 else size for size, stride in zip(dense.shape, strides)]
    made = dense.new_empty_strided(own, strides)
    return made.copy_(dense.as_strided(own, dense.stride())).as_strided(dense.shape, strides)


def _wholes(values: Sequence[Any], placeholders: Sequence[Any]) -> dict[Any, Any]:
    """Of each memory the node that has all of it: an argument, or what of the outputs is as large."""
    found: dict[Any, Any] = {}
    for node in placeholders:
        if is_tensor(node.meta.get("val")):
            found.setdefault(memory_of(node.meta["val"]), node)
    for node in values:
        if is_node(node) and is_tensor(node.meta["val"]) and is_whole(node.meta["val"]):
            found.setdefault(memory_of(node.meta["val"]), node)
    return found


def memory_of(value: Any) -> tuple[Any, Any]:
    """What tells the memory of a tensor from others, and its dtype."""
    return value.untyped_storage()._cdata, value.dtype


def is_whole(value: Any) -> bool:
    """Whether a tensor is all of its memory, in one dense piece."""
    sizes = [hint_of(s) for s in (*value.shape, value.storage_offset(), value.untyped_storage().nbytes())]
    *shape, offset, room = sizes
    if not all(isinstance(s, int) for s in sizes):
        return False
    count, step = 1, 1
    for size in shape:
        count *= size
    for stride, size in sorted(zip(map(hint_of, value.stride()), shape)):
        if size != 1 and stride != step:
            return False
        step *= size
    return offset == 0 and count * value.dtype.itemsize == room


def made_name(node: Any) -> str:
    """What the program calls the tensor that it makes for an output: that of the part where it is one."""
    target = getattr(node.target, "__name__", "")
    name = f"{node.args[0].name}.{node.args[1]}" if target == "getitem" else node.name
    return name if memory_order(node.meta["val"]) is None else stored_name(name)


def _number(size: Any, sizes: Mapping[str, int]) -> int:
    """One of torch's sizes in a run."""
    if isinstance(size, int):
        return size
    expr = size.node.expr
    return int(expr.subs({s: sizes[str(s)] for s in expr.free_symbols}))
