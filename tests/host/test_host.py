"""Programs as C: they launch what Python launches, their faults are codes with words, and threads may share them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.models import gpt2
from tinyir.api import lowered
from tinyir.host.outline import outline_of
from tinyir.ir import manifest
from tinyir.runtime.arrays import random_arrays

from .calls import ADDRESS, HERE, Told, built, built_gpt2, called, continued, in_python, same, written

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(p.parent.name for p in (ROOT / "samples").glob("*/*.cu"))


def sample(name: str) -> manifest.Module:
    return manifest.parse((ROOT / "samples" / name / f"{name}.cu").read_text(encoding="utf-8"))


def sizes_for(module: manifest.Module) -> list[dict[str, int]]:
    """Those of the shape set, of which weights are made; odd ones, small ones and none."""
    model = module.region.model
    stated = dict(model.shape_sets[0].sizes) if model.shape_sets else {}
    return (
        [stated, *({s: n + k for k, s in enumerate(model.symbols())} for n in (61, 1, 0))] if model.symbols() else [{}]
    )


def params_of(module: manifest.Module, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    model = module.region.model
    arrays = random_arrays(model, sizes, 0)
    return {t.name: arrays[t.name] for t in model.inputs if t.attr("role") == "param"}


def is_well(told: Told) -> bool:
    return (told.code, told.faults, told.stderr) == (0, [], "")


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("is_bound", [False, True])
def test_the_launches_are_those_of_python(name: str, is_bound: bool, tmp_path: Path) -> None:
    module = sample(name)
    stated = sizes_for(module)
    weights = params_of(module, stated[0]) if is_bound else {}
    outline = outline_of(module, weights)
    fitting = [s for s in stated if all(s[n] == size for n, size in outline.settled.items())]
    told = called(
        built(written(tmp_path, module, weights), outline), [[s[n] for n in outline.symbols] for s in fitting]
    )
    assert is_well(told)
    for job, sizes in enumerate(fitting):
        same(told, module, weights, sizes, job)


def test_each_size_takes_its_alternative(tmp_path: Path) -> None:
    """The sample's product has a kernel that copies odd rows first, and one that needs none."""
    module = sample("gemm_bias_relu")
    draw = np.random.default_rng(3)
    sizes = [[int(n) for n in draw.choice([0, 1, 7, 8, 64, 77, 128, 1000, 1024, 4096], 3)] for _ in range(200)]
    told = called(built(written(tmp_path, module, {}), outline_of(module, {}), flags=()), sizes)
    assert is_well(told)
    for job, numbers in enumerate(sizes):
        same(told, module, {}, dict(zip(("M", "K", "N"), numbers)), job)
    assert len({x["kernel"] for x in told.launches}) == 4


def test_threads_share_a_program(tmp_path: Path) -> None:
    module = sample("mlp")
    weights = params_of(module, {"M": 1})
    main = built(written(tmp_path, module, weights), outline_of(module, weights), turns=5, flags=("-fsanitize=thread",))
    sizes = [[m] for m in (1, 2048, 7, 300, 0, 64)]
    told = called(main, sizes, {"THREADS": "1"})
    assert is_well(told)
    for job, (m,) in enumerate(sizes):
        same(told, module, weights, {"M": m}, job, turns=5)


