"""A piece of an output is computed before its place is free only where registers hold it beside the accumulators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir import plan
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.lower import gpu

PLAN = (Path(__file__).parents[2] / "samples" / "mlp" / "mlp.plan").read_text(encoding="utf-8")


@pytest.mark.parametrize(("tile", "is_early"), [("256, 192, 64", False), ("256, 128, 64", True)])
def test_a_gelu_is_computed_early_where_registers_hold_a_piece(tile: str, is_early: bool) -> None:
    assert "[256, 192, 64]" in PLAN
    up, _ = gpu.lower(plan.parse(PLAN.replace("[256, 192, 64]", f"[{tile}]", 1))).kernels
    held = [s for s in statements(up.body) if isinstance(s, nodes.Reg) and s.name.endswith(".held")]
    assert bool(held) is is_early
