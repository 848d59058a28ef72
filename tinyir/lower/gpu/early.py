"""Lets the launches of a program start early: each waits for the one before it only when all that needs no tensor
is done, and lets the next one come up.

    fence mbarrier_init              fence mbarrier_init
    barrier cta                      barrier cta
    role producer ...           →    wait_previous
                                     launch_next
                                     role producer ...

The first has nothing to wait for, the last nothing to let come up, unless another launch of their kernel has: there the
words do nothing. Of alternatives one alone is launched; what is made once runs by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.body import Literal
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Launch, Statement, kernel_named
from ...kit.records import replace
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


def with_early_starts(launches: Iterable[Kernel | Launch]) -> tuple[Kernel | Launch, ...]:
    """The launches in their order, the kernels of those that may follow one another with the words for it behind their
    setup: a kernel says what any of its launches needs."""
    launches = tuple(launches)
    arch = {k.name: k.arch for k in launches if isinstance(k, Kernel)}
    able = [one for one in launches if ARCHS[arch[kernel_named(one)]].has_tma and not one.is_once]
    waiting = {kernel_named(one) for n, one in enumerate(able) if any(_may_follow(one, front) for front in able[:n])}
    followed = {
        kernel_named(one) for n, one in enumerate(able) if any(_may_follow(behind, one) for behind in able[n + 1 :])
    }
    return tuple(
        _with((*(nodes.WaitPrevious(),) * (k.name in waiting), *(nodes.LaunchNext(),) * (k.name in followed)), k)
        if isinstance(k, Kernel)
        else k
        for k in launches
    )


def _may_follow(behind: Kernel | Launch, front: Kernel | Launch) -> bool:
    """Whether one run launches both."""
    return behind.regions != front.regions or (behind.serves or behind.name) == (front.serves or front.name)


def _with(words: tuple[Statement, ...], kernel: Kernel) -> Kernel:
    at = next((n for n, s in enumerate(kernel.body) if not _is_setup(s)), len(kernel.body))
    return replace(kernel, body=(*kernel.body[:at], *words, *kernel.body[at:]))


def _is_setup(s: Statement) -> bool:
    """Whether a statement touches no tensor."""
    return isinstance(s, SETUP) or isinstance(s, nodes.Reg) and (s.init is None or isinstance(s.init, Literal))
