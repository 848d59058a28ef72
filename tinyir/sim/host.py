"""The host C++ compiler: the launcher and emitted texts as shared objects.

An emitted text is compiled unchanged, between `shim/device.hpp` (what CUDA gives without an include) and
`shim/twins.hpp` (the CPU twins of its PTX wrappers, which it hides under `#ifndef TINYIR_SIM`). The one change: dynamic
shared memory, declared without a size, is given one. Indices into shared and register arrays and the alignment of
vector accesses are checked by traps.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ..ir.manifest import CALL_OF_SIZED
from ..kit.diag import Diag, Refused, refuse
from ..kit.phrase import Phrase
from ..kit.span import span_of_line
from ..runtime.cache import built, key_of

SHIM = Path(__file__).parent / "shim"
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE", "-fno-exceptions", "-fno-rtti", "-w")
LAUNCHER_FLAGS = ("-O3", "-march=native")
KERNEL_FLAGS = (
    "-O2",
    "-march=native",
    "-g1",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-optimize-sibling-calls",
    "-fno-thread-jumps",  # else threads that came another way make the same call from another place
    "-DTINYIR_SIM",
    "-fstack-clash-protection",
)
CHECKS = "-fsanitize=bounds,alignment"
# "traced" calls back for each access to memory; "bare" is faster and finds less; "asan" is for a process in which
# libasan is loaded
MODES = {
    "traced": ("-fsanitize=thread", CHECKS),
    "bare": (CHECKS,),
    "asan": ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"),
}
LOCATED = re.compile(r"^[^:\n]*?kernel\.cu:(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE)
STORAGE_TYPE = re.compile(r"\bstruct\s+(?:alignas\(\d+\)\s+)?(fp16|bf16|tensor_map)\s*\{")
MATRIX_PRODUCT = re.compile(
    r"\b(wgmma_m64n(\d+)k\d+_(fp16|bf16|fp8e4m3|fp8e5m2|tf32)(?:_(fp8e4m3|fp8e5m2))?)(?:_of_registers)?\b"
)
FACTORS = ("fp16", "bf16", "fp8e4m3", "fp8e5m2", "tf32")  # as shim/numbers.hpp counts them
DYNAMIC_SHARED = re.compile(
    r"\bextern\s+__shared__\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]"
)
LAUNCHER_SOURCES = (
    "abi.h",
    "fiber.hpp",
    "numbers.hpp",
    "memory.hpp",
    "watch.hpp",
    "machine.hpp",
    "global.hpp",
    "shadow.hpp",
    "barriers.hpp",
    "copies.hpp",
    "matrix.hpp",
    "trace.hpp",
    "launcher.cpp",
)
KERNEL_SOURCES = ("abi.h", "device.hpp", "mathematics.hpp", "numbers.hpp", "warp.hpp", "twins.hpp")


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
    flags = (*FLAGS, *LAUNCHER_FLAGS, "-shared")
    key = key_of([version, _processor(), *flags, *((SHIM / name).read_bytes() for name in LAUNCHER_SOURCES)])
    return built(
        "sim",
        key,
        ".so",
        lambda out: _compile([path, *flags, "-o", str(out), str(SHIM / "launcher.cpp"), "-ldl", "-lrt"], ""),
    )


def kernels_of(text: str, kernels: tuple[str, ...], dynamic_shared: int, mode: str = "traced") -> Path:
    """The shared object of an emitted text, with an entry `tinyir_call_NAME` for each of `kernels`. `dynamic_shared`:
    bytes that the largest launch asks for. `mode` is one of MODES. Raises Refused (E1720 no compiler, E1721 the
    compiler refuses the text)."""
    path, version = find_compiler()
    whole = _unit_of(text, kernels, dynamic_shared)
    trap = (
        ()
        if mode == "asan"
        else ("-fsanitize-trap=bounds,alignment",)
        if "clang" in version
        else ("-fsanitize-undefined-trap-on-error",)
    )
    flags = (*FLAGS, *KERNEL_FLAGS, *MODES[mode], *trap)
    key = key_of([version, _processor(), *flags, *((SHIM / name).read_bytes() for name in KERNEL_SOURCES), whole])

    def build(out: Path) -> None:
        part = out.with_suffix(".o")  # in two steps: the linker must not bring the sanitizer's own runtime
        try:
            _compile([path, *flags, f"-I{SHIM}", "-x", "c++", "-c", "-o", str(part), "-"], whole)
            _compile([path, "-shared", "-o", str(out), str(part)], "")
        finally:
            part.unlink(missing_ok=True)

    return built("sim", key, ".so", build)


def code_of(text: str) -> str:
    """An emitted text without its comments, which carry names of the model and are no code."""
    return re.sub(r"//[^\n]*", "", text)


def _unit_of(text: str, kernels: tuple[str, ...], dynamic_shared: int) -> str:
    code = code_of(text)
    dynamic = dict.fromkeys((found[1], found[2]) for found in DYNAMIC_SHARED.finditer(code))
    arrays = [
        f"alignas(1024) thread_local {dtype} {name}[{max(dynamic_shared, 1)} / sizeof({dtype}) + 1];"
        for dtype, name in dynamic
    ]
    types = [f"#define TINYIR_HAS_{name}" for name in dict.fromkeys(STORAGE_TYPE.findall(code))]
    entries = [f"TINYIR_SIM_KERNEL({name})" for name in kernels]
    first = next((name for _, name in dynamic), None)
    found = f"*bytes = sizeof({first}); return {first};" if first else "*bytes = 0; return nullptr;"
    entries.append(f"TINYIR_SIM_EXPORT void* tinyir_dynamic(size_t* bytes) {{ {found} }}")
    before, after = (
        ['#include "device.hpp"', '#line 1 "kernel.cu"'],
        ['#line 1 "entries"', *types, '#include "twins.hpp"', *_products_in(code)],
    )
    return "\n".join([*before, text, *after, *arrays, *entries, ""])


def _products_in(text: str) -> list[str]:
    """A twin for each matrix product of a warpgroup that the text names."""
    found = dict.fromkeys(m.groups() for m in MATRIX_PRODUCT.finditer(text))
    made = []
    for name, n, left, right in found:
        kinds = ", ".join(str(FACTORS.index(dtype)) for dtype in (left, right or left))
        made.append(f"TINYIR_WGMMA{'' if left in ('fp16', 'bf16') else '_ALONG'}({name}, {n}, {kinds})")
    return made


def _compile(command: list[str], source: str) -> None:
    done = subprocess.run(command, input=source, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode == 0:
        return
    located = LOCATED.findall(done.stderr)
    if not located:
        raise refuse(
            "E1721",
            fault=done.stderr.strip()[:400]
            or Phrase("{command} gave {returncode}", command=command[0], returncode=done.returncode),
        )
    text = source.split('#line 1 "kernel.cu"\n', 1)[-1]
    places = [(span_of_line(text, int(line), int(column or 0)), fault) for line, column, fault in located[:10]]
    raise Refused([Diag("E1721", facts={"fault": fault}, span=span) for span, fault in places])


def find_lines(shared_object: Path, offsets: Iterable[int], text: str) -> dict[int, int]:
    """For each offset the line of the emitted text that the instruction there was made from; without those that
    binutils' addr2line cannot tell. Of the calls that were inlined into each other it is the last, the kernel's own;
    of a kernel that only calls a function of integers the line of that."""
    wanted = sorted({offset for offset in offsets if offset})
    tool = shutil.which("addr2line")
    if not tool or not wanted:
        return {}
    command = [tool, "-i", "-a", "-e", str(shared_object), *map(hex, wanted)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines: dict[int, int] = {}
    calls = {number for number, line in enumerate(text.split("\n"), 1) if CALL_OF_SIZED.search(line)}
    offset = 0
    for line in shown.splitlines():
        found = re.search(r"kernel\.cu:(\d+)", line)
        if line.startswith("0x"):
            offset = int(line, 16)
        elif found and int(found[1]) not in calls:
            lines[offset] = int(found[1])
    return lines


@functools.cache
def shared_arrays(shared_object: Path) -> tuple[tuple[int, int, str], ...]:
    """`(offset, bytes, name)` of each shared array, as binutils' readelf tells; empty without it."""
    tool = shutil.which("readelf")
    if not tool:
        return ()
    shown = subprocess.run([tool, "-sW", str(shared_object)], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^ *\d+: ([0-9a-f]+) +(\d+|0x[0-9a-f]+) TLS +\w+ +\w+ +\w+ (\S+)$", shown, re.MULTILINE)
    return tuple((int(start, 16), int(size, 0), _plain(name)) for start, size, name in dict.fromkeys(found))


def _plain(name: str) -> str:
    """`_ZZ4gemmE1a`, which is `a` of `gemm`, without the mangling."""
    inner = re.search(r"E(\d+)(\w+)", name) if name.startswith("_ZZ") else None
    return inner[2][: int(inner[1])] if inner else name


@functools.cache
def _processor() -> str:
    """What -march=native means here, as far as the system tells."""
    import platform

    try:
        flags = re.search(
            r"^(?:flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:
        flags = None
    return platform.machine() + (flags[0] if flags else platform.processor())
