"""Recurrent layers, as torch exports them before decomposition: every step is written out, so the number of steps must
be a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten

MOST_STEPS = 4096  # of all layers and directions together
State = tuple[Term, ...]
Step = Callable[[Call, Term, State, Sequence[Term]], State]


@aten("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(call: Call) -> Any:
    """Layers, each of one direction or two, over all steps; in inference, or without dropout."""
    word = call.target.partition(".")[0]
    step, given = STEPS[word], call.args["hx"]
    starts = given if isinstance(given, list) else [given]
    if call.get("train", False) and call.get("dropout", 0.0):
        raise call.fault(Phrase("it trains, and draws its mask from a generator of its own"))
    layers, ways = call.get("num_layers", 1), 2 if call.get("bidirectional", False) else 1
    x, params = call.tensor("input"), call.tensors("params")
    x = call.transpose(x, [1, 0, 2]) if call.get("batch_first", False) else x
    steps = x.shape[0].constant
    if steps is None or not 0 < steps * layers * ways <= MOST_STEPS:
        raise call.fault(Phrase("it has {steps} steps", steps=x.shape[0]))
    each = len(params) // (layers * ways)
    ends: list[State] = []
    for layer in range(layers):
        found = []
        for way in range(ways):
            number = layer * ways + way
            state = tuple(_place(call, start, number) for start in starts)
            row, end = _along(call, x, state, params[number * each : (number + 1) * each], step, bool(way))
            found.append(row)
            ends.append(end)
        x = found[0] if ways == 1 else call.op("Concat", *found, axis=2)
    x = call.transpose(x, [1, 0, 2]) if call.get("batch_first", False) else x
    last = [_stacked(call, [end[n] for end in ends]) for n in range(len(starts))]
    # export states one more axis of size 1 for the states of an lstm than it has
    return (x, *(call.reshape(t, shape) for t, (_, shape) in zip(last, call.types[1:])))


def _along(
    call: Call, x: Term, state: State, params: Sequence[Any], step: Step, is_backward: bool
) -> tuple[Term, State]:
    """One direction of a layer: its outputs in the order of the steps, and its last state. What comes of the inputs is
    one product for all steps."""
    weights = call.get("has_biases", False)
    first, second, *rest = params
    biases = rest[:2] if weights else []
    fed = _product(call, x, first, biases[:1])
    steps = range(x.shape[0].constant or 0)
    outputs = []
    for at in reversed(steps) if is_backward else steps:
        state = step(call, _place(call, fed, at), state, (second, *biases[1:], *rest[len(biases) :]))
        outputs.append(state[0])
    return _stacked(call, outputs[::-1] if is_backward else outputs), state


def _lstm(call: Call, fed: Term, state: State, params: Sequence[Term]) -> State:
    """Input, forget, cell and output gates; with a projection of what leaves, where there is one."""
    hidden, cell = state
    second, biases, rest = _own(call, params)
    gates = call.fn("add", fed, _product(call, hidden, second, biases))
    inward, kept, new, outward = _parts(call, gates, 4)
    cell = call.fn(
        "add",
        call.fn("mul", call.fn("sigmoid", kept), cell),
        call.fn("mul", call.fn("sigmoid", inward), call.fn("tanh", new)),
    )
    hidden = call.fn("mul", call.fn("sigmoid", outward), call.fn("tanh", cell))
    return (_product(call, hidden, rest[0], []) if rest else hidden), cell


def _gru(call: Call, fed: Term, state: State, params: Sequence[Term]) -> State:
    """Reset, update and new gates; the reset one is applied behind the product."""
    second, biases, _ = _own(call, params)
    reset, update, new = _parts(call, fed, 3)
    own_reset, own_update, own_new = _parts(call, _product(call, state[0], second, biases), 3)
    reset = call.fn("sigmoid", call.fn("add", reset, own_reset))
    update = call.fn("sigmoid", call.fn("add", update, own_update))
    new = call.fn("tanh", call.fn("add", new, call.fn("mul", reset, own_new)))
    kept = call.fn("mul", update, call.fn("sub", state[0], new))
    return (call.fn("add", new, kept),)


def _plain(fn: str) -> Step:
    def step(call: Call, fed: Term, state: State, params: Sequence[Term]) -> State:
        second, biases, _ = _own(call, params)
        return (call.fn(fn, call.fn("add", fed, _product(call, state[0], second, biases))),)

    return step


STEPS: dict[str, Step] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _plain("tanh"), "rnn_relu": _plain("relu")}


@aten(*(f"{word}_cell.default" for word in STEPS))
def cell(call: Call) -> Any:
    """One step of a layer."""
    given, bias = call.args["hx"], call.optional("b_ih")
    call.args["has_biases"] = bias is not None
    fed = _product(call, call.tensor("input"), call.tensor("w_ih"), [] if bias is None else [bias])
    params = [call.tensor("w_hh"), *([] if bias is None else [call.tensor("b_hh")])]
    state = tuple(given) if isinstance(given, list) else (given,)
    found = STEPS[call.target.partition("_cell")[0]](call, fed, state, params)
    return found if len(found) > 1 else found[0]


def _own(call: Call, params: Sequence[Term]) -> tuple[Term, list[Term], list[Term]]:
    """The weight of the state, its bias and what is left."""
    second, *rest = params
    count = 1 if call.get("has_biases", False) else 0
    return second, rest[:count], rest[count:]


def _product(call: Call, x: Term, weight: Term, bias: Sequence[Term]) -> Term:
    """`x` by a weight whose rows are outputs."""
    found = call.op("MatMul", x, call.transpose(weight, [1, 0]))
    return call.fn("add", found, bias[0]) if bias else found


def _parts(call: Call, x: Term, count: int) -> tuple[Term, ...]:
    """Gates that are side by side."""
    size = (x.shape[-1].constant or 0) // count
    return tuple(call.cut(x, x.rank - 1, n * size, (n + 1) * size) for n in range(count))


def _place(call: Call, x: Term, at: int) -> Term:
    """One place of the first axis."""
    return call.reshape(call.cut(x, 0, at, at + 1), x.shape[1:])


def _stacked(call: Call, terms: Sequence[Term]) -> Term:
    """Terms along a new first axis."""
    wide = [call.reshape(t, [1, *t.shape]) for t in terms]
    return wide[0] if len(wide) == 1 else call.op("Concat", *wide, axis=0)
