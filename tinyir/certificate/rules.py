"""What there is to show of a kernel beside its places: tokens, barriers, and what the card has."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import gpu
from ..ir.gpu import nodes
from ..ir.gpu.across import ACROSS
from ..ir.gpu.nodes import PRODUCERS, Kernel
from ..ir.gpu.walk import statements
from ..ir.model import show_name

OF_ENGINES = ("wgmma", "wgmma_a")  # registers that wgmma reads or writes beside the threads
ORDERING = (  # what puts reads and writes in order, or takes its time
    *(nodes.Wait, nodes.WaitGroup, nodes.Arrive, nodes.Drain, nodes.Barrier, nodes.Advance, nodes.Commit, nodes.Role),
    *(*PRODUCERS, nodes.BlockReduce, nodes.BlockScan),
)
STORES = (nodes.Store, nodes.TmaStore, nodes.StoreRows)
MET = (nodes.Barrier, nodes.BlockReduce, nodes.BlockScan, nodes.WarpReduce, nodes.StoreRows, *ACROSS)


def named_of(kernel: Kernel, module: gpu.Module) -> Iterator[tuple[int, str]]:
    """The obligations of a kernel that no sum shows, by line."""
    for launch in module.launches:
        if isinstance(launch, nodes.Launch) and launch.kernel == kernel.name:
            yield launch.span.line, "tensors of its shapes"
    for what in ("shared memory", "registers", "threads"):
        yield kernel.span.line, what
    for s in statements(kernel.body):
        if isinstance(s, PRODUCERS):
            yield s.span.line, f"token %{show_name(s.token)}"
        if isinstance(s, MET):
            yield s.span.line, "barrier reached by all"
        if isinstance(s, (nodes.Shared, nodes.Mbarrier)) or isinstance(s, nodes.Reg) and s.kind in OF_ENGINES:
            yield s.span.line, "used in order"
        if isinstance(s, nodes.For) and any(isinstance(inner, ORDERING) for inner in statements(s.body)):
            yield s.span.line, "turns in a run"
        if isinstance(s, nodes.For) and s.via:
            yield s.span.line, "each drawn number has one turn"
    shared = {s.name for s in statements(kernel.body) if isinstance(s, nodes.Shared)}
    stores = [s.to.name for s in statements(kernel.body) if isinstance(s, STORES)]
    for name in dict.fromkeys(stores):
        if name not in shared:
            yield kernel.span.line, f"one store {show_name(name)}"
            yield kernel.span.line, f"not read {show_name(name)}"
    for role in kernel.body:
        for s in statements(role.body) if isinstance(role, nodes.Role) else ():
            if isinstance(s, nodes.Barrier) and s.threads:
                yield s.span.line, "barrier of its role"
