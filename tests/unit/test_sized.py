"""Kernels that differ in integers alone: one function that each of them calls, in the text, compiled and simulated."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tinyir.ir import manifest, region
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.lower.cu.names import Names
from tinyir.lower.cu.sized import MOST_PARAMETERS, Emitted, show_kernels
from tinyir.runtime.parts import parts_of

from .emitted import simulated
from .stages import needs_host_compiler


def emitted(entry: str, lines: tuple[str, ...], *names: str, bounds: str = "__launch_bounds__(32)") -> Emitted:
    """A kernel of these lines, which stores to `names[0]`."""
    to, *others = names
    return Emitted((f"// {entry}",), bounds, entry, (f"float *{to}",), lines, frozenset(names), (to,), (), (), 0)


def lines_of(to: str, i: str, *numbers: int) -> tuple[str, ...]:
    """A body of two names and five numbers."""
    a, b, c, d, e = numbers
    return (
        f"  const int {i} = {a} * (int)threadIdx.x;",
        f"  #pragma unroll {b}",
        f"  for (int e = 0; e < {c}; ++e)  // {to}",
        f"    {to}[{i} + e] = 0x{d}p0f + {d}.5f + {d}u;",
        f"  if ({i} < {e}) {to}[{a}] = (float){c};",
        *("  __syncthreads();",) * 6,
    )


FIRST = emitted("up", lines_of("Y", "k", 4, 2, 8, 7, 16), "Y", "k")


def shown(*others: Emitted) -> tuple[str, dict[str, str]]:
    return show_kernels((FIRST, *others), Names())


def test_integers_that_differ_are_parameters() -> None:
    text, instead = shown(emitted("down", lines_of("Z", "j", 4, 2, 12, 7, 32), "Z", "j", bounds="__maxnreg__(40)"))
    assert instead == {} and text == (
        "// up\n"
        "template <int n, int k_n>\n"
        "__device__ __forceinline__ void up_sized(float *Y)\n"
        "{\n"
        "  const int k = 4 * (int)threadIdx.x;\n"
        "  #pragma unroll 2\n"
        "  for (int e = 0; e < n; ++e)  // Y\n"
        "    Y[k + e] = 0x7p0f + 7.5f + 7u;\n"
        "  if (k < k_n) Y[4] = (float)n;\n" + "  __syncthreads();\n" * 6 + "}\n\n"
        'extern "C" __global__ void __launch_bounds__(32)\nup(float *Y)\n{\n  up_sized<8, 16>(Y);\n}\n\n'
        '// down\nextern "C" __global__ void __maxnreg__(40)\ndown(float *Z)\n{\n  up_sized<12, 32>(Z);\n}\n'
    )


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (lines_of("Z", "j", 4, 3, 8, 7, 16), "Zj"),  # what the compiler is told of a loop
        (lines_of("Z", "j", 4, 2, 8, 9, 16), "Zj"),  # numbers that are no integers of C alone
        (lines_of("Z", "j", 4, 2, 8, 7, 1 << 31), "Zj"),  # a long one
        (lines_of("Z", "Z", 4, 2, 8, 7, 32), "Z"),  # one name for two
        (lines_of("Z", "j", 4, 2, 8, 7, 32), "Z"),  # a name that is not the kernel's own
        (lines_of("Z", "j", 4, 2, 8, 7, 32)[:-1], "Zj"),
    ],
)
def test_other_kernels_stay_apart(other: tuple[str, ...], names: str) -> None:
    assert "template" not in shown(emitted("down", other, *names))[0]


def test_short_kernels_and_many_numbers_stay_apart() -> None:
    short = [emitted(f"k{n}", (f"  Y[{n}] = 0;",), "Y") for n in range(2)]
    assert "template" not in show_kernels(short, Names())[0]
    for count in (MOST_PARAMETERS, MOST_PARAMETERS + 1):
        several = [
            emitted(f"k{n}", tuple(f"  Y[{1000 * n + at * (n + 1)}] = 0;" for at in range(count)), "Y")
            for n in range(2)
        ]
        assert ("template" in show_kernels(several, Names())[0]) == (count <= MOST_PARAMETERS)


def test_kernels_that_differ_in_names_alone_are_one() -> None:
    same = emitted("same", lines_of("Z", "j", 4, 2, 8, 7, 16), "Z", "j")
    bound = emitted("bound", same.lines, "Z", "j", bounds="__maxnreg__(40)")
    text, instead = shown(same, bound)
    assert instead == {"same": "up"}
    assert text.startswith("// up\n// same\n__device__ __forceinline__ void up_sized(float *Y)\n{\n")
    assert text.count("__global__") == 2 and text.endswith("bound(float *Z)\n{\n  up_sized(Z);\n}\n")


def fetching(to: str, *starts: str) -> tuple[str, ...]:
    """A body that fetches windows which begin at these places."""
    return (
        f"  tma_load_windows_4d({to}, &map, &full[s], {', '.join(starts)}, 0, k % 3, k / 3);",
        *("  __syncthreads();",) * 8,
    )


STRIDES = {  # of other kernels' windows beside those of the first, as the function of both writes them
    ("k", "2 * (n % 14) - 1", "n / 14 - 1"): ("k", "stride_n * (n % 14) - 1", "n / 14 - 1"),
    ("k", "2 * (n % 14) - 1", "3 * (n / 14) - 1"): ("k", "stride_n * (n % 14) - 1", "stride_n2 * (n / 14) - 1"),
    ("2 * k", "n % 14 - 1", "n / 14 - 1"): ("stride_n * k", "n % 14 - 1", "n / 14 - 1"),
    ("k", "2 * (n % 14) - 3", "n / 14 - 1"): ("k", "stride_n * (n % 14) - Y_n", "n / 14 - 1"),
    ("k", "n % 14 - 2", "n / 14 - 1"): ("k", "n % 14 - Y_n", "n / 14 - 1"),
    ("k", "2 * (n % 14)", "n / 14 - 1"): None,
    ("k", "2 * (m % 14) - 1", "n / 14 - 1"): None,
    ("k", "2 * (n % 14) + 1", "n / 14 - 1"): None,
}


@pytest.mark.parametrize("other", STRIDES)
def test_windows_that_are_elsewhere_apart_are_one_function(other: tuple[str, ...]) -> None:
    own, wanted = ("k", "n % 14 - 1", "n / 14 - 1"), STRIDES[other]
    several = [emitted("up", fetching("Y", *own), "Y"), emitted("down", fetching("Z", *other), "Z")]
    text, _ = show_kernels(several, Names())
    lines = [line for line in text.split("\n") if "tma_load" in line]
    if wanted is None:  # each kernel as it was
        assert lines == [fetching("Y", *own)[0], fetching("Z", *other)[0]]
        return
    (line,) = lines
    assert line == fetching("Y", *wanted)[0]
    parameters = [word.removeprefix("int ") for word in re.findall(r"template <(.*)>", text)[0].split(", ")]
    calls = dict(re.findall(r"(\w)\)\n\{\n  up_sized<(.*)>", text))
    for to, starts in (("Y", own), ("Z", other)):  # what a call means is what its kernel said
        called = line
        for name, number in zip(parameters, calls[to].split(", ")):
            called = re.sub(rf"\b{name}\b", number, called)
        assert (
            called.replace("1 * (n % 14)", "n % 14").replace("1 * (n / 14)", "n / 14").replace("1 * k", "k")
            == fetching("Y", *starts)[0]
        )


def maps(*sizes: int) -> str:
    """Region text of a chain of maps, each over the first elements of the one before."""
    names = [f"v{n}" for n in range(len(sizes))]
    tensors = [f"  in  {n} : fp32[{size}]" for n, size in zip(names, sizes)]
    tensors += [f"  out {n.upper()} : fp32[{size}]" for n, size in zip(names, sizes)]
    text = ["tinyir 1.0 region", "", "model maps", *tensors, "", "program maps"]
    for n, size in zip(names, sizes):
        text += [
            "",
            f"region {n.upper()}",
            f"  in  {n} : fp32[{size}]",
            f"  out {n.upper()} : fp32[{size}]",
            f"  for i0: {size}",
            f"  yield {n.upper()}[i0] = mul(exp2({n}[i0]), {n}[i0])",
        ]
    return "\n".join(text) + "\n"


def lowered(*sizes: int, arch: str = "sm80") -> manifest.Module:
    return to_cu.lower(to_gpu.lower(to_plan.lower(region.parse(maps(*sizes)), arch)))


def test_a_program_has_one_function_for_all_sizes() -> None:
    one, three, six = (lowered(*sizes).source for sizes in ((1004,), (1004, 1208, 1412), (*range(1004, 2228, 204),)))
    assert [text.count("template <int e_n>\n") for text in (one, three, six)] == [0, 1, 1]
    per_kernel = (six.count("\n") - three.count("\n")) / 3
    assert per_kernel < one[one.index("extern") :].count("\n") / 2
    module = lowered(1004, 1208)
    assert manifest.parse(manifest.show(module)) == module and manifest.check(module) == []


def test_a_part_has_the_function_that_it_calls() -> None:
    text = manifest.show(lowered(1004, 1208, 1412))
    whole = text.split("\n")
    parts = parts_of(text)
    assert [part.entries for part in parts] == [("V0",), ("V1",), ("V2",)]
    for part in parts:
        assert part.text.count("_sized(") == 1 and part.text.count("__global__") == 1
        lines = part.text.split("\n")
        begin = next(n for n, line in enumerate(lines) if line.startswith("template <int e_n>"))
        for line, number in zip(lines[begin:], part.lines[begin:]):
            assert line.rstrip() == re.sub(r"//.*", "", whole[number - 1]).rstrip()
    assert [part.text for part in parts_of(text.replace("e < e_n", "e < e_n - 1"))] != [part.text for part in parts]


def test_a_kernel_waits_in_the_function_that_it_calls() -> None:
    module = lowered(*range(1004, 2228, 204), arch="sm90")
    early = [launch.name for launch in module.launches if launch.is_early]
    assert len(early) == 5 and manifest.check(module) == []
    silent = re.sub(r"(_sized\([^{]*\{[^}]*)wait_previous\(\);", r"\1", module.source)
    assert silent.count("wait_previous();") < module.source.count("wait_previous();")
    assert {d.at for d in manifest.check(replace(module, source=silent))} == {*early[:4]}


@needs_host_compiler
def test_kernels_of_one_function_run() -> None:
    module = lowered(1004, 1208, 1412)
    draw = np.random.default_rng(0)
    arrays = {t.name: draw.standard_normal(t.type.shape[0].constant, np.float32) for t in module.region.model.inputs}
    found = simulated(module, arrays)
    for name, array in arrays.items():
        np.testing.assert_allclose(found[name.upper()], np.exp2(array) * array, rtol=1e-6)


@needs_host_compiler
def test_a_fault_is_told_at_its_line_in_the_function() -> None:
    module = lowered(1004, 1208)
    source = module.source.replace("e < e_n", "e <= e_n")
    assert source != module.source
    arrays = {"v0": np.zeros(1004, np.float32), "v1": np.zeros(1208, np.float32)}
    with pytest.raises(Refused) as refused:
        simulated(replace(module, source=source), arrays)
    (fault,) = refused.value.diags
    line = manifest.show(replace(module, source=source)).split("\n")[fault.span.line - 1]
    assert "_sized" not in line and "v0" in line
