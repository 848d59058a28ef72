"""The ops of `memory.py`: each as a model of ours, as torch computes it, and in fp64."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench import memory_torch as computed  # noqa: E402
from tests.bench.card import card_here  # noqa: E402

BYTES = {"fp32": 4, "fp16": 2, "fp8e4m3": 1, "i8": 1, "i64": 8}

Types = dict[str, tuple[str, tuple[int, ...]]]
Line = tuple[Any, ...]  # (op or fn, inputs, outputs, attributes)


@dataclass(frozen=True)
class Op:
    """`types` of a shape and a dtype: inputs first, then the `outputs` last. `lines` are the ops of the model; `torch`
    computes the outputs from the inputs by name, in the dtype in which it gets them; `is_for` says which shapes make
    sense."""

    types: Callable[[tuple[int, int], str], Types]
    lines: Callable[[tuple[int, int], str], list[Line]]
    torch: Callable[[Any, Mapping[str, Any]], tuple[Any, ...]]
    outputs: int = 1
    is_for: Callable[[tuple[int, int]], bool] = lambda shape: True


def _same(shape: tuple[int, int], dtype: str) -> Types:
    return {"X": (dtype, shape), "Y": (dtype, shape)}


def _wide(*names: str) -> list[Line]:
    """Casts to fp32, in which torch.compile computes too."""
    return [("Cast", [n], [f"{n}32"], {"to": "fp32"}) for n in names]


def _back(name: str, dtype: str) -> Line:
    return ("Cast", [name], ["Y"], {"to": dtype})


def _quantised_lines(shape: tuple[int, int], to: str, most: int) -> list[Line]:
    """Rows with a scale each, by which the greatest number is the greatest code."""
    return [
        *_wide("X"),
        ("abs", ["X32"], ["size"], {}),
        ("Reduce", ["size"], ["most"], {"op": "max", "axes": [1]}),
        ("mul", ["most", 1 / most], ["k"], {}),
        ("Reshape", ["k"], ["each"], {"shape": [shape[0], 1]}),
        ("div", ["X32", "each"], ["scaled"], {}),
        *([("round", ["scaled"], ["near"], {})] if to == "i8" else []),
        ("Cast", ["near" if to == "i8" else "scaled"], ["Y"], {"to": to}),
    ]


def _sums(*names: tuple[str, str]) -> list[Line]:
    """Sums of rows, which keep their axis."""
    return [("Reduce", [x], [y], {"op": "sum", "axes": [1], "keepdims": True}) for x, y in names]


def _layernorm_backward_lines(shape: tuple[int, int], dtype: str) -> list[Line]:
    return [
        *_wide("X", "G", "w"),
        ("sub", ["X32", "m"], ["centred"], {}),
        ("mul", ["centred", "r"], ["normed"], {}),
        ("mul", ["G32", "w32"], ["gw"], {}),
        ("mul", ["gw", "normed"], ["gwn"], {}),
        *_sums(("gw", "s1"), ("gwn", "s2")),
        ("mul", ["s1", 1 / shape[1]], ["m1"], {}),
        ("mul", ["s2", 1 / shape[1]], ["m2"], {}),
        ("mul", ["normed", "m2"], ["along"], {}),
        ("sub", ["gw", "m1"], ["rest"], {}),
        ("sub", ["rest", "along"], ["left"], {}),
        ("mul", ["left", "r"], ["all"], {}),
        _back("all", dtype),
    ]


def _rotary_lines(shape: tuple[int, int], dtype: str) -> list[Line]:
    half = shape[1] // 2
    return [
        ("Slice", ["X"], ["low"], {"starts": [0], "ends": [half], "axes": [1]}),
        ("Slice", ["X"], ["high"], {"starts": [half], "ends": [2 * half], "axes": [1]}),
        *_wide("low", "high", "c", "s"),
        ("mul", ["low32", "c32"], ["lc"], {}),
        ("mul", ["high32", "s32"], ["hs"], {}),
        ("mul", ["high32", "c32"], ["hc"], {}),
        ("mul", ["low32", "s32"], ["ls"], {}),
        ("sub", ["lc", "hs"], ["first"], {}),
        ("add", ["hc", "ls"], ["second"], {}),
        ("Concat", ["first", "second"], ["both"], {"axis": 1}),
        _back("both", dtype),
    ]


OPS: dict[str, Op] = {
    "softmax": Op(_same, lambda s, d: [("Softmax", ["X"], ["Y"], {"axis": 1})], lambda t, x: (t.softmax(x["X"], 1),)),
    "layernorm": Op(
        lambda s, d: {"X": (d, s), "g": (d, s[1:]), "b": (d, s[1:]), "Y": (d, s)},
        lambda s, d: [("LayerNorm", ["X", "g", "b"], ["Y"], {"axis": 1})],
        lambda t, x: (t.nn.functional.layer_norm(x["X"], x["X"].shape[1:], x["g"], x["b"]),),
    ),
    "rmsnorm": Op(
        lambda s, d: {"X": (d, s), "g": (d, s[1:]), "Y": (d, s)},
        lambda s, d: [("RMSNorm", ["X", "g"], ["Y"], {"axis": 1})],
        computed.rms,
    ),
    "bias_gelu_residual": Op(
        lambda s, d: {"X": (d, s), "b": (d, s[1:]), "R": (d, s), "Y": (d, s)},
        lambda s, d: [
            *_wide("X", "b", "R"),
            ("add", ["X32", "b32"], ["sum"], {}),
            ("gelu", ["sum"], ["gelu"], {}),
            ("add", ["gelu", "R32"], ["all"], {}),
            _back("all", d),
        ],
        computed.biased,
    ),
    "row_sum": Op(
        lambda s, d: {"X": (d, s), "Y": ("fp32", s[:1])},
        lambda s, d: [("Reduce", ["X"], ["Y"], {"op": "sum", "axes": [1]})],
        computed.sum_along(1),
    ),
    "column_sum": Op(
        lambda s, d: {"X": (d, s), "Y": ("fp32", s[1:])},
        lambda s, d: [("Reduce", ["X"], ["Y"], {"op": "sum", "axes": [0]})],
        computed.sum_along(0),
        is_for=lambda s: s[0] > 1,
    ),
    "transpose": Op(
        lambda s, d: {"X": (d, s), "Y": (d, s[::-1])},
        lambda s, d: [("Transpose", ["X"], ["Y"], {"perm": [1, 0]})],
        lambda t, x: (x["X"].t().contiguous(),),
        is_for=lambda s: s[0] > 1,
    ),
    "cumsum": Op(
        _same,
        lambda s, d: [("CumSum", ["X"], ["all"], {"axis": 1}), _back("all", d)],
        lambda t, x: (t.cumsum(x["X"], 1),),
    ),
    "argmax": Op(
        lambda s, d: {"X": (d, s), "Y": ("i64", s[:1])},
        lambda s, d: [("Reduce", ["X"], ["Y"], {"op": "argmax", "axes": [1]})],
        computed.argmax,
    ),
    "cast": Op(
        lambda s, d: {"X": (d, s), "Y": ({"fp16": "fp32", "fp32": "fp16"}[d], s)},
        lambda s, d: [_back("X", {"fp16": "fp32", "fp32": "fp16"}[d])],
        lambda t, x: (x["X"].to({t.float16: t.float32, t.float32: t.float16, t.float64: t.float64}[x["X"].dtype]),),
    ),
    "rotary": Op(
        lambda s, d: {"X": (d, s), "c": (d, (s[0], s[1] // 2)), "s": (d, (s[0], s[1] // 2)), "Y": (d, s)},
        _rotary_lines,
        computed.rotary,
        is_for=lambda s: s[1] % 2 == 0,
    ),
    "cross_entropy": Op(
        lambda s, d: {"X": (d, s), "t": ("i64", s[:1]), "Y": ("fp32", s[:1])},
        lambda s, d: [
            ("Cast", ["X"], ["X32"], {"to": "fp32"}),
            ("LogSoftmax", ["X32"], ["log"], {"axis": 1}),
            ("Reshape", ["t"], ["at"], {"shape": [s[0], 1]}),
            ("GatherElements", ["log", "at"], ["picked"], {"axis": 1}),
            ("Reshape", ["picked"], ["flat"], {"shape": [s[0]]}),
            ("neg", ["flat"], ["Y"], {}),
        ],
        computed.cross_entropy,
    ),
    "swiglu": Op(
        lambda s, d: {"X": (d, s), "Z": (d, s), "Y": (d, s)},
        lambda s, d: [
            *_wide("X", "Z"),
            ("silu", ["X32"], ["gate"], {}),
            ("mul", ["gate", "Z32"], ["all"], {}),
            _back("all", d),
        ],
        lambda t, x: (t.nn.functional.silu(x["X"]) * x["Z"],),
    ),
    "quantise": Op(
        lambda s, d: {"X": (d, s), "Y": ("i8", s), "k": ("fp32", s[:1])},
        lambda s, d: _quantised_lines(s, "i8", 127),
        computed.quantised,
        outputs=2,
    ),
    "dequantise": Op(
        lambda s, d: {"X": ("i8", s), "k": (d, s[:1]), "Y": (d, s)},
        lambda s, d: [
            *_wide("X", "k"),
            ("Reshape", ["k32"], ["each"], {"shape": [s[0], 1]}),
            ("mul", ["X32", "each"], ["all"], {}),
            _back("all", d),
        ],
        computed.dequantised,
    ),
    "quantise_fp8": Op(
        lambda s, d: {"X": (d, s), "Y": ("fp8e4m3", s), "k": ("fp32", s[:1])},
        lambda s, d: _quantised_lines(s, "fp8e4m3", 448),
        computed.quantised_fp8,
        outputs=2,
    ),
    "glu": Op(
        lambda s, d: {"X": (d, s), "Y": (d, (s[0], s[1] // 2))},
        lambda s, d: [
            ("Slice", ["X"], ["low"], {"starts": [0], "ends": [s[1] // 2], "axes": [1]}),
            ("Slice", ["X"], ["high"], {"starts": [s[1] // 2], "ends": [s[1]], "axes": [1]}),
            *_wide("low", "high"),
            ("sigmoid", ["high32"], ["gate"], {}),
            ("mul", ["low32", "gate"], ["all"], {}),
            _back("all", d),
        ],
        lambda t, x: (t.nn.functional.glu(x["X"], 1),),
        is_for=lambda s: s[1] % 2 == 0,
    ),
    "softmax_backward": Op(
        lambda s, d: {"P": (d, s), "G": (d, s), "Y": (d, s)},
        lambda s, d: [
            *_wide("P", "G"),
            ("mul", ["P32", "G32"], ["pg"], {}),
            *_sums(("pg", "sum")),
            ("sub", ["G32", "sum"], ["rest"], {}),
            ("mul", ["P32", "rest"], ["all"], {}),
            _back("all", d),
        ],
        computed.softmax_backward,
    ),
    "layernorm_backward": Op(
        lambda s, d: {
            "X": (d, s),
            "G": (d, s),
            "w": (d, s[1:]),
            "m": ("fp32", (s[0], 1)),
            "r": ("fp32", (s[0], 1)),
            "Y": (d, s),
        },
        _layernorm_backward_lines,
        computed.layernorm_backward,
    ),
    "weights_backward": Op(
        lambda s, d: {
            "X": (d, s),
            "G": (d, s),
            "m": ("fp32", (s[0], 1)),
            "r": ("fp32", (s[0], 1)),
            "Y": ("fp32", s[1:]),
            "Z": ("fp32", s[1:]),
        },
        lambda s, d: [
            *_wide("X", "G"),
            ("sub", ["X32", "m"], ["centred"], {}),
            ("mul", ["centred", "r"], ["normed"], {}),
            ("mul", ["G32", "normed"], ["gn"], {}),
            ("Reduce", ["gn"], ["Y"], {"op": "sum", "axes": [0]}),
            ("Reduce", ["G32"], ["Z"], {"op": "sum", "axes": [0]}),
        ],
        computed.weights_backward,
        outputs=2,
        is_for=lambda s: s[0] > 1,
    ),
    "top_k": Op(
        lambda s, d: {"X": (d, s), "Y": (d, (s[0], 4)), "I": ("i64", (s[0], 4))},
        lambda s, d: [("TopK", ["X"], ["Y", "I"], {"k": 4})],
        lambda t, x: tuple(t.topk(x["X"], 4, 1)),
        outputs=2,
        is_for=lambda s: s[1] <= 32768,
    ),
}


@dataclass(frozen=True)
class Case:
    """An op at a shape in a dtype. With `odd` each input begins one element after an aligned address: as what follows
    the first element of a flat tensor."""

    op: str
    dtype: str
    shape: tuple[int, int]
    odd: bool = False

    @property
    def name(self) -> str:
        """A file's stem."""
        return f"{self.op}_{self.dtype}_{'x'.join(map(str, self.shape))}{'_odd' * self.odd}"

    @property
    def types(self) -> Types:
        """Of each tensor, the outputs last."""
        return OPS[self.op].types(self.shape, self.dtype)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self.types)[-OPS[self.op].outputs :]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.types)[: -OPS[self.op].outputs]

    @property
    def moved(self) -> int:
        """Bytes that cross memory at the least."""
        return sum(BYTES[d] * math.prod(s) for d, s in self.types.values())


