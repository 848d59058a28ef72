"""A book that was just lowered is held against its program by isl, once: what a wrong lowering states is a fault of
ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.runs import program_of
from tinyir import front, lower
from tinyir.analysis import validate
from tinyir.ir import index, tiny
from tinyir.ir.expr import Expr
from tinyir.kit import work
from tinyir.kit.records import replace
from tinyir.lower import index as to_index
from tinyir.lower import language_of

from ..commands import ROOT, run_line
from ..models import bert

SAMPLE = ROOT / "samples" / "mlp" / "mlp"
LANGUAGE = language_of("index")


def stuck(module: index.Module, last: bool = False) -> index.Module:
    """The book with one read at 0 along its first axis: the first of all reads along an axis, or the last."""
    places = [e.reads[0].read if e.reads else None for e in module.entries]
    reading = [n for n, read in enumerate(places) if read is not None and read.index and any(read.index[0].names())]
    at = reading[-1 if last else 0]
    entry = module.entries[at]
    read = entry.reads[0].read
    assert read is not None
    moved = replace(read, index=(Expr.of(0), *read.index[1:]))
    access = replace(entry.reads[0], pieces=(replace(entry.reads[0].pieces[0], target=moved),))
    return replace(
        module,
        entries=(*module.entries[:at], replace(entry, reads=(access, *entry.reads[1:])), *module.entries[at + 1 :]),
    )


@pytest.mark.parametrize("last", [False, True])
def test_a_wrong_map_is_found_though_layers_are_asked_once(last: bool) -> None:
    module = to_index.lower(tiny.parse(run_line(f"tiny-front {SAMPLE}.json").out.decode()))
    assert LANGUAGE.confirm(module) == []
    assert [d.code for d in LANGUAGE.confirm(stuck(module, last))] == ["E1221"]


def test_the_layers_of_a_network_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    right = validate._Validation._found
    monkeypatch.setattr(validate._Validation, "_found", lambda *given: [asked.append(given[1].name), right(*given)][1])

    def questions(layers: int) -> int:
        asked.clear()
        assert LANGUAGE.confirm(to_index.lower(front.read(bert(layers=layers).text))) == []
        return len(asked)

    assert questions(4) == questions(2) > 0


def test_what_isl_does_not_answer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "MOST_STEPS", 10)
    before = work.counts.get("books unconfirmed", 0)
    assert LANGUAGE.confirm(to_index.lower(front.read(bert(layers=1).text))) == []
    assert work.counts["books unconfirmed"] == before + 1


@pytest.mark.parametrize("seed", [81000100, 81000101, 82000459, 81000653, 81001200])
def test_what_is_right_is_not_refused(seed: int) -> None:
    """A scan in a wider dtype begins with that one's neutral element, and sizes that are tried are some that an input
    may have."""
    assert LANGUAGE.confirm(to_index.lower(program_of(seed).module)) == []


def test_a_wrong_lowering_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    right = to_index.lower
    monkeypatch.setattr(to_index, "lower", lambda module: stuck(right(module)))
    text = run_line(f"tiny-front {SAMPLE}.json").out
    for line in ("tiny-index", "tinyc --emit=index"):
        done = run_line(line, text)
        assert (done.code, done.out) == (70, b"") and b"E1221" in done.err


PADDED = """tinyir 1.0 tiny

model m
  in  x : fp32[M, 5]
  out y : fp32[M + 3, 5]
shapes default {M=4}

  %p = PAD(x) {pad=[[1, 2], [0, 0]]} : fp32[M + 3, 5]
  %y = NEG(%p) : fp32[M + 3, 5]

outputs: y=%y
"""


def test_isl_is_not_asked_of_a_pad_that_the_book_says_word_for_word(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    right = validate._Validation._found
    monkeypatch.setattr(validate._Validation, "_found", lambda *given: [asked.append(given[1].name), right(*given)][1])
    module = to_index.lower(tiny.parse(PADDED))
    assert LANGUAGE.confirm(module) == [] and asked == []
    for field, change in (("lower", 1), ("upper", -1)):
        for at in range(2):  # the pad, and what reads through it
            asked.clear()
            entry = module.entries[at]
            first, *others = entry.sources[0].pieces
            (bound,) = first.guard
            guard = (replace(bound, **{field: getattr(bound, field) + change}),)
            access = replace(entry.sources[0], pieces=(replace(first, guard=guard), *others))
            reads = (access,) if at == 0 else entry.reads
            entries = [*module.entries]
            entries[at] = replace(entry, reads=reads, sources=(access,))
            assert [d.code for d in LANGUAGE.confirm(replace(module, entries=tuple(entries)))] == ["E1221"] and asked
