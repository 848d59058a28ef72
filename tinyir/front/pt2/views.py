"""Tensors that share memory. A write to a view is a write to its whole, and to all other views of that: the whole
becomes what it was with the new part in its place, and another view is taken anew of it when it is read.

    s = slice(x, 0, 2); relu_(s)    ->    x = slice_scatter(x, relu(s), 0, 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..program.terms import Term
from .call import Call
from .complexes import Complex, complex_of
from .nodes import memory_of
from .table import ATEN_OPS

# What these give shares the memory of their operand.
_RESHAPED = frozenset(
    """view.default unflatten.int squeeze.default squeeze.dim squeeze.dims unsqueeze.default alias.default
    detach.default lift_fresh.default positive.default""".split()
)
_TURNED_BACK = frozenset("transpose.int t.default numpy_T.default mT.default swapaxes.default".split())
_ORDERED = frozenset("permute.default movedim.int movedim.intlist".split())
_PLACES = frozenset("select.int unbind.int".split())
_STRETCHES = frozenset(
    """slice.Tensor narrow.default split_with_sizes.default split.sizes split.Tensor chunk.default
    tensor_split.sections""".split()
)
_READ_ALONE = frozenset(
    "expand.default broadcast_to.default expand_as.default as_strided.default unfold.default".split()
)
_IF_WHOLE = frozenset("reshape.default _unsafe_view.default flatten.using_ints contiguous.default".split())
_IF_SAME = frozenset("to.dtype to.device to.dtype_layout to.other type_as.default".split())
_SURE = _RESHAPED | _TURNED_BACK | _ORDERED | _PLACES | _STRETCHES | _READ_ALONE
SURE, MAYBE, NEVER = "sure", "maybe", "never"


def sharing(node: Any, word: str, values: Mapping[str, Any]) -> str:
    """Whether what a node gives shares the memory of its first operand: surely, maybe, or never."""
    if word in _SURE:
        return SURE
    if word in _IF_WHOLE:
        metas = list(memory_of(node, values).values())
        is_whole = bool(metas) and _is_contiguous(metas[0])
        return SURE if is_whole else NEVER if word == "contiguous.default" else MAYBE
    if word in _IF_SAME:
        metas = list(memory_of(node, values).values())[:1]
        metas += [values[o["as_tensor"]["name"]] for o in node["outputs"] if "as_tensor" in o]
        return _if_same(node, *metas) if len(metas) == 2 else MAYBE
    return MAYBE if word == "dropout.default" else NEVER


def _if_same(node: Any, given: Any, found: Any) -> str:
    """Whether a cast gives its operand: where it is of that dtype on that device, and neither a copy nor another order
    of its elements is asked for."""
    asked = {a["name"]: a["arg"] for a in node["inputs"]}
    if any(given[key] != found[key] for key in ("dtype", "device")) or asked.get("copy", {}).get("as_bool"):
        return NEVER
    order = asked.get("memory_format", {"as_none": True})
    return SURE if "as_none" in order and given["strides"] == found["strides"] else MAYBE


def _is_contiguous(meta: Any) -> bool:
    step: Any = 1
    for size, stride in zip(reversed(meta["sizes"]), reversed(meta["strides"])):
        if "as_int" not in size or "as_int" not in stride:
            return False
        if size["as_int"] != 1 and stride["as_int"] != step:
            return False
        step *= size["as_int"]
    return True


class Shared:
    """The values of a graph that share memory, by their names."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # of values that may share it, the first one
        self._tensor: dict[str, str] = {}  # of values that are one tensor, the first one
        self._views: dict[str, tuple[str, Call, int]] = {}  # surely: of what, by which call, which of its results
        self.old: set[str] = set()  # views of what was written to since they were taken

    def first(self, name: str) -> str:
        """The value whose memory it may be in."""
        return self._first.get(name, name)

    def same(self, name: str) -> set[str]:
        """The names of the tensor that `name` is, which it has of ops that wrote to it and gave it back."""
        first = self._tensor.get(name, name)
        return {name, first, *(n for n, f in self._tensor.items() if f == first)}

    def others(self, name: str) -> list[str]:
        """What else may be in the memory of a tensor."""
        first, own = self.first(name), self.same(name)
        return [n for n in (first, *(n for n, f in self._first.items() if f == first)) if n not in own]

    def note_written(self, output: str, written: str) -> None:
        """What an op gives is the tensor that it wrote to."""
        if self._is_named_again(output, written):
            return
        self._tensor[output] = self._tensor.get(written, written)
        self._first[output] = self.first(written)

    def note_views(self, outputs: Iterable[str], operand: str, call: Call, is_sure: bool) -> None:
        """What a call gives may be in the memory of its operand, or surely is."""
        for number, output in enumerate(outputs):
            if self._is_named_again(output, operand):
                continue
            self._first[output] = self.first(operand)
            if is_sure:
                self._views[output] = operand, call, number

    def _is_named_again(self, output: str, operand: str) -> bool:
        """Whether a damaged archive gives a name twice: a view would be one of itself."""
        return output in self._first or output == self.first(operand)

    def view(self, name: str) -> tuple[str, Call, int] | None:
        """Of what a tensor is surely a view, by which call, and which of its results."""
        return self._views.get(self._tensor.get(name, name))

    def is_known(self, name: str) -> bool:
        """Whether it is surely in the memory of the first: every step to there is known."""
        while name not in self.same(self.first(name)):
            step = self.view(name)
            if step is None:
                return False
            name = step[0]
        return True

    def can_be_put_back(self, name: str) -> bool:
        """Whether the whole can be told from a view of it, step by step to the first."""
        while (step := self.view(name)) is not None:
            if step[1].target in _READ_ALONE or not isinstance(step[1].args.get("self"), (Term, Complex)):
                return False
            name = step[0]
        return self.is_known(name)


