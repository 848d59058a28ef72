"""What the farm tries: mutated texts over all commands, mutated ONNX models and archives of torch.export, and random
programs at every stage. Each number of a stream is one trial, the same on every machine."""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import archives, models, sandbox
from .cases import GOOD, INPUT, keep_input, keep_program, shrunk
from .corpus import seeds
from .grammar import spliced
from .mutations import mutated_text
from .programs import Program, packed, random_program
from .shrink import Case
from .trial import Fault, faults_of

LIMIT = 60  # seconds of CPU: a run that ends at all ends within a few, on any machine
TOGETHER = 25  # programs in one compiled text: a compiler's start costs more than a small kernel
BESIDE = 10  # texts in one child: a fork costs as much as reading a text
TRIALS = 120


@dataclass(frozen=True, slots=True)
class Find:
    """A trial that ended badly: its stream and number, what went wrong in words that are alike for alike faults, and
    what keeps it in a folder."""

    stream: str
    number: int
    place: str
    said: str
    keep: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{self.stream} {self.number}: {self.place}: {self.said}"


Runs = Iterator[Find | None]  # one item a trial: None where nothing is wrong
Stream = Callable[[range, Path], Runs]


# --- commands on inputs


def place_of(ending: sandbox.Ending) -> str:
    """What went wrong, alike for alike faults."""
    found = re.search(r"not of the input: (\w+) at ([\w.]+:\d+)", ending.said)
    return f"{found[1]} at {found[2]}" if found else f"code {ending.code}"


def _judged(stream: str, number: int, line: tuple[str, ...], raw: bytes, ending: sandbox.Ending) -> Find | None:
    if ending.code in GOOD:
        return None
    said = f"{' '.join(line)}: {ending.seconds:.0f} s of CPU: {ending.said[-200:]}"
    return Find(stream, number, place_of(ending), said, lambda folder: keep_input(folder, line, raw))


def texts(numbers: range, folder: Path) -> Runs:
    """Texts of all languages, with pieces exchanged or characters changed, over the commands that read them: several in
    one child, and each in one of its own where one of them ends badly."""
    corpus = seeds()
    every = tuple(seed.text for seed in corpus)
    warmed: set[tuple[str, ...]] = set()

    def drawn(number: int) -> tuple[tuple[str, ...], bytes]:
        draw = random.Random(f"text {number}")
        seed = draw.choice(corpus)
        line = draw.choice(seed.lines)
        text = spliced(seed.text, every, draw) if draw.random() < 0.5 else seed.text
        is_changed = text != seed.text
        raw = text.encode() if is_changed and draw.random() < 0.7 else mutated_text(text, draw)
        if line not in warmed:
            warmed.add(line)
            sandbox.warm(line[0], line[1:], seed.text.encode())
        return line, raw

    for first in range(numbers.start, numbers.stop, BESIDE):
        group = {number: drawn(number) for number in range(first, min(first + BESIDE, numbers.stop))}
        codes = sandbox.codes_of(list(group.values()), LIMIT)
        is_good = len(codes) == len(group) and {*codes} <= {*GOOD}
        for number, (line, raw) in group.items():
            alone = None if is_good else sandbox.run(line[0], line[1:], raw, LIMIT)
            yield alone and _judged("texts", number, line, raw, alone)


def _of_bytes(
    stream: str,
    corpus: Sequence[bytes],
    mutated: Callable[[bytes, random.Random], bytes],
    lines: Sequence[tuple[str, ...]],
    numbers: range,
    folder: Path,
) -> Runs:
    path = folder / f"{stream}.input"
    path.write_bytes(corpus[0])
    for line in dict.fromkeys(lines):
        sandbox.warm(line[0], _with(line, path)[1:], b"")
    for number in numbers:
        draw = random.Random(f"{stream} {number}")
        raw = mutated(draw.choice(corpus), draw)
        path.write_bytes(raw)
        line = draw.choice(lines)
        ending = sandbox.run(line[0], _with(line, path)[1:], b"", LIMIT, str(folder))
        yield _judged(stream, number, line, raw, ending)


