"""Exprs and guards as isl's sets and maps. The text of an affine Expr is isl's own notation, so isl reads it as
written.

isl knows affine expressions only. A product of symbols such as `M*N`, or a floor by a symbol, in a size is a parameter
of its own here (`M_N = M*N`): what isl proves for every value of it holds for the one that it has. isl is imported when
the first set is made.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..kit.work import count
from .expr import Atom, Bound, Expr, Floor, Monomial

WORDS = frozenset(  # in capitals too
    "and or not exists all mod floor ceil floord ceild min max true false implies rat infty infinity nan".split()
)
_OTHER, _ARROW, _TUPLE = re.compile(r"\W", re.ASCII), re.compile(r"\s*->\s*", re.ASCII), re.compile(r"\w+\[")
Axes = tuple[tuple[str, Expr], ...]
Ranges = tuple[tuple[str, int, int], ...]


def identifier(name: str, taken: Collection[str] = ()) -> str:
    """`name` as an isl identifier: other characters become `_`; `_` and a number follow until it is not among
    `taken`."""
    word = name if name.isidentifier() and name.isascii() else _OTHER.sub("_", name) or "_"
    word = f"_{word}" if word[0].isdigit() else word
    plain, count = word, 1
    while word in taken:
        count += 1
        word = f"{plain}_{count}"
    return word


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """An isl identifier for each name, no two alike, the same for the same names in the same order."""
    given: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        given[name] = identifier(name, used)
        used.add(given[name])
    return given


def is_word(name: str) -> bool:
    """Whether isl would read a name as a word of its own."""
    return name.lower() in WORDS


def symbol_params(symbols: Iterable[str]) -> dict[Expr, str]:
    """Another name for each symbol that isl would not read as one: a dot in it, or a word of isl's own."""
    names = list(symbols)
    odd = [s for s in names if is_word(s) or identifier(s) != s]
    params: dict[Expr, str] = {}
    for symbol in odd:
        params[Expr.of(symbol)] = identifier(f"{symbol}_" if is_word(symbol) else symbol, [*params.values(), *names])
    return params


def is_representable(expr: Expr, axes: Mapping[str, Any]) -> bool:
    """True when isl can hold the expression: affine in the axes, whatever is in it of symbols alone."""
    for _, monomial in expr.terms:
        if _names_of(monomial) & axes.keys():
            if len(monomial) > 1:
                return False
            atom = monomial[0]
            if isinstance(atom, Floor) and (atom.den.constant is None or not is_representable(atom.num, axes)):
                return False
    return True


def _names_of(monomial: Monomial) -> set[str]:
    return set(Expr(((1, monomial),)).names())


def as_affine(expr: Expr, params: dict[Expr, str]) -> Expr:
    """The expression with each non-affine term of symbols replaced by a parameter, which is added to `params` (Expr ->
    name)."""
    if expr.is_affine() and not any(Expr.of(name) in params for name in expr.names()):
        return expr
    total = Expr.of(0)
    for coefficient, monomial in expr.terms:
        total = total + coefficient * _affine_monomial(monomial, params)
    return total


def _affine_monomial(monomial: Monomial, params: dict[Expr, str]) -> Expr:
    if not monomial:
        return Expr.of(1)
    term = Expr(((1, monomial),))
    if len(monomial) == 1:
        atom: Atom = monomial[0]
        if isinstance(atom, str):
            return Expr.of(params.get(term, atom))
        if atom.den.constant is not None:
            return as_affine(atom.num, params) // atom.den
    if term not in params:
        word = "_".join(a if isinstance(a, str) else "floor" for a in monomial)
        params[term] = identifier(f"{word}_" if is_word(word) else word, [*params.values(), *term.names()])
    return Expr.of(params[term])


def domain_text(axes: Axes, params: dict[Expr, str]) -> list[str]:
    """The constraints `0 <= i0 < M`, one an axis."""
    return [f"0 <= {name} < {as_affine(size, params)}" for name, size in axes]


def bound_text(bound: Bound, params: dict[Expr, str]) -> str:
    """The guard in isl's notation."""

    def put(e: Expr | None) -> Expr | None:
        return None if e is None else as_affine(e, params)

    return str(Bound(as_affine(bound.expr, params), put(bound.lower), put(bound.upper), put(bound.equals)))


def is_empty(axes: Axes, ranges: Ranges, facts: Iterable[Expr]) -> bool:
    """True when no point of the axes, for any symbols in their ranges, has every fact >= 0."""
    facts = tuple(facts)
    names = {name for e in (*(size for _, size in axes), *facts) for name in e.names()} - {name for name, _ in axes}
    params = symbol_params(sorted(names))
    constraints = domain_text(axes, params)
    constraints += [f"{as_affine(fact, params)} >= 0" for fact in facts]
    constraints += [
        f"{low} <= {as_affine(Expr.of(name), params)} <= {high}" for name, low, high in ranges if name in names
    ]
    symbols = {str(as_affine(Expr.of(name), params)) for name in names} | set(params.values())
    return _is_empty(
        f"{{ [{', '.join(name for name, _ in axes)}] : {' and '.join(constraints) or 'true'} }}", tuple(sorted(symbols))
    )


@functools.lru_cache(maxsize=1 << 16)
def _is_empty(text: str, symbols: tuple[str, ...]) -> bool:
    return read_set(text, symbols).is_empty()


@functools.lru_cache(maxsize=1 << 14)
def read_set(text: str, params: tuple[str, ...]) -> Any:
    """The isl set that `text` spells, over `params`. Raises ValueError with isl's words when it cannot be read."""
    return _read("Set", text, params)


@functools.lru_cache(maxsize=1 << 14)
def read_map(text: str, params: tuple[str, ...]) -> Any:
    """The isl map that `text` spells, over `params`. Raises ValueError with isl's words when it cannot be read."""
    return _read("Map", text, params)


def _read(kind: str, text: str, params: tuple[str, ...]) -> Any:
    import islpy

    count("isl sets")
    try:
        return getattr(islpy, kind)(f"[{', '.join(params)}] -> {text}")
    except islpy.Error as fault:
        if islpy.DEFAULT_CONTEXT.get_max_operations():
            raise  # within a number of steps what fails is that there are no more of them
        raise ValueError(str(fault).split(" in ")[0]) from None


@contextlib.contextmanager
def within_steps(most: int) -> Iterator[None]:
    """Questions to isl that may take this number of steps together; what it has not answered then stays open, and what
    follows inside is left out."""
    import islpy

    context = islpy.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(most)
    try:
        yield
    except islpy.Error:
        pass
    finally:
        context.set_max_operations(0)
        context.reset_operations()


def with_names(text: str, *names: str) -> str:
    """A set's or map's text with other tuple names: the first of each piece, and the second behind its arrow."""
    pieces = (_ARROW.split(piece) for piece in text.split(";"))
    return ";".join(
        " -> ".join([_TUPLE.sub(f"{name}[", side, count=1) for name, side in zip(names, piece)]) for piece in pieces
    )


def tuples(text: str) -> list[tuple[str, list[str]]]:
    """The tuples of a set's or map's text, in order: (name, what is in its brackets)."""
    found = re.findall(r"(\w+)\[([^\]]*)\]", text)
    return [(name, [part.strip() for part in inside.split(",")] if inside.strip() else []) for name, inside in found]


def show_isl(thing: Any) -> str:
    """The text of an isl set or map without the parameters before it."""
    text = str(thing)
    return text.partition(" -> ")[2] if text.startswith("[") else text
