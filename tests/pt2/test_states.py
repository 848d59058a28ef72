"""Archives of programs that change what they keep, and of recurrent layers: what torch computed and kept, call by call,
and what we give and keep. `make_states.py` says how the archives came to be."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir import front
from tinyir.front.pt2 import to_json
from tinyir.ir import tiny
from tinyir.sim.host import COMPILERS

from .archives import members_of
from .test_pt2 import agree

ARCHIVES = Path(__file__).parent / "states.tar.xz"
SIMULATED = ("cache_copied.core", "cache_put", "net.core", "norm", "counter", "ring", "last")
assert COMPILERS


NAMES = sorted(n.removesuffix(".pt2") for n in members_of(ARCHIVES) if n.endswith(".pt2"))


def calls_of(name: str) -> list[dict[str, np.ndarray]]:
    """What each call was given, gave and left."""
    arrays = np.load(io.BytesIO(members_of(ARCHIVES)[f"{name.removesuffix('.core')}.npz"]))
    found: dict[int, dict[str, np.ndarray]] = {}
    for key in arrays.files:
        call, _, word = key.partition(".")
        found.setdefault(int(call), {})[word] = arrays[key]
    return [found[n] for n in sorted(found)]


def side(call: dict[str, np.ndarray], letter: str) -> list[np.ndarray]:
    """The arrays `i0`, `i1`, ... of a call, or those of another letter."""
    return [call[f"{letter}{n}"] for n in range(len(call)) if f"{letter}{n}" in call]


@pytest.mark.parametrize("name", NAMES)
def test_keeps_what_torch_keeps(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.pt2"
    file.write_bytes(members_of(ARCHIVES)[file.name])
    module = front.read(to_json(file.read_bytes(), file.name))
    assert [d for d in tiny.check(module) if d.is_error] == []
    follow(file, calls_of(name), "sim" if name in SIMULATED else "cpu")


def follow(file: Path, calls: list[dict[str, np.ndarray]], device: Any) -> None:
    """Every call, from the state that the one before left."""
    with tinyir.compile(file, device=device) as program:
        states = dict(program._session.model.states())
        outputs = [t.name for t in program._session.model.outputs if t.name not in states.values()]
        for call in calls:
            given = side(call, "i")
            names = [t.name for t in program._session.model.inputs if not t.attrs or t.attr("file") is None]
            found = program(**dict(zip(names, given, strict=True)))
            wanted = side(call, "o")
            agree([found[n].reshape(w.shape) for n, w in zip(outputs, wanted, strict=True)], wanted)
            kept = {word[2:]: array for word, array in call.items() if word.startswith("b.")}
            assert kept.keys() == {s for s in states if s not in names}
            agree([program.states[n] for n in kept], list(kept.values()))
            for n, (name, before, after) in enumerate(zip(names, given, side(call, "m"))):
                assert (name in states) == (not np.array_equal(before, after)), n
                if name in states:
                    agree([found[states[name]]], [after])


def test_states_of_these_are_written_in_place() -> None:
    """But for one whose rows change places, and one whose old and new value are wanted at all rows of a batch."""
    from tinyir.lower import lower_to
    from tinyir.lower import region as to_region

    copied = set()
    for name in NAMES:
        module: Any = front.read(to_json(members_of(ARCHIVES)[f"{name}.pt2"], f"{name}.pt2"))
        for stage in ("index", "poly"):
            module = lower_to(stage, module, "sm90")
        said = [d for d in to_region.verdicts(module) if d.code in ("R3406", "R3407")]
        copied |= {name for d in said if d.code == "R3407"}
    assert copied == {"mean", "mean.core", "ring", "ring.core"}
