"""What a program's memory is for, before any of it is allocated: bytes by buffer, and when each of them lives.

    memory at M = 2048
      inputs          3145728 B
      weights         9444864 B
      outputs         3145728 B
      once                  0 B  computed of constants before the first run, and kept
      arena          12582912 B  12582912 B of it live at once at most, at up
                  at          bytes  buffer  first to last of 2 launches
                   0       12582912  H       ##  up to down

Tensors that live only between launches share the arena. No placement needs less than what lives at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import manifest
from ..kit.records import dataclass
from .arena import ALIGNMENT, Lifetime, rounded, touched
from .device import Argument, Buffer
from .program import Program

MOST_COLUMNS = 64  # of the picture, each for as many launches as it takes


@dataclass(frozen=True, slots=True)
class Placed:
    """A buffer of the arena: where it begins, and the launches that touch it."""

    life: Lifetime
    at: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one program at one set of sizes, in bytes. `live` is the most that lives during one launch, with
    each buffer rounded up as the arena rounds it: the least that any placement needs."""

    sizes: Mapping[str, int]
    launches: tuple[str, ...]
    inputs: int
    weights: int
    outputs: int
    once: int
    arena: int
    live: int
    busiest: str
    placed: tuple[Placed, ...]


def memory_of(module: manifest.Module, sizes: Mapping[str, int]) -> Memory:
    """The memory that a program takes on a GPU that all of its kernels run on. Raises Refused (E1719) for sizes that
    its launches do not allow."""
    device = _Counted()
    program = Program(device, "", module, sizes, code="")
    model = program.model
    weights = {t.name for t in model.inputs if t.attr("role") == "param" or t.attr("storage") == "const_pool"}
    signature = {t.name for t in (*model.inputs, *model.outputs)}
    spans = touched(module, program.made)
    arena = next((b for b in device.made if b.name not in program.buffers), None)
    start, end = (arena.address, arena.address + arena.bytes) if arena is not None else (0, 0)
    inside = {n for n, b in program.buffers.items() if n not in signature and start <= b.address < end}
    kept = {b.address: b.bytes for n, b in program.buffers.items() if n not in signature | inside}
    placed = tuple(
        Placed(Lifetime(name, program.buffers[name].bytes, *span), program.buffers[name].address - start)
        for name, span in spans.items()
        if name in inside
    )
    names = tuple(launch.name for launch in program.made)
    live = [sum(rounded(p.life.bytes) for p in placed if p.life.first <= n <= p.life.last) for n in range(len(names))]
    most = max(live, default=0)
    return Memory(
        dict(sizes),
        names,
        sum(program.buffers[t.name].bytes for t in model.inputs if t.name not in weights),
        sum(program.buffers[n].bytes for n in weights),
        sum(program.buffers[t.name].bytes for t in model.outputs if model.input(t.name) is None),
        sum(kept.values()),
        arena.bytes if arena is not None else 0,
        most,
        names[live.index(most)] if most else "",
        tuple(sorted(placed, key=lambda p: (p.at, p.life.first))),
    )


def show(memory: Memory) -> str:
    """The report, with a picture: a row for each buffer of the arena, a column for each launch."""
    told = ", ".join(f"{s} = {n}" for s, n in memory.sizes.items())
    lines = [f"memory{f' at {told}' if told else ''}"]
    rows = {"inputs": memory.inputs, "weights": memory.weights, "outputs": memory.outputs, "once": memory.once}
    lines += [f"  {word:<8} {size:>14} B" for word, size in rows.items()]
    lines[-1] += "  computed of constants before the first run, and kept"
    live = f"  {memory.live} B of it live at once at most, at {memory.busiest}" if memory.live else ""
    lines.append(f"  {'arena':<8} {memory.arena:>14} B{live}")
    if memory.placed:
        width = max(len(p.life.name) for p in memory.placed)
        step = -(-len(memory.launches) // MOST_COLUMNS)
        lines.append(
            f"  {'at':>14} {'bytes':>14}  {'buffer':<{width}}  first to last of {len(memory.launches)} launches"
        )
        lines += [
            f"  {p.at:>14} {p.life.bytes:>14}  {p.life.name:<{width}}  {_row(p.life, memory, step)}"
            for p in memory.placed
        ]
    return "\n".join(lines) + "\n"


def _row(life: Lifetime, memory: Memory, step: int) -> str:
    columns = range(0, len(memory.launches), step)
    drawn = "".join("#" if life.first < n + step and n <= life.last else "." for n in columns)
    return f"{drawn}  {memory.launches[life.first]} to {memory.launches[life.last]}"


class _Counted:
    """A GPU that takes everything and allocates nothing but addresses."""

    name, description, is_packed, can_replay = "counted", "", True, False

    def __init__(self) -> None:
        self.made: list[Buffer] = []
        self._end = ALIGNMENT

    def takes(self, arch: str) -> bool:
        """Any."""
        return bool(arch)

    def takes_maps(self) -> bool:
        """It does."""
        return True

    def load(self, text: str, kernels: Mapping[str, int]) -> None:
        """Nothing."""

    def allocate(self, name: str, count: int, item: int, alignment: int) -> Buffer:
        """Addresses behind the last ones."""
        made = Buffer(name, self._end, count, item, 0)
        self._end += rounded(max(made.bytes, 1))
        self.made.append(made)
        return made

    def upload(self, buffer: Buffer, array: np.ndarray, is_constant: bool = True) -> None:
        """Nothing."""

    def forget(self, buffer: Buffer) -> None:
        """Nothing."""

    def free(self, buffer: Buffer) -> None:
        """Nothing."""

    def launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Argument]
    ) -> None:
        """Nothing."""

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Nothing."""

    def release(self) -> None:
        """Nothing."""
