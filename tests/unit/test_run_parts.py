"""Kernels compiled one by one: what a part of a text is, what is compiled again, where faults are told, and that they
are compiled side by side."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from tinyir.ir import manifest
from tinyir.kit.diag import Refused
from tinyir.runtime import compile as compiling
from tinyir.runtime.compile import Compiler, CompilerFault, Cubin, cores, cubins_of, find_nvrtc, nvrtc_options, usage_of
from tinyir.runtime.parts import parts_of

from .families import FAMILIES, family

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = (ROOT / "samples" / "mlp" / "mlp.cu").read_text(encoding="utf-8")
BY_HAND = """\
// a text by hand
__device__ float half_of(float x) { return x / 2; }  // used by one

/* } */
extern "C" __global__ void __launch_bounds__(32, 1)
first(float *y)
{
  y[0] = half_of(y[0]); // }
}

__device__ float twice(float x) { return 2 * x; }
extern "C" __global__ void second(float *first) { first[0] = twice(first[0]); }
"""


class Kept:
    """A compiler that writes down what it is given, and refuses a word."""

    def __init__(self, refused: str = "") -> None:
        self.texts: list[str] = []
        self.refused = refused
        self.compiler = Compiler(f"paper {refused}", self.compile)

    def compile(self, text: str, arch: str) -> tuple[bytes, str]:
        """The text is its own cubin."""
        self.texts.append(text)
        lines = [n for n, line in enumerate(text.split("\n"), 1) if self.refused and self.refused in line]
        if lines:
            raise CompilerFault("".join(f"kernel.cu({n}): error: no {self.refused}\n" for n in lines))
        return text.encode(), ""


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_part_has_one_kernel_and_what_is_beside_it() -> None:
    first, second = parts_of(BY_HAND)
    assert (first.entries, second.entries) == (("first",), ("second",))
    for part, own, other in ((first, "half_of(y[0])", "void second"), (second, "twice(first[0])", "first(float")):
        assert own in part.text and other not in part.text and "//" not in part.text and "/*" not in part.text
        assert part.text.count("__device__") == 2
    assert [part.entries for part in parts_of(BY_HAND, ("second",))] == [("second",)]


@pytest.mark.parametrize("text", [SAMPLE, BY_HAND])
def test_each_line_of_a_part_is_one_of_the_text(text: str) -> None:
    whole = text.split("\n")
    for part in parts_of(text):
        lines = part.text.split("\n")
        begin = max(n for n, line in enumerate(lines) if "__global__" in line)
        assert len(part.lines) >= len(lines) - 1
        for line, number in zip(lines[begin:], part.lines[begin:]):
            assert line.rstrip() == re.sub(r"//.*", "", whole[number - 1]).rstrip()


def test_printed_functions_are_printed_for_the_one_kernel() -> None:
    up, down = parts_of(SAMPLE)
    of_up, of_down = (set(re.findall(r"\bwgmma_m64n\d+k16_fp16", part.text)) for part in (up, down))
    assert of_up and of_down and not of_up & of_down


@pytest.mark.parametrize("more", ["\n", 'extern "C" __global__ void third() { second<<<1, 1>>>(0); }\n'])
def test_a_text_stays_whole_where_parts_are_none(more: str) -> None:
    text = BY_HAND + more
    wanted = ("first", "fourth") if more == "\n" else None
    (part,) = parts_of(text, wanted)
    assert part.text == text and part.lines[:3] == (1, 2, 3)


def test_a_change_of_one_kernel_compiles_one() -> None:
    kept = Kept()
    cubins = cubins_of(SAMPLE, "sm_90a", compiler=kept.compiler)
    assert list(cubins) == ["up", "down"] and len(kept.texts) == 2
    assert cubins_of(SAMPLE, "sm_90a", compiler=kept.compiler) == cubins and len(kept.texts) == 2
    before, after = SAMPLE.rsplit("gelu_for_fp16(", 1)  # of one of the two
    other = f"{before}gelu_for_fp16(0.5f * {after}".replace("program mlp", "program other")
    assert cubins_of(other, "sm_90a", compiler=kept.compiler)["down"] == cubins["down"] and len(kept.texts) == 3
    assert cubins_of(SAMPLE, "sm_80", ("down",), kept.compiler).keys() == {"down"} and len(kept.texts) == 4


def test_faults_of_all_kernels_are_told_at_their_lines() -> None:
    with pytest.raises(Refused) as refused:
        cubins_of(BY_HAND, "sm_90a", compiler=Kept("y[0]").compiler)
    assert [(d.code, d.span.line) for d in refused.value.diags] == [("E1716", 8)]
    with pytest.raises(Refused) as refused:
        cubins_of(BY_HAND, "sm_90a", compiler=Kept("first[0]").compiler)
    assert [d.span.line for d in refused.value.diags] == [12]
    with pytest.raises(Refused) as refused:
        cubins_of(BY_HAND, "sm_90a", compiler=Kept("half_of(float").compiler)
    assert [d.span.line for d in refused.value.diags] == [2, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_so_many_are_compiled_at_a_time(jobs: int) -> None:
    at_once, most, lock, met = 0, 0, threading.Lock(), threading.Barrier(jobs)

    def compile_text(text: str, arch: str) -> tuple[bytes, str]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        met.wait(timeout=60)
        with lock:
            at_once -= 1
        return b"cubin", ""

    cubins_of(SAMPLE, "sm_90a", compiler=Compiler("paper", compile_text), jobs=jobs)
    assert most == jobs and cores() >= 1


@pytest.mark.parametrize("name", FAMILIES)
def test_every_emitted_text_is_parted(name: str) -> None:
    text = family(name).text
    entries = dict.fromkeys(launch.entry for launch in manifest.parse(text).launches)
    parts = parts_of(text, entries)
    assert [part.entries for part in parts] == [(entry,) for entry in entries]
    assert all(part.text.count("__global__") == 1 for part in parts)


@pytest.mark.parametrize(
    "version, options", [((12, 0), ()), ((12, 8), ()), ((12, 9), ("--no-cache",)), ((13, 0), ("--no-cache",))]
)
def test_a_cache_of_nvrtc_is_not_asked(version: tuple[int, int], options: tuple[str, ...]) -> None:
    """It does not say what a kernel takes of the machine."""
    assert nvrtc_options(version) == options


@pytest.mark.skipif(find_nvrtc() is None, reason="no NVRTC")
def test_a_kernel_compiled_again_says_again_what_it_takes() -> None:
    compiler = find_nvrtc()
    assert compiler is not None
    text = parts_of(SAMPLE, ("up",))[0].text
    logs = [compiler.compile_text(text, "sm_90a")[1] for _ in range(2)]
    first, second = (usage_of(Cubin(b"", "sm_90a", compiler.name, log)) for log in logs)
    assert first == second and first.keys() == {"up"}


@pytest.mark.skipif(find_nvrtc() is None, reason="no NVRTC")
def test_parts_compile_as_the_whole_does() -> None:
    cubins = cubins_of(SAMPLE, "sm_90a", compiler=find_nvrtc())
    assert usage_of(*cubins.values()).keys() == {"up", "down"}
    assert all(u.spill_stores == u.stack == 0 for u in usage_of(*cubins.values()).values())


NVRTC, NVCC = (
    Compiler("nvrtc 13.0", lambda text, arch: (b"", ""), 13),
    Compiler("nvcc 12.8", lambda text, arch: (b"", "")),
)


@pytest.mark.parametrize(
    ("nvrtc", "nvcc", "driver", "wanted"),
    [
        (NVRTC, NVCC, 13, NVRTC),
        (NVRTC, NVCC, None, NVRTC),
        (NVRTC, NVCC, 12, NVCC),
        (NVRTC, None, 12, NVRTC),
        (None, NVCC, 13, NVCC),
    ],
)
def test_nvrtc_compiles_unless_the_driver_is_older(
    nvrtc: Compiler | None, nvcc: Compiler | None, driver: int | None, wanted: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, found in (("find_nvrtc", nvrtc), ("find_nvcc", nvcc), ("driver_major", driver)):
        monkeypatch.setattr(compiling, name, lambda found=found: found)
    assert compiling.find_compiler.__wrapped__() is wanted


def test_without_a_compiler_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("find_nvrtc", "find_nvcc"):
        monkeypatch.setattr(compiling, name, lambda: None)
    with pytest.raises(Refused) as refused:
        compiling.find_compiler.__wrapped__()
    assert [d.code for d in refused.value.diags] == ["E1715"]
    assert "libnvrtc" in str(refused.value) and "nvcc" in str(refused.value)