def model_of(case: Case) -> str:
    """The model in front-end JSON."""
    lines: list[Line] = []
    types = dict(case.types)
    names = {n: f"{n}.from" if case.odd else n for n in case.inputs}
    for name, flat in names.items() if case.odd else ():
        dtype, shape = types.pop(name)
        size = math.prod(shape)
        types[flat] = (dtype, (size + 1,))
        lines += [
            ("Slice", [flat], [f"{name}.flat"], {"starts": [1], "ends": [size + 1], "axes": [0]}),
            ("Reshape", [f"{name}.flat"], [name], {"shape": list(shape)}),
        ]
    graph = []
    for op, inputs, outputs, attrs in (*lines, *OPS[case.op].lines(case.shape, case.dtype)):
        named = {"op": op} if op[0].isupper() else {"op": "Elementwise", "fn": op}
        graph.append({**named, "name": outputs[0], "inputs": inputs, "outputs": outputs, "attrs": attrs})
    return json.dumps(
        {
            "name": case.op,
            "signature": {
                "inputs": [{"tensor": n} for n in names.values()],
                "outputs": [{"tensor": n} for n in case.outputs],
            },
            "tensors": {n: {"dtype": d, "shape": list(s)} for n, (d, s) in types.items()},
            "graph": graph,
        }
    )


