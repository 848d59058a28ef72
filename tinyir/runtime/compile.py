"""CUDA text to cubin: by the NVRTC library (of a CUDA toolkit or of the nvidia-cuda-nvrtc package), which takes a third
of nvcc's time, else by nvcc.

A cubin is kept under the sha256 of text, compiler and architecture, with the compiler's log beside it. The kernels of a
program are compiled one by one, side by side.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..kit.diag import Diag, Refused, refuse
from ..kit.kept import keep, kept
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.span import span_of_line
from ..kit.work import count, span
from .cache import key_of, scratch, writing
from .parts import Part, parts_of

OPTIONS = ("-std=c++17", "-lineinfo")
LOCATED = re.compile(r"kernel\.cu\((\d+)\)(?:: |:\d+: )error:? ?(.*)$", re.MULTILINE)
USAGE = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores"
    r", (?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes "
r"smem)?", re.DOTALL)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture (`sm_90a`). `log` is what the compiler said, with ptxas' account of each
    kernel's resources."""

    image: bytes
    arch: str
    compiler: str
    log: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What one kernel uses, as ptxas says: registers a thread; bytes of stack, spilled stores and loads, and static
    shared memory."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True, slots=True)
class Compiler:
    """A CUDA compiler: its `name` with the version, `(text, arch) -> (cubin, log)`, which raises CompilerFault, and the
    major version of CUDA that it belongs to."""

    name: str
    compile_text: Callable[[str, str], tuple[bytes, str]]
    major: int = 0


class CompilerFault(Exception):
    """The compiler refuses the text; `args[0]` is its log."""


def cubins_of(
    text: str,
    arch: str,
    entries: Iterable[str] | None = None,
    compiler: Compiler | None = None,
    jobs: int | None = None,
) -> dict[str, Cubin]:
    """The cubin of each entry of an emitted text (default: of each kernel), compiled by itself (`parts`), several at a
    time (default: one a core of this process). Raises Refused with all faults (E1715 no compiler, E1716 the compiler
    refuses a kernel)."""
    chosen = compiler or find_compiler()
    parts = parts_of(text, entries)

    def compiled(part: Part) -> Cubin | Refused:
        try:
            return cubin_of(part.text, arch, chosen, part.lines, text)
        except Refused as fault:
            return fault

    with ThreadPoolExecutor(min(jobs or cores(), max(1, len(parts)))) as threads:
        found = list(threads.map(compiled, parts))
    if faults := [one for one in found if isinstance(one, Refused)]:
        raise Refused([d for fault in faults for d in fault.diags])
    return {name: one for part, one in zip(parts, found) if isinstance(one, Cubin) for name in part.entries}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cubin_of(
    text: str, arch: str, compiler: Compiler | None = None, lines: Sequence[int] = (), whole: str | None = None
) -> Cubin:
    """The cubin of an emitted text for `arch`; where it is a part of a `whole` one, `lines` are the lines of that which
    its own are. Raises Refused (E1715 no compiler, E1716 the compiler refuses the text)."""
    chosen = compiler or find_compiler()
    name = f"cubin/{key_of([text, chosen.name, arch, *OPTIONS])}.cubin"
    found = kept(name)
    if found is not None:
        size, _, rest = found.partition(b"\n")
        return Cubin(rest[: int(size)], arch, chosen.name, rest[int(size) :].decode())
    count("texts compiled")
    try:
        with span("compile", arch):
            image, log = chosen.compile_text(text, arch)
    except CompilerFault as fault:
        raise Refused(_faults_of(whole or text, fault.args[0], chosen.name, lines)) from None
    keep(name, b"%d\n" % len(image) + image + log.encode())
    return Cubin(image, arch, chosen.name, log)


def usage_of(*cubins: Cubin) -> dict[str, Usage]:
    """Each kernel's use of the machine, from the logs."""
    return {
        found["kernel"]: Usage(
            int(found["registers"]),
            int(found["stack"]),
            int(found["stores"]),
            int(found["loads"]),
            int(found["shared"] or 0),
        )
        for cubin in cubins
        for found in USAGE.finditer(cubin.log)
    }


