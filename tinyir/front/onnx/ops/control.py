"""Control flow that is settled beforehand: a branch is chosen, a loop of a known number of turns is unrolled; and
sequences, which are then tuples of tensors and never reach the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import MAX_KNOWN, Term, known
from ..node import Node
from ..table import onnx_op

MAX_TURNS = 1024


@onnx_op("If")
def if_op(node: Node) -> Any:
    """The branch that a condition chooses. Where it is computed from data both are computed, and one of each two
    results is taken."""
    condition = node.input(0)
    value = node.translator.value_of(condition)
    words = (
        ("then_branch", "else_branch") if value is None else ("then_branch" if value.reshape(-1)[0] else "else_branch",)
    )
    sides = [node.translator.subgraph(node.attr(word), node.scope, {}, f"{node.name}/{word[:4]}/") for word in words]
    return tuple(sides[0]) if len(sides) == 1 else tuple(_either(node, condition, x, y) for x, y in zip(*sides))


def _either(node: Node, condition: Term, x: Any, y: Any) -> Term:
    if not (isinstance(x, Term) and isinstance(y, Term) and (x.dtype, x.shape, x.form) == (y.dtype, y.shape, y.form)):
        raise node.fault(Phrase("its condition is computed from data, and its branches give different types"))
    found = node.fn("where", node.reshape(condition, []), x, y)
    found.form = x.form
    return found


@onnx_op("Loop")
def loop(node: Node) -> Any:
    """The body turn by turn: the number of turns, and the condition where there is one, must be known."""
    body = node.attr("body")
    most = node.scalar(0) if node.has(0) else None
    goes_on: Any = node.inputs[1] if node.has(1) else known(True, "bool")
    carried = list(node.inputs[2:])
    rows: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
    turn = 0
    while most is None or turn < _turns(node, most):
        if not _holds(node, goes_on):
            break
        if turn >= MAX_TURNS:
            raise node.fault(Phrase("it turns more than {most} times", most=MAX_TURNS))
        bound = dict(zip((i.name for i in body.input), (known(turn, "i64"), goes_on, *carried)))
        results = node.translator.subgraph(body, node.scope, bound, f"{node.name}/{turn}/")
        if node.has(1) or most is None:
            goes_on = results[0]
        carried = results[1 : 1 + len(carried)]
        for row, item in zip(rows, results[1 + len(carried) :]):
            row.append(item)
        turn += 1
    if turn or not rows:
        return (*carried, *(_stacked(node, row, 0) for row in rows))
    bound = dict(zip((i.name for i in body.input), (known(0, "i64"), goes_on, *carried)))
    results = node.translator.subgraph(
        body, node.scope, bound, f"{node.name}/0/"
    )  # for the types alone: what nobody reads is left out
    return (*carried, *(_nothing(node, item, 0) for item in results[1 + len(carried) :]))


def _turns(node: Node, most: Any) -> int:
    if isinstance(most, Expr):
        raise node.fault(Phrase("its number of turns is {most}", most=most))
    return int(most)


def _holds(node: Node, condition: Any) -> bool:
    value = node.translator.value_of(condition) if isinstance(condition, Term) else None
    if value is None:
        raise node.fault(Phrase("its condition is computed from data"))
    return bool(value.reshape(-1)[0])


@onnx_op("Scan")
def scan(node: Node) -> Any:
    """The body along axes of known size; in opset 8 for each sequence of a batch, whose number must be known too."""
    body, count = node.attr("body"), node.attr("num_scan_inputs")
    given = node.inputs[1:] if node.opset < 9 else node.inputs
    if not 0 < count <= len(given):
        raise node.fault(Phrase("{count} of its {count2} inputs are scanned", count=count, count2=len(given)))
    states, fed = list(given[: len(given) - count]), list(given[len(given) - count :])
    if not all(isinstance(x, Term) for x in fed):
        raise node.fault(Phrase("it scans a sequence"))
    outputs = len(body.output) - len(states)
    backward = node.attr("scan_input_directions", node.attr("directions", (0,) * count))
    if node.opset >= 9:
        axes = [a % x.rank for a, x in zip(node.attr("scan_input_axes", (0,) * count), fed)]
        directions, places = (
            node.attr("scan_output_directions", (0,) * outputs),
            node.attr("scan_output_axes", (0,) * outputs),
        )
        if fed[0].shape[axes[0]] == Expr.of(0):
            taken = [
                node.op("Expand", known(0, x.dtype), shape=[d for i, d in enumerate(x.shape) if i != a])
                for x, a in zip(fed, axes)
            ]
            bound = dict(zip((i.name for i in body.input), (*states, *taken)))
            results = node.translator.subgraph(body, node.scope, bound, f"{node.name}/0/")  # for the types alone
            return (*states, *(_nothing(node, item, axis) for item, axis in zip(results[len(states) :], places)))
        states, rows = _scanned(node, body, states, fed, axes, backward, "")
        return (
            *states,
            *(_stacked(node, row[::-1] if back else row, axis) for row, back, axis in zip(rows, directions, places)),
        )
    batch = fed[0].shape[0].constant
    if node.has(0) or not batch or batch > MAX_TURNS:
        raise node.fault(
            Phrase("its sequences have lengths of their own")
            if node.has(0)
            else Phrase("its batch is of {shape} sequences", shape=fed[0].shape[0])
        )
    each = []
    for at in range(batch):
        own, parts = ([_slice(node, x, 0, at) for x in side] for side in (states, fed))
        last, rows = _scanned(node, body, own, parts, [0] * count, backward, f"{at}/")
        each.append((*last, *(_stacked(node, row, 0) for row in rows)))
    return tuple(_stacked(node, items, 0) for items in zip(*each))


def _scanned(
    node: Node,
    body: Any,
    states: list[Any],
    fed: Sequence[Term],
    axes: Sequence[int],
    backward: Sequence[int],
    prefix: str,
) -> tuple[list[Any], list[list[Any]]]:
    """The last states, and the rows of each further output, turn by turn."""
    sizes = {x.shape[a] for a, x in zip(axes, fed)}
    turns = next(iter(sizes)).constant if len(sizes) == 1 else None
    if turns is None or turns > MAX_TURNS:
        raise node.fault(
            Phrase(
                "it runs along sizes {sizes}; one known size of at most {most} is supported",
                sizes=", ".join(map(str, sizes)),
                most=MAX_TURNS,
            )
        )
    rows: list[list[Any]] = [[] for _ in body.output[len(states) :]]
    for turn in range(turns):
        taken = [_slice(node, x, a, turns - 1 - turn if back else turn) for x, a, back in zip(fed, axes, backward)]
        bound = dict(zip((i.name for i in body.input), (*states, *taken)))
        results = node.translator.subgraph(body, node.scope, bound, f"{node.name}/{prefix}{turn}/")
        states = results[: len(states)]
        for row, item in zip(rows, results[len(states) :]):
            row.append(item)
    return list(states), rows


def _slice(node: Node, x: Term, axis: int, place: int) -> Term:
    return node.reshape(node.cut(x, axis, place, place + 1), [d for a, d in enumerate(x.shape) if a != axis])


def _nothing(node: Node, item: Any, axis: int) -> Term:
    """No rows at all, each of the item's type."""
    if not isinstance(item, Term):
        raise node.fault(Phrase("it does not turn at all, and would gather sequences"))
    shape = list(item.shape)
    shape.insert(axis % (len(shape) + 1), Expr.of(0))
    found = node.op("Expand", known(0, item.dtype), shape=shape, part="rows")
    found.form = item.form
    return found


