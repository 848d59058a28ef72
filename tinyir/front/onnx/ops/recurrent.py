"""RNN, GRU and LSTM, unrolled along an axis of time of known size. What the input gives to the gates is one product for
all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ir.expr import Expr
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain
from .fused import MICROSOFT
from .quantized import centred, dynamic

MAX_STEPS = 1024
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
# fn, its attributes by position (alpha, beta), and their defaults
_FUNCTIONS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "relu": ("relu", (), ()),
    "tanh": ("tanh", (), ()),
    "sigmoid": ("sigmoid", (), ()),
    "softsign": ("softsign", (), ()),
    "softplus": ("softplus", (), ()),
    "leakyrelu": ("leaky_relu", ("alpha",), (0.01,)),
    "thresholdedrelu": ("thresholded_relu", ("alpha",), (1.0,)),
    "elu": ("elu", ("alpha",), (1.0,)),
    "hardsigmoid": ("hard_sigmoid", ("alpha", "beta"), (0.2, 0.5)),
}
Function = Callable[[Term], Term]


class _Cell:
    """One direction: its weights, and the step from one state to the next."""

    def __init__(self, node: Node, kind: str, number: int, hidden: int):
        self.node, self.kind, self.hidden, self.gates = node, kind, hidden, _GATES[kind]
        self.w, self.r = (self._weights(i, number) for i in (1, 2))
        self.bias = self._own(node.input(3), number) if node.has(3) else None
        self.peep = self._own(node.input(7), number) if kind == "LSTM" and node.has(7) else None
        self.functions = self._functions(number)

    def _weights(self, position: int, number: int) -> Any:
        """The weights of the input (1) or of the state (2), [from, gates * hidden]."""
        return self.node.transpose(self._own(self.node.input(position), number), [1, 0])

    def product(self, x: Term, weights: Any, part: str) -> Term:
        """x by the weights."""
        return self.node.op("MatMul", x, weights, gives=x.dtype, part=part)

    def some(self, weights: Any, low: int, high: int) -> Any:
        """The weights of the gates from `low` to `high`."""
        return self.node.cut(weights, 1, low * self.hidden, high * self.hidden)

    def _own(self, x: Term, number: int) -> Term:
        return self.node.reshape(self.node.cut(x, 0, number, number + 1), x.shape[1:])

    def _functions(self, number: int) -> list[Function]:
        node, count = self.node, len(_ACTIVATIONS[self.kind])
        named = list(node.attr("activations", ())) or list(_ACTIVATIONS[self.kind]) * 2
        alphas, betas = list(node.attr("activation_alpha", ())), list(node.attr("activation_beta", ()))
        found: list[Function] = []
        for word in named:
            name = word.lower()
            if name not in _FUNCTIONS:
                raise node.fault(Phrase("its activation is {word}", word=word))
            fn, keys, defaults = _FUNCTIONS[name]
            values = [(lists.pop(0) if lists else default) for lists, default in zip((alphas, betas), defaults)]
            found.append(lambda x, fn=fn, attrs=dict(zip(keys, values)): node.fn(fn, x, **attrs))  # noqa: B008
        if len(found) < count * (number + 1):
            raise node.fault(Phrase("{count} activations are named", count=len(found)))
        return found[count * number : count * (number + 1)]

    def feed(self, x: Term) -> Term:
        """What the input [T, B, I] gives to the gates, biases included: [T, B, gates * hidden]."""
        node = self.node
        found = self.product(x, self.w, "fed")
        if self.bias is None:
            return found
        size = self.gates * self.hidden
        own = node.cut(self.bias, 0, 0, size)
        if self.kind == "GRU" and node.attr(
            "linear_before_reset", 0
        ):  # the candidate's recurrent bias is inside the reset
            other = node.op(
                "Concat",
                node.cut(self.bias, 0, size, size + 2 * self.hidden),
                known([0.0] * self.hidden, x.dtype),
                axis=0,
            )
        else:
            other = node.cut(self.bias, 0, size, 2 * size)
        return node.fn("add", found, node.fn("add", own, other, part="bias"), part="fed")

    def gate(self, x: Term, number: int, count: int = 1) -> Term:
        """Some gates of [B, gates * hidden]."""
        return self.node.cut(x, 1, number * self.hidden, (number + count) * self.hidden)

    def clipped(self, x: Term) -> Term:
        """Within the limit that the node states."""
        limit = self.node.attr("clip")
        return x if limit is None else self.node.fn("clip", x, min=-limit, max=limit)

    def again(self, h: Term, low: int, high: int) -> Term:
        """What the state gives to the gates from `low` to `high`."""
        return self.product(h, self.r if (low, high) == (0, self.gates) else self.some(self.r, low, high), "again")

    def step(self, fed: Term, h: Term, c: Term | None) -> tuple[Term, Term | None]:
        """The next hidden state, and of an LSTM the next cell state, from the gates' input [B, gates * hidden]."""
        return {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.kind](fed, h, c)

    def _rnn(self, fed: Term, h: Term, c: Term | None) -> tuple[Term, Term | None]:
        return self.functions[0](self.clipped(self.node.fn("add", fed, self.again(h, 0, 1)))), None

    def _gru(self, fed: Term, h: Term, c: Term | None) -> tuple[Term, Term | None]:
        node, (f, g) = self.node, self.functions
        both = f(self.clipped(node.fn("add", self.gate(fed, 0, 2), self.again(h, 0, 2))))
        z, r = self.gate(both, 0), self.gate(both, 1)
        if node.attr("linear_before_reset", 0):
            inner = self.again(h, 2, 3)
            if self.bias is not None:
                inner = node.fn("add", inner, node.cut(self.bias, 0, 5 * self.hidden, 6 * self.hidden))
            inner = node.fn("mul", r, inner)
        else:
            inner = self.again(node.fn("mul", r, h), 2, 3)
        candidate = g(self.clipped(node.fn("add", self.gate(fed, 2), inner)))
        return node.fn("add", node.fn("mul", node.fn("sub", 1.0, z), candidate), node.fn("mul", z, h), part="h"), None

    def _lstm(self, fed: Term, h: Term, c: Term | None) -> tuple[Term, Term | None]:
        node, (f, g, last) = self.node, self.functions
        whole = node.fn("add", fed, self.again(h, 0, 4))
        i, o, forget, cell = (self.gate(whole, n) for n in range(4))
        if self.peep is not None:
            i, forget = (
                node.fn("add", x, node.fn("mul", node.cut(self.peep, 0, n * self.hidden, (n + 1) * self.hidden), c))
                for x, n in ((i, 0), (forget, 2))
            )
        i = f(self.clipped(i))
        forget = node.fn("sub", 1.0, i) if node.attr("input_forget", 0) else f(self.clipped(forget))
        cell = node.fn("add", node.fn("mul", forget, c), node.fn("mul", i, g(self.clipped(cell))), part="c")
        if self.peep is not None:
            o = node.fn("add", o, node.fn("mul", node.cut(self.peep, 0, self.hidden, 2 * self.hidden), cell))
        return node.fn("mul", f(self.clipped(o)), last(cell), part="h"), cell


