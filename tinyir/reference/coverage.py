"""The page of coverage: what is read of ONNX, ATen, Core IR and the graph DSL."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..front import coreops, dslcalls
from ..front.ops import ELEMENTWISE
from ..ir.ops import OPS
from ..kit.phrase import told
from .json_ops import takes
from .page import Section, block, table, words

_TITLES = {
    "onnx": {"en": "ONNX", "ja": "ONNX"},
    "aten": {"en": "ATen", "ja": "ATen"},
    "core": {"en": "Core IR", "ja": "Core IR"},
    "defined": {"en": "Core IR: what its standard leaves open", "ja": "Core IR: 規格が実装に任せる点"},
    "dsl": {"en": "Graph DSL", "ja": "グラフ DSL"},
}
_HEADS = {
    "en": {"ops": "ops", "file": "kind", "op": "instruction", "attrs": "operands and attributes"},
    "ja": {"ops": "op", "file": "種類", "op": "命令", "attrs": "オペランドと属性"},
}


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    said, heads = words("coverage"), _HEADS[lang]
    kinds = said["kinds"]
    for name, found in (("onnx", onnx_ops()), ("aten", aten_ops())):
        rows = [(kinds[kind][lang], ", ".join(f"`{op}`" for op in sorted(ops))) for kind, ops in found.items()]
        refused = ", ".join(f"`{op}`" for op in said["refused"])
        also = f"{said['not_read'][lang]}: {refused}" if name == "onnx" else ""
        count = said[name][lang].format(count=sum(map(len, found.values())))
        yield Section(
            _TITLES[name][lang],
            block(count, table([heads["file"], heads["ops"]], rows), also),
            (name, *(f"{name}.{op}" for ops in found.values() for op in ops)),
            2,
        )
    rows = [
        (f"`{row.name}`", "; ".join([str(row.inputs[0]), *(f"`{a.name}`: {told(takes(a), lang)}" for a in row.attrs)]))
        for row in coreops.CORE.values()
    ]
    core = block(said["core"][lang], table([heads["op"], heads["attrs"]], rows))
    yield Section(_TITLES["core"][lang], core, ("core", *(f"core.{name}" for name in coreops.CORE)), 2)
    for name, point in said["defined"].items():
        yield Section(point["title"][lang], point[lang] + "\n", (f"core.{name}",))
    functions = table(
        [heads["file"], heads["ops"]], [(k, ", ".join(f"`{n}`" for n in ns)) for k, ns in dsl_functions(lang)]
    )
    yield Section(
        _TITLES["dsl"][lang],
        block(said["dsl"][lang], functions),
        ("dsl", *(f"dsl.{n}" for _, ns in dsl_functions(lang) for n in ns)),
        2,
    )


def onnx_ops() -> dict[str, list[str]]:
    """The ONNX ops that are read, by the file that translates them; of constants alone: `folding`."""
    from ..front.onnx import ops  # noqa: F401  (its import fills the table)
    from ..front.onnx.table import FOLDS, ONNX_OPS

    spelt = {f"{domain}.{name}" if domain else name: f for (domain, name), f in ONNX_OPS.items()}
    return _by_file({**{name: f for name, f in FOLDS.items() if name not in spelt}, **spelt})


def aten_ops() -> dict[str, list[str]]:
    """The same of ATen's overloads."""
    from ..front.pt2 import ops  # noqa: F401
    from ..front.pt2.table import ATEN_OPS, COMPLEX_OPS, FOLDS

    return _by_file({name: f for name, f in (FOLDS | COMPLEX_OPS).items() if name not in ATEN_OPS} | ATEN_OPS)


def _by_file(table: dict[str, Callable[..., Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, translate in table.items():
        module = inspect.unwrap(translate).__module__.rpartition(".")[2]
        found.setdefault(module, []).append(name)
    return dict(sorted(found.items()))


def dsl_functions(lang: str) -> list[tuple[str, Iterable[str]]]:
    """The functions of the graph DSL, by what they are."""
    titles = words("coverage")["dsl_kinds"]
    return [
        (titles["own"][lang], sorted(dslcalls.own_functions())),
        (titles["ops"][lang], sorted(dslcalls.SNAKE)),
        (titles["elementwise"][lang], sorted({*ELEMENTWISE, *dslcalls.FUNCTIONS})),
        (titles["tiny"][lang], sorted(OPS)),
    ]
