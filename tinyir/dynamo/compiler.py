"""From what Dynamo traced to programs: one where everything has a translation, else as many as the cuts leave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from ..kit.diag import Refused
from ..kit.records import dataclass, fields
from .binding import sizes_from, symbols_of
from .cut import better_by_torch, pieces_of, supported_of
from .decompositions import decompositions
from .graph import extent_of, symbols_in
from .piece import Piece
from .rebased import rebase
from .report import tell

_OF_MODELS = ("E01", "E10", "E11", "E1304")  # codes of what a model says: its form, types, movements and axes


@dataclass(frozen=True, slots=True)
class Options:
    """Those of `torch.compile(options={...})`."""

    jobs: int | None = None
    whole: bool = False
    plans: int = 4


def compiled(module: Any, inputs: Sequence[Any], **named: Any) -> Any:
    """What the backend gives Dynamo. Raises TypeError for options that there are not, Refused as `backend` does."""
    from torch._dynamo.backends.common import aot_autograd

    more = named.keys() - {f.name for f in fields(Options)}
    if more:
        raise TypeError(f"backend tinyir has no options {', '.join(sorted(more))}")
    _start_gpus(inputs)
    made = _Graphs(Options(**named))
    return aot_autograd(fw_compiler=made.forward, bw_compiler=made.backward, decompositions=decompositions())(
        module, inputs
    )


def _start_gpus(inputs: Sequence[Any]) -> None:
    """Open the GPUs that the inputs are on, in the thread that asks for the program: autograd's threads end before."""
    from .on_cuda import shared

    for ordinal in {x.device.index or 0 for x in inputs if getattr(x, "is_cuda", False)}:
        shared(ordinal)


class _Graphs:
    """The graphs that autograd makes of one traced module: forward, then backward where gradients are asked for."""

    def __init__(self, options: Options):
        self._options = options
        self._weights: frozenset[str] = frozenset()

    def forward(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of a graph of ATen ops, on a list of its inputs. Parameters and buffers stay where they are."""
        static = _static_inputs()
        names = _placeholders(module)
        self._weights = frozenset(names[i] for i in static if i < len(names))
        return self._program_of(module)

    def backward(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The same of the graph of the gradients. Parameters that it reads have the names that they had; what else it
        is given was computed by the run before."""
        return self._program_of(module)

    def _program_of(self, module: Any) -> Callable[..., Any]:
        from functorch.compile import make_boxed_func
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        rebase(module)
        with unset_fake_temporarily():  # constants of the graph are tensors with elements
            named = self._weights & frozenset(_placeholders(module))
            return make_boxed_func(_callable_of(module, named, self._options))


def _placeholders(module: Any) -> list[str]:
    return [n.name for n in module.graph.nodes if n.op == "placeholder"]


def _callable_of(module: Any, named: frozenset[str], options: Options) -> Callable[..., Any]:
    refused = {} if options.whole else better_by_torch(module)  # nodes that torch runs, and why
    while True:
        support = supported_of(module, refused)
        if not support.others:
            try:
                return called(Piece(module, named), options)
            except Refused as fault:
                _take_out(fault, module, refused, options.whole)
                continue
        if options.whole:
            raise support.fault()
        if not support.nodes:
            tell(support.others, 0)
            return module.forward
        try:
            cut, pieces = pieces_of(module, support, lambda part: called(Piece(part, named), options))
        except Refused as fault:
            _take_out(fault, module, refused, options.whole)
            continue
        tell(support.others, pieces)
        return cut.forward


def called(piece: Piece, options: Options) -> Callable[..., Any]:
    """A program as a callable on its graph's inputs, which gives the graph's outputs."""
    if not piece.is_made:
        return _giving(piece)
    if piece.device.type == "cuda":
        from .on_cuda import OnCuda

        return OnCuda(piece, options.jobs, options.plans)
    from .on_cpu import OnCpu

    return OnCpu(piece)


def _giving(piece: Piece) -> Callable[..., Any]:
    """A graph that only gives on what it is given."""
    symbols = symbols_of(piece)
    sizes = sizes_from(piece.placeholders, symbols)

    def run(*arguments: Any) -> Any:
        bound = dict(zip(symbols, sizes(arguments)))
        answers = tuple(r.answer(bound)(arguments, {}) for r in piece.results)
        return answers if piece.is_list else answers[0]

    return run


def _take_out(fault: Refused, module: Any, refused: dict[str, str], whole: bool) -> None:
    """Leave the nodes to torch that are refused in the form that they have: by a translation, or by the front end of
    what it makes, which names a value after its node. Two sizes that must be one are that where they are so for torch.
    Raises the fault where it is any other, or where the graph shall not be cut."""
    if _are_one_size(fault, module):
        return
    names = {n.name for n in module.graph.nodes}
    found: dict[str, str] = {}
    for diag in fault.diags:
        node = diag.at.split(".", 1)[0]
        if whole or node not in names or not diag.code.startswith(_OF_MODELS):
            raise fault
        found.setdefault(node, diag.why())
    if not found.keys() - refused.keys():
        raise fault
    refused.update(found)


def _are_one_size(fault: Refused, module: Any) -> bool:
    """Whether sizes that the fault says must be one are so for torch, which told them apart since it had not asked yet.
    It has a guard for it from then on, and one symbol for both."""
    sizes: dict[str, Any] = {}
    for size in (s for n in module.graph.nodes for s in getattr(n.meta.get("val"), "shape", ())):
        if symbols_in(size):
            with contextlib.suppress(ValueError):  # no fault names what our sizes cannot say
                sizes[str(extent_of(size))] = size
    for diag in fault.diags:
        sides = [sizes.get(str(diag.facts.get(side, "")).rpartition("= ")[2]) for side in ("left", "right")]
        if diag.code == "E1304" and None not in sides and str(sides[0].node.expr) != str(sides[1].node.expr):
            return bool(sides[0] == sides[1])
    return False


def _static_inputs() -> Sequence[int]:
    """The places among a graph's inputs of the model's parameters and buffers, whose memory stays where it is."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    meta = getattr(context, "fw_metadata", None) if context is not None else None
    return tuple(getattr(meta, "static_input_indices", None) or ())
