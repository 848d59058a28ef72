"""How each function of the graph DSL is called: what a message on a call shows beside what is wrong with it."""

from __future__ import annotations

from .dslcalls import FUNCTIONS, ROWS, SNAKE
from .ops import ELEMENTWISE, FRONT_OPS
from .ops.table import REQUIRED, Attr, FrontOp
from .uops import UOPS

OWN = {
    "reshape": "reshape(x, [2, -1])",
    "permute": "permute(x, [1, 0])",
    "transpose": "transpose(x, [1, 0])",
    "expand": "expand(x, [8, 4])",
    "repeat": "repeat(x, axis, times)",
    "pad": "pad(x, [(1, 1), (0, 2)], 0.0)",
    "slice": "slice(x, [(0, 4), (1, 9, 2)])",
    "concat": "concat([x, y], axis)",
    "split": "split(x, axis, 2)",
    "gather": "gather(x, axis, index)",
    "scatter": "scatter(x, axis, index, updates, reduction=add)",
    "conv": "conv(x, w, stride=1, padding=1, bias=b)",
    "conv_transpose": "conv_transpose(x, w, stride=2, bias=b)",
    "view": "view(x, [4, 8], [i0, 2*i1])",
    "valid": 'valid(x, "0 <= i0 < 4", 0.0)',
    "const": "const(0.5, f32[4, 8])",
    "iota": "iota(i64[4, 8], axis=1)",
    "random": "random(f32[4, 8], seed=1)",
}
_OPERANDS = ("x", "y", "z", "u", "v")
_SHOWN = {
    "int": "1",
    "dim": "1",
    "float": "1.0",
    "number": "1",
    "literal": "1",
    "flag": "true",
    "dtype": "f32",
    "ints": "[1]",
    "dims": "[1]",
    "floats": "[1.0]",
    "pairs": "[(1, 1)]",
    "string": '"..."',
    "strings": '["..."]',
    "guard": '"0 <= i0 < 4"',
}


def form_of(name: str) -> str:
    """A call of a function as it is written, with what must be given; empty for no function."""
    if name in OWN:
        return OWN[name]
    if name in ROWS:
        row = ROWS[name]
        return _form(name, FRONT_OPS[row.op], row.operands, {*row.fixed})
    if name in UOPS:
        return _form(name, UOPS[name], UOPS[name].inputs[0])
    fn = FUNCTIONS.get(name, name)
    if fn in ELEMENTWISE:
        return _form(name, ELEMENTWISE[fn], ELEMENTWISE[fn].inputs[0])
    return _form(name, FRONT_OPS[SNAKE[name]], FRONT_OPS[SNAKE[name]].inputs[0]) if name in SNAKE else ""


def _form(name: str, op: FrontOp, operands: int, fixed: frozenset[str] | set[str] = frozenset()) -> str:
    must = [a for a in op.attrs if a.default is REQUIRED and a.name not in fixed]
    return f"{name}({', '.join([*_OPERANDS[:operands], *(f'{a.name}={_shown(a)}' for a in must)])})"


def _shown(attr: Attr) -> str:
    return attr.words[0] if attr.kind == "word" else _SHOWN[attr.kind]