def emitted(case: Case) -> str:
    """The CUDA text."""
    return next(texts_of(case, 1))


def texts_of(case: Case, most: int) -> Iterator[str]:
    """The CUDA text, then those with other plans of the launch that takes longest, as many of the cost model's order as
    make it `most`."""
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.kit.records import replace
    from tinyir.lower import lower_to
    from tinyir.lower import plan as lower_plan

    longest, planned = longest_of(case, card_here())
    several = [longest]
    if most > 1:
        region = planned.program.program.region(longest.regions[0])
        found = lower_plan.candidates(planned.program, region, "sm90", card_here())
        several += [c.plan for c in found if not c.rejected and not c.plan.assume and c.plan != longest]
    for plan in several[:most]:
        changed: Any = replace(planned, plans=tuple(plan if one is longest else one for one in planned.plans))
        for stage in STAGES[STAGES.index("plan") + 1 :]:
            changed = lower_to(stage, changed, "sm90")
        yield manifest.show(changed)


def longest_of(case: Case, card: str | None) -> tuple[Any, Any]:
    """The plan of the launch that takes longest, and all plans."""
    from tinyir.front import read
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to
    from tinyir.lower import plan as lower_plan

    module: Any = read(model_of(case), "memory.json")
    for stage in STAGES[1 : STAGES.index("plan")]:
        module = lower_to(stage, module, "sm90")
    planned: Any = lower_plan.lower(module, device=card)
    return max(planned.plans, key=lambda one: one.estimate.microseconds), planned


