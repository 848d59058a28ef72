"""One launch of a program as a program of its own, with the arrays that it is given: what a report of a fault needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import manifest
from ..ir.evaluate import sizes_of
from ..ir.in_place import owner_of
from ..ir.model import Model, Tensor
from ..ir.region import Module as RegionModule
from ..ir.region import Program, Region
from ..kit.diag import refuse
from ..kit.records import replace
from ..play.arrays import bind_symbols
from ..play.region import play


def extracted(module: manifest.Module, name: str) -> manifest.Module:
    """The program of the regions of the launch `name`, or of the one that computes the region `name`: its alternatives,
    what serves it, and the code of all. What those regions read is an input, what they write an output. Raises Refused
    (E1746 no such launch)."""
    launches = {launch.name: launch for launch in module.launches}
    found = launches.get(name) or next((one for one in module.launches if name in one.regions), None)
    if found is None:
        raise refuse("E1746", name, given=name, known=", ".join(launches))
    first = launches[found.serves or found.name]
    own = [one for one in module.launches if (launches[one.serves] if one.serves else one).regions == first.regions]
    regions = tuple(r for r in module.region.program.regions if r.name in first.regions)
    program = _program(module, regions, own)
    mapped = {m for one in own for m in one.maps}
    maps = tuple(m for m in module.maps if m.name in mapped)
    touched = {t for one in own for t in one.tensors} | {m.tensor for m in maps}
    buffers = tuple(b for b in module.buffers if b.name in touched)
    return manifest.Module(program, buffers, maps, tuple(own), module.source)


def _program(module: manifest.Module, regions: tuple[Region, ...], launches: list[manifest.Launch]) -> RegionModule:
    """The region module of these regions alone."""
    whole = module.region
    inside = {t.name for r in regions for t in r.outputs if _is_deferred(whole.program, t.name)}
    types = {t.name: t for t in (*whole.program.buffers, *whole.model.inputs, *whole.model.outputs)}
    kept: dict[str, Tensor] = {}  # buffers that stay buffers: on the chip, constants, views of other memory

    def settled(name: str) -> str | None:
        """The tensor of the signature that a region's tensor is, or None where it stays a buffer."""
        while (buffer := whole.program.buffer(name)) is not None and buffer.attr("alias") is not None:
            kept[name] = buffer
            name = str(buffer.attr("alias"))
        if name in inside or buffer is not None and buffer.attr("value") is not None:
            kept[name] = types[name]
            return None
        return name

    model = whole.model
    states = model.states()
    written = dict.fromkeys(s for r in regions for t in r.outputs if (s := settled(t.name)) is not None)
    read = dict.fromkeys(s for r in regions for t in r.inputs if (s := settled(t.name)) is not None)
    old = {model.memory_of(n) for n in written if n in states or model.memory_of(n) != n}  # states that are written
    written = dict.fromkeys(states.get(n, n) for n in written)
    given = dict.fromkeys([*(n for n in read if n not in written or model.input(n) is not None), *sorted(old)])
    inputs = [model.input(n) or Tensor(n, types[n].type) for n in given]
    outputs = [model.output(n) or Tensor(n, types[n].type) for n in written]
    inputs += _sized(model, Model(model.name, tuple(inputs), tuple(outputs)), launches)
    own = Model(model.name, tuple(inputs), tuple(outputs))
    symbols = set(own.symbols())
    sets = tuple(replace(s, sizes=tuple((k, v) for k, v in s.sizes if k in symbols)) for s in model.shape_sets)
    own = replace(
        own,
        ranges=tuple(r for r in model.ranges if r.symbol in symbols),
        shape_sets=tuple(s for s in sets if s.sizes) if symbols else (),
    )
    return RegionModule(own, Program(whole.program.name, tuple(kept.values()), regions))


def _is_deferred(program: Program, name: str) -> bool:
    buffer = program.buffer(name)
    return buffer is not None and buffer.attr("materialize") == "deferred"


def _sized(whole: Model, own: Model, launches: list[manifest.Launch]) -> list[Tensor]:
    """Inputs of the whole that settle symbols which a launch is passed and none of its own tensors has."""
    found: list[Tensor] = []
    known = set(own.symbols())
    for symbol in dict.fromkeys(s for one in launches for s in one.symbols):
        if symbol not in known:
            tensor = next(t for t in whole.inputs if symbol in {n for d in t.type.shape for n in d.names()})
            known |= {n for d in tensor.type.shape for n in d.names()}
            found.append(tensor)
    return found


def arrays_of(
    module: manifest.Module, case: manifest.Module, arrays: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """What the launch of a case is given in a run of the whole program on `arrays`: the regions before it are played on
    the CPU."""
    sizes = bind_symbols(module.region.model, arrays, sizes)
    whole, first = module.region, case.region.program.regions[0].name
    before = next(at for at, region in enumerate(whole.program.regions) if region.name == first)
    wanted = {t.name: t for t in case.region.model.inputs}
    found = {name: np.asarray(array) for name, array in arrays.items() if name in wanted}

    def keep(name: str, array: np.ndarray) -> None:
        owner = owner_of(whole, name)
        if owner in wanted:
            found[owner] = np.array(array).reshape(sizes_of(wanted[owner].type.shape, sizes))

    regions = whole.program.regions[:before]
    if {owner_of(whole, t.name) for r in regions for t in r.outputs} & set(wanted):
        play(RegionModule(whole.model, replace(whole.program, regions=regions)), arrays, sizes, keep)
    return {name: found[name] for name in wanted}
