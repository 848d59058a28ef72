"""The Python door: a model in, a callable out. It joins the rooms as a command does, and nothing imports it but the
package itself."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from .ir import gpu, index, manifest, plan, poly, region, tiny
from .ir.model import Shapes
from .ir.pipeline import STAGES
from .kit.diag import Diag, Refused, refuse, refuse_all
from .kit.phrase import Phrase, why_of
from .kit.records import dataclass, replace
from .kit.text import decode, read_stage
from .lower import language_of, lower_to
from .runtime import programs
from .runtime.external import Array, GpuArray, Result, lendable, on_host
from .runtime.saved import Saved, read_program, write_program
from .runtime.states import States
from .target.device import device_titled

if TYPE_CHECKING:
    from .view.page import View

Begin = Callable[[str, Sequence[str]], AbstractContextManager[None]]
Module = tiny.Module | index.Module | poly.Module | region.Module | plan.Module | gpu.Module | manifest.Module
Source = str | os.PathLike[str] | Mapping[str, Any] | Module
Device = Literal["auto", "cuda", "cpu", "sim"]
Arch = Literal["sm80", "sm90"]


class Compiled:
    """A program that is called with arrays and gives its outputs by name.

    NumPy arrays go in and come out, and whatever NumPy or DLPack reads on the host may be given. Where an input
    is on the GPU (`__cuda_array_interface__` or DLPack, so CuPy, PyTorch, JAX, Numba) the outputs stay there, and
    nothing is copied. `text` is the CUDA with its manifest: what tiny-run takes. Close it, or use it in a `with`, to
    give the device's memory back early.

    An input that an output updates (its new value has the input's name, or says `updates`) is a state, which the
    program keeps between calls in one memory: see `states`.

    >>> import numpy, tinyir
    >>> with tinyir.compile("graph<N=1> main(x: f32[N]) -> (y: f32[N]) { return x * 2 }", device="cpu") as double:
    ...     double
    ...     double(numpy.ones(3, "float32"))["y"].tolist()
    <main(x: fp32[N]) -> y: fp32[N] on cpu>
    [2.0, 2.0, 2.0]
    """

    def __init__(self, saved: Saved, device: Device, weights: Mapping[str, Array], seed: int, jobs: int | None):
        self.text = saved.text
        self._saved = saved
        self._session = _session_of(saved, device, weights, seed, jobs, None)
        try:
            self._session.others += [
                _session_of(other, self._session.where, weights, seed, jobs, self._session) for other in saved.others
            ]
        except Refused:
            self._session.close()
            raise

    @property
    def inputs(self) -> dict[str, str]:
        """Name and type of each input that a call gives, in order."""
        return {t.name: str(t.type) for t in self._session.inputs}

    @property
    def outputs(self) -> dict[str, str]:
        """Name and type of each output, in order."""
        return {t.name: str(t.type) for t in self._session.model.outputs}

    @property
    def states(self) -> States:
        """The inputs that runs change, by name: `states[name]` copies the value out, `states[name] = array` sets it. A
        call gives only those that it wants to set; the others go on from where the last call left them."""
        return self._session.states

    @property
    def device(self) -> str:
        """Where it runs: cuda, cpu or sim."""
        return self._session.where

    def __call__(self, *arrays: Array, **named: Array) -> dict[str, Result]:
        """The outputs by name: NumPy arrays, or `GpuArray` where an input is on the GPU. Arrays without a name are
        the inputs in their order, states apart. The new value of a state is among the outputs where the call gives the
        state. Raises TypeError for too many arrays or a name given twice, Refused with every other
        fault (E1701 to E1707, E1732, E17xx)."""
        found = self._session(self._by_name(arrays, named))
        return {name: lendable(array) for name, array in found.items()}

    def on_stream(self, stream: Any) -> Callable[..., dict[str, GpuArray]]:
        """The program as a callable on arrays of the GPU whose runs are queued on `stream`, and which waits for nothing
        but, at the first run of a set of sizes, for what the GPU does. `stream` is a handle of the driver, or an object
        with `__cuda_stream__` (CUDA Python, CuPy, PyTorch). What makes the inputs is waited for by the stream; whoever
        reads the results by DLPack or `__cuda_array_interface__` waits on its own. The inputs must stay in memory until
        the stream has passed the run. States go on from run to run, and are not given. From the second run with the
        same arrays on, a run is one launch of a CUDA graph.

        Raises TypeError for what is not a stream, Refused (E1718) where the program runs on no GPU; the callable raises
        what a call of the program does, and E1732 for an array that is not on the GPU."""
        from .runtime.on_stream import driver_stream, runs_of

        own = driver_stream(stream)
        if self.device != "cuda":
            raise refuse("E1718", reason=Phrase("the program runs on {where}", where=self.device))
        runs = runs_of(self._session)
        return lambda *arrays, **named: runs.run(self._by_name(arrays, named), own)

    def _by_name(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of a call by the inputs' names. Raises TypeError."""
        names = [t.name for t in self._session.inputs]
        if len(arrays) > len(names):
            raise TypeError(f"{len(arrays)} arrays are given, and the inputs are {', '.join(names)}")
        placed = dict(zip(names, arrays))
        twice = sorted(placed.keys() & named.keys())
        if twice:
            raise TypeError(f"given twice: {', '.join(twice)}")
        return {**placed, **named}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the program in a file, which `load` starts without compiling: its CUDA text, the cubins of the GPU that
        it runs on (without a GPU none), the arrays that were given as `params`, and its states as they are now. Weights
        that are in files are not copied: `load` looks for them where they are, seen from the saved file, or where it is
        told. Raises Refused (E1742 the file cannot be written)."""
        params = {**self._saved.params, **self._session.states}
        write_program(Path(path), replace(self.with_images(), params=params))

    def with_images(self) -> Saved:
        """The program as it began, with the cubins that are loaded; without a GPU there are none."""
        arch, cubins = self._session.cubins
        others = tuple(
            replace(other, arch=session.cubins[0], cubins=session.cubins[1])
            for other, session in zip(self._saved.others, self._session.others)
        )
        return replace(self._saved, arch=arch, cubins=cubins, others=others)

    def view(self) -> View:
        """The program as a page: regions, memory, launches with the roofline, and its text. A notebook shows it;
        `view().save(path)` keeps it."""
        from .target.device import get_device
        from .view.collect import Journey, collected
        from .view.page import View, page_of

        module = self._saved.module
        arch = module.launches[0].arch if module.launches else "sm90"
        card = get_device({"sm80": "a100", "sm90": "h100"}[arch])
        return View(page_of(collected(Journey("", {"cu": self.text}, {"cu": module}), card, "en")))

    def _repr_html_(self) -> str:
        """The signature and the launches as a table, for notebooks."""
        from .view.page import table_of_program

        module = self._saved.module
        launches = [(one.name, ", ".join(one.regions), f"{one.flops}", f"{one.bytes}") for one in module.launches]
        return table_of_program(self._session.model.name, self.device, self.inputs, self.outputs, launches)

    def close(self) -> None:
        """Give the device's memory back."""
        self._session.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        given, made = (", ".join(f"{n}: {t}" for n, t in side.items()) for side in (self.inputs, self.outputs))
        return f"<{self._session.model.name}({given}) -> {made} on {self.device}>"


def _session_of(saved: Saved, device: str, weights: Mapping[str, Array], seed: int, jobs: int | None, of: Any) -> Any:
    from .runtime.session import Session

    return Session(saved.text, saved.module, device, weights, seed, jobs, saved.arch, saved.cubins, saved.sets, of)


def compile(
    model: Source,
    *,
    device: Device = "auto",
    arch: Arch | None = None,
    weights: str | os.PathLike[str] | None = None,
    params: Mapping[str, Array] | None = None,
    shapes: Mapping[str, str | Sequence[int | str]] | None = None,
    states: Mapping[str, str] | None = None,
    room: int = 0,
    sets: Mapping[str, Mapping[str, int]] | None = None,
    invariant: bool = False,
    seed: int = 0,
    jobs: int | None = None,
) -> Compiled:
    """A callable from a model.

    `model` is a path (front-end JSON, NodeId JSON, ONNX, an archive of torch.export, Core IR, DSL, or text of any
    stage), such a text itself, a dict that is front-end or NodeId JSON, or a module of `tinyir.ir`.

    `device`: auto (a GPU where one can be used, else playback), cuda, cpu or sim. `arch`: sm80 or sm90 (default: the
    GPU's, else sm90); plans are made for the GPU of this machine where its figures are known, else for the usual card
    of its generation. What was made of the same text for the same card before comes from the user's cache. `weights` is
    the folder of the files that the text points at (default: that of the path, else the current one). `params` are
    arrays for inputs that calls shall not give, and first values of states. `shapes` gives sizes, or names of sizes, to
    inputs of an ONNX model or an archive that leave them open: {"x": ["B", "L:1..512", 80]}, or "B,L:1..512,80";
    `L:1..512` is a symbol that keeps to a range. `states` gives inputs of an ONNX model the outputs that are their next
    values, beside those that exporters call so (`past_key_values.0.key` and `present.0.key`); with room for `room` rows
    its caches become states that grow in place. `sets` are shape sets in the place of the model's own, by name: the
    size of every symbol. Plans are made for each of them, and a call runs those of the set that is nearest to its
    sizes. `invariant` gives a row of a batch, the first axis of inputs and outputs, the same bits whatever the size of
    the batch: one plan is for all sizes. `seed` is the simulation's order of threads. `jobs` kernels are compiled at a
    time for the GPU (default: one a core); what was compiled before comes from the cache.

    Raises Refused, whose text holds place, code, reason and help, with every fault of the model and of the files it
    names; ValueError for a device or arch that there is not, or less than one job; TypeError for what is not a model.

    >>> import numpy, tinyir
    >>> model = {
    ...     "signature": {"inputs": [{"tensor": "A"}, {"tensor": "B"}], "outputs": [{"tensor": "C"}]},
    ...     "tensors": {
    ...         "A": {"dtype": "fp32", "shape": ["M", 2]},
    ...         "B": {"dtype": "fp32", "shape": [2, 3]},
    ...         "C": {"dtype": "fp32", "shape": ["M", 3]},
    ...     },
    ...     "graph": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["C"]}],
    ... }
    >>> product = tinyir.compile(model, device="cpu", params={"B": numpy.eye(2, 3, dtype="float32")})
    >>> product.inputs, product.outputs
    ({'A': 'fp32[M, 2]'}, {'C': 'fp32[M, 3]'})
    >>> product(numpy.float32([[1, 2], [3, 4]]))["C"].tolist()
    [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]
    """
    _must_be_one_of("device", device, get_args(Device))
    if arch is not None:
        _must_be_one_of("arch", arch, get_args(Arch))
    _must_be_some(jobs)
    source = _Model("", Path(), None)
    try:
        source = _read(model, shapes or {}, states or {}, room)
        target, card = _target_of(device, arch)
        folder = Path(weights) if weights is not None else source.folder
        given = {name: on_host(name, array) for name, array in (params or {}).items()}
        asked = (target, card or "", str(invariant), "" if sets is None else repr(sets))
        name = programs.name_of((source.text, *asked)) if source.text is not None else ""
        known = programs.find(name) if name else None
        begin = functools.partial(_compiled_beside, device, jobs)
        made = known or _planned(source, model, target, card, invariant, sets, begin)
        program = _started(replace(made, folder=folder, params=given), device, seed, jobs)
        kept = program.with_images()
        if name and (known is None or kept.cubins and known.arch != kept.arch):
            programs.keep(name, kept)
        return program
    except Refused as fault:
        raise Refused(fault.diags, source.file) from None
    except RecursionError:
        raise Refused(refuse("E0006", what=Phrase("nesting")).diags, source.file) from None


def lowered(
    model: Source,
    device: Device = "auto",
    arch: Arch | None = None,
    sets: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[str, manifest.Module]:
    """The CUDA text of a model and its module, as `compile` makes them, of several shape sets for the first; nothing is
    started. Raises what `compile` does."""
    first = _planned(_read(model, {}, {}, 0), model, *_target_of(device, arch), False, sets)
    return first.text, first.module


def load(
    path: str | os.PathLike[str],
    *,
    device: Device = "auto",
    weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
    jobs: int | None = None,
) -> Compiled:
    """A program that `Compiled.save` kept. On the kind of GPU that it ran on it starts with its cubins, and nothing is
    compiled; on another its CUDA text is compiled, `jobs` kernels at a time. `device` and `seed` as in `compile`;
    `weights` is the folder of the files that the program points at (default: where they were, seen from its file).

    Raises Refused (E1743 a file that cannot be read or is damaged, E1744 one of another format, E1741 weights, and what
    running raises); ValueError as `compile` does.
    """
    _must_be_one_of("device", device, get_args(Device))
    _must_be_some(jobs)
    saved = read_program(Path(path))
    folder = Path(weights) if weights is not None else saved.folder
    return _started(replace(saved, folder=folder), device, seed, jobs)


def _started(saved: Saved, device: Device, seed: int, jobs: int | None) -> Compiled:
    """Raises Refused (E1741 weights that cannot be read, and what `Session` raises)."""
    from .runtime.weights import read_weights

    assert saved.module.region is not None, "manifest.check was not run"
    read = read_weights(saved.module.region.model, saved.folder or Path(), saved.params)
    return Compiled(saved, device, {**read, **saved.params}, seed, jobs)


@dataclass(frozen=True, slots=True)
class _Model:
    """What was given: the file's name (empty: none), the folder that weights are looked for in, and the text (None: it
    is a module)."""

    file: str
    folder: Path
    text: str | None


def _must_be_some(jobs: int | None) -> None:
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs={jobs} < 1")


def _must_be_one_of(what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        raise ValueError(f"{what} {given!r} is none of {', '.join(known)}")


def _read(
    model: Source, shapes: Mapping[str, str | Sequence[int | str]], states: Mapping[str, str], room: int
) -> _Model:
    """Raises Refused (E0001, E0006 to E0008, and what an imported file is refused for)."""
    from . import front

    if isinstance(model, Mapping):
        return _Model("", Path(), json.dumps(dict(model), ensure_ascii=False))
    if isinstance(model, str) and ("\n" in model or front.language_of(model) is not None):
        return _Model("", Path(), model)
    if not isinstance(model, (str, os.PathLike)):
        return _Model("", Path(), None)
    path = Path(model)
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as fault:
        raise refuse("E0008", str(path), file=str(path), reason=why_of(fault)) from None
    if not front.is_onnx(raw) and not front.is_pt2(raw):
        return _Model(str(path), path.parent, decode(raw, Phrase("a model, or text of any stage")))
    sizes = {
        name: given.split(",") if isinstance(given, str) else [str(s) for s in given] for name, given in shapes.items()
    }
    if front.is_pt2(raw):
        return _Model(str(path), path.parent, front.pt2_to_json(raw, path.name, sizes))
    return _Model(str(path), path.parent, front.onnx_to_json(raw, path.name, sizes, {}, path.parent, states, room))


def _planned(
    source: _Model,
    model: Source,
    target: str,
    card: str | None,
    invariant: bool,
    sets: Mapping[str, Mapping[str, int]] | None,
    begin: Begin = lambda text, entries: contextlib.nullcontext(),
) -> Saved:
    """The model's CUDA text with its module and the sizes that it was planned for; others for each shape set whose
    plans no other set before it has. Kernels are checked inside of `begin`, which is given their text."""
    with _without_collection():
        first, *others = _texts_of(source, model, target, card, invariant, sets, begin)
    return replace(first, others=tuple(others))


def _texts_of(
    source: _Model,
    model: Source,
    target: str,
    card: str | None,
    invariant: bool,
    sets: Mapping[str, Mapping[str, int]] | None,
    begin: Begin,
) -> tuple[Saved, ...]:
    stage, module = _module_of(source, model)
    if sets is not None:
        module = _with_sets(stage, module, sets)
    _must_hold(language_of(stage).check(module))
    _must_hold(language_of(stage).validate(module))

    def lowered_from(start: str, module: Any, last: str, **how: Any) -> Any:
        for following in STAGES[STAGES.index(start) + 1 : STAGES.index(last) + 1]:
            module = lower_to(following, module, target, card, **how)
            _must_hold(language_of(following).check(module))
        return module

    if STAGES.index(stage) >= STAGES.index("plan"):
        module = lowered_from(stage, module, "cu")
        given = source.text if stage == "cu" else None
        return (Saved(language_of("cu").show(module) if given is None else given, module),)
    book = lowered_from(stage, module, "index") if stage in ("tiny", "index") else None
    blocks = lowered_from("index", book, "poly") if book is not None else module if stage == "poly" else None
    module = module if blocks is None else lowered_from("poly", blocks, "region")
    found: dict[Any, Saved] = {}
    stated = sorted(module.model.shape_sets, key=lambda s: s.name)
    for one in [None] if invariant or len(stated) < 2 else stated:
        planned = lowered_from("region", module, "plan", invariant=invariant, shapes=one.name if one else "")
        key = planned.program.program, tuple(replace(p, estimate=None) for p in planned.plans)
        sizes = (dict(one.sizes),) if one else ()
        if key in found:
            found[key] = replace(found[key], sets=(*found[key].sets, *sizes))
        else:
            kernels = lower_to("gpu", planned, target, card)
            made = lower_to("cu", kernels, target, card)
            text = language_of("cu").show(made)
            with begin(text, tuple(dict.fromkeys(launch.entry for launch in made.launches))):
                if not found:
                    _must_hold(language_of("index").confirm(book) if book is not None else [])
                    _must_hold(language_of("poly").confirm(blocks) if blocks is not None else [])
                    _must_hold(language_of("region").confirm(module, blocks))
                _must_hold(language_of("gpu").check(kernels))
                _must_hold(language_of("cu").check(made))
            found[key] = Saved(text, made, sets=sizes)
    return tuple(found.values())


def _compiled_beside(
    device: Device, jobs: int | None, text: str, entries: Sequence[str]
) -> AbstractContextManager[None]:
    """For the time in which a text is checked: its kernels are compiled beside, where a GPU will run them."""
    from .runtime.cuda import compiled_beside

    return compiled_beside(text, entries, jobs) if device in ("auto", "cuda") else contextlib.nullcontext()


def _with_sets(stage: str, module: Any, sets: Mapping[str, Mapping[str, int]]) -> Any:
    """The module with these shape sets. Raises TypeError for text of a later stage, which was planned for its own."""
    if stage != "tiny":
        raise TypeError(f"sets are given to models, not to {stage} text, which has its own")
    stated = tuple(Shapes(name, tuple((s, int(n)) for s, n in sizes.items())) for name, sizes in sets.items())
    return replace(module, model=replace(module.model, shape_sets=stated))


def _module_of(source: _Model, model: Source) -> tuple[str, Any]:
    text = source.text
    if text is None:
        stage = next((s for s in STAGES if isinstance(model, language_of(s).Module)), None)
        if stage is None:
            raise TypeError(
                f"a model is a path, a text, a dict of JSON or a module of tinyir.ir, not {type(model).__name__}"
            )
        return stage, model
    header = read_stage(text.removeprefix("// "))
    stage = header[1] if header else None
    if stage in STAGES:
        return stage, language_of(stage).parse(text)
    from . import front

    return "tiny", front.read(text)


def _must_hold(diags: Sequence[Diag]) -> None:
    faults = [d for d in diags if d.is_error]
    refuse_all(faults)


def _target_of(device: str, arch: str | None) -> tuple[str, str | None]:
    """The architecture and the card to plan for."""
    arch_here, card = _gpu_here(device)
    return arch or arch_here, card if arch in (None, arch_here) else None


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Without the collector of cycles, of which stages make few: it takes a tenth of their time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _gpu_here(device: str) -> tuple[str, str | None]:
    """What to plan for: generation and card of the GPU when one will be used."""
    if device in ("auto", "cuda"):
        from .runtime.cuda import find_gpu

        found = find_gpu()
        if found is not None:
            title, capability = found
            return "sm90" if capability >= (9, 0) else "sm80", device_titled(title)
    return "sm90", None


__all__ = ["Compiled", "GpuArray", "Refused", "compile", "load"]
