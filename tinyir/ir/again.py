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
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from ..kit.records import replace
from ..kit.span import Span
from ..kit.text import token_span
from .body import Body, Read, Ref, rebuild
from .model import Origin, origin_of, show_name
from .moved import MovedForm, moved_by, moved_form_of, show_placed
from .read import integer_of, name_of

OF_THE_NAME = ("alias", "value")  # attributes that speak of one tensor


def again_of(tree: Any, known: Mapping[str, Any]) -> Any:
    """The Region of a tree of rule `again`; `known` are those above it by name. Raises Refused (E1429)."""
    name_tree, first_tree, tensors_tree, values_tree, origins_tree = tree.children
    span, name = token_span(name_tree.children[0]), name_of(name_tree.children[0])
    placed = [part.children for part in tensors_tree.children if part is not None]
    tensors = tuple(name_of(part.children[0]) for part, _ in placed)
    places = tuple(
        tuple(integer_of(e) for e in place.children if e is not None) if place is not None else ()
        for _, place in placed
    )
    values = tuple(name_of(part.children[0]) for part in values_tree.children if part is not None)
    origins = tuple(map(origin_of, origins_tree.children)) if origins_tree is not None else ()
    first = known.get(name_of(first_tree.children[0]))
    if fault := _fault(first, tensors, places, values, origins):
        facts = {"region": name, "first": name_of(first_tree.children[0]), "fault": fault}
        raise Refused([Diag("E1429", name, facts, span)])
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
    own = (*first.inputs, *first.outputs)
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


def shown(regions: tuple[Any, ...], show: Any) -> Iterator[str]:
    """The text of each region: by what differs, where an earlier one is the same but for that, else as `show` says."""
    firsts: dict[Hashable, tuple[Any, MovedForm]] = {}
    for one in regions:
        text = ""
        if (
            len(regions) > 1
            and not one.must_fuse
            and not any(key in OF_THE_NAME for t in (*one.inputs, *one.outputs) for key, _ in t.attrs)
        ):
            form = moved_form_of(one)
            first, of_first = firsts.setdefault((form.form.shape, one.analysis), (one, form))
            text = "" if first is one else _show_again(one, form, first, of_first)
        yield text or show(one)


def _show_again(one: Any, form: MovedForm, first: Any, of_first: MovedForm) -> str:
    """A region by what differs from the first; empty where that does not say all."""
    put = dict(zip(of_first.form.tensors, form.form.tensors))
    own = [t.name for t in (*first.inputs, *first.outputs)]
    places = {name: of_first.move(name, form, put[name]) for name in own}
    begun, others = _begun(first), _begun(one)
    tensors, values = tuple(put[name] for name in own), tuple(let.name for let in one.lets)
    if [*begun] != [*others] or _again(first, one.name, tensors, tuple(map(places.get, own)), values) != one:
        return ""
    named = ", ".join(show_placed(put[name], places[name]) for name in own)
    lines = [
        f"region {show_name(one.name)} as {show_name(first.name)}",
        f"  tensors [{named}]  values [{', '.join(map(show_name, values))}]",
    ]
    if others:
        lines.append("  from " + ", ".join(str(origin).removeprefix("from ") for origin in others.values()))
    return "\n".join(lines)


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
    own = (*first.inputs, *first.outputs)
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


__all__ = ["again_of", "shown"]
