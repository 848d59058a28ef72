"""What stopped a launch, as a diagnostic: who, where in the text, which buffer or place in shared memory, and who else
had a part in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..kit.diag import Diag, Label
from ..kit.span import Span, span_of_line
from ..runtime.device import Buffer
from . import host
from . import layout as abi

WAITING = {abi.DEADLOCK: "E1724", abi.DIVERGENCE: "E1725", abi.COLLECTIVE: "E1728"}
STOPPED = {abi.TRAP: "E1723", abi.ARITHMETIC: "E1726", abi.TIME: "E1727", abi.STACK: "E1729"}
PLACED = {
    abi.UNWRITTEN: "E1750",
    abi.IN_FLIGHT: "E1751",
    abi.STILL_READ: "E1752",
    abi.RACE: "E1753",
    abi.PROXY: "E1754",
    abi.ACCUMULATOR: "E1755",
    abi.NO_BARRIER: "E1756",
    abi.ARRIVALS: "E1757",
    abi.BYTES: "E1758",
    abi.BEHIND: "E1759",
    abi.UNFENCED: "E1760",
    abi.OPERAND: "E1761",
    abi.UNEQUAL: "E1762",
    abi.LEFT: "E1763",
    abi.OUTSIDE: "E1764",
    abi.NO_FENCE: "E1765",
}
MOST_NOTES = 12


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault's numbers stand for: the kernel, the text, its shared object, the buffers by number, the inputs
    among them, and the block's and cluster's sizes in threads and blocks."""

    kernel: str
    text: str
    shared_object: Path
    buffers: Mapping[int, Buffer]
    inputs: frozenset[int]
    threads: int
    blocks: int
    limit: float


def diag_of(fault: abi.Fault, waits: Sequence[abi.Wait], scene: Scene) -> Diag:
    """The diagnostic of a fault, E17xx."""
    lines = host.find_lines(scene.shared_object, [fault.code, fault.other_code, *(w.code for w in waits)])
    line = fault.line or lines.get(fault.code, 0)
    where = {
        "thread": f"thread {fault.thread} of block {fault.block}",
        "kernel": scene.kernel,
        "block": str(fault.block),
    }
    span = span_of_line(scene.text, line)
    if fault.kind == abi.NO_MEMORY:
        return Diag(
            "E1717",
            scene.kernel,
            {"buffer": "the threads' stacks", "size": abi.MAX_THREADS * scene.blocks * abi.STACK_BYTES},
        )
    if fault.kind == abi.MEMORY:
        buffer = scene.buffers.get(fault.allocation)
        access = "a store" if fault.is_write else "a load"
        place = _place_of(fault, buffer, scene.inputs) if buffer else f"at address {fault.address:#x}"
        return Diag(
            "E1722",
            scene.kernel,
            where | {"access": access, "buffer": buffer.name if buffer else "no buffer", "place": place},
            span,
        )
    if fault.kind in WAITING:
        notes = _notes_of(waits, lines, scene)
        labels = [Label(place, note) for place, note in notes if place]
        span = span or (labels[0].span if labels else None)
        facts = where | {"waits": "; ".join(note for _, note in notes)}
        return Diag(
            WAITING[fault.kind], scene.kernel, facts, span, tuple(label for label in labels if label.span != span)
        )
    if fault.kind in STOPPED:
        return Diag(STOPPED[fault.kind], scene.kernel, where | {"limit": scene.limit}, span)
    return _placed(fault, where, span, lines, scene)


def _placed(
    fault: abi.Fault, where: dict[str, object], span: Span | None, lines: Mapping[int, int], scene: Scene
) -> Diag:
    buffer = scene.buffers.get(fault.allocation)
    if fault.is_shared:
        place = name_shared(scene.shared_object, fault.byte_offset)
    elif buffer:
        place = f"{buffer.name}[{fault.byte_offset // buffer.item}]"
    else:
        place = f"{fault.numbers[0]:#x}" if fault.kind == abi.OUTSIDE else "?"
    other_line = lines.get(fault.other_code, 0)
    other = f"thread {fault.other_thread} of block {fault.other_block}"
    facts = where | {
        "place": place,
        "access": "store" if fault.is_write else "load",
        "other": other + (f" (line {other_line})" if other_line else ""),
        "value": fault.numbers[0],
        "more": fault.numbers[1],
        "function": fault.function.decode(),
        "operand": fault.operand.decode(),
        "rule": fault.rule.decode(),
    }
    other_span = span_of_line(scene.text, other_line) if other_line else None
    labels = (Label(other_span, other),) if other_span is not None and other_span != span else ()
    return Diag(PLACED[fault.kind], scene.kernel, facts, span, labels)


