"""Texts that a person has edited: each edit is refused, or obeyed and seen by `tiny-check --diff`, or says the same in
other words, which listing all points must confirm."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import islpy
import pytest

from tinyir.ir import index, poly
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to

from ..commands import ROOT, run_line
from .denoted import elements_of, points_of
from .effort import counted
from .text_edits import Edit, edits_of

SIZES = {"N": 3}
SIGNATURES = {
    "square": """tinyir 1.0 tiny

model square
  in  A           : fp16[N, N]
  in  B           : fp16[N, N]
  in  bias        : fp32[N]
  in  state       : fp32[N, N] {role=state, mutability=mutable}
  out C           : fp32[N + 2, N]
  out state       : fp32[N, N]
shapes default {N=3}

  %bt = PERMUTE(B) {perm=[1, 0]} : fp16[N, N]
  %ax = EXPAND(A) {broadcast_dimensions=[0, 2]} : fp16[N, N, N]
  %bx = EXPAND(%bt) {broadcast_dimensions=[1, 2]} : fp16[N, N, N]
  %mul = MUL(%ax, %bx) : fp32[N, N, N]
  %sum = REDUCE(%mul) {op=SUM, axes=[2], dtype=fp32} : fp32[N, N]
  %b = EXPAND(bias) {broadcast_dimensions=[1]} : fp32[N, N]
  %add = ADD(%sum, %b) : fp32[N, N]
  %old = RELU(state) : fp32[N, N]
  %mix = SUB(%add, %old) : fp32[N, N]
  %pad = PAD(%mix) {pad=[[1, 1], [0, 0]], value=0.0} : fp32[N + 2, N]
  %C = NEG(%pad) : fp32[N + 2, N]
  %new = NEG(%add) : fp32[N, N]

outputs: C=%C, state=%new
must_fuse: %sum, %new
""",
    "rows": """tinyir 1.0 tiny

model rows
  in  X           : fp32[N, N]
  in  at          : i32[N]
  out Y           : fp32[N, N]
  out Z           : fp32[N, N]
shapes default {N=3}

  %chosen = GATHER(X, at) {axis=0} : fp32[N, N]
  %top = REDUCE(%chosen) {op=MAX, axes=[1], dtype=fp32} : fp32[N]
  %wide = EXPAND(%top) {broadcast_dimensions=[0]} : fp32[N, N]
  %shift = SUB(%chosen, %wide) : fp32[N, N]
  %e = EXP2(%shift) : fp32[N, N]
  %z = REDUCE(%e) {op=SUM, axes=[1], dtype=fp32} : fp32[N]
  %zw = EXPAND(%z) {broadcast_dimensions=[0]} : fp32[N, N]
  %Y = FDIV(%e, %zw) : fp32[N, N]
  %run = SCAN(X) {op=SUM, axis=1, dtype=fp32} : fp32[N, N]
  %turned = PERMUTE(%run) {perm=[1, 0]} : fp32[N, N]
  %Z = SUB(%turned, X) : fp32[N, N]

outputs: %Y, %Z
must_fuse: %top, %Y
""",
    "layers": """tinyir 1.0 tiny

model layers
  in  X           : fp32[N, N]
  in  W1          : fp32[N, N]
  in  W2          : fp32[N, N]
  in  b1          : fp32[N]
  in  b2          : fp32[N]
  out Y           : fp32[N, N]
