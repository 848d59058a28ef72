"""Faults on a real GPU, each in a process of its own: the kernel is named, and what is said of the GPU is so.

Other processes notice nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.run import run

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "mlp" / "mlp.cu"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]

KERNELS = {
    "an illegal address": "y[threadIdx.x + (1ll << 40)] = 1;",
    "a trap": "__trap();",
    "a misaligned address": "*(double*)((char*)y + 4) = 1;",
    "a kernel without an end": "while (*(volatile float*)y != 3) {}",
}
SCRIPT = """
import json, sys
import numpy as np
from tinyir.kit.diag import Refused
from tinyir.runtime.cuda import CudaDevice

told = []
def ask(what):
    try:
        what()
        told.append(["right", ""])
    except Refused as fault:
        told.extend([d.code, f"{d.at}: {d.why()}"] for d in fault.diags)

device = CudaDevice(limit=1.0)
code = device.load('extern "C" __global__ void k(float* y) { BODY }\\n'
                   'extern "C" __global__ void sound(float* y) { y[0] = 5; }', {"k": 0, "sound": 0})
y, got = device.allocate("y", 64, 4), np.zeros(64, np.float32)

def sound():
    device.launch(code, "sound", (1,), (1,), 0, [y])
    device.download(y, got)
    assert got[0] == 5

ask(sound)
ask(lambda: ATTEMPT)
ask(sound)
ask(lambda: device.allocate("z", 4, 4))
ask(lambda: CudaDevice().release())
device.release()
print(json.dumps(told))
"""


def told_of(body: str, attempt: str = 'device.launch(code, "k", (1,), (32,), 0, [y])') -> list[list[str]]:
    """What a process is told: of a sound kernel, of an attempt with the kernel `k` of this body, and of three uses of
    the GPU after it."""
    command = [sys.executable, "-c", SCRIPT.replace("BODY", body).replace("ATTEMPT", attempt)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("fault", ["an illegal address", "a trap", "a misaligned address"])
def test_a_fault_ends_all_use_of_the_gpu_and_says_so(fault: str) -> None:
    before, (code, why), *after = told_of(KERNELS[fault])
    assert before[0] == "right" and code == "E1730" and why.startswith("k: k failed on ")
    assert "this process cannot use the GPU any more" in why
    assert [code for code, _ in after] == ["E1734"] * 3 and all(why.startswith("k: ") for _, why in after)
    assert told_of("y[0] = 1;")[-1][0] == "right", "another process can"


def test_a_kernel_without_an_end_is_given_up() -> None:
    before, (code, why), *after = told_of(KERNELS["a kernel without an end"])
    assert before[0] == "right" and code == "E1735" and why.startswith("k: k has run for more than 1.0 s")
    assert [code for code, _ in after] == ["E1734"] * 3
    assert told_of("y[0] = 1;")[-1][0] == "right", "it has ended with its process"


def test_a_launch_that_is_refused_leaves_the_gpu_as_it_was() -> None:
    before, (code, why), *after = told_of("y[0] = 1;", 'device.launch(code, "k", (1,), (2048,), 0, [y])')
    assert before[0] == "right" and code == "E1730" and "the GPU can be used as before" in why
    assert [code for code, _ in after] == ["right"] * 3


def test_without_memory_the_gpu_can_be_used() -> None:
    before, (code, why), *after = told_of("y[0] = 1;", 'device.allocate("huge", 1 << 44, 4)')
    assert before[0] == "right" and code == "E1717" and "huge" in why
    assert [code for code, _ in after] == ["right"] * 3


LOOP = """
import sys
import numpy as np
from pathlib import Path
from tinyir.ir import manifest
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run
text = Path(sys.argv[1]).read_text()
arrays = random_arrays(manifest.parse(text).region.model, {"M": 100}, int(sys.argv[2]))
wanted = None
for _ in range(20):
    outputs, report = run(text, arrays, device="cuda", check=wanted is None)
    assert report.device == "cuda"
    assert wanted is None or all(np.array_equal(wanted[n], outputs[n]) for n in outputs)
    wanted = outputs
print("agree")
"""


def test_processes_on_one_gpu_do_not_disturb_each_other() -> None:
    """Two that compute, while others fail beside them."""
    beside = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(SAMPLE), str(seed)], stdout=subprocess.PIPE, cwd=ROOT)
        for seed in (1, 2)
    ]
    for fault in ("an illegal address", "a trap"):
        assert told_of(KERNELS[fault])[1][0] == "E1730"
    for process in beside:
        assert process.communicate(timeout=100)[0] == b"agree\n" and process.returncode == 0


def test_host_and_card_have_one_time() -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    model = manifest.parse(text).region.model
    _, report = run(text, random_arrays(model, {"M": 100}, 1), device="cuda", is_traced=True)
    queued, waited = (
        next(m for m in report.moments if m.kind == kind and m.track == "host") for kind in ("queue", "wait")
    )
    launches = [m for m in report.moments if m.kind == "launch"]
    early = launches[0].start - queued.start
    late = waited.start + waited.microseconds - (launches[-1].start + launches[-1].microseconds)
    print(f"first launch {early:.1f} us after the host began to queue; end {late:.1f} us before the host met it")
    assert early > 0 and late > 0
    assert np.all(np.diff([m.start for m in launches]) > 0)
