"""The ONNX backend suite as plain arrays, the same in every process.

The node tests are built by importing `onnx.backend.test.case.node`, which draws their data from NumPy's generators;
these are seeded first. Operands that are attributes by nature (the shape of a Reshape) are inputs of the model there; a
compiler wants them beforehand, so `Case.frozen` makes initialisers of them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

# Operands that a static compiler wants beforehand, by op and position.
PARAMETERS = {
    "Reshape": [1],
    "Expand": [1],
    "Tile": [1],
    "Slice": [1, 2, 3, 4],
    "Pad": [1, 2, 3],
    "Squeeze": [1],
    "Unsqueeze": [1],
    "Split": [1],
    "CumSum": [1],
    "CumProd": [1],
    "Resize": [1, 2, 3],
    "Upsample": [1],
    "TopK": [1],
    "ConstantOfShape": [0],
    "Range": [0, 1, 2],
    "OneHot": [1],
    "Trilu": [1],
    "CenterCropPad": [1],
    "DFT": [1, 2],
    "Col2Im": [1, 2],
    "AffineGrid": [1],
    "STFT": [1, 3],
    "MaxUnpool": [2],
    "BlackmanWindow": [0],
    "HammingWindow": [0],
    "HannWindow": [0],
    "MelWeightMatrix": [0, 1, 2, 3, 4],
    "Dropout": [1, 2],
    **{
        f"Reduce{r}": [1] for r in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}
# What is left to later, and what a compiler of tensor programs is not asked for.
STRETCH = set(
    """GRU LSTM RNN CausalConvWithState AffineGrid GridSample Resize RoiAlign MaxRoiPool Upsample Col2Im DeformConv MaxUnpool ConvInteger
    DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear BlackmanWindow DFT HammingWindow HannWindow
    MelWeightMatrix STFT Det TopK Adagrad Adam Momentum FlexAttention""".split()  # noqa: E501
)
OUT = set(
    """Compress NonMaxSuppression NonZero Unique Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike RegexFullMatch
    StringConcat StringNormalizer StringSplit TfIdfVectorizer ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence If Loop Scan ImageDecoder""".split()  # noqa: E501
)


@dataclass(frozen=True)
class Case:
    """One test: a model, its inputs by name, and the outputs in the order of the graph. `scope` is `in`, `stretch` or
    `out`."""

    name: str
    op: str
    scope: str
    model: onnx.ModelProto
    inputs: dict[str, Any]
    outputs: list[Any]
    parameters: tuple[str, ...] = ()
    rtol: float = 1e-3
    atol: float = 1e-7

    def frozen(self) -> Case:
        """The same case with its attribute-like operands as initialisers."""
        if not self.parameters:
            return self
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for name in self.parameters:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(self.inputs[name]), name))
        left = [v for v in model.graph.input if v.name not in self.parameters]
        del model.graph.input[:]
        model.graph.input.extend(left)
        return replace(
            self, model=model, inputs={k: v for k, v in self.inputs.items() if k not in self.parameters}, parameters=()
        )


def node_cases() -> list[Case]:
    """Every node test, in the suite's order."""
    raw = list(_built())
    models = {name: model for name, model, *_ in raw}
    return [_case(models, *entry) for entry in raw]


def folder_cases(folder: Path) -> list[Case]:
    """Every test of a folder of the wheel's `data`: NAME/{model.onnx, test_data_set_0/{input_0.pb, output_0.pb}}."""
    found = []
    for place in sorted(p.parent for p in folder.glob("*/model.onnx")):
        model = onnx.load(place / "model.onnx")
        for data in sorted(place.glob("test_data_set_*")):
            names = [i.name for i in model.graph.input]
            inputs = {
                n: _read(data / f"input_{i}.pb", model.graph.input[i].type)
                for i, n in enumerate(names)
                if (data / f"input_{i}.pb").exists()
            }
            outputs = [_read(data / f"output_{i}.pb", o.type) for i, o in enumerate(model.graph.output)]
            found.append(Case(place.name, place.name.split("_")[1], "in", model, inputs, outputs))
    return found


def _built() -> Iterator[tuple[str, onnx.ModelProto, list[Any], list[Any], float, float]]:
    state, generator = np.random.get_state(), np.random.default_rng
    np.random.seed(0)
    np.random.default_rng = lambda seed=None: generator(0 if seed is None else seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.case.node import collect_testcases

            cases = collect_testcases(None)
    finally:
        np.random.default_rng = generator
        np.random.set_state(state)
    for test in cases:
        for k, (inputs, outputs) in enumerate(test.data_sets):
            name = test.name if len(test.data_sets) == 1 else f"{test.name}#{k}"
            yield name, test.model, [_plain(x) for x in inputs], [_plain(x) for x in outputs], test.rtol, test.atol


def _case(
    models: dict[str, onnx.ModelProto],
    name: str,
    model: onnx.ModelProto,
    inputs: list[Any],
    outputs: list[Any],
    rtol: float,
    atol: float,
) -> Case:
    base = re.sub(r"_expanded(_ver\d+)?$", "", name)
    reference = models.get(base, model)
    op, domain = _tested(base, reference)
    names = [v.name for v in model.graph.input]
    if len(inputs) > len(names):  # a None may mean an operand that is absent
        inputs = [x for x in inputs if x is not None]
    given = dict(zip(names, inputs))
    parameters = set()
    if len(reference.graph.node) == 1:
        own = reference.graph.node[0].input
        parameters = {own[i] for i in PARAMETERS.get(op, []) if i < len(own)}
    chosen = tuple(n for n, x in given.items() if n in parameters and isinstance(x, np.ndarray))
    return Case(name, op, _scope(name, op, domain, model), model, given, outputs, chosen, rtol, atol)


def _scope(name: str, op: str, domain: str, model: onnx.ModelProto) -> str:
    values = [*model.graph.input, *model.graph.output]
    is_preview = domain.startswith("ai.onnx.preview")
    if (
        domain not in ("", "ai.onnx")
        and not is_preview
        or op in OUT
        or any(v.type.WhichOneof("value") != "tensor_type" for v in values)
    ):
        return "out"
    if (
        any(v.type.tensor_type.elem_type == TensorProto.STRING for v in values)
        or name.startswith("test_training_dropout")
        and "zero_ratio" not in name
    ):
        return "out"
    return "stretch" if is_preview or op in STRETCH else "in"


def _tested(name: str, model: onnx.ModelProto) -> tuple[str, str]:
    """The op that a test is about: the only one, that of control flow or sequences, or the one that the test is called
    after."""
    nodes = list(model.graph.node)
    for node in nodes:
        if (
            len(nodes) == 1
            or node.op_type in ("If", "Loop", "Scan")
            or node.op_type.startswith(("Sequence", "Optional"))
        ):
            return node.op_type, node.domain
    key = name.removeprefix("test_").split("#")[0].replace("_", "").lower()
    best = max(nodes, key=lambda n: len(n.op_type) if key.startswith(n.op_type.lower()) else 0)
    return best.op_type, best.domain


def _plain(item: Any) -> Any:
    if isinstance(item, TensorProto):
        return numpy_helper.to_array(item)
    if isinstance(item, (list, tuple)):
        return [_plain(i) for i in item]
    return item if item is None or isinstance(item, (np.ndarray, str, bytes)) else np.asarray(item)


def _read(file: Path, kind: Any) -> Any:
    raw = file.read_bytes()
    if kind.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if kind.WhichOneof("value") == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(TensorProto.FromString(raw))
