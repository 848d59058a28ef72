"""What memory a program takes: by buffer and lifetime, near the least that any placement needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models import bert, gpt2, llama, resnet50, vit, whisper
from tinyir.api import lowered
from tinyir.cmd.tiny_run import main
from tinyir.ir import manifest
from tinyir.runtime.memory import memory_of, show

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "samples").glob("*/*.cu"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_buffers_lie_apart_while_they_live(path: Path) -> None:
    module = manifest.parse(path.read_text(encoding="utf-8"))
    found = memory_of(module, dict(module.region.model.shape_sets[0].sizes) if module.region.model.shape_sets else {})
    for one in found.placed:
        assert 0 <= one.at and one.at + one.life.bytes <= found.arena
        assert 0 <= one.life.first <= one.life.last < len(found.launches)
        for other in found.placed:
            if other is not one and one.life.meets(other.life):
                assert one.at + one.life.bytes <= other.at or other.at + other.life.bytes <= one.at
    assert found.live <= found.arena <= 1.2 * found.live


def test_the_command_prints_it_and_runs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--memory", "--size", "N=4", str(ROOT / "samples" / "resnet_block" / "resnet_block.cu")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "memory at N = 4"
    assert [line.split()[:3] for line in lines[1:6]] == [
        ["inputs", "1605632", "B"],
        ["weights", "148480", "B"],
        ["outputs", "1605632", "B"],
        ["once", "147968", "B"],
        ["arena", "3211264", "B"],
    ]
    assert lines[7].split() == ["0", "1605632", "conv1.X", "##.", "conv1.X", "to", "conv1"]
    assert lines[8].split() == ["1605632", "1605632", "h", ".##", "conv1", "to", "conv2"]


def test_sizes_that_are_not_known_are_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--memory", "--size", "Q=4", str(ROOT / "samples" / "mlp" / "mlp.cu")]) == 1
    assert "E1714" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("network", [resnet50, bert, gpt2, llama, vit, whisper])
def test_networks_take_at_most_a_fifth_more_than_what_lives_at_once(network: Any) -> None:
    found = memory_of(lowered(network(dtype="fp16").text, "cpu")[1], {})
    assert found.arena <= 1.2 * found.live, show(found)
