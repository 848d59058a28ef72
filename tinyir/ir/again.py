"""Regions that are an earlier one with other tensors: written by what differs alone.

    region step_1
      in  h0  : fp16[2, 512]
      in  fed : fp16[64, 2, 512]
      out h1  : fp16[2, 512]
      for i0: 2, i1: 512
      from step_1 : Elementwise at 17:5
        %sum = add(h0[i0, i1], fed[0, i0, i1])
      yield h1[i0, i1] = relu(%sum)

    region step_2 as step_1
      tensors [h1, fed at [1], h2]  values [sum_2]
      from step_2 : Elementwise at 21:5

Tensors are the inputs and then the outputs, in the order of the region that is named, values those of its lines. A
tensor `at` a place is read that much farther on. Each op in `from` takes the place of one of the other's `from` lines.
Axes, the analysis, and all else is the other's.

    region step_3 as step_1
      tensors [h2, fed, h3]  values [sum_3]  numbers [2, 1024]

`numbers` are in the place of the whole numbers but 0 that are the sizes of axes, ends of guards and indices, in the
order of the text; the shapes of tensors then are those of the signature and of the buffers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from ..kit.records import fields, is_dataclass, replace
from ..kit.span import Span
from ..kit.text import token_span
from .alike import Form, form_of
from .body import Body, Read, Ref, rebuild
from .expr import ZERO, Expr
from .model import Origin, origin_of, show_name
from .moved import MovedForm, moved_by, moved_form_of, show_placed
from .read import integer_of, name_of
from .types import TensorType

OF_THE_NAME = ("alias", "value")  # attributes that speak of one tensor


def again_of(tree: Any, known: Mapping[str, Any], types: Callable[[], Mapping[str, TensorType]]) -> Any:
    """The Region of a tree of rule `again`; `known` are those above it by name, `types` gives those of the program's
    tensors. Raises Refused (E1429)."""
    name_tree, first_tree, tensors_tree, values_tree, numbers_tree, origins_tree = tree.children
    span, name = token_span(name_tree.children[0]), name_of(name_tree.children[0])
    placed = [part.children for part in tensors_tree.children if part is not None]
    tensors = tuple(name_of(part.children[0]) for part, _ in placed)
    places = tuple(
        tuple(integer_of(e) for e in place.children if e is not None) if place is not None else ()
        for _, place in placed
    )
    values = tuple(name_of(part.children[0]) for part in values_tree.children if part is not None)
    numbers = tuple(integer_of(e) for e in numbers_tree.children if e is not None) if numbers_tree is not None else ()
    origins = tuple(map(origin_of, origins_tree.children)) if origins_tree is not None else ()
    first = known.get(name_of(first_tree.children[0]))
    fault = _fault(first, tensors, places, values, origins)
    if numbers and not fault and len(numbers) != len(found := _numbers_of(first)):
        fault = Phrase("has {numbers} numbers, where {given} are given", numbers=len(found), given=len(numbers))
    if fault:
        facts = {"region": name, "first": name_of(first_tree.children[0]), "fault": fault}
        raise Refused([Diag("E1429", name, facts, span)])
    if numbers:
        first = _with_numbers(first, numbers, dict(zip((t.name for t in _tensors_of(first)), tensors)), types())
    return _again(first, name, tensors, places, values, origins, span)


def _fault(
    first: Any,
    tensors: tuple[str, ...],
    places: tuple[tuple[int, ...], ...],
    values: tuple[str, ...],
    origins: tuple[Origin, ...],
) -> str:
    """Why a region cannot be another one again; empty where it can."""
    if first is None:
        return Phrase("is not a region above it")
    own = _tensors_of(first)
    wanted = len(own), len(first.lets)
    if (len(tensors), len(values)) != wanted or len(origins) not in (0, len(_begun(first))):
        return Phrase(
            "has {tensors} tensors, {values} values and {origins} `from` lines, where {given_tensors}, {given_values} "
            "and {given_origins} are given",
            tensors=len(own),
            values=len(first.lets),
            origins=len(_begun(first)),
            given_tensors=len(tensors),
            given_values=len(values),
            given_origins=len(origins),
        )
    for at, (tensor, place) in enumerate(zip(own, places)):
        if place and (at >= len(first.inputs) or len(place) > len(tensor.type.shape)):
            return Phrase(
                "does not read {name} at places with as many numbers as {place}", name=tensor.name, place=[*place]
            )
    return ""


def shown(regions: tuple[Any, ...], types: Mapping[str, TensorType], show: Callable[[Any], str]) -> Iterator[str]:
    """The text of each region: by what differs, where an earlier one is the same but for that, else as `show` says,
    behind an empty line. `types` are those of the program's tensors."""
    firsts: dict[Hashable, tuple[Any, MovedForm]] = {}
    others: dict[Hashable, tuple[Any, Form]] = {}
    for one in regions:
        text = ""
        if (
            len(regions) > 1
            and not one.must_fuse
            and not any(key in OF_THE_NAME for t in _tensors_of(one) for key, _ in t.attrs)
        ):
            form = moved_form_of(one)
            first, of_first = firsts.setdefault((form.form.shape, one.analysis), (one, form))
            text = "" if first is one else _show_again(one, form, first, of_first)
            if first is one:
                bare = form_of(_without_numbers(one))
                first, of_other = others.setdefault((bare.shape, one.analysis), (one, bare))
                text = "" if first is one else _show_with_numbers(one, bare, first, of_other, types)
        yield text or "\n" + show(one)


