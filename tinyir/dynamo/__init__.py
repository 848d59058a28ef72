"""`torch.compile(model, backend="tinyir")`: what torch traces runs as a program of tinyir.

    torch     Dynamo traces a model, AOTAutograd takes mutation and composite ops away
    graph     the graph that is left, in the schema of torch.export archives
    cut       where an op has no translation, the graph is cut, and torch runs what is between the programs
    piece     one program, called with torch's tensors on torch's stream
    plans     the plans that a call runs, by its sizes
    results   what a graph gives: tensors that are made, and views, arguments, constants and sizes that need no program

torch is asked for when the backend is; it is the extra `torch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def backend(module: Any, inputs: Any, options: Mapping[str, Any] | None = None, **named: Any) -> Any:
    """The backend that torch finds under the name `tinyir`: a callable of the traced `module` and the tensors that it
    was traced with. `options` are those of `torch.compile(options={...})`: `jobs` (kernels compiled at a time),
    `whole`, by which a graph with an op that has no translation is refused (E0143) and not cut, and `plans`, how many
    sets of sizes are planned for at most (4) where sizes are symbols. Raises TypeError for options that there are not,
    Refused for what is not supported otherwise: nothing falls back to torch unsaid."""
    from .compiler import compiled

    return compiled(module, inputs, **{**(options or {}), **named})


def register(name: str, program: Any) -> Any:
    """A program of `tinyir.compile` as the op `NAMESPACE::NAME` of torch."""
    from .op import register as made

    return made(name, program)


def reports() -> list[str]:
    """What was cut out of the graphs so far, a line each: the op, how many of its nodes torch runs, and why."""
    from .report import lines

    return lines()
