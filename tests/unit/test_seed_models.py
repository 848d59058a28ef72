"""Every model of the golden cases, the seeds' among them: region text gives what tiny text gives, tiny-check has
nothing to say of it, and it has a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import region, tiny
from tinyir.lower import lower_to
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny
from tinyir.runtime.arrays import random_arrays

from .checked import check_plan

ROOT = Path(__file__).resolve().parents[2]
HEADER = "tinyir 1.0 tiny\n"
SMALL = 2  # of a symbol, or the nearest that its range allows: windows, strides and dilations among them
MODELS = [
    p
    for p in sorted((*ROOT.glob("tests/golden/front/*.out"), *ROOT.glob("samples/*/*.tiny")))
    if p.read_text(encoding="utf-8").startswith(HEADER)
]


def test_there_are_many() -> None:
    names = {p.stem for p in MODELS}
    assert (
        len(names) > 25
        and {
            "nodeid_dump_gemm",
            "nodeid_dump_conv",
            "nodeid_dump_attention_mended",
            "nodeid_conv",
            "dsl_seed",
            "conv_attention",
        }
        <= names
    )


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_regions_give_what_the_model_gives(path: Path) -> None:
    module = tiny.parse(path.read_text(encoding="utf-8"))
    found = module
    for stage in ("index", "poly", "region"):
        found = lower_to(stage, found, "sm90")
    assert [d for d in region.check(found) if d.is_error] == [] and region.parse(region.show(found)) == found
    assert [d for d in check_plan(lower_to("plan", found, "sm90")) if d.is_error] == []
    sizes = {
        s: min(max(SMALL, module.model.range_of(s).low), module.model.range_of(s).high) for s in module.model.symbols()
    }
    arrays = random_arrays(module.model, sizes, 0)
    wanted, given = play_tiny(module, arrays, sizes), play_region(found, arrays, sizes)
    assert wanted.keys() == given.keys()
    for name, array in wanted.items():
        near = 2e-2 if array.dtype.itemsize == 2 else 1e-4
        np.testing.assert_allclose(given[name].astype(np.float64), array.astype(np.float64), rtol=near, atol=near)
