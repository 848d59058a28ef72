"""The rewrites of regions: each does what the example in its file says, keeps what is computed, and is in the
pipeline."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import region, tiny
from tinyir.lower import index as lower_index
from tinyir.lower import poly as lower_poly
from tinyir.lower import region as lower_region
from tinyir.lower.region import GRAPH_PASSES, PASSES, cut, graph
from tinyir.lower.region.apply_epilogue import apply_epilogue
from tinyir.lower.region.distribute import distribute
from tinyir.lower.region.fuse import partition
from tinyir.lower.region.program import assemble
from tinyir.lower.region.share_values import share_values
from tinyir.play.region import play

from .graphs import random_graph

TENSORS = (
    "  in  A           : {dtype}[M, K]\n  in  X           : {dtype}[M, K]\n  in  S           : {dtype}[M]\n  out Y   "
    "        : {dtype}[M{wide}]\n"
)


def example_of(rewrite: object) -> tuple[str, str]:
    """What comes after `before:` and after `after:` in the docstring of the rewrite's file."""
    text = inspect.getdoc(inspect.getmodule(rewrite))
    before, after = re.search(r"^before: (.*?)^after:  (.*?)^$", text, re.M | re.S).groups()
    return tuple("\n".join(line.strip() for line in part.strip().split("\n")) for part in (before, after))


def region_of(lines: str, dtype: str = "fp32", wide: str = "") -> region.Region:
    """A region of rows of A and S that yields its last value; `wide` adds the axis k to them."""
    last = re.findall(r"^%(\S+) *=", lines, re.M)[-1]
    tensors = TENSORS.format(dtype=dtype, wide=wide)
    body = "".join(f"    {line}\n" for line in lines.split("\n"))
    axes, index = ("i0: M, i1: K", "i0, i1") if wide else ("i0: M", "i0")
    text = (
        f"tinyir 1.0 region\n\nmodel m\n{tensors}\nprogram m\n\nregion r\n{tensors}  for {axes}\n{body}  yield "
        f"Y[{index}] = %{last}\n"
    )
    return region.parse(text).program.regions[0]


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda p: p.__name__)
def test_a_rewrite_does_what_its_file_shows(rewrite) -> None:
    before, after = example_of(rewrite)
    wide = ", K" if "i1" in before else ""
    given, wanted = (region_of(lines, wide=wide) for lines in (before, after))
    assert region.show_region(rewrite(given)) == region.show_region(wanted) != region.show_region(given)


@pytest.mark.parametrize("rewrite", GRAPH_PASSES, ids=lambda p: p.__name__)
def test_a_rewrite_of_the_program_does_what_its_file_shows(rewrite) -> None:
    """The program of the tiny text before is that of the text after."""

    def program(lines: str, is_rewritten: bool) -> region.Program:
        inputs = "\n".join(f"  {line}" for line in lines.split("\n") if line.startswith("in "))
        values = "\n".join(f"  {line}" for line in lines.split("\n") if line.startswith("%"))
        last = re.findall(r"^%(\S+) *=.* : (\S.*)$", lines, re.M)[-1]
        module = tiny.parse(
            f"tinyir 1.0 tiny\n\nmodel m\n{inputs}\n  out y : {last[1]}\n\n{values}\n\noutputs: y=%{last[0]}\n"
        )
        found = graph.build(lower_poly.lower(lower_index.lower(module)))
        return assemble(*_cut(rewrite(found)[0] if is_rewritten else found))

    before, after = example_of(rewrite)
    assert program(before, True) == program(after, False) != program(before, False)


def _cut(found: graph.Graph) -> tuple:
    return found, partition(found), {}


@pytest.mark.parametrize("rewrite", [*GRAPH_PASSES, *PASSES], ids=lambda p: p.__name__)
def test_a_rewrite_says_in_one_line_what_it_does(rewrite) -> None:
    line = inspect.getdoc(inspect.getmodule(rewrite)).split("\n", 1)[0]
    assert line.endswith(".") and inspect.getmodule(rewrite).__name__.endswith(f".{rewrite.__name__}")


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda p: p.__name__)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_rewrite_keeps_every_bit(rewrite, seed: int) -> None:
    """Of a whole program, before the others have been at it; a second time it finds nothing."""
    module, arrays = random_graph(seed)
    found, streams, _ = cut(lower_poly.lower(lower_index.lower(module)))
    before = region.Module(module.model, assemble(found.graph, found, streams))
    once = tuple(map(rewrite, before.program.regions))
    after = region.Module(module.model, region.Program(module.model.name, before.program.buffers, once))
    assert [d.code for d in region.check(after) if d.is_error] == []
    assert tuple(map(rewrite, once)) == once
    wanted, given_ = play(before, arrays), play(after, arrays)
    for name, array in wanted.items():
        np.testing.assert_array_equal(given_[name], array)


SPECIAL = np.array(
    [[1.5, -2.0, 0.1], [np.nan, 1.0, -1.0], [np.inf, -np.inf, 0.0], [-0.0, 0.0, -0.0], [-np.inf, -np.inf, -np.inf]],
    np.float32,
)


