"""The Python door: a model in, a callable out. It joins the rooms as a command does, and nothing imports it but the package itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from .analysis.device import device_titled
from .ir.pipeline import STAGES, language_of
from .kit.diag import Refused
from .kit.text import read_stage
from .lower import lower_to

ARCHS = ("sm80", "sm90")


class Compiled:
    """A program that is called with arrays and gives its outputs by name.

    NumPy arrays go in and come out; where an input lies on the GPU (`__cuda_array_interface__` or DLPack, so CuPy, PyTorch, JAX, Numba) the
    outputs stay there, and nothing is copied. `text` is the CUDA with its manifest: what tiny-run takes. Close it, or use it in a `with`,
    to give the device's memory back early.
    """

    def __init__(self, text: str, module: Any, device: str, weights: Mapping[str, Any], seed: int):
        from .runtime.session import Session

        self.text = text
        self._session = Session(text, module, device, weights, seed)

    @property
    def inputs(self) -> dict[str, str]:
        """Name and type of each input that a call gives, in order."""
        return {t.name: str(t.type) for t in self._session.inputs}

    @property
    def outputs(self) -> dict[str, str]:
        """Name and type of each output, in order."""
        return {t.name: str(t.type) for t in self._session.model.outputs}

    @property
    def device(self) -> str:
        """Where it runs: cuda, cpu or sim."""
        return self._session.where

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, Any]:
        """The outputs. Arrays without a name are the inputs in their order. Raises kit.diag.Refused with every fault."""
        names = [t.name for t in self._session.inputs]
        if len(arrays) > len(names):
            raise TypeError(f"{len(arrays)} arrays are given, and the inputs are {', '.join(names)}")
        placed = dict(zip(names, arrays))
        twice = sorted(placed.keys() & named.keys())
        if twice:
            raise TypeError(f"given twice: {', '.join(twice)}")
        return self._session({**placed, **named})

    def close(self) -> None:
        """Give the device's memory back."""
        self._session.close()

    def __enter__(self) -> "Compiled":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        given, made = (", ".join(f"{n}: {t}" for n, t in side.items()) for side in (self.inputs, self.outputs))
        return f"<{self._session.model.name}({given}) -> {made} on {self.device}>"


def compile(
    model: Any,
    *,
    device: str = "auto",
    arch: str | None = None,
    weights: str | Path | None = None,
    params: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Compiled:
    """A callable from a model: a path (front-end JSON, ONNX, Core IR, DSL, or text of any stage), such a text itself, or a module of `ir`.

    `device`: auto (a GPU where one can be used, else playback), cuda, cpu or sim. `arch`: sm80 or sm90 (default: the GPU's, else sm90);
    plans are made for the GPU at hand where its figures are known, else for the usual card of its generation.
    `weights` is the folder of the files that the text points at (default: that of the path). `params` are arrays for inputs that calls shall
    not give. `shapes` fixes open sizes of an ONNX model's inputs: {"x": ["B", "L:1..512", 80]}, or "B,L:1..512,80"; `L:1..512` is a symbol that
    keeps to a range. `seed` is the simulation's order of threads. Raises kit.diag.Refused with
    every fault of the model, and E17xx.
    """
    text, folder = _source_of(model, shapes or {})
    stage, module = _module_of(model, text)
    _must_hold(stage, module)
    arch_here, card = _gpu_here(device)
    for following in STAGES[STAGES.index(stage) + 1 :]:
        module = lower_to(following, module, arch or arch_here, card if arch in (None, arch_here) else None)
        _must_hold(following, module)
    bound = dict(params or {})
    from .runtime.weights import read_weights

    read = read_weights(module.region.model, Path(weights) if weights is not None else folder, bound)
    cuda = text if stage == "cu" and text is not None else language_of("cu").show(module)
    return Compiled(cuda, module, device, {**read, **bound}, seed)


def _source_of(model: Any, shapes: Mapping[str, Any]) -> tuple[str | None, Path]:
    """The text of what was given (None: it is no text), and the folder that its files are looked for in."""
    if isinstance(model, str) and "\n" in model:
        return model, Path()
    if not isinstance(model, (str, Path)):
        return None, Path()
    from . import front

    path = Path(model)
    raw = path.read_bytes()
    if front.is_onnx(raw):
        sizes = {name: given.split(",") if isinstance(given, str) else [str(s) for s in given] for name, given in shapes.items()}
        return front.onnx_to_json(raw, path.name, sizes), path.parent
    return raw.decode("utf-8"), path.parent


def _module_of(model: Any, text: str | None) -> tuple[str, Any]:
    if text is None:
        stage = next((s for s in STAGES if isinstance(model, language_of(s).Module)), None)
        if stage is None:
            raise TypeError(f"a model is a path, a text or a module of tinyir.ir, not {type(model).__name__}")
        return stage, model
    header = read_stage(text.removeprefix("// "))
    stage = header[1] if header else None
    if stage in STAGES:
        return stage, language_of(stage).parse(text)
    from . import front

    return "tiny", front.read(text)


def _must_hold(stage: str, module: Any) -> None:
    faults = [d for d in language_of(stage).check(module) if d.is_error]
    if faults:
        raise Refused(faults)


def _gpu_here(device: str) -> tuple[str, str | None]:
    """What to plan for: generation and card of the GPU when one will be used."""
    if device in ("auto", "cuda"):
        from .runtime.cuda import find_gpu

        found = find_gpu()
        if found is not None:
            title, capability = found
            return "sm90" if capability >= (9, 0) else "sm80", device_titled(title)
    return "sm90", None
