"""What rests on a text is asked only where the text holds: families of kernels of regions, kernels of plans, everything
of the signature. And whatever is wrong with a region is told, in every text that contains it."""

from __future__ import annotations

import functools
import random
import re

import pytest

from tests.fuzz.corpus import seeds
from tests.fuzz.grammar import language_of as language_in
from tests.fuzz.grammar import pieces_of
from tinyir.ir import plan
from tinyir.kit.diag import Refused
from tinyir.lower import language_of

from ..commands import ROOT
from .families import family

SAMPLE = ROOT / "samples" / "softmax" / "softmax"
BAD = ("reduce sum (i1)", "reduce sumsum (i1)", "E0106")  # a fault of a region alone
HEADING = r"kernel softmax : .*\n"  # whatever the registers are that it is given
TRIALS = 150


def text_of(stage: str) -> str:
    return SAMPLE.with_suffix(f".{stage}").read_text(encoding="utf-8")


def codes(stage: str, text: str) -> list[str]:
    """What a language says of a text."""
    language = language_of(stage)
    try:
        module = language.parse(text)
        faults = [d for d in language.check(module) if d.is_error] or language.validate(module)
    except Refused as fault:
        faults = list(fault.diags)
    return [d.code for d in faults]


@pytest.mark.parametrize("stage", ["region", "plan", "gpu"])
def test_the_fault_of_a_region_is_told_alone(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked of what does not hold")

    monkeypatch.setattr("tinyir.kernels.check._all_faults_of", never)
    monkeypatch.setattr("tinyir.ir.gpu.verify.check_kernels", never)
    right = text_of(stage)
    assert BAD[0] in right
    assert codes(stage, right.replace(BAD[0], BAD[1])) == [BAD[2]]


@functools.cache
def texts(stage: str) -> tuple[str, ...]:
    return tuple(s.text for s in seeds() if language_in(s.text) == stage)


def spliced_region(stage: str, number: int) -> str:
    """A text with a piece of a region exchanged for another of its kind, left out, or written twice."""
    draw = random.Random(f"region of {stage} {number}")
    text = draw.choice(texts(stage))
    pieces = pieces_of(text)
    rule, (start, end) = draw.choice(
        [
            (rule, (low, high))
            for rule in pieces
            for low, high in pieces[rule]
            if any(first <= low and high <= last for first, last in pieces["region"])
        ]
    )
    giver = draw.choice([t for t in texts(stage) if rule in pieces_of(t)])
    low, high = draw.choice(pieces_of(giver)[rule])
    return text[:start] + draw.choice(["", text[start:end] * 2, giver[low:high], giver[low:high]]) + text[end:]


@pytest.mark.parametrize("stage", ["region", "plan", "gpu"])
def test_a_region_of_other_pieces_is_right_or_refused(stage: str) -> None:
    """Nothing else happens, whatever rests on it."""
    found = {number: codes(stage, spliced_region(stage, number)) for number in range(TRIALS)}
    assert 0 < sum(map(bool, found.values())) < TRIALS


SIGNATURE = """\
tinyir 1.0 tiny

model m
  in  x : fp32[M]{attrs}
  out y : fp32[M]
{lines}
  %y = RELU(x) : fp32[M]

outputs: %y
"""


@pytest.mark.parametrize(
    "lines, attrs, wanted",
    [
        ("  sym M in 1..4\n", "", []),
        ("  sym M in 1..4\n  sym M in 1..4\n", "", ["E0201"]),
        ("  sym M in 5..4\n", "", ["E0103"]),
        ("shapes a {M=1}\nshapes b {M=2}\n", "", []),
        ("shapes a {M=1}\nshapes a {M=2}\n", "", ["E0201"]),
        ("shapes a {M=1, M=1}\n", "", ["E0108"]),
        ("", " {role=param}", []),
        ("", " {role=param, role=param}", ["E0108"]),
    ],
)
def test_what_a_signature_says_twice_is_refused(lines: str, attrs: str, wanted: list[str]) -> None:
    assert codes("tiny", SIGNATURE.format(lines=lines, attrs=attrs)) == wanted


@pytest.mark.parametrize(
    "before, after, wanted",
    [
        (HEADING, r"\g<0>  shared odd : fp32[nan]\n", ["E1602"]),
        ("kernel softmax :", "kernel softmax of softmax, other :", ["E1603"]),
        ("kernel softmax :", "kernel softmax of other :", ["E1604", "E1603"]),
    ],
)
def test_words_of_a_kernel_are_checked_before_they_are_used(before: str, after: str, wanted: list[str]) -> None:
    right = text_of("gpu")
    text, count = re.subn(before, after, right)
    assert count
    assert codes("gpu", text) == wanted


@pytest.mark.parametrize(
    "kind, start, wanted",
    [
        ("mma", " = 0.0", []),
        ("mma", " = 1.0", ["E1602"]),
        ("mma", " = -0.0", ["E1602"]),
        ("mma_a", " = 0.0", ["E1602"]),
        ("wgmma", " = 0.0", ["E1602"]),
        ("rows", " = 1.0", []),
    ],
)
def test_what_a_matrix_in_registers_starts_from(kind: str, start: str, wanted: list[str]) -> None:
    """The emission has words for what is taken, and for nothing else."""
    shape = "fp32[64]" if kind == "rows" else "fp32[64, 16]"
    text, count = re.subn(HEADING, rf"\g<0>  reg odd : {shape} {kind}{start}\n", text_of("gpu"))
    assert count
    assert codes("gpu", text) == wanted


def test_a_product_has_the_columns_of_its_accumulator() -> None:
    """The emission asks the accumulator alone."""
    right = family("hopper").kernels
    (columns,) = set(re.findall(r"shape m64n(\d+)k16", right))
    assert codes("gpu", right) == []
    assert codes("gpu", right.replace(f"shape m64n{columns}k16", "shape m64n8k16")) == ["E1602"] * right.count(
        "shape m64n"
    )


@pytest.mark.parametrize(("regs", "wanted"), [(255, []), (256, ["E1603"]), (1000, ["E1603"])])
def test_a_thread_has_no_more_registers_than_the_card_gives(regs: int, wanted: list[str]) -> None:
    text = re.sub(r"(block \[\d+\])( regs \d+)?", rf"\1 regs {regs}", family("ampere").kernels, count=1)
    assert codes("gpu", text) == wanted


def test_each_walks_the_elements_that_it_says() -> None:
    """A corner that is not that of the elements in it means nothing."""
    right = family("haloed windows of channels apart").kernels
    before = "of acc1[16*i, 0] size [16, 16]"
    assert before in right and codes("gpu", right) == []
    assert set(codes("gpu", right.replace(before, "of acc1[16*i, 2] size [16, 16]"))) == {"E1602", "E1614"}


def test_a_check_of_one_module_is_made_once_and_told_each_time() -> None:
    module = plan.parse(text_of("plan").replace(BAD[0], BAD[1]))
    first, second = plan.check(module), plan.check(module)
    assert [d.code for d in first] == [d.code for d in second] == [BAD[2]]
    assert first is not second
