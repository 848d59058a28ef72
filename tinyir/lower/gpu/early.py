"""Lets the launches of a program start early: each waits for the one in front of it only when all that needs no tensor
is done, and lets the next one come up.

    fence mbarrier_init              fence mbarrier_init
    barrier cta                      barrier cta
    role producer ...           →    wait_previous
                                     launch_next
                                     role producer ...

The first has nothing to wait for, the last nothing to let come up. Of alternatives one alone is launched; what is made
once runs by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...ir.body import Literal
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...target.arch import ARCHS

SETUP = (
    nodes.Assume,
    nodes.Shared,
    nodes.Mbarrier,
    nodes.TensorMap,
    nodes.Pick,
    nodes.Cursor,
    nodes.Let,
    nodes.Fence,
    nodes.Barrier,
)


def with_early_starts(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """The kernels, in the order of their launches, those that may follow one another with the words for it behind their
    setup."""
    kernels = tuple(kernels)
    able = [k for k in kernels if ARCHS[k.arch].has_tma and not k.is_once]
    waiting = {k.name for n, k in enumerate(able) if any(_may_follow(k, front) for front in able[:n])}
    followed = {k.name for n, k in enumerate(able) if any(_may_follow(behind, k) for behind in able[n + 1 :])}
    return tuple(
        _with((*(nodes.WaitPrevious(),) * (k.name in waiting), *(nodes.LaunchNext(),) * (k.name in followed)), k)
        for k in kernels
    )


def _may_follow(behind: Kernel, front: Kernel) -> bool:
    """Whether one run launches both."""
    return behind.regions != front.regions or (behind.serves or behind.name) == (front.serves or front.name)


def _with(words: tuple[Statement, ...], kernel: Kernel) -> Kernel:
    at = next((n for n, s in enumerate(kernel.body) if not _is_setup(s)), len(kernel.body))
    return replace(kernel, body=(*kernel.body[:at], *words, *kernel.body[at:]))


def _is_setup(s: Statement) -> bool:
    """Whether a statement touches no tensor."""
    return isinstance(s, SETUP) or isinstance(s, nodes.Reg) and (s.init is None or isinstance(s.init, Literal))


__all__ = ["with_early_starts"]
