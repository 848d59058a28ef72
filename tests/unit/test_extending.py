"""docs/extending.md, tried: its files and edits are made in a copy of the package, and what it promises is asked of the
result."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tinyir.sim.host import COMPILERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def sections() -> dict[str, str]:
    """The text of the page under each heading."""
    title, *found = re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)
    assert title
    return dict(zip(found[::2], found[1::2]))


def edit(place: Path, hunk: str) -> None:
    """Makes one edit: lines that begin with a space or a minus are in the file, once."""
    lines = [line for line in hunk.splitlines(keepends=True) if line.strip()]
    old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = place.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{place.name} has not one place for:\n{hunk}"
    place.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package and its grammars."""
    for name in ("tinyir", "grammars"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def build(house: Path, *titles: str) -> None:
    """Does what the sections say."""
    for title in titles:
        blocks = BLOCK.findall(sections()[title])
        assert blocks, title
        for kind, path, text in blocks:
            if kind == "diff":
                edit(house / path, text)
            else:
                assert not (house / path).exists()
                (house / path).parent.mkdir(exist_ok=True)
                (house / path).write_text(text, encoding="utf-8")


def run(house: Path, script: str) -> str:
    """What a script prints that imports the copy. The helpers of the tests are this repository's."""
    paths = os.pathsep.join((str(house), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=house,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


EXPLAINED = """
import sys
from tinyir.cmd.tiny_explain import main
for line in sys.argv[1].split("; "):
    assert main(line.split()) == 0, line
"""


def explained(house: Path, *topics: str) -> str:
    """What `tiny-explain` prints of topics in both languages, and that it lists all."""
    lines = [f"--lang={lang} {topic}" for topic in ("--list", "MatMul", *topics) for lang in ("en", "ja")]
    return run(house, f"import sys\nsys.argv[1:] = [{'; '.join(lines)!r}]\n{EXPLAINED}")


MAP = """
from dataclasses import replace
from tests.unit.checked import check_plan
from tests.unit.emitted import lowered, region_text
from tinyir.ir import gpu, plan, region
from tinyir.lower import plan as to_plan

text = region_text("in X : fp32[M, N]\\nin b : fp32[N]\\nout Y : fp32[M, N]",
    "for i0: M, i1: N\\nyield Y[i0, i1] = relu(mul(X[i0, i1], broadcast_in_dim(b[i1], dims=[1])))")
module = region.parse(text)
found = to_plan.candidates(module, module.program.regions[0])
strided = next(c for c in found if c.plan.algo == "strided")
assert not strided.rejected and strided.cost.microseconds > 0, strided
one = replace(strided.plan, persistent=3)

def planned(one):
    made = plan.Module(module, (one,))
    assert plan.parse(plan.show(made)) == made
    return made

def codes(one):
    return [d.code for d in check_plan(planned(one)) if d.is_error]
"""
LOWERED = """
assert codes(one) == [], check_plan(planned(one))
kernels, code = lowered(planned(one))
print(gpu.show(kernels))
"""
SIMULATED = """
from tests.unit.families import family
from tinyir.runtime.run import run
case = family("strided map")
for arrays in case.inputs:
    run(case.text, arrays, device="sim", check=True, rtol=0, atol=0)
print(len(case.inputs), "inputs")
"""


@needs_compiler
def test_a_family_is_a_folder_and_a_line(house: Path) -> None:
    """From a region to a simulated kernel; what its plans may say is checked as for any other."""
    build(house, "A family")
    told = run(house, MAP + 'assert codes(replace(one, threads=(128,))) == ["E1525"]\n' + LOWERED + SIMULATED)
    assert "for e in 256*cta.x + thread.x..M*N step 768\n" in told
    assert "grid [3] block [256]" in told and told.endswith("2 inputs\n")


RECIPES = {
    ("An op",): ("tanhshrink", "tanhshrink = { ja", "x - tanh x."),
    ("A family",): ("strided", "strided = { en", "A map whose CTAs stride"),
    ("A family", "A field of plans"): ("unroll", "unroll = { ja", "Turns of a thread's loop"),
}


@pytest.mark.parametrize("titles", RECIPES)
def test_the_reference_tells_what_is_added(house: Path, titles: tuple[str, ...]) -> None:
    """In both languages; without its row of words too, where the English or its own words serve."""
    topic, row, said = RECIPES[titles]
    build(house, *titles)
    told = explained(house, topic)
    assert said in told and any(word in told for word in ("tanh x。", "またぎながら", "ループの回数"))
    for file in (house / "tinyir" / "reference" / "words").glob("*.toml"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith(row)), encoding="utf-8")
    told = explained(house, topic)
    assert topic in told and not any(word in told for word in ("tanh x。", "またぎながら", "ループの回数"))


def test_without_its_line_the_family_is_not_known(house: Path) -> None:
    with pytest.raises(AssertionError, match="StopIteration"):
        run(house, MAP)


def test_a_field_is_obeyed_by_one_family_and_refused_by_the_others(house: Path) -> None:
    build(house, "A family", "A field of plans")
    asked = """
one = replace(one, unroll=4)
assert codes(replace(one, unroll=9)) == ["E1525"]
flat = next(c.plan for c in found if c.plan.algo == "flat")
assert codes(replace(flat, unroll=4)) == ["E1524"] and codes(flat) == []
"""
    assert "step 768 unroll 4\n" in run(house, MAP + asked + LOWERED)


def test_a_card_is_a_file(house: Path) -> None:
    """Half the bandwidth: what only moves bytes takes about twice as long."""
    build(house, "A card")
    script = """
from tests.unit.emitted import region_text
from tinyir.ir import region
from tinyir.lower import plan as to_plan
from tinyir.target.device import device_titled

assert device_titled("Half of an H100") == "half"
text = region_text("in X : fp32[16777216]\\nout Y : fp32[16777216]", "for i0: 16777216\\nyield Y[i0] = relu(X[i0])")
times = [to_plan.lower(region.parse(text), "sm90", card).plans[0].estimate.microseconds for card in ("half", "h100")]
print(times[0] / times[1])
"""
    assert 1.8 < float(run(house, script)) < 2.2


@needs_compiler
def test_an_instruction_is_a_row_and_its_twin(house: Path) -> None:
    """Every choice of bytes among all kinds, against NumPy."""
    build(house, "An instruction")
    told = run(
        house,
        r"""
import numpy as np
from tests.unit.simulated import simulate
code = '''typedef unsigned int word;
extern "C" __global__ void k(const word *A, const word *B, const word *W, word *Y) {
  const int i = threadIdx.x;
  Y[i] = picked_bytes(A[i], B[i], W[i]);
}'''
a, b, which = (np.random.default_rng(3).integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32) for _ in range(3))
which &= 0xffff
got = simulate(code, {"A": a, "B": b, "W": which}, {"Y": np.empty(128, np.uint32)})["Y"]
bytes_ = np.concatenate([a[:, None].view(np.uint8), b[:, None].view(np.uint8)], axis=1)
nibbles = np.stack([which >> 4 * n & 15 for n in range(4)], axis=1)
taken = np.take_along_axis(bytes_, (nibbles & 7).astype(np.int64), axis=1)
wanted = np.where(nibbles & 8, np.where(taken & 128, 255, 0), taken).astype(np.uint8)
assert np.array_equal(got, np.ascontiguousarray(wanted).view(np.uint32)[:, 0])
print("same")
""",
    )
    assert told == "same\n"


def test_an_op_is_a_row(house: Path) -> None:
    """Read, played, and told by the reference in both languages."""
    build(house, "An op")
    script = """
import json
import numpy as np
from tinyir import front
from tinyir.play.tiny import play
from tinyir.reference import PAGES, find
tensors = {n: {"dtype": "fp32", "shape": ["N"]} for n in "XY"}
sides = {"inputs": [{"tensor": "X"}], "outputs": [{"tensor": "Y"}]}
node = {"op": "Elementwise", "fn": "tanhshrink", "name": "y", "inputs": ["X"], "outputs": ["Y"]}
module = front.read(json.dumps({"signature": sides, "tensors": tensors, "graph": [node]}))
x = np.linspace(-3, 3, 16, dtype=np.float32)
np.testing.assert_allclose(play(module, {"X": x})["Y"], x - np.tanh(x), rtol=1e-6, atol=1e-6)
print([v.op for v in module.values], *(find(PAGES, "tanhshrink", lang)[0][1].title for lang in ("en", "ja")))
"""
    assert run(house, script) == "['TANH', 'SUB'] tanhshrink tanhshrink\n"


def test_a_pass_is_a_file_and_a_line(house: Path) -> None:
    """What its docstring shows is what it does, and tiny-opt knows it."""
    build(house, "A pass")
    script = """
import sys
from tinyir.cmd.tiny_opt import main
from tinyir.ir import tiny
from tinyir.lower.tiny import PASS_OF, transition_of

HEAD = "tinyir 1.0 tiny\\n\\nmodel m\\n"

def module_of(part):
    lines = [line.strip() for line in part.splitlines()]
    inputs = "".join(f"  {line}\\n" for line in lines if line.startswith("in "))
    values = "".join(f"  {line}\\n" for line in lines if line.startswith("%"))
    return tiny.parse(HEAD + inputs + "  out y_ : fp32[N]\\nshapes s {N=4}\\n\\n" + values + "\\noutputs: y_=%y\\n")

rewrite = PASS_OF["drop_double_negation"]
before, after = map(module_of, sys.modules[rewrite.__module__].__doc__.split("->"))
assert rewrite(before) == after
print(transition_of(rewrite), flush=True)
sys.exit(main(["--passes"]))
"""
    told = run(house, script)
    assert told.startswith("The negative of a negative is the value itself.\n") and "drop_double_negation" in told
