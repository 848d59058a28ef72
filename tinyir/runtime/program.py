"""A program of an emitted text on a device: memory for its tensors and buffers, its launches with sizes put in.

Grids and guards are expressions over the symbols of the signature; they get their values here, anew where the sizes
change. Of launches that are alternatives the first that sizes and device allow is made. One with an empty grid, or with
empty outputs alone, is not: there is nothing to write.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..ir import manifest
from ..ir.evaluate import sizes_of
from ..ir.expr import Expr, show_guard
from ..ir.in_place import owner_of
from ..ir.intervals import LARGEST_SIZE
from ..ir.model import Tensor, memory_type
from ..kit.diag import Diag, refuse_all
from ..kit.phrase import Phrase
from ..kit.records import replace
from ..play.arrays import in_memory, numpy_dtype
from ..play.region import constant_of
from .abi import room_for
from .arena import touched
from .device import Argument, Bound, Box, Buffer, Device, Scalar, Walk
from .replay import Replays
from .storage import Storage

MAX_GRID = (2**31 - 1, 65535, 65535)
SYMBOL_BYTES = 4  # a kernel takes each symbol as an int
MOST_SIZES = 64  # of which it is remembered whether a program takes them


class Program:
    """One program on one device, for one set of sizes at a time (`resize`). `kept` are buffers of the caller's for
    tensors of the signature: they are neither allocated nor filled here. `code` is what the device loaded of the text,
    to be kept while the program is; without it the program loads its own; `is_tried`: its kernels have run, for other
    sizes; `lends_once`: memory for what is computed of constants alone is the caller's too (`room_of_once`), one for
    each set of constants. Programs of one device know nothing of one another. Raises Refused: E1719 (a launch that
    these sizes do not allow), E1716 and E1721 (the compiler), E1717 (memory)."""

    def __init__(
        self,
        device: Device,
        text: str,
        module: manifest.Module,
        sizes: Mapping[str, int],
        kept: Mapping[str, Buffer] | None = None,
        code: Any = None,
        is_tried: bool = False,
        lends_once: bool = False,
    ):
        assert module.region is not None, "manifest.check was not run"
        self.device = device
        self.module = module
        self.model = module.region.model
        self.sizes, self._asked = dict(sizes), sizes
        self.chosen = chosen_of(module, self.sizes, device)
        self._maps = {m.name: m for m in module.maps}
        self._types = self._typed()
        self._names = {launch.name: self._named_by(launch) for launch in module.launches}
        self._states = {launch.name: self._state_of(launch, self.sizes) for launch in module.launches}
        made = [launch for launch in self.chosen if not self._states[launch.name][1]]
        self.made = tuple(launch for launch in made if not launch.is_once)
        self._once = tuple(launch for launch in made if launch.is_once)
        self._launched = Counter(launch.entry for launch in self.chosen)
        self._spans = touched(module, self.made)
        self._own_code = None if code is not None else device.load(text, shared_of(self.chosen))
        self._code = code if code is not None else self._own_code
        self._kept_by_caller = dict(kept or {})
        self.once_reads = self._read_once()
        self._of_once = touched(module, self._once).keys()
        self._lends_once = lends_once
        try:
            self._storage = self._stored()
            self.buffers = self._filled(frozenset(self._storage.buffers))
        except BaseException:
            self._free()
            raise
        self._takes: dict[tuple[tuple[str, int], ...], bool] = {}  # sizes, and whether they have the same launches
        self._bound: dict[int, Bound] = {}  # by the number of the launch, for the addresses that were given last
        self._given: tuple[tuple[str, Buffer], ...] = ()
        self._is_made_once = False  # of the constants that are in memory now
        self.moves = 0  # how often its memory went elsewhere
        self._replays = Replays(device, self.bound, is_tried)

    def resize(self, sizes: Mapping[str, int]) -> bool:
        """Take other sizes: whether they ask for the launches that these sizes do; where they do not, nothing changes.
        Memory stays where it is if it is large enough. Raises Refused (E1717), after which the program is of no
        use."""
        if sizes is self._asked:
            return True
        changed = frozenset(name for name, size in sizes.items() if self.sizes.get(name) != size)
        key = tuple(sizes.items())
        is_new = key not in self._takes
        if is_new:
            told = [launch for launch in self.module.launches if changed & self._names[launch.name]]
            if len(self._takes) >= MOST_SIZES:
                self._takes.clear()
            self._takes[key] = all(self._state_of(launch, sizes) == self._states[launch.name] for launch in told)
        if not self._takes[key]:
            return False
        self._asked = sizes
        if not changed:
            return True
        self.sizes = dict(sizes)
        moved: frozenset[str] = frozenset()
        once = [one for one in self._once if changed & self._names[one.name]]
        if self.device.can_replay and (once or changed & self._of_constants):
            self.device.wait_for_all()  # runs that are queued read what is to be written
        if is_new or not self.device.is_packed or changed & self._of_constants:
            moved = self._storage.fit(self.sizes, changed)
            self.buffers = self._filled(moved, changed)
        if moved:
            self._bound.clear()
            self._replays.sets.move()
            self.moves += 1
        for number in [n for n in self._bound if changed & self._names[self.made[n].name]]:
            del self._bound[number]
        if once or any(moved.intersection(one.tensors) for one in self._once):
            self._is_made_once = False
        return True

    @property
    def launches(self) -> tuple[Bound, ...]:
        """The launches on the program's own buffers."""
        return self.bound({})

    def bound(self, given: Mapping[str, Buffer]) -> tuple[Bound, ...]:
        """The launches, with the caller's buffers in the place of the program's where there are any. The first waits
        for whatever the stream did before."""
        key = tuple(given.items())
        if key != self._given:
            self._bound, self._given = {}, key
        buffers = self._placed(given)
        for number, launch in enumerate(self.made):
            if number not in self._bound:
                is_early = launch.is_early and number > 0
                self._bound[number] = replace(self._bind(launch, buffers), is_early=is_early)
        return tuple(self._bound[number] for number in range(len(self.made)))

    def _placed(self, given: Mapping[str, Buffer]) -> dict[str, Buffer]:
        """The buffers with the caller's among them, and what is in the memory of those: aliases, new values of
        states."""
        return {
            **self.buffers,
            **{name: given[owner] for name, owner in self._inside.items() if owner in given},
            **given,
        }

    def upload(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Copy inputs in, as they are in memory (`abi.admit`)."""
        states = self.model.states()
        for name, array in inputs.items():
            self.device.upload(self.buffers[name], array, is_constant=name not in states)
            if name in self.once_reads:
                self._is_made_once = False

    def run(self, given: Mapping[str, Buffer] | None = None) -> None:
        """All launches, in order, to the end of the last; `given` are buffers of the caller's for this run. Raises
        Refused (E1722 to E1730, E1750 to E1765)."""
        self._make_once(given or {})
        if self.device.can_replay:
            self._replays.run(given or {}, tuple(self.sizes.values()), self.model.name)
        else:
            self._run_one_by_one(self.bound(given) if given else self.launches)

    def _make_once(self, given: Mapping[str, Buffer]) -> None:
        """The launches that need not be made again while the constants which they read are the same ones. What the
        caller hands over on the device may hold other numbers at every run."""
        if self._is_made_once and self._of_once.isdisjoint(given):
            return
        buffers = self._placed(given)
        for b in (self._bind(launch, buffers) for launch in self._once):
            b.run_on(self.device)
        self._is_made_once = self._of_once.isdisjoint(given)

    def _read_once(self) -> frozenset[str]:
        """The tensors of the signature that what is made once is computed of."""
        signature = {t.name for t in self.model.inputs}
        mapped = {name: m.tensor for name, m in self._maps.items()}
        named = (n for launch in self._once for n in (*launch.tensors, *(mapped[m] for m in launch.maps)))
        return frozenset(n for n in named if n in signature)

    def _run_one_by_one(self, launches: tuple[Bound, ...]) -> None:
        inputs = {t.name for t in self.model.inputs}
        fresh = [name for name in self._spans if name not in inputs and not self._is_kept(name)]
        if not self.device.is_packed:
            for name in fresh:
                self.device.forget(self.buffers[name])
        ends = {} if self.device.is_packed else {name: self._spans[name][1] for name in fresh if name in self._passing}
        for number, b in enumerate(launches):
            b.run_on(self.device)
            for name in (name for name, last in ends.items() if last == number):
                self.device.forget(self.buffers[name])  # its place may be another's from here on

    def make_once(self, anew: bool = True, given: Mapping[str, Buffer] | None = None) -> None:
        """Make what is computed of constants alone; where that is done, make it anew, since those that are the caller's
        own memory hold other numbers. `given` as in a run."""
        self._is_made_once &= not anew
        self._make_once(given or {})

    def room_of_once(self) -> Storage:
        """New memory for what is computed of constants alone, where the caller keeps it. Raises Refused (E1717)."""
        names = self._made_once() if self._lends_once else []
        return Storage(self.device, self._types, names, {}, self.sizes)

    def enqueue(self) -> None:
        """All launches, in order, queued on the stream of a `cuda.CudaDevice`; nothing is waited for but what is made
        once."""
        self._make_once({})
        for b in self.launches:
            self.device.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments, b.is_early)

    def outputs(
        self, tensors: Iterable[Tensor] | None = None, given: Mapping[str, Buffer] | None = None
    ) -> dict[str, np.ndarray]:
        """The outputs by name, or some of them, as the caller sees them; `given` as in the run that wrote them."""
        found = {}
        buffers = self._placed(given or {})
        for tensor in self.model.outputs if tensors is None else tensors:
            room = room_for(tensor, self.sizes)
            self.device.download(buffers[tensor.name], room)
            found[tensor.name] = in_memory(tensor, room)
        return found

    def release(self) -> None:
        """Give the program's memory back, and the code that it loaded; what was handed to it stays."""
        self._replays.sets.release()
        self._free()

    def _free(self) -> None:
        code, self._own_code = self._own_code, None
        if code is not None:
            self.device.unload(code)
        storage = getattr(self, "_storage", None)
        if storage is not None:
            storage.release()

    def flops(self) -> int:
        """Arithmetic operations of one run, as the launches state them."""
        return sum(launch.flops.evaluate(self.sizes) for launch in self.chosen)

    def bytes(self) -> int:
        """Bytes of one run when each launch reads each input and writes each output once."""
        return sum(launch.bytes.evaluate(self.sizes) for launch in self.chosen)

    def _stored(self) -> Storage:
        """Memory for the signature's tensors and for what the launches touch; a buffer with an alias has its owner's.
        What lives only between launches shares an arena, where the device packs."""
        program, kept = self.module.region.program, self._kept_by_caller
        self._inside = {
            name: owner
            for name in (*(t.name for t in self.model.outputs), *(t.name for t in program.buffers))
            if (owner := owner_of(self.module.region, name)) != name
        }
        signature = {t.name: t for t in (*self.model.inputs, *self.model.outputs)}
        named = dict.fromkeys([*signature, *self._spans, *self._of_once])  # also what these sizes leave nothing to read
        lent = self._made_once() if self._lends_once else []
        lasting = [name for name in named if name not in kept and name not in self._inside and name not in lent]
        self._passing = [name for name in self._spans if name not in signature and not self._is_kept(name)]
        passing = {name: self._spans[name] for name in self._passing}
        return Storage(self.device, self._types, lasting, passing, self.sizes)

    def _filled(self, moved: frozenset[str], changed: frozenset[str] = frozenset()) -> dict[str, Buffer]:
        """All buffers by name. Constants that moved, or have other sizes where symbols changed, are put in."""
        buffers = self._kept_by_caller | self._storage.buffers
        constants = [t for t in self.module.region.program.buffers if self._is_constant(t.name)]
        self._of_constants = frozenset().union(*(_names_in(t.type.shape) for t in constants))
        for tensor in constants:
            if tensor.name in buffers and (tensor.name in moved or changed & _names_in(tensor.type.shape)):
                constant = np.ascontiguousarray(constant_of(tensor, self.sizes), numpy_dtype(tensor.type.dtype))
                self.device.upload(buffers[tensor.name], constant)
        return {name: buffers[owner] for name, owner in self._inside.items() if owner in buffers} | buffers

    def _is_constant(self, name: str) -> bool:
        buffer = self.module.region.program.buffer(name)
        return buffer is not None and buffer.attr("value") is not None

    def _made_once(self) -> list[str]:
        """The buffers that are computed of constants alone."""
        signature = {t.name for t in (*self.model.inputs, *self.model.outputs)}
        return [n for n in self._of_once if n not in signature and not self._is_constant(n)]

    def _is_kept(self, name: str) -> bool:
        """Whether a buffer of the program holds the same at every run."""
        return self._is_constant(name) or any(name in launch.tensors for launch in self._once)

    def _bind(self, launch: manifest.Launch, buffers: Mapping[str, Buffer]) -> Bound:
        tensors: list[Argument] = [self._from(launch, buffers[name], name) for name in launch.tensors]
        symbols = [Scalar(self.sizes[name], SYMBOL_BYTES) for name in launch.symbols]
        maps = [self._box(self._maps[name], buffers) for name in launch.maps]
        arguments = (*tensors, *maps, *symbols)
        name = launch.name if self._launched[launch.entry] > 1 else ""
        return Bound(
            self._code, launch.entry, launch.grid_at(self.sizes), launch.block, launch.smem, arguments, name=name
        )

    def _from(self, launch: manifest.Launch, buffer: Buffer, name: str) -> Buffer:
        """A tensor's memory from the element on that a launch is handed."""
        if name not in dict(launch.moved):
            return buffer
        before = launch.elements_before(name, self._types[name].type.shape).evaluate(self.sizes)
        return replace(buffer, address=buffer.address + before * buffer.item, count=buffer.count - before)

    def _box(self, m: manifest.TensorMap, buffers: Mapping[str, Buffer]) -> Box:
        tensor = self._types[m.tensor]
        dims, box = sizes_of(m.dims or tensor.type.shape, self.sizes), sizes_of(m.box, {})
        walk = m.windows and Walk(sizes_of(m.windows.counts, self.sizes), m.windows.low, m.windows.steps)
        return Box(buffers[m.tensor], m.rounding or tensor.type.dtype.name, dims, box, m.swizzle, walk)

    def _state_of(self, launch: manifest.Launch, sizes: Mapping[str, int]) -> tuple[bool, bool]:
        """What these sizes say of a launch: whether they do not allow it, and whether it writes nothing."""
        is_refused = any(True for _ in faults_of(launch, sizes, self.device))
        return is_refused, self._is_empty(launch, sizes) or not math.prod(launch.grid_at(dict(sizes)))

    def _is_empty(self, launch: manifest.Launch, sizes: Mapping[str, int]) -> bool:
        written = [t for name in launch.regions for t in self.module.region.program.region(name).outputs]
        return bool(written) and not any(math.prod(sizes_of(t.type.shape, sizes)) for t in written)

    def _named_by(self, launch: manifest.Launch) -> frozenset[str]:
        """The symbols that a launch depends on."""
        written = [t for name in launch.regions for t in self.module.region.program.region(name).outputs]
        maps = [self._maps[name] for name in launch.maps]
        shapes = [*(t.type.shape for t in written), *(m.dims or self._types[m.tensor].type.shape for m in maps)]
        counts = [m.windows.counts for m in maps if m.windows]
        guards = (bound.vocabulary for guard in launch.assumes for bound in guard)
        return frozenset(launch.symbols).union(_names_in(launch.grid), *map(_names_in, (*shapes, *counts)), *guards)

    def _typed(self) -> dict[str, Any]:
        """The memory of every tensor."""
        signature = (*self.model.inputs, *self.model.outputs)
        buffers = (*self.module.region.program.buffers, *self.module.buffers)
        return {t.name: t for t in (*buffers, *(replace(t, type=memory_type(t)) for t in signature))}


def _names_in(sizes: Iterable[Expr]) -> frozenset[str]:
    return frozenset().union(*(size.vocabulary for size in sizes))


def shared_of(launches: Iterable[manifest.Launch]) -> dict[str, int]:
    """The most dynamic shared memory, in bytes, that each entry is launched with."""
    most: dict[str, int] = {}
    for launch in launches:
        most[launch.entry] = max(most.get(launch.entry, 0), launch.smem)
    return most


def chosen_of(module: manifest.Module, sizes: Mapping[str, int], device: Device) -> tuple[manifest.Launch, ...]:
    """The launches to make, in order: of those of the same regions the first without a fault, and those that serve it.
    Raises Refused (E1719) with the faults of all where each has one."""
    chosen: dict[tuple[str, ...], manifest.Launch] = {}
    faults: dict[tuple[str, ...], list[Diag]] = {}
    for launch in (launch for launch in module.launches if not launch.serves):
        parts = [launch, *(part for part in module.launches if part.serves == launch.name)]
        found = (
            [fault for part in parts for fault in faults_of(part, sizes, device)]
            if launch.regions not in chosen
            else []
        )
        if found:
            faults.setdefault(launch.regions, []).extend(found)
        else:
            chosen.setdefault(launch.regions, launch)
    left = [d for regions, found in faults.items() if regions not in chosen for d in found]
    refuse_all(left)
    made = {launch.name for launch in chosen.values()}
    return tuple(launch for launch in module.launches if (launch.serves or launch.name) in made)


def faults_of(launch: manifest.Launch, sizes: Mapping[str, int], device: Device) -> Iterator[Diag]:
    """Why the sizes or the device do not allow a launch (E1719)."""

    def fault(reason: str) -> Diag:
        return Diag("E1719", launch.name, {"kernel": launch.name, "reason": reason})

    for name in launch.symbols:
        if sizes[name] > LARGEST_SIZE:
            yield fault(
                Phrase(
                    "{name} is {sizes}, and kernels count up to {largest_size}",
                    name=name,
                    sizes=sizes[name],
                    largest_size=LARGEST_SIZE,
                )
            )
    for guard in launch.assumes:
        if not all(bound.holds(sizes) for bound in guard):
            names = dict.fromkeys(
                n for b in guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None for n in e.names()
            )
            yield fault(
                Phrase(
                    "it was made for {guard}, and {n}",
                    guard=show_guard(guard),
                    n=", ".join(f"{n} = {sizes[n]}" for n in names),
                )
            )
    for axis, size, most in zip("xyz", launch.grid_at(dict(sizes)), MAX_GRID):
        if size > most:
            yield fault(
                Phrase(
                    "its grid has {size} blocks along {axis}, and a device takes {most}",
                    size=size,
                    axis=axis,
                    most=most,
                )
            )
    if launch.maps and not device.takes_maps():
        yield fault(Phrase("it takes tensor maps, which {description} cannot make", description=device.description))
    if not device.takes(launch.arch):
        yield fault(
            Phrase(
                "it was made for {arch}, which {description} is not", arch=launch.arch, description=device.description
            )
        )
