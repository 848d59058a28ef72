"""A region as a program of its own, so that its plans can be run and timed without the rest of the model.

region gemm, which reads the buffer H   →   model gemm with the input H; program gemm with this one region
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import region
from ..ir.model import Model, Shapes, Tensor
from ..kit.records import replace

MODEL_ATTRS = ("alignment",)


def alone(module: region.Module, names: tuple[str, ...], sizes: dict[str, int]) -> region.Module:
    """The regions `names` (several are joined by deferred buffers) with what they read as the model's inputs and what
    they write as its outputs. Constant buffers and those between them stay buffers; `sizes` become the only shape set;
    where values came from and what must share a kernel is left out, so that equal regions of different models are one
    text."""
    chosen = [_without_origins(one) for one in module.program.regions if one.name in names]
    written = {t.name: t for one in chosen for t in one.outputs}
    read = {t.name: t for one in chosen for t in one.inputs if t.name not in written}
    kept = [b for b in module.program.buffers if b.name in read and b.attr("value") is not None]
    between = [b for b in module.program.buffers if b.name in written and b.attr("materialize") == "deferred"]
    inside = {b.name for b in (*kept, *between)}
    inputs = [_of_signature(t) for name, t in read.items() if name not in inside]
    outputs = [_of_signature(t) for name, t in written.items() if name not in inside]
    model = Model(chosen[0].name, tuple(inputs), tuple(outputs))
    symbols = set(model.symbols())
    model = replace(
        model,
        ranges=tuple(r for r in module.model.ranges if r.symbol in symbols),
        shape_sets=(Shapes("tuned", tuple((s, sizes[s]) for s in model.symbols())),) if symbols else (),
    )
    return region.Module(model, region.Program(chosen[0].name, (*kept, *between), tuple(chosen)))


def _of_signature(tensor: region.Tensor) -> Tensor:
    """The memory of a region's tensor as a tensor of the signature: in rows, whatever its layout was."""
    return Tensor(tensor.name, tensor.type, tuple((k, v) for k, v in tensor.attrs if k in MODEL_ATTRS))


def _without_origins(one: region.Region) -> region.Region:
    lets: Iterable[region.Let] = (replace(let, origin=None) for let in one.lets)
    yields = tuple(replace(item, origin=None) for item in one.yields)
    return replace(one, lets=tuple(lets), yields=yields, must_fuse=())