shapes default {N=3}

  %w1t = PERMUTE(W1) {perm=[1, 0]} : fp32[N, N]
  %x1 = EXPAND(X) {broadcast_dimensions=[0, 2]} : fp32[N, N, N]
  %v1 = EXPAND(%w1t) {broadcast_dimensions=[1, 2]} : fp32[N, N, N]
  %mul1 = MUL(%x1, %v1) : fp32[N, N, N]
  %sum1 = REDUCE(%mul1) {op=SUM, axes=[2], dtype=fp32} : fp32[N, N]
  %e1 = EXPAND(b1) {broadcast_dimensions=[1]} : fp32[N, N]
  %add1 = ADD(%sum1, %e1) : fp32[N, N]
  %h1 = RELU(%add1) : fp32[N, N]
  %w2t = PERMUTE(W2) {perm=[1, 0]} : fp32[N, N]
  %x2 = EXPAND(%h1) {broadcast_dimensions=[0, 2]} : fp32[N, N, N]
  %v2 = EXPAND(%w2t) {broadcast_dimensions=[1, 2]} : fp32[N, N, N]
  %mul2 = MUL(%x2, %v2) : fp32[N, N, N]
  %sum2 = REDUCE(%mul2) {op=SUM, axes=[2], dtype=fp32} : fp32[N, N]
  %e2 = EXPAND(b2) {broadcast_dimensions=[1]} : fp32[N, N]
  %add2 = ADD(%sum2, %e2) : fp32[N, N]
  %Y = RELU(%add2) : fp32[N, N]

