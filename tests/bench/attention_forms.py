"""The forms of attention that the bench writes out in tiny's ops, since no front end has an op for them: ALiBi, a
document mask, a mask that is a tensor, relative positions from a table, log-sum-exp as a second output. Each with its
operands, its rival, and what it adds to a score in fp64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.bench.attention import Case

FORMS = ("alibi", "document", "mask", "relative", "log-sum-exp")
HIDDEN = 0.1  # share of the scores that a mask hides
FARTHEST = 128  # positions apart that a table tells from one another
DOCUMENTS = 6  # in a row of tokens


def written(case: Case) -> Any:
    """The model of a case in tiny."""
    from tinyir.front.builder import Builder, Literal
    from tinyir.ir.expr import ZERO, Bound, Expr
    from tinyir.ir.model import Model, Tensor
    from tinyir.ir.types import DTYPES, TensorType

    b, fp32, i64 = Builder(), DTYPES["fp32"], DTYPES["i64"]
    b.open(None, "attention")
    shape = (case.batch, case.heads, case.length, case.depth)

    def given(name: str, dtype: str, *dims: int) -> Any:
        return b.input(Tensor(name, TensorType(DTYPES[dtype], tuple(map(Expr.of, dims)))))

    q, k, v = (given(name, case.dtype, *shape) for name in "QKV")
    s = b.contract(q, "bhsd", k, "bhtd", "bhst", fp32)
    s = b.apply("MUL", s, Literal(1 / math.sqrt(case.depth)))
    apart = b.apply("SUB", b.iota(i64, s.shape, 3), b.iota(i64, s.shape, 2))
    if case.extra == "alibi":
        slope = given("slope", "fp32", case.heads, 1, 1)
        s = b.apply("ADD", s, b.apply("MUL", b.cast(apart, fp32), slope))
    if case.extra == "relative":
        table = given("table", "fp32", case.heads, 2 * FARTHEST + 1)
        sides = (case.length, case.length)
        rows, columns = (b.iota(i64, sides, axis) for axis in (0, 1))
        place = b.apply("SUB", columns, rows)
        place = b.apply("MIN", b.apply("MAX", place, Literal(-FARTHEST)), Literal(FARTHEST))
        place = b.reshape(b.apply("ADD", place, Literal(FARTHEST)), [case.length * case.length])
        picked = b.emit("GATHER", table, place, axis=1)
        s = b.apply("ADD", s, b.reshape(picked, [case.heads, *sides]))
    if case.extra == "document":
        ids = given("document", "i32", case.batch, case.length)
        own = b.reshape(ids, [case.batch, 1, case.length, 1])
        other = b.reshape(ids, [case.batch, 1, 1, case.length])
        s = b.apply("WHERE", b.apply("CMPEQ", own, other), s, Literal(-math.inf))
    if case.extra == "mask":
        seen = given("mask", "bool", case.batch, 1, case.length, case.length)
        s = b.apply("WHERE", seen, s, Literal(-math.inf))
    if case.is_causal:
        s = b.valid(s, [Bound(Expr.of("i2") - "i3", lower=ZERO)], -math.inf)
    top = b.reduce(s, "MAX", [3], keep=True)
    e = b.apply("EXP2", b.apply("MUL", b.apply("SUB", s, top), Literal(math.log2(math.e))))
    total = b.reduce(e, "SUM", [3], keep=True)
    weights = b.cast(b.apply("FDIV", e, total), DTYPES[case.dtype])
    o = b.cast(b.contract(weights, "bhst", v, "bhte", "bhse", fp32), DTYPES[case.dtype])
    outputs = [("O", o)]
    if case.extra == "log-sum-exp":
        lse = b.apply("ADD", b.apply("MUL", b.apply("LOG2", total), Literal(math.log(2))), top)
        outputs.append(("L", b.reshape(lse, s.shape[:3])))
    count = len(outputs)
    b.close([r for _, r in outputs], [n for n, _ in outputs], [None] * count, [None] * count)
    inputs = tuple(Tensor(r.name, r.type) for r in b.inputs)
    return b.finish(Model("attention", inputs, tuple(Tensor(n, r.type) for n, r in outputs)), outputs)


def operands(case: Case) -> dict[str, Any]:
    """What a form reads and writes beside Q, K, V and O."""
    import torch

    if case.extra == "alibi":
        steps = torch.arange(1, case.heads + 1, device="cuda", dtype=torch.float32)
        return {"slope": 2.0 ** (-8 * steps / case.heads)}
    if case.extra == "relative":
        return {"table": torch.randn(case.heads, 2 * FARTHEST + 1, device="cuda")}
    if case.extra == "document":
        ends = torch.rand(case.batch, case.length, device="cuda").argsort(-1) < DOCUMENTS - 1
        return {"document": ends.cumsum(-1).int()}
    if case.extra == "mask":
        seen = torch.rand(case.batch, 1, case.length, case.length, device="cuda") > HIDDEN
        seen.diagonal(dim1=-2, dim2=-1).fill_(True)  # no row is without a column
        return {"mask": seen}
    return {"L": torch.full((case.batch, case.heads, case.length), math.nan, device="cuda")}


def added(case: Case, x: dict[str, Any], batch: int, head: int, rows: Any, columns: Any) -> Any:
    """What the form adds to the scores of some rows, in fp64."""
    import torch

    apart = columns[None, :] - rows[:, None]
    if case.extra == "alibi":
        return x["slope"][head].double() * apart
    if case.extra == "relative":
        return x["table"][head, apart.clamp(-FARTHEST, FARTHEST) + FARTHEST].double()
    if case.extra == "document":
        ids = x["document"][batch]
        return torch.where(ids[rows][:, None] == ids[columns][None, :], 0.0, -math.inf).double()
    if case.extra == "mask":
        return torch.where(x["mask"][batch, 0][rows], 0.0, -math.inf).double()
    return torch.zeros(apart.shape, device="cuda", dtype=torch.float64)


def flex(case: Case, x: dict[str, Any]) -> Callable[[], Any]:
    """FlexAttention of a form, compiled at its first call."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slope, table, ids, seen = x.get("slope"), x.get("table"), x.get("document"), x.get("mask")

    def score(value: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        if slope is not None:
            return value + slope[head] * (column - row)
        if table is not None:
            return value + table[head, (column - row).clamp(-FARTHEST, FARTHEST) + FARTHEST]
        if seen is not None:
            return torch.where(seen[batch, 0, row, column], value, -math.inf)
        return value

    def counts(batch: Any, head: Any, row: Any, column: Any) -> Any:
        seen = row >= column if case.is_causal else row >= 0
        return seen & (ids[batch, row] == ids[batch, column]) if ids is not None else seen

    @functools.cache
    def prepared() -> Any:
        has_mask = case.is_causal or ids is not None
        sizes = (case.batch if ids is not None else None, None, case.length, case.length)
        mask = create_block_mask(counts, *sizes, device="cuda") if has_mask else None
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(x["Q"], x["K"], x["V"], score_mod=score, block_mask=mask)

    return lambda: prepared()()
