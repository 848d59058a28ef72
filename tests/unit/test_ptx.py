"""Every PTX wrapper is assembled by a CUDA compiler, so that a misspelt instruction shows where no GPU is, and has a twin on the CPU."""

from __future__ import annotations

import re
import shutil

import pytest

from tinyir.ir import hopper
from tinyir.ir.intrinsics import GUARDED, Intrinsic, intrinsics_of, show_intrinsics
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

SM90 = {name for name, _ in hopper.GUARDED} - {"shared_address", "pair_of_fp16", "pair_of_bf16", "named_barrier", "warpgroup_barrier"}
ARGUMENTS = {"int pending": "1", "int count": "40", "int a_major, int b_major": "0, 1", "int b_major": "1"}


def call_of(item: Intrinsic, number: int) -> str:
    """A kernel that calls the function with arguments from memory and keeps its result."""
    head = re.search(r"__forceinline__ ([\w ]+?) (\w+)\((.*?)\) \{", item.text, re.DOTALL)
    template = re.search(r"template <(.*?)>", item.text)
    names, before = [], []
    for position, parameter in enumerate(head[3].split(", ") if head[3] else []):
        array = re.fullmatch(r"(?:const )?([\w ]+?) \(&\w+\)\[(\d+)\]", parameter)
        pointer = re.fullmatch(r"((?:const )?[\w ]+? \*)\w+", parameter)
        scalar = re.fullmatch(r"([\w ]+?) &?(\w+)", parameter)
        name = f"p{position}"
        if array:
            before.append(f"{array[1]} {name}[{array[2]}]; memcpy({name}, memory, sizeof({name}));")
        elif not pointer:
            before.append(f"{scalar[1]} {name}; memcpy(&{name}, memory + {8 * position}, sizeof({name}));")
        names.append(f"({pointer[1]})memory" if pointer else name)
    result = "" if head[1] == "void" else "auto y = "
    kept = [*(n for n in names if n.startswith("p")), *(["y"] if result else [])]
    keeps = " ".join(f"memcpy(memory + {1024 * n}, &{name}, sizeof({name}));" for n, name in enumerate(kept))
    arguments = f"<{ARGUMENTS[template[1]]}>" if template else ""
    call = f"{result}{head[2]}{arguments}({', '.join(names)});"
    if head[2].startswith("wgmma_m64"):
        call = f"wgmma_fence(); {call} wgmma_commit(); wgmma_wait<0>();"
    return f'extern "C" __global__ void __launch_bounds__(128) k{number}(unsigned char *memory) {{ {" ".join(before)} {call} {keeps} }}'


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_wrapper_is_assembled(arch: str) -> None:
    compiler = find_nvcc() or find_nvrtc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    items = [i for i in GUARDED if arch == "sm_90a" or (i.name not in SM90 and not i.name.startswith("stmatrix"))]
    calls = "\n".join(call_of(item, number) for number, item in enumerate(items))
    cubin = cubin_of(show_intrinsics(intrinsics_of(calls)) + "\n\n" + calls + "\n", arch, compiler)
    assert "warning" not in cubin.log.lower() and len(re.findall(r"Compiling entry function", cubin.log)) == len(items)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_every_wrapper_has_a_twin_of_its_signature() -> None:
    """A missing one is an undefined symbol, which loading reports; one of another signature leaves the declared one undefined."""
    calls = "\n".join(call_of(item, number) for number, item in enumerate(GUARDED))
    SimDevice().load(show_intrinsics(intrinsics_of(calls)) + "\n\n" + calls + "\n", {f"k{number}": 0 for number in range(len(GUARDED))})
