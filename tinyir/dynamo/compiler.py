"""From what Dynamo traced to programs: one where everything has a translation, else as many as the cuts leave."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..kit.diag import Refused
from .cut import pieces_of, supported_of
from .piece import Piece
from .report import tell


def compiled(module: Any, inputs: Sequence[Any], jobs: int | None = None, whole: bool = False, **more: Any) -> Any:
    """What the backend gives Dynamo. Raises TypeError for options that there are not, Refused as `backend` does."""
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    if more:
        raise TypeError(f"backend tinyir has no options {', '.join(more)}")
    _start_gpus(inputs)
    make = functools.partial(_program_of, jobs=jobs, whole=whole)
    return aot_autograd(fw_compiler=make, bw_compiler=make, decompositions=_decompositions(core_aten_decompositions()))(
        module, inputs
    )


def _start_gpus(inputs: Sequence[Any]) -> None:
    """Open the GPUs that the inputs are on, in the thread that asks for the program: autograd's threads end before."""
    from .on_cuda import shared

    for ordinal in {x.device.index or 0 for x in inputs if getattr(x, "is_cuda", False)}:
        shared(ordinal)


def _decompositions(table: Any) -> dict[Any, Any]:
    """torch's decompositions, less those of ops that have a translation of their own."""
    from ..front.pt2 import is_check, is_translated

    def is_own(op: Any) -> bool:
        return is_translated(f"torch.ops.{op}") or is_check(f"torch.ops.{op}")

    return {op: how for op, how in dict(table).items() if not is_own(op)}


def _program_of(module: Any, inputs: Sequence[Any], jobs: int | None, whole: bool) -> Callable[..., Any]:
    """The callable of one graph of ATen ops, on a list of its inputs."""
    from functorch.compile import make_boxed_func
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():  # constants of the graph are tensors with elements
        return make_boxed_func(_callable_of(module, jobs, whole))


def _callable_of(module: Any, jobs: int | None, whole: bool) -> Callable[..., Any]:
    weights = _static_inputs()
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    named = frozenset(placeholders[i].name for i in weights if i < len(placeholders))
    refused: dict[str, str] = {}  # nodes that torch runs, and why
    while True:
        support = supported_of(module, refused)
        if not support.others:
            try:
                return called(Piece(module, named, jobs))
            except Refused as fault:
                _take_out(fault, module, refused, whole)
                continue
        if whole:
            raise support.fault()
        if not support.nodes:
            tell(support.others, 0)
            return module.forward
        try:
            cut, pieces = pieces_of(module, support, lambda part: called(Piece(part, named, jobs)))
        except Refused as fault:
            _take_out(fault, module, refused, whole)
            continue
        tell(support.others, pieces)
        return cut.forward


def called(piece: Piece) -> Callable[..., Any]:
    """A program as a callable on its graph's inputs, which gives the graph's outputs."""
    if not piece.is_made:
        return lambda *arguments: tuple(arguments[r.given] if r.given >= 0 else None for r in piece.results)
    if piece.device.type == "cuda":
        from .on_cuda import OnCuda

        return OnCuda(piece)
    from .on_cpu import OnCpu

    return OnCpu(piece)


def _take_out(fault: Refused, module: Any, refused: dict[str, str], whole: bool) -> None:
    """Leave the nodes to torch that a translation refuses in the form that they have. Raises the fault where it is any
    other, or where the graph shall not be cut."""
    names = {n.name for n in module.graph.nodes}
    found = {d.at: d.why() for d in fault.diags if d.code in ("E0126", "E0143", "E0144") and d.at in names}
    if whole or len(found) != len({d.at for d in fault.diags}) or not found.keys() - refused.keys():
        raise fault
    refused.update(found)


def _static_inputs() -> Sequence[int]:
    """The places among a graph's inputs of the model's parameters and buffers, whose memory stays where it is."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    meta = getattr(context, "fw_metadata", None) if context is not None else None
    return tuple(getattr(meta, "static_input_indices", None) or ())


__all__ = ["called", "compiled"]
