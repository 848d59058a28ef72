"""One kernel for several contractions that are the same but for their tensors: the template's text for the first, in
which the tensors are picked.

    let sibling = floor(batch/2)                          the outermost of the axes that the grid walks
    pick Wq.sibling = [Wq, Wk, Wv] at sibling
    ...                                                   Wq.sibling where the text has Wq

A tensor that all of them read stays as it is. A tensor map is one tensor's: each of them has its own, of which one is
picked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from ...ir.body import Body, Read, rebuild
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.gpu.walk import statements
from ...ir.region import Region
from ...kit.records import fields, replace
from ..problem import SIBLING, Contraction
from ..siblings import Siblings
from .point import split


def sibling_let(kernel: Contraction, batch: Expr, name: str) -> tuple[Statement, ...]:
    """The integer that says which sibling is computed at the number `batch` of the batch axes; none where there is one
    alone."""
    return (nodes.Let(name, split(batch, kernel.batch)[SIBLING]),) if kernel.siblings > 1 else ()


def region_of(siblings: Siblings) -> Region:
    """The first region with all tensors among its inputs, so that a template takes none of their names for itself."""
    first, *others = siblings.regions
    known = {t.name for t in (*first.inputs, *first.outputs)}
    more = {t.name: t for one in others for t in (*one.inputs, *one.outputs) if t.name not in known}
    return replace(first, inputs=(*first.inputs, *more.values()))


def with_picks(kernel: Kernel, siblings: Siblings) -> Kernel:
    """The kernel of the first region as that of all."""
    rows = dict(siblings.tensors)
    maps: dict[str, tuple[nodes.TensorMap, ...]] = {}
    for s in statements(kernel.body):
        if isinstance(s, nodes.TensorMap) and s.tensor in rows:
            maps[s.name] = tuple(
                replace(s, name=f"{s.name}.{at}" if at else s.name, tensor=tensor)
                for at, tensor in enumerate(rows[s.tensor])
            )
    alike = {**rows, **{name: tuple(m.name for m in several) for name, several in maps.items()}}
    put = {name: f"{name}.{SIBLING}" for name in alike}
    return replace(kernel, body=tuple(_block(kernel.body, alike, maps, put)))


def _block(
    body: Iterable[Statement],
    alike: Mapping[str, tuple[str, ...]],
    maps: Mapping[str, tuple[nodes.TensorMap, ...]],
    put: Mapping[str, str],
) -> Iterator[Statement]:
    for s in body:
        if isinstance(s, nodes.TensorMap):
            yield from maps.get(s.name, (s,))
            continue
        inner = {
            word: tuple(_block(found, alike, maps, put))
            for word in ("body", "otherwise")
            if isinstance(found := getattr(s, word, None), tuple)
        }
        own = {f.name: _renamed(getattr(s, f.name), put) for f in fields(s) if f.compare and f.name not in inner}
        yield replace(s, **own, **inner)
        if isinstance(s, nodes.Let) and s.name.rstrip("_") == SIBLING:
            yield from (nodes.Pick(put[name], of, Expr.of(s.name)) for name, of in alike.items())


def _renamed(value: Any, put: Mapping[str, str]) -> Any:
    """A place or an expression of values with the picked names."""
    if isinstance(value, Place):
        return replace(value, name=put.get(value.name, value.name))
    if isinstance(value, Read):
        return replace(value, tensor=put.get(value.tensor, value.tensor))
    return rebuild(value, lambda inner: _renamed(inner, put)) if isinstance(value, get_args(Body)) else value
