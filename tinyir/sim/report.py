"""What stopped a launch, as a diagnostic: who, where in the text, which buffer or place in shared memory, and who else
had a part in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..kit.diag import Diag, Label
from ..kit.phrase import Listing, Phrase
from ..kit.records import dataclass
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
    """What a fault's numbers mean: the kernel, the text, its shared object, the buffers by number, the inputs
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
    lines = host.find_lines(scene.shared_object, [fault.code, fault.other_code, *(w.code for w in waits)], scene.text)
    line = fault.line or lines.get(fault.code, 0)
    where = {
        "thread": Phrase("thread {thread} of block {block}", thread=fault.thread, block=fault.block),
        "kernel": scene.kernel,
        "block": str(fault.block),
    }
    span = span_of_line(scene.text, line)
    if fault.kind == abi.NO_MEMORY:
        return Diag(
            "E1717",
            scene.kernel,
            {"buffer": Phrase("the threads' stacks"), "size": abi.MAX_THREADS * scene.blocks * abi.STACK_BYTES},
        )
    if fault.kind == abi.MEMORY:
        buffer = scene.buffers.get(fault.allocation)
        access = Phrase("a store") if fault.is_write else Phrase("a load")
        place = (
            _place_of(fault, buffer, scene.inputs)
            if buffer
            else Phrase("at address {address}", address=format(fault.address, "#x"))
        )
        return Diag(
            "E1722",
            scene.kernel,
            where | {"access": access, "buffer": buffer.name if buffer else Phrase("no buffer"), "place": place},
            span,
        )
    if fault.kind in WAITING:
        notes = _notes_of(waits, lines, scene)
        labels = [Label(place, note) for place, note in notes if place]
        span = span or (labels[0].span if labels else None)
        facts = where | {"waits": Listing((note for _, note in notes), "; ")}
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
    other = Phrase(
        "thread {other_thread} of block {other_block}", other_thread=fault.other_thread, other_block=fault.other_block
    )
    facts = where | {
        "place": place,
        "access": Phrase("store") if fault.is_write else Phrase("load"),
        "other": Phrase("{other} (line {line})", other=other, line=other_line) if other_line else other,
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
    """A place in shared memory by the array that it is in: `a + 512 B`; `shared + 512 B` where the array is not
    known."""
    for start, size, name in host.shared_arrays(shared_object):
        if start <= offset < start + size:
            return f"{name} + {offset - start} B"
    return f"shared + {offset} B"


def place_in(offset: int, buffer: Buffer) -> str:
    """Where a stray access went, in elements."""
    element = offset // buffer.item
    if offset < 0:
        return Phrase("element {element}, before its start ({count} elements)", element=element, count=buffer.count)
    return Phrase("element {element}, past its end ({count} elements)", element=element, count=buffer.count)


def _place_of(fault: abi.Fault, buffer: Buffer, inputs: frozenset[int]) -> str:
    if fault.allocation in inputs and 0 <= fault.byte_offset < buffer.bytes:
        return Phrase("element {byte_offset}, an input", byte_offset=fault.byte_offset // buffer.item)
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
        arrived, left = max(w.arrived for w in members), last.numbers[1]
        come = Phrase("{arrived} of {wanted} came", arrived=arrived, wanted=last.wanted)
        if left and kind == abi.AT_MBARRIER:
            come = Phrase(
                "{arrived} of {wanted} came, {left} B to come", arrived=arrived, wanted=last.wanted, left=left
            )
        place = name_shared(scene.shared_object, number & 0xFFFFFF) if kind == abi.AT_MBARRIER else ""
        what = {
            abi.EXITED: Phrase("returned"),
            abi.AT_BARRIER: Phrase(
                "waiting at line {line} for barrier {number} ({come})", line=line, number=number, come=come
            ),
            abi.AT_COLLECTIVE: Phrase(
                "waiting at line {line} for the lanes {number} ({come})",
                line=line,
                number=format(number, "#010x"),
                come=come,
            ),
            abi.AT_MBARRIER: Phrase(
                "waiting at line {line} for phase {numbers} of {place} ({come})",
                line=line,
                numbers=last.numbers[0],
                place=place,
                come=come,
            ),
            abi.AT_CLUSTER: Phrase("waiting at line {line} for the cluster ({come})", line=line, come=come),
            abi.AT_WGMMA: Phrase("waiting at line {line} for the warpgroup's products ({come})", line=line, come=come),
            abi.AT_WORD: Phrase(
                "waiting at line {line} for {word_at}, which no block that runs will publish",
                line=line,
                word_at=_word_at(last.numbers[0], scene),
            ),
            abi.AT_REGISTERS: Phrase(
                "waiting at line {line} for {number} registers ({numbers} are free)",
                line=line,
                number=number,
                numbers=last.numbers[0],
            ),
        }.get(kind, Phrase("could go on"))
        who = _threads(threads)
        who = Phrase("{who} of block {block} of the cluster", who=who, block=block) if scene.blocks > 1 else who
        notes.append(
            (span_of_line(scene.text, line) if kind > abi.EXITED else None, Phrase("{who} {what}", who=who, what=what))
        )
    return notes[:MOST_NOTES]


def _word_at(address: int, scene: Scene) -> str:
    """An element of a buffer by its address."""
    buffer = next((b for b in scene.buffers.values() if b.address <= address < b.address + b.bytes), None)
    return f"{buffer.name}[{(address - buffer.address) // buffer.item}]" if buffer else f"{address:#x}"


def _threads(threads: list[int]) -> str:
    """`thread 3`, `threads 0..31`, `threads 0, 2, 4, ... (32)`."""
    if len(threads) == 1:
        return Phrase("thread {one}", one=threads[0])
    if threads[-1] - threads[0] == len(threads) - 1:
        return Phrase("threads {those}", those=f"{threads[0]}..{threads[-1]}")
    shown = ", ".join(map(str, threads[:3]))
    return Phrase("threads {those}", those=f"{shown}, ... ({len(threads)})" if len(threads) > 3 else shown)
