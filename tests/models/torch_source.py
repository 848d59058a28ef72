"""A model's graph as a torch module: one line of `forward` an op, its weights the module's parameters. For comparison
and as a rival."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .network import RandomModel

Op = Mapping[str, Any]
HEAD = """\
class Network(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        for name, value in weights.items():
            self.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))

    def forward(self, {inputs}):
"""


def source_of(model: RandomModel) -> str:
    """The module's Python text: a class `Network`, made with the weights by their names here (`variables_of`)."""
    names = variables_of(model)
    inputs = [names[e["tensor"]] for e in model.graph["signature"]["inputs"] if e.get("role") != "param"]
    lines = [HEAD.format(inputs=", ".join(inputs))]
    for op in model.graph["graph"]:
        given = [names[i] if isinstance(i, str) else repr(i) for i in op["inputs"]]
        shapes = [model.graph["tensors"][o]["shape"] for o in op["outputs"]]
        value = WRITERS[op["op"]](
            {
                **op.get("attrs", {}),
                **{k: op[k] for k in ("fn",) if k in op},
                "shapes": shapes,
                "given": _shapes_of(model, op),
            },
            *given,
        )
        lines.append(f"        {', '.join(names[o] for o in op['outputs'])} = {value}\n")
    results = ", ".join(names[e["tensor"]] for e in model.graph["signature"]["outputs"])
    return "".join([*lines, f"        return {results},\n"])


def torch_network(model: RandomModel, arrays: Mapping[str, np.ndarray], dtype: Any, device: str = "cuda") -> Any:
    """The module on a device, its weights of one float dtype."""
    import torch

    names = variables_of(model)
    weights = {names[n].removeprefix("self."): torch.from_numpy(arrays[n]).to(device, dtype) for n in model.weights}
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source_of(model), f"{model.name}.py", "exec"), scope)  # our own text
    return scope["Network"](weights).eval()


def variables_of(model: RandomModel) -> dict[str, str]:
    """Tensor -> what it is called in the text."""
    weights = set(model.weights)
    return {name: f"self.w{n}" if name in weights else f"v{n}" for n, name in enumerate(model.graph["tensors"])}


def _shapes_of(model: RandomModel, op: Op) -> list[Any]:
    return [model.graph["tensors"][i]["shape"] if isinstance(i, str) else [] for i in op["inputs"]]


# --- one writer an op: its attributes (with `shapes` of its outputs and `given` of its inputs), then what its inputs are called  # noqa: E501


FUNCTIONAL = {"silu": "silu", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid"}


def _elementwise(a: Op, *x: str) -> str:
    if a["fn"] == "gelu":
        return f"F.gelu({x[0]}, approximate={a.get('approximate', 'none')!r})"
    if a["fn"] in FUNCTIONAL:
        return f"F.{FUNCTIONAL[a['fn']]}({x[0]})"
    return f"torch.{a['fn']}({', '.join(x)})"


def _gemm(a: Op, x: str, w: str, *bias: str) -> str:
    turned = w if a.get("transB") else f"{w}.mT"
    return f"F.linear({', '.join((x, turned, *bias))})"


def _conv(a: Op, *x: str) -> str:
    rank = len(a["shapes"][0]) - 2
    how = f"stride={a['stride'][0]}, padding={a['pad'][0]}, groups={a.get('groups', 1)}"
    return f"F.conv{rank}d({', '.join(x)}, {how})"


def _pool(a: Op, x: str) -> str:
    if "kernel" not in a:
        return f"{x}.mean((2, 3), keepdim=True)"
    word = {"max": "max", "average": "avg"}[a["mode"]]
    return f"F.{word}_pool2d({x}, {a['kernel'][0]}, {a['stride'][0]}, {a['pad'][0]})"


def _attention(a: Op, q: str, k: str, v: str, *mask: str) -> str:
    queries, keys = (shape[1] for shape in a["given"][:2])
    how = [f"attn_mask={m}" for m in mask] + ["is_causal=True"] * bool(a.get("causal"))
    how = ", ".join(how + ["enable_gqa=True"] * (queries != keys))
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, {how})"


def _slice(a: Op, x: str) -> str:
    (axis,), (low,), (high,) = a["axes"], a["starts"], a["ends"]
    return f"{x}[{':, ' * axis}{low}:{high}]"


WRITERS: dict[str, Callable[..., str]] = {
    "Elementwise": _elementwise,
    "GEMM": _gemm,
    "Conv": _conv,
    "Pool": _pool,
    "Attention": _attention,
    "Slice": _slice,
    "BatchNorm": lambda a, x, scale, shift, mean, variance: f"F.batch_norm({x}, {mean}, {variance}, {scale}, {shift})",
    "LayerNorm": lambda a, x, *rest: f"F.layer_norm({x}, {tuple(a['shapes'][0][-1:])}, {', '.join(rest)})",
    "GroupNorm": lambda a, x, scale, shift: f"F.group_norm({x}, {a['groups']}, {scale}, {shift})",
    "Resize": lambda a, x: f"F.interpolate({x}, scale_factor={a['scales'][0]}, mode='nearest')",
    "RMSNorm": lambda a, x, scale: f"F.rms_norm({x}, {tuple(a['shapes'][0][-1:])}, {scale}, 1e-5)",
    "Embedding": lambda a, table, ids: f"F.embedding({ids}, {table})",
    "Split": lambda a, x: f"{x}.chunk({a['parts']}, {a['axis']})",
    "Concat": lambda a, *x: f"torch.cat(({', '.join(x)}), {a['axis']})",
    "Expand": lambda a, x: f"{x}.expand({a['shape']})",
    "Flatten": lambda a, x: f"{x}.flatten(1)",
    "Reshape": lambda a, x: f"{x}.reshape({a['shape']})",
    "Transpose": lambda a, x: f"{x}.permute({a['perm']})",
}
