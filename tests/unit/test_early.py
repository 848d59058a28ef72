"""Launches that start while the one before it drains: which kernels say so, what the checkers name, what is asked of
the driver, and what the compiler leaves in its place."""

from __future__ import annotations

import ctypes
import functools
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyir.front.json import read
from tinyir.ir import gpu, manifest, region
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.lower.gpu.early import with_early_starts
from tinyir.runtime import driver
from tinyir.runtime.compile import cubin_of, find_compiler, find_nvrtc
from tinyir.runtime.cuda import CudaDevice
from tinyir.runtime.program import Program
from tinyir.target.arch import ARCHS

from .checked import check_gpu
from .emitted import region_text
from .fake_cuda import Machine, machine  # noqa: F401
from .families import FAMILIES, family
from .test_api import LAYERS

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("wait_previous", "launch_next")
CHAIN = """\
tinyir 1.0 region

model m
  in  X           : fp32[N]
  out Y           : fp32[N]

program m
  buffer H           : fp32[N]
  buffer G           : fp32[N]

region first
  in  X           : fp32[N]
  out H           : fp32[N]
  for i0: N
  yield H[i0] = relu(X[i0])

region second
  in  H           : fp32[N]
  out G           : fp32[N]
  for i0: N
  yield G[i0] = H[N - i0 - 1]

region third
  in  G           : fp32[N]
  out Y           : fp32[N]
  for i0: N
  yield Y[i0] = exp2(G[N - i0 - 1])
"""


@functools.cache
def chain(arch: str = "sm90") -> gpu.Module:
    """Three launches, each reading what the one before it wrote."""
    return lower_to("gpu", lower_to("plan", region.parse(CHAIN), arch), arch)


def said_in(kernel: gpu.Kernel) -> tuple[str, ...]:
    """The words of a kernel's body, at its top."""
    return tuple(line.strip() for line in gpu.show_kernel(kernel).splitlines() if line.strip() in WORDS)


# --- texts


def test_each_waits_for_the_one_in_front_and_lets_the_next_come_up() -> None:
    assert [said_in(k) for k in chain().kernels] == [WORDS[1:], WORDS, WORDS[:1]]
    code = lower_to("cu", chain(), "sm90")
    assert [launch.is_early for launch in code.launches] == [False, True, True]
    assert manifest.parse(manifest.show(code)) == code and manifest.check(code) == []


def test_no_other_architecture_has_it() -> None:
    assert [said_in(k) for k in chain("sm80").kernels] == [(), (), ()]
    assert not any(launch.is_early for launch in lower_to("cu", chain("sm80"), "sm80").launches)
    text = gpu.show(chain()).replace(" : sm90", " : sm80")
    assert {d.code for d in check_gpu(gpu.parse(text)) if d.is_error} >= {"E1602"}


def test_one_alone_stays_as_it_is() -> None:
    text = region_text("in X : fp32[N]\nout Y : fp32[N]", "for i0: N\nyield Y[i0] = relu(X[i0])")
    assert [said_in(k) for k in lower_to("gpu", lower_to("plan", region.parse(text), "sm90"), "sm90").kernels] == [()]


def named(name: str, regions: str, serves: str = "", is_once: bool = False) -> gpu.Kernel:
    """The first kernel of the chain with another head."""
    (setup, *rest) = (s for s in chain().kernels[0].body if not isinstance(s, gpu.nodes.EARLY))
    return gpu.Kernel(
        name, (regions,), "sm90", chain().kernels[0].grid, (128,), (setup, *rest), serves=serves, is_once=is_once
    )


def test_alternatives_do_not_follow_one_another_and_what_is_made_once_runs_by_itself() -> None:
    kernels = [named("a.keep", "a", "a", True), named("a.pad", "a", "a"), named("a", "a"), named("a.2", "a")]
    assert [said_in(k) for k in with_early_starts(kernels)] == [(), WORDS[1:], WORDS[:1], ()]
    kernels.append(named("b", "b"))
    assert [said_in(k) for k in with_early_starts(kernels)] == [(), WORDS[1:], WORDS, WORDS[1:], WORDS[:1]]


