"""The page of front-end JSON: what the file has, every op, every function of Elementwise."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from ..front.builder import Builder
from ..front.ops import ELEMENTWISE, FRONT_OPS, FrontOp, check_attrs
from ..front.ops.elementwise import TINY_OP_OF
from ..front.ops.functions import TABLE as FUNCTIONS
from ..front.ops.table import MANY, REQUIRED, Attr, expected
from ..ir.model import Tensor
from ..ir.read import read_type
from ..kit.phrase import Phrase, told
from . import dsl_ops, json_file
from .page import Section, block, fence, introduction, prose, table, words

_OPERANDS = "ABCDEFGH"


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    yield from json_file.sections(lang)
    yield introduction("json", "names", lang)
    yield introduction("json", "ops", lang)
    for name, op in FRONT_OPS.items():
        yield Section(name, _entry(op, name, lang), (name,))
    yield introduction("json", "functions", lang)
    for name, op in ELEMENTWISE.items():
        yield Section(name, _entry(op, name, lang), (name,))


def meaning(op: FrontOp, name: str, lang: str) -> str:
    """What an op computes: its own words, or in English the docstring of its lowering or function, or what the tiny op
    says that it is. In a language in which nothing says it, the English."""
    stated = said_of(op, name)
    if lang in stated:
        return stated[lang]
    if lang != "en":
        return meaning(op, name, "en")
    if op is ELEMENTWISE.get(name) and name in TINY_OP_OF:
        return words("tiny")[TINY_OP_OF[name]]["en"]
    lower = FUNCTIONS[name][0] if op is ELEMENTWISE.get(name) and name in FUNCTIONS else op.lower
    return prose(lower.__doc__)


def said_of(op: FrontOp, name: str) -> dict[str, Any]:
    """What `words/` has of an op."""
    return words("fn" if op is ELEMENTWISE.get(name) else "json").get(name, {})


def _entry(op: FrontOp, name: str, lang: str) -> str:
    labels = {key: said[lang] for key, said in words("pages")["json"]["labels"].items()}
    stated = said_of(op, name)
    counts = labels["comma"].join(
        f"{labels[side]}: {_count(span, lang)}" for side, span in (("in", op.inputs), ("out", op.outputs))
    )
    shape = f" {labels['shape']}: `{stated['shape']}`{labels['stop']}" if "shape" in stated else ""
    rows = [(f"`{a.name}`", told(takes(a), lang), _default(a, labels["required"])) for a in op.attrs]
    model, types = example(op, name)
    inputs, outputs = json.loads(model)["graph"][0]["inputs"], json.loads(model)["graph"][0]["outputs"]
    given = ", ".join(f"{t}: {types[t]}" for t in inputs) or "()"
    found = ", ".join(f"{t}: {types[t]}" for t in outputs)
    line, dsl = json.dumps(json.loads(model)["graph"][0], ensure_ascii=False), dsl_example(op, name)
    return block(
        meaning(op, name, lang),
        counts + labels["stop"] + shape,
        table([labels["attr"], labels["takes"], labels["default"]], rows),
        fence("json", line),
        f"`{given}` -> `{found}`",
        dsl and fence("graphdsl", dsl),
    )


def _count(span: tuple[int, int], lang: str) -> str:
    low, high = span
    if low == high:
        return str(low)
    if high >= MANY:
        return told(Phrase("{low} or more", low=low), lang)
    return told(Phrase("{low} to {high}", low=low, high=high), lang)


def takes(attr: Attr) -> str:
    """What an attribute takes, as messages say it (but for the list of all dtypes), and its range."""
    if attr.kind == "dtype":
        return Phrase("a dtype")
    limits = {
        (True, True): lambda: Phrase("{kind}, {low} to {high}", kind=expected(attr), low=attr.low, high=attr.high),
        (True, False): lambda: Phrase("{kind}, {low} or more", kind=expected(attr), low=attr.low),
        (False, True): lambda: Phrase("{kind}, at most {high}", kind=expected(attr), high=attr.high),
        (False, False): lambda: expected(attr),
    }
    return limits[attr.low is not None, attr.high is not None]()


def _default(attr: Attr, required: str) -> str:
    if attr.default is REQUIRED:
        return required
    if attr.default is None:
        return "-"
    return f"`{json.dumps(attr.default if isinstance(attr.default, (bool, int, float)) else str(attr.default))}`"


@functools.cache
def _example(name: str, is_function: bool) -> tuple[str, dict[str, str]]:
    op = (ELEMENTWISE if is_function else FRONT_OPS)[name]
    stated = said_of(op, name)
    kind = stated.get("dtype", "fp32")
    declared = stated["inputs"] if "inputs" in stated else _operand_types(name, op, kind)
    tensors = dict(zip(_OPERANDS, map(_declaration, declared)))
    extra = {f"like{i}": _declaration(t) for i, t in enumerate(stated.get("symbols", []))}
    outputs = stated.get("outputs", ["Y"])
    node: dict[str, Any] = {"op": "Elementwise", "fn": name} if is_function else {"op": name}
    node |= {"inputs": list(tensors), "outputs": outputs}
    if "attrs" in stated:
        node["attrs"] = stated["attrs"]
    types = dict(zip(_OPERANDS, declared)) | _given(op, declared, stated.get("attrs", {}), outputs)
    model = {
        "signature": {
            "inputs": [{"tensor": t} for t in (*tensors, *extra)],
            "outputs": [{"tensor": o} for o in outputs],
        },
        "tensors": tensors | extra | {o: _declaration(types[o]) for o in outputs},
        "graph": [node],
    }
    return json.dumps(model), types


def _given(op: FrontOp, declared: list[str], attrs: dict[str, Any], outputs: list[str]) -> dict[str, str]:
    """The types of what an op gives."""
    builder = Builder()
    operands = tuple(builder.input(Tensor(t, read_type(text))) for t, text in zip(_OPERANDS, declared))
    builder.open(None, "example")
    checked, faults = check_attrs(op, attrs, op.name)
    assert not faults, faults
    given = op.lower(builder, operands, checked)
    return {o: str(ref.type) for o, ref in zip(outputs, given if isinstance(given, tuple) else (given,))}


def example(op: FrontOp, name: str) -> tuple[str, dict[str, str]]:
    """The model of the example of an op, without declarations of its outputs, and the type of each tensor."""
    return _example(name, op is ELEMENTWISE.get(name))


def dsl_example(op: FrontOp, name: str) -> str:
    """The same example in the graph DSL; empty where it has no such function."""
    model, types = example(op, name)
    return dsl_ops.example(name, json.loads(model)["graph"][0], types, op.outputs[1] if op.outputs[1] < MANY else 0)


def _operand_types(name: str, op: FrontOp, kind: str) -> list[str]:
    if name == "where":
        return ["bool[M, N]", f"{kind}[M, N]", f"{kind}[N]"]
    count = op.inputs[0] if op.inputs[1] < MANY else 2
    return [f"{kind}[M, N]", f"{kind}[N]", f"{kind}[N]"][:count]


def _declaration(text: str) -> dict[str, Any]:
    read = read_type(text)
    dims = [d.constant if d.constant is not None else str(d) for d in read.shape]
    return {"dtype": read.dtype.name, "shape": dims}
