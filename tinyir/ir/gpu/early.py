"""Launches that start while the one before it drains: what they touch, and when.

Buffers are used again, so an earlier kernel may still read what this one writes, or write what this one reads. Every
thread waits for its end before the first access to a tensor. A kernel ends only behind its own wait: with the launch
before it all earlier launches have ended, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ..body import Read
from . import nodes
from .engines import EARLY, LaunchNext, WaitPrevious
from .nodes import Kernel
from .walk import Visit, places_in, reads_in, tensors_of

WORDS = {WaitPrevious: "wait_previous", LaunchNext: "launch_next"}


def check_early(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1682 for a wait that not all threads come to, or that comes after an access, and for a launch of the next one
    before the wait."""
    own = [v for v in walked if isinstance(v.statement, EARLY)]
    for number, v in enumerate(own):
        fault = _fault(v, own, number)
        if fault:
            yield Diag("E1682", kernel.name, {"name": WORDS[type(v.statement)], "fault": fault}, v.statement.span)
    wait = next((v for v in own if isinstance(v.statement, WaitPrevious)), None)
    if wait is None:
        return
    labels = (Label(wait.statement.span, Phrase("before this")),) if wait.statement.span else ()
    for v in walked[: walked.index(wait)]:
        for name in _touched(v, tensors_of(kernel, module)):
            yield Diag(
                "E1682",
                kernel.name,
                {"name": name, "fault": Phrase("is touched while the launch before may still run")},
                v.statement.span,
                labels,
            )


def _fault(v: Visit, own: list[Visit], number: int) -> str:
    if v.path:
        return Phrase("is in a block: some threads may not come to it")
    if any(type(o.statement) is type(v.statement) for o in own[:number]):
        return Phrase("is there twice")
    if isinstance(v.statement, LaunchNext) and any(isinstance(o.statement, WaitPrevious) for o in own[number:]):
        return Phrase(
            "is before wait_previous: the next launch might start while more than one earlier launch still runs"
        )
    return ""


def _touched(v: Visit, tensors: dict[str, Any]) -> tuple[str, ...]:
    """The tensors that a statement itself reads or writes, those of tensor maps too."""
    s = v.statement
    names = [
        *(n.tensor for n in reads_in(s) if isinstance(n, Read)),
        *(p.name for _, p in places_in(s)),
        *filter(None, (getattr(s, "held", ""),)),
    ]
    return tuple(dict.fromkeys(found for name in names if (found := _tensor(name, v, tensors))))


def _tensor(name: str, v: Visit, tensors: dict[str, Any]) -> str:
    """The tensor of a name, or of a map's name; of those that may be picked the first. Empty for an array of the
    kernel."""
    item = v.arrays.get(name)
    if isinstance(item, nodes.Pick):
        name, item = item.of[0], v.arrays.get(item.of[0])
    if isinstance(item, nodes.TensorMap):
        return item.tensor
    return name if item is None and name in tensors else ""
