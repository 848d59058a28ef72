"""Archives of torch.export: what torch computed, and what we play back. `make.py` and `make_composed.py` say how the
archives came to be."""

from __future__ import annotations

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tinyir
from tinyir import front
from tinyir.front.pt2 import to_json
from tinyir.ir import tiny
from tinyir.play.tiny import play
from tinyir.runtime.weights import read_weights

from .archives import members_of

ARCHIVES = [Path(__file__).parent / f"{name}.tar.xz" for name in ("archives", "composed")]
# How far an output may be from torch's, of the largest number of that output.
NEAR = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 1e-2}
WHOLE = ("linear", "open_attention", "tied")  # that go through the whole compiler


MEMBERS = {name: body for archive in ARCHIVES for name, body in members_of(archive).items()}
NAMES = sorted(n.removesuffix(".pt2") for n in MEMBERS if n.endswith(".pt2"))


def arrays_of(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The inputs of a program, and what torch computed of them: bf16 is kept as fp32."""
    arrays = np.load(io.BytesIO(MEMBERS[f"{name.removesuffix('.core')}.npz"]))
    given, wanted = ([arrays[n] for n in arrays.files if n[0] == side] for side in "io")
    if name.startswith("binary_bf16"):
        given = [g.astype(ml_dtypes.bfloat16) for g in given]
    return given, wanted


def agree(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for own, truth in zip(found, wanted):
        assert own.shape == truth.shape
        if truth.dtype.kind != "f":
            assert own.dtype == truth.dtype and np.array_equal(own, truth)
            continue
        near = NEAR[own.dtype.name]
        assert own.dtype == truth.dtype or own.dtype.name == "bfloat16"
        largest = np.abs(truth[np.isfinite(truth)]).max(initial=1e-3)
        np.testing.assert_allclose(own.astype(truth.dtype), truth, rtol=0, atol=near * float(largest))


def played(file: Path, given: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an archive as it is imported, without a fault."""
    module = front.read(to_json(file.read_bytes(), file.name))
    assert [d for d in tiny.check(module) if d.is_error] == []
    weights = read_weights(module.model, file.parent)
    inputs = [t.name for t in module.model.inputs if t.name not in weights]
    found = play(module, weights | dict(zip(inputs, given, strict=True)))
    return [found[t.name] for t in module.model.outputs]


@pytest.mark.parametrize("name", NAMES)
def test_plays_what_torch_computed(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.pt2"
    file.write_bytes(MEMBERS[file.name])
    given, wanted = arrays_of(name)
    results = played(file, given)
    if name.startswith("lstm"):  # export keeps an axis of size 1 of the states that the module drops
        results[1:] = [f.reshape(w.shape) for f, w in zip(results[1:], wanted[1:])]
    agree(results, wanted)


@pytest.mark.parametrize("name", WHOLE)
def test_compiles_what_torch_exported(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.pt2"
    file.write_bytes(MEMBERS[file.name])
    given, wanted = arrays_of(name)
    with tinyir.compile(file, device="sim") as program:
        agree(list(program(*given).values()), wanted)


def test_every_op_is_in_a_program_that_torch_ran() -> None:
    """But those that torch decomposes before it exports, and other overloads of the ones that are."""
    import json
    import zipfile

    from tinyir.front.pt2 import ops  # noqa: F401
    from tinyir.front.pt2.nodes import functional, word_of
    from tinyir.front.pt2.table import ATEN_OPS

    seen = set()
    for name, raw in MEMBERS.items():
        if name.endswith(".pt2"):
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                model = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("model.json"))))
            nodes = model["graph_module"]["graph"]["nodes"]
            seen |= {functional(word_of(n["target"])).partition(".")[0] for n in nodes}
    families = {word.partition(".")[0] for word in ATEN_OPS}
    assert len(seen & families) >= 350
    assert len(seen & families) >= 0.7 * len(families), sorted(families - seen)