def _show_again(one: Any, form: MovedForm, first: Any, of_first: MovedForm) -> str:
    """A region by what differs from the first; empty where that does not say all."""
    put = dict(zip(of_first.form.tensors, form.form.tensors))
    own = [t.name for t in _tensors_of(first)]
    places = {name: of_first.move(name, form, put[name]) for name in own}
    return _lines_of(one, first, first, put, places)


def _show_with_numbers(one: Any, form: Form, first: Any, of_first: Form, types: Mapping[str, TensorType]) -> str:
    """A region by what differs from the first, with other numbers; empty where that does not say all."""
    put, numbers = dict(zip(of_first.tensors, form.tensors)), _numbers_of(one)
    if len(numbers) != len(_numbers_of(first)):  # a sum may have one where the other has none
        return ""
    return _lines_of(one, first, _with_numbers(first, numbers, put, types), put, {}, numbers)


def _lines_of(
    one: Any,
    first: Any,
    like: Any,
    put: Mapping[str, str],
    places: Mapping[str, tuple[int, ...]],
    numbers: tuple[int, ...] = (),
) -> str:
    """The lines of a region that is the first, or one `like` it of other numbers, with other tensors from `places` on;
    empty where it is not."""
    own = [t.name for t in _tensors_of(first)]
    begun, others = _begun(first), _begun(one)
    tensors, values = tuple(put[name] for name in own), tuple(let.name for let in one.lets)
    if [*begun] != [*others]:
        return ""
    if _again(like, one.name, tensors, tuple(places.get(name, ()) for name in own), values) != one:
        return ""
    named = ", ".join(show_placed(put[name], places.get(name, ())) for name in own)
    counted = f"  numbers [{', '.join(map(str, numbers))}]" if numbers else ""
    lines = [
        f"region {show_name(one.name)} as {show_name(first.name)}",
        f"  tensors [{named}]  values [{', '.join(map(show_name, values))}]{counted}",
    ]
    if others:
        lines.append("  from " + ", ".join(str(origin).removeprefix("from ") for origin in others.values()))
    return "\n".join(lines)


def _tensors_of(region: Any) -> tuple[Any, ...]:
    return (*region.inputs, *region.outputs)


# --- whole numbers of axes, guards and indices


