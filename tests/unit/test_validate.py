"""Translation validation catches what was planted, and is silent otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.analysis.validate import validate_index
from tinyir.analysis.validate_blocks import validate_poly
from tinyir.ir import index, poly, tiny
from tinyir.ir.expr import Bound, Expr, Floor
from tinyir.ir.index import Access, Entry, Fill, Piece, Read
from tinyir.lower import index as to_index
from tinyir.lower import poly as to_poly

from .programs import chains, symbolic_chains

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted((ROOT / "tests" / "golden" / "design").glob("*.index"))


@settings(max_examples=40, deadline=None)
@given(chains())
def test_no_alarm_on_chains(module: tiny.Module) -> None:
    book = to_index.lower(module)
    assert validate_index(book) == []
    assert validate_poly(to_poly.lower(book)) == []


@settings(max_examples=25, deadline=None)
@given(symbolic_chains())
def test_no_alarm_on_symbolic_chains(module: tiny.Module) -> None:
    assert validate_index(to_index.lower(module)) == []


@pytest.mark.parametrize("file", TEXTS, ids=lambda f: f.stem)
def test_no_alarm_on_committed_texts(file: Path) -> None:
    book = index.parse(file.read_text(encoding="utf-8"))
    assert book == to_index.lower(book.tiny)
    assert validate_index(book) == []
    blocks = to_poly.lower(book)
    assert poly.check(blocks) == []
    assert validate_poly(blocks) == []


def deeper(expr: Expr) -> Expr:
    """The expression with one more in every floor's divisor."""
    total = Expr.of(0)
    for coefficient, monomial in expr.terms:
        product = Expr.of(coefficient)
        for atom in monomial:
            product = product * (atom.num // (atom.den + 1) if isinstance(atom, Floor) else atom)
        total = total + product
    return total


@st.composite
def faulty(draw: st.DrawFn, access: Access) -> Access:
    """The access with one fault planted in it."""
    at = draw(st.integers(0, len(access.pieces) - 1))
    piece = access.pieces[at]
    if isinstance(piece.target, Fill):
        return _with(access, at, Piece(piece.guard, Fill(piece.target.value + 1)))
    index_, guard = list(piece.target.index), list(piece.guard)
    kind = draw(st.sampled_from(["shift", "swap", "scale", "divisor", "lost guard", "moved guard", "constant"]))
    axis = draw(st.integers(0, len(index_) - 1)) if index_ else None
    if kind == "lost guard" and guard:
        return Access((Piece((), piece.target),))
    if kind == "moved guard" and guard:
        bound = guard[0]
        guard[0] = Bound(bound.expr + 1, bound.lower, bound.upper, bound.equals)
    elif axis is None:
        return access
    elif kind == "swap" and axis + 1 < len(index_):
        index_[axis], index_[axis + 1] = index_[axis + 1], index_[axis]
    elif kind == "scale":
        index_[axis] = index_[axis] * 2
    elif kind == "divisor":
        index_[axis] = deeper(index_[axis])
    elif kind == "constant":
        index_[axis] = Expr.of(0)
    else:
        index_[axis] = index_[axis] + draw(st.sampled_from([-1, 1]))
    return _with(access, at, Piece(tuple(guard), Read(piece.target.source, tuple(index_))))


def _with(access: Access, at: int, piece: Piece) -> Access:
    return Access((*access.pieces[:at], piece, *access.pieces[at + 1 :]))


def differs(entry: Entry, ours: Access, theirs: Access) -> bool:
    """Whether two accesses differ at a point, by trying all."""
    sizes = [a.size.evaluate({}) for a in entry.axes]
    points: list[dict[str, int]] = [{}]
    for axis, size in zip(entry.axes, sizes):
        points = [{**p, axis.name: i} for p in points for i in range(size)]
    return any(ours.at(p) != theirs.at(p) for p in points)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_planted_faults_are_caught(data: st.DataObject) -> None:
    book = to_index.lower(data.draw(chains(5)))
    at = data.draw(st.integers(0, len(book.entries) - 1))
    entry = book.entries[at]
    field = data.draw(st.sampled_from(["reads", "sources"]))
    right = getattr(entry, field)[0]
    wrong = data.draw(faulty(right))
    changed = replace(entry, **{field: (wrong,)})
    found = validate_index(index.Module(book.tiny, (*book.entries[:at], changed, *book.entries[at + 1 :])))
    if differs(entry, right, wrong):
        assert [(d.code, d.at) for d in found][:1] == [("E1221", entry.value)]
    else:
        assert found == []


def test_a_fault_is_named_with_its_point() -> None:
    text = TEXTS[1].read_text(encoding="utf-8")
    assert "conv_pad_stride" in TEXTS[1].name
    broken = text.replace(
        "    reads X[i0, i1, i2 - 1, i3 - 1] where 0 <= i2 - 1 < H and",
        "    reads X[i0, i1, i2 - 1, i3 - 1] where 1 <= i2 - 1 < H and",
    )
    assert broken != text
    (said, *_) = validate_index(index.parse(broken))
    assert said.at == "conv.p" and "i2=1" in said.facts["point"] and said.facts["book"] == "0.0"
    assert said.facts["program"].startswith("X[")


BLOCK_FAULTS = [
    ("[i0, i1, k0] -> A[i0, k0]", "[i0, i1, k0] -> A[k0, i0]"),
    ("0 <= k0 < K }", "0 <= k0 < K - 1 }"),
    ("left [i0] right [i1]", "left [i1] right [i0]"),
    ("batch [] left [i0]", "batch [i0] left []"),
    ("matmul", "conv"),
    ("  fuses  %gemm.mul\n", ""),
    ("read   bias { bias_add_c[i0] -> bias[i0] }\n", ""),
    ("read   bias { bias_add_c[i0] -> bias[i0] }", "read   bias { bias_add_c[i0] -> bias[i0 + 1] }"),
    ("-> gemm[i0, i1] }\n\nblock bias_add.c", "-> gemm[i1, i0] }\n\nblock bias_add.c"),
    ("edge relu -> C2 : true { relu[i0, i1] -> C2[i0, i1] : 0 <= i0 < M and 0 <= i1 < N }\n", ""),
    ("bias_add[o0, i0] : 0 <= i0 < N", "bias_add[o0, i0] : 0 < i0 < N"),
    (
        "block gemm : contraction matmul\n  fuses  %gemm.mul\n  axes   batch [] left [i0] right [i1] sum [k0]\n",
        "block gemm : reduction\n",
    ),
]


@pytest.mark.parametrize("right, wrong", BLOCK_FAULTS, ids=range(len(BLOCK_FAULTS)))
def test_planted_block_faults_are_caught(right: str, wrong: str) -> None:
    text = (ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.poly").read_text(encoding="utf-8")
    assert right in text
    module = poly.parse(text.replace(right, wrong, 1))
    said = poly.check(module) or validate_poly(module)
    assert said and said[0].code in ("E1222", "E1212", "E1211", "E1213")
