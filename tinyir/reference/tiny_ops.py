"""The page of tiny text's ops: one entry a row of `ir.ops`."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.ops import OPS, REDUCERS, UPDATES, Op
from .page import Section, block, fence, table, words

_GROUPS = {
    "movement": {"en": "Movement: no arithmetic, no memory traffic", "ja": "移動: 計算もメモリの転送もない"},
    "leaf": {"en": "Leaves", "ja": "葉"},
    "unary": {"en": "Unary", "ja": "単項"},
    "binary": {"en": "Binary", "ja": "二項"},
    "ternary": {"en": "Ternary", "ja": "三項"},
    "reduce": {"en": "Reduction", "ja": "縮約"},
    "indirect": {"en": "Indirect: an index that data give", "ja": "間接: データが決める添字"},
}
_KINDS = {
    "en": {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool"},
    "ja": {"f": "浮動小数点数", "i": "符号付き整数", "u": "符号なし整数", "b": "bool"},
}
_ATTRS = {
    "en": {
        "ints": "a list of integers",
        "dims": "a list of sizes or maps",
        "pairs": "a list of pairs of sizes",
        "number": "a number",
        "literal": "a number, a size, or nested lists",
        "guard": "a guard, as a string",
        "int": "an integer",
        "name": "a word",
        "dtype": "a dtype",
        "flag": "true or false",
    },
    "ja": {
        "ints": "整数のリスト",
        "dims": "大きさまたは写像のリスト",
        "pairs": "大きさの組のリスト",
        "number": "数",
        "literal": "数、大きさ、または入れ子のリスト",
        "guard": "ガードの文字列",
        "int": "整数",
        "name": "語",
        "dtype": "dtype",
        "flag": "true または false",
    },
}
_LABELS = {
    "en": ("Operands", "dtypes", "Type", "attribute", "takes", "may be left out", "must be given", "In region text"),
    "ja": ("オペランド", "dtype", "型", "属性", "値", "省略可", "必須", "region テキストでは"),
}
_GIVES = {
    "en": {
        "same": "as the operands",
        "bool": "bool of the operands' shape",
        "cast": "stated dtype, the operand's shape",
        "bits": "stated dtype of the same width",
    },
    "ja": {
        "same": "オペランドと同じ",
        "bool": "オペランドと同じ形の bool",
        "cast": "明示した dtype、形は同じ",
        "bits": "明示した同じ幅の dtype",
    },
}


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    for group, titles in _GROUPS.items():
        yield Section(titles[lang], "", level=2)
        for op in OPS.values():
            if op.group == group:
                yield Section(op.name, _entry(op, lang), (op.name, *([op.name.lower()] if op.is_elementwise else ())))


def _entry(op: Op, lang: str) -> str:
    operands, dtypes, type_, attribute, given, optional, required, region = _LABELS[lang]
    said = words("tiny")[op.name]
    kinds = ", ".join(_KINDS[lang][k] for k in op.accepts)
    shape = said.get("shape") or _GIVES[lang][op.gives]
    stop = {"en": ".", "ja": "。"}[lang]
    facts = (
        f"{operands}: {op.arity} ({dtypes}: {kinds}){stop} {type_}: {f'`{shape}`' if 'shape' in said else shape}{stop}"
    )
    if op.is_elementwise:
        facts += f" {region}: `{op.name.lower()}`{stop}"
    rows = [
        (f"`{name}`", _ATTRS[lang][kind] + _words(op, name), required if is_required else optional)
        for name, (kind, is_required) in (op.attrs or {}).items()
    ]
    return block(said[lang], facts, table([attribute, given, ""], rows), fence("tiny", example(op)))


def _words(op: Op, attribute: str) -> str:
    if attribute != "op":
        return ""
    known = {"REDUCE": list(REDUCERS), "SCATTER": list(UPDATES), "SCAN": ["SUM", "PROD", "MAX", "MIN"]}[op.name]
    return f": {', '.join(known)}"


def example(op: Op) -> str:
    """A whole tiny text that uses the op."""
    said = words("tiny")[op.name]
    value = said.get("value")
    if value is None:
        kind = "fp32" if "f" in op.accepts else "i32"
        names = ("x", "y", "z")[: op.arity]
        inputs = [f"{n} : {kind}[M, N]" for n in names]
        value = f"{op.name}({', '.join(names)}) : {'bool' if op.gives == 'bool' else kind}[M, N]"
    else:
        inputs = said.get("inputs", ["x : fp32[M, N]"])
    type_ = value.rpartition(" : ")[2]
    symbols = [s for s in "MNK" if any(s in text.rpartition(" : ")[2] for text in [*inputs, type_])]
    first = [s for s in symbols if s in type_]
    order = [*first, *(s for s in symbols if s not in first)]
    lines = ["tinyir 1.0 tiny", "", "model m", *(f"  in  {i}" for i in inputs), f"  out y_ : {type_}"]
    if order:
        lines.append(f"shapes small {{{', '.join(f'{s}=8' for s in order)}}}")
    return "\n".join([*lines, "", f"  %v = {value}", "", "outputs: y_=%v", ""])
