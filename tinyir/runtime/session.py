"""A compiled program that is called again and again: loaded once, its weights uploaded once. Sizes that ask for the
same launches have one program (`program.Program.resize`).

Inputs are NumPy arrays, or arrays of any library that are on the GPU (`external`); where one of them is, the outputs
stay there too.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir import manifest
from ..ir.evaluate import sizes_of
from ..ir.model import Tensor
from ..kit.diag import Diag, Refused, refuse, refuse_all
from ..kit.phrase import Phrase
from ..kit.records import replace
from ..play.arrays import check_arrays, numpy_dtype
from .abi import laid, native, stored
from .arena import ALIGNMENT, line_up
from .cuda import CudaDevice, find_fault
from .device import Buffer, Device
from .external import External, GpuArray, external_of, on_host
from .program import Program, chosen_of, shared_of
from .sets import order_of
from .states import States, kept_states

MOST_PROGRAMS = 8  # that are kept, each for sizes that ask for other launches
MOST_FORMS = 64  # of a call's arrays: their names, shapes and dtypes


class Session:
    """One .cu text, ready to be called. `device`: as in `run.run`; `auto` is a GPU where one can be used, else
    playback. `weights` are inputs that no call has to give; of states they are the first values. `jobs`: kernels that
    are compiled at a time. `cubins` are those of the text's entries, made for `arch`; where the GPU is another the text
    is compiled. `sets` are the sizes that the text was planned for; a session `of` another is the same model planned
    for other sizes, and shares its device and its weights. Raises Refused (E17xx)."""

    def __init__(
        self,
        text: str,
        module: manifest.Module,
        device: str = "auto",
        weights: Mapping[str, Any] | None = None,
        seed: int = 0,
        jobs: int | None = None,
        arch: str = "",
        cubins: Mapping[str, bytes] | None = None,
        sets: Sequence[Mapping[str, int]] = (),
        of: Session | None = None,
    ):
        assert module.region is not None, "manifest.check was not run"
        self.module = module
        self.model = module.region.model
        self.text = text
        given = {name: on_host(name, array) for name, array in (weights or {}).items()}
        self._renewed = kept_states(self.model)
        self._first = {name: array for name, array in given.items() if name in self._renewed}
        self.weights = {name: array for name, array in given.items() if name not in self._renewed}
        self.inputs = tuple(
            t for t in self.model.inputs if t.name not in self.weights and t.name not in self._renewed
        )  # what a call has to give, in the signature's order
        fault = find_fault() if device in ("auto", "cuda") else None
        if fault is not None and device == "cuda":
            raise refuse("E1718", reason=fault)
        self.where = ("cpu" if fault else "cuda") if device == "auto" else device
        self._device: Device | None = None
        self._code: Any = None
        self._is_tried = False
        self.on_streams: Any = None  # the runs on streams of others, once there are any
        self._pool: dict[str, Buffer] = {}
        self._checked: dict[tuple, dict[str, int]] = {}
        self._programs: list[Program] = []  # the one that ran last is the last
        self.sets = tuple(sets) or ({},)
        self._of = of
        self.others: list[Session] = []  # planned for other sizes
        self._owners: dict[tuple[int, ...], Session] = {}
        if self.where != "cpu":
            self._open(seed, jobs, cubins or {} if arch else {}, arch)
        self.states = States(self.model, self._device, _waiting(weakref.ref(self))) if of is None else of.states
        try:
            for name, array in self._first.items() if of is None else ():
                self.states[name] = array
        except Refused:
            self.close()
            raise

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name. A state that is given has that value from then on, and its new one is among the outputs;
        one that is not goes on from what the last call left, and its new value is in `states` alone. One that is on
        the GPU is written there, and nothing is kept. Raises Refused: E1701 to E1707 (the arrays), E1732 and E1733 (one
        on the GPU that cannot be taken), E17xx (the run)."""
        self.wait()
        self.refuse_weights(arrays)
        outside = {name: found for name, array in arrays.items() if (found := external_of(name, array)) is not None}
        if outside and self.where != "cuda":
            name = next(iter(outside))
            raise refuse("E1732", name, tensor=name, reason=Phrase("the program runs on {where}", where=self.where))
        arrays = {name: array if name in outside else on_host(name, array) for name, array in arrays.items()}
        if self.where == "cpu":
            return self._play(arrays)
        sizes = self._sizes_of(arrays, outside)
        faults = [d for t in self.model.inputs if t.name in outside for d in outside[t.name].faults(t)]
        refuse_all(faults)
        for name in self._renewed:
            if name in arrays and name not in outside:
                self.states.keep(name, arrays[name])
        program = self.owner_of(sizes)._program_for(sizes)
        program.upload({t.name: laid(t, arrays[t.name]) for t in self.inputs if t.name not in outside})
        if not outside:
            program.run(self.states.buffers())
            self._is_tried = True
            return program.outputs(self._told(arrays), self.states.buffers())
        return self._run_there(program, arrays, outside)

    def wait(self) -> None:
        """Until the runs on streams of others are over, which share states with what comes next."""
        if self.on_streams is not None:
            self.on_streams.wait()

    def refuse_weights(self, arrays: Mapping[str, Any]) -> None:
        """Raise Refused (E1704) where a call gives weights."""
        again = [name for name in arrays if name in self.weights]
        if again:
            known = ", ".join(t.name for t in (*self.inputs, *self.states.types.values()))
            told = known or Phrase("none: all are weights")
            raise Refused([Diag("E1704", name, {"tensor": name, "known": told}) for name in again])

    def _told(self, arrays: Mapping[str, Any]) -> list[Tensor]:
        """The outputs that a call with these arrays gives: all but the new values of states that it does not give."""
        kept = {output for state, output in self._renewed.items() if state not in arrays}
        return [t for t in self.model.outputs if t.name not in kept]

    def _play(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        from ..play.region import play

        outputs = play(self.module.region, {**self.weights, **self.states.forms(), **arrays})
        for state, output in self._renewed.items():
            self.states.keep(state, outputs[output])
        return {t.name: outputs[t.name] for t in self._told(arrays)}

    def close(self) -> None:
        """Give the device's memory back. Arrays that were given out keep theirs."""
        if self.on_streams is not None:
            self.on_streams.close()
        for other in self.others:
            other.close()
        self.others.clear()
        device, self._device = (None if self._of is not None else self._device), None
        self._code = None
        if hasattr(self, "states") and self._of is None:
            self.states.close()
        self._programs.clear()
        self._pool = {}
        if device is not None:
            device.release()

    def __del__(self) -> None:
        if getattr(self, "_device", None) is not None:
            self.close()

    def owner_of(self, sizes: Mapping[str, int]) -> Session:
        """The session whose text runs at these sizes: of those whose launches allow them the one that was planned for
        the nearest. Raises Refused (E1719) where none allows them."""
        if not self.others:
            return self
        key = tuple(sizes[s] for s in self.model.symbols())
        if key not in self._owners:
            if len(self._owners) >= MOST_FORMS:
                self._owners.clear()
            every = [(one, session) for session in (self, *self.others) for one in session.sets]
            nearest = [every[n][1] for n in order_of([one for one, _ in every], sizes)]
            self._owners[key] = self._first_of(nearest, sizes)
        return self._owners[key]

    def _first_of(self, ordered: list[Session], sizes: Mapping[str, int]) -> Session:
        faults: list[Refused] = []
        for session in ordered:
            try:
                chosen_of(session.module, sizes, session._device)
            except Refused as fault:
                faults.append(fault)
            else:
                return session
        raise faults[0]

    @property
    def cubins(self) -> tuple[str, dict[str, bytes]]:
        """What the loaded kernels were compiled for, and their cubins by entry; none where it runs on no GPU."""
        device = self._device
        return (device.arch, dict(self._code.images)) if isinstance(device, CudaDevice) else ("", {})

    def _open(self, seed: int, jobs: int | None, cubins: Mapping[str, bytes], arch: str) -> None:
        if self._of is not None:
            self._device = self._of._device
        elif self.where == "sim":
            from ..sim.launch import SimDevice

            self._device = SimDevice(seed)
        else:
            self._device = CudaDevice(jobs=jobs)
        shared = shared_of(self.module.launches)
        try:
            if isinstance(self._device, CudaDevice) and arch == self._device.arch and cubins.keys() >= shared.keys():
                self._code = self._device.load_images(cubins, shared)
            else:
                self._code = self._device.load(self.text, shared)
            self._fill_pool()
        except Refused:
            self.close()
            raise

    def _fill_pool(self) -> None:
        """The weights, in one piece where the device packs."""
        known = {t.name: t for t in self.model.inputs}
        check_arrays(
            replace(self.model, inputs=tuple(t for t in self.model.inputs if t.name in self.weights), outputs=()),
            self.weights,
        )
        if self._of is not None:
            self._pool = self._of._pool
            return
        kept = {name: stored(known[name], array) for name, array in self.weights.items()}
        if self._device.is_packed and kept:
            places, total = line_up((name, array.nbytes) for name, array in kept.items())
            pool = self._device.allocate(Phrase("the weights"), total, 1, ALIGNMENT)
            self._pool = {
                n: Buffer(n, pool.address + places[n], a.size, a.itemsize, pool.number) for n, a in kept.items()
            }
        else:
            self._pool = {
                name: self._device.allocate(name, array.size, array.itemsize, ALIGNMENT) for name, array in kept.items()
            }
        for name, array in kept.items():
            self._device.upload(self._pool[name], array)

    def _sizes_of(self, arrays: Mapping[str, Any], outside: Mapping[str, External]) -> dict[str, int]:
        """The sizes of the symbols. Names, dtypes and shapes decide, so arrays like those of an earlier call are not
        checked again."""
        seen = {name: outside[name] if name in outside else native(array) for name, array in arrays.items()}
        kept = {name: found for name, found in self.states.forms().items() if name not in seen}
        form = tuple((name, found.shape, found.dtype) for name, found in {**kept, **seen}.items())
        if form not in self._checked:
            stands = {name: found.stand_in() for name, found in outside.items()}
            every = {**self.weights, **self.states.forms(), **seen, **stands}
            sizes = check_arrays(self.model, every)
            if len(self._checked) >= MOST_FORMS:
                self._checked.clear()
            self._checked[form] = sizes
        return self._checked[form]

    def _program_for(self, sizes: Mapping[str, int]) -> Program:
        found = next((p for p in reversed(self._programs) if self._takes(p, sizes)), None)
        if found is None:
            kept = {**self._pool, **self.states.buffers()}
            found = Program(self._device, self.text, self.module, sizes, kept, self._code, self._is_tried)
            self._programs.append(found)
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.pop(0).release()
        elif found is not self._programs[-1]:
            self._programs.remove(found)
            self._programs.append(found)
        return found

    def _takes(self, program: Program, sizes: Mapping[str, int]) -> bool:
        """Whether a program takes these sizes. Raises Refused (E1717) where memory for them cannot be had."""
        try:
            return program.resize(sizes)
        except Refused:
            self._programs.remove(program)
            program.release()
            raise

    def _run_there(
        self, program: Program, arrays: Mapping[str, Any], outside: Mapping[str, External]
    ) -> dict[str, Any]:
        device = self._device
        assert isinstance(device, CudaDevice)
        given = self.states.buffers()
        given |= {n: Buffer(n, e.address, math.prod(e.shape), e.dtype.bytes, -1) for n, e in outside.items()}
        results: dict[str, Any] = {}
        for tensor in self._told(arrays):
            shape = sizes_of(tensor.type.shape, program.sizes)
            state = self.model.state_of(tensor)
            if state in outside:  # written in place
                results[tensor.name] = GpuArray(
                    given[state].address, tensor, shape, outside[state], device.copy_out, device.ordinal
                )
                continue
            if state is not None:
                continue  # given on the host, where it comes back
            buffer, lent = device.lend(tensor.name, math.prod(shape), numpy_dtype(tensor.type.dtype).itemsize)
            given[tensor.name] = buffer
            results[tensor.name] = GpuArray(buffer.address, tensor, shape, lent, device.copy_out, device.ordinal)
        device.wait_for_all()  # what other libraries still do to the inputs, and to results that they have let go of
        program.run(given)
        self._is_tried = True
        here = [t for t in self._told(arrays) if t.name not in results]
        return {**results, **program.outputs(here, given)} if here else results


def _waiting(owner: weakref.ref[Session]) -> Callable[[], None]:
    """A session's `wait`, for what the session itself holds."""

    def wait() -> None:
        session = owner()
        if session is not None:
            session.wait()

    return wait
