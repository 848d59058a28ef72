"""Tensors that share memory. A write to a view is a write to its whole, and to all other views of that: the whole
becomes what it was with the new part in its place, and another view is taken anew of it when it is read.

    s = slice(x, 0, 2); relu_(s)    ->    x = slice_scatter(x, relu(s), 0, 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..program.terms import Term
from .archive import PAIRS
from .call import Call
from .complexes import Complex
from .nodes import memory_of, names_in
from .results import result_of

# What these give shares the memory of their operand.
_RESHAPED = frozenset(
    """view.default view_as.default unflatten.int squeeze.default squeeze.dim squeeze.dims unsqueeze.default
    alias.default detach.default lift_fresh.default positive.default atleast_1d.default atleast_2d.default
    atleast_3d.default""".split()
)
_SIDES = {"real.default": "real", "imag.default": "imag"}
# The op that gives the whole of a view of all of it, from the view alone.
_INVERSES = {"view_as_real.default": "view_as_complex.default", "view_as_complex.default": "view_as_real.default"} | {
    word: word
    for word in """transpose.int t.default numpy_T.default mT.default swapaxes.default adjoint.default mH.default
    matrix_H.default conj.default _conj.default view.dtype""".split()
}
_DIAGONALS = {"diagonal.default": (0, 1), "linalg_diagonal.default": (-2, -1)}  # and their axes, unless stated
_ORDERED = frozenset("permute.default movedim.int movedim.intlist".split())
_PLACES = frozenset("select.int unbind.int".split())
_STRETCHES = frozenset(
    """slice.Tensor narrow.default split_with_sizes.default split.sizes split.Tensor chunk.default
    tensor_split.sections tensor_split.indices hsplit.int hsplit.array vsplit.int vsplit.array dsplit.int
    dsplit.array""".split()
)
_READ_ALONE = frozenset(
    "expand.default broadcast_to.default expand_as.default as_strided.default unfold.default".split()
)
_IF_WHOLE = frozenset(
    "reshape.default reshape_as.default _unsafe_view.default flatten.using_ints contiguous.default".split()
)
_IF_SAME = frozenset("to.dtype to.device to.dtype_layout to.other type_as.default".split())
_IF_OFF = frozenset("dropout.default alpha_dropout.default feature_dropout.default".split())
_SURE = _RESHAPED | _SIDES.keys() | _INVERSES.keys() | _DIAGONALS.keys() | _ORDERED | _PLACES | _STRETCHES | _READ_ALONE
SURE, MAYBE, NEVER = "sure", "maybe", "never"
_IF_REAL = {"conj_physical.default": NEVER, "resolve_conj.default": MAYBE}  # else this
# The other ops that give memory of an operand, as their schemas say, or as they do in some cases without saying so.
_MAYBE = frozenset(
    """_autocast_to_full_precision.default _autocast_to_reduced_precision.default _fw_primal.default
    _grad_sum_to_size.default _indices.default _make_dual.default _ncf_unsqueeze.default _ncf_view.default
    _neg_view.default _nested_get_values.default _nested_view_from_buffer.default _nested_view_from_jagged.default
    _reshape_alias.default _sparse_broadcast_to.default _test_autograd_multiple_dispatch_view.default
    _unpack_dual.default _values.default as_tensor.default ccol_indices.default coalesce.default col_indices.default
    cpu.default crow_indices.default cuda.default indices.default mH.a mT.a matrix_H.a narrow.Tensor numpy_T.a
    pin_memory.default resolve_neg.default row_indices.default slice_inverse.default split.default
    tensor_split.tensor_indices_or_sections to.prim_Device to.prim_dtype to.prim_other values.default
    atleast_1d.Sequence atleast_2d.Sequence atleast_3d.Sequence broadcast_tensors.default cartesian_prod.default
    chain_matmul.default einsum.default feature_alpha_dropout.default meshgrid.default meshgrid.indexing
    sum_to_size.default""".split()
)


def sharing(node: Any, word: str, values: Mapping[str, Any]) -> str:
    """Whether what a node gives shares the memory of its first operand: surely, maybe, or never. Of several tensors
    each result may share that of its own, and a single one that of all."""
    if "_copy." in node["target"]:
        return NEVER
    if word in _SURE:
        return SURE
    if word in _IF_REAL:
        metas = list(memory_of(node, values).values())
        return _IF_REAL[word] if not metas or metas[0]["dtype"] in PAIRS else SURE
    if word in _IF_OFF:
        is_on = any(a["arg"].get("as_bool") for a in node["inputs"] if a["name"] == "train")
        return MAYBE if is_on else SURE
    if word in _IF_WHOLE:
        metas = list(memory_of(node, values).values())
        is_whole = bool(metas) and _is_contiguous(metas[0])
        return SURE if is_whole else NEVER if word == "contiguous.default" else MAYBE
    if word in _IF_SAME:
        metas = list(memory_of(node, values).values())[:1]
        metas += [values[o["as_tensor"]["name"]] for o in node["outputs"] if "as_tensor" in o]
        return _if_same(node, *metas) if len(metas) == 2 else MAYBE
    return MAYBE if word in _MAYBE else NEVER


def turns(word: str) -> bool:
    """Whether an op, done in place, gives the tensor other axes and writes nothing: no whole becomes another by it."""
    return word in _INVERSES or word in _ORDERED or word in _READ_ALONE


def wholes_of(node: Any, outputs: Sequence[str]) -> list[tuple[str, str]]:
    """Each result of a node, and the operand whose memory it may share."""
    first = next(filter(None, (names_in(a["arg"]) for a in node["inputs"])), [])
    return [*zip(outputs, first if len(first) == len(outputs) else first[:1] * len(outputs))]


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

    def note_views(self, outputs: Iterable[tuple[str, str]], call: Call, is_sure: bool) -> None:
        """What a call gives may be in the memory of an operand, or surely is."""
        for number, (output, operand) in enumerate(outputs):
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
            whole = next(iter(step[1].args.values()), None)
            if step[1].target in _READ_ALONE or not isinstance(whole, (Term, Complex)):
                return False
            name = step[0]
        return self.is_known(name)


def taken_again(call: Call, number: int, whole: Any) -> Any:
    """A view of what its whole is now."""
    wanted = [n == number for n in range(len(call.types))]
    args = {**call.args, next(iter(call.args)): whole}
    found = result_of(Call(call.target, call.name, args, call.types, wanted, call.program, call.memory))
    return found[number] if isinstance(found, tuple) else found


def put_back(call: Call, number: int, whole: Any, part: Any) -> Any:
    """The whole with a new part in the place of a view of it, which this call gave."""
    word, args = call.target, call.args

    def made(op: str, **given: Any) -> Any:
        types = [(whole.dtype, whole.shape)]
        return result_of(Call(op, f"{call.name}.back", given, types, [True], call.program))

    if word in _INVERSES:
        return made(_INVERSES[word], **{**args, "self": part})
    if isinstance(whole, Complex):
        if word in _SIDES:
            return replace(whole, **{_SIDES[word]: part})
        return Complex(*(put_back(call, number, *pair) for pair in zip(whole.parts, part.parts)))
    if word in _DIAGONALS:
        dims = dict(zip(("dim1", "dim2"), _DIAGONALS[word])) | {k: v for k, v in args.items() if k.startswith("dim")}
        return made("diagonal_scatter.default", self=whole, src=part, offset=call.get("offset", 0), **dims)
    if word in _PLACES:
        place = args.get("index", 0) if word == "select.int" else number
        return made("select_scatter.default", self=whole, src=part, dim=args.get("dim", 0), index=place)
    if word in _STRETCHES:
        axis = call.axis_of_parts(whole.rank)
        start = call.get("start") if "start" in args else call.starts(axis, whole.shape[axis])[number]
        stated = {"dim": axis, "start": start, "step": call.get("step", 1)}
        return made("slice_scatter.default", self=whole, src=part, **stated)
    if word == "permute.default":
        dims = [d % max(1, whole.rank) for d in call.get("dims", [])]
        return call.transpose(part, [dims.index(a) for a in range(whole.rank)])
    if word in _ORDERED:
        turned = {"source": args["destination"], "destination": args["source"]}
        return made(word, **{**args, **turned, "self": part})
    return call.reshape(part, whole.shape)