def name_shared(shared_object: Path, offset: int) -> str:
    """A place in shared memory by the array that it lies in: `a + 512 B`; `shared + 512 B` where the array is not
    known."""
    for start, size, name in host.shared_arrays(shared_object):
        if start <= offset < start + size:
            return f"{name} + {offset - start} B"
    return f"shared + {offset} B"


def place_in(offset: int, buffer: Buffer) -> str:
    """Where a stray access went, in elements."""
    side = "before its start" if offset < 0 else "past its end"
    return f"element {offset // buffer.item}, {side} ({buffer.count} elements)"


def _place_of(fault: abi.Fault, buffer: Buffer, inputs: frozenset[int]) -> str:
    if fault.allocation in inputs and 0 <= fault.byte_offset < buffer.bytes:
        return f"element {fault.byte_offset // buffer.item}, an input"
    return place_in(fault.byte_offset, buffer)


def _notes_of(waits: Sequence[abi.Wait], lines: Mapping[int, int], scene: Scene) -> list[tuple[Span | None, str]]:
    """Who waits for what, where: one note for each block, line and barrier."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, wait in enumerate(waits):
        block, thread = divmod(number, scene.threads)
        line = wait.line or lines.get(wait.code, 0)
        groups.setdefault((block, wait.kind, line, wait.id, wait.numbers[0]), []).append(thread)
    notes = []
    for (block, kind, line, number, _), threads in groups.items():
        members = [waits[block * scene.threads + t] for t in threads]
        last = members[-1]
        come = f"{max(w.arrived for w in members)} of {last.wanted} came"
        missing = f", {last.numbers[1]} B to come" if last.numbers[1] else ""
        place = name_shared(scene.shared_object, number & 0xFFFFFF) if kind == abi.AT_MBARRIER else ""
        what = {
            abi.EXITED: "returned",
            abi.AT_BARRIER: f"waiting at line {line} for barrier {number} ({come})",
            abi.AT_COLLECTIVE: f"waiting at line {line} for the lanes {number:#010x} ({come})",
            abi.AT_MBARRIER: f"waiting at line {line} for phase {last.numbers[0]} of {place} ({come}{missing})",
            abi.AT_CLUSTER: f"waiting at line {line} for the cluster ({come})",
            abi.AT_WGMMA: f"waiting at line {line} for the warpgroup's products ({come})",
            abi.AT_WORD: f"waiting at line {line} for {_word_at(last.numbers[0], scene)}, which no block that runs will "  # noqa: E501
            f"publish",
            abi.AT_REGISTERS: f"waiting at line {line} for {number} registers ({last.numbers[0]} are free)",
        }.get(kind, "could go on")
        of = f" of block {block} of the cluster" if scene.blocks > 1 else ""
        notes.append((span_of_line(scene.text, line) if kind > abi.EXITED else None, f"{_threads(threads)}{of} {what}"))
    return notes[:MOST_NOTES]


def _word_at(address: int, scene: Scene) -> str:
    """An element of a buffer by its address."""
    buffer = next((b for b in scene.buffers.values() if b.address <= address < b.address + b.bytes), None)
    return f"{buffer.name}[{(address - buffer.address) // buffer.item}]" if buffer else f"{address:#x}"


def _threads(threads: list[int]) -> str:
    """`thread 3`, `threads 0..31`, `threads 0, 2, 4, ... (32)`."""
    if len(threads) == 1:
        return f"thread {threads[0]}"
    if threads[-1] - threads[0] == len(threads) - 1:
        return f"threads {threads[0]}..{threads[-1]}"
    shown = ", ".join(map(str, threads[:3]))
    return f"threads {shown}, ... ({len(threads)})" if len(threads) > 3 else f"threads {shown}"