def _stacked(node: Node, rows: Sequence[Any], axis: int) -> Term:
    """The rows one after the other along a new axis."""
    if (
        all(r.known is not None and r.known.dtype != object for r in rows)
        and rows[0].known.size * len(rows) <= MAX_KNOWN
    ):
        return known(np.stack([r.known for r in rows], axis), rows[0].dtype)
    axis %= rows[0].rank + 1
    parts = [node.op("Unsqueeze", r, axes=[axis], part="row") for r in rows]
    return node.op("Concat", *parts, axis=axis, part="rows") if len(parts) > 1 else parts[0]


# --- sequences


def _sequence(node: Node, position: int) -> tuple[Term, ...]:
    found = node.inputs[position]
    if not isinstance(found, tuple):
        raise node.fault(Phrase("its input {position} is not a sequence", position=position + 1))
    return found


def _place(node: Node, position: int, length: int) -> int:
    place = node.scalar(position, "", length)
    if isinstance(place, Expr) or not -length <= place <= length:
        raise node.fault(Phrase("place {place} is not in a sequence of {length}", place=place, length=length))
    return place + length if place < 0 else place


@onnx_op("SequenceConstruct")
def sequence_construct(node: Node) -> Any:
    """The inputs in a row."""
    return (tuple(node.inputs),)


@onnx_op("SequenceEmpty")
def sequence_empty(node: Node) -> Any:
    """Nothing in a row."""
    return ((),)


@onnx_op("SequenceInsert")
def sequence_insert(node: Node) -> Any:
    """One more, at a known place."""
    items = _sequence(node, 0)
    place = _place(node, 2, len(items))
    return ((*items[:place], node.input(1), *items[place:]),)


@onnx_op("SequenceErase")
def sequence_erase(node: Node) -> Any:
    """One less, at a known place."""
    items = _sequence(node, 0)
    place = _place(node, 1, len(items)) if node.has(1) else len(items) - 1
    return (items[:place] + items[place + 1 :],)


@onnx_op("SequenceAt")
def sequence_at(node: Node) -> Any:
    """The one at a known place."""
    items = _sequence(node, 0)
    place = _place(node, 1, len(items))
    if place >= len(items):
        raise node.fault(Phrase("place {place} is not in a sequence of {count}", place=place, count=len(items)))
    return items[place]


@onnx_op("SequenceLength")
def sequence_length(node: Node) -> Any:
    """How many there are."""
    return known(len(_sequence(node, 0)), "i64")


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Any:
    """All of them one after the other, along an axis or along a new one."""
    items = list(_sequence(node, 0))
    if not items:
        raise node.fault(Phrase("the sequence is empty"))
    axis = node.attr("axis", 0)
    return _stacked(node, items, axis) if node.attr("new_axis", 0) else node.op("Concat", *items, axis=axis)


@onnx_op("SplitToSequence")
def split_to_sequence(node: Node) -> Any:
    """Pieces along an axis, in a row."""
    x = node.input(0)
    axis = node.axis(x.rank)
    size = x.shape[axis].constant
    if size is None:
        raise node.fault(Phrase("axis {axis} has the size {shape}", axis=axis, shape=x.shape[axis]))
    sizes = node.ints(1)
    keeps = bool(node.attr("keepdims", 1)) or node.has(1)
    if node.has(1) and node.input(1).rank == 0:
        each = sizes[0]
        sizes = (
            [min(each, size - start) for start in range(0, size, each)] if isinstance(each, int) and each > 0 else []
        )
    sizes = [1] * size if sizes is None else sizes
    found = node.op("Split", x, axis=axis, sizes=sizes, outputs=len(sizes))
    pieces = found if isinstance(found, tuple) else (found,)
    return (pieces if keeps else tuple(node.op("Squeeze", p, axes=[axis]) for p in pieces),)
