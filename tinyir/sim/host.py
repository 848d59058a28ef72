"""The host C++ compiler: the launcher and emitted texts as shared objects.

An emitted text is compiled as it stands, between `shim/device.hpp` (what CUDA gives without an include) and `shim/twins.hpp` (the CPU
twins of its PTX wrappers, which it hides under `#ifndef TINYIR_SIM`). The one change: dynamic shared memory, declared without a size, is
given one; and kernels that are not launched are left out. Indices into shared and register arrays and the alignment of vector accesses
are checked by traps.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

from ..kit.diag import Diag, Refused, refuse
from ..kit.span import span_of_line
from ..runtime.cache import built, key_of

SHIM = Path(__file__).parent / "shim"
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE", "-fno-exceptions", "-fno-rtti", "-w")
KERNEL_FLAGS = (
    "-march=native", "-g1", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-DTINYIR_SIM",
    "-fsanitize=bounds,alignment", "-fstack-clash-protection",
)  # fmt: skip
LOCATED = re.compile(r"^[^:\n]*?kernel\.cu:(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE)
STORAGE_TYPE = re.compile(r"\bstruct\s+(\w+)\s*\{\s*unsigned (?:short|char) bits;")
KERNEL = re.compile(r'^extern "C" __global__ void (?:__\w+__\([^)]*\)\s*)*(?P<entry>\w+)\([^{;]*\)\s*\{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
DYNAMIC_SHARED = re.compile(r"\bextern\s+__shared__\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]")


@functools.cache
def find_compiler() -> tuple[str, str]:
    """`(path, first line of its --version)` of the first C++ compiler on PATH. Raises Refused (E1720)."""
    for name in COMPILERS:
        path = shutil.which(name)
        if path:
            shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, shown.split("\n", 1)[0]
    raise refuse("E1720", tried=", ".join(COMPILERS))


def launcher() -> Path:
    """The shared object of `shim/launcher.cpp`."""
    path, version = find_compiler()
    key = key_of([version, *FLAGS, *(s.read_bytes() for s in _sources("abi.h", "fiber.hpp", "memory.hpp", "watch.hpp", "launcher.cpp"))])
    return built("sim", key, ".so", lambda out: _compile([path, *FLAGS, "-o", str(out), str(SHIM / "launcher.cpp"), "-ldl", "-lrt"], ""))


def kernels_of(text: str, kernels: tuple[str, ...], dynamic_shared: int) -> Path:
    """The shared object of an emitted text, with an entry `tinyir_call_NAME` for each of `kernels`. `dynamic_shared`: bytes that the
    largest launch asks for. Raises Refused (E1720 no compiler, E1721 the compiler refuses the text)."""
    path, version = find_compiler()
    whole = _unit_of(text, kernels, dynamic_shared)
    trap = ("-fsanitize-trap=all",) if "clang" in version else ("-fsanitize-undefined-trap-on-error",)
    flags = (*FLAGS, *KERNEL_FLAGS, *trap)
    headers = (s.read_bytes() for s in _sources("abi.h", "device.hpp", "numbers.hpp", "warp.hpp", "twins.hpp"))
    key = key_of([version, _processor(), *flags, *headers, whole])

    def build(out: Path) -> None:
        _compile([path, *flags, f"-I{SHIM}", "-x", "c++", "-o", str(out), "-"], whole)

    return built("sim", key, ".so", build)


def _only(text: str, kernels: tuple[str, ...]) -> str:
    """The text without kernels that are not launched, whose wrappers may have no twin; lines keep their numbers."""
    return KERNEL.sub(lambda found: found[0] if found["entry"] in kernels else "\n" * found[0].count("\n"), text)


def _unit_of(text: str, kernels: tuple[str, ...], dynamic_shared: int) -> str:
    text = _only(text, kernels)
    dynamic = dict.fromkeys((found[1], found[2]) for found in DYNAMIC_SHARED.finditer(text))
    arrays = [f"alignas(1024) thread_local {dtype} {name}[{max(dynamic_shared, 1)} / sizeof({dtype}) + 1];" for dtype, name in dynamic]
    types = [f"#define TINYIR_HAS_{name}" for name in dict.fromkeys(STORAGE_TYPE.findall(text))]
    entries = [f"TINYIR_SIM_KERNEL({name})" for name in kernels]
    before, after = ['#include "device.hpp"', '#line 1 "kernel.cu"'], ['#line 1 "entries"', *types, '#include "twins.hpp"', *arrays, *entries]
    return "\n".join([*before, text, *after, ""])


def _compile(command: list[str], source: str) -> None:
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    located = LOCATED.findall(done.stderr)
    if not located:
        raise refuse("E1721", fault=done.stderr.strip()[:400] or f"{command[0]} gave {done.returncode}")
    text = source.split('#line 1 "kernel.cu"\n', 1)[-1]
    places = [(span_of_line(text, int(line), int(column or 0)), fault) for line, column, fault in located[:10]]
    raise Refused([Diag("E1721", facts={"fault": fault}, span=span) for span, fault in places])


def find_line(shared_object: Path, offset: int) -> int:
    """The line of the emitted text that the instruction at `offset` was made from; 0 when binutils' addr2line cannot tell."""
    tool = shutil.which("addr2line")
    if not tool:
        return 0
    shown = subprocess.run([tool, "-i", "-e", str(shared_object), hex(offset)], capture_output=True, text=True, check=False).stdout
    found = re.search(r"kernel\.cu:(\d+)", shown)
    return int(found[1]) if found else 0


def _sources(*names: str) -> list[Path]:
    return [SHIM / name for name in names]


@functools.cache
def _processor() -> str:
    """What -march=native stands for here, as far as the system tells."""
    import platform

    try:
        flags = re.search(r"^(?:flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        flags = None
    return platform.machine() + (flags[0] if flags else platform.processor())
