"""What was found, kept so that it can be repeated and committed: a folder with an input and a command, or a program and
its arrays.

    python -m tests.fuzz.cases tests/fuzz/finds/NAME        # says what is wrong, and ends with 1; or with 0
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np

from tinyir.ir import tiny
from tinyir.runtime.arrays import write_arrays

from . import sandbox
from .shrink import Case, smallest
from .trial import Fault, faults_of

FINDS = Path(__file__).parent / "finds"
GOOD = (0, 1, 2)  # how a command may end
SECONDS = 60  # of CPU
INPUT = "{input}"  # in a command: the input is a file, not stdin


def keep_input(folder: Path, line: tuple[str, ...], raw: bytes) -> None:
    """Keep a run of a command on an input."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "input").write_bytes(raw)
    (folder / "command").write_text(shlex.join(line) + "\n", encoding="utf-8")


def keep_program(folder: Path, case: Case, arch: str, device: str) -> None:
    """Keep a program that was planned for `arch` and run on `device`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.tiny").write_text(tiny.show(case.module), encoding="utf-8")
    write_arrays(str(folder / "inputs.npz"), case.arrays)
    (folder / "command").write_text(f"program --arch={arch} --device={device}\n", encoding="utf-8")


def shrunk(case: Case, fault: Fault, arch: str, device: str, most: int) -> Case:
    """The smallest program found that has a fault of this kind at this stage."""

    def is_wrong(smaller: Case) -> bool:
        found = faults_of(smaller.module, smaller.arrays, arch, device)
        return [(f.stage, f.kind) for f in found] == [(fault.stage, fault.kind)]

    return smallest(case, is_wrong, most)


def repeat(folder: Path) -> str:
    """What is wrong with a kept case, or nothing."""
    words = shlex.split((folder / "command").read_text(encoding="utf-8"))
    if words[0] == "program":
        stated = dict(word.removeprefix("--").split("=") for word in words[1:])
        with np.load(folder / "inputs.npz") as arrays:
            found = faults_of(tiny.parse((folder / "program.tiny").read_text(encoding="utf-8")), dict(arrays), **stated)
        return "; ".join(map(str, found))
    is_file = INPUT in words
    raw = b"" if is_file else (folder / "input").read_bytes()
    words = [str(folder.resolve() / "input") if word == INPUT else word for word in words]
    ending = sandbox.run(words[0], words[1:], raw, SECONDS, str(folder))
    return "" if ending.code in GOOD else f"code {ending.code}: {ending.said[-500:]}"


def main() -> int:
    """The exit code: 1 where a case is still wrong."""
    wrong = {name: said for name in sys.argv[1:] if (said := repeat(Path(name)))}
    for name, said in wrong.items():
        print(f"{name}: {said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
