"""The rewrites of tiny text, and the order in which they make it canonical (seed 004, canonicalisation).

A pass takes a module that holds and gives one that holds, with the same outputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ...ir.tiny import Module
from .compose_movement import compose_movement
from .drop_defaults import drop_defaults
from .fold_constants import fold_constants
from .forget_origins import forget_origins
from .merge_equal import merge_equal
from .number_values import number_values
from .order_operands import order_operands
from .order_values import order_values
from .remove_dead import remove_dead

Pass = Callable[[Module], Module]

CANONICAL: tuple[Pass, ...] = (
    drop_defaults,  # first: others compare attributes
    fold_constants,
    compose_movement,  # after folding, which leaves no movement of a constant to compose
    remove_dead,  # after both, which leave values without users; before merging, so that none of these gives its name
    merge_equal,  # what is merged leaves nothing unused: its operands were merged before it
    order_values,
    order_operands,  # after order_values: it goes by the order of the values
    number_values,  # last: it counts in the final order
)
PASSES: tuple[Pass, ...] = (*CANONICAL, forget_origins)
PASS_OF: dict[str, Pass] = {p.__name__: p for p in PASSES}


def canonical(module: Module) -> Module:
    """The one form of all modules that compute the same by the same ops, whatever order and names they were written
    in."""
    for rewrite in CANONICAL:
        module = rewrite(module)
    return module


def transition_of(rewrite: Pass) -> str:
    """What a pass does, in one line: the first of its file."""
    return (inspect.getdoc(inspect.getmodule(rewrite)) or "").split("\n", 1)[0]
