"""Atomics: what they fold into was written before, nothing else touches it, and the order of the threads changes no
bits unless the plan lets it.

A launch ends before the next begins, so an earlier kernel, for this one, writes what is folded into; a store of the
same launch might come behind some of its atomics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ..body import Read
from ..plan.words import UNORDERED
from ..scatters import BYTES, is_ordered
from . import nodes
from .nodes import Kernel
from .walk import Visit, places_in, reads_in, statements, tensor_of, tensors_of


def check_atomics(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1681 for an atomic that races, that no hardware has, or that gives other bits at each run though no plan says
    so."""
    atomics = [v for v in walked if isinstance(v.statement, nodes.Atomic)]
    for v in atomics:
        fault = _fault(kernel, v, atomics, module)
        if fault:
            yield Diag("E1681", kernel.name, {"name": v.statement.to.name, "fault": fault}, v.statement.span)
    for name, s in {v.statement.to.name: v.statement for v in atomics}.items():
        for v in walked:
            touched = {p.name for _, p in places_in(v.statement)} | {
                n.tensor for n in reads_in(v.statement) if isinstance(n, Read)
            }
            if name in {tensor_of(n, v) for n in touched} and (
                not isinstance(v.statement, nodes.Atomic) or name in _read_by(v)
            ):
                yield Diag(
                    "E1681",
                    kernel.name,
                    {"name": name, "fault": Phrase("is touched beside its atomics")},
                    v.statement.span,
                    (Label(s.span, Phrase("by these")),) if s.span else (),
                )


def _fault(kernel: Kernel, v: Visit, atomics: list[Visit], module: Any) -> str:
    s, tensors = v.statement, tensors_of(kernel, module)
    if s.to.name in v.arrays or s.to.name not in tensors:
        return Phrase("is not a tensor: atomics fold into global memory")
    dtype = tensors[s.to.name].type.dtype
    if dtype.bytes not in BYTES or dtype.kind == "b":
        return Phrase("has elements of {dtype}, which no atomic takes", dtype=dtype)
    if any(o.statement.to.name == s.to.name and o.statement.op != s.op for o in atomics):
        return Phrase("is folded into by more than one op, whose order matters")
    if is_ordered(s.op, dtype) and not any(
        p.atomics == UNORDERED for p in module.plans.plans if p.regions == kernel.regions
    ):
        return Phrase(
            "has other bits at each run, as a {op} of {dtype} in any order has, and no plan says `atomics {unordered}`",
            op=s.op,
            dtype=dtype,
            unordered=UNORDERED,
        )
    front = module.kernels[: [k.name for k in module.kernels].index(kernel.name)]
    written = any(
        isinstance(o, (nodes.Store, nodes.TmaStore, nodes.StoreRows)) and o.to.name == s.to.name
        for k in front
        if k.serves == kernel.name and not k.is_once
        for o in statements(k.body)
    )
    return "" if written else Phrase("is not written at each run by a kernel before this one")


def _read_by(v: Visit) -> set[str]:
    return {tensor_of(n.tensor, v) for n in reads_in(v.statement) if isinstance(n, Read)}