class _QuantizedCell(_Cell):
    """An LSTM of com.microsoft whose weights are integers, [directions, from, gates * hidden], each with a scale and a
    zero. What meets them becomes u8 by its own least and greatest number; the sums are exact, and scaled in fp32."""

    def _weights(self, position: int, number: int) -> Any:
        weights, scale, zero = (
            self._own(self.node.input(i), number) for i in (position, 6 + 2 * position, 7 + 2 * position)
        )
        return centred(self.node, weights, zero), scale

    def product(self, x: Term, weights: Any, part: str) -> Term:
        number, scale = dynamic(self.node, x)
        sums = self.node.op("MatMul", number, weights[0], acc_dtype=DTYPES["i32"], part=part)
        return self.node.fn(
            "mul", self.node.cast(sums, "fp32"), self.node.fn("mul", scale, weights[1], part="scale"), part=part
        )


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def quantized_lstm(node: Node) -> Any:
    """An LSTM with integer weights."""
    return _recurrent(node, "LSTM", _QuantizedCell, node.input(2).shape[1])


@onnx_op("RNN", "GRU", "LSTM")
def recurrent(node: Node) -> Any:
    """All hidden states, the last one, and of an LSTM the last cell state."""
    return _recurrent(node, node.proto.op_type, _Cell, node.input(2).shape[2])