# --- faults


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with weights, something computed of them once, tensor maps and a dynamic size, built to be run once."""
    module = sample("resnet_block")
    weights = params_of(module, {"N": 1})
    return built(written(tmp_path_factory.mktemp("host"), module, weights), outline_of(module, weights))


CALLS = {
    "cuInit": 1, "cuDeviceGet": 1, "cuDeviceGetAttribute": 2, "cuDriverGetVersion": 1, "cuDevicePrimaryCtxRetain": 1,
    "cuCtxPushCurrent": 2, "cuModuleLoadData": 3, "cuModuleGetFunction": 3, "cuFuncSetAttribute": 2, "cuMemAlloc": 1,
    "cuMemcpyHtoD": 1, "cuStreamSynchronize": 1, "cuLaunchKernelEx": 4, "cuTensorMapEncodeTiled": 2,
    "cuTensorMapEncodeIm2col": 1,
}  # fmt: skip


@pytest.mark.parametrize("function", CALLS)
def test_a_fault_of_the_driver_is_a_code_with_words_and_leaves_nothing_behind(function: str, convolution: Path) -> None:
    for turn in range(1, CALLS[function] + 1):
        told = called(convolution, [[5]], {"FAULT": f"{function}:{turn}"})
        assert (told.code, told.stderr) == (1, "")
        (fault,) = told.faults
        assert fault["fault"] == 1 and fault["words"].endswith(": CUDA_ERROR_INVALID_VALUE")
        assert fault["words"].split(":")[0]


def test_a_file_that_is_damaged_or_another_is_refused(convolution: Path) -> None:
    raw = convolution.with_name("program.data").read_bytes()
    other = convolution.with_name("other.data")
    for content, code, words in [
        (raw[:70], -6, "other.data: it is shorter than it was written"),
        (raw[:-1000], -6, "other.data: it is shorter than it was written"),
        (b"", -6, "other.data: it is shorter than it was written"),
        (raw[:20] + b"!" + raw[21:], -6, "other.data: it was not written with this C file"),
        (None, -5, "other.data: it cannot be opened"),
    ]:
        other.unlink(missing_ok=True)
        if content is not None:
            other.write_bytes(content)
        told = called(convolution, [[5]], data="other.data")
        assert (told.code, told.stderr) == (1, "")
        assert told.faults == [{"fault": code, "words": words}]


def test_sizes_that_nothing_takes_are_refused(convolution: Path) -> None:
    for size, code, words in [
        (-1, -1, "N: it is outside of 0..2147483647"),
        (1 << 31, -1, "N: it is outside of 0..2147483647"),
        ((1 << 31) - 1, -1, "X: no GPU holds its bytes"),
    ]:
        told = called(convolution, [[size]])
        assert told.code == 1 and told.launches == []
        assert told.faults == [{"fault": code, "words": words}]
    assert called(convolution, [[-1], [4]]).launches  # a thread may go on behind a fault


def test_the_gpu_decides_which_kernels_are_loaded(tmp_path: Path) -> None:
    module = sample("softmax")
    main = built(written(tmp_path, module, {}, ("sm_80", "sm_86", "sm_90a")), outline_of(module, {}), flags=())
    for gpu, is_known in {(8, 0): True, (8, 6): True, (8, 9): True, (9, 0): True, (7, 5): False, (9, 1): False}.items():
        told = called(main, [[4, 4]], dict(zip(("MAJOR", "MINOR"), map(str, gpu))))
        assert (told.code == 0) == is_known
        wrong = {"fault": -7, "words": "the GPU: the kernels were compiled for another: sm_80, sm_86, sm_90a"}
        assert told.faults == [] if is_known else [wrong]


def test_an_old_driver_gets_no_early_launches(convolution: Path) -> None:
    assert {x["early"] for x in called(convolution, [[5]], {"DRIVER": "12020"}).launches} == {0}
    assert {x["early"] for x in called(convolution, [[5]]).launches} == {0, 1}


# --- what else a signature can hold

ODD = """// tinyir 1.0 cu
//
// model "main"
//   in  "int"       : fp32[N, 3] {layout=col_major}
//   in  "a, \\"b\\" \\\\ ??/ é" : fp16[floor((N + 7)/8)] {alignment=64}
//   in  state       : fp16[N]
//   in  unused      : i32[]
//   out stream      : fp32[3, N]
//   out state       : fp16[N]
//   sym N in 0..100000
//
// program "main"
//   buffer ones        : fp32[N] {value=1.5}
//   buffer halves      : fp16[2*N + 1] {value=0.5}
//   buffer yes         : bool[N] {value=true}
//   buffer many        : i64[N] {value=-3}
//   buffer few         : i32[4] {value=[1, 2, 3, 4]}
//   buffer H           : fp32[N, 3]
//   buffer flat        : fp32[3*N] {alias=H}
//   buffer G           : fp32[N, 3]
//
// region first
//   in  "int"       : fp32[3, N]
//   out H           : fp32[N, 3]
//   for i0: N, i1: 3
//   yield H[i0, i1] = int[i1, i0]
//
// region second
//   in  flat        : fp32[3*N]
//   out G           : fp32[N, 3]
//   for i0: N, i1: 3
//   yield G[i0, i1] = flat[3*i0 + i1]
//
// region third
//   in  G           : fp32[N, 3]
//   out stream      : fp32[3, N]
//   out state       : fp16[N]
//   for i0: 3, i1: N
//   yield stream[i0, i1] = G[i1, i0]
//
// manifest
//   launch first : sm80 grid [floor((N + 63)/64)] block [64]
//     tensors ["int", H, ones, halves, few]  symbols [N]
//     flops 0  bytes 1
//   launch second : sm80 grid [floor((N + 63)/64), 3] block [8, 8]
//     tensors [flat, yes, many, G]  symbols [N]
//     assume 1 <= N and N < 50
//     flops 0  bytes 1
//   launch second.2 as second_2 of second : sm80 grid [3, N] block [64] smem 60000 B
//     tensors [flat, G]  symbols [N]
//     assume 60 <= N
//     flops 0  bytes 1
//   launch third : sm80 grid [N, 2, 3] block [32]
//     tensors [G, stream, state, "a, \\"b\\" \\\\ ??/ é"]  symbols [N]
//     flops 0  bytes 1

