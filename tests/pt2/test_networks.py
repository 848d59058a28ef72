"""Networks of transformers, timm and torchvision as torch.export wrote them, imported and played without torch beside
what torch computed. `make_networks.py` says how the archives came to be; `tests/gpu/test_pt2` runs them on a card."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir

from .archives import filled, members_of
from .test_pt2 import agree, played

ARCHIVES = Path(__file__).parent / "networks.tar.xz"
NAMES = sorted(n.removesuffix(".pt2") for n in members_of(ARCHIVES) if n.endswith(".pt2"))


def network(name: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """The archive with its weights, the inputs, and what torch computed."""
    file = folder / f"{name}.pt2"
    file.write_bytes(filled(members_of(ARCHIVES)[file.name]))
    arrays = np.load(io.BytesIO(members_of(ARCHIVES)[f"{name}.npz"]))
    given, wanted = ([arrays[n] for n in arrays.files if n[0] == side] for side in "io")
    return file, given, wanted


def follows_torch(name: str, folder: Path, device: Any) -> None:
    """Compiled for a device, the network gives what torch gave."""
    file, given, wanted = network(name, folder)
    with tinyir.compile(file, device=device) as program:
        agree(list(program(*given).values()), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_plays_what_torch_computed(name: str, tmp_path: Path) -> None:
    file, given, wanted = network(name, tmp_path)
    agree(played(file, given), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_compiles_what_torch_exported(name: str, tmp_path: Path) -> None:
    follows_torch(name, tmp_path, "cpu")
