"""Tensors that no statement writes: a result of a launch, or a workspace that one of its kernels reads. One without
elements has nothing to be written.

That every element is written once, and by one thread, `writes` counts for the stores that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...kit.diag import Diag
from ..body import Read
from ..expr import ONE, ZERO
from ..model import Model
from ..types import TensorType
from . import nodes
from .across import LookBack, Publish, Ticket
from .nodes import Kernel
from .walk import reads_in, start_of, statements

MOST_PRODUCTS = 256  # of sizes, for all groups of eight axes
WRITERS = (nodes.Store, nodes.Atomic, nodes.TmaStore, nodes.StoreRows)


def check_unwritten(module: Any) -> Iterator[Diag]:
    """E1629 of each launch, a kernel with those that serve it, in the order of the text."""
    program, own = module.plans.program.program, {buffer.name for buffer in module.buffers}
    for kernel in module.kernels:
        if kernel.serves:
            continue
        launch = [k for k in module.kernels if k is kernel or k.serves == kernel.name]
        written = {name for k in launch for name in written_in(k)}
        regions = [program.region(name) for name in kernel.regions]
        has_none = {t.name for region in regions for t in region.outputs if ZERO in t.type.shape}
        results = {item.output for region in regions for item in region.yields} - has_none
        results &= {
            *(t.name for t in module.plans.program.model.outputs),
            *(t.name for t in program.buffers if t.attr("alias") is not None),  # in memory that has another name too
            *(t.name for region in program.regions if region.name not in kernel.regions for t in region.inputs),
        }  # others stay in the kernel
        read = {name for k in launch for name in _read_in(k)} & own
        types = {t.name: t.type for region in regions for t in region.outputs}
        for name in sorted((results | read) - written):
            if name not in types or not _has_no_element(types[name], kernel, module.plans.program.model):
                yield Diag("E1629", kernel.name, {"tensor": name}, kernel.span)


def _has_no_element(of: TensorType, kernel: Kernel, model: Model) -> bool:
    """Whether a tensor is empty wherever the kernel may be launched: the sizes of some of its axes, times one another,
    are shown to be less than 1 by what the kernel assumes."""
    facts = start_of(kernel, model)
    for s in kernel.body:
        if isinstance(s, nodes.Assume):
            facts = facts.with_guard(s.guard)
    products = [ONE]  # of the axes looked at so far
    for size in of.shape:
        more = [product * size for product in products]
        if any(facts.is_below(product, ONE) for product in more):
            return True
        products = (products + more)[:MOST_PRODUCTS]
    return False


def _tensors_in(kernel: Kernel) -> Callable[[str], Iterator[str]]:
    """What gives the tensors that a name of a kernel may mean: those of a map, and of all that may be picked."""
    meant: dict[str, nodes.Pick | nodes.TensorMap] = {}
    for s in statements(kernel.body):
        if isinstance(s, (nodes.Pick, nodes.TensorMap)):
            meant.setdefault(s.name, s)

    def tensors_of(name: str) -> Iterator[str]:
        s = meant.get(name)
        if isinstance(s, nodes.Pick):
            for one in s.of:
                yield from tensors_of(one)
        else:
            yield s.tensor if s is not None else name

    return tensors_of


def written_in(kernel: Kernel) -> Iterator[str]:
    """The tensors that a kernel writes, each for every statement that does."""
    tensors_of = _tensors_in(kernel)
    for s in statements(kernel.body):
        if isinstance(s, WRITERS):
            yield from tensors_of(s.to.name)
        elif isinstance(s, Publish):
            yield from (s.to.name, *((s.held,) if s.held else ()))


def _read_in(kernel: Kernel) -> Iterator[str]:
    tensors_of = _tensors_in(kernel)
    for s in statements(kernel.body):
        for node in reads_in(s):
            if isinstance(node, Read):
                yield from tensors_of(node.tensor)
        if isinstance(s, (nodes.TmaLoad, Ticket, LookBack)) or isinstance(s, nodes.For) and s.source is not None:
            yield from tensors_of(s.source.name)
        if isinstance(s, LookBack) and s.held:
            yield s.held