def taken_again(call: Call, number: int, whole: Any) -> Any:
    """A view of what its whole is now."""
    if isinstance(whole, Complex):
        return Complex(*(taken_again(call, number, part) for part in whole.parts))
    wanted = [n == number for n in range(len(call.types))]
    again = Call(call.target, call.name, {**call.args, "self": whole}, call.types, wanted, call.program, call.memory)
    found = again.translated(ATEN_OPS[call.target])
    return found[number] if isinstance(found, tuple) else found


def put_back(call: Call, number: int, whole: Any, part: Any) -> Any:
    """The whole with a new part in the place of a view of it, which this call gave."""
    if isinstance(whole, Complex):
        return Complex(*(put_back(call, number, *pair) for pair in zip(whole.parts, complex_of(call, part).parts)))
    word, args = call.target, call.args

    def made(op: str, **given: Any) -> Term:
        types = [(whole.dtype, whole.shape)]
        return Call(op, f"{call.name}.back", given, types, [True], call.program).translated(ATEN_OPS[op])

    if word in _PLACES:
        place = args.get("index", 0) if word == "select.int" else number
        return made("select_scatter.default", self=whole, src=part, dim=args.get("dim", 0), index=place)
    if word in _STRETCHES:
        axis = call.axis("dim", whole.rank, 0)
        start = call.get("start", 0)
        for _, shape in call.types[:number]:
            start = shape[axis] + start
        stated = {"dim": axis, "start": start, "step": call.get("step", 1)}
        return made("slice_scatter.default", self=whole, src=part, **stated)
    if word in _TURNED_BACK:
        return made(word, **{**args, "self": part})
    if word == "permute.default":
        dims = [d % max(1, whole.rank) for d in call.get("dims", [])]
        return call.transpose(part, [dims.index(a) for a in range(whole.rank)])
    if word in _ORDERED:
        turned = {"source": args["destination"], "destination": args["source"]}
        return made(word, **{**args, **turned, "self": part})
    return call.reshape(part, whole.shape)
