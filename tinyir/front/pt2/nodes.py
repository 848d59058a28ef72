"""The nodes of an exported graph: what they read and give, and the words for their ops."""

from __future__ import annotations

from typing import Any

from ...kit.diag import refuse
from ...kit.phrase import Phrase
from .table import ATEN_OPS

EFFECTS = ("_assert_", "sym_constrain_", "_check")  # nodes that only check, and give nothing


# Ops with two names, each pair as `another/own`.
_NAMES = """
    absolute/abs arccos/acos arccosh/acosh arcsin/asin arcsinh/asinh arctan/atan arctan2/atan2 arctanh/atanh clip/clamp
    divide/div fix/trunc greater/gt greater_equal/ge less/lt less_equal/le moveaxis/movedim multiply/mul negative/neg
    not_equal/ne row_stack/vstack special_erf/erf special_erfc/erfc special_exp2/exp2 special_expit/sigmoid
    special_expm1/expm1
    special_log1p/log1p special_logit/logit special_logsumexp/logsumexp special_round/round special_sinc/sinc
    subtract/sub trapz/trapezoid unsafe_chunk/chunk unsafe_split/split unsafe_split_with_sizes/split_with_sizes
    max.other/maximum.default min.other/minimum.default ravel.default/reshape.default
    special_log_softmax.default/log_softmax.int special_softmax.default/softmax.int special_xlogy.default/xlogy.Tensor
    special_xlogy.other_scalar/xlogy.Scalar_Other special_xlogy.self_scalar/xlogy.Scalar_Self
    swapdims.default/transpose.int true_divide.Scalar/div.Scalar
"""
SAME = dict(pair.split("/") for pair in _NAMES.split())


def names_in(arg: Any) -> list[str]:
    """The values that an argument names."""
    ((kind, value),) = arg.items()
    if kind == "as_tensor":
        return [value["name"]]
    if kind == "as_tensors":
        return [v["name"] for v in value]
    if kind == "as_optional_tensors":
        return [v["as_tensor"]["name"] for v in value if "as_tensor" in v]
    if kind == "as_optional_tensor":
        return [value["as_tensor"]["name"]] if "as_tensor" in value else []
    return []


def memory_of(node: Any, values: Any) -> dict[str, Any]:
    """What `values` says of the tensors that are arguments of a node by themselves, by the names of the arguments."""
    given = {a["name"]: a["arg"]["as_tensor"]["name"] for a in node["inputs"] if "as_tensor" in a["arg"]}
    return {key: values[name] for key, name in given.items() if name in values}


def named_by(outputs: Any) -> list[str]:
    """The tensors that a node gives, in order."""
    found: list[str] = []
    for output in outputs:
        ((kind, value),) = output.items()
        if kind == "as_tensor":
            found.append(value["name"])
        elif kind == "as_tensors":
            found += [v["name"] for v in value]
        elif not is_size(output) and kind != "as_none":
            raise refuse(
                "E0126", type=Phrase("a result of kind {replace}", replace=kind.removeprefix("as_").replace("_", " "))
            )
    return found


def number_of(value: Any) -> Any:
    """A constant that is an input; None where it is that."""
    ((kind, found),) = value.items()
    return None if kind == "as_none" else found


def is_size(output: Any) -> bool:
    """Whether what a node gives is a size or another number, not a tensor."""
    return next(iter(output)) in ("as_sym_int", "as_sym_bool", "as_sym_float", "as_int", "as_bool")


def only_checks(word: str) -> bool:
    """Whether an op only checks, and gives nothing."""
    return word.startswith(EFFECTS)


def word_of(target: str) -> str:
    """An op as the table has it: `mm.default` of `torch.ops.aten.mm.default`, others with their namespace. What has two
    names has one there, and what is copied is not told from what is not."""
    word = target.removeprefix("torch.ops.").removeprefix("aten.")
    word = SAME.get(word, word)
    if word in ATEN_OPS:
        return word
    name, dot, overload = word.partition(".")
    end = "_" * (name.endswith("_") and not name.endswith("__"))
    name = name.removesuffix("_") if end else name
    plain = name.removesuffix("_copy")
    own = plain if f"{plain}.{overload}" in ATEN_OPS else SAME.get(name, name)
    return f"{own}{end}{dot}{overload}"


def functional(word: str) -> str:
    """An op that writes to its operand as the one that gives what it writes: `relu_.default` as `relu.default`."""
    name, dot, overload = word.partition(".")
    plain = f"{name[:-1]}{dot}{overload}"
    return plain if name.endswith("_") and not name.endswith("__") and plain in ATEN_OPS else word


def module_of(node: Any) -> str:
    """The module that a node comes from, for messages."""
    stack = (node.get("metadata") or {}).get("nn_module_stack", "")
    path = stack.rpartition(";")[2].split(",")
    return path[1] if len(path) > 2 else ""
