"""Edits of the statements of gpu text, field by field: each field of each form of statement, and of a kernel's head,
gets other values that look as if they were right, and statements go, come twice, or change places with the next.

What a field's value is says what else it may be: a number the next ones and its half, a word the other words of its
table, a name another one of its kind, a place another corner or slot, a guard less or more. So a form or field that is
new is edited as soon as a family writes it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tinyir.ir import gpu
from tinyir.ir.expr import ZERO, Bound, Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.kinds import words_of
from tinyir.ir.gpu.nodes import Kernel
from tinyir.ir.gpu.walk import statements
from tinyir.ir.types import DTYPES, TensorType
from tinyir.ir.windows import Windows
from tinyir.kit.records import fields, replace

from .statement_mutants import with_kernels

NAMED = (nodes.Shared, nodes.Reg, nodes.Mbarrier, nodes.TensorMap, nodes.Pick, nodes.Cursor)
HEAD = ("grid", "block", "cluster", "regs")
WORDS = {"unit": ("warps", "warpgroups"), "half": ("", "arrive", "wait"), "by": ("", "stmatrix")}
OTHERS = ("fp16", "fp32", "bf16", "i32")  # dtypes
Path = tuple[Any, ...]  # the part of a kernel, the number of a statement in it, its part, ...
Other = tuple[str, Any]  # how a value is another now, and that one


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """One field of one statement of a module (of a kernel, for its head) changed: what was there, what is there now,
    where (the numbers of the blocks around it and its own, with the part of each block), and how many statements it
    takes the place of."""

    field: str
    how: str
    old: Any
    new: tuple[Any, ...]
    whole: gpu.Module
    kernel: Kernel
    at: Path = ()
    count: int = 1

    @property
    def kind(self) -> str:
        """The form of the statement."""
        return type(self.old).__name__

    @property
    def key(self) -> tuple[str, str, str]:
        """What is edited, and how; many places are alike."""
        return self.kind, self.field, self.how

    @property
    def module(self) -> gpu.Module:
        """The module with the edit."""
        kernel = self.new[0] if isinstance(self.old, Kernel) else _with(self.kernel, self.at, self.new, self.count)
        return with_kernels(self.whole, [kernel])

    def __str__(self) -> str:
        return f"{'.'.join(self.key)}: {_line(self.old)} -> {' | '.join(map(_line, self.new))}"


def edits_of(module: gpu.Module, is_wanted: Callable[[Any], bool] = lambda s: True) -> Iterator[FieldEdit]:
    """Every edit of the kernels of a module, of the statements that are wanted."""
    for kernel in module.kernels:
        for body, at, n in _places_of(kernel.body, ("body",)):
            s = body[n]
            if not is_wanted(s):
                continue
            for field, how, new in (*_of_statement(s, kernel), ("", "gone", ()), ("", "twice", (s, s))):
                yield FieldEdit(field, how, s, new, module, kernel, (*at, n))
            if n + 1 < len(body):
                yield FieldEdit("", "after the next", s, (body[n + 1], s), module, kernel, (*at, n), 2)
        for field in HEAD if is_wanted(kernel) else ():
            for how, other in _others(getattr(kernel, field), kernel, field, kernel):
                with contextlib.suppress(ValueError, ZeroDivisionError):
                    yield FieldEdit(field, how, kernel, (replace(kernel, **{field: other}),), module, kernel)


def _places_of(body: tuple[Any, ...], at: Path) -> Iterator[tuple[tuple[Any, ...], Path, int]]:
    """Each block, where it is, and the number of each of its statements."""
    for n, s in enumerate(body):
        yield body, at, n
        for part in ("body", "otherwise"):
            yield from _places_of(getattr(s, part, ()), (*at, n, part))


def _with(owner: Any, at: Path, new: tuple[Any, ...], count: int) -> Any:
    """A kernel or block with other statements in the place of some."""
    part, n, *inner = at
    body = getattr(owner, part)
    found = (_with(body[n], tuple(inner), new, count),) if inner else new
    return replace(owner, **{part: (*body[:n], *found, *body[n + (1 if inner else count) :])})


def _line(s: Any) -> str:
    text = gpu.show_kernel(s) if isinstance(s, Kernel) else gpu.show_statement(s)
    return text.strip().splitlines()[0]


def _of_statement(s: Any, kernel: Kernel) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    for field in (f.name for f in fields(s) if f.name not in ("span", "body", "otherwise")):
        value = getattr(s, field)
        for how, other in _others(value, s, field, kernel):
            with contextlib.suppress(ValueError, ZeroDivisionError):
                if (changed := replace(s, **{field: other})) != s:
                    yield field, how, (changed,)


def _others(value: Any, s: Any, field: str, kernel: Kernel) -> Iterator[Other]:
    """Other values of a field."""
    if field == "zero":
        yield from (("always", ()), ("never", None))
    if isinstance(value, bool):
        yield "turned", not value
    elif isinstance(value, int):
        yield from _numbers(value)
    elif isinstance(value, str):
        yield from _words(value, s, field, kernel)
    elif isinstance(value, Expr):
        yield from _exprs(value)
    elif isinstance(value, nodes.Place):
        yield from _places(value, kernel)
    elif isinstance(value, Bound):
        yield from _bounds(value)
    elif isinstance(value, Windows):
        for part in (f.name for f in fields(value)):
            for how, other in _others(getattr(value, part), s, part, kernel):
                yield f"{part} {how}", replace(value, **{part: other})
    elif isinstance(value, TensorType):
        for how, shape in _others(value.shape, s, "shape", kernel):
            yield f"shape {how}", replace(value, shape=shape)
        yield from ((name, replace(value, dtype=DTYPES[name])) for name in OTHERS if name != value.dtype.name)
    elif isinstance(value, tuple):
        yield from _lists(value, s, field, kernel)


def _numbers(n: int) -> Iterator[Other]:
    yield "+ 1", n + 1
    if n:
        yield from (("- 1", n - 1), ("twice", 2 * n), ("half", n // 2), ("0", 0))


def _words(word: str, s: Any, field: str, kernel: Kernel) -> Iterator[Other]:
    known = [k for _, said, ks in words_of(s) if said == word for k in ks] + list(WORDS.get(field, ()))
    yield from ((f"word {k}", k) for k in known if isinstance(k, str) and k != word)
    yield from (("another name", name) for name in _named_alike(word, kernel))
    if field == "token":
        yield "another", f"{word}.other"
    for side in "nk" if field == "shape" else "":
        yield f"{side} twice", re.sub(rf"(?<={side})\d+", lambda found: str(2 * int(found[0])), word)
        yield f"{side} half", re.sub(rf"(?<={side})\d+", lambda found: str(int(found[0]) // 2), word)
    if field == "scope":
        yield from ((f"word {k}", k) for k in ("cta", "warp", "warpgroup", "cluster") if k != word)


def _named_alike(name: str, kernel: Kernel) -> list[str]:
    """A few other names of what is declared alike."""
    declared = {s.name: s for s in statements(kernel.body) if isinstance(s, NAMED)}
    kind = type(declared.get(name))
    return [other for other, s in declared.items() if other != name and type(s) is kind][:2]


def _exprs(e: Expr) -> Iterator[Other]:
    yield "+ 1", e + 1
    yield "- 1", e - 1
    if e.constant is None:
        yield "twice", 2 * e
    for name in [*dict.fromkeys(e.names())][:2]:
        with contextlib.suppress(ZeroDivisionError):
            yield "without a name", e.substitute({name: ZERO})


def _places(place: nodes.Place, kernel: Kernel) -> Iterator[Other]:
    for n, e in enumerate(place.index):
        for how, other in _exprs(e):
            yield f"index {how}", replace(place, index=(*place.index[:n], other, *place.index[n + 1 :]))
    if len(place.index) > 1:
        yield "index exchanged", replace(place, index=place.index[::-1])
    if place.index:
        yield "index gone", replace(place, index=())
    for how, other in _exprs(place.slot) if place.slot is not None else ():
        yield f"slot {how}", replace(place, slot=other)
    yield from (("another name", replace(place, name=name)) for name in _named_alike(place.name, kernel))


def _bounds(bound: Bound) -> Iterator[Other]:
    for word in ("lower", "upper", "equals"):
        side = getattr(bound, word)
        for how, other in _exprs(side) if side is not None else ():
            yield f"{word} {how}", replace(bound, **{word: other})
    if bound.lower is not None and bound.upper is not None:
        yield from (("without lower", replace(bound, lower=None)), ("without upper", replace(bound, upper=None)))


def _lists(items: tuple[Any, ...], s: Any, field: str, kernel: Kernel) -> Iterator[Other]:
    for n, item in enumerate(items):
        for how, other in _of_pair(item, s, kernel) if isinstance(item, tuple) else _others(item, s, field, kernel):
            yield f"one {how}", (*items[:n], other, *items[n + 1 :])
    if len(items) > 1:
        yield from (("reversed", items[::-1]), ("first gone", items[1:]))
    if items:
        yield "last gone", items[:-1]
        yield "last twice", (*items, items[-1])


def _of_pair(pair: tuple[str, Expr], s: Any, kernel: Kernel) -> Iterator[Other]:
    """A name and its size or value."""
    yield from ((how, (pair[0], other)) for how, other in _others(pair[1], s, "", kernel))