@functools.cache
def find_compiler() -> Compiler:
    """NVRTC, unless it is newer than this machine's driver, which could not load what it makes; else nvcc. Raises
    Refused (E1715)."""
    nvrtc, driver = find_nvrtc(), driver_major()
    if nvrtc is not None and (driver is None or nvrtc.major <= driver):
        return nvrtc
    nvcc = find_nvcc()
    if nvcc is None and nvrtc is None:
        raise refuse(
            "E1715",
            tried=Phrase(
                "libnvrtc of a toolkit or of the nvidia-cuda-nvrtc package; nvcc on PATH, in CUDA_HOME and "
                "/usr/local/cuda"
            ),
        )
    return nvcc or nvrtc


def driver_major() -> int | None:
    """The major version of CUDA that this machine's driver speaks; None without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    return None if library.cuDriverGetVersion(ctypes.byref(version)) else version.value // 1000


def find_nvcc() -> Compiler | None:
    """The nvcc on PATH, in CUDA_HOME or CUDA_PATH, or in /usr/local/cuda; None when there is none."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    path = shutil.which("nvcc") or next(
        (p for home in homes if home and (p := shutil.which("nvcc", path=os.path.join(home, "bin")))), None
    )
    if path is None:
        return None
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release [\d.]+, V([\d.]+)", shown)
    return Compiler(f"nvcc {release[1] if release else shown.strip()}", functools.partial(_by_nvcc, path))


def find_nvrtc() -> Compiler | None:
    """NVRTC by its shared library; None when none can be loaded."""
    for path in _nvrtc_paths():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        name = f"nvrtc {major.value}.{minor.value}"
        return Compiler(name, functools.partial(_by_nvrtc, library, (major.value, minor.value)), major.value)
    return None


def nvrtc_options(version: tuple[int, int]) -> tuple[str, ...]:
    """What is asked of an NVRTC of this (major, minor) alone. From 12.9 on it has a cache of its own, and of a kernel
    that it finds there it does not say what it takes of the machine; we keep cubins ourselves, with what was said."""
    return ("--no-cache",) if version >= (12, 9) else ()


def _nvrtc_paths() -> list[str]:
    folders = [Path(p) / "nvidia" for p in sys.path if p]
    wheels = [
        found
        for folder in folders
        if folder.is_dir()
        for found in sorted(folder.glob("*/lib/libnvrtc.so.*"), reverse=True)
    ]
    for library in wheels:
        for builtins in library.parent.glob(
            "libnvrtc-builtins.so.*"
        ):  # NVRTC opens it by its bare name, which finds it once it is loaded
            try:
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                pass
    return [*map(str, wheels), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


def _by_nvcc(path: str, text: str, arch: str) -> tuple[bytes, str]:
    with scratch() as folder:
        source, out = folder / "kernel.cu", folder / "kernel.cubin"
        with writing():
            source.write_text(text, encoding="utf-8")
        command = [path, "-cubin", f"-arch={arch}", "-O3", *OPTIONS, "-Xptxas", "-v", "-o", str(out), "kernel.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            raise CompilerFault(done.stdout + done.stderr)
        return out.read_bytes(), done.stdout + done.stderr


def _by_nvrtc(library: ctypes.CDLL, version: tuple[int, int], text: str, arch: str) -> tuple[bytes, str]:
    program = ctypes.c_void_p()
    options = [f"--gpu-architecture={arch}", *OPTIONS, "--ptxas-options=-v", *nvrtc_options(version)]
    array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    _must(library.nvrtcCreateProgram(ctypes.byref(program), text.encode("utf-8"), b"kernel.cu", 0, None, None))
    try:
        result = library.nvrtcCompileProgram(program, len(options), array)
        log = (
            _bytes_of(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
            .rstrip(b"\0")
            .decode("utf-8", "replace")
        )
        if result:
            raise CompilerFault(log or Phrase("nvrtc gave {result}", result=result))
        return _bytes_of(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes_of(ask_size: Any, ask: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _must(ask_size(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _must(ask(program, buffer))
    return buffer.raw


def _must(result: int) -> None:
    if result:
        raise CompilerFault(Phrase("nvrtc gave {result}", result=result))


def _faults_of(text: str, log: str, compiler: str, lines: Sequence[int] = ()) -> list[Diag]:
    located = [(int(line), fault) for line, fault in LOCATED.findall(log)]
    if not located:
        return [Diag("E1716", facts={"compiler": compiler, "fault": log.strip()[:400] or Phrase("it gave no reason")})]
    return [
        Diag(
            "E1716",
            facts={"compiler": compiler, "fault": fault},
            span=span_of_line(text, lines[min(line, len(lines)) - 1] if lines else line),
        )
        for line, fault in located[:10]
    ]