@pytest.mark.parametrize(
    "line, is_moved",
    [
        ("%s = reduce max (k0: K) : fp32 { mul(A[i0, k0], 0.125) }", True),
        ("%s = reduce min (k0: K) : fp32 { mul(0.3, A[i0, k0]) }", True),
        ("%s = reduce max (k0: K) : fp32 { neg(A[i0, k0]) }", True),
        ("%s = reduce max (k0: K) : fp32 { mul(A[i0, k0], -2.0) }", False),  # the order is turned
        ("%s = reduce max (k0: K) : fp32 { mul(A[i0, k0], 0.0) }", False),  # inf would become nan
        ("%s = reduce max (k0: K) : fp32 { mul(A[i0, k0], S[i0]) }", False),  # a number of any sign
        ("%s = reduce sum (k0: K) : fp32 { mul(A[i0, k0], S[i0]) }", False),  # rounds elsewhere
        ("%s = reduce prod (k0: K) : fp32 { mul(A[i0, k0], S[i0]) }", False),
    ],
)
def test_distribute_where_no_bit_changes(line: str, is_moved: bool) -> None:
    before = region_of(line)
    after = distribute(before)
    assert (after != before) == is_moved
    for columns in (0, 1, 3):
        arrays = {"A": SPECIAL[:, :columns], "X": SPECIAL[:, :columns], "S": np.linspace(-1, 1, 5, dtype=np.float32)}
        np.testing.assert_array_equal(played(after, arrays), played(before, arrays))


def test_a_factor_leaves_a_sum_of_floats_when_asked() -> None:
    before = region_of("%s = reduce sum (k0: K) : fp32 { mul(mul(A[i0, k0], 0.1), X[i0, k0]) }")
    after = apply_epilogue(distribute(before, is_asked=True))
    assert [region.show_body(let.expr) for let in after.lets] == [
        "reduce sum (k0: K) : fp32 { mul(A[i0, k0], X[i0, k0]) }",
        "mul(%s.acc, 0.1)",
    ]
    arrays = {name: np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32) for name in "AX"} | {
        "S": np.zeros(5, np.float32)
    }
    np.testing.assert_allclose(played(after, arrays), played(before, arrays), rtol=1e-5)


def test_a_factor_leaves_a_sum_of_integers_that_wraps() -> None:
    before = region_of("%s = reduce sum (k0: K) : i32 { mul(A[i0, k0], S[i0]) }", "i32")
    after = distribute(before)
    big = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (5, 9)).astype(np.int32)
    arrays = {"A": big, "X": big, "S": big[:, 0]}
    assert after != before
    np.testing.assert_array_equal(played(after, arrays), played(before, arrays))


def played(one: region.Region, arrays: dict[str, np.ndarray]) -> np.ndarray:
    tensors = TENSORS.format(dtype="fp32" if arrays["A"].dtype == np.float32 else "i32", wide="")
    model = region.parse(f"tinyir 1.0 region\n\nmodel m\n{tensors}\nprogram m\n").model
    module = region.Module(model, region.Program("m", (), (one,)))
    assert [d for d in region.check(module) if d.is_error] == []
    return play(module, arrays)["Y"]


@pytest.mark.parametrize(
    "lines",
    [
        "%t = reduce sum (k0: K) : fp32 { mul(neg(A[i0, k0]), neg(A[i0, k0])) }",  # names an axis of the fold's own
        "%t = add(S[i0] where i0 < M - 1 else 0.0, S[i0] where i0 < M - 1 else -0.0)",  # two numbers
    ],
)
def test_what_is_not_shared(lines: str) -> None:
    one = region_of(lines)
    assert share_values(one) == one


def test_what_each_rewrite_did_is_said() -> None:
    body = """
  %v = VALID(x) {guard="0 <= i0 - i1", value=-inf} : fp32[M, N]
  %a = TANH(s) : fp32[M]
  %b = TANH(s) : fp32[M]
  %c = ADD(%a, %b) : fp32[M]
  %r = RESHAPE(%c) : fp32[M, 1]
  %w = EXPAND(%r) : fp32[M, N]
  %m = REDUCE(%v) {op=MAX, axes=[1], dtype=fp32} : fp32[M]
  %q = RESHAPE(%m) : fp32[M, 1]
  %p = EXPAND(%q) : fp32[M, N]
  %d = SUB(%v, %p) : fp32[M, N]
  %e = MUL(%d, %w) : fp32[M, N]
  %y = REDUCE(%e) {op=SUM, axes=[1], dtype=fp32} : fp32[M]

outputs: %y, %d"""
    module = tiny.parse(
        f"tinyir 1.0 tiny\n\nmodel m\n  in  x : fp32[M, N]\n  in  s : fp32[M]\n  out y : fp32[M]\n  out d : "
        f"fp32[M, N]\n\n{body}\n"
    )
    module = lower_poly.lower(lower_index.lower(module))
    plain, asked = (
        {d.code for d in lower_region.verdicts(module, is_asked)} - {"R3401", "R3402"} for is_asked in (False, True)
    )
    assert plain == {"R3461", "R3462", "R3463", "R3466"} and asked == {*plain, "R3464", "R3465"}