extern "C" __global__ void first() {}
"""


@pytest.mark.parametrize("is_bound", [False, True])
def test_odd_names_states_filled_constants_and_aliases(is_bound: bool, tmp_path: Path) -> None:
    module = manifest.parse(ODD)
    weights = {"state": np.full(70, 3, np.float16)} if is_bound else {}
    outline = outline_of(module, weights)
    main = built(written(tmp_path, module, weights), outline)
    if is_bound:
        assert outline.symbols == () and list(outline.states) == ["state"]
        told = called(main, [[]])
        assert is_well(told) and [s["first"] for s in told.states] == [np.float16(3).tobytes()[0]]
        same(told, module, weights, {"N": 70})
        return
    told = called(main, [[1], [49], [60], [900]])
    assert is_well(told)
    for job, size in enumerate((1, 49, 60, 900)):
        same(told, module, {}, {"N": size}, job)
    for size in (50, 59):
        assert called(main, [[size]]).faults == [{"fault": -2, "words": "second: no kernel takes these sizes"}]


CACHE = """// tinyir 1.0 cu
//
// model step
//   in  x           : fp32[N]
//   in  old         : fp32[N] {role=state}
//   out new         : fp32[N] {role=state, updates=old}
//   out y           : fp32[N]
//
// program step
//   buffer t           : fp32[N]
//
// region first
//   in  x           : fp32[N]
//   in  old         : fp32[N]
//   out t           : fp32[N]
//   for i0: N
//   yield t[i0] = add(x[i0], old[i0])
//
// region second
//   in  t           : fp32[N]
//   out new         : fp32[N]
//   out y           : fp32[N]
//   for i0: N
//   yield new[i0] = t[i0]
//   yield y[i0] = t[i0]
//
// manifest
//   launch first : sm80 grid [floor((N + 63)/64)] block [64]
//     tensors [x, old, t]  symbols [N]
//     flops 0  bytes 1
//   launch second : sm80 grid [floor((N + 63)/64)] block [64]
//     tensors [t, new, y]  symbols [N]
//     flops 0  bytes 1

