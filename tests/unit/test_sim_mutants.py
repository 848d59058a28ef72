"""Faults planted by rule in emitted kernels of all families: the simulation, or the comparison with playback, finds at
least 95 of 100, and has nothing to say of the originals.

What does not compile is not a mutant and is not counted, nor is what is harmless for a reason that
`tests/fuzz/harmless.py` has. What else is not found computes the same at the sizes that are run: a fill that no product
reads, a start that the first step of a softmax multiplies by 0.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.harmless import reason_of
from tinyir.kit.diag import Refused
from tinyir.runtime.run import run

from .families import FAMILIES, family
from .mutants import Mutant, drawn
from .stages import needs_host_compiler

SLOW = {
    "sample gemm_bias_relu",
    "sample mlp",
    "sample resnet_block",
    "sample conv3x3_silu",
}  # their kernels are those of other families
SEEDS = (0, 1, 2)
COUNTS = [
    pytest.param(30, 3, 2, id="30"),
    pytest.param(200, 2, 10, id="200", marks=pytest.mark.slow),
]  # how many, the draw, how many may be missed
NO_TEXT = "E1721"  # the compiler refuses it

pytestmark = needs_host_compiler


def fault_of(name: str, text: str) -> str | None:
    """The code of what is found in a family's kernel, whose text may be another."""
    one = family(name)
    for arrays, seed in itertools.product(one.inputs, SEEDS):
        try:
            run(text, arrays, device="sim", check=True, rtol=one.tolerance, atol=one.tolerance, seed=seed, limit=20)
        except Refused as fault:
            return fault.diags[0].code
    return None


def _verdict(job: tuple[str, Mutant]) -> tuple[str, Mutant, str | None]:
    name, mutant = job
    return name, mutant, fault_of(name, mutant.text)


def _start(folder: str) -> None:
    """What a worker builds is of no use to anyone later."""
    os.environ["XDG_CACHE_HOME"] = folder


def verdicts(count: int, seed: int, folder: Path) -> Iterator[tuple[str, Mutant, str | None]]:
    """(family, mutant, the code that it is found by) of a number that compile."""
    texts = {name: (family(name).text, sorted(family(name).launched())) for name in FAMILIES if name not in SLOW}
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), _start, (str(folder),)) as pool:
        jobs = itertools.islice(drawn(texts, seed), 2 * count)
        yield from itertools.islice((v for v in pool.imap(_verdict, jobs) if v[2] != NO_TEXT), count)


@pytest.mark.parametrize("name", ["hopper cut held", "hopper cut by warpgroups", "hopper cut in four"])
def test_who_does_not_wait_for_the_cluster_is_found_though_all_have_come_by_then(name: str) -> None:
    assert fault_of(name, re.sub(r"\n +cluster_wait\(\);", "", family(name).text)) == "E1753"


@pytest.mark.parametrize(("count", "seed", "most"), COUNTS)
def test_mutants_are_found(count: int, seed: int, most: int, tmp_path: Path) -> None:
    found = list(verdicts(count, seed, tmp_path))
    missed = [(name, mutant) for name, mutant, code in found if code is None and not is_harmless(name, mutant)]
    print(f"{count - len(missed)} of {count} are found")
    assert len(found) == count and len(missed) <= most, "\n".join(itertools.starmap(_shown, missed))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_originals_are_faultless(name: str) -> None:
    assert fault_of(name, family(name).text) is None


def is_harmless(name: str, mutant: Mutant) -> bool:
    """Whether no result can show it."""
    return bool(reason_of("cu", name, mutant.rule, family(name).text, mutant.text))


@functools.cache
def _lines(text: str) -> list[str]:
    return text.splitlines()


def _shown(name: str, mutant: Mutant) -> str:
    before, after = (lines[mutant.line - 1].strip() for lines in (_lines(family(name).text), _lines(mutant.text)))
    return f"{name}, {mutant.rule} at {mutant.line}: {before} -> {after}"
