"""One program at every stage that can be played back: tiny, the book of index text, region, and the emitted kernels in
simulation. All must agree, and isl must find book and blocks to say what the program does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from tinyir.analysis.validate import validate_index
from tinyir.analysis.validate_blocks import validate_poly
from tinyir.front.json import read
from tinyir.ir import index, manifest, poly, region, tiny
from tinyir.lower import lower_to
from tinyir.play.book import play as play_book
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

HEADER = "tinyir 1.0 tiny"
needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
Arrays = Mapping[str, np.ndarray]


class Stages:
    """A model (front-end JSON, or tiny text) lowered once; played as often as wanted, for any sizes of its symbols."""

    def __init__(self, text: str):
        module = tiny.parse(text) if text.startswith(HEADER) else read(text)
        assert [d.code for d in tiny.check(module) if d.is_error] == []
        self.tiny = tiny.parse(tiny.show(module))
        assert self.tiny == module
        self.modules: dict[str, Any] = {"tiny": module}
        for stage in ("index", "poly", "region"):
            module = self.modules[stage] = lower_to(stage, module, "sm90")
        self.index = index.parse(index.show(self.modules["index"]))
        self.poly = poly.parse(poly.show(self.modules["poly"]))
        assert [d.code for d in poly.check(self.poly) if d.is_error] == []
        assert validate_index(self.index) == [] and validate_poly(self.poly) == []
        self.region = region.parse(region.show(module))
        assert [d.code for d in region.check(self.region) if d.is_error] == []
        self.emitted: str | None = None

    def cuda(self) -> str:
        """The emitted text."""
        if self.emitted is None:
            module = self.region
            for stage in ("plan", "gpu", "cu"):
                module = lower_to(stage, module, "sm90")
            self.emitted = manifest.show(module)
        return self.emitted

    def outputs(self, arrays: Arrays, is_simulated: bool = False) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """(stage, outputs by name) of each playback."""
        yield "tiny", play_tiny(self.tiny, arrays)
        yield "index", play_book(self.index, arrays)
        yield "region", play_region(self.region, arrays)
        if is_simulated:
            yield "sim", run(self.cuda(), arrays, device="sim")[0]

    def assert_gives(self, arrays: Arrays, wanted: Mapping[str, Any], is_simulated: bool = False) -> None:
        """Every playback gives exactly the wanted outputs."""
        for stage, found in self.outputs(arrays, is_simulated):
            assert found.keys() == wanted.keys(), stage
            for name, array in wanted.items():
                np.testing.assert_array_equal(
                    _wide(found[name]), _wide(np.asarray(array)), err_msg=f"{name} at {stage}"
                )
                assert (found[name].shape, found[name].dtype) == (np.shape(array), np.asarray(array).dtype), (
                    f"{name} at {stage}"
                )


def _wide(array: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype whose NaN NumPy knows."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float64)


def graph(
    inputs: Mapping[str, tuple[str, list[Any]]],
    outputs: Mapping[str, tuple[str, list[Any]]],
    *ops: tuple[str, list[Any], str, dict[str, Any]],
    **more: Any,
) -> str:
    """Front-end JSON of tensors (dtype, shape) and ops (op, inputs, output, attributes)."""
    import json

    tensors = {n: {"dtype": d, "shape": s} for n, (d, s) in {**inputs, **outputs}.items()}
    listed = {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": n} for n in outputs]}
    made = [{"op": op, "name": out, "inputs": given, "outputs": [out], "attrs": attrs} for op, given, out, attrs in ops]
    return json.dumps({"signature": listed, "tensors": tensors, "graph": made, **more})