def _with(line: tuple[str, ...], path: Path) -> tuple[str, ...]:
    return tuple(str(path) if word == INPUT else word for word in line)


IMPORTS = (("tiny-import", INPUT), ("tiny-import", INPUT), ("tinyc", "--emit=region", INPUT))


def onnx(numbers: range, folder: Path) -> Runs:
    """ONNX models with fields or bytes changed. `folder` is where the commands run: files that a model names are looked
    for there."""
    return _of_bytes("onnx", models.models(), models.mutated, IMPORTS, numbers, folder)


def pt2(numbers: range, folder: Path) -> Runs:
    """Archives of torch.export with a member or bytes changed."""
    return _of_bytes("pt2", archives.archives(), archives.mutated, IMPORTS, numbers, folder)


# --- programs


def programs(numbers: range, folder: Path, device: str = "sim", trials: int = TRIALS) -> Runs:
    """Random programs at every stage, many in one text; those of a text that is wrong are tried alone, and at most
    `trials` times to make them smaller."""
    for first in range(numbers.start, numbers.stop, TOGETHER):
        seeds_ = range(first, min(first + TOGETHER, numbers.stop))
        arch = ("sm90", "sm80")[first // TOGETHER % 3 == 2]
        wrong = {
            seed: _program_find(seed, fault, arch, device, trials) for seed, fault in _wrong(list(seeds_), arch, device)
        }
        for seed in seeds_:
            yield wrong.get(seed)


def _wrong(chosen: list[int], arch: str, device: str) -> Iterator[tuple[int, Fault]]:
    """The programs that are wrong: by halves, or by the names of the outputs that are."""
    faults = _tried(chosen, arch, device)
    if not faults:
        return
    if len(chosen) == 1:
        yield chosen[0], faults[0]
        return
    named = sorted({int(name[1:].split(".")[0]) for name in faults[0].outputs})
    rest = [seed for seed in chosen if seed not in named]
    halves = [chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]]
    for part in [*([seed] for seed in named), rest] if named and rest else halves:
        if part:
            yield from _wrong(part, arch, device)


def _tried(chosen: Sequence[int], arch: str, device: str) -> list[Fault]:
    """The faults of these programs as one, in a child: what takes for ever is a fault too."""

    def work() -> tuple[int, bytes, bytes]:
        whole = packed([program_of(seed) for seed in chosen])
        return 0, b"", pickle.dumps(faults_of(whole.module, whole.arrays, arch, device, chosen[0]))

    memory = sandbox.MEMORY if device == "sim" else sandbox.ANY  # a GPU's driver maps as much as the GPU has
    ending = sandbox.forked(work, LIMIT + 10 * len(chosen), memory)
    if ending.code == 0:
        return pickle.loads(ending.printed)
    return [Fault("any", place_of(ending), f"after {ending.seconds:.0f} s of CPU: {ending.said[-200:]}")]


def program_of(seed: int) -> Program:
    """The program of a number; every name begins with it."""
    return random_program(seed, prefix=f"p{seed}.")


def _shrunk(case: Case, fault: Fault, arch: str, device: str, trials: int) -> Case:
    """The smallest program found, in a child: a process that has used a GPU has no children that may."""

    def work() -> tuple[int, bytes, bytes]:
        return 0, b"", pickle.dumps(shrunk(case, fault, arch, device, trials))

    ending = sandbox.forked(work, trials * LIMIT, sandbox.ANY)
    return pickle.loads(ending.printed) if ending.code == 0 else case


def _program_find(seed: int, fault: Fault, arch: str, device: str, trials: int) -> Find:
    def keep(folder: Path) -> None:
        made = program_of(seed)
        case = Case(made.module, made.arrays)
        if fault.stage != "any" and trials:
            case = _shrunk(case, fault, arch, device, trials)
        keep_program(folder, case, arch, device)

    return Find("programs", seed, f"{fault.stage}: {fault.kind}", fault.said, keep)


STREAMS: dict[str, tuple[Stream, int]] = {  # with how many trials are one slice of work
    "texts": (texts, 240),
    "onnx": (onnx, 60),
    "pt2": (pt2, 60),
    "programs": (programs, TOGETHER),
}
