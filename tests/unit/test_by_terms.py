"""Accesses that are right term by term are right by isl, and most that a lowering makes are: no question is asked for
the concatenations of a network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.fuzz.runs import program_of
from tinyir.analysis.validate import _Validation
from tinyir.ir import index, tiny
from tinyir.ir.expr import Bound
from tinyir.ir.index import Access, Fill, Read
from tinyir.kit.records import replace
from tinyir.lower import index as to_index
from tinyir.lower import language_of

MOVES = """\
tinyir 1.0 tiny

model moves
  in  x : fp32[8, 6]
  in  y : fp32[4, 6]
  out z : fp32[6, 14]

  %low  = PAD(x) {pad=[[2, 4], [0, 0]], value=7.0} : fp32[14, 6]
  %high = PAD(y) {pad=[[10, 0], [0, 0]]} : fp32[14, 6]
  %sum  = ADD(%low, %high) : fp32[14, 6]
  %part = SHRINK(%sum) {lo=[0, 2], hi=[14, 3]} : fp32[14, 1]
  %flat = RESHAPE(%part) : fp32[14]
  %lone = RESHAPE(%flat) : fp32[1, 14, 1]
  %wide = EXPAND(%lone) : fp32[6, 14, 1]
  %rest = RESHAPE(%wide) : fp32[6, 14]
  %back = FLIP(%rest) {axes=[1]} : fp32[6, 14]
  %cut  = RESHAPE(x) : fp32[48]
  %long = EXPAND(%cut) : fp32[14, 48]
  %lost = REDUCE(%long) {op=MAX, axes=[1], dtype=fp32} : fp32[14]
  %same = EXPAND(%lost) : fp32[6, 14]
  %z    = ADD(%back, %same) : fp32[6, 14]

outputs: %z
"""


def edited(access: Access) -> Iterator[Access]:
    """Accesses with one number more somewhere: in an index, in a guard, in what is given elsewhere."""
    for at, piece in enumerate(access.pieces):
        target, others = piece.target, []
        if isinstance(target, Read):
            for n, e in enumerate(target.index):
                for moved in (e + 1, e * 2, e - 1):
                    others.append(replace(target, index=(*target.index[:n], moved, *target.index[n + 1 :])))
        else:
            others.append(Fill(not target.value if isinstance(target.value, bool) else target.value + 1))
        made = [replace(piece, target=other) for other in others]
        for n, b in enumerate(piece.guard):
            guards = [replace(b, upper=None), replace(b, lower=None), Bound(b.expr + 1, b.lower, b.upper, b.equals)]
            made += [replace(piece, guard=(*piece.guard[:n], g, *piece.guard[n + 1 :])) for g in guards]
        for other in made:
            yield replace(access, pieces=(*access.pieces[:at], other, *access.pieces[at + 1 :]))


def moves() -> index.Module:
    return to_index.lower(tiny.parse(MOVES))


@pytest.mark.parametrize("seed", [None, 81000100, 81000101, 82000459, 81001200, 83000007])
def test_what_is_right_term_by_term_is_right_by_isl(seed: int | None) -> None:
    module = moves() if seed is None else to_index.lower(program_of(seed).module)
    validation, told = _Validation(module), 0
    for value, entry in zip(module.tiny.values, module.entries):
        for at in range(len(value.operands)):
            assert list(validation._faults_of(value, entry, at)) == []
            for given, word in ((entry.reads[at], "reads"), (entry.sources[at], "sources")):
                for access in itertools.islice(edited(given), 12):
                    changed = (*getattr(entry, word)[:at], access, *getattr(entry, word)[at + 1 :])
                    one = replace(entry, **{word: changed})
                    if validation._is_by_terms(value, one, access, at):
                        told += 1
                        assert validation._found(value, one, access, at) is None, (value, access)
    assert seed is not None or told  # a bound that always holds may be left out


def test_movements_ask_isl_of_floors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module, asked = moves(), []
    right = _Validation._found
    monkeypatch.setattr(_Validation, "_found", lambda *given: [asked.append(given[1].name), right(*given)][1])
    assert language_of("index").confirm(module) == []
    assert asked == ["cut"]