@pytest.mark.parametrize("name", FAMILIES)
def test_words_stand_behind_the_setup_and_before_any_role(name: str) -> None:
    module = gpu.parse(family(name).kernels)
    for kernel in module.kernels:
        places = [n for n, s in enumerate(kernel.body) if isinstance(s, gpu.nodes.EARLY)]
        assert len(places) == len(said_in(kernel))
        assert not any(isinstance(s, gpu.nodes.Role) for s in kernel.body[: max(places, default=0)])
    made_each_time = [k for k in module.kernels if not k.is_once and ARCHS[k.arch].has_tma]
    if len(made_each_time) > 1 and made_each_time[0].serves == made_each_time[-1].name:
        assert all(said_in(k) for k in made_each_time)


# --- planted faults

PLANTED = {  # in the chain's second kernel: what is replaced by what, and a part of what the checker says
    "a wait behind the accesses": (r"\n  wait_previous\n((?:  [^\n]+\n)+)", r"\n\1  wait_previous\n", "may still run"),
    "a read before the wait": (
        r"\n  wait_previous\n",
        r"\n  choose early = cast(H[0]) : i32 below N\n  wait_previous\n",
        "may still run",
    ),
    "a write before the wait": (
        r"\n  wait_previous\n",
        r"\n  if i0 < N\n    store G[i0] = 0.0\n  wait_previous\n",
        "may still run",
    ),
    "a wait of some threads": (r"\n  wait_previous\n", r"\n  if i0 < N\n    wait_previous\n", "is in a block"),
    "two waits": (r"\n  wait_previous\n", r"\n  wait_previous\n  wait_previous\n", "is there twice"),
    "the next before the wait": (
        r"\n  wait_previous\n  launch_next\n",
        r"\n  launch_next\n  wait_previous\n",
        "before wait_previous",
    ),
    "the next in a block": (r"\n  launch_next\n", r"\n  if i0 < N\n    launch_next\n", "is in a block"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_named(name: str) -> None:
    pattern, replacement, part = PLANTED[name]
    before, second = gpu.show(chain()).split("\nkernel second", 1)
    second, third = second.split("\nkernel third", 1)
    changed, count = re.subn(pattern, replacement, second)
    assert count == 1
    found = check_gpu(gpu.parse(f"{before}\nkernel second{changed}\nkernel third{third}"))
    assert any(d.code == "E1682" and d.at == "second" and part in str(d.facts["fault"]) for d in found), [
        (d.code, dict(d.facts)) for d in found
    ]


def test_a_copy_engine_before_the_wait_is_named() -> None:
    """The wait behind the roles: the engine's maps name the tensors."""
    text = (ROOT / "samples" / "mlp" / "mlp.gpu").read_text(encoding="utf-8")
    late = re.sub(r"\n  wait_previous\n((?:  [^\n]+\n)+)", r"\n\1  wait_previous\n", text)
    assert late != text
    assert {d.facts["name"] for d in check_gpu(gpu.parse(late)) if d.code == "E1682"} == {"H", "W2", "b2", "Y"}


WRONG = {  # in the chain's .cu, edited by hand
    "no wait": (r"\n  wait_previous\(\);", ""),
    "a wait in a comment": (r"\n  wait_previous\(\);", r"\n  // wait_previous();"),
    "a wait in a comment of many lines": (r"\n  wait_previous\(\);", r"\n  /*\n  wait_previous();\n  */"),
    "early where nothing waits": (r"(//   launch first [^\n]*)", r"\1 early"),
    "early on another architecture": (r"(//   launch second : sm)90", r"\g<1>80"),
}


@pytest.mark.parametrize("name", WRONG)
def test_code_that_does_not_wait_must_not_start_early(name: str) -> None:
    pattern, replacement = WRONG[name]
    text, count = re.subn(pattern, replacement, manifest.show(lower_to("cu", chain(), "sm90")), count=1)
    assert count == 1 and [d.code for d in manifest.check(manifest.parse(text))] == ["E1634"]


# --- the driver


def test_structs_are_laid_out_as_in_cuda_h() -> None:
    assert ctypes.sizeof(driver.LaunchAttribute) == 72 and driver.LaunchAttribute.number.offset == 8
    assert [
        getattr(driver.LaunchConfig, n).offset for n in ("grid", "block", "shared", "stream", "attributes", "count")
    ] == [0, 12, 24, 32, 40, 48]
    assert ctypes.sizeof(driver.LaunchConfig) == 56


@pytest.mark.parametrize(("overlaps", "version"), [(True, 13000), (False, 13000), (True, 12020)])
def test_the_attribute_is_given_to_all_but_the_first(machine: Machine, overlaps: bool, version: int) -> None:  # noqa: F811
    machine.version = version
    code = lower_to("cu", chain(), "sm90")
    device = CudaDevice(overlaps=overlaps)
    Program(device, manifest.show(code), code, {"N": 1000}).enqueue()
    device.release()
    asked = [call[3:] for call in machine.calls if call[0] == "launch"]
    assert asked == [(), *[((6, 1),) if overlaps and version >= 12030 else ()] * 2]


def test_the_first_that_is_made_is_not_early(machine: Machine) -> None:  # noqa: F811
    """Launches with nothing to write are left out."""
    text = re.sub(r"((?:in  X|buffer H|in  H|out H) +: fp32)\[N\]", r"\1[M]", CHAIN).replace(
        "fp32[M]\n  for i0: N", "fp32[M]\n  for i0: M"
    )
    text = text.replace("H[N - i0 - 1]", "(H[i0]) where i0 < M else 0.0")
    code = lower_to("cu", lower_to("gpu", lower_to("plan", region.parse(text), "sm90"), "sm90"), "sm90")
    device = CudaDevice()
    Program(device, manifest.show(code), code, {"N": 1000, "M": 0}).enqueue()
    device.release()
    assert [call[3:] for call in machine.calls if call[0] == "launch"] == [(), ((6, 1),)]


# --- what is assembled

# of sm_90, as are what touches global memory: loads, stores, atomics, cp.async, and the copy engine's loads and stores
WAIT = 0x82E
ACCESSES = {0x980, 0x981, 0x985, 0x986, 0x9A6, 0x9A8, 0x3A9, 0xFAE, 0x5B4, 0x3B5}
INSTRUCTION = 16  # bytes


def sections_of(image: bytes) -> Iterator[tuple[str, bytes]]:
    """The sections of an ELF file."""
    (start,) = struct.unpack_from("<Q", image, 0x28)
    count, names = struct.unpack_from("<HH", image, 0x3C)
    heads = [struct.unpack_from("<IIQQQQ", image, start + 64 * n) for n in range(count)]
    for name, _, _, _, offset, size in heads:
        begin = heads[names][4] + name
        yield image[begin : image.index(0, begin)].decode(), image[offset : offset + size]


def opcodes_of(image: bytes) -> dict[str, list[int]]:
    """The instructions of each kernel, in their order."""
    found = ((name.removeprefix(".text."), code) for name, code in sections_of(image) if name.startswith(".text."))
    return {
        name: [struct.unpack_from("<H", code, at)[0] & 0xFFF for at in range(0, len(code), INSTRUCTION)]
        for name, code in found
    }


def has_compiler() -> bool:
    """Whether nvcc or NVRTC is here."""
    try:
        return bool(find_compiler().name)
    except Refused:
        return False


def several() -> dict[str, str]:
    """CUDA texts of several launches: of each family that has some, of layers, of the chain."""
    made = {name: family(name).text for name in FAMILIES if " early\n" in family(name).text}
    layers = read(json.dumps(LAYERS))
    for stage in ("index", "poly", "region", "plan", "gpu", "cu"):
        layers = lower_to(stage, layers, "sm90")
    return {**made, "layers": manifest.show(layers), "chain": manifest.show(lower_to("cu", chain(), "sm90"))}


@pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
def test_the_assembler_moves_no_access_before_the_wait() -> None:
    """Loads that nothing in the kernel overwrites need no order for the compiler; they stay behind the wait all the
    same."""
    looked_at = 0
    for name, text in several().items():
        cubin = cubin_of(text, "sm_90a", find_nvrtc() or find_compiler())
        assert "warning" not in cubin.log.lower()
        code = opcodes_of(cubin.image)
        for launch in (launch for launch in manifest.parse(text).launches if launch.is_early):
            found = code[launch.entry]
            wait = found.index(WAIT)
            assert not ACCESSES & set(found[:wait]) and ACCESSES & set(found[wait:]), (name, launch.entry)
            looked_at += 1
    assert looked_at > 10
