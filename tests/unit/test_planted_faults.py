"""A hundred faults planted in books, ten of each kind: translation validation finds every one, at its value, and no
other."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.japanese import english_of
from tests.models import bert, gpt2, resnet50, vit
from tinyir.analysis.validate import validate_index
from tinyir.analysis.validate_blocks import validate_poly
from tinyir.front.json import read
from tinyir.ir import index
from tinyir.ir.expr import Bound, Expr, Floor
from tinyir.ir.index import Access, Entry, Fill, Piece, Read
from tinyir.lower import index as to_index
from tinyir.lower import poly as to_poly

from .turns import in_turn

ROOT = Path(__file__).resolve().parents[2]
MIXED = """tinyir 1.0 tiny

model mixed
  in  x : fp32[M, N]
  in  v : fp32[M, N]
  out y : fp32[M, 6]

  %a = ADD(x, v) : fp32[M, N]
  %p = PAD(%a) {pad=[[2, 1], [0, 3]], value=1.0} : fp32[M + 3, N + 3]
  %r = PERMUTE(%p) {perm=[1, 0]} : fp32[N + 3, M + 3]
  %f = FLIP(%r) {axes=[0]} : fp32[N + 3, M + 3]
  %s = SHRINK(%f) {lo=[1, 1], hi=[N + 2, M + 1], step=[2, 1]} : fp32[floor((N + 2)/2), M]
  %w = RESHAPE(%s) : fp32[floor((N + 2)/2), M, 1]
  %e = EXPAND(%w) : fp32[floor((N + 2)/2), M, 6]
  %z = REDUCE(%e) {op=SUM, axes=[0], dtype=fp32} : fp32[M, 6]
  %k = RESHAPE(%z) : fp32[2*M, 3]
  %l = RESHAPE(%k) : fp32[M, 3, 2]
  %m = PERMUTE(%l) {perm=[0, 2, 1]} : fp32[M, 2, 3]
  %n = RESHAPE(%m) : fp32[M, 6]
  %h = VIEW(%n) {index_map=[i0, floor((i1 + 1)/2) + 2]} : fp32[M, 6]
  %o = VALID(%h) {guard="2 <= i1 < 5", value=-1.0} : fp32[M, 6]
  %y = NEG(%o) : fp32[M, 6]