def _put_numbers(node: Any, put: Callable[[Expr], Expr]) -> Any:
    """A part of a region with others in the place of its whole numbers but 0, in order."""
    kind = node.__class__
    if kind is Expr:
        return node if node.constant in (None, 0) else put(node)
    if kind is tuple:
        every = tuple([_put_numbers(item, put) for item in node])
        return every if any(map(operator.is_not, every, node)) else node
    made = {}
    for name in _compared(kind):
        part = getattr(node, name)
        other = _put_numbers(part, put)
        if other is not part:
            made[name] = other
    return replace(node, **made) if made else node


@functools.cache
def _compared(kind: type) -> tuple[str, ...]:
    """The fields of a kind that are compared; none of what has no fields."""
    return tuple(f.name for f in fields(kind) if f.compare) if is_dataclass(kind) else ()


def _renumbered(region: Any, put: Callable[[Expr], Expr]) -> Any:
    iters, lets, yields = _put_numbers((region.iters, region.lets, region.yields), put)
    return replace(region, iters=iters, lets=lets, yields=yields)


def _numbers_of(region: Any) -> tuple[int, ...]:
    found: list[int] = []
    _renumbered(region, lambda e: found.append(e.constant) or e)
    return tuple(found)


def _without_numbers(region: Any) -> Any:
    """A region with 0 for its numbers, and tensors of no sizes."""
    inputs, outputs = (
        tuple(replace(t, type=TensorType(t.type.dtype, (ZERO,) * t.type.rank)) for t in of)
        for of in (region.inputs, region.outputs)
    )
    return replace(_renumbered(region, lambda _: ZERO), inputs=inputs, outputs=outputs)


def _with_numbers(region: Any, numbers: Iterable[int], put: Mapping[str, str], types: Mapping[str, TensorType]) -> Any:
    """A region with these numbers, its tensors of the types of those that are put in their place."""
    given = iter(numbers)
    inputs, outputs = (
        tuple(replace(t, type=types.get(put[t.name], t.type)) for t in of) for of in (region.inputs, region.outputs)
    )
    return replace(_renumbered(region, lambda _: Expr.of(next(given))), inputs=inputs, outputs=outputs)


# --- a region with other names


def _begun(region: Any) -> dict[int, Origin]:
    """The origins that the text of a region says, each by the value or write before which it does."""
    found, last = {}, None
    for at, item in enumerate((*region.lets, *region.yields)):
        if item.origin is not None and item.origin != last:
            found[at] = last = item.origin
    return found


def _again(
    first: Any,
    name: str,
    tensors: tuple[str, ...],
    places: tuple[tuple[int, ...], ...],
    values: tuple[str, ...],
    origins: tuple[Origin, ...] = (),
    span: Span | None = None,
) -> Any:
    """The region that is the first with other tensors and values; all parts of it are at `span`."""
    own = _tensors_of(first)
    put = {t.name: tensor for t, tensor in zip(own, tensors)}
    moved = {t.name: place for t, place in zip(own, places) if place}
    called = {let.name: value for let, value in zip(first.lets, values)}
    at = [*_begun(first)]
    spanned = {"span": span}

    def body(one: Body) -> Body:
        made = rebuild(one, body)
        if isinstance(made, Read):
            return replace(
                made, tensor=put[made.tensor], index=moved_by(made.index, moved.get(made.tensor, ())), **spanned
            )
        return replace(made, name=called[made.name], **spanned) if isinstance(made, Ref) else replace(made, **spanned)

    def origin(number: int) -> Origin | None:
        begun = [origin for start, origin in zip(at, origins) if start <= number]
        return begun[-1] if begun else None

    lets = tuple(
        replace(let, name=called[let.name], expr=body(let.expr), origin=origin(number), **spanned)
        for number, let in enumerate(first.lets)
    )
    yields = tuple(
        replace(y, output=put[y.output], expr=body(y.expr), origin=origin(number), **spanned)
        for number, y in enumerate(first.yields, len(lets))
    )
    inputs, outputs = (
        tuple(replace(t, name=put[t.name], **spanned) for t in of) for of in (first.inputs, first.outputs)
    )
    return replace(first, name=name, inputs=inputs, outputs=outputs, lets=lets, yields=yields, **spanned)
