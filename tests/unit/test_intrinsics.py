"""Device functions: only what is called is printed, with what it calls; each with PTX is assembled by a CUDA compiler
and has a twin."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice
from tinyir.target import hopper, packed
from tinyir.target.intrinsics import GUARDED, INTRINSICS, PLAIN, Intrinsic, intrinsics_of, show_intrinsics

SM90 = {name for name, _ in hopper.GUARDED} - {
    "shared_address",
    "pair_of_fp16",
    "pair_of_bf16",
    "difference_of_pairs",
    "product_of_pairs",
    "raised_pair",
    "bytes_of",
    "named_barrier",
    "warpgroup_barrier",
} | {f"pair_of_{dtype}" for dtype in packed.FLOATS}
EACH = '_Pragma("unroll") for (int i = 0; i < {}; ++i)'
ARGUMENTS = {"int pending": "1", "int count": "40", "int a_major, int b_major": "0, 1", "int b_major": "1"}


def call_of(item: Intrinsic, number: int) -> str:
    """A kernel that calls the function with arguments from memory and keeps them and its result. It moves whole
    elements: of bytes there would be too many instructions: to assemble them takes a minute."""
    head = re.search(r"__forceinline__ ([\w ]+?) (\w+)\((.*?)\) \{", item.text, re.DOTALL)
    template = re.search(r"template <(.*?)>", item.text)
    names, before, kept = [], [], []
    for position, parameter in enumerate(head[3].split(", ") if head[3] else []):
        array = re.fullmatch(r"(?:const )?([\w ]+?) \(&\w+\)\[(\d+)\]", parameter)
        pointer = re.fullmatch(r"((?:const )?[\w ]+? \*)\w+", parameter)
        scalar = re.fullmatch(r"([\w ]+?) &?(\w+)", parameter)
        name = f"p{position}"
        if array:
            before.append(
                f"{array[1]} {name}[{array[2]}]; {EACH.format(array[2])} {name}[i] = (({array[1]} *)memory)[i];"
            )
            kept.append(f"{EACH.format(array[2])} (({array[1]} *)(memory + {1024 * len(kept)}))[i] = {name}[i];")
        elif not pointer:
            before.append(f"{scalar[1]} {name} = *({scalar[1]} *)(memory + {8 * position});")
            kept.append(f"*({scalar[1]} *)(memory + {1024 * len(kept)}) = {name};")
        names.append(f"({pointer[1]})memory" if pointer else name)
    result = "" if head[1] == "void" else f"{head[1]} y = "
    if result:
        kept.append(f"*({head[1]} *)(memory + {1024 * len(kept)}) = y;")
    keeps = " ".join(kept)
    arguments = f"<{ARGUMENTS[template[1]]}>" if template else ""
    call = f"{result}{head[2]}{arguments}({', '.join(names)});"
    if head[2].startswith("wgmma_m64"):
        call = f"wgmma_fence(); {call} wgmma_commit(); wgmma_wait<0>();"
    return (
        f'extern "C" __global__ void __launch_bounds__(128) k{number}(unsigned char *memory) {{ {" ".join(before)} '
        f"{call} {keeps} }}"
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_wrapper_is_assembled(arch: str) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    items = [i for i in GUARDED if arch == "sm_90a" or (i.name not in SM90 and not i.name.startswith("stmatrix"))]
    calls = "\n".join(call_of(item, number) for number, item in enumerate(items))
    cubin = cubin_of(show_intrinsics(intrinsics_of(calls)) + "\n\n" + calls + "\n", arch, compiler)
    assert "warning" not in cubin.log.lower() and len(re.findall(r"Compiling entry function", cubin.log)) == len(items)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_every_wrapper_has_a_twin_of_its_signature() -> None:
    """A missing one is an undefined symbol, which loading reports; one of another signature leaves the declared one
    undefined."""
    calls = "\n".join(call_of(item, number) for number, item in enumerate(GUARDED))
    SimDevice(mode="bare").load(
        show_intrinsics(intrinsics_of(calls)) + "\n\n" + calls + "\n",
        {f"k{number}": 0 for number in range(len(GUARDED))},
    )


@pytest.mark.parametrize("item", GUARDED, ids=lambda i: i.name)
def test_every_function_with_ptx_is_declared_and_guarded(item: Intrinsic) -> None:
    text = show_intrinsics(intrinsics_of(item.name))
    assert item.declaration in text and text.index(item.declaration) < text.index("#ifndef TINYIR_SIM") < text.index(
        item.text
    ) < text.index("#endif")


def test_no_ptx_stands_outside_the_guard() -> None:
    assert [i.name for i in INTRINSICS if "asm" in i.text and i not in GUARDED] == []


def test_only_what_is_called_is_printed() -> None:
    assert intrinsics_of("y[i] = x[i] + 1;  // max_nan") == ()
    assert [i.name for i in intrinsics_of("floor_divide(a, b)")] == [
        "is_negative",
        "truncated_divide",
        "remainder_of",
        "floor_divide",
    ]
    assert show_intrinsics(()) == ""


@pytest.mark.parametrize("item", INTRINSICS, ids=lambda i: i.name)
def test_what_a_function_calls_stands_before_it(item: Intrinsic) -> None:
    text = show_intrinsics(intrinsics_of(item.name))
    names = [i.name for i in intrinsics_of(item.name)]
    first = {name: re.search(rf"\b{name}\b", re.sub(r"//[^\n]*", "", text)).start() for name in names}
    assert (
        sorted(names, key=first.__getitem__).index(item.name) == len(names) - 1
        or item in GUARDED
        or item.text.startswith("struct")
    )
    assert "#include" not in text


def test_functions_come_with_what_they_need_and_no_more() -> None:
    names = {i.name for i in intrinsics_of("x = fp8e4m3_of_float(y); tma_load_2d(a, &m, b, 0, 0); // modulo")}
    assert names == {"fp8e4m3_of_float", "fp8_of_float", "fp8e4m3", "tma_load_2d", "tensor_map", "shared_address"}


def test_names_are_said_once() -> None:
    names = [i.name for i in INTRINSICS]
    assert len(names) == len(set(names)) == len(GUARDED) + len(PLAIN) + 5


def test_signed_bytes_are_not_divided_in_8_bits() -> None:
    """nvcc 13.0 divides -1 by 2 to 127 there, in the first of two neighbours; fp32 has the same quotients."""
    text = show_intrinsics(intrinsics_of("truncated_divide(a, b)"))
    assert "signed char truncated_divide(signed char a, signed char b)" in text and "(float)a / (float)b" in text
    a, b = (n.astype(np.int64) for n in np.ogrid[-128:128, -128:128])
    with np.errstate(all="ignore"):
        found = np.trunc(a.astype(np.float32) / b.astype(np.float32))
    right = np.sign(a * b) * (abs(a) // np.maximum(abs(b), 1))
    assert (found == right)[:, b[0] != 0].all()
