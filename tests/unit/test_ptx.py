"""Every PTX wrapper is assembled by a CUDA compiler, so that a misspelt instruction shows where no GPU is."""

from __future__ import annotations

import re

import pytest

from tinyir.ir.intrinsics import GUARDED, PLAIN, Intrinsic, intrinsics_of, matrix_product, show_intrinsics
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc

SM80 = re.compile(r"\w+_of\w*|cp_async_\w+|ldmatrix_\w+|mma_\w+|barrier_\w+|exp2_approx")
PRODUCTS = [f"wgmma_m64n{n}k16_{dtype}{a}{b}" for n in (8, 256) for dtype in ("fp16", "bf16") for a in ("", "_ta", "_ra") for b in ("", "_tb")]


def call_of(item: Intrinsic, number: int) -> str:
    """A kernel that calls the function with arguments from memory and keeps its result."""
    head = re.search(r"([\w ]+?) (\w+)\((.*?)\)(?= \{|;)", item.text.replace("__device__ __forceinline__ ", ""), re.DOTALL)
    names, before = [], []
    for position, parameter in enumerate(head[3].split(", ") if head[3] else []):
        array = re.fullmatch(r"(?:const )?([\w ]+?) \(&\w+\)\[(\d+)\]", parameter)
        pointer = re.fullmatch(r"(const \w+ \*)\w+", parameter)
        scalar = re.fullmatch(r"([\w ]+?) &?(\w+)", parameter)
        kind = array[1] if array else scalar[1] if scalar else ""
        if array:
            before.append(f"{kind} p{position}[{array[2]}]; for (int i = 0; i < {array[2]}; ++i) p{position}[i] = (({kind} *)memory)[i];")
            names.append(f"p{position}")
        elif pointer:
            names.append(f"({pointer[1]})memory")
        else:
            before.append(f"{kind} p{position} = (({kind} *)memory)[{position}];")
            names.append(f"p{position}")
    arguments = "<40>" if "int REGISTERS" in item.text else "<1>" if "int PENDING" in item.text else ""
    call = f"{item.name}{arguments}({', '.join(names)})"
    kept = [name for name in names if name.startswith("p")]
    result = "" if " void " in item.text.split("(")[0] else "auto y = "
    keeps = [f"memcpy(memory + {1024 * n}, &{name}, sizeof({name}));" for n, name in enumerate([*kept, *(["y"] if result else [])])]
    wait = "wgmma_fence(); " if matrix_product(item.name) else ""
    ends = " wgmma_commit(); wgmma_wait<0>();" if wait else ""
    body = f"{' '.join(before)} {wait}{result}{call};{ends} {' '.join(keeps)}"
    return f'extern "C" __global__ void __launch_bounds__(128) k{number}(unsigned char *memory) {{ {body} }}'


def text_of(items: list[Intrinsic]) -> str:
    calls = "\n".join(call_of(item, number) for number, item in enumerate(items))
    return show_intrinsics(intrinsics_of(calls)) + "\n\n" + calls + "\n"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_wrapper_is_assembled(arch: str) -> None:
    compiler = find_nvcc() or find_nvrtc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    items = [*GUARDED, *map(matrix_product, PRODUCTS)] if arch == "sm_90a" else [i for i in GUARDED if SM80.fullmatch(i.name)]
    cubin = cubin_of(text_of(items), arch, compiler)
    assert "warning" not in cubin.log.lower() and len(re.findall(r"Compiling entry function", cubin.log)) == len(items)


def test_a_matrix_product_has_the_form_that_its_name_says() -> None:
    found = matrix_product("wgmma_m64n256k16_bf16_ta_tb")
    assert "m64n256k16.f32.bf16.bf16" in found.text and "keep, 1, 1, 1, 1;" in found.text and "float (&d)[128]" in found.declaration
    assert "const unsigned int (&a)[4]" in matrix_product("wgmma_m64n8k16_fp16_ra").declaration
    assert [matrix_product(f"wgmma_m64n{n}k16_fp16") for n in (4, 12, 264)] == [None] * 3


def test_functions_come_with_what_they_need_and_no_more() -> None:
    names = {i.name for i in intrinsics_of("x = fp8e4m3_of_float(y); tma_load_2d(a, &m, b, 0, 0); // modulo")}
    assert names == {"fp8e4m3_of_float", "fp8_of_float", "fp8e4m3", "tma_load_2d", "tensor_map"}


def test_names_are_said_once() -> None:
    names = [i.name for i in (*GUARDED, *PLAIN)]
    assert len(names) == len(set(names))
