"""Faults planted by rule in emitted kernels: the simulation and the comparison with playback find nearly all, and nothing in the originals.

A mutant whose machine code is the original's is none, and is not counted. The rest that is not found is right at the sizes that are run: a
loop that ends where it would have ended, a guard that nothing reaches, two statements whose order does not matter.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Mapping

import pytest

import tinyir
from tinyir.ir import gpu, manifest
from tinyir.kit.diag import Refused
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS, kernels_of

from .emitted import alone
from .mutants import Mutant, mutants_of
from .test_api import LAYERS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not any(map(shutil.which, COMPILERS)) or not shutil.which("objcopy"), reason="no C++ compiler or no binutils")]

SAMPLE = (Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.gpu")
SEEDS = (0, 1)
EACH = 50
KERNELS = {
    "gemm": ({"M": 200, "N": 264, "K": 1000}, 0.7),  # most of what it does is for many tiles a block, and here each has one
    "gemm_3": ({"M": 131, "N": 67, "K": 99}, 0.9),
    "l1": ({"M": 37}, 0.9),
    "row": ({"M": 37}, 0.7),  # a softmax is the same whichever of the maxima of its warps is subtracted
}
ROW = {
    "signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "row"}]},
    "tensors": {name: {"dtype": "fp32", "shape": ["M", 70]} for name in ("x", "row")},
    "graph": [{"op": "Softmax", "inputs": ["x"], "outputs": ["row"], "attrs": {"axis": -1}}],
}


def machine_code(text: str, entry: str, shared: int, folder: Path) -> bytes:
    code = folder / "code"
    built = kernels_of(text, (entry,), shared, "bare")
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.text", "--only-section=.rodata", str(built), str(code)], check=True)
    return code.read_bytes()


def fault_of(text: str, arrays: Mapping[str, Any]) -> str | None:
    for seed in SEEDS:
        try:
            run(text, arrays, device="sim", check=True, seed=seed, limit=5)
        except Refused as fault:
            return fault.diags[0].code
    return None


@pytest.mark.parametrize("entry", KERNELS)
def test_mutants_are_found(entry: str, tmp_path: Path) -> None:
    text = alone(gpu.parse(SAMPLE.read_text(encoding="utf-8")), entry.replace("_", ".")) if entry.startswith("gemm") else tinyir.compile(json.dumps(ROW if entry == "row" else LAYERS, indent=1), device="cpu").text
    sizes, least = KERNELS[entry]
    module = manifest.parse(text)
    arrays = random_arrays(module.region.model, sizes, 1)
    assert fault_of(text, arrays) is None
    shared = max(launch.smem for launch in module.launches)
    original = machine_code(text, entry, shared, tmp_path)
    found, missed = 0, []
    for mutant in mutants_of(text, entry, EACH):
        if fault_of(mutant.text, arrays) is not None:
            found += 1
        elif machine_code(mutant.text, entry, shared, tmp_path) != original:
            missed.append(mutant)
    print(f"{entry}: {found} found, {len(missed)} not")
    assert found >= least * (found + len(missed)), "\n".join(_shown(text, m) for m in missed)


def _shown(text: str, mutant: Mutant) -> str:
    return f"{mutant.rule} at {mutant.line}: {text.splitlines()[mutant.line - 1].strip()} -> {mutant.text.splitlines()[mutant.line - 1].strip()}"