outputs: %y
"""


@functools.cache
def books() -> dict[str, index.Module]:
    """The books in which faults are planted, and the sizes of their symbols."""
    from tinyir.ir import tiny

    texts = sorted((ROOT / "tests" / "golden" / "design").glob("*.index"))
    found = {f.stem: index.parse(f.read_text(encoding="utf-8")) for f in texts}
    found["mixed"] = to_index.lower(tiny.parse(MIXED))
    for model in (
        resnet50("B", (1, 1), 4, 16, 5),
        vit("B", 1, 8, 4, 8, 2, 5),
        bert("B", 4, 1, 8, 2, 10, 6),
        gpt2("B", 4, 1, 8, 2, 10, 6),
    ):
        found[model.name] = to_index.lower(read(model.text))
    return found


# --- kinds of faults: a changed access, or None where the kind does not apply

Plant = Callable[[Access, Entry], "Access | None"]


def _in_index(change: Callable[[list[Expr], Entry], list[Expr] | None]) -> Plant:
    """A fault in the index of the first read."""

    def plant(access: Access, entry: Entry) -> Access | None:
        for at, piece in enumerate(access.pieces):
            if isinstance(piece.target, Read) and piece.target.index:
                found = change(list(piece.target.index), entry)
                return (
                    None
                    if found is None
                    else _with(access, at, Piece(piece.guard, Read(piece.target.source, tuple(found))))
                )
        return None

    return plant


def _with(access: Access, at: int, piece: Piece) -> Access:
    return Access((*access.pieces[:at], piece, *access.pieces[at + 1 :]))


def _swapped(at: list[Expr], entry: Entry) -> list[Expr] | None:
    return [at[1], at[0], *at[2:]] if len(at) > 1 else None


def _wrong_divisor(at: list[Expr], entry: Entry) -> list[Expr] | None:
    def deeper(e: Expr) -> Expr:
        return sum(
            (
                math.prod((a.num // (a.den + 1) if isinstance(a, Floor) else Expr.of(a) for a in m), start=Expr.of(c))
                for c, m in e.terms
            ),
            Expr.of(0),
        )

    return [deeper(e) for e in at]


def _mirrored(at: list[Expr], entry: Entry) -> list[Expr] | None:
    for n, e in enumerate(at):
        size = next((a.size for a in entry.axes if a.name == e.name), None)
        if size is not None:
            return [*at[:n], size - 1 - e, *at[n + 1 :]]
    return None


def _lost_guard(access: Access, entry: Entry) -> Access | None:
    return Access((Piece((), access.pieces[0].target),)) if access.pieces[0].guard else None


def _guard(change: Callable[[Bound], Bound]) -> Plant:
    def plant(access: Access, entry: Entry) -> Access | None:
        guard = access.pieces[0].guard
        return _with(access, 0, Piece((*guard[:-1], change(guard[-1])), access.pieces[0].target)) if guard else None

    return plant


def _narrower(bound: Bound) -> Bound:
    return replace(bound, lower=bound.lower + 1) if bound.lower is not None else replace(bound, upper=bound.upper - 1)


def _other_constant(access: Access, entry: Entry) -> Access | None:
    for at, piece in enumerate(access.pieces):
        if isinstance(piece.target, Fill):
            return _with(access, at, Piece(piece.guard, Fill(2.5)))
    return None


KINDS: dict[str, Plant] = {
    "shifted offset": _in_index(lambda at, entry: [*at[:-1], at[-1] + 1]),
    "swapped axes": _in_index(_swapped),
    "wrong stride": _in_index(lambda at, entry: [*at[:-1], at[-1] * 2]),
    "wrong divisor": _in_index(_wrong_divisor),
    "mirrored axis": _in_index(_mirrored),
    "lost axis": _in_index(lambda at, entry: [Expr.of(0), *at[1:]]),
    "lost guard": _lost_guard,
    "narrower guard": _guard(_narrower),
    "moved guard": _guard(lambda bound: replace(bound, expr=bound.expr + 1)),
    "other constant": _other_constant,
}


def sizes_of(module: index.Module) -> dict[str, int]:
    """Small sizes, no two alike."""
    return {s: 2 + n for n, s in enumerate(module.tiny.model.symbols())}


def is_different(module: index.Module, entry: Entry, right: Access, wrong: Access) -> bool:
    """Whether the two differ at a point of a small domain."""
    sizes = sizes_of(module)
    extents = [a.size.evaluate(sizes) for a in entry.axes]
    if math.prod(extents) > 20000:
        return False
    points = (
        {**sizes, **dict(zip((a.name for a in entry.axes), at))} for at in itertools.product(*map(range, extents))
    )
    return any(right.at(p) != wrong.at(p) for p in points)


def faults_of(kind: str) -> Iterator[tuple[str, int, str, Access]]:
    """(book, entry, field, access) of each fault of a kind, from all books in turn."""

    def of_book(name: str) -> Iterator[tuple[str, int, str, Access]]:
        module = books()[name]
        for at, entry in enumerate(module.entries):
            for field in ("reads", "sources") if entry.sources != entry.reads else ("sources",):
                for _operand, right in enumerate(getattr(entry, field)):
                    wrong = KINDS[kind](right, entry)
                    if wrong is not None and wrong != right and is_different(module, entry, right, wrong):
                        yield name, at, field, wrong

    yield from in_turn([of_book(name) for name in books()])


NAMES = [
    "attention_causal",
    "bert",
    "conv_pad_stride",
    "gemm_sm80",
    "gemm_sm90",
    "gpt2",
    "layernorm",
    "mixed",
    "resnet50",
    "vit",
]


def test_the_books_are_all_tried() -> None:
    assert sorted(books()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_alarm_where_nothing_was_planted(name: str) -> None:
    module = books()[name]
    assert [d for d in index.check(module) if d.is_error] == []
    assert validate_index(module) == []
    assert validate_poly(to_poly.lower(module)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_ten_faults_of_a_kind_are_found(kind: str) -> None:
    planted = list(itertools.islice(faults_of(kind), 10))
    assert len(planted) == 10
    assert len({name for name, *_ in planted}) > 1
    for name, at, field, wrong in planted:
        module = books()[name]
        entry = module.entries[at]
        accesses = tuple(wrong if KINDS[kind](a, entry) == wrong else a for a in getattr(entry, field))
        found = validate_index(
            index.Module(
                module.tiny, (*module.entries[:at], replace(entry, **{field: accesses}), *module.entries[at + 1 :])
            )
        )
        assert [d.code for d in found] == ["E1221"], (name, entry.value, field)
        assert english_of(found) == []
        assert found[0].at == entry.value and found[0].facts["book"] != found[0].facts["program"]


def test_a_hundred_faults() -> None:
    assert Counter(len(list(itertools.islice(faults_of(kind), 10))) for kind in KINDS) == {10: 10}
