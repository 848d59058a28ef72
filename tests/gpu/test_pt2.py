"""Networks as torch.export wrote them, on the card: what torch computed of them is what they give there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pt2.test_networks import NAMES, follows_torch
from tinyir.runtime.cuda import find_fault

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason="no GPU")]


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_torch_gives(name: str, tmp_path: Path) -> None:
    follows_torch(name, tmp_path, "cuda")