outputs: %Y
""",
}
SECTIONS = {  # of a text of a stage: the lines that it begins and ends with
    "program": ("index", "  %", "book"),
    "book": ("index", "book", ""),
    "poly": ("poly", "poly", ""),
    "region": ("region", "program", ""),
}
STEP = 9  # of the edits, the quick test takes one in `STEP`


@functools.cache
def text_of(model: str, stage: str) -> str:
    module: Any = language_of("tiny").parse(SIGNATURES[model])
    for following in ("index", "poly", "region"):
        if following == stage:
            break
        module = lower_to(following, module, "sm90")
    return language_of(stage).show(lower_to(stage, module, "sm90"))


def edits(model: str, section: str) -> list[Edit]:
    stage, first, last = SECTIONS[section]
    return list(edits_of(text_of(model, stage), first, last))


def outcome_of(edit: Edit, model: str, stage: str, folder: Path) -> str:
    """`refused` with the code, `seen` by --diff, `renamed` in the kernel's text, `obeyed` by the next filters where it
    is about what shares a kernel, or `equal` by listing the points; else what is wrong."""
    language, right = language_of(stage), text_of(model, stage)
    try:
        module = language.parse(edit.text)
        faults = [d for d in language.check(module) if d.is_error] or language.validate(module)
    except Refused as fault:
        faults = fault.diags
    if faults:
        return f"refused {faults[0].code}"
    (folder / "right").write_text(right, encoding="utf-8")
    (folder / "edited").write_text(edit.text, encoding="utf-8")
    done = run_line(f"tiny-check --diff {folder}/right {folder}/edited --size N=3 --rtol 0 --atol 0 --diag=json")
    if done.code == 1:
        return "seen" if b'"code": "E1481"' in done.err else f"diff: {done.err.decode()}"
    if done.code:
        return f"exit {done.code}"
    if "must_fuse" in edit.before + edit.after:
        return demand_of(right, edit.text, stage)
    if stage == "region":
        name = edit.after.removeprefix("region ").split(" as ")[0]
        if edit.after.startswith("tensors ") and edit.after.split("values")[0] == edit.before.split("values")[0]:
            return "renamed"  # a value of a region that is another one again
        return "renamed" if edit.after.startswith("region ") and module.program.region(name) else "silent"
    return "equal" if means_the_same(language.parse(right), module) else "silent"


def demand_of(right: str, edited: str, stage: str) -> str:
    """What the next filters make of an edited demand: they refuse or obey it, or one kernel computes what either
    names."""
    following = "region" if stage in ("index", "poly") else "plan"
    texts = []
    for text in (right, edited):
        module = language_of(stage).parse(text)
        try:
            for next_stage in ("poly", "region") if stage == "index" else (following,):
                module = lower_to(next_stage, module, "sm90")
        except Refused as fault:
            return f"refused {fault.diags[0].code}"
        texts.append(language_of(following).show(module))
    if texts[0] != texts[1]:
        return "obeyed"
    return "equal" if stage != "region" else "silent"


def means_the_same(right: Any, edited: Any) -> bool:
    if isinstance(right, index.Module):
        return right.tiny == edited.tiny and all(
            one.axes == other.axes and _elements(right, one) == _elements(right, other)
            for one, other in zip(right.entries, edited.entries, strict=True)
        )
    return means_the_same(right.index, edited.index) and right.params == edited.params and _same_blocks(right, edited)


def _elements(module: index.Module, entry: index.Entry) -> list[object]:
    return [list(elements_of(module, entry, access, SIZES)) for access in (*entry.reads, *entry.sources)]


def _same_blocks(right: poly.Module, edited: poly.Module) -> bool:
    fields = ("name", "kind", "pattern", "fuses", *poly.ROLES, "windows")
    if [[getattr(b, f) for f in fields] for b in right.blocks] != [
        [getattr(b, f) for f in fields] for b in edited.blocks
    ]:
        return False
    for one, other in zip(right.blocks, edited.blocks, strict=True):
        domain = points_of(one.domain, SIZES)
        if points_of(other.domain, SIZES) != domain or _pairs(one, domain) != _pairs(other, domain):
            return False
    stated = [
        Counter(((e.source, e.target, e.kind), *sorted(points_of(e.relation, SIZES))) for e in m.edges)
        for m in (right, edited)
    ]
    return stated[0] == stated[1]


def _pairs(block: poly.Block, domain: set) -> dict[str, set]:
    found = {"": {p for p in points_of(block.write, SIZES) if p[:1] in domain}}
    for read in block.reads:
        found.setdefault(read.source, set()).update(p for p in points_of(read.relation, SIZES) if p[:1] in domain)
    return found


CASES = [(model, section) for model in ("square", "rows") for section in SECTIONS]
AGAIN = ("layers", "region")  # regions that are another one again, `region X as Y`


@pytest.mark.parametrize("model, section", [*CASES, AGAIN])
def test_an_edit_is_refused_or_seen(model: str, section: str, tmp_path: Path) -> None:
    found = {e: outcome_of(e, model, SECTIONS[section][0], tmp_path) for e in edits(model, section)[::STEP]}
    assert {e: o for e, o in found.items() if not is_told(o)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("model, section", [*CASES, AGAIN])
def test_every_edit_is_refused_or_seen(model: str, section: str, tmp_path: Path) -> None:
    found = {e: outcome_of(e, model, SECTIONS[section][0], tmp_path) for e in edits(model, section)}
    assert {e: o for e, o in found.items() if not is_told(o)} == {}


def is_told(outcome: str) -> bool:
    return outcome.startswith("refused E") or outcome in ("seen", "equal", "renamed", "obeyed")


def test_there_are_hundreds_of_edits_and_few_say_the_same() -> None:
    counts = {case: len(edits(*case)) for case in CASES}
    assert sum(len(edits(*case)[::STEP]) for case in CASES) >= 200, counts
    assert all(count > 150 for count in counts.values()), counts


def test_edits_of_a_region_again_are_all_tried() -> None:
    """Its two lines are few: each edit of them, whatever share of others is tried."""
    found = [e for e in edits(*AGAIN) if e.before.startswith(("region sum2", "tensors"))]
    assert len(found) > 8


@pytest.mark.parametrize("number", range(2))
def test_an_edit_of_a_region_again_is_refused_or_seen(number: int, tmp_path: Path) -> None:
    found = [e for e in edits(*AGAIN) if e.before.startswith(("region sum2", "tensors"))][number::2]
    outcomes = {e: outcome_of(e, *AGAIN, tmp_path) for e in found}
    assert {e: o for e, o in outcomes.items() if not is_told(o)} == {}


def test_an_edit_of_a_launch_again_is_refused_or_obeyed() -> None:
    """`launch sum2 as sum1 with X = h1, ...`: the check refuses it, or the program that is printed is another one."""
    module: Any = language_of("region").parse(text_of("layers", "region"))
    for following in ("plan", "gpu"):
        module = lower_to(following, module, "sm90")
    language, right = language_of("gpu"), language_of("gpu").show(module)
    printed = language_of("cu").show(lower_to("cu", module, "sm90"))
    found = list(edits_of(right, "launch "))
    silent = []
    for edit in found:
        try:
            edited = language.parse(edit.text)
            faults = [d for d in language.check(edited) if d.is_error]
        except Refused as fault:
            faults = list(fault.diags)
        if not faults and language_of("cu").show(lower_to("cu", edited, "sm90")) == printed:
            silent.append(edit)
    assert len(found) > 10 and silent == []


# What the pipe took in silence once: the stage, what is written, what is written in its place, the code.
PLANTED = {
    "another map in a square product": ("index", "B[i2, i1]", "B[i1, i2]", "E1221"),
    "another kind of axis": ("index", "i1: N broadcast", "i1: N", "E1223"),
    "another size of an axis": ("index", "%old           [i0: N, i1: N]", "%old           [i0: N, i1: 3]", "E1304"),
    "another size of a folded axis": ("index", "k0: N]", "k0: 0]", "E1304"),
    "a mark that is false": ("index", "%old           [i0: N, i1: N]", "%old [i0: N, i1: N] non_scop", "E1224"),
    "another domain": ("poly", "{ old[i0, i1] : 0 <= i0 < N", "{ old[i0, i1] : 1 <= i0 < N", "E1222"),
    "another read": ("poly", "-> B[k0, i1]", "-> B[i1, k0]", "E1222"),
    "another kind of block": ("poly", "block add : elementwise", "block add : reduction", "E1222"),
    "another edge": ("poly", "mix[i0, i1] -> C[1 + i0, i1]", "mix[i0, i1] -> C[i0, i1]", "E1222"),
    "another edge of a state": ("poly", "edge old -> new : anti", "edge old -> new : output", "E1222"),
    "a role that is none": ("poly", "sum [k0]", "total [k0]", "E1212"),
    "a role twice": ("poly", "batch [] left [i0]", "left [] left [i0]", "E1214"),
    "a false analysis": ("region", "parallel [i0, i1]  reduce [k0]", "parallel [i0, i1]  reduce []", "E1413"),
}
READERS = {"index": ("tiny-poly", "tinyc"), "poly": ("tiny-region", "tinyc"), "region": ("tiny-plan", "tinyc")}


@pytest.mark.parametrize("case", PLANTED)
def test_a_filter_refuses_what_its_text_does_not_mean(case: str) -> None:
    stage, right, wrong, code = PLANTED[case]
    text = text_of("square", stage)
    assert right in text
    for reader in (*READERS[stage], "tiny-check"):
        done = run_line(f"{reader} --diag=json", text.replace(right, wrong, 1).encode())
        assert (done.code, done.out) == (1, b"") and f'"code": "{code}"'.encode() in done.err, done.err
        assert run_line(reader, text.encode()).code == 0


@pytest.mark.parametrize("model", SIGNATURES)
@pytest.mark.parametrize("stage", ["index", "poly", "region"])
def test_a_text_that_nobody_edited_asks_isl_nothing_new(
    model: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = language_of(stage)
    module = language.parse(text_of(model, stage))
    assert language.check(module) == []
    asked: list[str] = []
    for kind in ("Set", "Map"):
        original = getattr(islpy, kind)
        monkeypatch.setattr(islpy, kind, lambda text, original=original: (asked.append(text), original(text))[1])
    assert language.validate(module) == []
    assert asked == []


def test_validation_is_a_small_part_of_the_pipe() -> None:
    text = (ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.tiny").read_text(encoding="utf-8")
    stages = ("tiny", "index", "poly", "region", "plan")
    work = validation = 0
    for stage, following in zip(stages, stages[1:]):
        language = language_of(stage)
        parsed, module = counted(language.parse, text)
        checked, _ = counted(language.check, module)
        lowered, made = counted(lower_to, following, module, "sm90")
        shown, text = counted(language_of(following).show, made)
        validation += counted(language.validate, module)[0]
        work += parsed + checked + lowered + shown
    assert validation < 0.1 * work, (validation, work)