def _recurrent(node: Node, kind: str, cells: type[_Cell], width: Expr) -> Any:
    x, is_batch_first = plain(node, 0), bool(node.attr("layout", 0))
    ranks = {0: 3, 1: 3, 2: 3, 3: 2, 5: 3, 6: 3, 7: 2}
    for position, rank in ranks.items():
        if node.has(position) and node.input(position).rank != rank:
            raise node.fault(
                Phrase(
                    "its input {position} has {rank} axes, not {rank2}",
                    position=position + 1,
                    rank=node.input(position).rank,
                    rank2=rank,
                )
            )
    if is_batch_first:
        x = node.transpose(x, [1, 0, 2])
    steps, batch, hidden = x.shape[0].constant, x.shape[1], width.constant
    if steps is None or steps > MAX_STEPS or hidden is None:
        raise node.fault(
            Phrase(
                "it runs for {shape} steps of {width} numbers; known sizes, and at most {most} steps, are supported",
                shape=x.shape[0],
                width=width,
                most=MAX_STEPS,
            )
        )
    direction = node.attr("direction", "forward")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if backward is None:
        raise node.fault(Phrase("direction is {direction}", direction=direction))
    lengths = node.reshape(node.cast(node.input(4), "i64"), [batch, 1]) if node.has(4) else None
    every, last_h, last_c = [], [], []
    for number, is_backward in enumerate(backward):
        cell = cells(node, kind, number, hidden)
        h, c = (
            _initial(node, position, number, batch, hidden, x, is_batch_first)
            if position < 6 or kind == "LSTM"
            else None
            for position in (5, 6)
        )
        rows, h, c = _one_way(node, cell, x, (h, c), lengths, is_backward)
        nothing = {"shape": [0, batch, hidden], "part": "rows"}
        every.append(_rows(node, rows) if rows else node.op("Expand", known(0.0, x.dtype), **nothing))
        last_h.append(h)
        last_c.append(c)
    whole = _joined(node, every, 1)
    states = [_joined(node, side, 0) for side in (last_h, last_c) if side[0] is not None]
    if is_batch_first:
        whole = node.transpose(whole, [2, 0, 1, 3])
        states = [node.transpose(s, [1, 0, 2]) for s in states]
    return (whole, *states)


def _one_way(
    node: Node, cell: _Cell, x: Term, state: tuple[Term, Term | None], lengths: Term | None, is_backward: bool
) -> tuple[list[Term], Term, Term | None]:
    """The rows of one direction in the order of the steps, and the last states. Beyond a row's end its state stays, and
    what it shows is 0."""
    h, c = state
    fed = cell.feed(x)
    steps = range(x.shape[0].constant)
    rows: dict[int, Term] = {}
    for at in reversed(steps) if is_backward else steps:
        new_h, new_c = cell.step(node.reshape(node.cut(fed, 0, at, at + 1), fed.shape[1:]), h, c)
        rows[at] = new_h
        if lengths is not None:
            is_there = node.fn("less", known([[at]], "i64"), lengths)
            rows[at] = node.fn("where", is_there, new_h, known(0.0, x.dtype))
            new_h = node.fn("where", is_there, new_h, h)
            new_c = node.fn("where", is_there, new_c, c) if new_c is not None else None
        h, c = new_h, new_c
    return [rows[at] for at in steps], h, c


def _initial(node: Node, position: int, number: int, batch: Any, hidden: int, x: Term, is_batch_first: bool) -> Term:
    if not node.has(position):
        return node.op("Expand", known(0.0, x.dtype), shape=[batch, hidden], part="zero")
    given = node.input(position)
    if is_batch_first:
        given = node.transpose(given, [1, 0, 2])
    return node.reshape(node.cut(given, 0, number, number + 1), given.shape[1:])


def _rows(node: Node, rows: Sequence[Term]) -> Term:
    """The states of all steps, [T, B, H]."""
    parts = [node.op("Unsqueeze", r, axes=[0], part="row") for r in rows]
    return node.op("Concat", *parts, axis=0, part="rows") if len(parts) > 1 else parts[0]


def _joined(node: Node, sides: Sequence[Term], axis: int) -> Term:
    """The directions along a new axis."""
    parts = [node.op("Unsqueeze", s, axes=[axis], part="side") for s in sides]
    return node.op("Concat", *parts, axis=axis, part="sides") if len(parts) > 1 else parts[0]