def word_of(plan: Any) -> str:
    """A plan in the words of `memory_plans_h200.json`."""
    by, width = plan.cluster.shape if plan.cluster else (), plan.widest
    tile, threads, by = ("x".join(map(str, sizes)) for sizes in (plan.tile, plan.threads, by))
    word = f"{plan.algo} {tile} on {threads}" + f" by {by}" * bool(by) + f" width {width}" * (width > 1)
    return word + " in registers" * (plan.algo == "transposed" and not plan.cache)


def plans_of(text: str) -> list[str]:
    """The plans of a CUDA text, a line each."""
    return [line.removeprefix("// plan ") for line in text.splitlines() if line.startswith("// plan ")]


def operands_of(case: Case) -> dict[str, Any]:
    """Random numbers on the card; outputs hold NaN or -1."""
    import torch

    torch.manual_seed(len(case.name))
    kinds = {"fp32": torch.float32, "fp16": torch.float16, "i8": torch.int8, "i64": torch.int64}
    kinds["fp8e4m3"] = torch.float8_e4m3fn
    found = {}
    for name, (dtype, shape) in case.types.items():
        is_odd = case.odd and name in case.inputs
        size = math.prod(shape) + is_odd
        if dtype == "fp8e4m3":
            flat = torch.full((size,), 0x7F, device="cuda", dtype=torch.uint8).view(kinds[dtype])
        elif name in case.outputs:
            flat = torch.full((size,), -1 if dtype in ("i8", "i64") else math.nan, device="cuda", dtype=kinds[dtype])
        elif dtype in ("i8", "i64"):
            low, high = (-127, 128) if dtype == "i8" else (0, case.shape[1])
            flat = torch.randint(low, high, (size,), device="cuda", dtype=kinds[dtype])
        else:
            flat = torch.randn(size, device="cuda", dtype=kinds[dtype])
        found[name] = flat[is_odd:].view(shape)
    return found