extern "C" __global__ void first() {}
extern "C" __global__ void second() {}
"""


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_state_is_one_parameter_under_its_input_s_name(is_bound: bool, tmp_path: Path) -> None:
    module = manifest.parse(CACHE)
    weights = {"old": np.full(70, 2, np.float32)} if is_bound else {}
    outline = outline_of(module, weights)
    assert [t.name for t in outline.parameters] == ["x", "old", "y"]
    base = written(tmp_path, module, weights)
    header = base.with_suffix(".h").read_text(encoding="utf-8")
    assert re.search(r"^    void \*old, +// in and out old : fp32\[N\]", header, re.M)
    assert ("step_reset(" in header) == is_bound
    told = called(built(base, outline), [[]] if is_bound else [[5]])
    assert is_well(told)
    assert [s["first"] for s in told.states] == [np.float32(2).tobytes()[0]] * is_bound
    same(told, module, weights, {"N": 70 if is_bound else 5})


def test_filled_constants_hold_their_value(tmp_path: Path) -> None:
    """Each width of element, read where the program lays it."""
    outline = outline_of(manifest.parse(ODD), {})
    source = written(tmp_path, manifest.parse(ODD), {}).with_suffix(".c").read_text(encoding="utf-8")
    for name, bits in {"ones": 0x3FC00000, "halves": 0x3800, "yes": 1, "many": (1 << 64) - 3}.items():
        assert f"fill(at_{name}, UINT64_C({bits}), {outline.places[name].item}," in source


def test_the_header_is_one_of_cpp_too(tmp_path: Path) -> None:
    written(tmp_path, manifest.parse(ODD), {})
    (tmp_path / "main.cpp").write_text('#include "program.h"\nint main() { return main__error() == nullptr; }\n')
    command = ["c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "main.cpp"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""


# --- the command


def tinyc(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "bin" / "tinyc"), *words], capture_output=True, text=True, cwd=cwd)


def test_the_command_writes_three_files_and_names_them(tmp_path: Path) -> None:
    model = ROOT / "samples" / "softmax" / "softmax.json"
    done = tinyc("--emit=host", "-o", "out/program", str(model), cwd=tmp_path)
    assert done.returncode == 1 and "E0009" in done.stderr and list(tmp_path.iterdir()) == []
    done = tinyc("--emit=host", str(model), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["softmax.h", "softmax.c", "softmax.data"]
    assert (tmp_path / "softmax.data").read_bytes()[64:68] == b"\x7fELF"


def test_a_cuda_text_of_a_region_alone_becomes_a_function(tmp_path: Path) -> None:
    done = tinyc("--emit=host", "-o", "one", str(ROOT / "samples" / "softmax" / "softmax.cu"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.split() == ["one.h", "one.c", "one.data"]
    assert "int softmax_run(const softmax_program *program," in (tmp_path / "one.h").read_text()
    assert '#include "one.h"' in (tmp_path / "one.c").read_text()


def test_a_program_for_another_gpu_is_refused(tmp_path: Path) -> None:
    done = tinyc("--emit=host", "--gpu", "sm_86", str(ROOT / "samples" / "softmax" / "softmax.json"), cwd=tmp_path)
    assert done.returncode == 1 and "E1745" in done.stderr and list(tmp_path.iterdir()) == []


def test_gpt2_writes_on_in_c_alone(tmp_path: Path) -> None:
    """Its weights come from the file, its words from one run after another; nothing is left behind, nor read outside
    of what was allocated."""
    model = gpt2(tokens=16, layers=2, hidden=64, heads=2, words=97, positions=32)
    module = lowered(model.text, "cpu")[1]
    arrays = model.arrays()
    weights = {n: arrays[n] for n in model.weights}
    main = built_gpt2(written(tmp_path, module, weights), 16, 97, (f"-I{HERE}", str(HERE / "driver.c"), *ADDRESS))
    told, ids, logits = continued(main, 3, [5, 9])
    assert ids == [5, 9, 0, 0, 0] and logits.size == 16 * 97  # this driver computes nothing: all words are alike
    once, runs, _ = in_python(module, weights, {})
    launched = [line["kernel"] for line in map(json.loads, told) if "kernel" in line]
    assert launched == [x["kernel"] for x in once] + 3 * [x["kernel"] for x in runs]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake on PATH")
def test_the_example_of_cmake_builds_and_runs(tmp_path: Path) -> None:
    module = sample("mlp")
    written(tmp_path, module, {}, name="mlp")
    example = ROOT / "samples" / "mlp" / "host"
    stated = [f"-DPROGRAM={tmp_path / 'mlp'}", f"-DCMAKE_MODULE_PATH={ROOT / 'tests' / 'host' / 'cmake'}"]
    for command in (["cmake", "-S", str(example), "-B", "build", *stated], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["build/main", "mlp.data", "300"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.splitlines()[-1] == "300 rows"
    assert [json.loads(x)["kernel"] for x in done.stdout.splitlines() if "kernel" in x] == ["up", "down"]