def wanted_of(case: Case, x: Mapping[str, Any]) -> tuple[Any, ...]:
    """The outputs in fp64."""
    import torch

    if case.op == "argmax":  # the first of equal ones
        places = torch.arange(case.shape[1], device="cuda")
        return (torch.where(x["X"] == x["X"].amax(1, keepdim=True), places, case.shape[1]).amin(1).double(),)
    if case.op.startswith("quantise"):
        return OPS[case.op].torch(torch, x)
    exact = {n: x[n].double() if x[n].is_floating_point() else x[n] for n in case.inputs}
    return OPS[case.op].torch(torch, exact)


def error_of(case: Case, found: Iterable[Any], wanted: Iterable[Any]) -> float:
    """The greatest error of the outputs, as a share of each one's largest number. A code may be the next one, where a
    number is half way between two."""
    worst = 0.0
    for got, exact in zip(found, wanted):
        apart = (got.double() - exact.double()).abs()
        if case.op == "top_k" and got.dtype.itemsize == 8:  # of equal elements torch takes any
            continue
        if case.op.startswith("quantise") and got.dtype.itemsize == 1:
            step = exact.double().abs() / 8 if got.dtype.is_floating_point else 1
            apart = (apart - step).clamp(min=0)
        scale = float(exact.double().abs().max())
        if case.op in ("row_sum", "column_sum", "cumsum", "weights_backward"):  # numbers around 0, whose sum may be any
            scale = max(scale, math.sqrt(case.shape[case.op in ("row_sum", "cumsum")]))
        error = float(apart.max()) / max(scale, 1e-30)
        worst = error if math.isnan(error) else max(worst, error)
    return worst
